//! Tests of summary trees: which nodes are visible, and which are removed with their documents.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use clew_core::{
    Access, DocumentId, DocumentShape, SegmentId, ShardIndex, Span, StoredDocument, Timestamp,
    TreeNode, TreeNodeId,
};
use clew_index::{
    CorpusTreeRow, DocumentNodes, Maintenance, Next, NodeRow, SegmentNode, ShardReader,
    SummaryVector,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::fixture::{Fixture, STRUCTURE, document, files_containing, id};

const SHARD: ShardIndex = ShardIndex(0);
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_CHILDREN: u32 = 4;

/// Fingerprint of the model that made the vectors of summaries.
const MODEL: &str = "0123456789abcdef";

/// Returns the vector of a summary: its bytes, last first, as numbers.
fn vector_of(summary: &str) -> Option<SummaryVector> {
    let mut bytes: Vec<u8> = summary.bytes().rev().collect();
    bytes.resize(bytes.len().next_multiple_of(4), b' ');
    let components = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    SummaryVector::new(MODEL.to_owned(), components.collect())
}

/// Returns the nodes of a document: one segment per line, each summary in capitals.
fn tree_of(stored: &StoredDocument) -> DocumentNodes {
    let text = &stored.document.text;
    let mut start = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        let span = Span::new(start, start + line.len());
        start = span.end;
        span
    });
    let segments: Vec<Span> = lines.collect();
    let shape = DocumentShape::new(segments.len() as u32, MAX_CHILDREN);
    let mut rows: Vec<NodeRow> = Vec::new();
    for (level, count) in (0..).zip(shape.levels()) {
        for ordinal in 0..*count {
            let span = match level {
                0 => segments[ordinal as usize],
                _ => {
                    let below = shape.children(level, ordinal);
                    let place = |ordinal: u32| {
                        rows.iter().find(|row| (row.level, row.ordinal) == (level - 1, ordinal))
                    };
                    let (first, last) = (place(below.start), place(below.end - 1));
                    Span::new(first.unwrap().span.start, last.unwrap().span.end)
                }
            };
            let summary = span.of(text).unwrap().to_uppercase();
            let extraction = clew_core::Extraction::default();
            rows.push(NodeRow {
                level,
                ordinal,
                is_root: level == shape.root_level(),
                span,
                key: format!("{level}:{summary}"),
                vector: vector_of(&summary),
                summary,
                extraction: match level {
                    0 => SegmentNode::encode(&extraction).unwrap(),
                    _ => String::new(),
                },
            });
        }
    }
    DocumentNodes {
        document_id: stored.document.id.clone(),
        version: stored.version,
        recipe: STRUCTURE,
        title: stored.document.title.clone(),
        known: 0,
        nodes: shape.nodes().into(),
        rows,
    }
}

impl Fixture {
    async fn trees_due(&self) -> Vec<DocumentNodes> {
        let reader = self.reader();
        let due = reader.structure_due(Timestamp::from_micros(1_000), 1000, &HashSet::new());
        let wanted: Vec<_> = due.into_iter().map(|due| (due.document_id, due.version)).collect();
        let stored = reader.read_sources(&wanted).await.unwrap();
        stored.iter().map(tree_of).collect()
    }

    /// Makes all trees that are due, and the missing nodes of the corpus tree.
    pub async fn structure(&mut self) {
        let due = self.trees_due().await;
        if !due.is_empty() {
            assert!(self.shard.commit_nodes(due).await.unwrap().is_empty());
        }
        loop {
            let gaps = self.reader().missing_tree_nodes(3).await.unwrap();
            if gaps.is_empty() {
                return;
            }
            let row = |gap: clew_index::MissingNode| {
                let summary = gap.parts.join("|");
                let vector = vector_of(&summary);
                CorpusTreeRow { key: gap.key, level: gap.level, summary, vector }
            };
            self.shard.commit_upper(gaps.into_iter().map(row).collect()).await.unwrap();
        }
    }
}

async fn tops(reader: &ShardReader) -> Vec<TreeNode> {
    reader.with_access(&Access::all()).tree_tops(SHARD, &[], 100, None).await.unwrap()
}

/// Returns the summaries of all nodes that can be reached, by names that identify the nodes.
async fn reachable(reader: &ShardReader) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = tops(reader).await;
    while let Some(node) = todo.pop() {
        let children =
            reader.with_access(&Access::all()).tree_children(SHARD, &node.id, None).await.unwrap();
        assert_eq!(children.len(), node.children as usize, "{node:?}");
        assert_eq!(
            children.iter().map(|child| child.bytes).sum::<u64>(),
            match node.children {
                0 => 0,
                _ => node.bytes,
            }
        );
        // The key of a corpus tree node depends on versions, which are times, so its documents name
        // it.
        let name = match &node.id {
            TreeNodeId::Document { .. } => node.id.to_string(),
            TreeNodeId::Upper { .. } => format!("{:?}", node.documents),
        };
        let before = found.insert(format!("{name} {}", node.children), node.summary.clone());
        assert!(before.is_none(), "{node:?} is reached twice");
        todo.extend(children);
    }
    found
}

