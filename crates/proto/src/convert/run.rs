//! Conversions of runs of ingestion: messages of `clew.ingest.v1`.

use clew_core::{
    CorpusName, Error, IngestRun, PartReport, PartStage, RunCounts, RunEntry, RunName, RunPart,
    RunPlace, RunStage, RunSummary, Timestamp, Violations,
};

use crate::convert::{Page, corpus_name, timestamp_from_wire, timestamp_to_wire};
use crate::ingest::v1 as wire;

/// Report on a part of a run, as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Corpus of the run.
    pub corpus: CorpusName,
    /// Name of the run.
    pub run: RunName,
    /// Number of its parts.
    pub parts: u32,
    /// What the part has done.
    pub report: PartReport,
}

/// Converts a report from the wire, and checks it.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn report_from_wire(request: wire::ReportRunRequest) -> Result<RunReport, Error> {
    let wire::ReportRunRequest { corpus, run, parts, part } = request;
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&corpus));
    let run = violations.take(run.parse::<RunName>());
    if part.is_none() {
        violations.push("part", "expected a part, got none");
    }
    let report = part.and_then(|part| violations.take(part_report_from_wire(part)));
    if let Some(report) = &report {
        report.check(parts, &mut violations);
    }
    violations.into_result()?;
    match (corpus, run, report) {
        (Some(corpus), Some(run), Some(report)) => Ok(RunReport { corpus, run, parts, report }),
        _ => Err(Error::internal("a field was neither taken nor refused")),
    }
}

fn part_report_from_wire(part: wire::RunPart) -> Result<PartReport, Error> {
    let stage = match part.stage() {
        wire::PartStage::Listing => PartStage::Listing,
        wire::PartStage::Sending => PartStage::Sending,
        wire::PartStage::Accepted => PartStage::Accepted,
        wire::PartStage::Failed => PartStage::Failed,
        wire::PartStage::Unspecified => {
            let problem = "expected listing, sending, accepted or failed";
            return Err(Error::invalid("part.stage", problem));
        }
    };
    let wire::RunPart { part, attempt, listed_all, counts, problem, .. } = part;
    let counts = counts_from_wire(counts);
    Ok(PartReport { part, attempt, stage, listed_all, counts, problem })
}

/// Converts a report on a part for the wire.
pub fn part_report_to_wire(report: &PartReport) -> wire::RunPart {
    let PartReport { part, attempt, stage, listed_all, counts, problem } = report;
    let stage = match stage {
        PartStage::Listing => wire::PartStage::Listing,
        PartStage::Sending => wire::PartStage::Sending,
        PartStage::Accepted => wire::PartStage::Accepted,
        PartStage::Failed => wire::PartStage::Failed,
    };
    wire::RunPart {
        part: *part,
        attempt: *attempt,
        stage: stage.into(),
        listed_all: *listed_all,
        counts: Some(counts_to_wire(*counts)),
        problem: problem.clone(),
        ..wire::RunPart::default()
    }
}

/// Converts a part of a run for the wire.
pub fn part_to_wire(part: &RunPart) -> wire::RunPart {
    wire::RunPart {
        attempts: part.attempts,
        started_at: Some(timestamp_to_wire(part.started_at)),
        updated_at: Some(timestamp_to_wire(part.updated_at)),
        ..part_report_to_wire(&part.report)
    }
}

/// Converts a part of a run from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn part_from_wire(part: wire::RunPart) -> Result<RunPart, Error> {
    Ok(RunPart {
        attempts: part.attempts,
        started_at: time_from_wire("part.started_at", part.started_at.as_ref())?,
        updated_at: time_from_wire("part.updated_at", part.updated_at.as_ref())?,
        report: part_report_from_wire(part)?,
    })
}

/// Converts a run for the wire. A run of a list has no stage.
pub fn run_to_wire(run: &IngestRun, stage: Option<RunStage>) -> wire::Run {
    let stage = match stage {
        None => wire::RunStage::Unspecified,
        Some(RunStage::Running) => wire::RunStage::Running,
        Some(RunStage::Accepted) => wire::RunStage::Accepted,
        Some(RunStage::Done) => wire::RunStage::Done,
        Some(RunStage::Failed) => wire::RunStage::Failed,
    };
    let reported = run.reported.iter().map(part_to_wire).collect();
    wire::Run { stage: stage.into(), reported, ..summary_to_wire(run.summary()) }
}

