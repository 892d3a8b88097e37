use clew_core::{Cost, Verdict};

use super::*;
use crate::answers::{AnswerScores, EvidenceReach, RecordedOutcome};

fn run(strategy: &str, k: &str) -> RunIdentity {
    RunIdentity {
        format: "nocha".to_owned(),
        data: "0123".to_owned(),
        strategy: strategy.to_owned(),
        settings: [("k", k), ("model", "<small> & fast")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    }
}

fn claim(id: usize, kind: &str, pair: &str, score: f64) -> AnswerRecord {
    AnswerRecord {
        question_id: id.to_string(),
        kind: kind.to_owned(),
        groups: vec!["all".to_owned()],
        pair: Some(pair.to_owned()),
        outcome: RecordedOutcome::Answered,
        answer: "true".to_owned(),
        confidence: None,
        evidence: None,
        quotes: Vec::new(),
        scores: AnswerScores::from([(Metric::Accuracy, score), (Metric::Answered, 1.0)]),
        cost: AnswerCost {
            model_calls: 2,
            evidence_tokens: 100 * id as u64,
            seconds: 0.5,
            ..AnswerCost::default()
        },
        judge_cost: None,
    }
}

/// Returns answers of which 3 of 4 claims and 1 of 2 pairs of `alpha` are right, and no claim of
/// `beta`, whose pair is incomplete.
fn records() -> Vec<AnswerRecord> {
    vec![
        claim(1, "alpha", "a1", 1.0),
        claim(2, "alpha", "a1", 1.0),
        claim(3, "alpha", "a2", 1.0),
        claim(4, "alpha", "a2", 0.0),
        claim(5, "beta", "b1", 0.0),
    ]
}

fn report(strategy: &str, k: &str) -> AnswerReport {
    AnswerReport::new(run(strategy, k), &records()).unwrap()
}

#[test]
fn groups_average_their_questions_and_their_pairs() {
    let report = report("plain", "10");
    let cases = [
        ("overall", Metric::Accuracy, 5, 0.6),
        ("overall", Metric::PairAccuracy, 2, 0.5),
        ("alpha", Metric::Accuracy, 4, 0.75),
        ("alpha", Metric::PairAccuracy, 2, 0.5),
        ("beta", Metric::Accuracy, 1, 0.0),
    ];
    for (group, metric, n, mean) in cases {
        let estimate = report.estimate(group, metric).unwrap();
        assert_eq!((estimate.n, estimate.mean), (n, mean), "{group} {metric}");
        let [low, high] = estimate.ci95;
        assert!(0.0 <= low && low <= mean && mean <= high && high <= 1.0, "{group} {metric}");
    }
    assert_eq!(report.estimate("beta", Metric::PairAccuracy), None);
    assert_eq!(report.estimate("none", Metric::Accuracy), None);
    assert_eq!((report.questions(), report.headline()), (5, Metric::PairAccuracy));
    assert_eq!(report.overall().mean_cost(EVIDENCE_TOKENS), 300.0);
}

#[test]
fn groups_of_several_types_are_shown_where_they_are_not_all_questions() {
    let mut records = records();
    for (index, record) in records.iter_mut().enumerate() {
        record.groups.push("whole".to_owned());
        if index < 2 {
            record.groups.push("easy".to_owned());
        }
    }
    let report = AnswerReport::new(run("plain", "10"), &records).unwrap();
    let names: Vec<_> = report.groups.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["overall", "easy", "alpha", "beta"]);
}

#[test]
fn the_json_has_the_documented_keys_in_order() {
    let json = serde_json::to_string(&report("plain", "10")).unwrap();
    let start = concat!(
        r#"{"format":"nocha","data":"0123","strategy":"plain","settings":{"k":"10","#,
        r#""model":"<small> & fast"},"groups":{"overall":{"n":5,"metrics":{"pair-accuracy":{"n":2,"#,
        r#""mean":0.5,"ci95":[0.0,1.0]},"accuracy":{"n":5,"mean":0.6,"ci95":["#
    );
    assert!(json.starts_with(start), "{json}");
    let cost = r#""cost":{"model_calls":{"mean":2.0,"total":10.0,"ci95":[2.0,2.0]},"#;
    assert!(json.contains(cost), "{json}");
    let end = r#""latency":{"median":0.5,"p95":0.5},"misses":{"unexplained":1}}}}"#;
    assert!(json.ends_with(end), "{json}");
}

