//! Tests of data directories in a bucket on S3-compatible storage. `tests/faults` tests a cluster
//! over one.

use std::process::Command;
use std::time::Duration;

use clew_core::ErrorKind;
use clew_testkit::{S3Faults, S3Server};

use crate::client::{by_words, counts, create, document, id, idle, remember, text_of};
use crate::harness::{Home, Ran, Server};
use crate::words::{text_with, word};

async fn bucket() -> S3Server {
    tokio::task::spawn_blocking(|| S3Server::start().unwrap()).await.unwrap()
}

fn serve(home: &Home, bucket: &S3Server) -> Command {
    let mut command = home.clew();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", &bucket.url()]);
    command.arg("--model").arg(home.model()).envs(bucket.environment());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_put_into_a_bucket_another_finds_after_it_was_killed() {
    let (home, bucket) = (Home::new(), bucket().await);
    let mut server = Server::start(serve(&home, &bucket));
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let documents = (0..8).map(|i| document(&format!("d{i}"), text_with(&[&word('s', i)])));
    remember(&client, &notes, documents.collect()).await;
    client.forget(&notes, &[id("d7")]).await.unwrap();
    server.kill();
    assert!(!home.data_dir().exists());

    let server = Server::start(serve(&home, &bucket));
    let client = server.client().await;
    idle(&client, &notes).await;
    assert_eq!(counts(&client, &notes).await.documents, 7);
    assert!(by_words(&client, &notes, &word('s', 7)).await.is_empty());
    assert_eq!(by_words(&client, &notes, &word('s', 3)).await[0].document_id, "d3");
    assert_eq!(text_of(&client, &notes, &id("d3")).await, text_with(&[&word('s', 3)]));
    client.delete_corpus(&notes).await.unwrap();
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_starts_later_has_the_data_directory_and_the_earlier_one_says_so() {
    let (home, bucket) = (Home::new(), bucket().await);
    let first = Server::start(serve(&home, &bucket));
    let client = first.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, vec![document("a", text_with(&["xfirst"]))]).await;

    let second = Server::start(serve(&home, &bucket));
    let later = second.client().await;
    remember(&later, &notes, vec![document("b", text_with(&["xsecond"]))]).await;
    let error = client.document(&notes, &id("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongState, "{}", error.chain());
    assert!(error.message().contains("another process"), "{}", error.message());
    // The first server does not take the shard back.
    tokio::time::sleep(Duration::from_millis(500)).await;
    remember(&later, &notes, vec![document("c", text_with(&["xthird"]))]).await;
    assert_eq!(counts(&later, &notes).await.documents, 3);
    assert!(second.terminate().success());
}

/// Asserts that a start and `doctor` refuse a bucket for the same reason, that nothing is served,
/// and that nothing is left in it. Returns the log of the server.
async fn refused(faults: S3Faults) -> String {
    let home = Home::new();
    let bucket = tokio::task::spawn_blocking(move || S3Server::start_faulty(faults).unwrap());
    let bucket = bucket.await.unwrap();
    let Err(ended) = Server::try_start(serve(&home, &bucket)) else { panic!("it serves") };
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(!ended.log.contains("listening"), "{}", ended.log);
    assert_eq!(bucket.objects().unwrap(), [""; 0]);

    let mut doctor = home.clew();
    doctor.args(["doctor", "--json", "--data-dir", &bucket.url()]);
    doctor.arg("--model").arg(home.model()).envs(bucket.environment());
    let ran = Ran::of(doctor);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let document = ran.json();
    let findings = document["findings"].as_array().unwrap().iter();
    let failed = findings.filter(|finding| finding["state"] == "fail");
    let failed: Vec<_> = failed.map(|finding| finding["found"].as_str().unwrap()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    // The same words, except for the clock difference at that moment.
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    assert!(words(&ended.log).contains(&words(failed[0])), "{failed:?}\n{}", ended.log);
    assert_eq!(bucket.objects().unwrap(), [""; 0]);
    ended.log
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_served_over_a_bucket_that_passes_over_conditions() {
    let faults = S3Faults { ignores_conditions: true, ..S3Faults::default() };
    let said = refused(faults).await;
    for part in ["If-None-Match", "If-Match", "conditional puts", "some/where"] {
        assert!(said.contains(part), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_served_over_a_bucket_whose_clock_is_far_away() {
    for (clock_ahead_secs, direction) in [(120, "ahead of"), (-120, "behind")] {
        let faults = S3Faults { clock_ahead_secs, ..S3Faults::default() };
        let said = refused(faults).await;
        for part in [direction, "within 5.0 s", "storage.max_clock_skew_ms", "time server"] {
            assert!(said.contains(part), "{said}");
        }
    }
    // A clock difference within the configured limit is accepted.
    let faults = S3Faults { clock_ahead_secs: 120, ..S3Faults::default() };
    let bucket = tokio::task::spawn_blocking(move || S3Server::start_faulty(faults).unwrap());
    let (home, bucket) = (Home::new(), bucket.await.unwrap());
    let mut command = serve(&home, &bucket);
    command.env("CLEW_STORAGE__MAX_CLOCK_SKEW_MS", "300000");
    assert!(Server::start(command).terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_does_not_answer_is_not_called_unfit() {
    let (home, bucket) = (Home::new(), bucket().await);
    let command = serve(&home, &bucket);
    drop(bucket);
    let Err(ended) = Server::try_start(command) else { panic!("it serves") };
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.log.contains("could not try the storage"), "{}", ended.log);
    assert!(!ended.log.contains("Two owners"), "{}", ended.log);
}