/// Converts a run from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn run_from_wire(run: wire::Run) -> Result<IngestRun, Error> {
    Ok(IngestRun {
        name: run.name.parse()?,
        parts: run.parts,
        started_at: time_from_wire("run.started_at", run.started_at.as_ref())?,
        reported: run.reported.into_iter().map(part_from_wire).collect::<Result<_, _>>()?,
    })
}

/// Converts an entry of a list of runs for the wire.
pub fn entry_to_wire(entry: RunEntry) -> wire::Run {
    match entry {
        RunEntry::Readable(run) => summary_to_wire(run),
        RunEntry::Unreadable { name, started_at, reason, message } => wire::Run {
            name: name.into(),
            started_at: started_at.map(timestamp_to_wire),
            fault: Some(wire::RunFault { reason, message }),
            ..wire::Run::default()
        },
    }
}

/// Converts an entry of a list of runs from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn entry_from_wire(run: wire::Run) -> Result<RunEntry, Error> {
    let name = run.name.parse()?;
    let time = |field, time: Option<&prost_types::Timestamp>| {
        time.map(|time| timestamp_from_wire(field, time)).transpose()
    };
    let started_at = time("run.started_at", run.started_at.as_ref())?;
    if let Some(wire::RunFault { reason, message }) = run.fault {
        return Ok(RunEntry::Unreadable { name, started_at, reason, message });
    }
    Ok(RunEntry::Readable(RunSummary {
        name,
        parts: run.parts,
        ended_parts: run.ended_parts,
        failed_parts: run.failed_parts,
        listed_all: run.listed_all,
        counts: counts_from_wire(run.counts),
        started_at: time_from_wire("run.started_at", run.started_at.as_ref())?,
        ended_at: time("run.ended_at", run.ended_at.as_ref())?,
    }))
}

fn summary_to_wire(run: RunSummary) -> wire::Run {
    wire::Run {
        name: run.name.into(),
        parts: run.parts,
        ended_parts: run.ended_parts,
        failed_parts: run.failed_parts,
        listed_all: run.listed_all,
        counts: Some(counts_to_wire(run.counts)),
        started_at: Some(timestamp_to_wire(run.started_at)),
        ended_at: run.ended_at.map(timestamp_to_wire),
        ..wire::Run::default()
    }
}

fn counts_to_wire(counts: RunCounts) -> wire::RunCounts {
    let RunCounts { listed, sent, accepted, unchanged, refused, unreadable, forgotten } = counts;
    wire::RunCounts { listed, sent, accepted, unchanged, refused, unreadable, forgotten }
}

fn counts_from_wire(counts: Option<wire::RunCounts>) -> RunCounts {
    let wire::RunCounts { listed, sent, accepted, unchanged, refused, unreadable, forgotten } =
        counts.unwrap_or_default();
    RunCounts { listed, sent, accepted, unchanged, refused, unreadable, forgotten }
}

fn time_from_wire(field: &str, time: Option<&prost_types::Timestamp>) -> Result<Timestamp, Error> {
    let time = time.ok_or_else(|| Error::invalid(field, "expected a time, got none"))?;
    timestamp_from_wire(field, time)
}

/// Returns the token of the page after the run at this place.
pub fn token_after(last: &RunPlace) -> String {
    Page::token_after(&format!("{}:{}", last.started_at.as_micros(), last.name))
}

