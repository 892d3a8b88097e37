//! Tests that files keep their names as ids, and that replaced documents are reported.

use clew_client::Client;
use clew_core::{CorpusName, Document, IfThere};
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use clew_proto::ingest::v1::{Accepted, Novelty, Refused};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::client::{create, document, id, states, text_of};
use crate::harness::{Home, PATIENCE};
use crate::processes::Cluster;

const NOTES: [&str; 2] = ["A ferryman called Bohumil.", "A conductor called Quirin."];

/// Writes two notes with the same file name in different folders. Returns their absolute paths.
fn write_notes(home: &Home) -> [String; 2] {
    let write = |(folder, text)| home.write(&format!("{folder}/note.md"), text);
    let paths = [("a", NOTES[0]), ("b", NOTES[1])].map(write);
    paths.map(|path| path.into_os_string().into_string().unwrap())
}

fn ingest(home: &Home, corpus: &str, arguments: &[&str]) -> Value {
    let begin = ["ingest", "--corpus", corpus, "--json"];
    home.run_embedded(&[&begin[..], arguments].concat()).done()
}

/// Returns the numbers of documents that a run reports as new, replaced and unchanged.
fn taken(report: &Value) -> [u64; 3] {
    ["new", "replaced", "unchanged"]
        .map(|of| report[of].as_u64().unwrap_or_else(|| panic!("{report}")))
}

fn assert_there(home: &Home, corpus: &str, id: &str, text: &str) {
    let status = home.run_embedded(&["status", "--corpus", corpus, "--document", id, "--json"]);
    assert_eq!(status.done()["text_bytes"], text.len(), "{id}: {status:?}");
}

#[test]
fn two_files_of_the_same_last_name_are_two_documents_in_one_run_and_in_two() {
    let home = Home::new();
    let [a, b] = write_notes(&home);
    for path in [&a, &b] {
        assert_eq!(taken(&ingest(&home, "apart", &[path])), [1, 0, 0]);
    }
    let together = ingest(&home, "together", &[&a, &b]);
    assert_eq!((taken(&together), &together["unreadable"]), ([2, 0, 0], &json!([])));
    for corpus in ["apart", "together"] {
        assert_there(&home, corpus, &a, NOTES[0]);
        assert_there(&home, corpus, &b, NOTES[1]);
        let status = home.run_embedded(&["status", "--corpus", corpus, "--json"]).done();
        assert_eq!(status["documents"], 2, "{corpus}: {status}");
    }
    // The same file is the same document, by whatever path it is given.
    let ways = ["./a/note.md", "a//note.md", "b/../a/./note.md", "a/note.md"];
    assert_eq!(taken(&ingest(&home, "together", &ways)), [1, 0, 0]);
    assert_there(&home, "together", "a/note.md", NOTES[0]);
}

#[test]
fn below_a_root_files_are_named_from_there_and_others_are_refused_with_both_names() {
    let home = Home::new();
    let [a, b] = write_notes(&home);
    let (whole, root) = (home.path("."), home.path("a"));
    let (whole, root) = (whole.to_str().unwrap(), root.to_str().unwrap());
    let given = ingest(&home, "notes", &["--root", whole, &a, "a/../b/note.md"]);
    assert_eq!(taken(&given), [2, 0, 0], "{given}");
    assert_there(&home, "notes", "a/note.md", NOTES[0]);
    assert_there(&home, "notes", "b/note.md", NOTES[1]);

    let outside = ["ingest", "--corpus", "inner", "--json", "--root", root, "a", &b];
    let outside = home.run_embedded(&outside);
    assert_eq!(outside.code, Some(1), "{outside:?}");
    let report = outside.json();
    assert_eq!((taken(&report), &report["unreadable_total"]), ([1, 0, 0], &json!(1)), "{report}");
    let problem = report["unreadable"][0]["problem"].as_str().unwrap();
    assert!(problem.contains(root) && problem.contains(&b), "{problem}");
    assert_there(&home, "inner", "note.md", NOTES[0]);

    // A root that is not a folder is refused before anything is created.
    let none = ["ingest", "--corpus", "never", "--json", "--root", &a, &a];
    let refused = home.run_embedded(&none).error();
    assert!(refused["message"].as_str().unwrap().contains("--root"), "{refused}");
    let listed = home.run_embedded(&["corpus", "list", "--json"]).done();
    assert!(!listed.to_string().contains("never"), "{listed}");
}

