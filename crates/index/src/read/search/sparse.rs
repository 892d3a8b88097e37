//! Ranks rows by the query's words.

use std::collections::{HashMap, HashSet};

use clew_core::DocumentId;

use crate::error::Result;
use crate::read::resident::masks::Allowed;
use crate::read::search::{Ranked, Search};
use crate::read::table_view::TableView;
use crate::read::table_view::text_index::Matching;

impl<'a> Search<'a> {
    /// Returns the chunks that the caller and the filter allow.
    pub(super) async fn allowed_chunks(&self) -> Result<&Allowed> {
        let chunks = &self.snapshot.chunk_rows;
        self.allowed.get_or_try_init(|| self.allowed_in(chunks)).await
    }

    async fn allowed_in(&self, table: &TableView) -> Result<Allowed> {
        table.allowed(&self.snapshot.catalogue, &self.seen.access, &self.query.filter).await
    }

    async fn matching(
        &self,
        table: &TableView,
        allowed: &Allowed,
        limit: usize,
    ) -> Result<Matching> {
        match table.text().await? {
            Some((index, fresh)) => index.matching(&self.query.text, &fresh, allowed, limit).await,
            None => Ok(Matching { is_all: true, ..Matching::default() }),
        }
    }

    /// Ranks chunks by BM25. Asks for more until enough of them are visible. Also returns the score
    /// that no chunk can exceed.
    pub(super) async fn sparse(&self) -> Result<(Vec<Ranked<'a>>, Option<f32>)> {
        let allowed = self.allowed_chunks().await?;
        let mut limit = self.first_limit();
        loop {
            let Matching { rows, is_all, attainable } =
                self.matching(&self.snapshot.chunk_rows, allowed, limit).await?;
            if let Some(kept) = self.enough(rows, is_all) {
                return Ok((kept, attainable));
            }
            limit = limit.saturating_mul(2);
        }
    }

    /// Ranks documents by BM25 of their whole text, then finds the best chunk of each to show.
    ///
    /// Words alone judge a document best as a whole. Combined with embeddings, which exist only for
    /// chunks, they judge it better by the same best chunk.
    pub(super) async fn sparse_documents(&self) -> Result<(Vec<Ranked<'a>>, Option<f32>)> {
        let (documents, attainable) = self.matching_documents().await?;
        let rows = documents.iter().flat_map(|(id, _)| self.fragments.rows_of(id));
        let rows: Vec<(u64, u32)> = rows.map(|(row, _, ordinal)| (row, ordinal)).collect();
        let allowed = Allowed::rows(rows.iter().map(|(row, _)| *row));
        let matching =
            self.matching(&self.snapshot.chunk_rows, &allowed, rows.len().max(1)).await?;
        // A document none of whose chunks matches is shown by its first.
        let first = rows.into_iter().filter(|(_, ordinal)| *ordinal == 0);
        let first = first.map(|(row, _)| (row, f32::NEG_INFINITY));
        let shown = self.keep(matching.rows.into_iter().chain(first));
        let shown: HashMap<&DocumentId, Ranked<'a>> =
            shown.into_iter().map(|ranked| (&ranked.owner.document_id, ranked)).collect();
        let ranked = |(id, score): (DocumentId, f32)| {
            shown.get(&id).map(|ranked| Ranked { score, ..*ranked })
        };
        Ok((documents.into_iter().filter_map(ranked).collect(), attainable))
    }

    /// Returns documents ranked by BM25 of their whole text, best first, and the score that none
    /// can exceed.
    async fn matching_documents(&self) -> Result<(Vec<(DocumentId, f32)>, Option<f32>)> {
        let table = &self.snapshot.source_rows;
        let sources = table.fragments().await?;
        let allowed = self.allowed_in(table).await?;
        let wanted = self.query.limit;
        let mut limit = wanted;
        loop {
            let Matching { rows, is_all, attainable } =
                self.matching(table, &allowed, limit).await?;
            let mut documents: Vec<(&DocumentId, f32)> = Vec::with_capacity(rows.len());
            for (row, score) in rows {
                let Some((owner, _)) = sources.row(row) else { continue };
                let record = self.snapshot.catalogue.get(&owner.document_id);
                let seen = record.filter(|record| record.is_seen_by(&self.seen.access));
                let still = seen.filter(|record| self.seen.still(&record.id));
                let live = still.and_then(|record| record.live());
                if live.is_some_and(|live| live.version == owner.version) {
                    documents.push((&owner.document_id, score));
                }
            }
            if documents.len() >= wanted || is_all {
                documents.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
                let mut seen = HashSet::new();
                documents.retain(|(id, _)| seen.insert(*id));
                documents.truncate(wanted);
                let documents = documents.into_iter().map(|(id, score)| (id.clone(), score));
                return Ok((documents.collect(), attainable));
            }
            limit = limit.saturating_mul(2);
        }
    }
}