/// Parses the place after which a page of runs begins; `None` for the first page.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming `page_token` if it is none of
/// [`token_after`].
pub fn place_of(page: &Page) -> Result<Option<RunPlace>, Error> {
    if page.after.is_empty() {
        return Ok(None);
    }
    let parsed = page.after.split_once(':').and_then(|(micros, name)| {
        let started_at = Timestamp::from_micros(micros.parse().ok()?);
        Some(RunPlace { started_at, name: name.parse().ok()? })
    });
    let refused =
        || Error::invalid("page_token", "expected a next_page_token of an earlier response");
    parsed.map(Some).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [PartStage; 4] =
        [PartStage::Listing, PartStage::Sending, PartStage::Accepted, PartStage::Failed];

    fn report(part: u32, stage: PartStage) -> PartReport {
        PartReport {
            part,
            attempt: u64::MAX,
            stage,
            listed_all: stage != PartStage::Listing,
            counts: RunCounts {
                listed: 7,
                sent: 6,
                accepted: 3,
                unchanged: 2,
                refused: 1,
                unreadable: 4,
                forgotten: 5,
            },
            problem: "the bucket was away".to_owned(),
        }
    }

    fn run() -> IngestRun {
        let part = |(part, stage): (u32, &PartStage)| RunPart {
            report: report(part, *stage),
            attempts: 2,
            started_at: Timestamp::from_micros(-5),
            updated_at: Timestamp::from_micros(9),
        };
        IngestRun {
            name: "nightly".parse().unwrap(),
            parts: 4,
            started_at: Timestamp::from_micros(-7),
            reported: (0..).zip(&STAGES).map(part).collect(),
        }
    }

    fn request(part: Option<wire::RunPart>, parts: u32) -> wire::ReportRunRequest {
        let (corpus, run) = ("notes".to_owned(), "nightly".to_owned());
        wire::ReportRunRequest { corpus, run, parts, part }
    }

    #[test]
    fn reports_and_runs_round_trip() {
        for stage in STAGES {
            let report = report(3, stage);
            let sent = request(Some(part_report_to_wire(&report)), 4);
            let taken = report_from_wire(sent).unwrap();
            assert_eq!((taken.report, taken.parts), (report, 4));
            assert_eq!((taken.corpus.as_str(), taken.run.as_str()), ("notes", "nightly"));
        }
        for stage in [RunStage::Running, RunStage::Accepted, RunStage::Done, RunStage::Failed] {
            let wire = run_to_wire(&run(), Some(stage));
            let name = format!("RUN_STAGE_{stage:?}").to_uppercase();
            assert_eq!(wire.stage().as_str_name(), name);
            assert_eq!(run_from_wire(wire).unwrap(), run());
        }
        assert_eq!(run_to_wire(&run(), None).stage(), wire::RunStage::Unspecified);
    }

    #[test]
    fn entries_of_a_list_round_trip() {
        let summary = run().summary();
        let ended_at = Some(Timestamp::from_micros(9));
        let ended = RunSummary { ended_at, listed_all: true, ..summary.clone() };
        let unreadable = |started_at| RunEntry::Unreadable {
            name: "b".parse().unwrap(),
            started_at,
            reason: "DATA_LOSS".to_owned(),
            message: "part 1 of run `b` cannot be read back".to_owned(),
        };
        for entry in [
            RunEntry::Readable(summary),
            RunEntry::Readable(ended),
            unreadable(None),
            unreadable(ended_at),
        ] {
            assert_eq!(entry_from_wire(entry_to_wire(entry.clone())).unwrap(), entry);
            let page = Page::from_wire(1, &token_after(&entry.place())).unwrap();
            assert_eq!(place_of(&page).unwrap(), Some(entry.place()));
        }
        assert_eq!(place_of(&Page::from_wire(1, "").unwrap()).unwrap(), None);
        for bad in ["nightly", "x:nightly", "5:", "5:No Name"] {
            let page = Page::from_wire(1, &Page::token_after(bad)).unwrap();
            assert_eq!(place_of(&page).unwrap_err().fields_at_fault(), ["page_token"], "{bad}");
        }
    }

    #[test]
    fn every_field_at_fault_is_named() {
        let at_fault = |request| {
            let error = report_from_wire(request).unwrap_err();
            error.fields_at_fault().into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let good = part_report_to_wire(&report(0, PartStage::Sending));
        let nameless = wire::ReportRunRequest {
            corpus: "No".to_owned(),
            run: "../up".to_owned(),
            ..request(None, 1)
        };
        assert_eq!(at_fault(nameless), ["corpus", "run", "part"]);
        for stage in [0, 9] {
            let part = wire::RunPart { stage, ..good.clone() };
            assert_eq!(at_fault(request(Some(part), 1)), ["part.stage"]);
        }
        assert_eq!(at_fault(request(Some(good.clone()), 1025)), ["parts"]);
        assert_eq!(at_fault(request(Some(good.clone()), 0)), ["parts"]);
        let part = wire::RunPart {
            part: 1,
            attempt: 0,
            listed_all: false,
            problem: "\u{1b}[31m".repeat(300),
            ..good
        };
        assert_eq!(
            at_fault(request(Some(part), 1)),
            ["part.part", "part.attempt", "part.listed_all", "part.problem", "part.problem"]
        );
    }

    #[test]
    fn a_run_of_another_node_without_times_is_refused() {
        let wire = run_to_wire(&run(), None);
        let timeless = wire::Run { started_at: None, ..wire.clone() };
        assert_eq!(
            run_from_wire(timeless.clone()).unwrap_err().fields_at_fault(),
            ["run.started_at"]
        );
        assert_eq!(entry_from_wire(timeless).unwrap_err().fields_at_fault(), ["run.started_at"]);
        let mut timeless = wire;
        timeless.reported[1].updated_at = None;
        assert_eq!(run_from_wire(timeless).unwrap_err().fields_at_fault(), ["part.updated_at"]);
    }
}
