//! Tests of `clew eval`: after a run of `eval answers` ends for any reason, neither answers nor
//! verdicts are requested again. Pages of logs are checked in a browser. `eval reading` measures a
//! reader by itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clew_eval::answers::{AnswerScores, EvidenceReach, Metric, RecordedOutcome};
use clew_eval::{AnswerCost, AnswerLog, AnswerRecord, RunIdentity};
use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest, write_tiny_reader};
use serde_json::{Value, json};

use crate::harness::{Home, Ran, eventually};
use crate::scripts::script;

/// Number of questions of the data set: so many that a run takes longer than killing it.
const QUESTIONS: usize = 60;

/// Writes a data set of `size` passages, each of which answers a question.
fn data_set(home: &Home, size: usize) -> String {
    let lines = |line: &dyn Fn(usize) -> Value| {
        (0..size).map(|number| format!("{}\n", line(number))).collect::<String>()
    };
    let passage = |number: usize| {
        let text = format!("The keeper of gate {number} is called Orso {number}.");
        json!({ "idx": number, "title": format!("Gate {number}"), "text": text })
    };
    let question = |number: usize| {
        json!({
            "question_id": format!("q{number}"), "type": "gate", "supporting": [number],
            "question": format!("What is the keeper of gate {number} called?"),
            "answer": format!("Orso {number}"),
        })
    };
    home.write("corpus.jsonl", lines(&passage));
    let questions = home.write("questions.jsonl", lines(&question));
    questions.parent().unwrap().to_str().unwrap().to_owned()
}

/// Returns the complete lines of a log.
fn lines(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_evaluation_goes_on_and_asks_nothing_twice() {
    let home = Home::new();
    let data = data_set(&home, QUESTIONS);
    let logs = home.path("logs");
    let page = home.path("page.html");
    let answers = [
        "eval",
        "answers",
        "--format",
        "multihop",
        "--data",
        &data,
        "--strategy",
        "direct,naive",
        "--logs",
        logs.to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
        "--json",
    ];
    let mut command = home.clew();
    command.args(answers).arg("--model").arg(home.model());
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let log = logs.join("multihop-naive.jsonl");
    eventually("some questions are answered", async || (lines(&log).len() > 3).then_some(())).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before = [lines(&logs.join("multihop-direct.jsonl")), lines(&log)];
    assert!(before[1].len() <= QUESTIONS, "the run ended before it was killed");
    tokio::time::sleep(Duration::from_millis(100)).await;

    let mut command = home.clew();
    command.args(answers).arg("--model").arg(home.model());
    let reports = Ran::of(command).done();
    assert_eq!(reports.as_array().unwrap().len(), 2, "{reports}");
    for (before, name) in before.iter().zip(["direct", "naive"]) {
        let log = logs.join(format!("multihop-{name}.jsonl"));
        let after = lines(&log);
        // A header and a line for each question. Earlier lines are unchanged.
        assert_eq!(after.len(), 1 + QUESTIONS);
        assert_eq!(after[..before.len()], before[..]);
    }
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && !html.contains("<script"), "{html}");
    let compare = ["eval", "compare", log.to_str().unwrap(), "--json"];
    let compared = home.run_embedded(&compare).done();
    assert_eq!(compared.as_array().unwrap().len(), 1, "{compared}");
    // A run with other settings does not continue in this log.
    let mut command = home.clew();
    command.args(answers).args(["-k", "3"]).arg("--model").arg(home.model());
    let refused = Ran::of(command).error();
    assert!(refused.to_string().contains("another run"), "{refused}");
}