#[test]
fn the_text_has_tables_of_aligned_columns() {
    let text = report("plain", "10").to_string();
    assert!(text.starts_with("nocha, strategy plain, k 10, model <small> & fast\n"), "{text}");
    let quality: Vec<_> = text.split("\n\n").nth(1).unwrap().lines().collect();
    assert_eq!(quality[0], "group    n  pair-accuracy  accuracy  answered");
    assert_eq!(quality[1], "overall  5           50.0      60.0     100.0");
    assert!(quality.iter().all(|line| line.len() == quality[0].len()), "{text}");
    assert!(text.contains("evidence tokens") && text.contains("0-100 of 2 "), "{text}");
}

/// Returns the five answers. A judge grades the first three as right, at a cost of their number.
fn judged() -> Vec<AnswerRecord> {
    let judged = (1..).zip(records()).map(|(number, record)| {
        let cost = Cost { model_calls: number, prompt_tokens: 100, ..Cost::default() };
        record.judged(Verdict::Graded(number <= 3), &cost)
    });
    judged.collect()
}

#[test]
fn a_judge_has_columns_and_a_cost_of_its_own() {
    let report = AnswerReport::new(run("plain", "10"), &judged()).unwrap();
    assert_eq!(report.headline(), Metric::Graded);
    let graded = report.estimate("overall", Metric::Graded).unwrap();
    assert_eq!((graded.n, graded.mean), (5, 0.6));
    assert!(graded.ci95[0] < 0.6 && graded.ci95[1] > 0.6);
    assert_eq!(report.estimate("beta", Metric::Graded).unwrap().mean, 0.0);
    let json = serde_json::to_value(&report).unwrap();
    let overall = &json["groups"]["overall"];
    assert_eq!(overall["judge_cost"]["model_calls"]["total"], 15.0);
    assert_eq!(overall["judge_cost"]["model_calls"]["mean"], 3.0);
    assert_eq!(overall["cost"]["model_calls"]["total"], 10.0);
    let text = report.to_string();
    assert!(text.contains("group    n  graded  pair-accuracy"), "{text}");
    let costs = "cost of judging, mean per question, with 95 % intervals below\n\n\
                 group    model calls  prompt tokens  completion tokens\n\
                 overall         3.00            100               0.00\n";
    assert!(text.contains(costs), "{text}");
    assert!(report.to_html().contains("Cost of judging per question"));
}

/// Returns an answer to a question, or with `score` for a question that has none, a response.
fn answer(id: usize, outcome: RecordedOutcome, metric: Metric, score: f64) -> AnswerRecord {
    AnswerRecord {
        outcome,
        pair: None,
        scores: AnswerScores::from([(metric, score)]),
        confidence: Some(0.05 + id as f64 / 10.0),
        ..claim(id, "kind", "", 0.0)
    }
}

#[test]
fn what_was_refused_is_counted_as_precision_and_recall() {
    use RecordedOutcome::{Answered, NotInMemory};
    let mut records = vec![
        answer(1, Answered, Metric::F1, 0.6),
        answer(2, NotInMemory, Metric::F1, 0.0),
        answer(3, NotInMemory, Metric::Abstention, 1.0),
        answer(4, NotInMemory, Metric::Abstention, 1.0),
        answer(5, Answered, Metric::Abstention, 0.0),
    ];
    let report = AnswerReport::new(run("plain", "10"), &records).unwrap();
    let estimate = |metric| report.estimate("overall", metric).map(|of| (of.n, of.mean));
    assert_eq!(estimate(Metric::Abstention), Some((3, 2.0 / 3.0)));
    assert_eq!(estimate(Metric::AbstentionPrecision), Some((3, 2.0 / 3.0)));
    assert_eq!(estimate(Metric::Attempted), Some((2, 0.5)));
    // Without questions that have no answer, there is nothing to be precise about.
    records.truncate(2);
    let report = AnswerReport::new(run("plain", "10"), &records).unwrap();
    assert_eq!(report.estimate("overall", Metric::AbstentionPrecision), None);
    assert_eq!(report.estimate("overall", Metric::Attempted), None);
}