fn lines(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word}\n")).collect()
}

#[tokio::test]
async fn a_tree_is_shown_once_it_is_whole_and_only_of_the_live_version() {
    let mut fixture = Fixture::new().await;
    let text = lines(&["one", "two", "three", "four", "five"]);
    fixture.ingest(vec![document("a", &text)], 1).await;
    assert_eq!(fixture.reader().counts().unstructured, 1);
    let mut whole = fixture.trees_due().await.remove(0);
    assert_eq!(whole.nodes, 8);
    let rest = DocumentNodes { rows: whole.rows.split_off(3), known: 3, ..whole.clone() };
    fixture.shard.commit_nodes(vec![whole.clone()]).await.unwrap();
    assert!(tops(&fixture.reader()).await.is_empty());
    // The existing nodes are known after a restart, and the same nodes are refused.
    fixture.reopen().await;
    let versions = [(id("a"), whole.version)];
    assert_eq!(fixture.reader().nodes_made(&versions), [3]);
    assert_eq!(fixture.shard.commit_nodes(vec![whole]).await.unwrap(), [id("a")]);
    fixture.shard.commit_nodes(vec![rest]).await.unwrap();
    let reader = fixture.reader();
    let root = tops(&reader).await.remove(0);
    assert_eq!((root.children, root.bytes as usize), (2, text.len()));
    assert_eq!(reachable(&reader).await.len(), 8);
    assert_eq!(reader.counts().structured, 1);
    let counts = reader.counts();
    assert_eq!((counts.nodes, counts.unstructured), (8, 0));
    // The segments' texts and extractions.
    let segment = SegmentId { document_id: id("a"), version: versions[0].1, ordinal: 4 };
    let texts = reader
        .with_access(&Access::all())
        .segment_texts(std::slice::from_ref(&segment))
        .await
        .unwrap();
    assert_eq!(texts[0].1.of(&texts[0].2.document.text), Some("five\n"));
    let segments = reader.read_segments(&[id("a")]).await.unwrap().remove(0);
    assert_eq!(segments.segments.len(), 5);
    // After a new version, no node of the old one is visible, though its nodes are kept for reuse.
    fixture.ingest(vec![document("a", &lines(&["one", "six"]))], 2).await;
    let reader = fixture.reader();
    assert!(tops(&reader).await.is_empty());
    assert!(
        reader
            .with_access(&Access::all())
            .tree_children(SHARD, &root.id, None)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(reader.with_access(&Access::all()).segment_texts(&[segment]).await.unwrap().is_empty());
    let made = reader.made_nodes(&[id("a")]).await.unwrap();
    assert!(made[&versions[0]].iter().any(|row| row.summary == "ONE\n"));
    fixture.structure().await;
    let reader = fixture.reader();
    assert_eq!(reachable(&reader).await.len(), 3);
    assert_eq!(reader.made_nodes(&[id("a")]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn nodes_that_later_documents_make_outdated_are_no_remains_of_a_forgotten_one() {
    let mut fixture = Fixture::new().await;
    let documents = (0..20).map(|i| document(&format!("d{i:02}"), &lines(&["a", "b"])));
    fixture.ingest(documents.collect(), 1).await;
    fixture.structure().await;
    let traces = fixture.shard.forget_traced(&[id("d07")], &Access::all()).await.unwrap().1;
    fixture.structure().await;
    let later = (20..40).map(|i| document(&format!("d{i}"), &lines(&["c", "d"])));
    fixture.ingest(later.collect(), 2).await;
    let mut due = fixture.trees_due().await;
    let mut erasing = Maintenance::erasing(traces, PATIENCE);
    let mut done = None;
    let report = loop {
        match Box::pin(fixture.shard.advance(&mut erasing, done.take())).await.unwrap() {
            Next::Turn => {}
            Next::Work(work) => done = Some(work.run().await.unwrap()),
            Next::Finished(report) => break report,
        }
        // Another tree between any two steps. The nodes above it are not made again yet.
        let tree = due.pop().expect("fewer steps than documents");
        fixture.shard.commit_nodes(vec![tree]).await.unwrap();
    };
    let scan = report.scan.unwrap();
    assert!(scan.is_clean(), "{scan:?}");
}

#[tokio::test]
async fn nodes_above_documents_are_there_as_far_as_they_are_made() {
    let mut fixture = Fixture::new().await;
    let documents = (0..20).map(|i| document(&format!("d{i:02}"), &lines(&["a", "b"])));
    fixture.ingest(documents.collect(), 1).await;
    let due = fixture.trees_due().await;
    fixture.shard.commit_nodes(due).await.unwrap();
    assert_eq!(tops(&fixture.reader()).await.len(), 20);
    // If there are too many, those that cover the documents found come first.
    let first = [id("d17"), id("unknown")];
    let some = fixture
        .reader()
        .with_access(&Access::all())
        .tree_tops(SHARD, &first, 3, None)
        .await
        .unwrap();
    assert_eq!((some.len(), &some[0].documents.0), (3, &id("d17")));
    let gaps = fixture.reader().missing_tree_nodes(1).await.unwrap();
    let (summary, vector) = ("first".to_owned(), None);
    let row = CorpusTreeRow { key: gaps[0].key, level: gaps[0].level, summary, vector };
    fixture.shard.commit_upper(vec![row.clone(), row]).await.unwrap();
    let shown = tops(&fixture.reader()).await;
    assert_eq!(shown.iter().filter(|node| node.summary == "first").count(), 1);
    assert!(shown.len() < 20);
    fixture.structure().await;
    assert_eq!(tops(&fixture.reader()).await.len(), 1);
    fixture.reopen().await;
    let whole = reachable(&fixture.reader()).await;
    assert_eq!(tops(&fixture.reader()).await.len(), 1);
    // Forgetting a document removes its nodes and those above it at once.
    fixture.shard.forget(&[id("d07")]).await.unwrap();
    let shown = tops(&fixture.reader()).await;
    assert!(shown.len() > 1);
    let names: Vec<String> = reachable(&fixture.reader()).await.into_keys().collect();
    assert!(!names.iter().any(|name| name.contains("d07")), "{names:?}");
    assert!(whole.keys().any(|name| name.contains("d07")));
}

#[tokio::test]
async fn nothing_of_a_forgotten_document_is_left_in_nodes() {
    const MARKER: &str = "ZANZIBARITE";
    /// The same in the bytes of a vector.
    const IN_VECTORS: &str = "ETIRABIZNAZ";
    let mut fixture = Fixture::new().await;
    let mut documents: Vec<_> =
        (0..12).map(|i| document(&format!("d{i:02}"), &lines(&["plain", "text"]))).collect();
    documents.push(document("d05x", &lines(&["plain", "zanzibarite", "here"])));
    fixture.ingest(documents, 1).await;
    fixture.structure().await;
    for marker in [MARKER, IN_VECTORS] {
        assert!(!files_containing(&fixture.folder, marker).is_empty());
    }
    // One version's tree is complete, another's is half made.
    fixture.ingest(vec![document("d05x", &lines(&["new", "zanzibarite"]))], 2).await;
    let mut half = fixture.trees_due().await.remove(0);
    half.rows.truncate(2);
    fixture.shard.commit_nodes(vec![half]).await.unwrap();
    let receipt = fixture.shard.forget(&[id("d05x")]).await.unwrap().remove(0);
    assert!(receipt.nodes >= 4, "{receipt:?}");
    fixture.shard.erase(PATIENCE).await.unwrap();
    for marker in [MARKER, IN_VECTORS, "zanzibarite"] {
        let left = files_containing(&fixture.folder, marker);
        assert_eq!(left, Vec::<std::path::PathBuf>::new());
    }
    fixture.structure().await;
    assert_eq!(tops(&fixture.reader()).await.len(), 1);
}

/// Returns all nodes that can be reached, with the vectors of a model.
async fn with_vectors_of(reader: &ShardReader, encoder: Option<&str>) -> Vec<TreeNode> {
    let view = reader.with_access(&Access::all());
    let mut found = Vec::new();
    let mut todo = view.tree_tops(SHARD, &[], 100, encoder).await.unwrap();
    while let Some(node) = todo.pop() {
        todo.extend(view.tree_children(SHARD, &node.id, encoder).await.unwrap());
        found.push(node);
    }
    found
}

fn has_its_own(node: &TreeNode) -> bool {
    node.vector.as_deref() == vector_of(&node.summary).as_ref().map(SummaryVector::components)
}

#[tokio::test]
async fn nodes_have_the_stored_vectors_of_the_model_that_is_asked_for() {
    let mut fixture = Fixture::new().await;
    let documents = (0..20).map(|i| document(&format!("d{i:02}"), &lines(&["one", "two"])));
    fixture.ingest(documents.collect(), 1).await;
    fixture.structure().await;
    for _reopened in 0..2 {
        let reader = fixture.reader();
        let found = with_vectors_of(&reader, Some(MODEL)).await;
        assert!(found.len() > 60 && found.iter().all(has_its_own), "{found:?}");
        let roots = reader.with_access(&Access::all()).tree_roots(&[id("d03")], Some(MODEL)).await;
        assert!(roots.unwrap().iter().all(has_its_own));
        for encoder in [None, Some(""), Some("another model")] {
            let found = with_vectors_of(&reader, encoder).await;
            assert!(found.iter().all(|node| node.vector.is_none()), "{encoder:?}");
        }
        fixture.reopen().await;
    }
    // Nodes that are made again of the same text have the vectors that they had.
    let made = fixture.reader().made_nodes(&[id("d03")]).await.unwrap();
    let rows: Vec<&NodeRow> = made.values().flatten().collect();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.vector == vector_of(&row.summary)));
}

#[tokio::test]
async fn tables_without_vectors_of_summaries_stay_readable_and_get_those_of_new_nodes() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("old", &lines(&["one", "two"]))], 1).await;
    fixture.structure().await;
    // The table of an earlier release.
    let connection = lancedb::connect(fixture.folder.to_str().unwrap()).execute().await.unwrap();
    let nodes = connection.open_table("nodes").execute().await.unwrap();
    nodes.drop_columns(&["summary_encoder", "summary_vector"]).await.unwrap();
    fixture.reopen().await;
    let old = with_vectors_of(&fixture.reader(), Some(MODEL)).await;
    assert_eq!(old.len(), 3);
    assert!(old.iter().all(|node| node.vector.is_none()), "{old:?}");
    fixture.ingest(vec![document("new", &lines(&["three"]))], 2).await;
    fixture.structure().await;
    let found = with_vectors_of(&fixture.reader(), Some(MODEL)).await;
    let is_old = |node: &&TreeNode| node.documents == (id("old"), id("old"));
    let (old, new): (Vec<&TreeNode>, Vec<&TreeNode>) = found.iter().partition(is_old);
    assert_eq!((old.len(), new.len()), (3, 2));
    assert!(old.iter().all(|node| node.vector.is_none()) && new.into_iter().all(has_its_own));
}

