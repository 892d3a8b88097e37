//! What was measured, and which aims it meets.

use serde::Serialize;

use crate::command::bench::growth::cost::{WorkCost, bytes, time};

/// Names of measurements that aims are about.
pub const RECALL: &str = "recall@10 of dense search";
pub const CALM_SEARCH: &str = "hybrid search, p99";
pub const FORGET_OLD: &str =
    "forget 100 old documents that lie side by side, until they are erased";
pub const SEARCH_BESIDE_OLD: &str = "hybrid search while they are erased, p99 (side by side)";
pub const FORGET_SPREAD: &str = "forget 100 old documents from everywhere, until they are erased";
pub const SEARCH_BESIDE_SPREAD: &str = "hybrid search while they are erased, p99 (everywhere)";

/// Share of the ten nearest chunks that searches are to find at least.
const RECALL_AIM: f64 = 0.95;
/// Seconds for which forgetting 100 documents may hold the writer.
const HELD_AIM: f64 = 1.0;
/// Seconds after which they are to be erased.
const ERASED_AIM: f64 = 60.0;
/// Factor by which searches may be slower meanwhile.
const SLOWER_AIM: f64 = 2.0;

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Growth {
    /// Profile of the build: `development` or `release`.
    profile: &'static str,
    /// Number of cores of the machine.
    cores: usize,
    /// What the shard was filled with.
    texts: String,
    /// Costs, each kind of work at one size after the other.
    lines: Vec<CostLine>,
    /// Other measurements, likewise.
    figures: Vec<Quantity>,
    /// Whether the aims were met, at each size.
    aims: Vec<Aim>,
}

/// Cost of some work in a shard of some size.
#[derive(Debug, Serialize)]
pub struct CostLine {
    pub work: &'static str,
    /// Number of chunks of the shard, without those that are measured and forgotten again.
    pub chunks: u64,
    #[serde(flatten)]
    pub cost: WorkCost,
}

/// Measurement of a shard of some size that is not the cost of work.
#[derive(Debug, Serialize)]
pub struct Quantity {
    pub what: &'static str,
    /// Number of chunks of the shard.
    pub chunks: u64,
    #[serde(flatten)]
    pub amount: Amount,
}

/// Amount of something.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    Bytes(u64),
    Share(f64),
    Number(u64),
}

/// Bound that a measurement is to keep.
#[derive(Debug, Serialize)]
struct Aim {
    aim: &'static str,
    chunks: u64,
    measured: f64,
    bound: f64,
    is_met: bool,
}

impl Growth {
    /// Puts the measurements in order, and judges them.
    pub fn of(texts: String, mut lines: Vec<CostLine>, mut figures: Vec<Quantity>) -> Self {
        in_order(&mut lines, |line| (line.work, line.chunks));
        in_order(&mut figures, |figure| (figure.what, figure.chunks));
        Self {
            profile: if cfg!(debug_assertions) { "development" } else { "release" },
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            texts,
            aims: aims(&lines, &figures),
            lines,
            figures,
        }
    }

    /// Returns the measurements as tables.
    pub fn table(&self) -> String {
        let lines = self.lines.iter().map(|CostLine { work, chunks, cost }| {
            let [reads, read, writes, written] = cost.shown();
            let [time, writer, at_once] = cost.times();
            let requests = cost.requests();
            let cells = [time, writer, at_once, requests, reads, read, writes, written];
            (*work, *chunks, cells.to_vec())
        });
        let figures = self
            .figures
            .iter()
            .map(|Quantity { what, chunks, amount }| (*what, *chunks, vec![amount.shown()]));
        let aims = self.aims.iter().map(|aim| {
            let met = if aim.is_met { "met" } else { "missed" }.to_owned();
            let [measured, bound] = [aim.measured, aim.bound].map(|it| format!("{it:.2}"));
            (aim.aim, aim.chunks, vec![measured, bound, met])
        });
        let head = [
            "work",
            "chunks",
            "time",
            "writer",
            "at once",
            "requests",
            "reads",
            "bytes read",
            "writes",
            "bytes written",
        ];
        format!(
            "{} build, {} cores, {}\n\n{}\n{}\n{}",
            self.profile,
            self.cores,
            self.texts,
            table(&head, lines),
            table(&["figure", "chunks", "value"], figures),
            table(&["aim", "chunks", "measured", "bound", ""], aims),
        )
    }
}

