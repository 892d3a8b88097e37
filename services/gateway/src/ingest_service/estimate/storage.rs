//! Estimates of the storage that the tables of an ingestion take, after older versions are pruned.

use clew_core::{CorpusSettings, Counts};

/// Texts and rows that the ingestion would store.
#[derive(Debug)]
pub(super) struct Amounts {
    pub documents: u64,
    /// Bytes of titles and texts.
    pub content_bytes: u64,
    pub chunks: u64,
    /// Bytes of the chunks' passages.
    pub passage_bytes: u64,
    /// Bytes of the chunks' key texts and titles.
    pub key_bytes: u64,
    pub nodes: u64,
    /// Bytes of summaries, keys and titles.
    pub summary_bytes: u64,
    pub extraction_bytes: u64,
}

/// Stored bytes of a row besides its texts and vectors, and stored bytes per byte of text in a
/// table's columns.
///
/// Measured on READMEs and change logs of Rust crates, in one shard, with vectors of 384
/// dimensions, after older versions were pruned (bytes on disk):
///
/// | | 52 documents | 199 documents |
/// |---|---|---|
/// | texts | 286,697 | 1,212,658 |
/// | `sources/data` | 202,395 | 554,167 |
/// | chunks; `chunks/data` less the vectors | 585; 361,341 | 2,589; 1,703,106 |
/// | `nodes/data` less the vectors | 222,462 | 880,420 |
/// | words of `sources`, of `chunks` | 121,324; 153,447 | 359,333; 487,579 |
/// | other indexes of `chunks` | none yet | 55,355 |
///
/// The more texts there are, the denser they are stored, so no ratio fits both columns. These
/// values lie between them.
struct PerRow {
    row: f64,
    text: f64,
}

const DOCUMENTS: PerRow = PerRow { row: 150.0, text: 0.5 };
const CHUNKS: PerRow = PerRow { row: 60.0, text: 0.6 };
const NODES: PerRow = PerRow { row: 20.0, text: 0.56 };
/// Bytes of the full-text index per byte of indexed text.
const WORDS: f64 = 0.33;
/// Bytes per row of the indexes of ids, times, attributes and labels.
const SCALARS: f64 = 19.0;
/// Bytes per row of the vector index, besides five bits per dimension.
const VECTOR: f64 = 24.0;
/// Bytes of a shard without documents: the metadata of its tables.
const SHARD: u64 = 6_000;

/// Number of rows of a shard's table from which ids, times, attributes and labels are indexed, and
/// number of chunks from which vectors are. The same as the defaults of `clew-index`.
const INDEX_ROWS: u64 = 2_000;
const VECTOR_INDEX_ROWS: u64 = 20_000;

/// Stored bytes, by kind.
#[derive(Debug)]
pub(super) struct Storage {
    pub documents: u64,
    pub chunks: u64,
    pub nodes: u64,
    pub indexes: u64,
}

impl Storage {
    /// Estimates the storage that `amounts` take in a corpus that already holds `there`.
    pub(super) fn of(settings: &CorpusSettings, amounts: &Amounts, there: &Counts) -> Self {
        let shards = u64::from(settings.shards.max(1));
        let dimensions: f64 = settings.encoders().map(|it| f64::from(it.dimension)).sum();
        let Amounts { documents, chunks, nodes, .. } = *amounts;
        let content = amounts.content_bytes as f64;
        let keys = amounts.key_bytes as f64;
        // New rows of an index that exists from `from` rows per shard on.
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
                NODES.bytes(nodes, amounts.summary_bytes as f64 + amounts.extraction_bytes as f64)
                    + nodes as f64 * f64::from(settings.encoder.dimension) * 4.0,
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