#[test]
fn every_strategy_is_measured_by_what_it_reads_and_by_its_answers() {
    const SIZE: usize = 6;
    let home = Home::new();
    let data = data_set(&home, SIZE);
    let listed = home.run_embedded(&["strategies", "--json"]).done();
    let listed = listed["strategies"].as_array().unwrap();
    let names: Vec<&str> = listed.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let all = names.join(",");
    let of = ["--format", "multihop", "--data", &data, "--strategy", &all];

    let retrieval = [&["eval", "retrieval", "--json"][..], &of].concat();
    let reports = home.run_embedded(&retrieval).done();
    let reports = reports.as_array().unwrap();
    assert_eq!(reports.len(), 1 + names.len(), "a search and the strategies");
    for (report, name) in reports[1..].iter().zip(&names) {
        assert_eq!(report["strategy"], *name, "{report}");
        let found = report["groups"]["all"]["any@10"].as_f64().unwrap();
        assert!(found > 0.0, "{name} reads nothing that matters: {report}");
    }

    let logs = home.path("logs");
    let logs = logs.to_str().unwrap();
    let answers = ["eval", "answers", "--json", "--logs", logs, "--evidence-tokens", "40"];
    let reports = home.run_embedded(&[&answers[..], &of].concat()).done();
    assert_eq!(reports.as_array().unwrap().len(), names.len(), "{reports}");
    for (report, name) in reports.as_array().unwrap().iter().zip(&names) {
        assert_eq!(report["strategy"], *name, "{report}");
        assert_eq!(report["settings"]["evidence-tokens"], "40", "{report}");
        let overall = &report["groups"]["overall"];
        assert_eq!(overall["metrics"]["recall"]["n"], json!(SIZE), "{report}");
        // A passage has about twenty tokens, and at least one is read.
        let read = overall["cost"]["evidence_tokens"]["mean"].as_f64().unwrap();
        let is_walk = name.starts_with("memwalker") || *name == "route";
        assert!(read <= 60.0 || is_walk, "{name} reads {read} tokens");
    }
}

#[test]
fn units_keys_mergings_and_uses_of_time_are_measured_in_one_run() {
    let home = Home::new();
    let session = |said: &str, reply: &str, has_answer: bool| {
        json!([
            { "role": "user", "content": said, "has_answer": has_answer },
            { "role": "assistant", "content": reply },
        ])
    };
    let record = json!({
        "question_id": "q1", "question_type": "temporal-reasoning",
        "question": "Which trees did I plant on 2 January 2030?", "answer": "figs",
        "question_date": "2030/02/01 (Fri) 10:00", "answer_session_ids": ["garden"],
        "haystack_session_ids": ["trip", "garden"],
        "haystack_dates": ["2030/01/01 (Tue) 08:00", "2030/01/02 (Wed) 08:00"],
        "haystack_sessions": [
            session("Where is the nearest sea?", "South of here.", false),
            session("I planted twelve fig trees.", "So many trees.", true),
        ],
    });
    let data = home.write("oracle.jsonl", format!("{record}\n"));
    let reports = home.run_embedded(&[
        "eval",
        "retrieval",
        "--json",
        "--format",
        "longmemeval",
        "--data",
        data.to_str().unwrap(),
        "--unit",
        "session,round",
        "--keys",
        "value,fact,value+fact",
        "--merging",
        "key,rank",
        "--time",
        "ignore,filter",
    ]);
    let reports = reports.done();
    let reports = reports.as_array().unwrap();
    // Keys of one part are merged in one way, the others in two.
    assert_eq!(reports.len(), 2 * (1 + 1 + 2) * 2, "{reports:?}");
    for report in reports {
        assert_eq!(report["groups"]["all"]["any@2"], json!(1.0), "{report}");
    }
    let of = |name: &str| reports.iter().map(|report| report[name].as_str().unwrap()).collect();
    let [units, mergings, times]: [Vec<&str>; 3] = ["unit", "merging", "time"].map(of);
    assert_eq!((units[0], units[15]), ("session", "round"));
    assert_eq!(mergings.iter().filter(|merging| **merging == "rank").count(), 4);
    assert_eq!(times[..2], ["ignore", "filter"]);
}

