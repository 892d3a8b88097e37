//! Searches a shard.
//!
//! A search runs on one view of the shard, in two steps. First it ranks rows by their keys and
//! scores and drops rows that are not visible and, if documents are wanted, all but the best row of
//! each. Then it reads the texts of the remaining rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{Float32Type, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{
    Access, CandidateQuery, Candidates, ChunkId, DocumentId, Grouping, Hit, SearchMode,
};
use futures::{TryFutureExt, TryStreamExt};
use lancedb::DistanceType;
use lancedb::Table;
use lancedb::datafusion::prelude::Expr;
use lancedb::index::scalar::FullTextSearchQuery;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::{Error, Operation, Result};
use crate::read::attainable::attainable_score;
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::{failed, run};
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::chunks::{ChunkKey, ChunkRow};
use crate::table::vectors::StoredVectors;
use crate::values::vector::is_direction;

/// Minimum number of partitions of the vector index that a search reads. Together with [`REFINE`],
/// recall@10 is 0.9975 on 100,000 passages of documentation.
const PROBES: usize = 20;
/// Number of candidates that are compared by their full vectors, for each one wanted.
const REFINE: u32 = 5;

/// Number of rows read at first per wanted document, if documents are ranked by their best chunk.
const CHUNKS_PER_DOCUMENT: usize = 4;

const ROW: &str = "_rowid";
const DISTANCE: &str = "_distance";
const SCORE: &str = "_score";

/// Returns the best chunks or documents for a query, of those that a caller sees.
pub(crate) async fn candidates(
    snapshot: Arc<Snapshot>,
    access: &Access,
    query: &CandidateQuery,
) -> Result<Candidates> {
    let search = Search { snapshot, access, query };
    let dense = match query.mode.uses_embeddings() {
        true => search.dense().await?,
        false => Vec::new(),
    };
    let sparse = match query.mode {
        SearchMode::Dense => Vec::new(),
        SearchMode::Sparse if search.ranks_whole_documents() => search.sparse_documents().await?,
        SearchMode::Sparse | SearchMode::Hybrid => search.ranked(Ranking::Matching).await?,
    };
    let attainable = match query.mode.uses_text_index() {
        true => search.attainable().await?,
        false => None,
    };
    search.read(dense, sparse, attainable).await
}

/// Row of `chunks` with its rank.
#[derive(Clone, Debug)]
struct Ranked {
    row: u64,
    key: ChunkKey,
    score: f32,
}

/// Way to rank rows of `chunks`.
#[derive(Clone, Copy)]
enum Ranking<'a> {
    /// By the cosine similarity of their vectors, in the named column, to this vector.
    Nearest(&'a [f32], &'a str),
    /// By the query's words.
    Matching,
}

/// Query on a view of the shard.
struct Search<'a> {
    snapshot: Arc<Snapshot>,
    access: &'a Access,
    query: &'a CandidateQuery,
}

