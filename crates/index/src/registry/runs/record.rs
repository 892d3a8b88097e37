//! Records of a run and of its parts, as they are stored.

use bytes::Bytes;
use clew_core::{PartReport, PartStage, RunCounts, RunPart, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Newest format of the records. Raise it with every change that a release which does not know it
/// would misread.
const FORMAT: u32 = 1;
const FORMAT_KEY: &str = "format";
/// Number of earlier processes of a part that are remembered.
const SUPERSEDED: usize = 8;

/// What is the same for all parts of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// Unique text, by which parts are told from those of an earlier run of the same name.
    pub id: String,
    /// Number of parts.
    pub parts: u32,
    /// Time of the first report.
    pub started_at: Timestamp,
}

/// What is known of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartRecord {
    /// Id of its run.
    pub run: String,
    /// The part.
    pub part: RunPart,
    /// Attempts that another one followed, the last of them last. Their reports come too late.
    superseded: Vec<u64>,
}

/// What became of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The part as it is kept now.
    pub part: RunPart,
    /// Stage that the part entered by this report; `None` if it was in it before.
    pub entered: Option<PartStage>,
    /// Numbers by which those of the part grew. A new attempt begins at 0.
    pub added: RunCounts,
}

impl PartRecord {
    /// Returns the record after a report on a part of `run`, or `None` if the report changes
    /// nothing: it is repeated, or it comes after a later report of the same attempt or of one that
    /// followed.
    pub(super) fn after(
        before: Option<&Self>,
        run: &RunRecord,
        report: &PartReport,
        now: Timestamp,
    ) -> Option<Self> {
        let (report, run) = (report.clone(), run.id.clone());
        let Some(before) = before else {
            let part = RunPart { report, attempts: 1, started_at: now, updated_at: now };
            return Some(Self { run, part, superseded: Vec::new() });
        };
        let known = &before.part;
        if known.report.attempt == report.attempt {
            let is_repeated = known.report == report && report.stage.has_ended();
            if is_repeated || known.report.stage.is_beyond(report.stage) {
                return None;
            }
            let part = RunPart { report, updated_at: now.max(known.updated_at), ..known.clone() };
            return Some(Self { run, part, superseded: before.superseded.clone() });
        }
        if before.superseded.contains(&report.attempt) {
            return None;
        }
        let forgotten = (before.superseded.len() + 1).saturating_sub(SUPERSEDED);
        let mut superseded = before.superseded[forgotten..].to_vec();
        superseded.push(known.report.attempt);
        let attempts = known.attempts.saturating_add(1);
        let part = RunPart { report, attempts, started_at: now, updated_at: now };
        Some(Self { run, part, superseded })
    }
}

impl Reported {
    /// Returns what a report did that changed the record `before` to `after`.
    pub(super) fn between(before: Option<&PartRecord>, after: PartRecord) -> Self {
        let report = &after.part.report;
        let same_attempt = before.map(|before| &before.part.report);
        let same_attempt = same_attempt.filter(|before| before.attempt == report.attempt);
        let was_in_it = same_attempt.is_some_and(|before| before.stage == report.stage);
        let counts = same_attempt.map_or_else(RunCounts::default, |before| before.counts);
        Self {
            entered: (!was_in_it).then_some(report.stage),
            added: report.counts.since(counts),
            part: after.part,
        }
    }

    /// Returns what a report did that changed nothing of a record.
    pub(super) fn nothing(kept: PartRecord) -> Self {
        Self { part: kept.part, entered: None, added: RunCounts::default() }
    }
}

/// Serializes a record, with its format.
pub(super) fn to_bytes(record: &impl Serialize, doing: &'static str) -> Result<Bytes> {
    let write = || {
        let mut json = serde_json::to_value(record)?;
        json[FORMAT_KEY] = FORMAT.into();
        serde_json::to_vec_pretty(&json)
    };
    write().map(Bytes::from).map_err(|error| Error::of_file(doing, error.into()))
}

