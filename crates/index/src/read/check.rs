//! Checks a shard: invariants of the stored data, as predicates over its tables.
//!
//! A check only reads. It works on one view of the shard, so writes may go on meanwhile. Rows that
//! the owner knows it has to sweep and documents that wait to be indexed are not breaches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow::datatypes::{Float32Type, UInt32Type};
use clew_core::{
    Access, Breach, CheckQuery, Checked, ChunkId, CorpusName, DocumentId, DocumentShape, Invariant,
    Labels, Span, StoredDocument,
};
use lancedb::query::{QueryBase, Select};

use crate::catalogue::reading::Reading;
use crate::catalogue::record::DocumentRecord;
use crate::error::Result;
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::scan;
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::chunks::{ChunkKey, ChunkRow};
use crate::table::rows::nodes::StoredNode;
use crate::table::vectors::{Vectors, is_of_vectors};
use crate::values::facts::{Facts, SourceFacts};

/// Approximate bytes of documents that are read at once.
const PAGE_BYTES: u64 = 16 << 20;
/// Maximum number of breaches reported per document: a damaged one may have thousands of chunks.
const DETAILS: usize = 8;

/// Checks a page of the documents that a caller sees; see [`clew_core::Shard::check`].
pub(crate) async fn check(
    snapshot: &Snapshot,
    access: &Access,
    query: &CheckQuery,
) -> Result<Checked> {
    let mut breaches = Vec::new();
    if query.after.is_none() {
        breaches.extend(state_breaches(snapshot).await?);
        // If a document is unknown, so are its labels.
        let is_seen = |id: &DocumentId| access.is_all() || snapshot.catalogue.sees(access, id);
        breaches.retain(|breach| is_seen(&breach.document_id));
    }
    let mut bytes = 0;
    let mut page = Vec::new();
    let records = snapshot.catalogue.after(query.after.as_ref());
    for record in records.filter(|record| record.is_seen_by(access)).take(query.limit) {
        bytes += record.facts.sources.iter().map(|source| source.bytes).sum::<u64>();
        if bytes > PAGE_BYTES && !page.is_empty() {
            break;
        }
        page.push(record);
    }
    let mut rows = read(snapshot, page.iter().map(|record| &record.id)).await?;
    let mut chunks = 0;
    for record in &page {
        let rows = rows.remove(&record.id).unwrap_or_default();
        chunks += rows.chunks.len() as u64;
        let (corpus, vectors) = (&snapshot.corpus, &snapshot.vectors);
        breaches.extend(document_breaches(corpus, vectors, record, &rows));
        let tree = tree_breach(record, &rows, snapshot.max_children);
        breaches.extend(tree.map(|detail| Breach {
            invariant: Invariant::TreeTrue,
            document_id: record.id.clone(),
            detail,
        }));
    }
    Ok(Checked {
        documents: page.len() as u64,
        chunks,
        breaches,
        last: page.last().map(|record| record.id.clone()),
    })
}

/// Rows of the tables about one document.
#[derive(Debug, Default)]
struct DocumentRows {
    sources: Vec<(StoredDocument, SourceFacts)>,
    chunks: Vec<StoredChunk>,
    nodes: Vec<StoredNode>,
}

#[derive(Debug)]
struct StoredChunk {
    id: String,
    key: ChunkKey,
    row: ChunkRow,
    labels: Labels,
    tokens: u32,
    /// Euclidean lengths of its vectors, by column. Columns with a null are left out.
    lengths: BTreeMap<String, f32>,
}

