//! Tests of a cluster of real processes over a real Redis, each on a host of its own, under faults
//! of machines, networks and disks.
//!
//! Clients keep ingesting, replacing, forgetting, searching and asking while faults are inflicted,
//! and keep a ledger of what was acknowledged. At the end, the cluster is compared with the ledger.
//! `tests/README.md` lists the faults.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]
#![allow(clippy::print_stdout, reason = "seed, timeline and verdict of a run")]

#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/client.rs"]
mod client;
mod cluster;
mod disk;
mod fault;
mod flood;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/harness.rs"]
mod harness;
mod hosts;
mod ledger;
mod load;
mod report;
#[path = "../shared/seed.rs"]
mod seed;
mod storage;
mod verdict;
#[path = "../shared/words.rs"]
mod words;

use std::time::{Duration, Instant};

use clew_core::CorpusName;
use fastrand::Rng;
use tokio::sync::{Mutex, MutexGuard};

use client::{create_in_shards, document, remember};
use cluster::{Cluster, node_names};
use fault::Fault;
use ledger::{SHARDS, lasting_documents};
use load::Load;
use report::Report;
use storage::StorageKind;
use verdict::{Recall, assert_erased, assert_kept};

/// Two clusters at once would slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_machines_nothing_acknowledged_is_lost_and_nothing_forgotten_returns() {
    let all = Fault::all(StorageKind::Folder);
    inflict_on_a_cluster(StorageKind::Folder, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_owners_of_shards_in_a_bucket_all_stays_as_acknowledged() {
    let kinds = match long() {
        Some(_) => Fault::all(StorageKind::Bucket),
        None => Fault::of_ownership(StorageKind::Bucket),
    };
    inflict_on_a_cluster(StorageKind::Bucket, &kinds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_is_restarted_under_load_and_no_request_fails_for_good() {
    let mut run = Run::start(StorageKind::Folder).await;
    for name in node_names() {
        let began = Instant::now();
        run.cluster.restart_gracefully(&name).await;
        let recovery = run.load.recovered(began, Instant::now()).await;
        println!(
            "{name}: searches were disturbed for {:.1?}, writes for {:.1?}",
            recovery.searches, recovery.writes
        );
    }
    run.end().await;
}

/// Inflicts faults of `kinds` in random order, each as often as the others or once more. Their
/// number is `CLEW_FAULTS`, or else one of each kind.
async fn inflict_on_a_cluster(on: StorageKind, kinds: &[Fault]) {
    let mut run = Run::start(on).await;
    // Everything must work before the first fault.
    run.load.recovered(Instant::now(), Instant::now()).await;
    let mut report = Report::new();
    for fault in in_random_order(kinds, long().unwrap_or(kinds.len()), &mut run.random) {
        let inflicted = fault.inflict(&mut run.cluster, &mut run.random).await;
        let recovery = run.load.recovered(inflicted.began, inflicted.healed).await;
        report.add(fault, inflicted, recovery);
        tokio::time::sleep(Duration::from_millis(run.random.u64(..500))).await;
    }
    run.end().await;
    println!("{report}");
    println!(
        "verdict: all that was acknowledged is there, once and whole; what was forgotten is gone"
    );
}

/// Cluster with running clients. No other runs at the same time.
struct Run {
    random: Rng,
    load: Load,
    cluster: Cluster,
    notes: CorpusName,
    before: Recall,
    _alone: MutexGuard<'static, ()>,
}

impl Run {
    /// Starts a cluster, ingests the documents that never change, and starts clients.
    async fn start(on: StorageKind) -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let mut random = seed::random();
        let cluster = Cluster::start(on).await;
        let client = cluster.client().await;
        let notes = create_in_shards(&client, "notes", SHARDS).await;
        let documents = lasting_documents().map(|(name, text)| document(&name, text));
        remember(&client, &notes, documents.collect()).await;
        let before = Recall::measure(&client, &notes).await;
        let load = Load::start(cluster.endpoint(), notes.clone(), on.pause(), &mut random);
        Self { random, load, cluster, notes, before, _alone: alone }
    }

    /// Ends clients and cluster, and compares what is stored with what the clients know.
    async fn end(self) {
        let Self { load, mut cluster, notes, before, .. } = self;
        let (ledger, counts) = load.stop().await;
        println!("{counts}");
        assert_kept(&cluster, &notes, &ledger, &before).await;
        cluster.stop();
        assert_erased(&cluster, &ledger).await;
    }
}

/// Returns the number of faults of a long run, or `None` for a short one.
fn long() -> Option<usize> {
    let count = std::env::var("CLEW_FAULTS").ok()?;
    Some(count.parse().expect("CLEW_FAULTS is a number"))
}

fn in_random_order(kinds: &[Fault], count: usize, random: &mut Rng) -> Vec<Fault> {
    let mut faults = Vec::new();
    while faults.len() < count {
        let mut round = kinds.to_vec();
        random.shuffle(&mut round);
        faults.extend(round);
    }
    faults.truncate(count);
    faults
}
