//! Named runs of ingestion: what the parts of a bulk job have done so far, and what becomes of the
//! run.

use std::ops::AddAssign;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::is_name;
use crate::{DocumentStatus, Error, Timestamp, Violations};

/// Reason of the error for a run that does not exist, in a corpus that does.
pub const RUN_NOT_FOUND: &str = "RUN_NOT_FOUND";
/// Maximum number of parts of a run.
pub const MOST_RUN_PARTS: u32 = 1024;
/// Maximum bytes of the problem of a part.
const MOST_PROBLEM_BYTES: usize = 1024;
/// Difference between the clocks of nodes that is allowed for when times of documents are compared
/// with those of a run.
const CLOCK_SKEW: Duration = Duration::from_secs(5);

/// Name of a run of ingestion, unique in its corpus: 1 to 63 characters of `a-z`, `0-9`, `-`, `_`,
/// beginning with a letter or digit, so that it is valid as a folder name everywhere. The caller
/// chooses it. Whoever reports by the same name reports of the same run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunName(String);

impl FromStr for RunName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        if is_name(name) {
            return Ok(Self(name.to_owned()));
        }
        let problem = "expected 1 to 63 of a-z, 0-9, `-`, `_` beginning with a letter or digit";
        Err(Error::invalid("run", problem))
    }
}

crate::string_id!(RunName);

/// Stage of a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartStage {
    /// Finds out what there is to send.
    Listing,
    /// Sends documents.
    Sending,
    /// Has ended: the server has answered for every document.
    Accepted,
    /// Has ended before that.
    Failed,
}

impl PartStage {
    /// Returns whether the part has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Accepted | Self::Failed)
    }

    /// Returns whether a part of this stage can no longer be in the stage `other`.
    pub fn is_beyond(self, other: Self) -> bool {
        let place = |stage| match stage {
            Self::Listing => 0,
            Self::Sending => 1,
            Self::Accepted | Self::Failed => 2,
        };
        place(self) > place(other)
    }
}

/// Numbers of documents of a run or of one of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunCounts {
    /// Found in the source.
    pub listed: u64,
    /// Sent to the server.
    pub sent: u64,
    /// Accepted as new or in place of others.
    pub accepted: u64,
    /// Answered as unchanged.
    pub unchanged: u64,
    /// Refused by the server.
    pub refused: u64,
    /// Not sent, because they could not be read.
    pub unreadable: u64,
    /// Forgotten, because the source no longer has them.
    pub forgotten: u64,
}

impl RunCounts {
    /// Returns what has been added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            listed: combine(self.listed, other.listed),
            sent: combine(self.sent, other.sent),
            accepted: combine(self.accepted, other.accepted),
            unchanged: combine(self.unchanged, other.unchanged),
            refused: combine(self.refused, other.refused),
            unreadable: combine(self.unreadable, other.unreadable),
            forgotten: combine(self.forgotten, other.forgotten),
        }
    }
}

impl AddAssign for RunCounts {
    // The numbers are those that callers report, so a sum may be beyond 64 bits.
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, u64::saturating_add);
    }
}

/// What a part of a run has done so far, as the process that works on it reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReport {
    /// Number of the part, from 0.
    pub part: u32,
    /// Number that the process chose at random when it began. It tells a process that was restarted
    /// from one that repeats a report because the answer was lost, which nobody else can tell.
    pub attempt: u64,
    /// Stage of the part.
    pub stage: PartStage,
    /// Whether the part has found everything in its source that there is to send.
    pub listed_all: bool,
    /// Numbers of documents since the process began.
    pub counts: RunCounts,
    /// Reason why the part failed, or does not get on, for a person: at most 1 KiB without control
    /// characters, and neither text nor id of a document. Empty if there is none.
    pub problem: String,
}

impl PartReport {
    /// Returns `text` as a problem: control characters become spaces, and what is beyond the limit
    /// is cut off.
    pub fn problem_of(text: &str) -> String {
        let spaced = |letter: char| if letter.is_control() { ' ' } else { letter };
        let mut problem: String = text.chars().map(spaced).collect();
        problem.truncate(problem.floor_char_boundary(MOST_PROBLEM_BYTES));
        problem
    }

