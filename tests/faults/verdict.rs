//! Comparison of a cluster with what clients know.

use std::collections::{BTreeMap, BTreeSet};

use clew_client::Client;
use clew_core::{CorpusName, Query, SearchMode};
use clew_proto::cluster::v1::TreeNode;
use clew_proto::ingest::v1::DocumentStage;

use crate::client::{
    assert_whole, by_words, chunks, counts, exhaustive, id, idle, search, states, text_of,
};
use crate::cluster::{Cluster, node_names};
use crate::harness::eventually;
use crate::ledger::{
    Ledger, SHARDS, lasting_documents, lasting_word, text, version_in, version_word,
};
use crate::words::number_of;

/// Number of best passages among which a document must be to count as recalled.
const TOP: usize = 10;

/// Results of a fixed set of queries.
#[derive(Debug)]
pub struct Recall {
    /// Number of queries with their document among the best passages, by mode.
    recalled: BTreeMap<String, usize>,
    /// Chunks of the lasting documents, sorted by similarity to a question.
    ranked: Vec<String>,
}

impl Recall {
    pub async fn measure(client: &Client, corpus: &CorpusName) -> Self {
        let lasting: Vec<_> = lasting_documents().map(|(name, _)| id(&name)).collect();
        let mut recalled = BTreeMap::new();
        for mode in SearchMode::ALL {
            let mut missed = Vec::new();
            for (number, document) in lasting.iter().enumerate() {
                let text = format!("the old house by the river is {}", lasting_word(number));
                let mut query = Query { mode, ..Query::new(text, TOP) };
                query.filter.documents.clone_from(&lasting);
                let found = search(client, corpus, query).await;
                if found.iter().all(|item| item.document_id != document.as_str()) {
                    missed.push(document.as_str());
                }
            }
            // Each document has a word that no other document has.
            assert!(mode != SearchMode::Sparse || missed.is_empty(), "not found: {missed:?}");
            recalled.insert(format!("{mode:?}"), lasting.len() - missed.len());
        }
        let mut query = exhaustive("a letter for a friend was lost");
        query.filter.documents = lasting;
        let ranked = search(client, corpus, query).await;
        let ranked = ranked.into_iter().map(|item| item.chunk_id).collect();
        Self { recalled, ranked }
    }

    /// Fails if less is found than `before`. A search by words may find more, because the changing
    /// content of the other documents counts in the scores of words.
    fn assert_not_below(&self, before: &Self) {
        assert_eq!(self.ranked, before.ranked, "the ranking by likeness changed");
        for (mode, count) in &before.recalled {
            assert!(self.recalled[mode] >= *count, "{mode}: {self:?} after {before:?}");
        }
    }
}

/// Waits until nothing is pending. Fails unless the cluster holds what it must hold and nothing
/// else.
pub async fn assert_kept(cluster: &Cluster, corpus: &CorpusName, ledger: &Ledger, before: &Recall) {
    let client = cluster.client().await;
    idle(&client, corpus).await;
    assert_documents(&client, corpus, ledger).await;
    Recall::measure(&client, corpus).await.assert_not_below(before);
    assert_healed(cluster, &client).await;
    let checked = cluster.run(&["check"]);
    assert_eq!(checked.code, Some(0), "what is stored is not as promised: {checked:?}");
}

