//! Tests that keys, tenants, labels and quotas hold by HTTP as they do by gRPC.
//!
//! `security/probe.rs` tries every method with ids of another tenant.

use clew_client::{Client, Credentials};
use clew_core::{Document, ErrorKind, Labels, Query};
use serde_json::json;

use super::curl::{post, post_with};
use crate::client::{create, document, remember};
use crate::harness::PATIENCE;
use crate::security::World;
use crate::twin::Way;

const WAYS: [Way; 2] = [Way::Json, Way::GrpcWeb];

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_by_http_what_it_opens_by_grpc() {
    let world = World::new();
    let server = world.serve();
    let acme = world.client(&server, "acme").await;
    let notes = create(&acme, "notes").await;
    let labels = Labels::parse(["hr"]).unwrap();
    let salaries = Document { labels, ..document("salaries", "The zanzibar salaries.") };
    let personnel = world.client(&server, "acme-hr").await;
    remember(&personnel, &notes, vec![salaries.clone(), document("plan", "A zanzibar plan.")])
        .await;
    let query = || Query::new("zanzibar", 5);
    for way in WAYS {
        let by = async |key| world.client_by(way, &server, key).await;
        let found = async |key| by(key).await.search(&notes, query()).await.unwrap().evidence.len();
        assert_eq!([found("acme-hr").await, found("acme").await], [2, 1], "{way:?}: labels");
        assert_eq!(found("acme-reader").await, 1);

        let refused = async |key| {
            let forgotten = by(key).await.forget(&notes, &["plan".parse().unwrap()]).await;
            let error = forgotten.unwrap_err();
            (error.kind(), error.reason().to_owned())
        };
        let (denied, unknown) = (ErrorKind::Denied, ErrorKind::Unauthenticated);
        assert_eq!(refused("acme-reader").await, (denied, "SCOPE_MISSING".to_owned()));
        assert_eq!(refused("acme-ended").await, (unknown, "KEY_REFUSED".to_owned()));
        assert_eq!(refused("other").await.0, ErrorKind::NotFound, "of another tenant");
        let unseen = by("acme").await.document(&notes, &salaries.id).await.unwrap_err();
        assert_eq!(unseen.kind(), ErrorKind::NotFound, "{way:?}: a label that is not held");
        let held = by("acme").await.delete_corpus(&notes).await.unwrap_err();
        assert_eq!(held.reason(), "LABEL_NOT_HELD");
        assert_eq!(by("acme").await.cluster_tree().await.unwrap_err().kind(), denied);

        for api_key in [None, Some("clew_wrong".to_owned())] {
            let credentials = Credentials { api_key, ..world.credentials("acme") };
            let client = Client::over(way.to(&server, &credentials).await, PATIENCE);
            let refused = client.corpora().await.unwrap_err();
            assert_eq!((refused.kind(), refused.reason()), (unknown, "KEY_REFUSED"));
        }
    }
    let log = server.log();
    for key in world.keys.values() {
        assert!(!log.contains(&key.reveal()["clew_".len()..]), "a key was logged");
    }
    assert!(log.contains("KEY_REFUSED"), "refusals are logged:\n{log}");
    assert_eq!(acme.corpus(&notes).await.unwrap().counts.unwrap().documents, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_used_up_a_quota_is_told_when_to_try_again() {
    let quota = "[[tenant]]\nname = 'other'\nrequests_per_second = 0.01\nburst_secs = 300.0\n";
    let world = World::with(quota);
    let server = world.serve();
    let (api, ca) = (server.http() + "/api", world.path("ca.crt"));
    let list = "clew.corpus.v1.CorpusService/ListCorpora";
    let as_tenant = |key: &str| {
        let key = format!("Authorization: Bearer {}", world.keys[key].reveal());
        let more = ["--header", &key, "--cacert", ca.to_str().unwrap()];
        post_with(&world.home, &api, list, &json!({}), &more)
    };
    let refused = loop {
        let answered = as_tenant("other");
        if answered.status != 200 {
            break answered;
        }
    };
    assert_eq!((refused.status, &refused.json()["reason"]), (429, &json!("QUOTA_SPENT")));
    let delay: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3600).contains(&delay), "{refused:?}");
    let by_web = world.client_by(Way::GrpcWeb, &server, "other").await;
    assert_eq!(by_web.corpora().await.unwrap_err().reason(), "QUOTA_SPENT");
    as_tenant("acme").done();
}

#[test]
fn a_request_without_key_is_told_how_to_present_one() {
    let world = World::new();
    let server = world.serve();
    let ca = world.path("ca.crt");
    let list = "clew.corpus.v1.CorpusService/ListCorpora";
    let api = server.http() + "/api";
    let more = ["--cacert", ca.to_str().unwrap()];
    let refused = post_with(&world.home, &api, list, &json!({}), &more);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("bearer")));
    // A server without keys in plain text lets everybody in, as by gRPC.
    let open = world.home.serve_at("open");
    post(&world.home, &(open.http() + "/api"), list, &json!({})).done();
}