/// Passages of a data set in SQuAD's style: what stands in them, and whether `dog` answers.
const PASSAGES: [(&str, &str); 3] = [
    ("The dog lives in the old house by the river.", "dog"),
    ("The tea lives in the old house by the river.", ""),
    ("The train lives in the old house by the river.", "train"),
];

/// Writes questions about [`PASSAGES`].
fn reading_set(home: &Home) -> PathBuf {
    let line = |(number, (context, answer)): (usize, &(&str, &str))| {
        let answers: Vec<Value> = match *answer {
            "" => Vec::new(),
            answer => vec![json!({ "text": answer, "start": 4 })],
        };
        let line = json!({
            "id": format!("q{number}"), "source": "river", "title": "River_house",
            "context": context, "question": "who lives in the old house by the river?",
            "answers": answers,
        });
        format!("{line}\n")
    };
    home.write("squad2_dev.jsonl", PASSAGES.iter().enumerate().map(line).collect::<String>())
}

/// Reads JSON Lines, by id.
fn by_id(text: &str, id: &str) -> Vec<(String, Value)> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut lines: Vec<_> =
        lines.map(|line| (line[id].as_str().unwrap().to_owned(), line)).collect();
    lines.sort_by(|one, other| one.0.cmp(&other.0));
    lines
}

#[test]
fn a_reader_is_measured_by_itself() {
    let home = Home::new();
    let data = reading_set(&home);
    let adapter = home.path("reader.safetensors");
    write_tiny_reader(&home.model(), &adapter, &["dog"]).unwrap();
    let misses = home.path("misses.jsonl");
    let reading = |more: &[&str]| {
        let mut command = home.clew();
        command.args(["eval", "reading"]).arg(&data).arg("--model").arg(home.model());
        command.env("CLEW_READER__ADAPTER", &adapter).args(more);
        Ran::of(command)
    };
    let wrong = ["--json", "--calibrate", "--misses", misses.to_str().unwrap()];
    let report = reading(&wrong).done();
    let overall = &report["groups"]["overall"];
    assert_eq!((&overall["n"], &overall["answerable"]), (&json!(3), &json!(2)), "{report}");
    // Of the dog and the tea all is right. The train is refused.
    let two_thirds = json!(2.0 / 3.0);
    assert_eq!((&overall["f1"]["mean"], &overall["em"]["mean"]), (&two_thirds, &two_thirds));
    assert_eq!(overall["abstention"]["mean"], 1.0, "{report}");
    assert_eq!(overall["abstention_precision"]["mean"], 0.5, "{report}");
    assert!(overall["tokens"]["mean"].as_f64().unwrap() > 10.0, "{report}");
    assert!(report["calibration"]["slope"].is_number(), "{report}");
    let missed = std::fs::read_to_string(&misses).unwrap();
    let missed = by_id(&missed, "id");
    let [(id, miss)] = &missed[..] else { panic!("{missed:?}") };
    assert_eq!((&**id, &miss["kind"]), ("q2", &json!("refused-wrongly")), "{miss}");
    assert_eq!(miss["expected"], json!(["train"]), "{miss}");

    let text = reading(&[]).stdout;
    assert!(text.contains("abstention precision") && !text.contains("slope"), "{text}");
    let one = reading(&["--json", "--limit", "1"]).done();
    assert_eq!(one["groups"]["overall"]["n"], 1, "{one}");
    let refused = reading(&["--json", "--threshold", "2"]);
    assert!(refused.stderr.contains("expected a number from 0 to 1"), "{}", refused.stderr);
    // The packaged reader has another base.
    let data = data.to_str().unwrap();
    let none = home.run_embedded(&["eval", "reading", data, "--json"]).error();
    assert_eq!(none["reason"], "NO_READER", "{none}");
}

