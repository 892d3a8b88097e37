//! Laws of the catalogue: what it keeps in order is what a walk over all records finds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use clew_core::{
    Access, ContentHash, CorpusTree, CorpusTreeKey, Counts, DocumentId, DocumentState,
    DocumentStatus, ErrorKind, FailureStatus, Labels, ListQuery, Recipe, Recipes, Stage, Timestamp,
    Version,
};
use proptest::prelude::*;

use crate::catalogue::Catalogue;
use crate::catalogue::record::{DocumentRecord, Wanted};
use crate::values::facts::{ChunkFacts, Facts, FailureFacts, NodeFacts, SourceFacts};

const RECIPE: Recipe = Recipe(1);
const OTHER: Recipe = Recipe(2);
const STRUCTURE: Recipe = Recipe(9);
const WANTED: Wanted =
    Wanted { chunks: Recipes { wanted: RECIPE, as_good: None }, structure: Some(STRUCTURE) };

/// Change of one document.
#[derive(Clone, Debug)]
enum Change {
    Accept { labels: Vec<&'static str> },
    Derive { recipe: Recipe },
    Structure,
    Fail { recipe: Recipe, next_try: Option<i64> },
    Sweep,
    Forget,
}

fn changes() -> impl Strategy<Value = Vec<(u8, Change)>> {
    let labels = prop::sample::subsequence(vec!["a", "b"], 0..=2);
    let recipe = prop::sample::select(vec![RECIPE, OTHER]);
    let failed = prop::sample::select(vec![RECIPE, OTHER, STRUCTURE]);
    let change = prop_oneof![
        4 => labels.prop_map(|labels| Change::Accept { labels }),
        4 => recipe.prop_map(|recipe| Change::Derive { recipe }),
        2 => Just(Change::Structure),
        3 => (failed, prop::option::of(0_i64..10))
            .prop_map(|(recipe, next_try)| Change::Fail { recipe, next_try }),
        1 => Just(Change::Sweep),
        1 => Just(Change::Forget),
    ];
    prop::collection::vec((0_u8..8, change), 0..60)
}

fn id(number: u8) -> DocumentId {
    format!("document-{number}").parse().unwrap()
}

fn apply(catalogue: &mut Catalogue, step: usize, number: u8, change: Change) {
    let newest = |facts: &Facts| facts.sources.iter().map(|source| source.version).max();
    catalogue.change(&id(number), |facts| match change {
        Change::Accept { labels } => facts.sources.push(SourceFacts {
            version: Version(step as u64 + 1),
            content_hash: ContentHash([0; 32]),
            accepted_at: Timestamp::from_micros(step as i64),
            bytes: 10 + step as u64,
            labels: Labels::parse(&labels).unwrap(),
            source_version: None,
        }),
        Change::Derive { recipe } => {
            if let Some(version) = newest(facts) {
                let made = |it: &ChunkFacts| (it.version, it.recipe) == (version, recipe);
                facts.chunks.retain(|it| !made(it));
                let (chunks, tokens) = (2, 20);
                facts.chunks.push(ChunkFacts { version, recipe, chunks, tokens, is_whole: true });
            }
        }
        Change::Structure => {
            if let Some(version) = newest(facts) {
                facts.nodes.retain(|nodes| nodes.version != version);
                let nodes = NodeFacts { version, recipe: STRUCTURE, rows: 3, nodes: 3 };
                facts.nodes.push(nodes);
            }
        }
        Change::Fail { recipe, next_try } => {
            let status = FailureStatus {
                stage: Stage::Embedding,
                attempts: 1,
                kind: ErrorKind::Internal,
                message: String::new(),
                next_try: next_try.map(Timestamp::from_micros),
            };
            facts.failure = newest(facts).map(|version| FailureFacts { version, recipe, status });
        }
        Change::Sweep => {
            let newest = newest(facts);
            facts.sources.retain(|source| Some(source.version) == newest);
        }
        Change::Forget => *facts = Facts::default(),
    });
}

/// Documents on which some work is due at `now`, oldest version first.
fn walked_due(
    catalogue: &Catalogue,
    now: i64,
    busy: &HashSet<DocumentId>,
    due: fn(&DocumentRecord) -> Option<&SourceFacts>,
) -> Vec<DocumentId> {
    let wanted = catalogue.wanted();
    let is_ready = |record: &&Arc<DocumentRecord>| {
        let failure = record.failure(wanted);
        let is_time = |time: Timestamp| time <= Timestamp::from_micros(now);
        !busy.contains(&record.id)
            && failure.is_none_or(|failure| failure.next_try.is_some_and(is_time))
    };
    let ready = catalogue.after(None).filter(is_ready);
    let mut ready: Vec<_> =
        ready.filter_map(|record| Some((due(record)?.version, record.id.clone()))).collect();
    ready.sort();
    ready.into_iter().map(|(_, id)| id).collect()
}

fn walked_list(catalogue: &Catalogue, query: &ListQuery, access: &Access) -> Vec<DocumentStatus> {
    catalogue
        .after(query.after.as_ref())
        .filter(|record| record.is_seen_by(access))
        .filter_map(|record| record.status(catalogue.wanted()))
        .filter(|status| query.state.is_none_or(|state| state == status.state))
        .take(query.limit)
        .collect()
}

fn walked_counts(catalogue: &Catalogue, access: &Access) -> Counts {
    let wanted = catalogue.wanted();
    let mut total = Counts::default();
    for record in catalogue.after(None).filter(|record| record.is_seen_by(access)) {
        let Some(status) = record.status(wanted) else { continue };
        total.add(&status);
        let failure = record.failure(wanted);
        let is_set_aside = failure.is_some_and(|failure| failure.next_try.is_none());
        total.unstructured += u64::from(record.structure_due().is_some() && !is_set_aside);
    }
    total
}

fn check(catalogue: &Catalogue, now: i64, busy: &HashSet<DocumentId>, limit: usize) {
    let time = Timestamp::from_micros(now);
    let due_versions =
        [DocumentRecord::due, DocumentRecord::outdated, DocumentRecord::structure_due];
    let listed = |limit| {
        let lists = [
            catalogue.due(time, limit, busy),
            catalogue.outdated(time, limit, busy),
            catalogue.structure_due(time, limit, busy),
        ];
        lists.map(|due| due.into_iter().map(|due| due.document_id).collect::<Vec<_>>())
    };
    let walked = due_versions.map(|due| walked_due(catalogue, now, busy, due));
    assert_eq!(listed(usize::MAX), walked);
    for (some, all) in listed(limit).iter().zip(&walked) {
        assert_eq!(some.len(), limit.min(all.len()));
        assert!(some.iter().all(|id| all.contains(id)));
    }
    let wanted = catalogue.wanted();
    let next_tries = catalogue.after(None).filter_map(|record| record.failure(wanted)?.next_try);
    assert_eq!(catalogue.next_try(), next_tries.min());

    let states = [
        None,
        Some(DocumentState::Pending),
        Some(DocumentState::Indexed),
        Some(DocumentState::Retrying),
        Some(DocumentState::SetAside),
    ];
    let holding = |labels: &[&str]| Access::holding(labels.iter().map(|l| l.parse().unwrap()));
    for access in [Access::all(), holding(&[]), holding(&["a"]), holding(&["a", "b"])] {
        assert_eq!(catalogue.counts(&access), walked_counts(catalogue, &access));
        for state in states {
            for after in [None, Some(id(3))] {
                let query = ListQuery { after, limit, state };
                let walked = walked_list(catalogue, &query, &access);
                assert_eq!(catalogue.list(&query, &access), walked, "{query:?}");
            }
        }
    }

    let key = |record: &DocumentRecord| {
        let structure = record.structure().unwrap();
        CorpusTreeKey::of_document(&record.id, structure.version, structure.recipe.0)
    };
    let with_trees: Vec<_> =
        catalogue.structured().map(|record| (record.id.clone(), key(record))).collect();
    let tree = catalogue.upper();
    let defined = CorpusTree::new(&with_trees, tree.max_children());
    assert_eq!(tree.root(), defined.root());
    assert_eq!(tree.missing().count(), defined.len());
    assert!(tree.missing().all(|key| defined.get(key).is_some()));

    let not_set_aside = |due: fn(&DocumentRecord) -> Option<&SourceFacts>| {
        let records = catalogue.after(None);
        let is_due = |record: &&Arc<DocumentRecord>| {
            let failure = record.failure(wanted);
            due(record).is_some() && failure.is_none_or(|failure| failure.next_try.is_some())
        };
        records.filter(is_due).count() as u64
    };
    let lag = catalogue.lag();
    let lengths = [lag.waiting, lag.outdated, lag.without_structure];
    assert_eq!(lengths, due_versions.map(not_set_aside));
}

/// Returns what is shown of the tree and graph of each document.
fn shown(catalogue: &Catalogue) -> HashMap<DocumentId, (NodeFacts, Labels)> {
    let of = |record: &Arc<DocumentRecord>| (*record.structure().unwrap(), record.needs().clone());
    catalogue.structured().map(|record| (record.id.clone(), of(record))).collect()
}

proptest! {
    #[test]
    fn what_is_kept_in_order_is_what_a_walk_finds(
        changes in changes(),
        now in 0_i64..10,
        busy in prop::collection::hash_set((0_u8..8).prop_map(id), 0..3),
        limit in 0_usize..10,
    ) {
        let mut catalogue = Catalogue::new(WANTED, 3);
        let mut revisions = vec![(catalogue.revision(), shown(&catalogue))];
        for (step, (number, change)) in changes.into_iter().enumerate() {
            apply(&mut catalogue, step, number, change);
            revisions.push((catalogue.revision(), shown(&catalogue)));
        }
        check(&catalogue, now, &busy, limit);
        let now_shown = shown(&catalogue);
        for (revision, shown) in revisions {
            let changed: HashSet<_> = catalogue.structure_changes(revision).unwrap().collect();
            for number in 0..8 {
                let is_same = shown.get(&id(number)) == now_shown.get(&id(number));
                prop_assert!(is_same || changed.contains(&id(number)));
            }
        }
        let other = Wanted { chunks: Recipes { wanted: OTHER, as_good: None }, structure: None };
        check(&catalogue.wanting(other, 3), now, &busy, limit);
        check(&catalogue.wanting(WANTED, 2), now, &busy, limit);
    }
}