    /// Adds a violation for each field that cannot be reported of a run with so many parts.
    pub fn check(&self, parts: u32, violations: &mut Violations) {
        if !(1..=MOST_RUN_PARTS).contains(&parts) {
            violations.push("parts", format!("expected 1 to {MOST_RUN_PARTS}, got {parts}"));
        } else if self.part >= parts {
            let problem = format!("expected less than the {parts} parts, got {}", self.part);
            violations.push("part.part", problem);
        }
        if self.attempt == 0 {
            let problem = "expected a random number that the process keeps, got 0";
            violations.push("part.attempt", problem);
        }
        match self.stage {
            PartStage::Listing if self.listed_all => {
                let problem = "expected false while the part is listing, got true";
                violations.push("part.listed_all", problem);
            }
            PartStage::Sending | PartStage::Accepted if !self.listed_all => {
                let problem = "expected true once the part is beyond listing, got false";
                violations.push("part.listed_all", problem);
            }
            _ => {}
        }
        if self.problem.len() > MOST_PROBLEM_BYTES {
            let got = self.problem.len();
            let problem = format!("expected at most {MOST_PROBLEM_BYTES} bytes, got {got}");
            violations.push("part.problem", problem);
        }
        if self.problem.chars().any(char::is_control) {
            violations.push("part.problem", "must not contain control characters");
        }
    }
}

/// Part of a run, as its newest report has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPart {
    /// The newest report.
    #[serde(flatten)]
    pub report: PartReport,
    /// Number of processes that have worked on the part.
    pub attempts: u32,
    /// Time of the first report of the process that works on it now.
    pub started_at: Timestamp,
    /// Time of the newest report.
    pub updated_at: Timestamp,
}

/// Run of ingestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestRun {
    /// Name of the run.
    pub name: RunName,
    /// Number of its parts.
    pub parts: u32,
    /// Time of its first report.
    pub started_at: Timestamp,
    /// Parts of which there is a report, by number.
    pub reported: Vec<RunPart>,
}

/// Stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunStage {
    /// A part has not ended, or not begun.
    Running,
    /// All parts have ended, and documents that were accepted by then wait to be indexed.
    Accepted,
    /// All parts have ended, and everything that was accepted by then can be found.
    Done,
    /// A part failed, or documents that were accepted during the run are set aside.
    Failed,
}

/// Documents of a corpus that are not indexed, as far as they concern a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Whether there is one for which the run waits.
    pub is_pending: bool,
    /// Whether there is one that failed in the run.
    pub is_set_aside: bool,
}

/// Time that a run took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSpan {
    /// Time of the first report.
    pub started_at: Timestamp,
    /// Time at which the last part ended.
    pub ended_at: Timestamp,
}

impl RunSpan {
    /// Returns whether the run waits until this document, which is not indexed, can be found: it
    /// was accepted by the end of the run. It may have been accepted before the run, which then
    /// found it unchanged.
    pub fn waits_for(&self, document: &DocumentStatus) -> bool {
        document.accepted_at <= self.ended_at.saturating_add(CLOCK_SKEW)
    }

    /// Returns whether this document, which is set aside, failed in the run: it was accepted during
    /// the run. Otherwise each later run of the corpus would fail because of it.
    pub fn has_set_aside(&self, document: &DocumentStatus) -> bool {
        let is_later = document.accepted_at.saturating_add(CLOCK_SKEW) >= self.started_at;
        is_later && self.waits_for(document)
    }
}

impl IngestRun {
    /// Returns the numbers of documents of all parts.
    pub fn counts(&self) -> RunCounts {
        let mut counts = RunCounts::default();
        self.reported.iter().for_each(|part| counts += part.report.counts);
        counts
    }

    /// Returns whether all parts have found everything that there is to send.
    pub fn has_listed_all(&self) -> bool {
        self.are_all(|part| part.report.listed_all)
    }

