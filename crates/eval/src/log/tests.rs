use std::fs;

use clew_core::{Cost, Verdict};

use super::*;
use crate::EvalQuestion;
use crate::answers::{AnswerScores, EvidenceReach, Metric, RecordedOutcome};
use crate::dataset::Scoring;

fn run() -> RunIdentity {
    let settings = [("k", "10"), ("model", "small")];
    RunIdentity {
        format: "quality".to_owned(),
        data: "0123".to_owned(),
        strategy: "plain".to_owned(),
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }
}

fn record(id: &str) -> AnswerRecord {
    AnswerRecord {
        question_id: id.to_owned(),
        kind: "choice".to_owned(),
        groups: vec!["all".to_owned()],
        pair: (id == "q2").then(|| "p".to_owned()),
        outcome: RecordedOutcome::Answered,
        answer: "(B) über\nall".to_owned(),
        confidence: (id == "q2").then_some(0.75),
        evidence: (id == "q2").then_some(EvidenceReach::Found),
        quotes: vec!["über".to_owned()],
        scores: AnswerScores::from([(Metric::ExactMatch, 0.1 + 0.2), (Metric::Accuracy, 1.0)]),
        cost: AnswerCost { evidence_tokens: 7, seconds: 0.25, ..AnswerCost::default() },
        judge_cost: None,
    }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("run.jsonl")
    }

    fn holding(ids: &[&str]) -> Self {
        let place = Self::new();
        let mut log = AnswerLog::open(&place.path(), run()).unwrap();
        for id in ids {
            log.append(record(id)).unwrap();
        }
        place
    }
}

#[test]
fn a_run_goes_on_where_it_stopped() {
    let place = Place::holding(&["q1", "q2"]);
    let mut log = AnswerLog::open(&place.path(), run()).unwrap();
    assert_eq!(log.records(), [record("q1"), record("q2")]);
    assert!(log.is_finished("q2") && !log.is_finished("q3"));
    log.append(record("q3")).unwrap();
    drop(log);
    let (identity, records) = AnswerLog::read(&place.path()).unwrap();
    assert_eq!((identity, records.len()), (run(), 3));
}