#[test]
fn a_vector_that_cannot_be_compared_is_none() {
    let vector = |components: &[f32]| SummaryVector::new(MODEL.to_owned(), components.to_vec());
    assert_eq!(vector(&[0.5, -0.5]).unwrap().encoder(), MODEL);
    assert_eq!(vector(&[]), None);
    assert_eq!(vector(&[1.0, f32::NAN]), None);
}

/// Event in the life of a shard.
#[derive(Clone, Debug)]
enum Edit {
    Put(u8, u8),
    Forget(u8),
    Structure,
    Reopen,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (0..12_u8, 0..6_u8).prop_map(|(name, lines)| Edit::Put(name, lines)),
        2 => (0..12_u8).prop_map(Edit::Forget),
        2 => Just(Edit::Structure),
        1 => Just(Edit::Reopen),
    ]
}

fn text(lines: u8) -> String {
    (0..=lines).map(|line| format!("line {line} of {lines}\n")).collect()
}

/// Runs few cases, because shards are created on the disk.
#[test]
fn after_any_edits_the_tree_is_the_one_made_from_scratch() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases: 6, failure_persistence: None, ..Default::default() };
    let edits = prop::collection::vec(edit(), 1..12);
    TestRunner::new(config)
        .run(&edits, |edits| {
            runtime.block_on(async {
                let mut fixture = Fixture::new().await;
                let mut there: BTreeMap<DocumentId, String> = BTreeMap::new();
                for (now, edit) in (1..).zip(edits) {
                    match edit {
                        Edit::Put(name, lines) => {
                            let (name, text) = (format!("d{name:02}"), text(lines));
                            fixture.ingest(vec![document(&name, &text)], now).await;
                            there.insert(id(&name), text);
                        }
                        Edit::Forget(name) => {
                            let name = id(&format!("d{name:02}"));
                            fixture.shard.forget(std::slice::from_ref(&name)).await.unwrap();
                            there.remove(&name);
                        }
                        Edit::Structure => fixture.structure().await,
                        Edit::Reopen => fixture.reopen().await,
                    }
                }
                fixture.structure().await;
                let mut scratch = Fixture::new().await;
                let documents = there.iter().map(|(id, text)| document(id.as_str(), text));
                scratch.ingest(documents.collect(), 1).await;
                scratch.structure().await;
                let edited = reachable(&fixture.reader()).await;
                let rebuilt = reachable(&scratch.reader()).await;
                assert_eq!(edited, rebuilt);
                assert!(tops(&fixture.reader()).await.len() <= 1);
                let own = edited.keys().filter_map(|name| Some(name.split_once('#')?.0.to_owned()));
                let reached: BTreeSet<String> = own.collect();
                assert_eq!(reached, there.keys().map(ToString::to_string).collect());
            });
            Ok(())
        })
        .unwrap();
}
