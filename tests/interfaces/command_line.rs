//! Tests of the command line as scripts use it: JSON, exit statuses, with and without a server.

use std::collections::BTreeSet;
use std::process::Command;

use clew_core::SearchMode;
use serde_json::{Value, json};

use crate::client::{corpus, counts, id, states, text_of};
use crate::harness::{Home, Ran, Server, eventually, files_below};
use crate::words::{text_with, word};

/// Arguments that create a corpus with short chunks, as the tiny model needs them.
const CREATE: [&str; 5] = ["corpus", "create", "notes", "--max-tokens", "48"];

const RIVER: &str = "# The river\n\nThe old house stands by the river. A ferryman called Bohumil lives \
    in the old house.\n\n## Winter\n\nIn winter the river is frozen and the ferryman mends his boat.\n";
const TRAIN: &str = "The night train from the city was late. The tea on it was cold, and the cat of \
    the conductor slept in his hat. Café Müller sold him the hat — for two crowns.";

/// Writes a folder `docs` with four documents in three formats, and one file of unknown format.
fn write_documents(home: &Home) {
    home.write("docs/river.md", RIVER);
    home.write("docs/deep/train.txt", TRAIN);
    let lines = [
        json!({"id": "letter-1", "text": "A letter for the new friend was lost.", "year": "1923"}),
        json!({"id": "letter-2", "text": "The mother found the letter in the garden.", "year": "1924"}),
    ];
    home.write("docs/letters.jsonl", lines.map(|line| format!("{line}\n")).concat());
    home.write("docs/picture.xyz", [0_u8, 1, 2]);
}

const DOCUMENTS: [&str; 4] = ["docs/deep/train.txt", "docs/river.md", "letter-1", "letter-2"];

/// Way in which a command reaches the data.
#[derive(Clone, Copy)]
struct Way<'a> {
    home: &'a Home,
    server: Option<&'a Server>,
}

impl Way<'_> {
    fn run(&self, arguments: &[&str]) -> Ran {
        match self.server {
            Some(server) => self.home.run_at(server, arguments),
            None => self.home.run_embedded(arguments),
        }
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).done()
    }
}

fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}

/// Returns the value without fields that differ from run to run.
fn without_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            for timed in ["took_ms", "took_secs", "accepted_secs"] {
                fields.remove(timed);
            }
            fields.values_mut().for_each(|field| *field = without_times(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_times(item.take())),
        _ => {}
    }
    value
}

#[test]
fn a_folder_is_taken_in_once_and_found_with_and_without_a_server() {
    let home = Home::new();
    write_documents(&home);
    let embedded = Way { home: &home, server: None };
    let made = embedded.json(&CREATE);
    assert_eq!((&made["corpus"], &made["documents"]), (&json!("notes"), &json!(0)));
    assert!(made["encoder"]["dimension"].as_u64().unwrap() > 0, "{made}");

    let ingest = ["ingest", "--corpus", "notes", "docs"];
    let first = embedded.json(&ingest);
    assert_eq!((&first["accepted"], &first["unchanged"]), (&json!(4), &json!(0)), "{first}");
    assert_eq!((&first["documents"], &first["pending_documents"]), (&json!(4), &json!(0)));
    assert_eq!((&first["unknown_files"], &first["failed_documents"]), (&json!(1), &json!(0)));
    assert!(first["new_tokens"].as_u64().unwrap() > 0, "{first}");
    let state = embedded.json(&["status", "--corpus", "notes", "--document", "docs/river.md"]);
    assert_eq!((&state["stage"], &state["text_bytes"]), (&json!("indexed"), &json!(RIVER.len())));

    let server = home.serve();
    let served = Way { home: &home, server: Some(&server) };
    let second = served.json(&ingest);
    assert_eq!((&second["accepted"], &second["unchanged"]), (&json!(0), &json!(4)), "{second}");
    assert_eq!((&second["new_tokens"], &second["chunks"]), (&json!(0), &first["chunks"]));
    let again = served.json(&["status", "--corpus", "notes", "--document", "docs/river.md"]);
    assert_eq!(again, state, "it was taken in or embedded again");

    let questions: &[&[&str]] = &[
        &["status", "--corpus", "notes"],
        &["status"],
        &["corpus", "list"],
        &["whoami"],
        &["strategies", "--corpus", "notes"],
        &["document", "chunks", "--corpus", "notes", "docs/river.md", "--texts"],
        &["search", "--corpus", "notes", "who lives in the old house?"],
        &["search", "--corpus", "notes", "cat", "--mode", "sparse", "-k", "2"],
        &["search", "--corpus", "notes", "cat", "--mode", "dense", "--exact"],
        &["search", "--corpus", "notes", "letter", "--where", "year=1924"],
        &["search", "--corpus", "notes", "letter", "--by-document", "--document", "letter-1"],
        &["ask", "--corpus", "notes", "Who lives in the old house by the river?"],
    ];
    let from_server: Vec<Value> =
        questions.iter().map(|question| without_times(served.json(question))).collect();
    assert!(server.terminate().success());
    for (question, expected) in questions.iter().zip(from_server) {
        assert_eq!(without_times(embedded.json(question)), expected, "{question:?}");
    }
}