/// Asserts that every document exists once, complete, indexed and searchable, in a version that it
/// may have, and that every forgotten document is absent.
async fn assert_documents(client: &Client, corpus: &CorpusName, ledger: &Ledger) {
    let states = states(client, corpus).await;
    let counts = counts(client, corpus).await;
    let listed = states.len() as u64;
    assert_eq!((counts.documents, counts.indexed_documents), (listed, listed), "{counts:?}");
    let ids: Vec<_> = states.keys().map(|name| id(name)).collect();
    let shown = chunks(client, corpus, &ids).await;
    let mut expected: BTreeMap<String, String> = lasting_documents().collect();
    for (name, known) in &ledger.documents {
        if !states.contains_key(name) {
            assert!(known.possible.contains(&None), "{name} is lost: {known:?}");
            continue;
        }
        let stored = text_of(client, corpus, &id(name)).await;
        let version = version_in(&stored).unwrap_or_else(|| panic!("{name} is {stored:?}"));
        assert!(known.possible.contains(&Some(version)), "{name} is {version}: {known:?}");
        let found = by_words(client, corpus, &version_word(version)).await;
        assert!(found.iter().all(|item| item.document_id == *name), "{found:#?}");
        assert_eq!(found.len(), shown[name].len(), "{name} is found in part");
        expected.insert(name.clone(), text(name, version));
        for other in known.possible.iter().flatten().filter(|other| **other != version) {
            let word = version_word(*other);
            assert!(by_words(client, corpus, &word).await.is_empty(), "{word} is found");
        }
    }
    for (name, known) in ledger.documents.iter().filter(|(name, _)| !states.contains_key(*name)) {
        assert!(!shown.contains_key(name), "a part of {name} is found: {known:?}");
    }
    let names: BTreeSet<&String> = states.keys().collect();
    assert_eq!(
        names,
        expected.keys().collect::<BTreeSet<_>>(),
        "documents that nobody sent, or some are lost"
    );
    for (name, text) in &expected {
        let state = &states[name];
        assert_eq!(text_of(client, corpus, &id(name)).await, *text, "{name}");
        assert_eq!(state.stage(), DocumentStage::Indexed, "{state:?}");
        assert_eq!(assert_whole(text, &shown[name]), state.version, "{name}");
        assert_eq!(state.version, state.live_version, "{name}");
        assert_eq!(state.chunks as usize, shown[name].len(), "{name}");
    }
}

/// Asserts that all nodes run, every shard is where it belongs, and every credit was given back.
async fn assert_healed(cluster: &Cluster, client: &Client) {
    eventually("every shard is where it belongs", async || {
        let topology = client.topology().await.ok()?;
        let are_placed = topology.shards.iter().all(|shard| shard.owner == shard.placed_on);
        let are_there = topology.members.len() == node_names().len();
        (are_placed && are_there && topology.shards.len() == SHARDS as usize).then_some(())
    })
    .await;
    eventually("every credit is given back", async || {
        let tree = client.cluster_tree().await.ok()?;
        (tree.silent.is_empty() && tree.nodes.iter().all(is_idle)).then_some(())
    })
    .await;
    let tree = cluster.run(&["cluster", "tree"]);
    assert_eq!(tree.code, Some(0), "{tree:?}");
    // Each shard was checked again and again during the faults.
    let is_kept = |state: &str| tree.stdout.contains(&format!("promises (invariants) {state} in "));
    assert!(is_kept("kept") && !is_kept("broken"), "{}", tree.stdout);
    for name in node_names() {
        assert!(tree.stdout.contains(&name), "no {name} in\n{}", tree.stdout);
    }
}

/// Returns whether nothing is queued in a part of the tree.
fn is_idle(tree: &TreeNode) -> bool {
    tree.queued == 0 && tree.children.iter().all(is_idle)
}

/// Fails if a file or object of an ended cluster contains a forgotten text.
pub async fn assert_erased(cluster: &Cluster, ledger: &Ledger) {
    let mut versions: BTreeMap<usize, String> = BTreeMap::new();
    for (name, content) in cluster.contents().await {
        let text = String::from_utf8_lossy(&content);
        let length = version_word(0).len();
        for (at, _) in text.match_indices("xv") {
            if let Some(version) = text.get(at..at + length).and_then(number_of) {
                versions.insert(version, name.clone());
            }
        }
    }
    assert!(!versions.is_empty(), "a scan that finds nothing proves nothing");
    for (name, known) in &ledger.documents {
        for (version, path) in versions.iter().filter(|(version, _)| **version < known.erased_below)
        {
            assert!(!ledger.is_version_of(*version, name), "{version} of {name} is in {path}");
        }
    }
}
