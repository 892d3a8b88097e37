//! Tests of language models: a folder that `clew generate` runs, and an endpoint with which `clew
//! serve` answers.

use std::collections::BTreeSet;
use std::process::Command;

use clew_testkit::{ModelEndpoint, ModelReply, signal, write_tiny_decoder};
use serde_json::{Value, json};

use crate::client::{create, document, remember};
use crate::harness::{Home, Ran, Server};
use crate::tales::answer;

/// Creates a folder with a tiny language model and returns its path.
fn language_model(home: &Home) -> String {
    let folder = home.path("language-model");
    std::fs::create_dir(&folder).unwrap();
    write_tiny_decoder(&folder, 3).unwrap();
    folder.to_string_lossy().into_owned()
}

fn generate(home: &Home, model: &str, arguments: &[&str]) -> Command {
    let mut command = home.clew();
    command.args(["generate", "--model", model]).args(arguments);
    command
}

#[test]
fn a_model_in_a_folder_replies_in_the_form_that_is_asked_for() {
    let home = Home::new();
    let model = language_model(&home);
    let ran = |arguments: &[&str]| Ran::of(generate(&home, &model, arguments));
    let ask = ["Say something.", "--max-tokens", "12", "--json"];
    let replied = ran(&ask).done();
    assert_eq!((&replied["finish"], &replied["completion_tokens"]), (&json!("length"), &json!(12)));
    assert_eq!(replied["model"], "language-model");
    assert_eq!(
        ran(&ask).done()["text"],
        replied["text"],
        "the likeliest tokens are the same again"
    );
    let plain = ran(&ask[..3]);
    assert_eq!(plain.stdout.trim_end_matches('\n'), replied["text"].as_str().unwrap());

    let chosen = ran(&["Is it?", "--choice", "yes", "--choice", "no", "--json"]).done();
    assert!(["yes", "no"].contains(&chosen["text"].as_str().unwrap()), "{chosen}");
    assert_eq!(chosen["finish"], "stop");
    let schema = json!({
        "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"],
        "additionalProperties": false,
    });
    let schema = home.write("schema.json", schema.to_string());
    let formed = ran(&["Is it?", "--schema", schema.to_str().unwrap(), "--json"]).done();
    let formed: Value = serde_json::from_str(formed["text"].as_str().unwrap()).unwrap();
    assert!(formed["ok"].is_boolean(), "{formed}");

    let refused = ran(&["Say something.", "--temperature", "9", "--json"]).error();
    assert_eq!(refused["violations"][0]["field"], "sampling.temperature", "{refused}");
}

