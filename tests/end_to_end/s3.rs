//! Data directories in a bucket on S3-compatible storage: one process, and a cluster.

use std::process::Command;
use std::time::Duration;

use clew_core::ErrorKind;
use clew_testkit::S3Server;

use crate::client::{
    by_words, counts, create, create_in_shards, document, id, idle, remember, text_of,
};
use crate::cluster::driver::Driver;
use crate::cluster::processes::Cluster;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_over_a_bucket_goes_on_when_owners_are_killed_and_stopped() {
    let mut cluster = Cluster::start_on(Some(bucket().await), 2).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    let driver = Driver::start(&cluster, &notes, 7).await;
    let pause = |secs| tokio::time::sleep(Duration::from_secs(secs));
    pause(3).await;
    cluster.kill("retriever-0");
    pause(3).await;
    cluster.start_again("retriever-0").await;
    pause(3).await;
    cluster.signal("retriever-1", "STOP");
    // Longer than its leases last.
    pause(4).await;
    cluster.signal("retriever-1", "CONT");
    pause(3).await;
    let told = driver.stop().await;
    println!("{told}");
    told.assert_went_on();
    idle(&client, &notes).await;
    told.assert_kept(&client, &notes).await;
    cluster.stop();
}
