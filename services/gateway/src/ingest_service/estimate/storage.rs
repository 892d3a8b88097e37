//! What the tables of a run take of the storage, once older versions are removed.

use clew_core::{CorpusSettings, Counts};

/// Texts and rows that would be stored.
#[derive(Debug)]
pub(super) struct Amounts {
    pub documents: u64,
    /// Bytes of titles and texts.
    pub content_bytes: u64,
    pub chunks: u64,
    /// Bytes of the chunks' passages.
    pub passage_bytes: u64,
    /// Bytes of their key texts and titles.
    pub key_bytes: u64,
    pub nodes: u64,
    /// Bytes of summaries, keys and titles.
    pub summary_bytes: u64,
    pub extraction_bytes: u64,
}

/// Bytes of a row besides its texts and vectors, as stored, and bytes stored of a byte of text in a table's columns.
///
/// Measured on READMEs and change logs of Rust crates, one shard, vectors of 384 dimensions, after the older versions
/// were removed (bytes on the disk):
///
/// | | 52 documents | 199 documents |
/// |---|---|---|
/// | texts | 286,697 | 1,212,658 |
/// | `sources/data` | 202,395 | 554,167 |
/// | chunks; `chunks/data` less the vectors | 585; 361,341 | 2,589; 1,703,106 |
/// | `nodes/data` | 222,462 | 880,420 |
/// | words of `sources`, of `chunks` | 121,324; 153,447 | 359,333; 487,579 |
/// | other indexes of `chunks` | none yet | 55,355 |
///
/// Texts are stored the denser the more there are, so that no ratio fits both; these are between.
struct PerRow {
    row: f64,
    text: f64,
}

const DOCUMENTS: PerRow = PerRow { row: 150.0, text: 0.5 };
const CHUNKS: PerRow = PerRow { row: 60.0, text: 0.6 };
const NODES: PerRow = PerRow { row: 20.0, text: 0.56 };
/// Bytes of the index of words for a byte of text in it.
const WORDS: f64 = 0.33;
/// Bytes of a row in the indexes of ids, times, attributes and labels.
const SCALARS: f64 = 19.0;
/// Bytes of a row in the index of vectors beside five bits a dimension.
const VECTOR: f64 = 24.0;
/// Bytes of a shard without a document: what its tables say of themselves.
const SHARD: u64 = 6_000;

/// Rows of a shard's table from which there are indexes of ids, times, attributes and labels, and chunks from which
/// there is one of vectors; as the index crate has them by default.
const INDEX_ROWS: u64 = 2_000;
const VECTOR_INDEX_ROWS: u64 = 20_000;

/// Bytes by what they are of.
#[derive(Debug)]
pub(super) struct Storage {
    pub documents: u64,
    pub chunks: u64,
    pub nodes: u64,
    pub indexes: u64,
}

impl Storage {
    /// What `amounts` take in a corpus which holds `there` already.
    pub(super) fn of(settings: &CorpusSettings, amounts: &Amounts, there: &Counts) -> Self {
        let shards = u64::from(settings.shards.max(1));
        let dimensions: f64 = settings.encoders().map(|it| f64::from(it.dimension)).sum();
        let Amounts { documents, chunks, nodes, .. } = *amounts;
        let content = amounts.content_bytes as f64;
        let keys = amounts.key_bytes as f64;
        // Rows that an index has which is there from so many rows on.
        let indexed = |there: u64, new: u64, from: u64| {
            let rows = |rows: u64| if rows / shards >= from { rows } else { 0 };
            rows(there.saturating_add(new)).saturating_sub(rows(there)) as f64
        };
        let scalars = indexed(there.accepted, documents, INDEX_ROWS)
            + indexed(there.chunks, chunks, INDEX_ROWS)
            + indexed(there.nodes, nodes, INDEX_ROWS);
        let vectors = indexed(there.chunks, chunks, VECTOR_INDEX_ROWS);
        let of_vector = dimensions * 5.0 / 8.0 + VECTOR;
        let empty = if there.accepted == 0 { (shards * SHARD) as f64 } else { 0.0 };
        let whole = |bytes: f64| bytes.ceil() as u64;
        Self {
            documents: whole(DOCUMENTS.bytes(documents, content) + empty),
            chunks: whole(
                CHUNKS.bytes(chunks, amounts.passage_bytes as f64 + keys)
                    + chunks as f64 * dimensions * 4.0,
            ),
            nodes: whole(
                NODES.bytes(nodes, amounts.summary_bytes as f64 + amounts.extraction_bytes as f64),
            ),
            indexes: whole((content + keys) * WORDS + scalars * SCALARS + vectors * of_vector),
        }
    }

    pub(super) fn total(&self) -> u64 {
        let parts = [self.documents, self.chunks, self.nodes, self.indexes];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl PerRow {
    fn bytes(&self, rows: u64, text: f64) -> f64 {
        rows as f64 * self.row + text * self.text
    }
}
