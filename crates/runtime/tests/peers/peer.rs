//! Tests of one peer.

use std::time::{Duration, Instant};

use clew_core::ErrorKind;
use clew_runtime::peer::{Peer, PeerConfig, PeerOptions, PeerState};
use tonic::service::Routes;

use crate::server::{PATIENCE, TestServer, options, serve, until, work};

#[tokio::test]
async fn a_peer_serves_drains_and_serves_again_as_it_says() {
    let server = TestServer::start().await;
    let peer = Peer::start("a", &server.address(), &options(10)).await.unwrap();
    until(&peer, PeerState::Serving).await;
    let (link, permit) = peer.try_enter(4).unwrap();
    assert_eq!(peer.node().to_string(), "a (peer) serving, 4 of 10\n");
    assert_eq!(peer.try_enter(7).unwrap_err().kind(), ErrorKind::Exhausted);

    server.say(tonic_health::ServingStatus::NotServing).await;
    until(&peer, PeerState::Draining).await;
    assert_eq!(peer.try_enter(1).unwrap_err().kind(), ErrorKind::Unavailable, "no new work");
    server.allow(1);
    link.run(work(link.channel())).await.expect("what it was given is finished");
    drop(permit);

    server.say(tonic_health::ServingStatus::Serving).await;
    until(&peer, PeerState::Serving).await;
    assert_eq!(link.generation(), peer.try_enter(1).unwrap().0.generation());
}

#[tokio::test]
async fn a_server_without_health_serves_once_it_is_connected() {
    let (address, serving) = serve(Routes::default()).await;
    let address = format!("http://{address}");
    let peer = Peer::start("a", &address, &options(1)).await.unwrap();
    until(&peer, PeerState::Serving).await;
    serving.abort();
}

#[tokio::test]
async fn a_service_that_the_server_does_not_know_gets_no_work() {
    let server = TestServer::start().await;
    let options = PeerOptions { service: "another.Service".to_owned(), ..options(1) };
    let peer = Peer::start("a", &server.address(), &options).await.unwrap();
    until(&peer, PeerState::Draining).await;
    // It is asked again, because a server may come to know the service.
    server.health.set_service_status("another.Service", tonic_health::ServingStatus::Serving).await;
    until(&peer, PeerState::Serving).await;
}

#[tokio::test]
async fn a_connection_that_ends_takes_its_work_with_it_at_once_and_is_made_anew() {
    let server = TestServer::start().await;
    let peer = Peer::start("a", &server.address(), &options(1)).await.unwrap();
    until(&peer, PeerState::Serving).await;
    let (link, _permit) = peer.try_enter(1).unwrap();
    let call = tokio::spawn({
        let link = link.clone();
        async move { link.run(work(link.channel())).await }
    });
    server.started(1).await;
    server.wire.cut();
    let failed = tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap().unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    tokio::time::timeout(PATIENCE, link.lost()).await.unwrap();
    assert_ne!(peer.state(), PeerState::Serving);
    server.wire.forward();
    until(&peer, PeerState::Serving).await;
    let node = peer.node();
    assert!(node.restarts >= 1, "{node}");
    // The old connection stays lost.
    assert!(link.is_lost());
    assert!(work(link.channel()).await.is_err());
}

#[tokio::test]
async fn silence_is_noticed_by_keepalive() {
    let server = TestServer::start().await;
    let peer = Peer::start("a", &server.address(), &options(1)).await.unwrap();
    until(&peer, PeerState::Serving).await;
    let (link, _permit) = peer.try_enter(1).unwrap();
    server.wire.fall_silent();
    let silent = Instant::now();
    let failed = link.run(work(link.channel())).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    let noticed = silent.elapsed();
    // 100 ms until a ping and 200 ms for its answer; the rest is for a busy machine.
    assert!(noticed < Duration::from_millis(1500), "{noticed:?}");
    server.wire.forward();
    until(&peer, PeerState::Serving).await;
}

#[tokio::test]
async fn what_is_no_address_is_refused() {
    for address in ["", "10.0.0.7:7421", "https://10.0.0.7:7421", "not an address"] {
        let refused = Peer::start("a", address, &options(1)).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{address}");
    }
    let error = PeerConfig { attempts: 0, ..PeerConfig::default() }.validate().unwrap_err();
    assert_eq!(error.violations()[0].field, "peers.attempts");
}