#[test]
fn an_outline_is_the_same_with_a_server_and_without() {
    let home = Home::new();
    write_documents(&home);
    let asked = ["outline", "docs", "--question", "Who has the boat?", "--summary-bytes", "80"];
    let embedded = Way { home: &home, server: None }.json(&asked);
    let mut ids = texts(&embedded["documents"], "document_id");
    ids.sort_unstable();
    assert_eq!(ids, DOCUMENTS);
    let outlines = embedded["documents"].as_array().unwrap();
    for outline in outlines {
        let summary = outline["summary"].as_str().unwrap();
        assert!((1..=80).contains(&summary.len()), "{outline}");
    }
    let river = outlines.iter().find(|outline| outline["document_id"] == "docs/river.md").unwrap();
    assert_eq!(texts(&river["entities"], "name"), ["Bohumil", "boat"], "{river}");
    let place = &river["entities"][1]["mentions"][0];
    let end = |end: &str| place[end].as_u64().unwrap() as usize;
    assert_eq!(&RIVER[end("start")..end("end")], "boat");

    let server = home.serve();
    let served = Way { home: &home, server: Some(&server) };
    assert_eq!(served.json(&asked), embedded);
    let missing = served.run(&["outline", "docs/river.md", "nowhere.txt", "--json"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert_eq!(missing.json()["documents"].as_array().unwrap().len(), 1);
    let refused = served.run(&["outline", "docs", "--summary-bytes", "0", "--json"]).error();
    assert_eq!(refused["violations"][0]["field"], "tasks[0].max_bytes", "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_the_promised_shapes_and_spans_are_those_of_the_stored_bytes() {
    let home = Home::new();
    write_documents(&home);
    let server = home.serve();
    let client = server.client().await;
    let way = Way { home: &home, server: Some(&server) };
    way.json(&CREATE);
    way.json(&["ingest", "--corpus", "notes", "docs"]);
    let slice = async |item: &Value| {
        let text =
            text_of(&client, &corpus("notes"), &id(item["document_id"].as_str().unwrap())).await;
        let place = |end: &str| item["span"][end].as_u64().unwrap() as usize;
        text[place("start")..place("end")].to_owned()
    };

    let status = way.json(&["status", "--corpus", "notes"]);
    assert_eq!(status["documents"].as_u64(), Some(4));
    assert_eq!(status["failed"], json!([]));
    assert!(states(&client, &corpus("notes")).await.keys().eq(DOCUMENTS));
    let listed = way.json(&["corpus", "list"]);
    assert_eq!(texts(&listed["corpora"], "corpus"), ["notes"]);

    for mode in SearchMode::ALL.map(SearchMode::as_str) {
        let found =
            way.json(&["search", "--corpus", "notes", "cat letter", "--mode", mode, "-k", "3"]);
        let evidence = found["evidence"].as_array().unwrap();
        assert!((1..=3).contains(&evidence.len()), "{mode}: {found}");
        for item in evidence {
            assert_eq!(item["text"], slice(item).await);
            assert!(item["chunk_id"].is_string() && item["version"].is_u64(), "{item}");
        }
        let scores: Vec<f64> =
            evidence.iter().map(|item| item["score"].as_f64().unwrap()).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "{mode}: {scores:?}");
    }
    let filtered = way.json(&["search", "--corpus", "notes", "letter", "--where", "year=1924"]);
    assert_eq!(texts(&filtered["evidence"], "document_id"), ["letter-2"]);

    let question = "Who lives in the old house by the river?";
    let answer = way.json(&["ask", "--corpus", "notes", "--strategy", "direct", question]);
    assert_eq!(answer["outcome"], "answered", "{answer}");
    assert!(answer["answer"].as_str().unwrap().contains("Bohumil"), "{answer}");
    let citations = answer["citations"].as_array().unwrap();
    assert!(!citations.is_empty(), "{answer}");
    for citation in citations {
        assert_eq!(citation["quote"], slice(citation).await);
    }
    let steps = texts(&answer["trace"], "step");
    assert!(steps.contains(&"searched") && steps.contains(&"judged"), "{answer}");
    assert!(answer["cost"]["embedded_tokens"].as_u64().unwrap() > 0, "{answer}");
    assert_eq!(answer["cost"]["model_calls"], 0);

    // To a model of random numbers all texts are similar, so the question gets no passages at all.
    let nowhere = ["--document", "absent"];
    let unknown = way.json(&[&["ask", "--corpus", "notes", question], &nowhere[..]].concat());
    assert_eq!((&unknown["outcome"], &unknown["answer"]), (&json!("not_in_memory"), &json!("")));
    assert_eq!(unknown["citations"], json!([]));
}

#[test]
fn without_json_people_are_told_the_same() {
    let home = Home::new();
    write_documents(&home);
    let way = Way { home: &home, server: None };
    let says = |arguments: &[&str], words: &[&str]| {
        let ran = way.run(arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        for word in words {
            assert!(ran.stdout.contains(word), "{arguments:?}: `{word}` is not in {}", ran.stdout);
        }
    };
    says(&CREATE, &["notes"]);
    says(&["ingest", "--corpus", "notes", "docs"], &["4 documents accepted", "0 unchanged"]);
    says(&["search", "--corpus", "notes", "ferryman"], &["docs/river.md"]);
    says(&["status", "--corpus", "notes"], &["4 documents"]);
    says(&["forget", "--corpus", "notes", "--document", "letter-1"], &["forgot `letter-1`"]);
    says(&["corpus", "delete", "notes"], &["3 documents"]);
    says(&["corpus", "list"], &[]);
}

#[test]
fn standard_input_globs_and_changed_files_are_taken_in() {
    let home = Home::new();
    write_documents(&home);
    let way = Way { home: &home, server: None };
    // A corpus that does not exist is created with settings that suit the model.
    let globbed = way.json(&["ingest", "--corpus", "notes", "docs/*.md"]);
    assert_eq!((&globbed["accepted"], &globbed["documents"]), (&json!(1), &json!(1)), "{globbed}");

    home.write("docs/river.md", RIVER.replace("Bohumil", "Quirin"));
    let changed = way.json(&["ingest", "--corpus", "notes", "docs"]);
    assert_eq!((&changed["accepted"], &changed["unchanged"]), (&json!(4), &json!(0)), "{changed}");
    let found = |name| way.json(&["search", "--corpus", "notes", name, "--mode", "sparse"]);
    assert_eq!(texts(&found("Quirin")["evidence"], "document_id"), ["docs/river.md"]);
    assert_eq!(found("Bohumil")["evidence"], json!([]));

    home.write("lines", "{\"id\": \"piped\", \"text\": \"Through a pipe came the hat.\"}\n");
    let mut piped = Command::new("sh");
    piped.args(["-c", "exec \"$@\" < lines", "sh"]).arg(env!("CARGO_BIN_EXE_clew"));
    piped.args(["ingest", "--corpus", "notes", "-", "--json", "--data-dir"]).arg(home.data_dir());
    piped.arg("--model").arg(home.model());
    home.settle(&mut piped);
    assert_eq!(Ran::of(piped).done()["accepted"], 1);
    assert_eq!(way.json(&["status", "--corpus", "notes"])["documents"].as_u64(), Some(5));
}

#[test]
fn a_corpus_that_is_deleted_leaves_nothing_and_its_name_is_free() {
    let home = Home::new();
    write_documents(&home);
    let server = home.serve();
    let way = Way { home: &home, server: Some(&server) };
    way.json(&CREATE);
    way.json(&["ingest", "--corpus", "notes", "docs"]);
    let deleted = way.json(&["corpus", "delete", "notes"]);
    assert_eq!(deleted, json!({ "deleted": "notes", "documents": 4, "snapshots": 0 }));
    assert_eq!(way.json(&["corpus", "list"])["corpora"], json!([]));
    let left = files_below(&home.data_dir());
    let names: Vec<_> = left.iter().map(|(path, _)| path.file_name().unwrap()).collect();
    assert_eq!(names, ["LOCK", "corpora.lock"], "files of the corpus are left");
    assert_eq!(way.json(&CREATE)["documents"].as_u64(), Some(0));
    assert_eq!(way.json(&["ingest", "--corpus", "notes", "docs"])["accepted"].as_u64(), Some(4));
}

#[test]
fn asked_to_end_a_server_ends_gracefully_and_keeps_what_it_accepted() {
    let home = Home::new();
    let lines: String = (0..300)
        .map(|i| json!({"id": format!("line-{i}"), "text": text_with(&[&word('l', i)])}))
        .map(|line| format!("{line}\n"))
        .collect();
    home.write("lines.jsonl", lines);
    let server = home.serve();
    let way = Way { home: &home, server: Some(&server) };
    way.json(&CREATE);
    // Accepted, and mostly not indexed yet when the server is told to end.
    let accepted = way.json(&["ingest", "--corpus", "notes", "lines.jsonl", "--no-wait"]);
    assert_eq!(accepted["accepted"].as_u64(), Some(300));
    assert!(server.terminate().success());

    let server = home.serve();
    let way = Way { home: &home, server: Some(&server) };
    let second = way.json(&["ingest", "--corpus", "notes", "lines.jsonl"]);
    assert_eq!((&second["unchanged"], &second["pending_documents"]), (&json!(300), &json!(0)));
    for i in [0, 150, 299] {
        let found = way.json(&["search", "--corpus", "notes", &word('l', i), "--by-document"]);
        assert_eq!(found["evidence"][0]["document_id"], format!("line-{i}"));
    }
    let log = server.log();
    assert!(server.terminate().success());
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn checking_tells_what_is_not_as_promised() {
    let home = Home::new();
    write_documents(&home);
    let way = Way { home: &home, server: None };
    way.json(&CREATE);
    way.json(&["ingest", "--corpus", "notes", "docs"]);
    let sound = way.json(&["check"]);
    let corpus = &sound["corpora"][0];
    assert_eq!((&corpus["corpus"], &corpus["documents"]), (&json!("notes"), &json!(4)));
    assert_eq!((&corpus["breaches"], &corpus["told"]), (&json!(0), &json!([])));
    assert!(corpus["chunks"].as_u64().unwrap() >= 4, "{sound}");

    // Simulates a disk that returns other bytes than were written.
    let (was, is) = ("Bohumil lives", "Bohumil lived");
    let data = |path: &std::path::Path| path.to_string_lossy().contains("sources.lance/data");
    for (path, mut content) in files_below(&home.data_dir()) {
        let found = content.windows(was.len()).position(|window| window == was.as_bytes());
        if let (true, Some(at)) = (data(&path), found) {
            content[at..at + was.len()].copy_from_slice(is.as_bytes());
            std::fs::write(path, content).unwrap();
        }
    }
    let broken = way.run(&["check", "--corpus", "notes", "--json"]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    let corpus = &broken.json()["corpora"][0];
    let told = corpus["told"].as_array().unwrap();
    let invariants: Vec<_> = told.iter().map(|breach| &breach["invariant"]).collect();
    assert_eq!(invariants, ["text_whole", "chunk_true"], "{corpus}");
    assert!(told.iter().all(|breach| breach["document_id"] == "docs/river.md"), "{corpus}");
    let shown = way.run(&["check"]);
    assert_eq!(shown.code, Some(1));
    assert!(shown.stdout.contains("text_whole docs/river.md: v"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingestion_goes_on_when_the_server_comes_back() {
    const DOCUMENTS: usize = 600;
    let home = Home::new();
    let mut server = home.serve();
    let line = |number: usize| {
        let text = text_with(&[&word('n', number)]);
        format!("{}\n", json!({ "id": format!("doc-{number}"), "text": text }))
    };
    home.write("all.jsonl", (0..DOCUMENTS).map(line).collect::<String>());
    let address = server.endpoint.strip_prefix("http://").unwrap().to_owned();
    home.run_at(&server, &CREATE);
    let mut command = home.clew();
    command.args([
        "ingest",
        "--corpus",
        "notes",
        "all.jsonl",
        "--report",
        "report.jsonl",
        "--json",
    ]);
    command.args(["--endpoint", &server.endpoint]);
    let ingesting = std::thread::spawn(move || Ran::of(command));

    for accepted in [50, 300] {
        let client = server.client().await;
        eventually("some documents are accepted", async || {
            (counts(&client, &corpus("notes")).await.documents >= accepted).then_some(())
        })
        .await;
        server.kill();
        server = Server::start(home.serve_command_at(&address));
    }
    let report = ingesting.join().unwrap().done();
    assert_eq!(report["documents"], DOCUMENTS, "{report}");
    let total = report["accepted"].as_u64().unwrap() + report["unchanged"].as_u64().unwrap();
    assert_eq!(total, DOCUMENTS as u64, "{report}");
    assert!(report["estimate"]["tokens"].as_u64().unwrap() > 0, "{report}");

    let lines = std::fs::read_to_string(home.path("report.jsonl")).unwrap();
    let fates: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: BTreeSet<&str> =
        fates.iter().map(|fate| fate["document_id"].as_str().unwrap()).collect();
    assert_eq!((fates.len(), ids.len()), (DOCUMENTS, DOCUMENTS), "each document has one line");
    let told =
        |fate: &Value| ["accepted", "unchanged"].contains(&fate["outcome"].as_str().unwrap());
    assert!(fates.iter().all(|fate| told(fate) && fate["version"].is_u64()));
}

#[test]
fn an_estimate_takes_nothing_in() {
    let home = Home::new();
    write_documents(&home);
    let way = Way { home: &home, server: None };
    way.json(&CREATE);
    let expected = way.json(&["ingest", "--corpus", "notes", "docs", "--estimate"]);
    assert_eq!(expected["files"], 3, "{expected}");
    let tokens = expected["tokens"].as_u64().unwrap();
    let status = way.json(&["status", "--corpus", "notes"]);
    assert_eq!(status["documents"], 0, "{status}");
    let done = way.json(&["ingest", "--corpus", "notes", "docs"]);
    let took = done["new_tokens"].as_u64().unwrap();
    assert!((took / 2..=took * 2).contains(&tokens), "estimated {tokens}, took {took}");
}

#[test]
fn an_estimate_for_a_corpus_that_does_not_exist_creates_nothing() {
    let home = Home::new();
    write_documents(&home);
    home.write("report.jsonl", "an earlier report");
    let server = home.serve();
    let way = Way { home: &home, server: Some(&server) };
    let asked = ["ingest", "--corpus", "notes", "docs", "--report", "report.jsonl"];
    let expected = way.json(&[&asked[..], &["--estimate"]].concat());
    assert_eq!((&expected["files"], &expected["basis"]), (&json!(3), &json!("of these files")));
    assert_eq!(way.json(&["corpus", "list"])["corpora"], json!([]));
    let report = std::fs::read_to_string(home.path("report.jsonl")).unwrap();
    assert_eq!(report, "an earlier report");
    // The ingestion creates the corpus with the settings that the estimate took.
    let done = way.json(&asked);
    let estimated = |of: &Value, what: &str| of[what].as_u64().unwrap();
    assert!(estimated(&expected, "tokens") > 0 && estimated(&expected, "nodes") > 0, "{expected}");
    for what in ["tokens", "chunks", "nodes", "model_calls"] {
        assert_eq!(
            estimated(&done["estimate"], what),
            estimated(&expected, what),
            "{what}: {done}"
        );
    }
}

#[test]
fn an_error_is_told_once_and_without_the_transport() {
    let home = Home::new();
    let server = home.serve();
    let absent = home.run_at(&server, &["search", "--corpus", "nowhere", "cat"]);
    assert_eq!(absent.code, Some(1), "{absent:?}");
    assert_eq!(
        absent.stderr,
        "error: corpus `nowhere` does not exist; `clew corpus list` shows those that exist\n"
    );
    let told = home.run_at(&server, &["search", "--corpus", "nowhere", "cat", "--json"]).error();
    assert_eq!(told["message"], "corpus `nowhere` does not exist", "{told}");

    let address = server.endpoint.strip_prefix("http://").unwrap().to_owned();
    let away = {
        let mut command = home.clew();
        command.args(["search", "--corpus", "nowhere", "cat", "--endpoint", &server.endpoint]);
        assert!(server.terminate().success());
        Ran::of(command)
    };
    assert_eq!(away.code, Some(1), "{away:?}");
    let expected = format!("error: no server answers at `{address}`; see that it runs there");
    assert!(away.stderr.starts_with(&expected), "{away:?}");
    assert_eq!(away.stderr.lines().count(), 1, "{away:?}");
}

#[test]
fn bash_accepts_the_script_that_completes_words_and_pages_are_written() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let mut command = home.clew();
        command.args(arguments);
        let ran = Ran::of(command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let script = home.write("clew.bash", run(&["completions", "bash"]));
    let checked = Command::new("bash").arg("-n").arg(script).output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");

    assert!(run(&["man"]).contains(".TH clew 1"));
    assert_eq!(run(&["man", "--out", "pages/man1"]), "");
    for page in ["clew.1", "clew-ingest.1", "clew-corpus-create.1"] {
        assert!(home.path("pages/man1").join(page).is_file(), "{page}");
    }
}