#[test]
fn the_speed_of_a_model_is_measured() {
    let home = Home::new();
    let model = language_model(&home);
    let mut command = home.clew();
    command.args(["bench", "generate", "--model", &model, "--words", "5", "--tokens", "4"]);
    command.args(["--streams", "1,3", "--json"]);
    let measured = Ran::of(command).done();
    for number in ["read_tokens_per_second", "parameters"] {
        assert!(measured[number].as_f64().unwrap() > 0.0, "{measured}");
    }
    assert!(measured["machine"]["gflops"].as_f64().unwrap() > 0.0, "{measured}");
    let streams = measured["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2);
    assert!(streams[1]["said_tokens_per_second"].as_f64().unwrap() > 0.0, "{measured}");
}

#[test]
fn the_time_of_a_question_is_measured_in_its_parts() {
    let home = Home::new();
    let lines = ["{\"text\": \"the old house\"}", "{\"text\": \"a clew\"}"].join("\n");
    let texts = home.write("texts.jsonl", lines);
    let measure = |more: &[&str]| {
        let mut command = home.clew();
        command.args(["bench", "embed", texts.to_str().unwrap(), "--rounds", "2", "--json"]);
        command.arg("--model").arg(home.model()).args(more);
        Ran::of(command).done()
    };
    let measured = measure(&["--interactive"]);
    let of = |part: &str, number: &str| measured[part][number].as_f64().unwrap();
    assert_eq!(measured["texts"], 2, "{measured}");
    assert!(of("tokens", "least") > 2.0 && of("tokens", "least") < of("tokens", "most"));
    for part in ["question", "tokenizer", "compute", "waiting"] {
        assert!(of(part, "p50_ms") <= of(part, "p99_ms"), "{measured}");
    }
    assert!(of("compute", "p50_ms") > 0.0 && of("question", "p50_ms") > of("compute", "p50_ms"));
    let in_bulk = measure(&[]);
    assert!(in_bulk["tokens_per_second"].as_f64().unwrap() > 0.0, "{in_bulk}");
}

#[test]
fn what_grows_with_a_shard_is_measured_at_each_size() {
    let home = Home::new();
    let folder = home.path("growth");
    let measure = |sizes: &str| {
        let mut command = home.clew();
        command.args(["bench", "growth", "--json", "--sizes", sizes]).arg("--folder").arg(&folder);
        Ran::of(command)
    };
    let refused = measure("400,200").error();
    assert!(refused["message"].as_str().unwrap().contains("--sizes"), "{refused}");
    let measured = measure("2000,5000").done();
    let lines = measured["lines"].as_array().unwrap();
    let works: BTreeSet<&str> = lines.iter().map(|line| line["work"].as_str().unwrap()).collect();
    assert!(works.len() > 12, "{measured}");
    for work in works {
        let of_work = lines.iter().filter(|line| line["work"] == work);
        let sizes: Vec<u64> = of_work.map(|line| line["chunks"].as_u64().unwrap()).collect();
        // Searches beside short work may be too few to say something.
        assert!(
            sizes == [2000, 5000] || work.contains("while they are erased"),
            "{work}: {sizes:?}"
        );
    }
    let figures = measured["figures"].as_array().unwrap();
    let recall = figures.iter().filter(|figure| figure["what"] == "recall@10 of dense search");
    let recall: Vec<(u64, f64)> =
        recall.map(|it| (it["chunks"].as_u64().unwrap(), it["share"].as_f64().unwrap())).collect();
    assert_eq!(recall.len(), 3, "on the way, too: {figures:?}");
    assert!(recall.iter().all(|(_, share)| *share >= 0.95), "{recall:?}");
    let aims = measured["aims"].as_array().unwrap();
    assert!(aims.iter().any(|aim| aim["chunks"] == 5000 && aim["is_met"] == true), "{aims:?}");
    for line in lines {
        assert!(line["seconds"].as_f64().unwrap() > 0.0, "{line}");
    }
    if cfg!(target_os = "linux") {
        let written = |work: &str| {
            let line = lines.iter().find(|line| line["work"] == work);
            line.unwrap_or_else(|| panic!("{measured}"))["bytes_written"].as_f64().unwrap()
        };
        assert!(written("accept 100 documents") > written("accept 1 document"), "{measured}");
        assert!(
            written("accept 1 document") > 0.0 && written("open the shard after a crash") >= 0.0
        );
    }
    // What is in a folder stays.
    let refused = measure("2000").error();
    assert!(refused["message"].as_str().unwrap().contains("empty folder"), "{refused}");
}

#[test]
fn a_shard_is_measured_with_the_texts_of_files() {
    let home = Home::new();
    let texts = home.path("texts");
    std::fs::create_dir(&texts).unwrap();
    for number in 0..40 {
        let line =
            |line: u32| format!("Line {line} of note {number} tells of lighthouse {number}.");
        let text: Vec<String> = (0..12).map(line).collect();
        std::fs::write(texts.join(format!("{number}.md")), text.join("\n\n")).unwrap();
    }
    let mut command = home.clew();
    command.args(["bench", "growth", "--json", "--sizes", "2000", "--texts"]).arg(&texts);
    let measured = Ran::of(command).done();
    let described = measured["texts"].as_str().unwrap();
    assert!(described.starts_with("40 texts") && described.contains("others"), "{described}");
    let none = home.path("none");
    std::fs::create_dir(&none).unwrap();
    let mut command = home.clew();
    command.args(["bench", "growth", "--json", "--sizes", "2000", "--texts"]).arg(&none);
    let refused = Ran::of(command).error();
    assert!(refused["message"].as_str().unwrap().contains("expected texts in"), "{refused}");
}

#[test]
fn a_reply_that_is_interrupted_ends_at_once() {
    let home = Home::new();
    let model = language_model(&home);
    let mut command = generate(&home, &model, &["Go on and on.", "--max-tokens", "900"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut running = command.spawn().unwrap();
    // The first byte shows that the reply has begun.
    let mut first = [0];
    std::io::Read::read_exact(running.stdout.as_mut().unwrap(), &mut first).unwrap();
    signal(running.id(), "INT").unwrap();
    let status = running.wait().unwrap();
    // The reply may have been complete before the signal.
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_answers_through_an_endpoint_and_repeats_what_failed() {
    let home = Home::new();
    let endpoint = ModelEndpoint::start().unwrap();
    endpoint.reply_by(answer);
    endpoint.script([ModelReply::Status(500, None), ModelReply::Dropped("{\"no".to_owned())]);
    let mut command = home.serve_command();
    command.env("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url());
    command.env("CLEW_GENERATOR__ENDPOINT__MODEL", "test");
    let server = Server::start(command);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let text = "Ariadne gave Theseus a ball of thread. Theseus killed the Minotaur.";
    remember(&client, &notes, vec![document("crete", text)]).await;
    let ask = |question: &str| {
        let arguments = ["ask", "--corpus", "notes", "--json", question];
        home.run_at(&server, &arguments).done()
    };
    let answered = ask("Who killed the Minotaur?");
    assert_eq!(answered["outcome"], "answered", "{answered}");
    assert_eq!(answered["answer"], "Theseus did.");
    assert_eq!(answered["citations"][0]["quote"], "Theseus killed the Minotaur.");
    assert_eq!(answered["cost"]["model_calls"], 3, "those that failed count too: {answered}");
    assert!(answered["cost"]["prompt_tokens"].as_u64().unwrap() > 0, "{answered}");
    assert_eq!(endpoint.requests().len(), 3);
    // The answer to a repeated question is cached.
    assert_eq!(ask("Who killed the Minotaur?")["answer"], "Theseus did.");
    assert_eq!(endpoint.requests().len(), 3);

    drop(endpoint);
    let arguments = ["ask", "--corpus", "notes", "--json", "What did Ariadne give?"];
    let failed = home.run_at(&server, &arguments).error();
    assert_eq!(failed["reason"], "ENDPOINT_UNREACHABLE", "{failed}");
    assert!(server.terminate().success());
}
