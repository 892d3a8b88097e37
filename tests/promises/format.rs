//! Tests of data directories of earlier releases. Each released format has a sample in
//! `tests/data`, which this release opens, searches and continues to use.
//!
//! A release that raises the version of the tables adds its own sample and keeps the others:
//!
//! ```text
//! FORMAT_SAMPLE=tests/data/format-3 \
//!     cargo test --package clew --test promises -- --ignored format::write_a_sample
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clew_core::{Document, MediaType, SourceVersion};
use serde_json::json;

use crate::client::{
    accept, assert_whole, by_words, chunks, corpus, counts, create_in_shards, document, id, idle,
    remember, text_of,
};
use crate::harness::{Home, eventually};
use crate::words::{text_with, word};

const DOCUMENTS: usize = 6;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data")
}

fn samples() -> Vec<PathBuf> {
    let entries = fs::read_dir(data()).unwrap().map(|entry| entry.unwrap().path());
    let is_sample =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("format-");
    let mut samples: Vec<PathBuf> = entries.filter(is_sample).collect();
    samples.sort();
    assert!(!samples.is_empty());
    samples
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Returns a document of the samples.
fn sample_document(number: usize) -> Document {
    let text = text_with(&[&word('f', number)]);
    Document {
        title: format!("Document {number}"),
        media_type: MediaType::Markdown,
        attributes: [("part".to_owned().try_into().unwrap(), number.to_string().into())].into(),
        event_time: Some("2026-01-02T03:04:05Z".parse().unwrap()),
        ..document(&format!("d{number}"), format!("# Part {number}\n\n{text}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_every_released_format_is_opened_found_and_written_on() {
    for sample in samples() {
        println!("{}", sample.display());
        let home = Home::new();
        copy(&sample, &home.data_dir());
        let server = home.serve();
        let client = server.client().await;
        let name = corpus("sample");
        idle(&client, &name).await;
        assert_eq!(counts(&client, &name).await.documents, DOCUMENTS as u64);
        let ids: Vec<_> = (0..DOCUMENTS).map(|i| id(&format!("d{i}"))).collect();
        let stored = chunks(&client, &name, &ids).await;
        for number in 0..DOCUMENTS {
            let expected = sample_document(number);
            let found = &by_words(&client, &name, &word('f', number)).await[0];
            assert_eq!(found.document_id, expected.id.as_str());
            assert_eq!(found.title, expected.title);
            assert_eq!(text_of(&client, &name, &expected.id).await, expected.text);
            assert_whole(&expected.text, &stored[expected.id.as_str()]);
        }
        let check = || {
            let report = home.run_at(&server, &["check", "--json"]).done();
            assert_eq!(report["corpora"][0]["breaches"], 0, "{report}");
        };
        check();
        // Rows of before there were numbers of sources get one.
        let numbered =
            |document, number| Document { source_version: Some(SourceVersion(number)), ..document };
        let is_unchanged =
            async |client: &_, sent| accept(client, &name, vec![sent]).await[0].unchanged;
        assert!(is_unchanged(&client, numbered(sample_document(1), 5)).await);
        check();
        remember(&client, &name, vec![document("new", text_with(&["xnew"]))]).await;
        client.forget(&name, &[id("d0")]).await.unwrap();
        check();
        assert!(server.terminate().success());
        // A data directory that was upgraded is opened again.
        let server = home.serve();
        let client = server.client().await;
        assert_eq!(by_words(&client, &name, "xnew").await[0].document_id, "new");
        assert!(by_words(&client, &name, &word('f', 0)).await.is_empty());
        assert!(is_unchanged(&client, numbered(document("d1", "older"), 4)).await);
        assert_eq!(client.document(&name, &id("d1")).await.unwrap().1.source_version, Some(5));
        assert_eq!(text_of(&client, &name, &id("d2")).await, sample_document(2).text);
        assert_eq!(counts(&client, &name).await.documents, DOCUMENTS as u64);
        assert!(server.terminate().success());
    }
}

/// Settings are written in the oldest format that says all of them, so the samples above have the
/// first. `tests/data/settings` has settings that need the later ones. They were written by hand,
/// in the form that the code which introduced these formats wrote.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_every_format_are_understood_and_left_as_they_are() {
    let reembedding =
        json!({ "phase": "abandoned", "other_model": "next", "first_model": "model", "number": 1 });
    let chat = json!({
        "keys": [],
        "merging": "best",
        "value": "session",
        "time": "filter",
        "history": "all",
        "notes": "direct",
        "layout": "text",
    });
    let expected = BTreeMap::from([
        ("format-2.json", ("reembedding", reembedding)),
        ("format-3.json", ("chat", chat)),
    ]);
    for sample in fs::read_dir(data().join("settings")).unwrap() {
        let sample = sample.unwrap().path();
        let format = sample.file_name().unwrap().to_str().unwrap();
        let (key, expected) = &expected[format];
        let home = Home::new();
        copy(&samples().pop().unwrap(), &home.data_dir());
        let settings = home.data_dir().join("corpora/sample/settings.json");
        fs::copy(&sample, &settings).unwrap();
        let server = home.serve();
        let client = server.client().await;
        let name = corpus("sample");
        idle(&client, &name).await;
        let listed = home.run_at(&server, &["corpus", "list", "--json"]).done();
        assert_eq!(listed["corpora"][0][key], *expected, "{listed}");
        assert_eq!(by_words(&client, &name, &word('f', 1)).await[0].document_id, "d1");
        remember(&client, &name, vec![document("new", text_with(&["xnew"]))]).await;
        assert_eq!(by_words(&client, &name, "xnew").await[0].document_id, "new");
        assert!(server.terminate().success());
        assert_eq!(fs::read(&settings).unwrap(), fs::read(&sample).unwrap(), "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_newer_release_is_refused_in_words_and_left_as_it_is() {
    let home = Home::new();
    let server = home.serve();
    let notes = create_in_shards(&server.client().await, "notes", 1).await;
    remember(&server.client().await, &notes, vec![document("a", "text")]).await;
    assert!(server.terminate().success());

    // A table: changes the one byte of its format version.
    let folder = home.data_dir().join("corpora/notes/shard-0/sources.lance/_versions");
    let newest = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let newest = newest.filter(|path| path.extension().is_some_and(|end| end == "manifest")).min();
    let newest = newest.unwrap();
    let bytes = fs::read(&newest).unwrap();
    let key = b"clew.schema.version";
    let mut newer = bytes.clone();
    let mut changed = 0;
    for at in 0..bytes.len() - key.len() - 3 {
        let value = at + key.len();
        // Field 2 of a map entry, with a length of one byte.
        if bytes[at..].starts_with(key) && bytes[value..].starts_with(&[0x12, 1]) {
            newer[value + 2] = b'9';
            changed += 1;
        }
    }
    assert!(changed > 0);
    fs::write(&newest, newer).unwrap();
    let refused = home.run_embedded(&["search", "--corpus", "notes", "text", "--json"]).error();
    assert_eq!(refused["reason"], "NEWER_FORMAT", "{refused}");
    fs::write(&newest, bytes).unwrap();

    let settings = home.data_dir().join("corpora/notes/settings.json");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("\"format\": 1", "\"format\": 7")).unwrap();
    let server = home.serve();
    for refused in [
        home.run_at(&server, &["search", "--corpus", "notes", "text", "--json"]).error(),
        home.run_at(&server, &["corpus", "list", "--json"]).done()["corpora"][0]["fault"].clone(),
    ] {
        assert_eq!(refused["reason"], "NEWER_FORMAT", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("format 7"), "{refused}");
    }
    assert!(server.terminate().success());
    fs::write(&settings, text).unwrap();
    let found = home.run_embedded(&["search", "--corpus", "notes", "text", "--json"]).done();
    assert_eq!(found["evidence"][0]["document_id"], "a", "{found}");
}

/// Writes the sample's documents, as this release stores them, to the folder that `FORMAT_SAMPLE`
/// names.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the sample of a release"]
async fn write_a_sample() {
    let folder = std::env::var_os("FORMAT_SAMPLE").expect("FORMAT_SAMPLE names a folder");
    // The path is relative to the workspace.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    assert!(!folder.exists(), "{} is there already", folder.display());
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let name = create_in_shards(&client, "sample", 1).await;
    let documents = (0..DOCUMENTS).map(sample_document).collect();
    remember(&client, &name, documents).await;
    eventually("every tree is made", async || {
        let counts = counts(&client, &name).await;
        (counts.unstructured_documents == 0).then_some(())
    })
    .await;
    // Forgetting rewrites all tables and removes old versions.
    remember(&client, &name, vec![document("gone", "text")]).await;
    client.forget(&name, &[id("gone")]).await.unwrap();
    assert!(server.terminate().success());
    copy(&home.data_dir(), &folder);
    fs::remove_file(folder.join("LOCK")).unwrap();
}