#[test]
fn a_run_tells_what_it_replaced_and_replaces_nothing_where_it_must_not() {
    let home = Home::new();
    let server = home.serve();
    let write = |name: &str, text: &str| drop(home.write(&format!("notes/{name}.txt"), text));
    let run = |arguments: &[&str]| {
        let begin = ["ingest", "--corpus", "notes", "notes"];
        home.run_at(&server, &[&begin[..], arguments].concat())
    };
    write("same", "The same.");
    write("other", "The first.");
    assert_eq!(taken(&run(&["--json", "--no-replace"]).done()), [2, 0, 0]);

    write("other", "The second.");
    write("new", "The newest.");
    let kept = run(&["--json", "--no-replace"]);
    assert_eq!(kept.code, Some(1), "{kept:?}");
    let report = kept.json();
    assert_eq!((taken(&report), &report["refused_total"]), ([1, 0, 1], &json!(1)), "{report}");
    let refused = &report["refused"][0];
    assert_eq!(refused["document_id"], "notes/other.txt", "{refused}");
    assert_eq!(refused["reason"], "DOCUMENT_EXISTS", "{refused}");
    let stored = ["status", "--corpus", "notes", "--document", "notes/other.txt", "--json"];
    assert_eq!(home.run_at(&server, &stored).done()["text_bytes"], "The first.".len());

    let replacing = run(&["--json", "--report", "report.jsonl"]).done();
    assert_eq!((taken(&replacing), &replacing["accepted"]), ([0, 1, 2], &json!(1)));
    let fates = std::fs::read_to_string(home.path("report.jsonl")).unwrap();
    let told = |name: &str| -> Value {
        let line = fates.lines().find(|line| line.contains(name)).unwrap();
        serde_json::from_str(line).unwrap()
    };
    assert_eq!(told("other")["replaced"], true);
    assert_eq!(told("same")["outcome"], "unchanged");
    // Unchanged documents may be sent again.
    assert_eq!(taken(&run(&["--json", "--no-replace"]).done()), [0, 0, 3]);

    write("same", "Not the same.");
    let shown = run(&[]);
    for words in ["1 documents accepted (0 new, 1 replaced)", "2 unchanged"] {
        assert!(shown.stdout.contains(words), "{shown:?}");
    }
    assert!(shown.stderr.contains("documents: "), "the progress tells it, too: {shown:?}");
}

