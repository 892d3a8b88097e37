//! Forgets documents of small shards and looks at what the scan finds.

use std::path::Path;
use std::time::Duration;

use clew_core::{EncoderIdentity, Recipe, Recipes, Span, Version};

use super::*;
use crate::fixture::ingest;
use crate::settings::{SearchMemory, ShardSettings, Takeover, Tuning};
use crate::shard::plan::MaintenanceStep;
use crate::storage::Storage;
use crate::table::rows;
use crate::table::vectors::VectorColumn;
use crate::values::nodes::{DocumentNodes, NodeRow};

const RECIPE: Recipe = Recipe(3);
const PATIENCE: Duration = Duration::from_secs(5);
const TEXT: &str =
    "The heron of the northern pond keeps seventeen silver lanterns under the bridge.";

async fn open(folder: &Path) -> ShardWriter {
    let encoder = EncoderIdentity {
        model: "m".to_owned(),
        revision: "r".to_owned(),
        dimension: 2,
        max_tokens: 256,
    };
    let settings = ShardSettings {
        corpus: "notes".parse().unwrap(),
        recipes: Recipes { wanted: RECIPE, as_good: None },
        structure: Some((RECIPE, 4)),
        searched: encoder.fingerprint(),
        first: encoder.fingerprint(),
        vectors: vec![VectorColumn::first(encoder)],
        tuning: Tuning::default(),
        memory: SearchMemory::default(),
    };
    Box::pin(ShardWriter::open(&Storage::from(folder), settings, Takeover::Uncontested))
        .await
        .unwrap()
}

fn id(name: &str) -> DocumentId {
    name.parse().unwrap()
}

/// Makes one fragment of the small ones of each table.
async fn merge(shard: &mut ShardWriter) {
    for kind in [TableKind::Sources, TableKind::Chunks] {
        shard.do_now(MaintenanceStep::Compact(kind), PATIENCE).await.unwrap();
    }
}

async fn forget(shard: &mut ShardWriter, name: &str) -> ErasureScan {
    let (ids, access) = ([id(name)], Access::all());
    let forgetting = shard.forget_for_good(&ids, &access, PATIENCE);
    Box::pin(forgetting).await.unwrap().1
}

/// Writes a row of a tree that the shard's catalogue does not know of.
async fn plant_node(shard: &mut ShardWriter, name: &str) {
    let row = NodeRow {
        level: 0,
        ordinal: 0,
        is_root: true,
        span: Span::new(0, 9),
        summary: TEXT.to_owned(),
        key: String::new(),
        extraction: String::new(),
        vector: None,
    };
    let nodes = DocumentNodes {
        document_id: id(name),
        version: Version(77),
        recipe: RECIPE,
        title: String::new(),
        known: 0,
        nodes: 1,
        rows: vec![row],
    };
    shard.nodes.append(vec![rows::nodes::batch(&[nodes]).unwrap()]).await.unwrap();
}

#[tokio::test]
async fn a_row_that_is_left_is_named_and_gone_after_asking_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut shard = open(folder.path()).await;
    ingest(&mut shard, "secret", TEXT).await;
    ingest(&mut shard, "other", "something else").await;
    plant_node(&mut shard, "secret").await;
    let found = forget(&mut shard, "secret").await;
    let left: Vec<&str> = found.left.iter().map(|left| left.place.as_str()).collect();
    assert_eq!((left, found.left_in_all), (vec!["nodes"], 1), "{found:?}");

    let again = forget(&mut shard, "secret").await;
    assert!(again.is_clean(), "{again:?}");
}

#[tokio::test]
async fn a_file_that_no_version_names_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut shard = open(folder.path()).await;
    ingest(&mut shard, "secret", TEXT).await;
    ingest(&mut shard, "other", "something else").await;
    let stray = "chunks.lance/copied-by-somebody.txt";
    // Where the engine keeps rows, nothing is left but what the newest version names.
    let among_rows = folder.path().join("chunks.lance/data/copied-by-somebody.txt");
    for file in [&folder.path().join(stray), &among_rows] {
        std::fs::write(file, TEXT).unwrap();
    }
    let found = forget(&mut shard, "secret").await;
    assert!(!among_rows.exists());
    let left: Vec<&str> = found.left.iter().map(|left| left.place.as_str()).collect();
    assert_eq!(left, [stray], "{found:?}");
    std::fs::remove_file(folder.path().join(stray)).unwrap();
    let again = forget(&mut shard, "secret").await;
    assert!(again.is_clean() && again.files > 0 && again.tables == 4, "{again:?}");
}