async fn read<'a>(
    snapshot: &Snapshot,
    ids: impl Iterator<Item = &'a DocumentId> + Clone,
) -> Result<HashMap<DocumentId, DocumentRows>> {
    let mut found: HashMap<DocumentId, DocumentRows> = HashMap::new();
    if ids.clone().next().is_none() {
        return Ok(found);
    }
    let sources = snapshot.sources.query().only_if_expr(filter::documents(ids.clone()));
    scan(TableKind::Sources, sources, |batch| {
        let rows = Rows::new(TableKind::Sources, batch);
        for (stored, (id, facts)) in rows.documents()?.into_iter().zip(rows.source_facts()?) {
            found.entry(id).or_default().sources.push((stored, facts));
        }
        Ok(())
    })
    .await?;
    let nodes = snapshot.nodes.query().only_if_expr(filter::documents(ids.clone()));
    scan(TableKind::Nodes, nodes, |batch| {
        for node in Rows::new(TableKind::Nodes, batch).nodes()? {
            found.entry(node.document_id.clone()).or_default().nodes.push(node);
        }
        Ok(())
    })
    .await?;
    let chunks = snapshot.chunks.query().only_if_expr(filter::documents(ids));
    scan(TableKind::Chunks, chunks, |batch| {
        for chunk in stored_chunks(&Rows::new(TableKind::Chunks, batch))? {
            found.entry(chunk.key.document_id.clone()).or_default().chunks.push(chunk);
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

fn stored_chunks(rows: &Rows<'_>) -> Result<Vec<StoredChunk>> {
    let ids = rows.chunk_ids()?;
    let tokens = rows.values::<UInt32Type>(column::TOKENS)?;
    let mut lengths: Vec<BTreeMap<String, f32>> = vec![BTreeMap::new(); ids.len()];
    for name in rows.columns().filter(|name| is_of_vectors(name)) {
        let length = |vector: Vec<f32>| vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        for (of_row, vector) in lengths.iter_mut().zip(rows.lists::<Float32Type>(name)?) {
            if !vector.is_empty() {
                of_row.insert(name.to_owned(), length(vector));
            }
        }
    }
    let with_rows = rows.chunk_keys()?.into_iter().zip(rows.chunk_rows()?);
    let measured = rows.label_sets()?.into_iter().zip(tokens.into_iter().zip(lengths));
    let parts = ids.into_iter().zip(with_rows).zip(measured);
    let chunk = |((id, (key, row)), (labels, (tokens, lengths)))| StoredChunk {
        id,
        key,
        row,
        labels,
        tokens,
        lengths,
    };
    Ok(parts.map(chunk).collect())
}

/// Returns the differences between the owner's memory and the tables.
async fn state_breaches(snapshot: &Snapshot) -> Result<Vec<Breach>> {
    let mut reading = Reading::default();
    for (kind, table) in [
        (TableKind::Sources, &snapshot.sources),
        (TableKind::Chunks, &snapshot.chunks),
        (TableKind::Nodes, &snapshot.nodes),
    ] {
        let query = table.query().select(Select::columns(Reading::columns(kind)));
        scan(kind, query, |batch| reading.add(kind, batch)).await?;
    }
    // Corpus tree nodes are not of any one document, so they are not checked here.
    let (documents, _upper) = reading.finish();
    let mut stored: BTreeMap<DocumentId, Facts> = documents.into_iter().collect();
    let breach = |document_id: &DocumentId, known: &Facts, found: &Facts| Breach {
        invariant: Invariant::StateTrue,
        document_id: document_id.clone(),
        detail: format!("known are {}; stored are {}", outline(known), outline(found)),
    };
    let mut breaches = Vec::new();
    for record in snapshot.catalogue.after(None) {
        let found = stored.remove(&record.id).unwrap_or_default();
        if sorted(&record.facts) != sorted(&found) {
            breaches.push(breach(&record.id, &record.facts, &found));
        }
    }
    let unknown = stored.iter().map(|(id, found)| breach(id, &Facts::default(), found));
    breaches.extend(unknown);
    Ok(breaches)
}

/// Returns facts in an order that does not depend on their history, without failures, which have a
/// table of their own.
fn sorted(facts: &Facts) -> Facts {
    let mut facts = Facts { failure: None, ..facts.clone() };
    facts.sources.sort_by_key(|source| source.version);
    facts.chunks.sort_by_key(|chunks| (chunks.version, chunks.recipe.0));
    facts.nodes.sort_by_key(|nodes| (nodes.version, nodes.recipe.0));
    facts
}

fn outline(facts: &Facts) -> String {
    let sources: Vec<u64> = facts.sources.iter().map(|source| source.version.0).collect();
    let chunks = facts.chunks.iter().map(|of| (of.version.0, of.chunks)).collect::<Vec<_>>();
    format!("versions {sources:?} and (version, chunks) {chunks:?}")
}

/// Returns the breaches of one document, without those of its tree.
fn document_breaches(
    corpus: &CorpusName,
    vectors: &Vectors,
    record: &DocumentRecord,
    rows: &DocumentRows,
) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut breach = |invariant, detail: String| {
        if breaches.len() < DETAILS {
            breaches.push(Breach { invariant, document_id: record.id.clone(), detail });
        }
    };
    let mut versions: BTreeMap<u64, usize> = BTreeMap::new();
    for (stored, facts) in &rows.sources {
        *versions.entry(stored.version.0).or_default() += 1;
        let version = stored.version;
        let bytes = stored.document.text.len() as u64;
        if bytes != facts.bytes {
            let detail = format!("{version}: expected {} bytes, got {bytes}", facts.bytes);
            breach(Invariant::TextWhole, detail);
        } else if stored.document.content_hash() != facts.content_hash {
            let detail = format!("{version}: its text has another hash than when accepted");
            breach(Invariant::TextWhole, detail);
        }
    }
    for source in &record.facts.sources {
        match versions.get(&source.version.0).copied().unwrap_or(0) {
            1 => {}
            count => {
                let detail = format!("{}: expected one row, got {count}", source.version);
                breach(Invariant::StoredOnce, detail);
            }
        }
    }
    let Some(live) = record.live() else { return breaches };
    let source = rows.sources.iter().find(|(stored, _)| stored.version == live.version);
    // Reported above already.
    let Some((source, _)) = source else { return breaches };
    let text = source.document.text.as_str();
    // Chunks that are to be made again have no vectors of the model that the corpus moves to.
    let vectors: Vec<&String> = match record.outdated() {
        None => vectors.wanted.iter().collect(),
        Some(_) => vectors.of("").map(|searched| &searched.name).into_iter().collect(),
    };
    let is_live = |chunk: &&StoredChunk| record.is_live(chunk.key.version, chunk.key.recipe);
    let mut chunks: Vec<&StoredChunk> = rows.chunks.iter().filter(is_live).collect();
    chunks.sort_by_key(|chunk| chunk.key.ordinal);
    let mut covered = 0;
    for (ordinal, chunk) in chunks.iter().enumerate() {
        let (span, is) = (chunk.row.span, chunk.key.ordinal);
        if is as usize != ordinal {
            breach(Invariant::ChunksCover, format!("expected chunk {ordinal}, got chunk {is}"));
            return breaches;
        }
        if span.start > covered || (ordinal == 0 && span.start != 0) {
            let detail = format!("chunk {is}: bytes {covered}..{} are in no chunk", span.start);
            breach(Invariant::ChunksCover, detail);
        }
        covered = covered.max(span.end);
        let id = ChunkId::derive(corpus, &record.id, live.version, is).to_string();
        if chunk.id != id {
            breach(Invariant::ChunkTrue, format!("chunk {is}: expected id {id}, got {}", chunk.id));
        }
        if span.of(text) != Some(chunk.row.text.as_str()) {
            let Span { start, end } = span;
            let detail =
                format!("chunk {is}: its text is not bytes {start}..{end} of its document");
            breach(Invariant::ChunkTrue, detail);
        }
        if chunk.row.title != source.document.title {
            breach(Invariant::ChunkTrue, format!("chunk {is}: its title is not the document's"));
        }
        if chunk.labels != source.document.labels {
            breach(Invariant::ChunkTrue, format!("chunk {is}: its labels are not the document's"));
        }
        if chunk.tokens == 0 {
            breach(Invariant::ChunkTrue, format!("chunk {is}: it has no tokens"));
        }
        for name in &vectors {
            match chunk.lengths.get(*name) {
                Some(length) if length.is_finite() && *length > 0.0 => {}
                found => {
                    let found = found.map_or("none".to_owned(), |it| format!("one of length {it}"));
                    let detail = format!("chunk {is}: expected a vector in `{name}`, got {found}");
                    breach(Invariant::ChunkTrue, detail);
                }
            }
        }
    }
    if covered != text.len() {
        let detail = format!("the chunks end at byte {covered} of {}", text.len());
        breach(Invariant::ChunksCover, detail);
    }
    breaches
}

/// Returns the first breach of a document's visible tree.
fn tree_breach(record: &DocumentRecord, rows: &DocumentRows, max_children: u32) -> Option<String> {
    let shown = record.structure()?;
    let source = rows.sources.iter().find(|(stored, _)| stored.version == shown.version);
    // Reported elsewhere.
    let text = source?.0.document.text.len();
    let is_shown =
        |node: &&StoredNode| (node.version, node.recipe) == (shown.version, shown.recipe);
    let nodes: Vec<&StoredNode> = rows.nodes.iter().filter(is_shown).collect();
    let segments = nodes.iter().filter(|node| node.row.level == 0).count();
    let shape = DocumentShape::new(u32::try_from(segments).unwrap_or(u32::MAX), max_children);
    let expected: BTreeSet<(u32, u32)> = (0..)
        .zip(shape.levels())
        .flat_map(|(level, count)| (0..*count).map(move |ordinal| (level, ordinal)))
        .collect();
    let mut spans: BTreeMap<(u32, u32), Span> = BTreeMap::new();
    for node in &nodes {
        let place = (node.row.level, node.row.ordinal);
        let is_root = node.row.level == shape.root_level();
        if !expected.contains(&place) || spans.insert(place, node.row.span).is_some() {
            return Some(format!("node {}.{} is there once too often", place.0, place.1));
        }
        if node.row.is_root != is_root {
            return Some(format!("node {}.{} is not told from the root", place.0, place.1));
        }
    }
    if let Some((level, ordinal)) = expected.iter().find(|place| !spans.contains_key(place)) {
        return Some(format!("node {level}.{ordinal} is missing"));
    }
    let mut covered = 0;
    for (&(level, ordinal), span) in &spans {
        let below = shape.children(level, ordinal);
        let (first, last) = (below.start, below.end.saturating_sub(1));
        let holds = match level.checked_sub(1) {
            None => span.start <= covered && span.end > covered,
            Some(below) => {
                let of = |ordinal| spans.get(&(below, ordinal));
                of(first).is_some_and(|child| child.start == span.start)
                    && of(last).is_some_and(|child| child.end == span.end)
            }
        };
        if !holds {
            let Span { start, end } = *span;
            return Some(format!(
                "node {level}.{ordinal} does not cover {start}..{end} as it says"
            ));
        }
        if level == 0 {
            covered = span.end;
        }
    }
    (covered != text).then(|| format!("the segments end at byte {covered} of {text}"))
}

#[cfg(test)]
mod tests {
    use clew_core::{
        Attributes, ContentHash, Document, MediaType, Recipe, Recipes, Timestamp, Version,
    };

    use super::*;
    use crate::catalogue::record::Wanted;
    use crate::values::facts::{ChunkFacts, NodeFacts};
    use crate::values::nodes::NodeRow;

    const RECIPE: Recipe = Recipe(3);
    const WANTED: Recipes = Recipes { wanted: RECIPE, as_good: None };
    const TEXT: &str = "one two three";

    fn corpus() -> CorpusName {
        "notes".parse().unwrap()
    }

    /// Returns a document of two chunks, with what the owner knows of it.
    fn sound() -> (DocumentRecord, DocumentRows) {
        let document = Document {
            id: "a".parse().unwrap(),
            text: TEXT.to_owned(),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::default(),
        };
        let accepted_at = Timestamp::from_micros(1);
        let source = SourceFacts {
            version: Version(4),
            content_hash: document.content_hash(),
            accepted_at,
            bytes: TEXT.len() as u64,
            labels: Labels::default(),
        };
        let chunk = |ordinal: u32, span: Span| StoredChunk {
            id: ChunkId::derive(&corpus(), &document.id, Version(4), ordinal).to_string(),
            key: ChunkKey {
                document_id: document.id.clone(),
                version: Version(4),
                recipe: RECIPE,
                ordinal,
            },
            row: ChunkRow {
                span,
                text: span.of(TEXT).unwrap().to_owned(),
                title: String::new(),
                event_time: None,
            },
            labels: Labels::default(),
            tokens: 2,
            lengths: [("vector".to_owned(), 1.0)].into(),
        };
        // Rows may come in any order.
        let chunks = vec![chunk(1, Span::new(8, TEXT.len())), chunk(0, Span::new(0, 8))];
        let facts = Facts {
            sources: vec![source.clone()],
            chunks: vec![ChunkFacts {
                version: Version(4),
                recipe: RECIPE,
                chunks: 2,
                tokens: 4,
                is_whole: true,
            }],
            nodes: Vec::new(),
            failure: None,
        };
        let wanted = Wanted { chunks: WANTED, structure: None };
        let record = DocumentRecord::new(document.id.clone(), facts, wanted);
        let stored = StoredDocument { document, version: Version(4), accepted_at };
        let rows = DocumentRows { sources: vec![(stored, source)], chunks, nodes: Vec::new() };
        (record, rows)
    }

    fn broken_by(damage: impl FnOnce(&mut DocumentRows)) -> Vec<Invariant> {
        let (record, mut rows) = sound();
        damage(&mut rows);
        let vectors = Vectors {
            there: Vec::new(),
            wanted: vec!["vector".to_owned()],
            searched: String::new(),
        };
        let breaches = document_breaches(&corpus(), &vectors, &record, &rows);
        assert!(breaches.iter().all(|breach| !breach.detail.contains("two")), "{breaches:?}");
        breaches.into_iter().map(|breach| breach.invariant).collect()
    }

    #[test]
    fn each_kind_of_damage_breaks_its_invariant() {
        use Invariant::*;
        assert_eq!(broken_by(|_| {}), []);
        assert_eq!(broken_by(|rows| rows.sources.clear()), [StoredOnce]);
        let twice = |rows: &mut DocumentRows| rows.sources.push(rows.sources[0].clone());
        assert_eq!(broken_by(twice), [StoredOnce]);
        assert_eq!(broken_by(|rows| rows.sources[0].1.bytes += 1), [TextWhole]);
        let other_hash = |rows: &mut DocumentRows| {
            rows.sources[0].1.content_hash = ContentHash([0; 32]);
        };
        assert_eq!(broken_by(other_hash), [TextWhole]);
        assert_eq!(broken_by(|rows| rows.chunks.truncate(1)), [ChunksCover]);
        assert_eq!(broken_by(|rows| drop(rows.chunks.remove(0))), [ChunksCover]);
        let gap = |rows: &mut DocumentRows| {
            rows.chunks[0].row.span.start = 9;
            rows.chunks[0].row.text.remove(0);
        };
        assert_eq!(broken_by(gap), [ChunksCover]);
        let overlap = |rows: &mut DocumentRows| {
            rows.chunks[0].row.span.start = 4;
            rows.chunks[0].row.text = TEXT[4..].to_owned();
        };
        assert_eq!(broken_by(overlap), []);
        assert_eq!(broken_by(|rows| rows.chunks[0].id.push('0')), [ChunkTrue]);
        assert_eq!(broken_by(|rows| rows.chunks[1].row.text.push('!')), [ChunkTrue]);
        assert_eq!(broken_by(|rows| rows.chunks[1].row.title.push('!')), [ChunkTrue]);
        for length in [0.0, f32::NAN, f32::INFINITY] {
            let of_that_length = |rows: &mut DocumentRows| {
                rows.chunks[1].lengths.insert("vector".to_owned(), length);
            };
            assert_eq!(broken_by(of_that_length), [ChunkTrue]);
        }
    }

    #[test]
    fn chunks_that_no_search_finds_may_be_anything() {
        let stray = |rows: &mut DocumentRows| {
            let (_, other) = sound();
            rows.chunks.extend(other.chunks);
            rows.chunks[3].key.recipe = Recipe(9);
            rows.chunks[2].key.version = Version(2);
        };
        assert_eq!(broken_by(stray), []);
    }

    /// Returns a document of three segments, with what the owner knows of its tree.
    fn with_tree() -> (DocumentRecord, DocumentRows) {
        let (record, mut rows) = sound();
        let structure = Recipe(8);
        let mut node = |level, ordinal, span: Span| {
            let row = NodeRow {
                level,
                ordinal,
                is_root: level == 2,
                span,
                summary: String::new(),
                key: String::new(),
                extraction: String::new(),
            };
            rows.nodes.push(StoredNode {
                document_id: record.id.clone(),
                version: Version(4),
                recipe: structure,
                title: String::new(),
                row,
            });
        };
        node(2, 0, Span::new(0, 13));
        node(1, 0, Span::new(0, 8));
        node(1, 1, Span::new(8, 13));
        node(0, 0, Span::new(0, 4));
        node(0, 1, Span::new(4, 8));
        node(0, 2, Span::new(8, 13));
        let mut facts = record.facts.clone();
        let (version, recipe) = (Version(4), structure);
        facts.nodes.push(NodeFacts { version, recipe, rows: 6, nodes: 6 });
        let wanted = Wanted { chunks: WANTED, structure: Some(structure) };
        (DocumentRecord::new(record.id.clone(), facts, wanted), rows)
    }

    #[test]
    fn a_tree_has_each_node_once_over_the_whole_text() {
        let told = |damage: &dyn Fn(&mut Vec<StoredNode>)| {
            let (record, mut rows) = with_tree();
            damage(&mut rows.nodes);
            tree_breach(&record, &rows, 2)
        };
        assert_eq!(told(&|_| {}), None);
        type Damage = fn(&mut Vec<StoredNode>);
        let damages: [(Damage, &str); 6] = [
            (|nodes| drop(nodes.remove(1)), "missing"),
            (|nodes| nodes.push(nodes[4].clone()), "too often"),
            (|nodes| nodes[4].row.span.start = 5, "does not cover"),
            (|nodes| nodes[1].row.span.end = 7, "does not cover"),
            (|nodes| nodes[0].row.is_root = false, "told from the root"),
            (|nodes| nodes.truncate(5), "too often"),
        ];
        for (damage, expected) in damages {
            let breach = told(&damage).expect(expected);
            assert!(breach.contains(expected), "{breach}");
        }
        // Nodes of another version may be anything.
        assert_eq!(
            told(&|nodes| {
                nodes.push(StoredNode { version: Version(2), ..nodes[0].clone() });
            }),
            None
        );
    }
}
