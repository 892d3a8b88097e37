//! Data directories in a bucket on S3-compatible storage. A cluster over one is in `tests/faults`.

use std::process::Command;
use std::time::Duration;

use clew_core::ErrorKind;
use clew_testkit::S3Server;

use crate::client::{by_words, counts, create, document, id, idle, remember, text_of};
use crate::harness::{Home, Server};
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
    // It does not take the shard back.
    tokio::time::sleep(Duration::from_millis(500)).await;
    remember(&later, &notes, vec![document("c", text_with(&["xthird"]))]).await;
    assert_eq!(counts(&later, &notes).await.documents, 3);
    assert!(second.terminate().success());
}
