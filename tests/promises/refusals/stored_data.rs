//! Tests of damaged or foreign data: the server starts, reports what is wrong, and serves what is
//! sound.

use std::path::{Path, PathBuf};

use clew_client::{Client, QuestionRequest};
use clew_core::{CorpusName, Error, ErrorKind, Query};
use clew_proto::ingest::v1::DocumentStage;
use futures::StreamExt;

use super::{Holdings, assert_furnished, furnish};
use crate::client::{corpus, create, document, id, idle, remember, send};
use crate::harness::{Home, eventually, files_below};
use crate::other_models::write_narrow_bert;
use crate::words::text_with;

/// Returns the errors of all calls about a corpus that cannot run.
async fn errors_of_all_calls(client: &Client, corpus: &CorpusName) -> Vec<(&'static str, Error)> {
    let some = id("kept-0");
    let question = QuestionRequest { text: "who?".to_owned(), ..QuestionRequest::default() };
    let answer = async {
        let events = client.answer(corpus, question).await?;
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            event?;
        }
        Ok(())
    };
    let watch = async {
        let reports = client.watch_until_idle(corpus).await?;
        let mut reports = std::pin::pin!(reports);
        while let Some(report) = reports.next().await {
            report?;
        }
        Ok(())
    };
    let results: Vec<(&str, Result<(), Error>)> = vec![
        ("GetCorpus", client.corpus(corpus).await.map(drop)),
        ("GetDocument", client.document(corpus, &some).await.map(drop)),
        ("ListDocuments", client.documents(corpus, DocumentStage::Unspecified).await.map(drop)),
        ("Search", client.search(corpus, Query::new("cat", 3)).await.map(drop)),
        ("ForgetDocuments", client.forget(corpus, std::slice::from_ref(&some)).await.map(drop)),
        ("Answer", answer.await),
        ("WatchIngestion", watch.await),
    ];
    let failed = |(call, result): (&'static str, Result<(), Error>)| match result {
        Ok(()) => panic!("{call} was answered"),
        Err(error) => (call, error),
    };
    results.into_iter().map(failed).collect()
}

/// Furnishes the corpus `notes`, creates the corpus `sound` beside it, and stops the server.
/// Returns what the server held.
async fn furnished_and_stopped(home: &Home) -> Holdings {
    let server = home.serve();
    let client = server.client().await;
    furnish(&client).await;
    create(&client, "sound").await;
    let before = Holdings::of(&client).await;
    drop(client);
    assert!(server.terminate().success());
    before
}

/// Fails unless the corpus `notes`, which was `damaged` and is restored, runs again and holds what
/// it held before.
async fn assert_runs_again(client: &Client, before: &Holdings, damaged: &str) {
    client.forget(&corpus("sound"), &[id("sound")]).await.unwrap();
    eventually("the corpus runs again", async || client.corpus(&corpus("notes")).await.ok()).await;
    idle(client, &corpus("notes")).await;
    assert_eq!(&Holdings::of(client).await, before, "{damaged}");
    assert_furnished(client).await;
}

/// Fails unless every call about the corpus `notes` fails with `reason`, and the corpus `sound`
/// works.
async fn assert_only_notes_fails(client: &Client, kind: ErrorKind, reason: &str) {
    let notes = corpus("notes");
    for (call, error) in errors_of_all_calls(client, &notes).await {
        assert_eq!((error.kind(), error.reason()), (kind, reason), "{call}: {error}");
    }
    let refused = send(client, &notes, vec![document("new", "Some text.")]).await.remove(0);
    let refused = refused.expect_err("a corpus that does not run takes nothing in");
    assert_eq!((refused.reason.as_str(), refused.retryable), (reason, kind.is_retryable()));

    let listed = client.corpora().await.unwrap();
    let runs: Vec<_> = listed.iter().map(|c| (c.name.as_str(), c.counts.is_some())).collect();
    assert_eq!(runs, [("notes", false), ("sound", true)]);
    let sound = corpus("sound");
    remember(client, &sound, vec![document("sound", text_with(&["xsound"]))]).await;
    let found = client.search(&sound, Query::new("xsound", 3)).await.unwrap().evidence;
    assert_eq!(found[0].document_id, "sound");
}