/// Parses a record. `what` names it in errors. Reads the format first, because it decides what else
/// there may be.
pub(super) fn from_bytes<T: DeserializeOwned>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T> {
    let read = || {
        let json: serde_json::Value = serde_json::from_slice(bytes)?;
        let found = json.get(FORMAT_KEY).and_then(serde_json::Value::as_u64);
        let found = u32::try_from(found.ok_or("it has no format")?).unwrap_or(u32::MAX);
        if found > FORMAT { Ok(Err(found)) } else { Ok(Ok(serde_json::from_value(json)?)) }
    };
    match read() {
        Ok(Ok(record)) => Ok(record),
        Ok(Err(found)) => Err(Error::NewerFormat { what: what(), found, known: FORMAT }),
        Err(source) => Err(Error::Corrupt { what: what(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunRecord {
        RunRecord { id: "1-2-3".to_owned(), parts: 2, started_at: at(1) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn report(attempt: u64, stage: PartStage, sent: u64) -> PartReport {
        PartReport {
            part: 1,
            attempt,
            stage,
            listed_all: stage != PartStage::Listing,
            counts: RunCounts { sent, ..RunCounts::default() },
            problem: String::new(),
        }
    }

    /// Returns the record after these reports, one each second.
    fn after(reports: &[PartReport]) -> PartRecord {
        let mut record = None;
        for (second, report) in (1..).zip(reports) {
            record = PartRecord::after(record.as_ref(), &run(), report, at(second)).or(record);
        }
        record.unwrap()
    }

    #[test]
    fn the_newest_report_counts_and_a_new_attempt_begins_anew() {
        use PartStage::{Accepted, Failed, Listing, Sending};
        let first = [report(7, Listing, 0), report(7, Sending, 5), report(7, Failed, 6)];
        let failed = after(&first).part;
        assert_eq!((&failed.report, failed.attempts), (&first[2], 1));
        assert_eq!((failed.started_at, failed.updated_at), (at(1), at(3)));
        let again = [&first[..], &[report(8, Sending, 2), report(8, Accepted, 9)]].concat();
        let ended = after(&again).part;
        assert_eq!((&ended.report, ended.attempts), (&again[4], 2));
        assert_eq!((ended.started_at, ended.updated_at), (at(4), at(5)));
    }

    #[test]
    fn a_report_that_comes_late_changes_nothing() {
        use PartStage::{Accepted, Listing, Sending};
        let ended = after(&[report(7, Sending, 5), report(8, Accepted, 9)]);
        for late in [
            report(8, Sending, 8),
            report(8, Listing, 0),
            report(8, Accepted, 9),
            report(7, Sending, 6),
            report(7, Accepted, 7),
        ] {
            assert_eq!(PartRecord::after(Some(&ended), &run(), &late, at(9)), None, "{late:?}");
        }
        // The last of several ends of one attempt counts.
        let corrected = report(8, PartStage::Failed, 9);
        assert!(PartRecord::after(Some(&ended), &run(), &corrected, at(9)).is_some());
    }

    #[test]
    fn attempts_are_remembered_up_to_a_limit() {
        let reports: Vec<_> = (1..=20).map(|n| report(n, PartStage::Sending, n)).collect();
        let record = after(&reports);
        assert_eq!(record.superseded, (12..=19).collect::<Vec<_>>());
        assert_eq!(record.part.attempts, 20);
    }

    #[test]
    fn what_a_report_adds_is_what_its_attempt_had_not_reported() {
        use PartStage::{Accepted, Sending};
        let reported = |before: &[PartReport], last: &PartReport| {
            let before = (!before.is_empty()).then(|| after(before));
            let after = PartRecord::after(before.as_ref(), &run(), last, at(9)).unwrap();
            let Reported { entered, added, .. } = Reported::between(before.as_ref(), after);
            (entered, added.sent)
        };
        let sending = report(7, Sending, 5);
        assert_eq!(reported(&[], &sending), (Some(Sending), 5));
        let before = [sending];
        assert_eq!(reported(&before, &report(7, Sending, 6)), (None, 1));
        assert_eq!(reported(&before, &report(7, Accepted, 9)), (Some(Accepted), 4));
        assert_eq!(reported(&before, &report(8, Sending, 2)), (Some(Sending), 2));
    }

    #[test]
    fn records_round_trip_and_what_is_none_is_named() {
        let record = after(&[report(u64::MAX, PartStage::Sending, 5)]);
        let bytes = to_bytes(&record, "test").unwrap();
        let read = |bytes: &[u8]| from_bytes::<PartRecord>(bytes, || "part 1".to_owned());
        assert_eq!(read(&bytes).unwrap(), record);
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let newer = read(text.replace("\"format\": 1", "\"format\": 2").as_bytes());
        assert!(matches!(newer, Err(Error::NewerFormat { found: 2, .. })), "{newer:?}");
        for bad in ["", "{", "{}", "7", "{\"format\": 1}", &text.replace("format", "other")] {
            let error = read(bad.as_bytes()).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{bad}");
            assert!(error.to_string().starts_with("part 1 cannot be read back"), "{error}");
        }
    }
}
