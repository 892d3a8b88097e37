//! Tests of summary trees: which nodes are visible, and which are removed with their documents.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use clew_core::{
    Access, DocumentId, DocumentShape, SegmentId, ShardIndex, Span, StoredDocument, Timestamp,
    TreeNode, TreeNodeId,
};
use clew_index::{CorpusTreeRow, DocumentNodes, NodeRow, SegmentNode, ShardReader};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::fixture::{Fixture, STRUCTURE, document, files_containing, id};

const SHARD: ShardIndex = ShardIndex(0);
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_CHILDREN: u32 = 4;

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
            let row = |gap: clew_index::MissingNode| CorpusTreeRow {
                key: gap.key,
                level: gap.level,
                summary: gap.parts.join("|"),
            };
            self.shard.commit_upper(gaps.into_iter().map(row).collect()).await.unwrap();
        }
    }
}

async fn tops(reader: &ShardReader) -> Vec<TreeNode> {
    reader.with_access(&Access::all()).tree_tops(SHARD, &[], 100).await.unwrap()
}

/// Returns the summaries of all nodes that can be reached, by names that identify the nodes.
async fn reachable(reader: &ShardReader) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = tops(reader).await;
    while let Some(node) = todo.pop() {
        let children =
            reader.with_access(&Access::all()).tree_children(SHARD, &node.id).await.unwrap();
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
        reader.with_access(&Access::all()).tree_children(SHARD, &root.id).await.unwrap().is_empty()
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
async fn nodes_above_documents_are_there_as_far_as_they_are_made() {
    let mut fixture = Fixture::new().await;
    let documents = (0..20).map(|i| document(&format!("d{i:02}"), &lines(&["a", "b"])));
    fixture.ingest(documents.collect(), 1).await;
    let due = fixture.trees_due().await;
    fixture.shard.commit_nodes(due).await.unwrap();
    assert_eq!(tops(&fixture.reader()).await.len(), 20);
    // If there are too many, those that cover the documents found come first.
    let first = [id("d17"), id("unknown")];
    let some =
        fixture.reader().with_access(&Access::all()).tree_tops(SHARD, &first, 3).await.unwrap();
    assert_eq!((some.len(), &some[0].documents.0), (3, &id("d17")));
    let gaps = fixture.reader().missing_tree_nodes(1).await.unwrap();
    let row = CorpusTreeRow { key: gaps[0].key, level: gaps[0].level, summary: "first".to_owned() };
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
    let mut fixture = Fixture::new().await;
    let mut documents: Vec<_> =
        (0..12).map(|i| document(&format!("d{i:02}"), &lines(&["plain", "text"]))).collect();
    documents.push(document("d05x", &lines(&["plain", "zanzibarite", "here"])));
    fixture.ingest(documents, 1).await;
    fixture.structure().await;
    assert!(!files_containing(&fixture.folder, MARKER).is_empty());
    // One version's tree is complete, another's is half made.
    fixture.ingest(vec![document("d05x", &lines(&["new", "zanzibarite"]))], 2).await;
    let mut half = fixture.trees_due().await.remove(0);
    half.rows.truncate(2);
    fixture.shard.commit_nodes(vec![half]).await.unwrap();
    let receipt = fixture.shard.forget(&[id("d05x")]).await.unwrap().remove(0);
    assert!(receipt.nodes >= 4, "{receipt:?}");
    fixture.shard.erase(PATIENCE).await.unwrap();
    for marker in [MARKER, "zanzibarite"] {
        let left = files_containing(&fixture.folder, marker);
        assert_eq!(left, Vec::<std::path::PathBuf>::new());
    }
    fixture.structure().await;
    assert_eq!(tops(&fixture.reader()).await.len(), 1);
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
