//! Test of many producers at one shard that cannot keep up: each of them waits or is told to come
//! again, and the memory of the gateway between them stays bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clew_client::Client;
use clew_core::CorpusName;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use futures::StreamExt;
use tokio::task::JoinHandle;

use crate::ONE_AT_A_TIME;
use crate::client::{create_in_shards, document};
use crate::cluster::{Cluster, REQUEST_PATIENCE};
use crate::harness::{PATIENCE, eventually};
use crate::storage::StorageKind;
use crate::words::text_with;

const PRODUCERS: usize = 200;
const FLOOD: Duration = Duration::from_secs(8);
/// Approximate length of a text.
const TEXT_BYTES: usize = 64 << 10;
/// Maximum memory that the gateway may use: 64 MiB of documents, what its connections buffer, and
/// the process itself.
const BOUND_MIB: u64 = 384;
/// Times for which the owner of the shard is stopped and runs, alternately.
const STOPPED: Duration = Duration::from_millis(180);
const RUNNING: Duration = Duration::from_millis(20);

/// Answers that the producers received.
#[derive(Default)]
struct Told {
    accepted: AtomicU64,
    refused: AtomicU64,
    sent: AtomicU64,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_from_two_hundred_producers_does_not_fill_the_gateway() {
    let _one_at_a_time = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(StorageKind::Folder).await;
    let client = cluster.client().await;
    let flooded = create_in_shards(&client, "flooded", 1).await;
    let owner = eventually("the shard has an owner", async || {
        let topology = client.topology().await.ok()?;
        let owner = topology.shards.first()?.owner.clone();
        (!owner.is_empty()).then_some(owner)
    })
    .await;
    let before = resident_mib(cluster.process("gateway-0"), "VmRSS:");
    let told = Arc::new(Told::default());
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|number| {
            let (endpoint, corpus) = (cluster.endpoint(), flooded.clone());
            tokio::spawn(produce(number, endpoint, corpus, Arc::clone(&told)))
        })
        .collect();
    let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
    // On a busy machine it may take a while until something is accepted.
    let is_flood = || read(&told.accepted) > 0 && read(&told.sent) > read(&told.accepted);
    let began = Instant::now();
    while began.elapsed() < FLOOD || !is_flood() && began.elapsed() < PATIENCE {
        cluster.signal(&owner, "STOP");
        tokio::time::sleep(STOPPED).await;
        cluster.signal(&owner, "CONT");
        tokio::time::sleep(RUNNING).await;
    }
    let most = resident_mib(cluster.process("gateway-0"), "VmHWM:");
    let (accepted, refused, sent) = (read(&told.accepted), read(&told.refused), read(&told.sent));
    println!(
        "gateway: {before} MiB before, at most {most} MiB; {sent} documents of {} KiB sent, \
         {accepted} accepted, {refused} refused for now",
        TEXT_BYTES >> 10
    );
    assert!(most <= BOUND_MIB, "the gateway held {most} MiB");
    assert!(accepted > 0 && sent > accepted, "it was no flood");
    producers.iter().for_each(JoinHandle::abort);
    let counts = async || client.corpus(&flooded).await.ok()?.counts;
    let stored = eventually("the shard answers", counts).await.documents;
    assert!(stored >= accepted, "{accepted} were acknowledged, {stored} are there");
}

/// Sends documents without end, as fast as they are accepted.
async fn produce(number: usize, endpoint: String, corpus: CorpusName, told: Arc<Told>) {
    let line = text_with(&["xflood"]);
    let text = line.repeat(TEXT_BYTES / line.len());
    for round in 0_u64.. {
        let Ok(client) = Client::connect(&endpoint, REQUEST_PATIENCE).await else { continue };
        let (sent_by_all, text) = (Arc::clone(&told), text.clone());
        let documents = futures::stream::unfold(0_u64, move |count| {
            sent_by_all.sent.fetch_add(1, Ordering::SeqCst);
            let next = document(&format!("p{number}-{round}-{count}"), text.clone());
            std::future::ready(Some((next, count + 1)))
        });
        let Ok(responses) = client.ingest(&corpus, documents).await else { continue };
        let mut responses = std::pin::pin!(responses);
        while let Some(Ok(response)) = responses.next().await {
            match response.result {
                Some(Outcome::Accepted(_)) => told.accepted.fetch_add(1, Ordering::SeqCst),
                _ => told.refused.fetch_add(1, Ordering::SeqCst),
            };
        }
    }
}

/// Returns a figure of the memory of a process in MiB.
fn resident_mib(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).expect("Linux tells it");
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes >> 10
}