impl Search<'_> {
    async fn dense(&self) -> Result<Vec<Ranked>> {
        let Some(StoredVectors { name, dimension, .. }) =
            self.snapshot.vectors.of(&self.query.encoder)
        else {
            return Err(Error::OtherVectors);
        };
        let dimension = *dimension;
        let vector = match self.query.vector.as_deref() {
            Some(vector) if vector.len() == dimension && is_direction(vector) => vector,
            Some(vector) => {
                return Err(Error::invalid(
                    "query.vector",
                    format!(
                        "expected {dimension} finite numbers, not all zero, got {}",
                        vector.len()
                    ),
                ));
            }
            None => return Err(Error::invalid("query.vector", "expected one for this mode")),
        };
        self.ranked(Ranking::Nearest(vector, name)).await
    }

    /// Ranks rows. Asks for more rows until enough of them are visible.
    async fn ranked(&self, ranking: Ranking<'_>) -> Result<Vec<Ranked>> {
        let wanted = self.query.limit;
        let mut limit = match self.query.grouping {
            Grouping::Chunks => wanted,
            Grouping::Documents => wanted.saturating_mul(CHUNKS_PER_DOCUMENT),
        };
        loop {
            let rows = match ranking {
                Ranking::Nearest(vector, column) => self.nearest(vector, column, limit).await?,
                Ranking::Matching => self.matching_chunks(self.allowed(), limit).await?,
            };
            let is_exhausted = rows.len() < limit;
            let mut kept = self.keep(rows);
            if kept.len() >= wanted || is_exhausted {
                kept.truncate(wanted);
                return Ok(kept);
            }
            limit = limit.saturating_mul(2);
        }
    }

    /// Returns the visible rows, best first, with each chunk or each document once.
    fn keep(&self, mut rows: Vec<Ranked>) -> Vec<Ranked> {
        rows.retain(|row| self.is_live(&row.key));
        sort(&mut rows);
        let mut seen = HashSet::new();
        rows.retain(|row| {
            let ordinal = match self.query.grouping {
                Grouping::Chunks => row.key.ordinal,
                Grouping::Documents => 0,
            };
            seen.insert((row.key.document_id.clone(), ordinal))
        });
        rows
    }

    /// Returns whether a row may be found. Its own labels were checked before it was scored, but
    /// the labels of a newer version of its document, which cannot be found yet, count too.
    fn is_live(&self, key: &ChunkKey) -> bool {
        let record = self.snapshot.catalogue.get(&key.document_id);
        record.is_some_and(|record| {
            record.is_live(key.version, key.recipe) && record.is_seen_by(self.access)
        })
    }

    /// Returns the condition on rows that is checked before they are scored.
    fn allowed(&self) -> Option<Expr> {
        let seen = filter::seen(self.snapshot.catalogue.label_sets(self.access));
        [filter::of_filter(&self.query.filter), seen].into_iter().flatten().reduce(Expr::and)
    }

    async fn nearest(&self, vector: &[f32], column: &str, limit: usize) -> Result<Vec<Ranked>> {
        let failed = || failed(TableKind::Chunks, Operation::Search);
        let mut query =
            self.snapshot.chunks.query().select(key_columns(DISTANCE)).limit(limit).with_row_id();
        if let Some(allowed) = self.allowed() {
            query = query.only_if_expr(allowed);
        }
        let mut query = query
            .nearest_to(vector)
            .map_err(failed())?
            .column(column)
            .distance_type(DistanceType::Cosine);
        query = if self.query.exact {
            query.bypass_vector_index()
        } else {
            // Without a maximum, the engine reads more partitions until there are enough rows.
            query
                .minimum_nprobes(PROBES)
                .and_then(|query| query.maximum_nprobes(None))
                .map_err(failed())?
                .refine_factor(REFINE)
        };
        let batches = collect(TableKind::Chunks, &query).await?;
        ranked_rows(&batches, DISTANCE, |distance| 1.0 - distance)
    }

    async fn matching_chunks(&self, allowed: Option<Expr>, limit: usize) -> Result<Vec<Ranked>> {
        let select = key_columns(SCORE);
        let table = &self.snapshot.chunks;
        let words = Words { text: &self.query.text, column: column::KEY_TEXT, allowed, limit };
        let batches = matching(TableKind::Chunks, table, words, select).await?;
        ranked_rows(&batches, SCORE, |score| score)
    }

    /// Returns whether words are searched in whole documents instead of chunks. Words alone judge a
    /// document best as a whole. Combined with embeddings, which exist only for chunks, they judge
    /// it better by the same best chunk.
    fn ranks_whole_documents(&self) -> bool {
        self.query.mode == SearchMode::Sparse && self.query.grouping == Grouping::Documents
    }

    async fn attainable(&self) -> Result<Option<f32>> {
        let (kind, table) = match self.ranks_whole_documents() {
            true => (TableKind::Sources, &self.snapshot.sources),
            false => (TableKind::Chunks, &self.snapshot.chunks),
        };
        attainable_score(kind, table, &self.query.text).await
    }

    /// Ranks documents by their whole text, then finds the best chunk of each to show.
    async fn sparse_documents(&self) -> Result<Vec<Ranked>> {
        let documents = self.matching_documents().await?;
        if documents.is_empty() {
            return Ok(Vec::new());
        }
        let ids = || documents.iter().map(|(id, _)| id);
        let chunks: u64 = ids()
            .filter_map(|id| self.snapshot.catalogue.get(id)?.live())
            .map(|live| live.chunks)
            .sum();
        let rows = self
            .matching_chunks(Some(filter::documents(ids())), usize::try_from(chunks).unwrap_or(1))
            .await?;
        let mut best: HashMap<DocumentId, Ranked> =
            self.keep(rows).into_iter().map(|row| (row.key.document_id.clone(), row)).collect();
        let without: Vec<&DocumentId> = ids().filter(|id| !best.contains_key(*id)).collect();
        for row in self.first_chunks(&without).await? {
            best.insert(row.key.document_id.clone(), row);
        }
        let shown = |(id, score)| best.remove(&id).map(|row| Ranked { score, ..row });
        Ok(documents.into_iter().filter_map(shown).collect())
    }

    /// Returns documents ranked by BM25 of their whole text, best first.
    async fn matching_documents(&self) -> Result<Vec<(DocumentId, f32)>> {
        let wanted = self.query.limit;
        let mut limit = wanted;
        loop {
            let words = Words {
                text: &self.query.text,
                column: column::CONTENT,
                allowed: self.allowed(),
                limit,
            };
            let select = Select::columns(&[column::DOCUMENT_ID, column::VERSION, SCORE]);
            let table = &self.snapshot.sources;
            let mut documents = Vec::new();
            let mut found = 0;
            for batch in matching(TableKind::Sources, table, words, select).await? {
                let rows = Rows::new(TableKind::Sources, &batch);
                let scores = rows.values::<Float32Type>(SCORE)?;
                for ((id, version), score) in rows.versions()?.into_iter().zip(scores) {
                    found += 1;
                    let record = self.snapshot.catalogue.get(&id);
                    let seen = record.filter(|record| record.is_seen_by(self.access));
                    let live = seen.and_then(|record| record.live());
                    if live.is_some_and(|live| live.version == version) {
                        documents.push((id, score));
                    }
                }
            }
            if documents.len() >= wanted || found < limit {
                documents.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
                let mut seen = HashSet::new();
                documents.retain(|(id, _)| seen.insert(id.clone()));
                documents.truncate(wanted);
                return Ok(documents);
            }
            limit = limit.saturating_mul(2);
        }
    }

    /// Returns the first chunk of each document, which is shown if no single chunk matches.
    async fn first_chunks(&self, ids: &[&DocumentId]) -> Result<Vec<Ranked>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let first = lancedb::expr::col(column::ORDINAL).eq(lancedb::expr::lit(0_u32));
        let predicate = filter::documents(ids.iter().copied()).and(first);
        let query = self
            .snapshot
            .chunks
            .query()
            .select(Select::columns(&KEY_COLUMNS))
            .only_if_expr(predicate)
            .with_row_id();
        let mut ranked = Vec::new();
        for batch in collect(TableKind::Chunks, &query).await? {
            let rows = Rows::new(TableKind::Chunks, &batch);
            let numbers = rows.values::<UInt64Type>(ROW)?;
            let keys = rows.chunk_keys()?.into_iter().zip(numbers);
            ranked.extend(keys.map(|(key, row)| Ranked { row, key, score: 0.0 }));
        }
        Ok(self.keep(ranked))
    }

    /// Reads the texts of the ranked rows.
    async fn read(
        &self,
        dense: Vec<Ranked>,
        sparse: Vec<Ranked>,
        attainable: Option<f32>,
    ) -> Result<Candidates> {
        let rows: HashSet<u64> = dense.iter().chain(&sparse).map(|ranked| ranked.row).collect();
        let texts = self.read_rows(rows.into_iter().collect()).await?;
        let hits = |ranked: Vec<Ranked>| {
            ranked.into_iter().map(|ranked| self.hit(ranked, &texts)).collect::<Result<_>>()
        };
        Ok(Candidates { dense: hits(dense)?, sparse: hits(sparse)?, attainable })
    }

    async fn read_rows(&self, rows: Vec<u64>) -> Result<HashMap<u64, ChunkRow>> {
        use column::*;
        if rows.is_empty() {
            return Ok(HashMap::new());
        }
        let query = self
            .snapshot
            .chunks
            .take_row_ids(rows)
            .select(Select::columns(&[SPAN_START, SPAN_END, TEXT, TITLE, EVENT_TIME]))
            .with_row_id();
        let mut texts = HashMap::new();
        for batch in collect(TableKind::Chunks, &query).await? {
            let rows = Rows::new(TableKind::Chunks, &batch);
            let numbers = rows.values::<UInt64Type>(ROW)?;
            texts.extend(numbers.into_iter().zip(rows.chunk_rows()?));
        }
        Ok(texts)
    }

    fn hit(&self, ranked: Ranked, texts: &HashMap<u64, ChunkRow>) -> Result<Hit> {
        let row = texts.get(&ranked.row).ok_or_else(|| Error::Corrupt {
            what: format!("table `{}`", TableKind::Chunks),
            source: "a ranked row cannot be read".into(),
        })?;
        let ChunkKey { document_id, version, ordinal, .. } = ranked.key;
        Ok(Hit {
            chunk_id: ChunkId::derive(&self.snapshot.corpus, &document_id, version, ordinal),
            document_id,
            version,
            ordinal,
            span: row.span,
            text: row.text.clone(),
            title: row.title.clone(),
            event_time: row.event_time,
            score: ranked.score,
        })
    }
}