impl Amount {
    fn shown(self) -> String {
        match self {
            Self::Bytes(count) => bytes(count as f64),
            Self::Share(share) => format!("{share:.3}"),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// Sorts measurements by what was measured, in the order in which that came first, and by size.
fn in_order<T>(measured: &mut [T], of: impl Fn(&T) -> (&'static str, u64)) {
    let order: Vec<&str> = measured.iter().map(|it| of(it).0).collect();
    let place = |what: &str| order.iter().position(|other| *other == what);
    measured.sort_by_key(|it| {
        let (what, chunks) = of(it);
        (place(what), chunks)
    });
}

fn aims(lines: &[CostLine], figures: &[Quantity]) -> Vec<Aim> {
    let mut aims = Vec::new();
    for figure in figures {
        if let Quantity { what: RECALL, chunks, amount: Amount::Share(measured) } = *figure {
            let (aim, bound) = ("share of the ten nearest chunks that a search finds", RECALL_AIM);
            aims.push(Aim { aim, chunks, measured, bound, is_met: measured >= bound });
        }
    }
    let mut at_most = |aim, chunks, measured, bound| {
        aims.push(Aim { aim, chunks, measured, bound, is_met: measured <= bound });
    };
    for (forget, beside, [held, erased, slower]) in [
        (
            FORGET_OLD,
            SEARCH_BESIDE_OLD,
            [
                "seconds for which forgetting 100 old documents side by side holds the writer",
                "seconds until they are erased",
                "times their calm p99 that searches take meanwhile",
            ],
        ),
        (
            FORGET_SPREAD,
            SEARCH_BESIDE_SPREAD,
            [
                "seconds for which forgetting 100 old documents from everywhere holds the writer",
                "seconds until those are erased",
                "times their calm p99 that searches take beside that",
            ],
        ),
    ] {
        for line in lines.iter().filter(|line| line.work == forget) {
            let writer = line.cost.held.map_or(0.0, |held| held.writer_seconds);
            at_most(held, line.chunks, writer, HELD_AIM);
            at_most(erased, line.chunks, line.cost.seconds, ERASED_AIM);
            let of = |work: &str| {
                let mut same = lines.iter().filter(|other| other.chunks == line.chunks);
                same.find(|other| other.work == work).map(|other| other.cost.seconds)
            };
            if let (Some(beside), Some(calm)) = (of(beside), of(CALM_SEARCH)) {
                at_most(slower, line.chunks, beside / calm.max(1e-9), SLOWER_AIM);
            }
        }
    }
    in_order(&mut aims, |aim| (aim.aim, aim.chunks));
    aims
}

/// Lays out rows whose first cell is said once for all rows that have it.
fn table(head: &[&str], rows: impl Iterator<Item = (&'static str, u64, Vec<String>)>) -> String {
    let mut cells: Vec<Vec<String>> = vec![head.iter().map(|&name| name.to_owned()).collect()];
    let mut last = "";
    for (what, chunks, values) in rows {
        let what = if what == std::mem::replace(&mut last, what) { "" } else { what };
        cells.push([what.to_owned(), chunks.to_string()].into_iter().chain(values).collect());
    }
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut table = String::new();
    for row in &cells {
        let mut line = format!("{:width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// Returns a line for people who wait: what was measured just now.
pub fn told(CostLine { work, chunks, cost }: &CostLine) -> String {
    format!("{chunks} chunks: {work}: {}", time(cost.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::bench::growth::cost::Held;

    fn line(work: &'static str, chunks: u64, seconds: f64) -> CostLine {
        let held = Some(Held { writer_seconds: seconds / 10.0, writer_seconds_at_once: 0.0 });
        CostLine { work, chunks, cost: WorkCost { seconds, held, ..WorkCost::default() } }
    }

    #[test]
    fn a_table_names_each_kind_of_work_once() {
        let lines = vec![line("open", 200, 1.0), line("list", 200, 1.0), line("open", 400, 1.0)];
        let table = Growth::of("generated texts".to_owned(), lines, Vec::new()).table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].ends_with(", generated texts"), "{table}");
        assert!(lines[3].starts_with("open ") && lines[4].starts_with("  "), "{table}");
        assert!(lines[5].starts_with("list "), "{table}");
    }

    #[test]
    fn an_aim_is_missed_at_the_size_that_misses_it() {
        let lines = vec![
            line(CALM_SEARCH, 200, 0.01),
            line(FORGET_OLD, 200, 9.0),
            line(SEARCH_BESIDE_OLD, 200, 0.015),
            line(CALM_SEARCH, 400, 0.01),
            line(FORGET_OLD, 400, 61.0),
            line(SEARCH_BESIDE_OLD, 400, 0.05),
        ];
        let recall =
            |chunks, share| Quantity { what: RECALL, chunks, amount: Amount::Share(share) };
        let growth = Growth::of(String::new(), lines, vec![recall(200, 0.97), recall(400, 0.94)]);
        let met = |chunks| -> Vec<bool> {
            let aims = growth.aims.iter().filter(|aim| aim.chunks == chunks);
            aims.map(|aim| aim.is_met).collect()
        };
        assert_eq!(met(200), [true; 4]);
        assert_eq!(met(400), [false; 4]);
        assert!(growth.table().contains("missed"));
    }
}
