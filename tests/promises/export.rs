//! Tests of exports: all that a corpus holds, in files that other tools read and from which the
//! corpus can be created anew.

use std::collections::BTreeMap;
use std::path::Path;

use clew_core::{Document, MediaType, SourceVersion};
use serde_json::{Value, json};

use crate::client::{create_in_shards, document, id, remember};
use crate::harness::Home;
use crate::words::{text_with, word};

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|_| panic!("{}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_is_all_there_is_and_makes_the_corpus_anew() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create_in_shards(&client, "notes", 3).await;
    let mut documents: Vec<Document> =
        (0..300).map(|i| document(&format!("d{i}"), text_with(&[&word('e', i)]))).collect();
    documents[7].title = "A title".to_owned();
    documents[7].media_type = MediaType::Markdown;
    documents[7].event_time = Some("2024-05-06T07:08:09Z".parse().unwrap());
    for (name, value) in [("lang", "en".into()), ("year", 2020.into()), ("draft", true.into())] {
        documents[7].attributes.insert(name.to_owned().try_into().unwrap(), value);
    }
    documents[7].source_version = Some(SourceVersion(u64::MAX));
    // Longer than a message.
    documents[8].text = "Ariadne gave Theseus a ball of thread. ".repeat(30_000);
    remember(&client, &notes, documents.clone()).await;
    // Replaced and forgotten versions are not exported.
    let gone = word('g', 1);
    remember(&client, &notes, vec![document("d1", text_with(&[&gone]))]).await;
    remember(&client, &notes, vec![documents[1].clone(), document("gone", gone.as_str())]).await;
    client.forget(&notes, &[id("gone")]).await.unwrap();
    let counts = crate::harness::eventually("every tree is made", async || {
        let counts = crate::client::counts(&client, &notes).await;
        (counts.unstructured_documents == 0).then_some(counts)
    })
    .await;

    let (jsonl, parquet) = (home.path("jsonl"), home.path("parquet"));
    let export = |format: &str, out: &Path| {
        let out = out.display().to_string();
        let words = ["corpus", "export", "notes", "--format", format, "--out", &out, "--json"];
        home.run_at(&server, &words)
    };
    let rows = export("jsonl", &jsonl).done()["rows"].clone();
    let parquet_rows = export("parquet", &parquet).done()["rows"].clone();
    // Tree nodes above documents may still be built meanwhile.
    for table in ["documents", "versions", "chunks", "entities", "relations"] {
        assert_eq!(parquet_rows[table], rows[table], "{table}");
    }
    assert_eq!((&rows["documents"], &rows["versions"]), (&300.into(), &300.into()));
    assert_eq!(rows["chunks"], counts.chunks);
    assert!(rows["nodes"].as_u64().unwrap() >= counts.nodes, "{rows} {counts:?}");
    assert!(rows["entities"].as_u64() > Some(0) && rows["relations"].as_u64() > Some(0), "{rows}");
    assert_eq!(export("jsonl", &jsonl).code, Some(1), "a folder that holds something");

    let found: BTreeMap<String, Value> = lines(&jsonl.join("documents.jsonl"))
        .into_iter()
        .map(|line| (line["id"].as_str().unwrap().to_owned(), line))
        .collect();
    for document in &documents {
        let line = &found[document.id.as_str()];
        assert_eq!(line["text"], document.text, "{}", document.id);
    }
    assert_eq!(found["d7"]["attributes"]["lang"], "en");
    assert_eq!(found["d7"]["attributes"]["year"], "2020");
    assert_eq!(found["d7"]["attribute_types"], json!({ "year": "integer", "draft": "boolean" }));
    assert_eq!(found["d7"]["title"], "A title");
    assert_eq!(found["d7"]["source_version"], u64::MAX);
    assert_eq!(found["d8"].get("source_version"), None);
    let chunks = lines(&jsonl.join("chunks.jsonl"));
    assert!(chunks.iter().all(|chunk| chunk["vector"].as_array().unwrap().len() > 1));
    for relation in lines(&jsonl.join("relations.jsonl")).iter().take(50) {
        let text = found[relation["document_id"].as_str().unwrap()]["text"].as_str().unwrap();
        let place = |name: &str| relation[name].as_u64().unwrap() as usize;
        let evidence = text.get(place("evidence_start")..place("evidence_end")).unwrap();
        assert!(!evidence.trim().is_empty());
    }
    for folder in [&jsonl, &parquet] {
        for (path, bytes) in crate::harness::files_below(folder) {
            let is_there = bytes.windows(gone.len()).any(|window| window == gone.as_bytes());
            assert!(!is_there, "{} holds what is gone", path.display());
        }
    }

    let file = jsonl.join("documents.jsonl").display().to_string();
    let again = home.run_at(&server, &["ingest", "--corpus", "again", &file, "--json"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let again = "again".parse().unwrap();
    for sample in ["d0", "d7", "d8", "d299"] {
        let (made, _) = client.document(&again, &id(sample)).await.unwrap();
        let (first, _) = client.document(&notes, &id(sample)).await.unwrap();
        assert_eq!(made, first);
    }
    assert!(server.terminate().success());
}