const KEY_COLUMNS: [&str; 4] =
    [column::DOCUMENT_ID, column::VERSION, column::RECIPE, column::ORDINAL];

fn key_columns(score: &str) -> Select {
    Select::columns(&[&KEY_COLUMNS[..], &[score]].concat())
}

/// Sorts best first, and equal scores by document and position, so that the order is always the
/// same.
fn sort(rows: &mut [Ranked]) {
    rows.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then_with(|| {
            (&a.key.document_id, a.key.ordinal).cmp(&(&b.key.document_id, b.key.ordinal))
        })
    });
}

fn ranked_rows(
    batches: &[RecordBatch],
    score_column: &str,
    score: impl Fn(f32) -> f32,
) -> Result<Vec<Ranked>> {
    let mut ranked = Vec::new();
    for batch in batches {
        let rows = Rows::new(TableKind::Chunks, batch);
        let numbers = rows.values::<UInt64Type>(ROW)?;
        let scores = rows.values::<Float32Type>(score_column)?;
        let keys = rows.chunk_keys()?.into_iter().zip(numbers).zip(scores);
        ranked.extend(keys.map(|((key, row), value)| Ranked { row, key, score: score(value) }));
    }
    Ok(ranked)
}

/// Words to find in a text column.
struct Words<'a> {
    text: &'a str,
    column: &'static str,
    allowed: Option<Expr>,
    limit: usize,
}

async fn matching(
    kind: TableKind,
    table: &Table,
    words: Words<'_>,
    select: Select,
) -> Result<Vec<RecordBatch>> {
    let text = FullTextSearchQuery::new(words.text.to_owned())
        .with_column(words.column.to_owned())
        .map_err(|error| failed(kind, Operation::Search)(error.into()))?;
    let mut query =
        table.query().full_text_search(text).select(select).limit(words.limit).with_row_id();
    if let Some(allowed) = words.allowed {
        query = query.only_if_expr(allowed);
    }
    collect(kind, &query).await
}

async fn collect(kind: TableKind, query: &impl ExecutableQuery) -> Result<Vec<RecordBatch>> {
    let stream = run(kind, Operation::Search, query.execute()).await?;
    run(kind, Operation::Search, stream.try_collect().map_err(Into::into)).await
}