#[test]
fn confidence_and_kinds_of_wrong_answers_have_tables() {
    use RecordedOutcome::{Answered, NotInMemory};
    let mut records = vec![
        answer(1, Answered, Metric::F1, 0.4),
        answer(1, Answered, Metric::F1, 0.5),
        answer(8, Answered, Metric::F1, 1.0),
        answer(8, Answered, Metric::Abstention, 0.0),
        answer(0, NotInMemory, Metric::F1, 0.0),
    ];
    records[0].evidence = Some(EvidenceReach::Found);
    records[4].evidence = Some(EvidenceReach::Read);
    let report = AnswerReport::new(run("plain", "10"), &records).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let overall = &json["groups"]["overall"];
    // What was refused does not count: 2 * |0.15 - 0.5| and 2 * |0.85 - 0.5|.
    assert_eq!(overall["calibration"]["n"], 4, "{json}");
    let ece = overall["calibration"]["ece"].as_f64().unwrap();
    assert!((ece - 0.35).abs() < 1e-12, "{ece}");
    assert_eq!(overall["calibration"]["bins"][1]["right"]["mean"], 0.5, "{json}");
    let misses = serde_json::json!(
        { "not-read": 1, "refused-wrongly": 1, "answered-wrongly": 1 }
    );
    assert_eq!(overall["misses"], misses);
    let text = report.to_string();
    let row = "overall  4  35.0        50.0   50.0         50.0";
    assert!(text.contains(row) && text.contains("of 2"), "{text}");
    let kinds = "group    wrong  not-read  refused-wrongly  answered-wrongly\n\
                 overall      3         1                1                 1\n";
    assert!(text.contains(kinds), "{text}");
    let page = report.to_html();
    check_tags(&page);
    assert!(page.contains("by confidence") && page.contains("Wrong answers by kind"), "{page}");
}

#[test]
fn runs_with_and_without_a_judge_are_compared() {
    let mut with_judge = run("plain", "10");
    with_judge.settings.insert("judge".to_owned(), "large".to_owned());
    let with_judge = AnswerReport::new(with_judge, &judged()).unwrap();
    let reports = [report("plain", "10"), with_judge];
    let comparison = compare(&reports).unwrap();
    let text = comparison.to_string();
    assert!(text.contains("plain judge=large") && text.contains("cost of judging"), "{text}");
    check_tags(&comparison.to_html());
    let json = serde_json::to_value(&comparison).unwrap();
    assert!(json["runs"][0]["groups"]["overall"].get("judge_cost").is_none(), "{json}");
    let unjudged = [report("plain", "10"), report("plain", "20")];
    assert!(!compare(&unjudged).unwrap().to_string().contains("judging"));
}

#[test]
fn runs_are_compared_by_what_tells_them_apart() {
    let reports = [report("plain", "10"), report("plain", "20"), report("tree", "20")];
    let text = compare(&reports).unwrap().to_string();
    for label in ["plain k=10", "plain k=20", "tree k=20"] {
        assert!(text.contains(label), "{text}");
    }
    assert!(!text.contains("model="), "{text}");
    assert!(text.contains("pair-accuracy by type"), "{text}");
    let json = serde_json::to_value(compare(&reports).unwrap()).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn reports_of_other_data_and_none_at_all_are_not_compared() {
    let mut other = report("plain", "10");
    other.run.data = "4567".to_owned();
    let error = compare(&[report("plain", "10"), other]).unwrap_err();
    assert!(matches!(error, Error::NotComparable { .. }), "{error:?}");
    assert!(error.to_string().contains("`4567`"), "{error}");
    assert!(matches!(compare(&[]), Err(Error::NothingToScore)));
    assert!(matches!(AnswerReport::new(run("plain", "10"), &[]), Err(Error::NothingToScore)));
}

#[test]
fn pages_are_whole_load_nothing_and_run_nothing() {
    let mut reports = vec![report("plain", "10"), report("<b>\"tree\"</b>", "20")];
    let unfinished = AnswerReport::new(run("late", "5"), &records()[..3]).unwrap();
    reports.push(unfinished);
    let pages = [report("plain", "10").to_html(), compare(&reports).unwrap().to_html()];
    for page in &pages {
        check_tags(page);
        for loaded in ["http", "<script", "url(", "@import", "src=", "href="] {
            assert!(!page.contains(loaded), "{loaded}");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(!page.contains("<b>") && !page.contains("NaN") && !page.contains("inf"));
    }
    assert_eq!(pages[0].matches("<svg").count(), 1);
    assert_eq!(pages[1].matches("<svg").count(), 2);
    assert_eq!(pages[1].matches("<circle").count(), 3);
    assert!(pages[1].contains("different numbers of questions"));
    assert!(pages[1].contains("&lt;b&gt;&quot;tree&quot;&lt;/b&gt;"));
}

/// Checks that every tag is closed, in the right order.
fn check_tags(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split_whitespace().next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None if tag.ends_with('/') || ["!DOCTYPE", "meta"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
