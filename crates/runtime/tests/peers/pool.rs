//! Tests of pools.

use std::time::Instant;

use clew_core::{Error, ErrorKind};
use clew_runtime::peer::PeerState;
use clew_runtime::pool::Pool;

use crate::server::{PATIENCE, TestServer, options, until, work};

async fn pool_of(servers: &[&TestServer], credits: u32) -> Pool {
    let pool = Pool::new("workers", options(credits));
    pool.update(members(servers)).await.unwrap();
    for peer in pool.members().iter() {
        until(peer, PeerState::Serving).await;
    }
    pool
}

fn members(servers: &[&TestServer]) -> Vec<(String, String)> {
    let name = |i: usize| format!("worker-{i}");
    servers.iter().enumerate().map(|(i, server)| (name(i), server.address())).collect()
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

#[tokio::test]
async fn the_least_busy_member_is_picked_until_all_are_full() {
    let (a, b) = (TestServer::start().await, TestServer::start().await);
    let pool = pool_of(&[&a, &b], 10).await;
    let first = pool.pick(6).unwrap();
    let second = pool.pick(5).unwrap();
    assert_ne!(first.peer.name(), second.peer.name());
    let third = pool.pick(5).unwrap();
    assert_eq!(third.peer.name(), second.peer.name(), "it had fewer units under way");
    let fourth = pool.pick(3).unwrap();
    assert_eq!(fourth.peer.name(), first.peer.name());
    let full = pool.pick(2).err().unwrap();
    assert_eq!(full.kind(), ErrorKind::Exhausted);
    assert!(full.retry_after().is_some());
    let called = pool.call(2, soon(), work).await.unwrap_err();
    assert_eq!(called.kind(), ErrorKind::Exhausted, "at once, not at the deadline");
    drop(first);
    assert!(pool.pick(2).is_ok());
    let drawn = pool.node().to_string();
    assert!(drawn.starts_with("workers (pool) serving\n├── worker-0 (peer) serving, "), "{drawn}");
}

#[tokio::test]
async fn a_call_that_is_lost_with_its_member_is_made_on_another() {
    let (a, b) = (TestServer::start().await, TestServer::start().await);
    let pool = pool_of(&[&a, &b], 10).await;
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.call(1, soon(), work).await })
        })
        .collect();
    a.started(4).await;
    b.started(4).await;
    a.wire.cut();
    b.allow(8);
    for call in calls {
        tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap().unwrap();
    }
    assert_eq!((a.calls(), b.calls()), (4, 8));
}

#[tokio::test]
async fn a_member_that_leaves_gets_nothing_new_and_finishes() {
    let (a, b) = (TestServer::start().await, TestServer::start().await);
    let pool = pool_of(&[&a], 10).await;
    let begun = tokio::spawn({
        let pool = pool.clone();
        async move { pool.call(1, soon(), work).await }
    });
    a.started(1).await;
    // The second joins, and the first says that it leaves.
    pool.update(members(&[&a, &b])).await.unwrap();
    let both = pool.members();
    until(&both[1], PeerState::Serving).await;
    a.say(tonic_health::ServingStatus::NotServing).await;
    until(&both[0], PeerState::Draining).await;
    b.allow(3);
    for _ in 0..3 {
        pool.call(1, soon(), work).await.unwrap();
    }
    assert_eq!((a.calls(), b.calls()), (1, 3));
    a.allow(1);
    begun.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_member_that_is_taken_out_finishes_and_is_hung_up_on() {
    let server = TestServer::start().await;
    let pool = pool_of(&[&server], 10).await;
    let place = pool.pick(1).unwrap();
    let link = place.link.clone();
    pool.update(Vec::new()).await.unwrap();
    assert_eq!(pool.pick(1).err().unwrap().reason(), "NO_PEER");
    server.allow(1);
    link.run(work(link.channel())).await.unwrap();
    assert!(!link.is_lost());
    drop(place);
    // Our end of the channel keeps the connection open as well.
    drop(link);
    let closed = tokio::time::timeout(PATIENCE, server.wire.all_closed());
    closed.await.expect("the connection was closed");
}

#[tokio::test]
async fn a_call_waits_a_while_for_the_first_member() {
    let pool = Pool::new("workers", options(10));
    let call = tokio::spawn({
        let pool = pool.clone();
        async move { pool.call(1, soon(), work).await }
    });
    let server = TestServer::start().await;
    server.allow(1);
    pool.update(members(&[&server])).await.unwrap();
    call.await.unwrap().unwrap();

    let mut impatient = options(10);
    impatient.reach.config.wait_ms = 50;
    let pool = Pool::new("workers", impatient);
    let refused = pool.call(1, soon(), work).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Unavailable, "NO_PEER"));
}

#[tokio::test]
async fn serving_members_are_waited_for_and_told() {
    let mut patient = options(10);
    patient.reach.config.wait_ms = 20_000;
    let pool = Pool::new("workers", patient);
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.serving(soon()).await }
    });
    let (a, b) = (TestServer::start().await, TestServer::start().await);
    pool.update(members(&[&a])).await.unwrap();
    let serving = waiting.await.unwrap().unwrap();
    assert_eq!(serving.iter().map(|peer| peer.name()).collect::<Vec<_>>(), ["worker-0"]);
    let pool = pool_of(&[&a, &b], 10).await;
    a.say(tonic_health::ServingStatus::NotServing).await;
    until(&pool.members()[0], PeerState::Draining).await;
    let serving = pool.serving(soon()).await.unwrap();
    assert_eq!(serving.iter().map(|peer| peer.name()).collect::<Vec<_>>(), ["worker-1"]);

    let mut impatient = options(10);
    impatient.reach.config.wait_ms = 50;
    let nobody = Pool::new("workers", impatient).serving(soon()).await.err().unwrap();
    assert_eq!((nobody.kind(), nobody.reason()), (ErrorKind::Unavailable, "NO_PEER"));
}

#[tokio::test]
async fn a_call_is_made_only_on_members_that_may_take_it() {
    let (a, b) = (TestServer::start().await, TestServer::start().await);
    let mut impatient = options(10);
    impatient.reach.config.wait_ms = 50;
    let pool = Pool::new("workers", impatient);
    pool.update(members(&[&a, &b])).await.unwrap();
    for peer in pool.members().iter() {
        until(peer, PeerState::Serving).await;
    }
    b.allow(8);
    for _ in 0..8 {
        pool.call_among(1, soon(), |peer| peer.name() == "worker-1", work).await.unwrap();
    }
    assert_eq!((a.calls(), b.calls()), (0, 8));
    let refused = pool.call_among(1, soon(), |_| false, work).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Unavailable, "NO_PEER"));
}

#[tokio::test]
async fn a_call_that_fails_everywhere_is_given_up() {
    let server = TestServer::start().await;
    let pool = pool_of(&[&server], 10).await;
    let tries = std::sync::atomic::AtomicU32::new(0);
    let failing = |_channel| {
        tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async { Err::<(), _>(Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "no")) }
    };
    assert_eq!(pool.call(1, soon(), failing).await.unwrap_err().message(), "no");
    assert_eq!(tries.into_inner(), options(1).reach.config.attempts);
    let wrong = |_channel| async { Err::<(), _>(Error::invalid("k", "no")) };
    let refused = pool.call(1, soon(), wrong).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}
