//! Metrics of a server: reading the Prometheus text format of `/metrics`, and the difference
//! between two readings.

use std::collections::BTreeMap;
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpStream;

/// Maximum time and maximum size of one reading.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_BYTES: usize = 16 << 20;

/// One reading: values by series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics(BTreeMap<Series, f64>);

/// Metric with its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    name: String,
    labels: Vec<(String, String)>,
}

/// Work of one kind that a server did in a phase, from a histogram in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerPart {
    /// Name of the metric with its labels.
    pub name: String,
    /// Kind of work, guessed from the name: `rpc` (all of a request), `queue`, `store` or
    /// `compute`.
    pub kind: &'static str,
    /// Number of observations.
    pub count: u64,
    /// Sum of all observations in seconds.
    pub total_secs: f64,
    /// Mean in milliseconds.
    pub mean_ms: f64,
    /// Upper bound of the median in milliseconds, as fine as the buckets of the histogram. Absent
    /// beyond the last bucket.
    pub p50_ms: Option<f64>,
    /// Upper bound of the 99th percentile in milliseconds, likewise.
    pub p99_ms: Option<f64>,
}

impl Metrics {
    /// Fetches `/metrics` of an admin address, such as `http://127.0.0.1:9421`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is not valid, and
    /// [`ErrorKind::Unavailable`] if the server does not answer as it should. Returns
    /// [`ErrorKind::DeadlineExceeded`] if it does not answer in time.
    pub async fn fetch(admin: &str) -> Result<Self, Error> {
        let reading = tokio::time::timeout(PATIENCE, fetch(admin)).await;
        let text = reading.map_err(|_elapsed| Error::deadline("reading metrics"))??;
        Ok(Self::parse(&text))
    }

    /// Parses the text format. Unknown lines are left out.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(parse_line).collect())
    }

    /// Adds the metrics of another server.
    pub fn add(&mut self, other: Self) {
        for (series, value) in other.0 {
            *self.0.entry(series).or_default() += value;
        }
    }

    /// Returns the sum of a gauge over its labels. Returns `None` if the name of no metric ends
    /// with `ending`.
    pub fn sum_ending(&self, ending: &str) -> Option<f64> {
        let values = self.0.iter().filter(|(series, _)| series.name.ends_with(ending));
        values.map(|(_, value)| *value).fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    /// Returns the observations of the histograms in seconds since `before`, sorted by total time,
    /// the longest first.
    pub fn parts_since(&self, before: &Self) -> Vec<ServerPart> {
        let since = |series: &Series| {
            let (now, then) = (self.0.get(series), before.0.get(series));
            // A server that restarted counts from 0.
            let (now, then) = (now.copied().unwrap_or(0.0), then.copied().unwrap_or(0.0));
            if now < then { now } else { now - then }
        };
        let named = |base: &str, ending: &str, labels: &[(String, String)]| Series {
            name: format!("{base}_{ending}"),
            labels: labels.to_vec(),
        };
        let counts = self.0.keys().filter_map(|series| {
            let base = series.name.strip_suffix("_count")?;
            base.ends_with("_seconds").then_some((base, &series.labels))
        });
        let mut parts: Vec<ServerPart> = counts
            .filter_map(|(base, labels)| {
                let count = since(&named(base, "count", labels));
                let total_secs = since(&named(base, "sum", labels));
                let buckets = self.buckets(base, labels, since);
                let at = |share: f64| {
                    let wanted = share * count;
                    let reached = buckets.iter().find(|(_, below)| *below >= wanted)?;
                    reached.0.is_finite().then_some(reached.0 * 1000.0)
                };
                (count >= 1.0).then(|| ServerPart {
                    name: shown(base, labels),
                    kind: kind_of(base, labels),
                    count: count as u64,
                    total_secs,
                    mean_ms: total_secs / count * 1000.0,
                    p50_ms: at(0.5),
                    p99_ms: at(0.99),
                })
            })
            .collect();
        parts.sort_by(|a, b| b.total_secs.total_cmp(&a.total_secs));
        parts
    }

    /// Returns the upper bounds of buckets in seconds, ascending, with the numbers of observations
    /// below them.
    fn buckets(
        &self,
        base: &str,
        labels: &[(String, String)],
        since: impl Fn(&Series) -> f64,
    ) -> Vec<(f64, f64)> {
        let name = format!("{base}_bucket");
        let of_it = self.0.keys().filter(|series| series.name == name);
        let mut buckets: Vec<(f64, f64)> = of_it
            .filter_map(|series| {
                let (bounds, others): (Vec<_>, Vec<_>) =
                    series.labels.iter().cloned().partition(|(label, _)| label == "le");
                let bound = bounds.first()?.1.parse().ok()?;
                (others == labels).then(|| (bound, since(series)))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        buckets
    }
}

async fn fetch(admin: &str) -> Result<String, Error> {
    let uri: hyper::Uri = format!("{}/metrics", admin.trim_end_matches('/')).parse().map_err(
        |error: hyper::http::uri::InvalidUri| {
            Error::invalid("admin", "expected an address like http://127.0.0.1:9421")
                .with_source(error)
        },
    )?;
    let Some(authority) = uri.authority().filter(|_| uri.scheme_str() == Some("http")) else {
        return Err(Error::invalid("admin", "expected an address like http://127.0.0.1:9421"));
    };
    let unreachable = |source: Box<dyn std::error::Error + Send + Sync>| {
        let problem = format!("no metrics at {admin}");
        Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem).with_source(source)
    };
    let address = (authority.host(), authority.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await.map_err(|e| unreachable(e.into()))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|e| unreachable(e.into()))?;
    let request = Request::get(uri.path())
        .header("host", authority.as_str())
        .body(Empty::<Bytes>::new())
        .map_err(|error| Error::internal("a request could not be built").with_source(error))?;
    let answering = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await?.to_bytes();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((status, body))
    };
    // The connection is driven beside the answer. If it breaks, the answer fails.
    let driving = async {
        drop(connection.await);
        std::future::pending::<()>().await;
    };
    let (status, body) = tokio::select! {
        answer = answering => answer.map_err(unreachable)?,
        () = driving => return Err(Error::internal("a connection outlived its answer")),
    };
    match status.is_success() {
        true => Ok(String::from_utf8_lossy(&body).into_owned()),
        false => Err(unreachable(format!("it answered {status}").into())),
    }
}

