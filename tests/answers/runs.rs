//! Tests of named runs of ingestion: reports of their parts, what becomes of them, and `clew run`.

use std::time::Duration;

use clew_client::Client;
use clew_core::{
    CorpusName, Error, ErrorKind, PartReport, PartStage, RUN_NOT_FOUND, RunCounts, RunName,
};
use clew_proto::ingest::v1::{Run, RunStage};
use clew_testkit::S3Server;
use serde_json::json;

use crate::client::{accept, counts, create, create_in_shards, document, idle, remember};
use crate::harness::{Home, Ran, Server, eventually, files_below};
use crate::processes::Cluster;
use crate::words::{text_with, word};

fn named(name: &str) -> RunName {
    name.parse().unwrap()
}

fn report(part: u32, attempt: u64, stage: PartStage, accepted: u64) -> PartReport {
    let counts = RunCounts { listed: 9, sent: accepted, accepted, ..RunCounts::default() };
    let listed_all = stage != PartStage::Listing;
    PartReport { part, attempt, stage, listed_all, counts, problem: String::new() }
}

async fn run_of(client: &Client, corpus: &CorpusName, name: &str) -> Run {
    client.run(corpus, &named(name)).await.unwrap().run.unwrap()
}

fn sum(run: &Run) -> u64 {
    run.counts.unwrap().accepted
}

