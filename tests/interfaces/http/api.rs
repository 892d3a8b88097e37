//! Tests of the calls below `/api` as users make them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clew_client::Credentials;
use clew_core::Query;
use futures::StreamExt;
use serde_json::{Value, json};

use super::curl::{curl, post, post_with};
use crate::client::{corpus, create, document, idle, remember};
use crate::harness::{Home, PATIENCE, Server};
use crate::twin::Way;

const SEARCH: &str = "clew.query.v1.QueryService/Search";
const ANSWER: &str = "clew.query.v1.QueryService/Answer";
const CREATE: &str = "clew.corpus.v1.CorpusService/CreateCorpus";
const WATCH: &str = "clew.ingest.v1.IngestService/WatchIngestion";
const INGEST: &str = "clew.ingest.v1.IngestService/IngestDocuments";
const GET: &str = "clew.ingest.v1.IngestService/GetDocument";
const LIST: &str = "clew.ingest.v1.IngestService/ListDocuments";

#[tokio::test(flavor = "multi_thread")]
async fn a_corpus_is_made_and_asked_by_curl() {
    let home = Home::new();
    let server = home.serve();
    let api = server.http() + "/api";
    let made = post(&home, &api, CREATE, &json!({ "name": "notes", "shards": 1 })).done().json();
    assert_eq!(made["corpus"]["name"], "notes", "{made}");
    let client = server.client().await;
    let notes = corpus("notes");
    let texts = ["The plan is to keep bees.", "Honey is sold in spring."];
    let documents = texts.iter().enumerate().map(|(n, text)| document(&format!("d{n}"), *text));
    remember(&client, &notes, documents.collect()).await;

    let asked = json!({ "corpus": "notes", "query": "bees", "k": 5 });
    let found = post(&home, &api, SEARCH, &asked).done().json();
    let by_grpc = client.search(&notes, Query::new("bees", 5)).await.unwrap();
    let ids = found["evidence"].as_array().unwrap().iter().map(|item| item["documentId"].as_str());
    let ids: Vec<_> = ids.map(Option::unwrap).collect();
    let expected: Vec<_> = by_grpc.evidence.iter().map(|item| item.document_id.as_str()).collect();
    assert_eq!(ids, expected, "{found}");
    assert_eq!(found["evidence"][0]["text"], texts[0], "{found}");

    let asked = json!({ "corpus": "notes", "question": "What is sold in spring?" });
    let lines = post(&home, &api, ANSWER, &asked).done();
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let messages: Vec<Value> =
        lines.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = &messages.last().unwrap()["answer"];
    assert!(!answer["text"].as_str().unwrap().is_empty(), "{lines:?}");

    let accept = ["--header", "Accept: text/event-stream"];
    let events = post_with(&home, &api, ANSWER, &asked, &accept).done();
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert_eq!(events.header("x-accel-buffering"), Some("no"));
    let told: Vec<Value> = events
        .body
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect();
    assert_eq!(told.len(), messages.len() + 1, "{events:?}");
    assert_eq!(told[messages.len() - 1]["answer"]["text"], answer["text"]);
    assert!(events.body.ends_with("event: end\ndata: {}\n\n"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_a_source_is_read_as_number_or_text_and_told_as_text() {
    let home = Home::new();
    let server = home.serve();
    let api = server.http() + "/api";
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let send = |number: Value, text: &str| {
        let document = json!({ "id": "a", "text": STANDARD.encode(text), "sourceVersion": number });
        let sent = json!({ "corpus": "notes", "documents": [document] });
        post(&home, &api, INGEST, &sent).done().json()["results"][0]["accepted"]["novelty"].clone()
    };
    assert_eq!(send(json!(7), "The seventh."), "NOVELTY_NEW");
    assert_eq!(send(json!("18446744073709551615"), "The last."), "NOVELTY_REPLACED");
    assert_eq!(send(json!(8), "The eighth."), "NOVELTY_UNCHANGED");
    idle(&client, &notes).await;
    let asked = json!({ "corpus": "notes", "documentId": "a" });
    let read = post(&home, &api, GET, &asked).done().json();
    assert_eq!(read["document"]["text"], STANDARD.encode("The last."), "{read}");
    let listed = post(&home, &api, LIST, &json!({ "corpus": "notes" })).done().json();
    for told in [&read["document"], &read["state"], &listed["documents"][0]] {
        assert_eq!(told["sourceVersion"], u64::MAX.to_string(), "{told}");
    }
    let wrong = json!({ "corpus": "notes", "documents": [{ "id": "a", "sourceVersion": -1 }] });
    let refused = post(&home, &api, INGEST, &wrong);
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_in_every_way_are_the_same() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, vec![document("bees", "The plan is to keep bees.")]).await;
    let mut found = Vec::new();
    for way in Way::ALL {
        let services = way.to(&server, &Credentials::default()).await;
        let client = clew_client::Client::over(services, PATIENCE);
        let answered = client.search(&notes, Query::new("bees", 5)).await.unwrap();
        let reports: Vec<_> = client.watch_until_idle(&notes).await.unwrap().collect().await;
        assert!(reports.last().unwrap().is_ok(), "{way:?}: {reports:?}");
        found.push((way, answered.evidence));
    }
    assert!(!found[0].1.is_empty());
    for (way, evidence) in &found {
        assert_eq!(evidence, &found[0].1, "{way:?}");
    }
}

#[test]
fn http_is_spoken_in_both_versions_with_and_without_certificates() {
    let world = crate::security::World::new();
    let key = format!("Authorization: Bearer {}", world.keys["acme"].reveal());
    let (plain, encrypted) = (world.home.serve_at("plain"), world.serve());
    let ca = world.path("ca.crt");
    let ca = ca.to_str().unwrap();
    for (server, version, arguments) in [
        (&plain, "HTTP/1.1", vec!["--http1.1"]),
        (&plain, "HTTP/2", vec!["--http2-prior-knowledge"]),
        (&encrypted, "HTTP/1.1", vec!["--http1.1", "--cacert", ca]),
        (&encrypted, "HTTP/2", vec!["--http2", "--cacert", ca]),
    ] {
        let shown = ["--write-out", "\n%{http_version}", "--header", key.as_str()];
        let more = [&shown[..], &arguments[..]].concat();
        let list = "clew.corpus.v1.CorpusService/ListCorpora";
        let api = server.http() + "/api";
        let answered = post_with(&world.home, &api, list, &json!({}), &more).done();
        let (_, spoken) = answered.body.rsplit_once('\n').unwrap();
        assert!(version.ends_with(spoken), "{version}: {answered:?}");
    }
}

#[test]
fn what_is_no_call_is_refused_with_what_to_do() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_HTTP__BODY_BYTES", "65536");
    let server = Server::start(command);
    let (base, api) = (server.http(), server.http() + "/api");
    let search = format!("{api}/{SEARCH}");
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let deep_fields = r#"{"a":"#.repeat(10_000) + "1" + &"}".repeat(10_000);
    let long = json!({ "corpus": "x".repeat(70_000) }).to_string();
    let (nowhere, search) = (base + "/nothing", search.as_str());
    let (deep, deep_fields, long) = (deep.as_str(), deep_fields.as_str(), long.as_str());
    let (json, body) = ("Content-Type: application/json", r#"{"corpus":"c","query":"q"}"#);
    let cases: Vec<(&str, Vec<&str>, u16, &str, &str)> = vec![
        ("no such path", vec![nowhere.as_str()], 404, "UNKNOWN_PATH", "/api"),
        ("no such method", vec!["/x.Y/Z", "--json", "{}"], 404, "UNKNOWN_METHOD", "openapi"),
        ("read", vec![search], 405, "OTHER_METHOD", "POST"),
        ("a form", vec![search, "--data", body], 415, "OTHER_MEDIA_TYPE", "application/json"),
        ("no JSON", vec![search, "--json", "bees"], 400, "INVALID_INPUT", "SearchRequest"),
        ("nothing", vec![search, "--json", ""], 400, "INVALID_INPUT", "SearchRequest"),
        (
            "unknown field",
            vec![search, "--json", r#"{"quary":"q"}"#],
            400,
            "INVALID_INPUT",
            "quary",
        ),
        ("nested too deeply", vec![search, "--json", deep], 400, "INVALID_INPUT", "SearchRequest"),
        ("fields too deep", vec![search, "--json", deep_fields], 400, "INVALID_INPUT", ""),
        ("too long", vec![search, "--json", long], 413, "BODY_TOO_LONG", "65536"),
        (
            "compressed",
            vec![search, "--json", body, "--header", "Content-Encoding: gzip"],
            415,
            "COMPRESSED",
            "not compressed",
        ),
        (
            "of another version",
            vec![search, "--json", body, "--header", "Connect-Protocol-Version: 2"],
            400,
            "INVALID_INPUT",
            "Connect-Protocol-Version",
        ),
        (
            "no time",
            vec![search, "--json", body, "--header", "Connect-Timeout-Ms: soon"],
            400,
            "INVALID_INPUT",
            "Connect-Timeout-Ms",
        ),
        (
            "a stream of requests",
            vec!["/clew.ingest.v1.IngestService/Ingest", "--json", "{}"],
            501,
            "NEEDS_A_STREAM",
            "IngestDocuments",
        ),
        (
            "a stream in one message",
            vec![
                "/clew.query.v1.QueryService/Answer",
                "--data-binary",
                "",
                "--header",
                "Content-Type: application/proto",
            ],
            400,
            "INVALID_INPUT",
            "stream",
        ),
        (
            "one message in a stream",
            vec![search, "--data-binary", "", "--header", "Content-Type: application/connect+json"],
            400,
            "INVALID_INPUT",
            "one message",
        ),
        (
            "of no corpus",
            vec![search, "--data", body, "--header", json],
            404,
            "NOT_FOUND",
            "corpus",
        ),
    ];
    for (case, mut arguments, status, reason, named) in cases {
        let url = if arguments[0].starts_with('/') {
            api.clone() + arguments[0]
        } else {
            arguments[0].to_owned()
        };
        arguments[0] = &url;
        let refused = curl(&home, &arguments);
        let failure = refused.json();
        assert_eq!((refused.status, &failure["reason"]), (status, &json!(reason)), "{case}");
        assert!(refused.body.contains(named), "{case}: {refused:?}");
        assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_when_its_client_has_waited_enough() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    create(&client, "notes").await;
    let api = server.http() + "/api";
    let hurried = ["--header", "Connect-Timeout-Ms: 300"];
    let watch = json!({ "corpus": "notes" });
    let cut = post_with(&home, &api, WATCH, &watch, &hurried).done();
    let last: Value = serde_json::from_str(cut.body.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "deadline_exceeded", "{cut:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_left_midway_holds_up_nothing() {
    let home = Home::new();
    let mut server = home.serve();
    let client = server.client().await;
    create(&client, "notes").await;
    let http = crate::twin::client(None);
    let url = format!("{}/api/{WATCH}", server.http());
    let watch = || http.post(&url).header("content-type", "application/json");
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut answered = watch().body(r#"{"corpus":"notes"}"#).send().await.unwrap();
        assert!(answered.chunk().await.unwrap().is_some());
        streams.push(answered);
    }
    drop(streams);
    drop(http);
    assert!(server.end().success());
    assert!(server.log().contains("ended gracefully"), "{}", server.log());
}

#[test]
fn the_description_of_the_calls_and_the_health_are_served() {
    let home = Home::new();
    let server = home.serve();
    let described = curl(&home, &[&(server.http() + "/api/openapi.json")]).done();
    let committed = include_str!("../../../docs/openapi.json");
    assert_eq!(described.body, committed);
    assert_eq!(described.header("content-type"), Some("application/json"));
    let health = curl(&home, &[&(server.http() + "/healthz")]).done();
    assert_eq!(health.body, "ok\n");
}

#[test]
fn http_is_off_where_it_is_not_wanted() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_HTTP__LISTEN", "");
    let server = Server::start(command);
    assert!(!server.log().contains("HTTP"), "{}", server.log());
    drop(server);
    for (key, value, named) in [
        ("CLEW_HTTP__LISTEN", "0.0.0.0:0", "auth.insecure"),
        ("CLEW_HTTP__LISTEN", "nowhere", "http.listen"),
        ("CLEW_HTTP__CONNECTIONS", "1", "http.connections"),
        ("CLEW_HTTP__ALLOWED_ORIGINS", "[\"*\"]", "http.allowed_origins"),
    ] {
        let mut command = home.serve_command();
        command.env(key, value);
        let Err(ended) = Server::try_start(command) else { panic!("it serves with {key}={value}") };
        assert!(ended.log.contains(named), "{key}={value}: {}", ended.log);
    }
}