/// Parses `name{label="value",…} value [timestamp]`.
fn parse_line(line: &str) -> Option<(Series, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let name_end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(name_end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = match rest.split_whitespace().next()? {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        value => value.parse().ok()?,
    };
    Some((Series { name: name.to_owned(), labels }, value))
}

/// Parses labels, sorted by name. Also returns what follows the closing brace.
fn parse_labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            labels.sort();
            return Some((labels, after));
        }
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    escaped => value.push(escaped),
                },
                (_, character) => value.push(character),
            }
        };
        labels.push((name.trim().to_owned(), value));
        rest = &after[end + 1..];
    }
}

fn shown(base: &str, labels: &[(String, String)]) -> String {
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    match labels.is_empty() {
        true => base.to_owned(),
        false => format!("{base}{{{}}}", labels.join(",")),
    }
}

/// Guesses what the time of a histogram was spent on, by the words of its name and labels.
fn kind_of(base: &str, labels: &[(String, String)]) -> &'static str {
    let words = shown(base, labels);
    let has = |any: &[&str]| any.iter().any(|word| words.contains(word));
    if has(&["rpc"]) {
        "rpc"
    } else if has(&["wait", "queue"]) {
        "queue"
    } else if has(&[
        "commit",
        "store",
        "storage",
        "table",
        "search",
        "shard",
        "maintenance",
        "index",
    ]) {
        "store"
    } else {
        "compute"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = r#"
# HELP clew_queue_wait_seconds Waits.
# TYPE clew_queue_wait_seconds histogram
clew_queue_wait_seconds_bucket{queue="encoder",le="0.01"} 10
clew_queue_wait_seconds_bucket{queue="encoder",le="0.1"} 10
clew_queue_wait_seconds_bucket{queue="encoder",le="+Inf"} 10
clew_queue_wait_seconds_sum{queue="encoder"} 0.05
clew_queue_wait_seconds_count{queue="encoder"} 10
clew_table_fragments{table="chunks",shard="0"} 3
clew_table_fragments{table="chunks",shard="1"} 4
"#;

    fn after() -> String {
        BEFORE
            .replace("le=\"0.01\"} 10", "le=\"0.01\"} 60")
            .replace("le=\"0.1\"} 10", "le=\"0.1\"} 110")
            .replace("le=\"+Inf\"} 10", "le=\"+Inf\"} 110")
            .replace("sum{queue=\"encoder\"} 0.05", "sum{queue=\"encoder\"} 2.05")
            .replace("count{queue=\"encoder\"} 10", "count{queue=\"encoder\"} 110")
    }

    #[test]
    fn a_histogram_tells_what_happened_between_two_readings() {
        let parts = Metrics::parse(&after()).parts_since(&Metrics::parse(BEFORE));
        assert_eq!(parts.len(), 1);
        let part = &parts[0];
        assert_eq!(part.name, "clew_queue_wait_seconds{queue=encoder}");
        assert_eq!((part.kind, part.count), ("queue", 100));
        assert!((part.mean_ms - 20.0).abs() < 1e-6, "{part:?}");
        assert_eq!((part.p50_ms, part.p99_ms), (Some(10.0), Some(100.0)));
    }

    #[test]
    fn what_did_not_happen_is_not_told() {
        let same = Metrics::parse(BEFORE);
        assert!(same.parts_since(&same).is_empty());
    }

    #[test]
    fn a_server_that_restarted_counts_from_nothing() {
        let parts = Metrics::parse(BEFORE).parts_since(&Metrics::parse(&after()));
        assert_eq!(parts[0].count, 10);
    }

    #[test]
    fn gauges_are_summed_over_labels_and_servers() {
        let mut metrics = Metrics::parse(BEFORE);
        assert_eq!(metrics.sum_ending("_fragments"), Some(7.0));
        metrics.add(Metrics::parse(BEFORE));
        assert_eq!(metrics.sum_ending("_fragments"), Some(14.0));
        assert_eq!(metrics.sum_ending("_versions"), None);
    }

    #[test]
    fn labels_may_hold_anything_that_is_escaped() {
        let parsed = parse_line(r#"a{path="C:\\x,}\"",b="é\n"} 1e3 1700000000"#).unwrap();
        let labels =
            vec![("b".to_owned(), "é\n".to_owned()), ("path".to_owned(), r#"C:\x,}""#.to_owned())];
        assert_eq!(parsed, (Series { name: "a".to_owned(), labels }, 1000.0));
        assert_eq!(parse_line("a{b=\"never closed} 1"), None);
        assert_eq!(parse_line("only_a_name"), None);
    }
}
