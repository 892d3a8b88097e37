//! Tests of snapshots of tenants.

use clew_client::Client;
use clew_core::ErrorKind;
use clew_proto::corpus::v1 as wire;
use futures::TryStreamExt;

use super::world::World;
use crate::client::{accept, create, document};
use crate::harness::Server;

async fn names(client: &Client) -> Vec<String> {
    let listed = client.snapshots(&"notes".parse().unwrap()).await.unwrap();
    listed.into_iter().map(|snapshot| snapshot.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_deletes_snapshots_of_its_own_corpora_only_and_needs_the_scope_for_it() {
    let world = World::new();
    let mut command = world.home.serve_command();
    world.secure(&mut command);
    command.env("CLEW_STORAGE__SNAPSHOTS", world.path("snapshots"));
    let server = Server::start(command);
    let acme = world.client(&server, "acme").await;
    let other = world.client(&server, "other").await;
    for client in [&acme, &other] {
        let notes = create(client, "notes").await;
        accept(client, &notes, vec![document("d", "Bees are kept by many.")]).await;
        let events = client.snapshot_corpus(&notes, &"nightly".parse().unwrap()).await.unwrap();
        events.try_collect::<Vec<_>>().await.unwrap();
    }
    let named = |corpus: &str| wire::DeleteSnapshotsRequest {
        name: corpus.to_owned(),
        snapshots: vec!["nightly".to_owned()],
        ..Default::default()
    };
    let all_old = |corpus: &str| wire::DeleteSnapshotsRequest {
        name: corpus.to_owned(),
        retention: Some(wire::SnapshotRetention {
            older_than: Some(clew_proto::Duration::default()),
            keep: 0,
        }),
        ..Default::default()
    };
    for key in ["acme-reader", "acme-writer"] {
        let refused = world.client(&server, key).await.delete_snapshots(named("notes")).await;
        let refused = refused.unwrap_err();
        assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Denied, "SCOPE_MISSING"));
    }
    // The name of another tenant's snapshot does not exist for this tenant, in whatever form.
    for request in [named("acme.notes"), all_old("acme.notes")] {
        other.delete_snapshots(request).await.unwrap_err();
    }
    other.delete_snapshots(named("notes")).await.unwrap();
    let gone = other.delete_snapshots(named("notes")).await.unwrap().remove(0);
    assert_eq!(gone.refusal.unwrap().reason, "SNAPSHOT_NOT_FOUND");
    assert!(other.delete_snapshots(all_old("notes")).await.unwrap().is_empty());
    assert_eq!((names(&other).await.len(), names(&acme).await), (0, vec!["nightly".to_owned()]));

    let operator = world.client(&server, "operator").await;
    let deleted = operator.delete_snapshots(all_old("acme.notes")).await.unwrap();
    assert_eq!((deleted.len(), deleted[0].refusal.as_ref()), (1, None));
    assert!(names(&acme).await.is_empty());
    assert!(server.terminate().success());
}