/// Reports of a run of two parts.
async fn tell(client: &Client, corpus: &CorpusName, name: &str, report: PartReport) {
    client.report_run(corpus, &named(name), 2, &report).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_run_is_told_its_end_although_the_server_was_killed() {
    let home = Home::new();
    let mut server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let (_, address) = server.endpoint.split_once("://").unwrap();
    let again = home.serve_command_at(address);
    let mut waits = home.clew();
    waits.args(["run", "wait", "--corpus", "notes", "nightly", "--json"]);
    waits.args(["--timeout-secs", "100", "--endpoint", &server.endpoint]);
    // Begins before the run does.
    let waiting = tokio::task::spawn_blocking(move || Ran::of(waits));
    tokio::time::sleep(Duration::from_millis(500)).await;

    accept(&client, &notes, vec![document("d0", text_with(&[&word('r', 0)]))]).await;
    tell(&client, &notes, "nightly", report(0, 7, PartStage::Sending, 1)).await;
    tell(&client, &notes, "nightly", report(0, 7, PartStage::Accepted, 2)).await;
    let run = run_of(&client, &notes, "nightly").await;
    assert_eq!((run.stage(), run.parts, run.ended_parts), (RunStage::Running, 2, 1));
    drop(client);
    server.kill();
    // Longer than the command waits between two looks.
    tokio::time::sleep(Duration::from_millis(1500)).await;

    let server = tokio::task::spawn_blocking(move || Server::start(again)).await.unwrap();
    let client = server.client().await;
    let run = run_of(&client, &notes, "nightly").await;
    assert_eq!((run.stage(), run.reported.len(), sum(&run)), (RunStage::Running, 1, 2));
    // Late, from before the kill.
    tell(&client, &notes, "nightly", report(0, 7, PartStage::Sending, 1)).await;
    remember(&client, &notes, vec![document("d1", text_with(&[&word('r', 1)]))]).await;
    tell(&client, &notes, "nightly", report(1, 8, PartStage::Listing, 0)).await;
    assert!(!run_of(&client, &notes, "nightly").await.listed_all);
    tell(&client, &notes, "nightly", report(1, 8, PartStage::Accepted, 5)).await;

    let shown = waiting.await.unwrap().done();
    assert_eq!((&shown["stage"], &shown["counts"]["accepted"]), (&json!("done"), &json!(7)));
    assert_eq!((&shown["listed_all"], &shown["pending_documents"]), (&json!(true), &json!(0)));
    assert_eq!(counts(&client, &notes).await.documents, 2);
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_part_fails_the_run_until_another_process_does_its_work() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    tell(&client, &notes, "nightly", report(0, 7, PartStage::Accepted, 4)).await;
    let problem = PartReport::problem_of("the bucket\nwas away");
    let failed = PartReport { problem, ..report(1, 8, PartStage::Failed, 3) };
    tell(&client, &notes, "nightly", failed).await;

    let run = |action: &str| home.run_at(&server, &["run", action, "--corpus", "notes", "nightly"]);
    let waited = run("wait");
    assert_eq!(waited.code, Some(1), "{waited:?}");
    let said = "run `nightly` failed at part 1: the bucket was away";
    assert!(waited.stderr.contains(said), "{waited:?}");
    let shown = run("show").stdout;
    for line in
        ["failed: nightly, 2 of 2 parts ended, 1 failed", "part 0: accepted", "part 1: failed"]
    {
        assert!(shown.contains(line), "no `{line}` in\n{shown}");
    }

    tell(&client, &notes, "nightly", report(1, 9, PartStage::Sending, 1)).await;
    assert_eq!(run_of(&client, &notes, "nightly").await.stage(), RunStage::Running);
    // The first process was cut off and still believes that it works on the part.
    let (nightly, late) = (named("nightly"), report(1, 8, PartStage::Sending, 9));
    let kept = client.report_run(&notes, &nightly, 2, &late).await.unwrap();
    assert_eq!((kept.attempt, kept.attempts), (9, 2));
    let waiting = home.run_at(
        &server,
        &["run", "wait", "--corpus", "notes", "nightly", "--timeout-secs", "1", "--json"],
    );
    assert_eq!(waiting.error()["reason"], "DEADLINE_EXCEEDED");
    tell(&client, &notes, "nightly", report(1, 9, PartStage::Accepted, 5)).await;
    let done = run_of(&client, &notes, "nightly").await;
    assert_eq!((done.stage(), sum(&done)), (RunStage::Done, 9));
    assert_eq!(run("wait").code, Some(0));
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_and_deleted_and_go_with_their_corpus() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, vec![document("secret-id", text_with(&["xsecret"]))]).await;
    for name in ["monday", "tuesday"] {
        tell(&client, &notes, name, report(1, 7, PartStage::Accepted, 1)).await;
    }
    let listed = || home.run_at(&server, &["run", "list", "--corpus", "notes", "--json"]).done();
    let names = || -> Vec<String> {
        let runs = listed()["runs"].clone();
        let name = |run: &serde_json::Value| run["run"].as_str().unwrap().to_owned();
        runs.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names(), ["tuesday", "monday"]);
    let files = files_below(&home.data_dir().join("corpora/notes/runs"));
    assert_eq!(files.len(), 4);
    for (path, content) in files {
        let content = String::from_utf8(content).unwrap();
        assert!(!content.contains("secret"), "{path:?}: {content}");
    }
    // A file that cannot be read is named, and other runs go on.
    let damaged = home.data_dir().join("corpora/notes/runs/monday/part-1.json");
    std::fs::write(damaged, "{").unwrap();
    let error = client.run(&notes, &named("monday")).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::DataLoss, "DATA_LOSS"));
    assert!(error.message().contains("part 1 of run `monday`"), "{error}");
    assert_eq!(listed()["runs"][1]["fault"]["reason"], "DATA_LOSS");
    assert_eq!(listed()["runs"][0]["fault"], json!(null));

    let delete =
        || home.run_at(&server, &["run", "delete", "--corpus", "notes", "monday", "--json"]);
    assert_eq!(delete().done(), json!({ "corpus": "notes", "deleted": "monday" }));
    assert_eq!(delete().error()["reason"], RUN_NOT_FOUND);
    assert_eq!(names(), ["tuesday"]);
    assert_eq!(counts(&client, &notes).await.documents, 1);

    client.delete_corpus(&notes).await.unwrap();
    assert_eq!(client.runs(&notes).await.unwrap_err().kind(), ErrorKind::NotFound);
    create(&client, "notes").await;
    assert_eq!(names(), [""; 0]);
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_report_is_refused_by_reason_and_field() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    tell(&client, &notes, "nightly", report(0, 7, PartStage::Sending, 1)).await;
    let refused = async |parts, report: PartReport| -> Error {
        client.report_run(&notes, &named("nightly"), parts, &report).await.unwrap_err()
    };
    let good = || report(0, 7, PartStage::Sending, 1);
    let error = refused(3, good()).await;
    assert_eq!((error.kind(), error.reason()), (ErrorKind::WrongState, "RUN_DIFFERS"));
    let long = "x".repeat(1025);
    for (parts, report, field) in [
        (2, report(2, 7, PartStage::Sending, 1), "part.part"),
        (1025, good(), "parts"),
        (2, PartReport { attempt: 0, ..good() }, "part.attempt"),
        (2, PartReport { listed_all: false, ..good() }, "part.listed_all"),
        (2, PartReport { problem: long, ..good() }, "part.problem"),
    ] {
        let error = refused(parts, report).await;
        assert_eq!((error.kind(), error.fields_at_fault()), (ErrorKind::InvalidInput, vec![field]));
    }
    let (gone, other) = ("gone".parse().unwrap(), named("other"));
    let error = client.report_run(&gone, &other, 1, &good()).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::NotFound, "NOT_FOUND"));
    let error = client.run(&notes, &other).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::NotFound, RUN_NOT_FOUND));
    assert_eq!(client.runs(&notes).await.unwrap().len(), 1);
    let ran = home.run_at(&server, &["run", "show", "--corpus", "notes", "../x"]);
    assert!(ran.stderr.contains("expected 1 to 63 of a-z"), "{ran:?}");
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_a_cluster_is_done_when_its_documents_are_indexed() {
    let mut cluster = Cluster::start(2).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    remember(&client, &notes, vec![document("earlier", text_with(&[&word('r', 9)]))]).await;
    cluster.kill("encoder-0");
    let documents = (0..8).map(|i| document(&format!("d{i}"), text_with(&[&word('r', i)])));
    accept(&client, &notes, documents.collect()).await;
    for part in [0, 1] {
        tell(&client, &notes, "nightly", report(part, 7, PartStage::Accepted, 4)).await;
    }
    let found = client.run(&notes, &named("nightly")).await.unwrap();
    assert_eq!(found.pending_documents, 8);
    let run = found.run.unwrap();
    assert_eq!((run.stage(), sum(&run)), (RunStage::Accepted, 8));
    assert!(run.ended_at.is_some());

    // Any retriever answers.
    cluster.kill("retriever-1");
    let runs =
        eventually("the other retriever has the run", async || client.runs(&notes).await.ok());
    assert_eq!(runs.await[0].ended_parts, 2);
    // A retriever starts only once it finds an encoder.
    cluster.start_again("encoder-0").await;
    cluster.start_again("retriever-1").await;
    let waited = cluster.run(&["run", "wait", "--corpus", "notes", "nightly", "--json"]).done();
    assert_eq!(waited["stage"], "done");
    idle(&client, &notes).await;
    client.delete_run(&notes, &named("nightly")).await.unwrap();
    let error = client.run(&notes, &named("nightly")).await.unwrap_err();
    assert_eq!(error.reason(), RUN_NOT_FOUND);
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_kept_in_a_bucket_too() {
    let home = Home::new();
    let bucket = tokio::task::spawn_blocking(|| S3Server::start().unwrap()).await.unwrap();
    let serve = || {
        let mut command = home.clew();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", &bucket.url()]);
        command.arg("--model").arg(home.model()).envs(bucket.environment());
        Server::start(command)
    };
    let mut server = serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let reports =
        (0..2).map(|part| tell(&client, &notes, "a", report(part, 7, PartStage::Sending, 3)));
    futures::future::join_all(reports).await;
    tell(&client, &notes, "b", report(0, 7, PartStage::Accepted, 1)).await;
    server.kill();

    let server = serve();
    let client = server.client().await;
    let run = run_of(&client, &notes, "a").await;
    assert_eq!((run.stage(), run.reported.len(), sum(&run)), (RunStage::Running, 2, 6));
    tell(&client, &notes, "a", report(1, 7, PartStage::Accepted, 4)).await;
    assert_eq!(sum(&run_of(&client, &notes, "a").await), 7);
    client.delete_run(&notes, &named("b")).await.unwrap();
    assert_eq!(client.runs(&notes).await.unwrap().len(), 1);
    assert!(server.terminate().success());
}
