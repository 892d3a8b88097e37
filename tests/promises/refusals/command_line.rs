//! Tests of commands that are refused: exit status, one JSON document, words for a person.

use serde_json::Value;

use super::{Holdings, assert_furnished, furnish};
use crate::harness::{Home, Ran, Server};

/// Furnished server that must hold the same at the end.
struct Furnished {
    home: Home,
    server: Server,
    before: Holdings,
}

impl Furnished {
    async fn new() -> Self {
        let home = Home::new();
        let server = home.serve();
        let client = server.client().await;
        furnish(&client).await;
        let before = Holdings::of(&client).await;
        Self { home, server, before }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.home.run_at(&self.server, &[arguments, &["--json"]].concat())
    }

    async fn assert_unchanged(&self) {
        let client = self.server.client().await;
        assert_eq!(Holdings::of(&client).await, self.before, "a refusal changed something");
        assert_furnished(&client).await;
    }
}

fn fields(error: &Value) -> Vec<&str> {
    let violations = error["violations"].as_array().map_or(&[][..], Vec::as_slice);
    violations.iter().filter_map(|violation| violation["field"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_command_names_the_reason_and_the_field() {
    let invalid = "INVALID_INPUT";
    let absent = "NOT_FOUND";
    let cases: &[(&[&str], &str, &[&str])] = &[
        (&["search", "--corpus", "nowhere", "cat"], absent, &[]),
        (&["ask", "--corpus", "nowhere", "who?"], absent, &[]),
        (&["forget", "--corpus", "nowhere", "--document", "kept-0"], absent, &[]),
        (&["status", "--corpus", "nowhere"], absent, &[]),
        (&["status", "--corpus", "notes", "--document", "absent"], absent, &[]),
        (&["corpus", "delete", "nowhere"], absent, &[]),
        (&["corpus", "create", "notes"], "CORPUS_EXISTS", &[]),
        (&["corpus", "create", "new", "--shards", "257"], invalid, &["corpus.shards"]),
        (
            &["corpus", "create", "new", "--max-tokens", "1000"],
            invalid,
            &["corpus.chunking.max_tokens"],
        ),
        (&["search", "--corpus", "notes", "cat", "-k", "0"], invalid, &["k"]),
        (&["search", "--corpus", "notes", "cat", "-k", "1000000"], invalid, &["k"]),
        (&["search", "--corpus", "notes", " "], invalid, &["query"]),
        (&["search", "--corpus", "notes", "", "-k", "0"], invalid, &["query", "k"]),
        (
            &[
                "search",
                "--corpus",
                "notes",
                "cat",
                "--from",
                "2024-02-01",
                "--until",
                "2024-01-01",
            ],
            invalid,
            &["filter.event_time"],
        ),
        (&["ask", "--corpus", "notes", "who?", "--strategy", "oracle"], invalid, &["strategy"]),
        (&["ask", "--corpus", "notes", "who?", "-k", "0"], invalid, &["k"]),
        (&["ask", "--corpus", "notes", "who?", "-k", "1000000"], invalid, &["k"]),
        (
            &["forget", "--corpus", "notes", "--document", "kept-0", "--document", "kept-0"],
            invalid,
            &["document_ids[1]"],
        ),
    ];
    let furnished = Furnished::new().await;
    for (arguments, reason, expected) in cases {
        let ran = furnished.run(arguments);
        let error = ran.error();
        assert_eq!(error["reason"], *reason, "{arguments:?}: {ran:?}");
        assert_eq!(fields(&error), *expected, "{arguments:?}: {ran:?}");
        for field in *expected {
            assert!(ran.stderr.contains(field), "`{field}` is told to programs only: {ran:?}");
        }
        assert!(ran.stderr.starts_with("error: "), "{arguments:?}: {ran:?}");
    }
    furnished.assert_unchanged().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_are_no_command_are_refused_with_the_usage() {
    let cases: &[&[&str]] = &[
        &["search", "--corpus", "Not A Name", "cat"],
        &["search", "--corpus", "notes", "cat", "-k", "many"],
        &["search", "--corpus", "notes", "cat", "--mode", "psychic"],
        &["search", "--corpus", "notes", "cat", "--from", "yesterday"],
        &["search", "--corpus", "notes", "cat", "--where", "colour"],
        &["forget", "--corpus", "notes"],
        &["forget", "--corpus", "notes", "--document", ""],
        &["corpus", "create", "../etc"],
        &["corpus", "create", "new", "--chunking", "tokens"],
        &["ingest", "--corpus", "notes"],
        &["remember", "everything"],
    ];
    let furnished = Furnished::new().await;
    for arguments in cases {
        let ran = furnished.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert!(ran.stderr.starts_with("error: "), "{arguments:?}: {ran:?}");
    }
    furnished.assert_unchanged().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_taken_in_are_set_aside_and_the_others_are_there() {
    let furnished = Furnished::new().await;
    let home = &furnished.home;
    home.write("bad/empty.txt", "");
    home.write("bad/blank.md", " \n\n ");
    home.write("bad/oversized.txt", "a tale of a river ".repeat((16 << 20) / 18 + 1));
    home.write("bad/broken.jsonl", "{\"id\": \"a\", \"text\": \n");
    home.write("bad/without-text.jsonl", "{\"id\": \"b\"}\n");
    home.write("bad/scan.pdf", b"%PDF-1.4 and nothing behind it".as_slice());
    let bad = home.path("bad");
    let bad = bad.to_str().unwrap();

    let ran = furnished.run(&["ingest", "--corpus", "notes", bad]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = ran.json();
    assert_eq!((&report["accepted"], &report["unchanged"]), (&0.into(), &0.into()), "{report}");
    let places: Vec<&str> = report["unreadable"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["place"].as_str().unwrap())
        .collect();
    for name in
        ["empty.txt", "blank.md", "oversized.txt", "broken.jsonl", "without-text.jsonl", "scan.pdf"]
    {
        assert!(places.iter().any(|place| place.contains(name)), "`{name}` is not in {places:?}");
    }
    furnished.assert_unchanged().await;

    // A readable file among them is ingested, but the exit status still reports the others.
    home.write("bad/good.txt", "The cat went to the river.");
    let ran = furnished.run(&["ingest", "--corpus", "notes", bad]);
    assert_eq!((ran.code, &ran.json()["accepted"]), (Some(1), &1.into()), "{ran:?}");
    let good = format!("{bad}/good.txt");
    let gone = furnished.run(&["forget", "--corpus", "notes", "--document", &good]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    furnished.assert_unchanged().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_comes_twice_in_a_file_is_refused_by_name() {
    let furnished = Furnished::new().await;
    let line = |text: &str| format!("{{\"id\": \"twice\", \"text\": \"{text}\"}}\n");
    let file = furnished.home.write("twice.jsonl", line("First.") + &line("Second."));
    let ran = furnished.run(&["ingest", "--corpus", "notes", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = ran.json();
    assert_eq!(report["accepted"], 1, "{report}");
    let refused = &report["refused"][0];
    assert_eq!(refused["document_id"], "twice");
    assert_eq!(refused["reason"], "INVALID_INPUT");
    assert_eq!(refused["fields"], serde_json::json!(["document.id"]));
    let gone = furnished.run(&["forget", "--corpus", "notes", "--document", "twice"]);
    assert_eq!(gone.done()["documents"][0]["text_bytes"], "First.".len());
    furnished.assert_unchanged().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_take_in_is_a_failure() {
    let furnished = Furnished::new().await;
    std::fs::create_dir(furnished.home.path("nothing")).unwrap();
    for path in ["nothing", "no-such-file.txt", "no-such-*.md"] {
        let ran = furnished.run(&["ingest", "--corpus", "notes", path]);
        assert_eq!(ran.code, Some(1), "{path}: {ran:?}");
        assert!(ran.stderr.contains("error: "), "{path}: {ran:?}");
        ran.json();
    }
    furnished.assert_unchanged().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_is_not_there_is_not_forgotten() {
    let furnished = Furnished::new().await;
    let ran = furnished.run(&["forget", "--corpus", "notes", "--document", "absent"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.json()["documents"][0]["found"], false);
    furnished.assert_unchanged().await;
}

#[test]
fn an_endpoint_where_no_one_answers_is_unavailable() {
    let home = Home::new();
    // A port that was free a moment ago and on which nobody listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = home.clew();
    command.args(["status", "--json", "--endpoint", &format!("http://{free}")]);
    assert_eq!(Ran::of(command).error()["reason"], "UNAVAILABLE");
    let mut command = home.clew();
    command.args(["status", "--json", "--endpoint", "not an address"]);
    let error = Ran::of(command).error();
    assert_eq!((fields(&error), &error["reason"]), (vec!["endpoint"], &"INVALID_INPUT".into()));
}
