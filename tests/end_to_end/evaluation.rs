//! `clew eval answers`: what was answered is not asked again, whatever ended the run.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Home, Ran, eventually};

/// Questions of the data set: enough that a run takes longer than it takes to kill it.
const QUESTIONS: usize = 60;

/// A data set of passages, each of which answers a question.
fn data_set(home: &Home) -> String {
    let lines = |line: &dyn Fn(usize) -> Value| {
        (0..QUESTIONS).map(|number| format!("{}\n", line(number))).collect::<String>()
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

/// The whole lines of a log.
fn lines(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_evaluation_goes_on_and_asks_nothing_twice() {
    let home = Home::new();
    let data = data_set(&home);
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
        // A header and a line for each question; those that were there are as they were.
        assert_eq!(after.len(), 1 + QUESTIONS);
        assert_eq!(after[..before.len()], before[..]);
    }
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && !html.contains("<script"), "{html}");
    let compare = ["eval", "compare", log.to_str().unwrap(), "--json"];
    let compared = home.run_embedded(&compare).done();
    assert_eq!(compared.as_array().unwrap().len(), 1, "{compared}");
    // Another run does not go on in this one's log.
    let mut command = home.clew();
    command.args(answers).args(["-k", "3"]).arg("--model").arg(home.model());
    let refused = Ran::of(command).error();
    assert!(refused.to_string().contains("another run"), "{refused}");
}
