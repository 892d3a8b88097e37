//! Tests of keys, tenants, labels and quotas behind every path.

use clew_client::{Client, Credentials};
use clew_core::Labels;
use serde_json::{Value, json};

use super::http::{Response, get, post};
use crate::client::{counts, create, document, remember};
use crate::harness::{PATIENCE, Server, eventually};
use crate::security::World;

/// Returns a request to each path about the corpus `notes`: the path and, for a POST, the body.
fn requests() -> Vec<(&'static str, Option<Value>)> {
    let said = json!([{ "role": "user", "content": "Who has the honey?" }]);
    let setting = json!({ "top_k": 3, "score_threshold": 0.0 });
    vec![
        ("/v1/models/notes", None),
        ("/v1/chat/completions", Some(json!({ "model": "notes", "messages": said }))),
        (
            "/v1/chat/completions",
            Some(json!({ "model": "notes", "messages": said, "stream": true })),
        ),
        ("/v1/embeddings", Some(json!({ "model": "notes", "input": "honey" }))),
        ("/v1/vector_stores/notes", None),
        ("/v1/vector_stores/notes/files", None),
        ("/v1/vector_stores/notes/search", Some(json!({ "query": "honey" }))),
        (
            "/dify/retrieval",
            Some(
                json!({ "knowledge_id": "notes", "query": "honey", "retrieval_setting": setting }),
            ),
        ),
    ]
}

/// Starts a server that asks for keys in plain text, and stores a document that needs the label
/// `hr` beside one that everybody of `acme` sees.
async fn served(world: &World) -> Server {
    let mut command = world.home.serve_command();
    command.env("CLEW_AUTH__KEYS_FILE", world.path("keys.toml"));
    let server = Server::start(command);
    let hr = client(world, &server, "acme-hr").await;
    let acme = client(world, &server, "acme").await;
    let notes = create(&acme, "notes").await;
    let mut secret = document("secret", "Quetzal has the honey of Zanzibar.");
    secret.labels = Labels::new(["hr".parse().unwrap()]).unwrap();
    let known = document("known", "The honey is sold in spring.");
    remember(&hr, &notes, vec![secret, known]).await;
    server
}

async fn client(world: &World, server: &Server, key: &str) -> Client {
    let api_key = Some(world.keys[key].reveal().to_owned());
    let credentials = Credentials { api_key, ..Credentials::default() };
    Client::connect_as(&credentials, &server.endpoint, PATIENCE).await.unwrap()
}

/// Sends a request with a key, or without one.
fn ask(server: &Server, key: Option<&str>, path: &str, body: Option<&Value>) -> Response {
    let bearer = key.map(|key| format!("Bearer {key}"));
    let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
    match body {
        Some(body) => post(server, path, &headers, body),
        None => get(server, path, &headers),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_asks_for_a_key_with_the_scope_of_the_right_tenant() {
    let world = World::new();
    let server = served(&world).await;
    let key = |name: &str| world.keys[name].reveal();
    for (path, body) in requests() {
        let status = |key| ask(&server, key, path, body.as_ref()).status;
        assert_eq!(status(Some(key("acme"))), 200, "{path}");
        assert_eq!(status(Some(key("acme-reader"))), 200, "{path}");
        assert_eq!(status(None), 401, "{path}");
        assert_eq!(status(Some("clew_wrong")), 401, "{path}");
        assert_eq!(status(Some(key("acme-ended"))), 401, "{path}");
        assert_eq!(status(Some(key("acme-writer"))), 403, "{path}");
        // Another tenant has no such corpus, and learns nothing of it.
        let foreign = ask(&server, Some(key("other")), path, body.as_ref());
        assert_eq!(foreign.status, 404, "{path}");
        assert!(!foreign.body.contains("oney"), "{foreign:?}");
    }
    for path in ["/v1/models", "/v1/vector_stores"] {
        let corpora = |name: &str| {
            let listed = ask(&server, Some(key(name)), path, None).json();
            let ids = listed["data"].as_array().unwrap().iter();
            let ids = ids.map(|listed| listed["id"].as_str().unwrap().to_owned());
            ids.filter(|id| !id.contains(':')).collect::<Vec<_>>()
        };
        assert_eq!(corpora("acme"), ["notes"], "{path}");
        assert_eq!(corpora("other"), [""; 0], "{path}");
        assert_eq!(corpora("operator"), ["acme.notes"], "{path}");
    }
    assert_eq!(ask(&server, None, "/v1/models", None).error().1, "key_refused");
    let log = server.log();
    for key in world.keys.values() {
        assert!(!log.contains(&key.reveal()["clew_".len()..]), "a key was logged");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_tells_of_a_document_whose_label_the_key_does_not_hold() {
    let world = World::new();
    let server = served(&world).await;
    let told = |name: &str, path: &str, body: Option<&Value>| {
        let response = ask(&server, Some(world.keys[name].reveal()), path, body);
        assert_eq!(response.status, 200, "{response:?}");
        response.body
    };
    for (path, body) in requests() {
        let body = body.as_ref();
        let without = told("acme", path, body);
        assert!(!without.contains("Quetzal") && !without.contains("secret"), "{path}: {without}");
        if path == "/dify/retrieval" || path.ends_with("/search") {
            assert!(told("acme-hr", path, body).contains("Quetzal"), "{path} finds it at all");
            assert!(without.contains("spring"), "{path}: {without}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_spent_is_told_with_the_time_to_wait() {
    let quota = "[[tenant]]\nname = 'acme'\nrequests_per_second = 1.0\nburst_secs = 20.0\n";
    let world = World::with(quota);
    let server = served(&world).await;
    let key = world.keys["acme"].reveal();
    for (path, body) in requests() {
        let refused = eventually("the quota is spent", async || {
            let response = ask(&server, Some(key), path, body.as_ref());
            (response.status != 200).then_some(response)
        })
        .await;
        assert_eq!(refused.status, 429, "{refused:?}");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(wait >= 1, "{refused:?}");
        assert!(refused.body.contains("quota"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_kept_and_corpora_made_only_by_keys_with_the_scope() {
    let world = World::new();
    let server = served(&world).await;
    let reader = format!("Bearer {}", world.keys["acme-reader"].reveal());
    let said = json!([{ "role": "user", "content": "My cat is called Xqvzkwjb." }]);
    let body = json!({ "model": "notes", "messages": said });
    let whose = [("authorization", reader.as_str()), ("X-Clew-User", "ada")];
    let answered = post(&server, "/v1/chat/completions", &whose, &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    let session = [&whose[..], &[("X-Clew-Session", "monday")]].concat();
    let refused = post(&server, "/v1/chat/completions", &session, &body);
    assert_eq!(refused.error(), (403, "scope_missing".to_owned(), None), "{refused:?}");
    for (path, body) in [
        ("/v1/vector_stores", json!({ "name": "more" })),
        ("/v1/vector_stores/notes/files", json!({ "file_id": "known" })),
    ] {
        let refused = post(&server, path, &whose[..1], &body);
        assert!([403, 404].contains(&refused.status), "{path}: {refused:?}");
    }
    // Nothing was made: this key sees all documents, and counts those that it sees.
    let hr = client(&world, &server, "acme-hr").await;
    assert_eq!(hr.corpora().await.unwrap().len(), 1);
    assert_eq!(counts(&hr, &"notes".parse().unwrap()).await.documents, 2);
}