#[test]
fn wrong_answers_are_written_with_the_step_that_went_wrong() {
    let home = Home::new();
    let data = reading_set(&home);
    let adapter = home.path("reader.safetensors");
    write_tiny_reader(&home.model(), &adapter, &["dog"]).unwrap();
    let misses = home.path("misses.jsonl");
    let mut command = home.clew();
    command.args(["eval", "answers", "--format", "squad", "--no-structure", "--json"]);
    command.arg("--data").arg(&data).arg("--logs").arg(home.path("logs"));
    command.arg("--misses").arg(&misses).arg("--model").arg(home.model());
    command.env("CLEW_READER__ADAPTER", &adapter);
    let reports = Ran::of(command).done();
    let report = &reports[0];
    assert_eq!(report["settings"]["reader"].as_str().unwrap().len(), 16, "{report}");
    // All is asked of the whole article, in which the dog answers.
    let overall = &report["groups"]["overall"];
    assert_eq!(overall["metrics"]["f1"]["n"], 3, "{report}");
    assert_eq!(overall["metrics"]["abstention"]["mean"], 0.0, "{report}");
    assert_eq!(overall["calibration"]["n"], 3, "{report}");
    assert!(overall["latency"]["p95"].is_number(), "{report}");
    assert!(overall["cost"]["reranked_tokens"]["ci95"].is_array(), "{report}");
    assert_eq!(overall["misses"], json!({ "wrong-span": 1, "answered-wrongly": 1 }), "{report}");
    let missed = std::fs::read_to_string(&misses).unwrap();
    let missed = by_id(&missed, "question_id");
    let [(tea, of_tea), (train, of_train)] = &missed[..] else { panic!("{missed:?}") };
    assert_eq!((&**tea, &**train), ("q1", "q2"));
    assert_eq!(of_tea["kind"], "answered-wrongly", "{of_tea}");
    assert_eq!((&of_train["kind"], &of_train["evidence"]), (&json!("wrong-span"), &json!("read")));
    assert_eq!(of_train["answer"].as_str().unwrap().to_lowercase(), "dog", "{of_train}");
    assert!(of_train["quotes"][0].as_str().unwrap().contains("dog"), "{of_train}");
}

#[test]
fn an_option_can_be_chosen_by_its_likeness_to_the_answer() {
    let home = Home::new();
    let adapter = home.path("reader.safetensors");
    write_tiny_reader(&home.model(), &adapter, &["dog"]).unwrap();
    let story = json!({
        "doc_id": "river", "document": PASSAGES[0].0,
        "questions": [
            "who lives in the old house by the river?\n(A) a cat\n(B) a dog\n(C) a train",
            "who lives in the old house?\n(A) tea\n(B) a train",
        ],
        "answers": ["(B) a dog", "(A) tea"],
    });
    let data = home.write("quality_leval.jsonl", format!("{story}\n"));
    let logs = home.path("logs");
    let mut command = home.clew();
    command.args(["eval", "answers", "--format", "quality", "--no-structure", "--json"]);
    command.args(["--options", "likeness", "--data"]).arg(&data).arg("--logs").arg(&logs);
    command.arg("--model").arg(home.model()).env("CLEW_READER__ADAPTER", &adapter);
    let reports = Ran::of(command).done();
    assert_eq!(reports[0]["settings"]["options"], "likeness", "{reports}");
    assert_eq!(reports[0]["groups"]["overall"]["metrics"]["accuracy"]["n"], 2, "{reports}");
    let answers = records(&logs.join("quality-direct.jsonl"));
    let answer = |id: &str| {
        let record = answers.iter().find(|record| record["question_id"] == id);
        record.unwrap()["answer"].as_str().unwrap().to_owned()
    };
    assert_eq!(answer("river_q0"), "(B) a dog");
    // Nothing in common, so the meaning decides.
    assert!(["(A) tea", "(B) a train"].contains(&&*answer("river_q1")), "{answers:?}");
}

