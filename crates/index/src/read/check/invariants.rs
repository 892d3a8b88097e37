//! Checks the rows of one document.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{Breach, ChunkId, CorpusName, DocumentShape, Invariant, Span};

use crate::catalogue::record::DocumentRecord;
use crate::read::check::stored::{DocumentRows, StoredChunk};
use crate::table::rows::nodes::StoredNode;
use crate::table::vectors::Vectors;

/// Maximum number of breaches reported per document: a damaged one may have thousands of chunks.
const DETAILS: usize = 8;

/// Returns the breaches of one document, without those of its tree.
pub(super) fn document_breaches(
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
pub(super) fn tree_breach(
    record: &DocumentRecord,
    rows: &DocumentRows,
    max_children: u32,
) -> Option<String> {
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
        ChunkText, ContentHash, Labels, Recipe, Recipes, StoredDocument, Timestamp, Version,
    };

    use super::*;
    use crate::catalogue::record::Wanted;
    use crate::fixture::document;
    use crate::table::rows::chunks::ChunkKey;
    use crate::values::facts::{ChunkFacts, Facts, NodeFacts, SourceFacts};
    use crate::values::nodes::NodeRow;

    const RECIPE: Recipe = Recipe(3);
    const WANTED: Recipes = Recipes { wanted: RECIPE, as_good: None };
    const TEXT: &str = "one two three";

    fn corpus() -> CorpusName {
        "notes".parse().unwrap()
    }

    /// Returns a document of two chunks, with what the owner knows of it.
    fn sound() -> (DocumentRecord, DocumentRows) {
        let document = document("a", TEXT);
        let accepted_at = Timestamp::from_micros(1);
        let source = SourceFacts {
            version: Version(4),
            content_hash: document.content_hash(),
            accepted_at,
            bytes: TEXT.len() as u64,
            labels: Labels::default(),
            source_version: None,
        };
        let chunk = |ordinal: u32, span: Span| StoredChunk {
            id: ChunkId::derive(&corpus(), &document.id, Version(4), ordinal).to_string(),
            key: ChunkKey {
                document_id: document.id.clone(),
                version: Version(4),
                recipe: RECIPE,
                ordinal,
            },
            row: ChunkText {
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
            growing: None,
            nodes: Vec::new(),
            failure: None,
        };
        let wanted = Wanted { chunks: WANTED, structure: None };
        let record = DocumentRecord::new(document.id.clone(), facts, wanted);
        let stored = StoredDocument { document, version: Version(4), accepted_at };
        let sources = vec![(stored, source)];
        let rows = DocumentRows { sources, chunks, ..DocumentRows::default() };
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
                vector: None,
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