    /// Returns the time at which the last part ended; `None` if a part has not.
    pub fn ended_at(&self) -> Option<Timestamp> {
        let has_ended = self.are_all(|part| part.report.stage.has_ended());
        self.reported.iter().map(|part| part.updated_at).max().filter(|_| has_ended)
    }

    /// Returns the time that the run took, if all parts have ended and none failed. Then the
    /// documents of the corpus decide on its stage.
    pub fn span(&self) -> Option<RunSpan> {
        let ended_at = self.ended_at().filter(|_| self.failed_parts() == 0)?;
        Some(RunSpan { started_at: self.started_at, ended_at })
    }

    /// Returns the stage. `unfinished` counts only if there is a [`IngestRun::span`].
    pub fn stage(&self, unfinished: Unfinished) -> RunStage {
        if self.failed_parts() > 0 {
            return RunStage::Failed;
        }
        match (self.span(), unfinished) {
            (None, _) => RunStage::Running,
            (Some(_), Unfinished { is_set_aside: true, .. }) => RunStage::Failed,
            (Some(_), Unfinished { is_pending: true, .. }) => RunStage::Accepted,
            (Some(_), _) => RunStage::Done,
        }
    }

    /// Returns the run without its parts.
    pub fn summary(&self) -> RunSummary {
        let ended = self.reported.iter().filter(|part| part.report.stage.has_ended()).count();
        RunSummary {
            name: self.name.clone(),
            parts: self.parts,
            ended_parts: u32::try_from(ended).unwrap_or(u32::MAX),
            failed_parts: self.failed_parts(),
            listed_all: self.has_listed_all(),
            counts: self.counts(),
            started_at: self.started_at,
            ended_at: self.ended_at(),
        }
    }

    fn failed_parts(&self) -> u32 {
        let has_failed = |part: &&RunPart| part.report.stage == PartStage::Failed;
        u32::try_from(self.reported.iter().filter(has_failed).count()).unwrap_or(u32::MAX)
    }

    fn are_all(&self, is_it: impl Fn(&RunPart) -> bool) -> bool {
        self.reported.len() == self.parts as usize && self.reported.iter().all(is_it)
    }
}

/// Run without its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Name of the run.
    pub name: RunName,
    /// Number of its parts.
    pub parts: u32,
    /// Number of those that have ended.
    pub ended_parts: u32,
    /// Number of those that failed.
    pub failed_parts: u32,
    /// Whether all parts have found everything that there is to send.
    pub listed_all: bool,
    /// Numbers of documents of all parts.
    pub counts: RunCounts,
    /// Time of the first report.
    pub started_at: Timestamp,
    /// Time at which the last part ended; `None` if a part has not.
    pub ended_at: Option<Timestamp>,
}

/// Entry of a list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEntry {
    /// Run that can be read.
    Readable(RunSummary),
    /// Run whose reports cannot be read. Other runs are not affected.
    Unreadable {
        /// Name of the run.
        name: RunName,
        /// Time of the first report, if that can be read.
        started_at: Option<Timestamp>,
        /// Stable upper-case reason, as in the errors of calls about the run: `DATA_LOSS`,
        /// `NEWER_FORMAT`.
        reason: String,
        /// Message that says what was expected, what came and what to do.
        message: String,
    },
}

/// Part of a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPage {
    /// The runs, the newest first.
    pub runs: Vec<RunEntry>,
    /// Whether others follow.
    pub has_more: bool,
}

/// Place in the list of the runs of a corpus, the newest first. Runs whose age cannot be read come
/// last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    /// Time of the first report of the run at that place.
    pub started_at: Timestamp,
    /// Name of that run.
    pub name: RunName,
}

impl RunEntry {
    /// Returns the place of the run in a list.
    pub fn place(&self) -> RunPlace {
        let (name, started_at) = match self {
            Self::Readable(run) => (&run.name, Some(run.started_at)),
            Self::Unreadable { name, started_at, .. } => (name, *started_at),
        };
        RunPlace::new(name.clone(), started_at)
    }
}

impl RunPlace {
    /// Returns the place of a run; its age is unknown if there is no time.
    pub fn new(name: RunName, started_at: Option<Timestamp>) -> Self {
        Self { started_at: started_at.unwrap_or(Timestamp::from_micros(i64::MIN)), name }
    }
}

