//! Report of a run: a line for each fault as it happens, and a table at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::fault::{Fault, Inflicted};
use crate::load::Recovery;

/// Faults so far.
pub struct Report {
    began: Instant,
    by_kind: BTreeMap<String, Vec<Recovery>>,
}

impl Report {
    pub fn new() -> Self {
        Self { began: Instant::now(), by_kind: BTreeMap::new() }
    }

    /// Records a fault and prints it.
    pub fn add(&mut self, fault: Fault, inflicted: Inflicted, recovery: Recovery) {
        let Inflicted { what, began, healed } = inflicted;
        println!(
            "{:7.1} s  {what:<44} {:4.1} s; searches disturbed for {}, writes for {}",
            (began - self.began).as_secs_f64(),
            (healed - began).as_secs_f64(),
            seconds(recovery.searches),
            seconds(recovery.writes),
        );
        self.by_kind.entry(fault.name()).or_default().push(recovery);
    }
}

fn seconds(duration: Duration) -> String {
    match duration {
        Duration::ZERO => "     -".to_owned(),
        _ => format!("{:4.1} s", duration.as_secs_f64()),
    }
}

/// Formats median and maximum.
fn spread(mut of: Vec<Duration>) -> String {
    of.sort();
    let (middle, last) = (of[of.len() / 2], of[of.len() - 1]);
    format!("{} {}", seconds(middle), seconds(last))
}

/// Table of how long requests were disturbed, from the beginning of the fault.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28}  times  searches: median, max  writes: median, max", "fault")?;
        for (kind, felt) in &self.by_kind {
            let searches = spread(felt.iter().map(|recovery| recovery.searches).collect());
            let writes = spread(felt.iter().map(|recovery| recovery.writes).collect());
            writeln!(f, "{kind:<28}  {:5}  {searches:>21}  {writes:>19}", felt.len())?;
        }
        Ok(())
    }
}
