//! Test of a cluster whose nodes prove their identity to each other.

use std::time::Duration;

use clew_core::Query;
use clew_testkit::{Authority, ModelEndpoint, Validity};
use clew_tls::NODE_NAME;
use tonic::Code;

use super::probe::call;
use super::world::World;
use crate::client::{create_in_shards, document, remember};
use crate::harness::{Server, eventually, start_and_kill};
use crate::processes::Cluster;
use crate::tales::answer;

/// Time for which a stranger is in the list of nodes.
const LISTED: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_cluster_works_and_lets_no_stranger_in() {
    let (world, endpoint) = (World::new(), ModelEndpoint::start().unwrap());
    endpoint.reply_by(answer);
    let path = |name: &str| world.path(name).to_string_lossy().into_owned();
    let settings = vec![
        ("CLEW_TLS__CERTIFICATE", path("{role}.crt")),
        ("CLEW_TLS__KEY", path("{role}.key")),
        ("CLEW_TLS__CA", path("ca.crt")),
        ("CLEW_AUTH__KEYS_FILE", path("keys.toml")),
        ("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url()),
        ("CLEW_GENERATOR__ENDPOINT__MODEL", "test".to_owned()),
    ];
    let mut cluster = Cluster::start_with(2, settings).await;
    let acme = world.client(cluster.gateway(), "acme").await;
    eventually("there are retrievers", async || acme.corpora().await.ok()).await;
    let notes = create_in_shards(&acme, "notes", 2).await;
    let documents =
        (0..6).map(|n| document(&format!("d{n}"), format!("Bees number {n} are kept."))).collect();
    remember(&acme, &notes, documents).await;
    let found = eventually("all shards answer", async || {
        let found = acme.search(&notes, Query::new("bees", 10)).await.ok()?;
        found.shards_missing.is_empty().then_some(found.evidence)
    })
    .await;
    assert_eq!(found.len(), 6);

    // A tenant gets neither embeddings of another tenant's questions nor replies to them from the
    // caches, but its own of both.
    let myths = vec![document("crete", "Theseus killed the Minotaur.")];
    let other = world.client(cluster.gateway(), "other").await;
    for client in [&acme, &other] {
        let myth = create_in_shards(client, "myth", 1).await;
        remember(client, &myth, myths.clone()).await;
    }
    for (tenant, calls) in [("acme", 1), ("other", 2)] {
        let ask = || {
            let ask = ["ask", "--corpus", "myth", "--json", "Who killed the Minotaur?"];
            let asked = world.run(cluster.gateway(), tenant, &ask).done();
            assert_eq!(asked["answer"], "Theseus did.", "{asked}");
            assert_eq!(endpoint.requests().len(), calls, "{tenant}: {asked}");
            asked["cost"]["embedded_tokens"] != 0
        };
        assert!(ask(), "{tenant}: what another asked is known");
        // A cache that does not answer in time counts as empty.
        eventually("it is known what the tenant asked", async || (!ask()).then_some(())).await;
    }

    // Neither a client's key nor its certificate opens the services of the nodes.
    let retriever = cluster.node("retriever-0");
    let wire = world.wire(retriever, "operator").await;
    let refused = call(&wire, "/clew.shard.v1.ShardService/ListDocuments", Vec::new()).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);

    // A node's certificate does not open methods that its role does not need, on any node.
    let list = "/clew.shard.v1.ShardService/ListDocuments";
    let drain = "/clew.cluster.v1.NodeService/Drain";
    let embed = "/clew.encoder.v1.EncoderService/Embed";
    let search = "/clew.query.v1.QueryService/Search";
    for (server, certificate, method, code) in [
        ("retriever-0", "encoder", list, Code::PermissionDenied),
        ("retriever-0", "graph-builder", list, Code::PermissionDenied),
        ("retriever-0", "generator", list, Code::PermissionDenied),
        ("retriever-0", "retriever", list, Code::PermissionDenied),
        ("retriever-0", "gateway", list, Code::InvalidArgument),
        // A certificate from before roles were named in certificates.
        ("retriever-0", "node", list, Code::InvalidArgument),
        ("retriever-0", "encoder", drain, Code::PermissionDenied),
        ("encoder-0", "graph-builder", embed, Code::PermissionDenied),
        ("gateway-0", "encoder", search, Code::Unauthenticated),
        ("gateway-0", "gateway", search, Code::Unauthenticated),
    ] {
        let wire = world.certified(cluster.node(server), certificate).await;
        let refused = call(&wire, method, Vec::new()).await.unwrap_err();
        assert_eq!(refused.code(), code, "{certificate} at {server}{method}: {refused:?}");
    }
    let log = cluster.node("retriever-0").log();
    assert!(log.contains("ROLE_MISSING") && log.contains("names no roles"), "{log}");

    // A node that is certified for another role does not start.
    let mut command = cluster.command("retriever-8");
    command.env("CLEW_TLS__CERTIFICATE", path("encoder.crt"));
    command.env("CLEW_TLS__KEY", path("encoder.key"));
    let Err(ended) = Server::try_start(command) else {
        panic!("an encoder is taken for a retriever")
    };
    assert!(ended.log.contains("retriever.node.clew.internal"), "{}", ended.log);

    // A node that another authority certified is in the list, but gets no work and learns nothing.
    let stranger = Authority::new("stranger").unwrap();
    let folder = world.path("stranger");
    std::fs::create_dir(&folder).unwrap();
    stranger.write(&folder.join("ca.crt")).unwrap();
    stranger.issue(&folder, "node", &["localhost", NODE_NAME], Validity::Valid).unwrap();
    let mut command = cluster.command("retriever-9");
    for (key, file) in [
        ("CLEW_TLS__CERTIFICATE", "node.crt"),
        ("CLEW_TLS__KEY", "node.key"),
        ("CLEW_TLS__CA", "ca.crt"),
    ] {
        command.env(key, folder.join(file));
    }
    command.env("CLEW_LOG", "info");
    let stranger = tokio::task::spawn_blocking(move || start_and_kill(command, LISTED));
    while !stranger.is_finished() {
        let found = acme.search(&notes, Query::new("bees", 10)).await.unwrap();
        assert!(found.evidence.len() + 6 * found.shards_missing.len() >= 6, "{found:?}");
    }
    stranger.await.unwrap();
    cluster.kill("retriever-1");
    let found = eventually("one retriever serves all", async || {
        let found = acme.search(&notes, Query::new("bees", 10)).await.ok()?;
        found.shards_missing.is_empty().then_some(found.evidence)
    })
    .await;
    assert_eq!(found.len(), 6);
}
