//! Requests to the admin port, as a probe and Prometheus make them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Returns the status and the body of `GET path` at the admin port. Returns `None` if nobody
/// answers.
pub fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Values of a metric, by their labels as they are written.
pub type Samples = BTreeMap<String, f64>;

/// Parses the Prometheus text format into samples by name. Fails on anything else.
pub fn parse(text: &str) -> BTreeMap<String, Samples> {
    let mut metrics: BTreeMap<String, Samples> = BTreeMap::new();
    let mut families = BTreeMap::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, labels) = match sample.split_once('{') {
            Some((name, labels)) => {
                (name, labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}")))
            }
            None => (sample, ""),
        };
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        let is_known = families.contains_key(name)
            || family.is_some_and(|family| families.get(family).is_some_and(|k| k == "histogram"));
        assert!(is_known, "a sample without a type: {line}");
        metrics.entry(name.to_owned()).or_default().insert(labels.to_owned(), value);
    }
    metrics
}
