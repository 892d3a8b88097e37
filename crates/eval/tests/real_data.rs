//! Tests on whole data sets: `CLEW_EVAL_DATA` names a folder with the subfolders `locomo`,
//! `longmemeval`, `beam`, `lihua_world`, `multihop`, `longdoc` and `reading`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clew_eval::Scoring;
use clew_eval::answers::{Metric, RecordedOutcome};
use clew_eval::{
    AnswerCost, AnswerLog, AnswerRecord, AnswerReport, DatasetFormat, EvalQuestion, RunIdentity,
    compare,
};

const DATA_SETS: [(&str, &str); 11] = [
    ("multihop", "multihop/musique_train100"),
    ("multihop", "multihop/musique_kag100"),
    ("multihop", "multihop/hotpotqa_train100"),
    ("locomo", "locomo"),
    ("longmemeval", "longmemeval/oracle.jsonl.gz"),
    ("lihua", "lihua_world"),
    ("beam", "beam"),
    ("quality", "longdoc/quality_leval.jsonl"),
    ("govreport", "longdoc/govreport_leval.jsonl"),
    ("squality", "longdoc/squality_train.jsonl"),
    ("squad", "reading/dev/squad2_dev.jsonl.gz"),
];

/// Every right answer scores 1, and [`Metric::Answered`] of a machine that never knows is 0.
#[test]
#[ignore = "needs CLEW_EVAL_DATA"]
fn right_answers_are_right_and_silence_is_wrong_on_every_data_set() {
    let data = PathBuf::from(std::env::var("CLEW_EVAL_DATA").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let sets = DATA_SETS.into_iter().chain([("nocha", "longdoc/nocha")]);
    for (index, (format, place)) in sets.enumerate() {
        let path = data.join(place);
        let format = DatasetFormat::named(format).unwrap();
        let survey = format.survey(&path, None, None).unwrap();
        println!("{place}: {survey:?}");
        let run = |strategy: &str| RunIdentity {
            format: format.name.to_owned(),
            data: survey.fingerprint.clone(),
            strategy: strategy.to_owned(),
            settings: BTreeMap::new(),
        };
        let log = |name| folder.path().join(format!("{index}-{name}.jsonl"));
        let mut right = AnswerLog::open(&log("right"), run("right")).unwrap();
        let mut silent = AnswerLog::open(&log("silent"), run("silent")).unwrap();
        for haystack in format.open(&path, None, None).unwrap() {
            for question in haystack.unwrap().answerable() {
                let (outcome, answer) = right_answer(question);
                let cost = AnswerCost { evidence_tokens: 1000, ..AnswerCost::default() };
                right.append(AnswerRecord::new(question, outcome, answer, cost)).unwrap();
                let silence = String::new();
                let cost = AnswerCost::default();
                let record =
                    AnswerRecord::new(question, RecordedOutcome::NotInMemory, silence, cost);
                silent.append(record).unwrap();
            }
        }
        let reports =
            [right, silent].map(|log| AnswerReport::new(log.run().clone(), log.records()).unwrap());
        let comparison = compare(&reports).unwrap();
        println!("{comparison}");
        let [right, silent] = &reports;
        assert_eq!(right.questions(), survey.answerable);
        for metric in Metric::ALL.into_iter().filter(|metric| *metric != Metric::Answered) {
            if let Some(estimate) = right.estimate("overall", metric) {
                assert!((estimate.mean - 1.0).abs() < 1e-9, "{place} {metric}: {estimate:?}");
            }
        }
        assert_eq!(silent.estimate("overall", Metric::Answered).unwrap().mean, 0.0);
        if let Ok(pages) = std::env::var("CLEW_EVAL_PAGES") {
            std::fs::write(format!("{pages}/{index}.html"), comparison.to_html()).unwrap();
        }
    }
}

fn right_answer(question: &EvalQuestion) -> (RecordedOutcome, String) {
    if question.is_abstention {
        return (RecordedOutcome::NotInMemory, String::new());
    }
    let answer = match &question.scoring {
        Scoring::Choice { right, .. } => format!("({right})"),
        Scoring::ClaimPair { is_true, .. } => format!("The claim is {is_true}."),
        Scoring::Squad
        | Scoring::Locomo
        | Scoring::LocomoSubAnswers
        | Scoring::RougeL
        | Scoring::Judged(_) => question.references[0].clone(),
    };
    (RecordedOutcome::Answered, answer)
}
