//! A cluster of real processes, each on a host of its own, over a real Redis, and what happens to
//! machines, networks and disks.
//!
//! Clients keep ingesting, replacing, forgetting, searching and asking while faults are done, and know
//! what was acknowledged. At the end the cluster is held against what they know. `tests/README.md` lists
//! the faults.

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
mod verdict;
#[path = "../shared/words.rs"]
mod words;

use std::time::{Duration, Instant};

use clew_client::Client;
use clew_core::CorpusName;
use fastrand::Rng;
use tokio::sync::Mutex;

use client::{create_in_shards, document, remember};
use cluster::{Cluster, node_names};
use fault::Fault;
use ledger::{SHARDS, lasting_documents};
use load::Load;
use report::Report;
use verdict::{Recall, assert_erased, assert_kept};

/// Two clusters at once would take each other's time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_machines_nothing_acknowledged_is_lost_and_nothing_forgotten_returns() {
    let _one_at_a_time = ONE_AT_A_TIME.lock().await;
    let mut random = random();
    let mut cluster = Cluster::start().await;
    let (client, notes) = furnished(&cluster).await;
    let before = Recall::measure(&client, &notes).await;
    drop(client);
    let mut load = Load::start(cluster.endpoint(), notes.clone(), &mut random);
    // All goes well before anything is done to it.
    load.recovered(Instant::now(), Instant::now()).await;
    let mut report = Report::new();
    for fault in faults(&mut random) {
        let inflicted = fault.inflict(&mut cluster, &mut random).await;
        let recovery = load.recovered(inflicted.began, inflicted.healed).await;
        report.add(fault, inflicted, recovery);
        tokio::time::sleep(Duration::from_millis(random.u64(..500))).await;
    }
    let (ledger, counts) = load.stop().await;
    println!("{counts}");
    assert_kept(&cluster, &notes, &ledger, &before).await;
    cluster.stop();
    assert_erased(&cluster, &ledger);
    println!("{report}");
    println!(
        "verdict: all that was acknowledged is there, once and whole; what was forgotten is gone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_is_restarted_under_load_and_no_request_fails_for_good() {
    let _one_at_a_time = ONE_AT_A_TIME.lock().await;
    let mut random = random();
    let mut cluster = Cluster::start().await;
    let (client, notes) = furnished(&cluster).await;
    let before = Recall::measure(&client, &notes).await;
    drop(client);
    let mut load = Load::start(cluster.endpoint(), notes.clone(), &mut random);
    for name in node_names() {
        let began = Instant::now();
        cluster.restart_gracefully(&name).await;
        let recovery = load.recovered(began, Instant::now()).await;
        println!(
            "{name}: searches were disturbed for {:.1?}, writes for {:.1?}",
            recovery.searches, recovery.writes
        );
    }
    let (ledger, counts) = load.stop().await;
    println!("{counts}");
    assert_kept(&cluster, &notes, &ledger, &before).await;
    cluster.stop();
    assert_erased(&cluster, &ledger);
}

/// The run's random numbers. Their seed is printed; `CLEW_TEST_SEED` plays the same faults again, as far
/// as the operating system's scheduling allows.
fn random() -> Rng {
    let seed = match std::env::var("CLEW_TEST_SEED") {
        Ok(seed) => seed.parse().expect("CLEW_TEST_SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("CLEW_TEST_SEED={seed}");
    Rng::with_seed(seed)
}

/// Faults of all kinds in random order, each as often as the others or once more. There are
/// `CLEW_FAULTS`, or else one of each kind.
fn faults(random: &mut Rng) -> Vec<Fault> {
    let kinds = Fault::all();
    let count = match std::env::var("CLEW_FAULTS") {
        Ok(count) => count.parse().expect("CLEW_FAULTS is a number"),
        Err(_) => kinds.len(),
    };
    let mut faults = Vec::new();
    while faults.len() < count {
        let mut round = kinds.clone();
        random.shuffle(&mut round);
        faults.extend(round);
    }
    faults.truncate(count);
    faults
}

/// Makes a corpus with the documents that stay as they are.
async fn furnished(cluster: &Cluster) -> (Client, CorpusName) {
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", SHARDS).await;
    let documents = lasting_documents().map(|(name, text)| document(&name, text));
    remember(&client, &notes, documents.collect()).await;
    (client, notes)
}