#[test]
fn what_a_judge_said_is_kept_beside_what_was_not_judged() {
    let place = Place::holding(&["q1"]);
    let cost =
        Cost { model_calls: 2, prompt_tokens: 300, completion_tokens: 20, ..Cost::default() };
    let rated = Verdict::Rated { comprehensiveness: 0.7, diversity: 0.25 };
    let judged = record("q2").judged(rated, &cost);
    assert_eq!(judged.scores[&Metric::Comprehensiveness], 0.7);
    assert_eq!(judged.cost, record("q2").cost);
    let mut log = AnswerLog::open(&place.path(), run()).unwrap();
    log.append(judged.clone()).unwrap();
    drop(log);
    assert_eq!(AnswerLog::read(&place.path()).unwrap().1, [record("q1"), judged]);
    let lines = fs::read_to_string(place.path()).unwrap();
    let judge = r#""judge_cost":{"model_calls":2,"prompt_tokens":300,"completion_tokens":20}"#;
    assert_eq!(lines.matches("judge_cost").count(), 1);
    assert!(lines.contains(judge) && lines.contains(r#""diversity":0.25"#), "{lines}");
}

#[test]
fn a_log_cut_at_any_byte_keeps_its_whole_lines_and_goes_on() {
    let whole = fs::read(Place::holding(&["q1", "q2"]).path()).unwrap();
    for end in 0..=whole.len() {
        let place = Place::new();
        fs::write(place.path(), &whole[..end]).unwrap();
        let mut log = AnswerLog::open(&place.path(), run()).unwrap();
        let lines = whole[..end].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(log.records().len(), lines.saturating_sub(1), "cut at {end}");
        for id in ["q1", "q2"] {
            if !log.is_finished(id) {
                log.append(record(id)).unwrap();
            }
        }
        assert_eq!(fs::read(place.path()).unwrap(), whole, "cut at {end}");
    }
}

#[test]
fn a_log_of_another_run_is_refused_by_what_differs_and_left_alone() {
    let place = Place::holding(&["q1"]);
    let before = fs::read(place.path()).unwrap();
    type Change = fn(&mut RunIdentity);
    let cases: [(Change, &str); 5] = [
        (|run| run.format = "nocha".to_owned(), "`format` is `quality` instead of `nocha`"),
        (|run| run.data.push('4'), "`data` is `0123` instead of `01234`"),
        (|run| run.strategy.clear(), "`strategy` is `plain` instead of ``"),
        (
            |run| _ = run.settings.insert("k".to_owned(), "5".to_owned()),
            "`settings.k` is `10` instead of `5`",
        ),
        (|run| _ = run.settings.remove("model"), "`settings.model` is `small` instead of nothing"),
    ];
    for (change, difference) in cases {
        let mut other = run();
        change(&mut other);
        let error = AnswerLog::open(&place.path(), other).unwrap_err();
        assert!(matches!(error, Error::OtherRun { .. }), "{error:?}");
        assert!(error.to_string().contains(difference), "{error}");
    }
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[test]
fn files_that_are_no_logs_and_broken_lines_are_refused_and_left_alone() {
    let whole = fs::read_to_string(Place::holding(&["q1"]).path()).unwrap();
    let twice = format!("{whole}{}", whole.lines().nth(1).unwrap()) + "\n";
    let cases = [
        ("notes".to_owned(), "line 1: expected the header"),
        ("notes\nof mine\n".to_owned(), "line 1: expected the header"),
        (whole.replace("\"version\":1", "\"version\":2"), "line 1: expected the header"),
        (format!("{whole}oops\n"), "line 3: expected a record"),
        (whole.replace("\"accuracy\":1.0", "\"accuracy\":1.5"), "line 2: expected scores"),
        (twice, "line 3: the question `q1` occurs twice"),
    ];
    for (contents, problem) in cases {
        let place = Place::new();
        fs::write(place.path(), &contents).unwrap();
        let error = AnswerLog::open(&place.path(), run()).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert_eq!(fs::read_to_string(place.path()).unwrap(), contents);
    }
}

#[test]
fn two_processes_do_not_write_one_log() {
    let place = Place::new();
    let log = AnswerLog::open(&place.path(), run()).unwrap();
    let error = AnswerLog::open(&place.path(), run()).unwrap_err();
    assert!(matches!(error, Error::LogInUse { .. }), "{error:?}");
    drop(log);
    AnswerLog::open(&place.path(), run()).unwrap();
}

#[test]
fn records_that_would_not_be_read_again_are_not_written() {
    let place = Place::holding(&["q1"]);
    let mut log = AnswerLog::open(&place.path(), run()).unwrap();
    let mut bad_score = record("q2");
    bad_score.scores.insert(Metric::Graded, f64::NAN);
    let mut bad_time = record("q3");
    bad_time.cost.seconds = -1.0;
    let bad_confidence = AnswerRecord { confidence: Some(1.5), ..record("q4") };
    for (bad, problem) in [
        (record("q1"), "already"),
        (bad_score, "graded"),
        (bad_time, "seconds"),
        (bad_confidence, "`confidence` from 0 to 1, got 1.5"),
    ] {
        let error = log.append(bad).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
    assert_eq!(AnswerLog::read(&place.path()).unwrap().1.len(), 1);
}

#[test]
fn a_missing_folder_is_named() {
    let place = Place::new();
    let path = place.0.path().join("none/run.jsonl");
    let error = AnswerLog::open(&path, run()).unwrap_err();
    assert!(matches!(error, Error::Unwritable { .. }), "{error:?}");
    assert_eq!(error.kind(), clew_core::ErrorKind::NotFound);
}

#[test]
fn a_log_from_before_confidence_was_recorded_is_read() {
    let place = Place::holding(&["q2"]);
    let whole = fs::read_to_string(place.path()).unwrap();
    let new = [
        r#""confidence":0.75,"#,
        r#""evidence":"found","#,
        r#""quotes":["über"],"#,
        r#""reranked_tokens":0,"#,
    ];
    let old = new.iter().fold(whole, |text, new| {
        assert!(text.contains(new), "{text}");
        text.replace(new, "")
    });
    fs::write(place.path(), old).unwrap();
    let expected =
        AnswerRecord { confidence: None, evidence: None, quotes: Vec::new(), ..record("q2") };
    assert_eq!(AnswerLog::read(&place.path()).unwrap().1, [expected]);
}

/// Checks the kind of error of an answer with this score.
fn check_miss(
    outcome: RecordedOutcome,
    (metric, score): (Metric, f64),
    evidence: Option<EvidenceReach>,
    expected: Option<MissKind>,
) {
    let scores = AnswerScores::from([(metric, score), (Metric::Recall, 0.0)]);
    let record = AnswerRecord { outcome, evidence, scores, ..record("q1") };
    assert_eq!(record.miss(), expected, "{record:?}");
}

#[test]
fn the_first_step_that_went_wrong_is_the_kind_of_an_error() {
    use EvidenceReach::{Found, NotFound, Read};
    use Metric::{Abstention, Accuracy, F1, Graded, RougeL};
    use RecordedOutcome::{Answered, NotInMemory};
    let cases = [
        (Answered, (F1, 0.5), Some(NotFound), None),
        (Answered, (F1, 0.49), Some(NotFound), Some(MissKind::NotRetrieved)),
        (Answered, (F1, 0.2), Some(Found), Some(MissKind::NotRead)),
        (Answered, (F1, 0.2), Some(Read), Some(MissKind::WrongSpan)),
        (Answered, (Accuracy, 0.0), None, Some(MissKind::Unexplained)),
        (Answered, (Graded, 1.0), None, None),
        (Answered, (RougeL, 0.1), None, None),
        (NotInMemory, (F1, 0.0), Some(NotFound), Some(MissKind::NotRetrieved)),
        (NotInMemory, (F1, 0.0), Some(Found), Some(MissKind::NotRead)),
        (NotInMemory, (F1, 0.0), Some(Read), Some(MissKind::RefusedWrongly)),
        (NotInMemory, (RougeL, 0.0), None, Some(MissKind::RefusedWrongly)),
        (NotInMemory, (Abstention, 1.0), None, None),
        (Answered, (Abstention, 0.0), None, Some(MissKind::AnsweredWrongly)),
        (Answered, (Abstention, 1.0), None, None),
    ];
    for (outcome, score, evidence, expected) in cases {
        check_miss(outcome, score, evidence, expected);
    }
    for kind in MissKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    assert!(MissKind::ALL.is_sorted());
}

#[test]
fn a_miss_tells_what_was_asked_expected_and_given() {
    let question = EvalQuestion {
        id: "q2".to_owned(),
        text: "Who?".to_owned(),
        kind: "choice".to_owned(),
        groups: Vec::new(),
        gold: Vec::new(),
        asked_at: None,
        is_abstention: false,
        references: vec!["Bo".to_owned()],
        scoring: Scoring::Squad,
    };
    let mut wrong = record("q2");
    assert_eq!(AnswerMiss::of(&run(), &question, &wrong), None);
    wrong.scores.insert(Metric::Accuracy, 0.0);
    let miss = AnswerMiss::of(&run(), &question, &wrong).unwrap();
    let expected = serde_json::json!({
        "strategy": "plain", "question_id": "q2", "type": "choice", "kind": "not-read",
        "question": "Who?", "expected": ["Bo"], "outcome": "answered",
        "answer": "(B) über\nall", "confidence": 0.75, "evidence": "found", "quotes": ["über"],
        "scores": { "accuracy": 0.0, "em": 0.1 + 0.2 },
    });
    assert_eq!(serde_json::to_value(&miss).unwrap(), expected);
    wrong.scores.insert(Metric::Abstention, 0.0);
    let never_said = EvalQuestion { is_abstention: true, ..question };
    let miss = AnswerMiss::of(&run(), &never_said, &wrong).unwrap();
    assert_eq!((miss.kind, miss.expected), (MissKind::AnsweredWrongly, Vec::<String>::new()));
}