/// Returns the files below the data directory whose path contains `part`.
fn files(home: &Home, part: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let holds = |path: &Path| path.to_string_lossy().contains(part);
    let mut files = files_below(&home.data_dir());
    files.retain(|(path, content)| holds(path) && !content.is_empty());
    assert!(!files.is_empty(), "there is no file like {part}");
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_table_stops_its_corpus_alone_and_says_data_loss() {
    for damaged in [
        "notes/shard-0/sources.lance/_versions/",
        "notes/shard-0/chunks.lance/_versions/",
        "notes/shard-0/sources.lance/data/",
        "notes/shard-0/chunks.lance/data/",
    ] {
        let home = Home::new();
        let before = furnished_and_stopped(&home).await;

        let sound = files(&home, damaged);
        for (path, content) in &sound {
            let garbage: Vec<u8> = content.iter().map(|byte| byte ^ 0x5a).collect();
            std::fs::write(path, garbage).unwrap();
        }
        let server = home.serve();
        let client = server.client().await;
        println!("damaged: {damaged}");
        assert_only_notes_fails(&client, ErrorKind::DataLoss, "DATA_LOSS").await;
        let ran = home.run_at(&server, &["search", "--corpus", "notes", "cat", "--json"]);
        assert_eq!(ran.error()["reason"], "DATA_LOSS", "{ran:?}");
        let outward = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!outward.contains(home.data_dir().to_str().unwrap()), "a path is told: {outward}");

        // Restored from a copy, the corpus runs again without a restart.
        for (path, content) in sound {
            // Renamed into place, because the running server could read half a file as other
            // damage.
            let restored = path.with_extension("restored");
            std::fs::write(&restored, content).unwrap();
            std::fs::rename(restored, path).unwrap();
        }
        assert_runs_again(&client, &before, damaged).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_settings_stop_their_corpus_alone_and_it_runs_again_without_a_restart() {
    let home = Home::new();
    let before = furnished_and_stopped(&home).await;

    let (settings, content) = files(&home, "notes/settings.json").remove(0);
    std::fs::write(&settings, "{ not JSON").unwrap();
    let server = home.serve();
    let client = server.client().await;
    assert_only_notes_fails(&client, ErrorKind::DataLoss, "DATA_LOSS").await;
    let listed = home.run_at(&server, &["corpus", "list", "--json"]).done();
    assert_eq!(listed["corpora"][0]["fault"]["reason"], "DATA_LOSS", "{listed}");
    assert!(listed["corpora"][0]["fault"]["message"].as_str().unwrap().contains("restore"));
    assert!(listed["corpora"][1]["fault"].is_null(), "{listed}");
    let checked = home.run_at(&server, &["check"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(checked.stdout.contains("sound: ") && checked.stdout.contains("notes: cannot be used"));

    std::fs::write(&settings, content).unwrap();
    assert_runs_again(&client, &before, "settings").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_encoder_does_not_read_the_vectors_of_the_first() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    furnish(&client).await;
    let before = Holdings::of(&client).await;
    drop(client);
    assert!(server.terminate().success());

    let same_dimension = home.path("same-dimension");
    std::fs::create_dir(&same_dimension).unwrap();
    clew_testkit::write_tiny_bert(&same_dimension, 2).unwrap();
    let other_dimension = home.path("other-dimension");
    write_narrow_bert(&other_dimension);

    for other in [same_dimension, other_dimension] {
        let mut command = home.clew();
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(home.data_dir()).arg("--model").arg(&other);
        let server = crate::harness::Server::start(command);
        let client = server.client().await;
        create(&client, "sound").await;
        assert_only_notes_fails(&client, ErrorKind::WrongState, "ENCODER_MISMATCH").await;
        client.delete_corpus(&corpus("sound")).await.unwrap();
        let mut command = home.clew();
        command.args(["search", "--corpus", "notes", "cat", "--json"]);
        command.args(["--endpoint", &server.endpoint]);
        assert_eq!(crate::harness::Ran::of(command).error()["reason"], "ENCODER_MISMATCH");
        assert!(server.terminate().success());
    }

    let server = home.serve();
    let client = server.client().await;
    assert_eq!(Holdings::of(&client).await, before);
    assert_furnished(&client).await;
}