/// Strategies with long and short names, more than there are colours.
const STRATEGIES: [&str; 10] = [
    "direct",
    "naive",
    "full-context",
    "recurrent-summary",
    "memwalker-best",
    "qrmem-reflect-offline",
    "qrmem-reflect-full",
    "hgmem",
    "memorag",
    "route",
];
const TYPES: [&str; 4] =
    ["single-session-preference", "temporal-reasoning", "abstention", "multi-session"];

/// Writes the log of a made-up run, which is the better, the more evidence it reads.
fn made_up_log(home: &Home, number: usize, strategy: &str) -> PathBuf {
    let run = RunIdentity {
        format: "longmemeval".to_owned(),
        data: "5d1c0a2f9e7744b3".to_owned(),
        strategy: strategy.to_owned(),
        settings: [("k", "10"), ("chunking", "Sentences { max_tokens: 256, overlap_tokens: 32 }")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    let path = home.path(&format!("{strategy}.jsonl"));
    let mut log = AnswerLog::open(&path, run).unwrap();
    for question in 0..24 {
        let is_right = (question * 7 + number) % 12 <= number;
        let score = if is_right { 1.0 } else { 0.0 };
        log.append(AnswerRecord {
            question_id: format!("q{question}"),
            kind: TYPES[question % TYPES.len()].to_owned(),
            groups: vec!["all".to_owned()],
            pair: None,
            outcome: RecordedOutcome::Answered,
            answer: "made up".to_owned(),
            confidence: Some(0.1 + 0.7 * score),
            evidence: Some(EvidenceReach::Read),
            quotes: Vec::new(),
            scores: AnswerScores::from([
                (Metric::F1, 0.1 + 0.8 * score),
                (Metric::ExactMatch, score),
                (Metric::Answered, 1.0),
            ]),
            cost: AnswerCost {
                model_calls: number as u64,
                prompt_tokens: 1 << (8 + number),
                completion_tokens: 40,
                embedded_tokens: 12,
                reranked_tokens: 0,
                evidence_tokens: 1 << (7 + number),
                seconds: 0.25 * number as f64,
            },
            judge_cost: None,
        })
        .unwrap();
    }
    path
}

#[test]
fn a_browser_shows_pages_whole_and_without_errors() {
    let home = Home::new();
    let strategies = STRATEGIES.iter().enumerate();
    let logs: Vec<PathBuf> =
        strategies.map(|(number, strategy)| made_up_log(&home, number, strategy)).collect();
    let mut look = script("page.py");
    for (name, logs) in
        [("one.html", &logs[5..6]), ("two.html", &logs[..2]), ("all.html", &logs[..])]
    {
        let page = home.path(name);
        let mut command = home.clew();
        command.args(["eval", "compare", "--json", "--html"]).arg(&page).args(logs);
        let compared = Ran::of(command).done();
        assert_eq!(compared.as_array().unwrap().len(), logs.len(), "{compared}");
        look.arg(page);
    }
    let ran = Ran::of(look);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.ends_with("all is well\n"), "{}", ran.stdout);
}

/// Returns the number of the gate that a judge is asked about.
fn gate(request: &ModelRequest) -> usize {
    let (_, question) = request.last().split_once("keeper of gate ").unwrap();
    question.split(' ').next().unwrap().parse().unwrap()
}

/// Judges answers about even gates as right.
fn grade(request: &ModelRequest) -> ModelReply {
    let format = request.body["response_format"].to_string();
    assert!(format.contains("yes") && format.contains("no"), "{format}");
    let choice = if gate(request).is_multiple_of(2) { "yes" } else { "no" };
    ModelReply::Text(json!({ "choice": choice }).to_string())
}

/// Grades `count` answers and then replies with `otherwise`.
fn grades_then(
    count: usize,
    otherwise: ModelReply,
) -> impl FnMut(&ModelRequest) -> ModelReply + Send {
    let mut graded = 0;
    move |request| {
        graded += 1;
        if graded > count { otherwise.clone() } else { grade(request) }
    }
}

/// Returns the records of a log, below its header.
fn records(log: &Path) -> Vec<Value> {
    lines(log).iter().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_is_asked_nothing_twice_and_what_it_did_not_judge_is_not_recorded() {
    let home = Home::new();
    let data = data_set(&home, QUESTIONS);
    let endpoint = ModelEndpoint::start().unwrap();
    let logs = home.path("logs");
    let log = logs.join("multihop-direct.jsonl");
    let evaluation = |judge: &str| -> Command {
        let mut command = home.clew();
        command.args(["eval", "answers", "--format", "multihop", "--data", &data, "--json"]);
        command.arg("--logs").arg(&logs).arg("--model").arg(home.model());
        command.env("CLEW_JUDGE__URL", endpoint.url()).env("CLEW_JUDGE__MODEL", judge);
        command
    };

    // A judge that fails ends the run. Earlier verdicts are kept.
    endpoint.reply_by(grades_then(8, ModelReply::Status(401, None)));
    let failed = Ran::of(evaluation("strict")).error();
    assert_eq!(failed["reason"], "ENDPOINT_REFUSED", "{failed}");
    assert!(failed["message"].as_str().unwrap().contains("cannot be judged"), "{failed}");
    let refused = records(&log).len();
    assert!((1..=8).contains(&refused), "{refused} records");

    // A run that is killed while the judge thinks also continues.
    endpoint.reply_by(grades_then(8, ModelReply::Stalled(String::new())));
    let mut command = evaluation("strict");
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let are_judged = async || (records(&log).len() == refused + 8).then_some(());
    eventually("eight more answers are judged", are_judged).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before: Vec<String> = lines(&log);
    let known: Vec<Value> = records(&log).iter().map(|r| r["question_id"].clone()).collect();

    let asked = endpoint.requests().len();
    endpoint.reply_by(grade);
    let reports = Ran::of(evaluation("strict")).done();
    assert_eq!(lines(&log)[..before.len()], before[..]);
    let again: Vec<usize> = endpoint.requests()[asked..].iter().map(gate).collect();
    assert_eq!(again.len(), QUESTIONS - known.len());
    assert!(again.iter().all(|gate| !known.contains(&json!(format!("q{gate}")))), "{again:?}");

    let records = records(&log);
    assert_eq!(records.len(), QUESTIONS);
    for record in &records {
        let gate: usize = record["question_id"].as_str().unwrap()[1..].parse().unwrap();
        let score = if gate.is_multiple_of(2) { 1.0 } else { 0.0 };
        assert_eq!(record["scores"]["graded"], score, "{record}");
        assert_eq!(record["judge_cost"]["model_calls"], 1, "{record}");
        assert!(record["scores"]["f1"].is_number(), "{record}");
    }
    let report = &reports[0];
    assert_eq!(report["settings"]["judge"], "strict", "{report}");
    let overall = &report["groups"]["overall"];
    let graded = &overall["metrics"]["graded"];
    assert_eq!((&graded["n"], &graded["mean"]), (&json!(QUESTIONS), &json!(0.5)), "{report}");
    assert!(graded["ci95"][0].as_f64().unwrap() < 0.5, "{report}");
    assert_eq!(overall["judge_cost"]["model_calls"]["total"], json!(QUESTIONS as f64), "{report}");
    assert_eq!(overall["cost"]["model_calls"]["total"], 0.0, "{report}");
    let table = home.run_embedded(&["eval", "compare", log.to_str().unwrap()]).stdout;
    assert!(table.contains("graded") && table.contains("cost of judging"), "{table}");

    // Verdicts of another judge are not written into this log.
    let refused = Ran::of(evaluation("mild")).error();
    assert!(refused["message"].as_str().unwrap().contains("settings.judge"), "{refused}");
    let refused = Ran::of(evaluation("")).error();
    assert_eq!(refused["violations"][0]["field"], "judge.model", "{refused}");
}
