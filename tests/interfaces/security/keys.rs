//! Tests of keys, scopes, tenants and quotas.

use std::process::Command;

use clew_client::{Client, Credentials};
use clew_core::{Document, ErrorKind, IfThere, Labels, Query};
use clew_proto::auth::v1::{Metered, Scope};
use clew_proto::chat::v1::{ListSessionsRequest, ListUsersRequest};
use clew_proto::ingest::v1::ListChunksRequest;
use clew_tls::ClientTls;
use serde_json::json;

use super::world::World;
use crate::client::{accept, corpus, create, document, remember, send};
use crate::harness::{Home, PATIENCE, Ran, Server, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_its_tenants_corpora_as_far_as_its_scopes_go() {
    let world = World::new();
    let server = world.serve();
    assert!(server.endpoint.starts_with("https://"), "{}", server.endpoint);
    let acme = world.client(&server, "acme").await;
    let notes = create(&acme, "notes").await;
    remember(&acme, &notes, vec![document("plan", "The zanzibar plan is to keep bees.")]).await;
    let found = acme.search(&notes, Query::new("zanzibar", 5)).await.unwrap();
    assert_eq!(found.evidence[0].document_id, "plan");

    let reader = world.client(&server, "acme-reader").await;
    assert_eq!(reader.search(&notes, Query::new("bees", 5)).await.unwrap().evidence.len(), 1);
    let refused = reader.forget(&notes, &["plan".parse().unwrap()]).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Denied, "SCOPE_MISSING"));
    let sent = vec![document("plan", "Another plan.")];
    let refused = reader.ingest_documents(&notes, sent, IfThere::Replace).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Denied, "SCOPE_MISSING"));
    assert!(reader.delete_corpus(&notes).await.is_err());
    let writer = world.client(&server, "acme-writer").await;
    accept(&writer, &notes, vec![document("more", "Honey is sold in spring.")]).await;
    let chunks = ListChunksRequest {
        corpus: notes.to_string(),
        document_id: "plan".to_owned(),
        ..Default::default()
    };
    let users = ListUsersRequest { corpus: notes.to_string(), ..Default::default() };
    let sessions = ListSessionsRequest {
        corpus: notes.to_string(),
        user: "ann".to_owned(),
        ..Default::default()
    };
    for refused in [
        writer.chunks_page(chunks).await.unwrap_err(),
        writer.users_page(users).await.unwrap_err(),
        writer.sessions_page(sessions).await.unwrap_err(),
        writer.strategies(Some(&notes)).await.unwrap_err(),
    ] {
        assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Denied, "SCOPE_MISSING"));
    }
    assert_eq!(
        writer.search(&notes, Query::new("bees", 5)).await.unwrap_err().kind(),
        ErrorKind::Denied
    );

    for credentials in [
        world.credentials("acme-ended"),
        Credentials { api_key: Some("clew_wrong".to_owned()), ..world.credentials("acme") },
        Credentials { api_key: None, ..world.credentials("acme") },
    ] {
        let client = Client::connect_as(&credentials, &server.endpoint, PATIENCE).await.unwrap();
        let refused = client.corpora().await.unwrap_err();
        assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Unauthenticated, "KEY_REFUSED"));
    }

    // Two tenants may use the same name. The operator can tell them apart.
    let other = world.client(&server, "other").await;
    assert_eq!(other.corpus(&notes).await.unwrap_err().kind(), ErrorKind::NotFound);
    create(&other, "notes").await;
    create(&other, "more").await;
    assert!(other.search(&notes, Query::new("zanzibar", 5)).await.unwrap().evidence.is_empty());
    let names = |corpora: Vec<clew_proto::corpus::v1::Corpus>| {
        corpora.into_iter().map(|corpus| corpus.name).collect::<Vec<_>>()
    };
    assert_eq!(names(other.corpora().await.unwrap()), ["more", "notes"]);
    assert_eq!(names(acme.corpora().await.unwrap()), ["notes"]);
    let operator = world.client(&server, "operator").await;
    let all = names(operator.corpora().await.unwrap());
    assert_eq!(all, ["acme.notes", "other.more", "other.notes"]);
    assert_eq!(
        other.corpus(&corpus("acme.notes")).await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );

    let log = server.log();
    for key in world.keys.values() {
        assert!(!log.contains(&key.reveal()["clew_".len()..]), "a key was logged");
    }
    assert!(log.contains("KEY_REFUSED"), "refusals are logged:\n{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_shows_what_needs_only_labels_that_it_holds() {
    let world = World::new();
    let server = world.serve();
    let acme = world.client(&server, "acme").await;
    let notes = create(&acme, "notes").await;
    let personnel = world.client(&server, "acme-hr").await;
    let labels = Labels::parse(["hr"]).unwrap();
    let salaries =
        Document { labels, ..document("salaries", "The zanzibar salaries of beekeepers.") };
    remember(&personnel, &notes, vec![salaries.clone()]).await;
    let query = || Query::new("zanzibar", 5);
    assert_eq!(personnel.search(&notes, query()).await.unwrap().evidence.len(), 1);
    assert!(acme.search(&notes, query()).await.unwrap().evidence.is_empty());
    assert_eq!(acme.document(&notes, &salaries.id).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(acme.corpus(&notes).await.unwrap().counts.unwrap().documents, 0);
    for attempt in
        [document("salaries", "Overwritten."), Document { id: "x".parse().unwrap(), ..salaries }]
    {
        let refused = send(&acme, &notes, vec![attempt]).await.remove(0).unwrap_err();
        assert_eq!(refused.reason, "LABEL_NOT_HELD", "{refused:?}");
    }
    assert_eq!(acme.delete_corpus(&notes).await.unwrap_err().reason(), "LABEL_NOT_HELD");
    world
        .client(&server, "operator")
        .await
        .delete_corpus(&"acme.notes".parse().unwrap())
        .await
        .unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_told_what_their_own_keys_permit() {
    let tenant = "[[tenant]]\nname = 'acme'\nrequests_per_second = 5.0\nburst_secs = 20.0\n";
    let world = World::with(tenant);
    let server = world.serve();
    let told = async |key: &str| world.client(&server, key).await.who_am_i().await.unwrap();
    let acme = told("acme-hr").await;
    assert!(acme.has_key && !acme.holds_all_labels && acme.expires_at.is_none(), "{acme:?}");
    assert_eq!((acme.key.as_str(), acme.tenant.as_str()), ("acme-hr", "acme"));
    assert_eq!(acme.scopes().collect::<Vec<_>>(), [Scope::Read, Scope::Write]);
    assert_eq!(acme.labels, ["hr"]);
    let [requests] = acme.quotas.as_slice() else { panic!("{acme:?}") };
    assert_eq!((requests.metered(), requests.burst), (Metered::Requests, 100.0));
    // This request is charged already.
    assert!((98.0..100.0).contains(&requests.left), "{requests:?}");
    // A key with any one scope is told so.
    assert_eq!(told("acme-writer").await.scopes().collect::<Vec<_>>(), [Scope::Write]);
    let other = told("other").await;
    assert!(other.holds_all_labels && other.labels.is_empty() && other.quotas.is_empty());
    let operator = told("operator").await;
    assert_eq!((operator.key.as_str(), operator.tenant.as_str()), ("operator", ""));
    assert!(!operator.holds_all_labels && operator.scopes.len() == 3, "{operator:?}");

    for key in world.keys.values() {
        let hash = key.hash().to_string();
        assert!(!format!("{acme:?}{other:?}{operator:?}").contains(&hash));
    }
    let ended = world.client(&server, "acme-ended").await.who_am_i().await.unwrap_err();
    assert_eq!((ended.kind(), ended.reason()), (ErrorKind::Unauthenticated, "KEY_REFUSED"));
    let nobody = Credentials { api_key: None, ..world.credentials("acme") };
    let nobody = Client::connect_as(&nobody, &server.endpoint, PATIENCE).await.unwrap();
    assert_eq!(nobody.who_am_i().await.unwrap_err().reason(), "KEY_REFUSED");

    let shown = world.run(&server, "acme-hr", &["whoami", "--json"]).done();
    assert_eq!(shown["scopes"], json!(["read", "write"]));
    assert_eq!((&shown["labels"], &shown["tenant"]), (&json!(["hr"]), &json!("acme")));
    let open = Home::new().run_embedded(&["whoami", "--json"]).done();
    assert_eq!((&open["has_key"], &open["holds_all_labels"]), (&json!(false), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_makes_keys_and_shows_them_to_servers() {
    let world = World::new();
    let server = world.serve();
    let made = world.run(&server, "acme", &["corpus", "create", "notes", "--json"]).done();
    assert_eq!(made["corpus"], "notes", "{made}");
    let refused =
        world.run(&server, "acme-reader", &["corpus", "delete", "notes", "--json"]).error();
    assert_eq!(refused["reason"], "SCOPE_MISSING", "{refused}");

    // A key that is added to the file works without a restart.
    let home = Home::new();
    let mut command = home.clew();
    command.args(["key", "new", "--tenant", "acme", "--scope", "read", "--holds", "hr", "--json"]);
    let printed = Ran::of(command).done();
    let file = world.path("keys.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, before + printed["stored"].as_str().unwrap()).unwrap();
    let credentials = Credentials {
        api_key: Some(printed["key"].as_str().unwrap().to_owned()),
        ..world.credentials("acme")
    };
    let client = Client::connect_as(&credentials, &server.endpoint, PATIENCE).await.unwrap();
    eventually("the new key opens", async || client.corpora().await.ok()).await;

    // Secrets are not printed.
    let mut command = world.home.serve_command();
    world.secure(&mut command);
    command.arg("--print-config").env("CLEW_CLUSTER__REDIS", "redis://:hush@localhost:1");
    let shown = Ran::of(command);
    assert!(shown.stdout.contains("keys_file") && !shown.stdout.contains("hush"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_who_used_up_his_quota_waits_and_others_do_not() {
    let quota = "[[tenant]]\nname = 'other'\nrequests_per_second = 0.2\nbytes_per_second = 2.0\nburst_secs = 50.0\n";
    let world = World::with(quota);
    let server = world.serve();
    let (acme, other) = (world.client(&server, "acme").await, world.client(&server, "other").await);
    let notes = create(&other, "notes").await;
    let long = document(
        "long",
        "A hundred bytes and more are brought by this text, which a bucket takes once. ".repeat(3),
    );
    let results = send(&other, &notes, vec![long, document("next", "No more.")]).await;
    assert!(results[0].is_ok(), "{results:?}");
    let refused = results[1].as_ref().unwrap_err();
    assert_eq!(refused.reason, "QUOTA_SPENT", "{refused:?}");
    let error = loop {
        if let Err(error) = other.corpora().await {
            break error;
        }
    };
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Exhausted, "QUOTA_SPENT"));
    assert!(error.retry_after().is_some());
    for _ in 0..50 {
        acme.corpora().await.unwrap();
    }
}

#[test]
fn nothing_listens_beyond_this_machine_in_plain_text_unless_told() {
    let home = Home::new();
    let Err(ended) = Server::try_start(home.serve_command_at("0.0.0.0:0")) else {
        panic!("it serves everybody")
    };
    assert!(ended.log.contains("auth.insecure"), "{}", ended.log);
    let mut command = home.serve_command_at("0.0.0.0:0");
    command.env("CLEW_AUTH__INSECURE", "true");
    Server::start(command);
    for (key, value) in [
        ("CLEW_AUTH__KEYS_FILE", "/nowhere/keys.toml"),
        ("CLEW_TLS__CERTIFICATE", "/nowhere/node.crt"),
    ] {
        let mut command = home.serve_command();
        command.env(key, value);
        let Err(ended) = Server::try_start(command) else { panic!("it serves without {key}") };
        assert!(ended.log.contains("keys_file") || ended.log.contains("tls."), "{}", ended.log);
    }
}

#[test]
fn keys_are_refused_where_whoever_comes_could_go_past_them() {
    let world = World::new();
    let keys_file = world.path("keys.toml");
    let refused = |settle: &dyn Fn(&mut Command), named: &[&str]| {
        let mut command = world.home.serve_command();
        command.env("CLEW_AUTH__KEYS_FILE", &keys_file);
        settle(&mut command);
        let Err(ended) = Server::try_start(command) else { panic!("it serves: {named:?}") };
        assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
        assert!(named.iter().all(|key| ended.log.contains(key)), "{}", ended.log);
    };
    let insecure = |command: &mut Command| {
        command.env("CLEW_AUTH__INSECURE", "true");
    };
    refused(&insecure, &["auth.insecure", "auth.keys_file", "tls.certificate"]);
    let in_a_cluster = |command: &mut Command| {
        // Refused before Redis is contacted.
        command.args(["--roles", "gateway"]).env("CLEW_CLUSTER__REDIS", "redis://127.0.0.1:1");
    };
    refused(&in_a_cluster, &["auth.keys_file", "tls.certificate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_trusts_only_whom_it_should() {
    let world = World::new();
    let server = world.serve();
    let stranger = clew_testkit::Authority::new("stranger").unwrap();
    stranger.write(&world.path("stranger.crt")).unwrap();
    let tls = ClientTls { ca: Some(world.path("stranger.crt")), identity: None };
    let credentials = Credentials { tls, ..world.credentials("acme") };
    let refused = Client::connect_as(&credentials, &server.endpoint, PATIENCE).await.unwrap_err();
    assert_eq!(refused.reason(), "TLS_REFUSED", "{}", refused.chain());
    // A key is not sent in plain text to an encrypted server either.
    let plain = server.endpoint.replace("https://", "http://");
    let client = Client::connect_as(&world.credentials("acme"), &plain, PATIENCE).await;
    assert!(match client {
        Ok(client) => client.corpora().await.is_err(),
        Err(_) => true,
    });
}