#[tokio::test]
async fn a_file_of_a_memory_that_nothing_tells_of_goes_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut shard = open(folder.path()).await;
    ingest(&mut shard, "secret", TEXT).await;
    // Leftovers of a write that was killed, and of a removal that failed after its record was
    // gone.
    for name in ["interrupted.new", "unknown.memory"] {
        let memories = folder.path().join(memories::FOLDER);
        std::fs::create_dir_all(&memories).unwrap();
        std::fs::write(memories.join(name), TEXT).unwrap();
    }
    let found = forget(&mut shard, "secret").await;
    assert!(found.is_clean(), "{found:?}");
}

#[tokio::test]
async fn what_another_document_says_too_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut shard = open(folder.path()).await;
    ingest(&mut shard, "secret", TEXT).await;
    ingest(&mut shard, "copy", &format!("It is said: {TEXT}")).await;
    merge(&mut shard).await;
    let found = forget(&mut shard, "secret").await;
    assert!(found.is_clean(), "{found:?}");
    assert!(found.texts > 0 && found.searched_files > 0 && found.searched_bytes > 0, "{found:?}");
    let found = forget(&mut shard, "copy").await;
    assert!(found.is_clean() && found.texts > 0, "{found:?}");
}

#[tokio::test]
async fn what_two_documents_say_one_after_the_other_is_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut shard = open(folder.path()).await;
    let (first, second) = TEXT.split_at(TEXT.len() / 2);
    ingest(&mut shard, "secret", TEXT).await;
    ingest(&mut shard, "first", first).await;
    ingest(&mut shard, "second", second).await;
    merge(&mut shard).await;
    let found = forget(&mut shard, "secret").await;
    assert!(found.is_clean() && found.searched_files > 0, "{found:?}");
}

#[tokio::test]
async fn what_is_deleted_but_not_erased_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut shard = open(folder.path()).await;
    ingest(&mut shard, "secret", TEXT).await;
    ingest(&mut shard, "other", "something else").await;
    // One fragment with both documents, so that one of its rows can be hidden.
    merge(&mut shard).await;
    let traces = shard.forget_traced(&[id("secret")], &Access::all()).await.unwrap().1;
    let scan = shard.begin_scan().await.unwrap();
    let found = Box::pin(scan.of(&traces)).await.unwrap();
    let told = |problem: &str| found.left.iter().any(|left| left.problem.contains(problem));
    for problem in ["deleted and still in the file", "made before", "no newest version"] {
        assert!(told(problem), "{problem}: {found:?}");
    }
}

#[tokio::test]
async fn a_file_that_holds_a_part_of_a_text_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut shard = open(folder.path()).await;
    std::fs::write(folder.path().join("file"), format!("… {TEXT} …")).unwrap();
    std::fs::write(folder.path().join("large"), TEXT).unwrap();
    let mut parts = Parts::default();
    parts.add_some_of(TEXT);
    let written = |name, bytes| Written { kind: TableKind::Chunks, name, bytes, fragment: None };
    let written = vec![written("large", SEARCHED), written("file", 90)];
    let mut found = ErasureScan::default();
    let scan = shard.begin_scan().await.unwrap();
    scan.search(&parts, written, &mut found).await.unwrap();
    assert_eq!((found.left[0].place.as_str(), found.left_in_all), ("file", 1), "{found:?}");
    assert_eq!((found.searched_files, found.unsearched_files), (1, 1));
}

#[tokio::test]
async fn a_file_whose_texts_are_compressed_counts_as_not_searched() {
    let folder = tempfile::tempdir().unwrap();
    let mut shard = open(folder.path()).await;
    ingest(&mut shard, "secret", TEXT).await;
    let heron = "The heron stands in the reeds and waits for a fish that comes by. ";
    let long = |n: usize| format!("{n}. {}", heron.repeat(40));
    for n in 0..20 {
        ingest(&mut shard, &format!("other-{n}"), &long(n)).await;
    }
    // Files of all documents, which erasing rewrites without the secret, large enough to be
    // compressed.
    merge(&mut shard).await;
    let found = forget(&mut shard, "secret").await;
    assert!(found.is_clean(), "{found:?}");
    assert_eq!(found.unsearched_files, 2, "{found:?}");
}