impl PartialOrd for RunPlace {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RunPlace {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let newest_first = other.started_at.cmp(&self.started_at);
        newest_first.then_with(|| self.name.cmp(&other.name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{DocumentState, Labels, Version};

    const STAGES: [PartStage; 4] =
        [PartStage::Listing, PartStage::Sending, PartStage::Accepted, PartStage::Failed];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn report(part: u32, stage: PartStage) -> PartReport {
        PartReport {
            part,
            attempt: 7,
            stage,
            listed_all: stage != PartStage::Listing,
            counts: RunCounts { sent: u64::from(part) + 1, ..RunCounts::default() },
            problem: String::new(),
        }
    }

    /// Returns a run of three parts, the first of which have these stages. Part `n` was reported at
    /// second 20 + `n`.
    fn run(stages: &[PartStage]) -> IngestRun {
        let part = |(part, stage): (u32, &PartStage)| RunPart {
            report: report(part, *stage),
            attempts: 1,
            started_at: at(10),
            updated_at: at(20 + i64::from(part)),
        };
        IngestRun {
            name: "nightly".parse().unwrap(),
            parts: 3,
            started_at: at(10),
            reported: (0..).zip(stages).map(part).collect(),
        }
    }

    fn document(state: DocumentState, accepted_at: Timestamp) -> DocumentStatus {
        DocumentStatus {
            document_id: "a".parse().unwrap(),
            state,
            version: Version(1),
            live_version: None,
            accepted_at,
            bytes: 1,
            chunks: 0,
            tokens: 0,
            nodes: 0,
            failure: None,
            labels: Labels::default(),
            source_version: None,
        }
    }

    #[test]
    fn the_parts_decide_first_and_then_the_documents() {
        use PartStage::{Accepted, Failed, Listing, Sending};
        let nothing = Unfinished::default();
        let pending = Unfinished { is_pending: true, ..nothing };
        let set_aside = Unfinished { is_set_aside: true, ..pending };
        for unfinished in [nothing, pending, set_aside] {
            for stages in [&[][..], &[Accepted, Accepted], &[Accepted, Sending, Accepted]] {
                assert_eq!(run(stages).stage(unfinished), RunStage::Running, "{stages:?}");
                assert_eq!(run(stages).ended_at(), None);
            }
            for stages in [&[Failed][..], &[Listing, Failed], &[Accepted, Failed, Accepted]] {
                assert_eq!(run(stages).stage(unfinished), RunStage::Failed, "{stages:?}");
                assert_eq!(run(stages).span(), None);
            }
        }
        let ended = run(&[Accepted; 3]);
        assert_eq!(ended.span(), Some(RunSpan { started_at: at(10), ended_at: at(22) }));
        assert_eq!(ended.stage(nothing), RunStage::Done);
        assert_eq!(ended.stage(pending), RunStage::Accepted);
        assert_eq!(ended.stage(set_aside), RunStage::Failed);
    }

    #[test]
    fn a_run_waits_for_what_was_accepted_by_its_end_and_fails_by_what_was_accepted_in_it() {
        let span = RunSpan { started_at: at(100), ended_at: at(200) };
        for (second, waits, fails) in [
            (0, true, false),
            (94, true, false),
            (96, true, true),
            (205, true, true),
            (206, false, false),
        ] {
            let pending = document(DocumentState::Pending, at(second));
            assert_eq!(span.waits_for(&pending), waits, "{second}");
            let set_aside = document(DocumentState::SetAside, at(second));
            assert_eq!(span.has_set_aside(&set_aside), fails, "{second}");
        }
    }

    #[test]
    fn a_summary_adds_up_the_parts() {
        let summary = run(&[PartStage::Accepted, PartStage::Failed, PartStage::Listing]).summary();
        assert_eq!((summary.ended_parts, summary.failed_parts), (2, 1));
        assert_eq!((summary.counts.sent, summary.listed_all), (6, false));
        assert_eq!((summary.started_at, summary.ended_at), (at(10), None));
        let ended = run(&[PartStage::Accepted; 3]).summary();
        assert!(ended.listed_all && ended.ended_at == Some(at(22)));
    }

    #[test]
    fn each_field_that_cannot_be_is_named() {
        let checked = |report: &PartReport, parts| {
            let mut violations = Violations::default();
            report.check(parts, &mut violations);
            let refused = violations.into_result().err();
            refused.map_or_else(Vec::new, |error| {
                error.fields_at_fault().into_iter().map(ToOwned::to_owned).collect()
            })
        };
        for stage in STAGES {
            assert_eq!(checked(&report(0, stage), 1), [""; 0]);
            assert_eq!(checked(&report(1023, stage), MOST_RUN_PARTS), [""; 0]);
            assert_eq!(checked(&report(1, stage), 1), ["part.part"]);
            for parts in [0, MOST_RUN_PARTS + 1] {
                assert_eq!(checked(&report(0, stage), parts), ["parts"]);
            }
            let contrary = !report(0, stage).listed_all;
            let contrary = PartReport { listed_all: contrary, ..report(0, stage) };
            let free = stage == PartStage::Failed;
            assert_eq!(checked(&contrary, 1).is_empty(), free, "{stage:?}");
        }
        let good = report(0, PartStage::Failed);
        let long = PartReport { problem: "x".repeat(1025), attempt: 0, ..good.clone() };
        assert_eq!(checked(&long, 1), ["part.attempt", "part.problem"]);
        let two_lines = PartReport { problem: "a\nb".to_owned(), ..good };
        assert_eq!(checked(&two_lines, 1), ["part.problem"]);
    }

    #[test]
    fn sums_of_what_callers_report_do_not_overflow() {
        let most = RunCounts { listed: u64::MAX, sent: 5, ..RunCounts::default() };
        let mut sum = most;
        sum += most;
        assert_eq!(sum, RunCounts { listed: u64::MAX, sent: 10, ..RunCounts::default() });
        let since = RunCounts::default().since(most);
        assert_eq!(since, RunCounts::default());
        assert_eq!(sum.since(most), RunCounts { sent: 5, ..RunCounts::default() });
    }

    #[test]
    fn the_newest_run_is_first_and_one_of_unknown_age_last() {
        let place = |second, name: &str| RunPlace::new(name.parse().unwrap(), Some(at(second)));
        let unreadable = RunEntry::Unreadable {
            name: "a".parse().unwrap(),
            started_at: None,
            reason: "DATA_LOSS".to_owned(),
            message: "it is damaged".to_owned(),
        };
        let mut places = [unreadable.place(), place(1, "a"), place(2, "c"), place(2, "b")];
        places.sort();
        let names: Vec<_> = places.iter().map(|place| place.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a", "a"]);
        assert_eq!(places[3], unreadable.place());
    }

    proptest! {
        #[test]
        fn any_text_can_be_told_as_a_problem(text in "\\PC{0,40}[\\x00-\\x1fé]{0,800}") {
            let mut violations = Violations::default();
            let problem = PartReport::problem_of(&text);
            prop_assert!(text.len() > MOST_PROBLEM_BYTES || problem.len() <= text.len());
            PartReport { problem, ..report(0, PartStage::Failed) }.check(1, &mut violations);
            prop_assert!(violations.into_result().is_ok());
        }

        #[test]
        fn a_run_is_done_only_if_every_part_ended_and_nothing_is_left(
            stages in prop::collection::vec(prop::sample::select(STAGES.to_vec()), 0..=3),
            is_pending: bool,
            is_set_aside: bool,
        ) {
            let run = run(&stages);
            let stage = run.stage(Unfinished { is_pending, is_set_aside });
            let all_accepted = stages == [PartStage::Accepted; 3];
            prop_assert_eq!(stage == RunStage::Done, all_accepted && !is_pending && !is_set_aside);
            prop_assert_eq!(run.span().is_some(), all_accepted);
            let has_failed = stages.contains(&PartStage::Failed);
            let fails = has_failed || (all_accepted && is_set_aside);
            prop_assert_eq!(stage == RunStage::Failed, fails);
        }
    }
}