#[test]
fn attributes_of_the_command_line_go_to_documents_that_have_none_of_the_name() {
    let home = Home::new();
    home.write("in/note.md", NOTES[0]);
    home.write("in/rows.jsonl", json!({ "id": "row", "text": NOTES[1], "lang": "cs" }).to_string());
    let run = |more: &[&str]| {
        let begin = ["ingest", "--corpus", "notes", "in", "--json"];
        home.run_embedded(&[&begin[..], more].concat())
    };
    // What cannot be meant is refused before anything is made.
    let twice = run(&["--attribute", "year=2020", "--attribute", "year=2021"]).error();
    let told = twice["message"].as_str().unwrap();
    assert!(told.contains("`year=2020`") && told.contains("`year=2021`"), "{twice}");
    for bad in ["year", "=2020", "a/b=2020", "year=", "year='2020"] {
        let refused = run(&["--attribute", bad]);
        assert_eq!(refused.code, Some(2), "{bad}: {refused:?}");
        assert!(refused.stderr.contains("--attribute"), "{refused:?}");
    }
    let listed = home.run_embedded(&["corpus", "list", "--json"]).done();
    assert_eq!(listed["corpora"], json!([]));

    let given = ["lang=en", "year=2020", "code=\"2020\"", "draft=false", "by=Ada B. (eds.)"];
    let given = given.map(|attribute| ["--attribute", attribute]).concat();
    assert_eq!(taken(&run(&given).done()), [2, 0, 0]);
    let search =
        ["search", "--corpus", "notes", "called", "--attributes", "--by-document", "--json"];
    let found = home.run_embedded(&search).done();
    let of = |id: &str| {
        let mut found = found["evidence"].as_array().unwrap().iter();
        let found = found.find(|item| item["document_id"] == id);
        found.unwrap_or_else(|| panic!("{id}")).get("attributes").cloned().unwrap()
    };
    let expected = |lang: &str| {
        let by = "Ada B. (eds.)";
        json!({ "lang": lang, "year": 2020, "code": "2020", "draft": false, "by": by })
    };
    assert_eq!([of("in/note.md"), of("row")], [expected("en"), expected("cs")]);
    // The same run changes nothing, and other attributes are other documents' content.
    assert_eq!(taken(&run(&given).done()), [0, 0, 2]);
    assert_eq!(taken(&run(&["--attribute", "lang=en"]).done()), [0, 2, 0]);
}

/// Sends documents that must not replace others.
async fn add(
    client: &Client,
    corpus: &CorpusName,
    documents: Vec<Document>,
) -> Vec<Result<Accepted, Refused>> {
    let adding = async {
        let documents = futures::stream::iter(documents);
        let answers = client.ingest_if(corpus, documents, IfThere::Refuse).await.unwrap();
        let answers: Vec<_> = answers.try_collect().await.unwrap();
        answers.into_iter().map(|answer| match answer.result.unwrap() {
            Outcome::Accepted(accepted) => Ok(accepted),
            Outcome::Refused(refused) => Err(refused),
        })
    };
    tokio::time::timeout(PATIENCE, adding).await.expect("the stream ends").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_add_the_same_id_one_does_also_over_the_wire() {
    const ADDING: usize = 6;
    const DOCUMENTS: usize = 20;
    let cluster = Cluster::start(1).await;
    let client = cluster.client().await;
    let notes = create(&client, "notes").await;
    let text = |by: usize| format!("Written by number {by}.");
    let of = |by: usize| -> Vec<Document> {
        (0..DOCUMENTS).map(|number| document(&format!("d{number:02}"), text(by))).collect()
    };
    let adding = (0..ADDING).map(|by| {
        let (client, notes, documents) = (client.clone(), notes.clone(), of(by));
        tokio::spawn(async move { add(&client, &notes, documents).await })
    });
    let mut first = [None; DOCUMENTS];
    for (by, answers) in futures::future::join_all(adding).await.into_iter().enumerate() {
        for (number, answer) in answers.unwrap().into_iter().enumerate() {
            match answer {
                Ok(accepted) => {
                    assert_ne!(accepted.novelty(), Novelty::Replaced);
                    assert_eq!(first[number].replace(by), None, "d{number:02} was added twice");
                }
                Err(refused) => assert_eq!(refused.reason, "DOCUMENT_EXISTS", "{refused:?}"),
            }
        }
    }
    assert_eq!(states(&client, &notes).await.len(), DOCUMENTS);
    for (number, by) in first.into_iter().enumerate() {
        let by = by.expect("one of them was first");
        let name = format!("d{number:02}");
        assert_eq!(text_of(&client, &notes, &id(&name)).await, text(by));
        let again = add(&client, &notes, vec![document(&name, text(by))]).await.remove(0).unwrap();
        assert_eq!((again.novelty(), again.unchanged), (Novelty::Unchanged, true));
    }
    cluster.stop();
}
