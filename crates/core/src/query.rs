//! What is asked of a corpus and what is found.

use serde::{Deserialize, Serialize};

use crate::{
    AttributeName, ChunkId, Document, DocumentId, Error, Limits, Place, Span, Timestamp, Version,
    Violations,
};

/// How passages are matched to a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// Cosine similarity of embeddings.
    Dense,
    /// BM25 over stemmed words.
    Sparse,
    /// Both, fused (see [`crate::fusion`]).
    #[default]
    Hybrid,
}

impl SearchMode {
    /// Whether the query must be embedded.
    pub fn uses_embeddings(self) -> bool {
        matches!(self, Self::Dense | Self::Hybrid)
    }

    /// Whether the text index is asked.
    pub fn uses_text_index(self) -> bool {
        matches!(self, Self::Sparse | Self::Hybrid)
    }
}

/// What one item of evidence is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Each chunk by itself.
    #[default]
    Chunks,
    /// Each document once, represented by its best chunk: small units are indexed, large ones
    /// reported.
    Documents,
}

/// A half-open range of event times; a missing side is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Earliest event time, included.
    pub from: Option<Timestamp>,
    /// Latest event time, excluded.
    pub until: Option<Timestamp>,
}

impl TimeRange {
    /// Whether the range restricts nothing.
    pub fn is_open(&self) -> bool {
        self.from.is_none() && self.until.is_none()
    }

    /// Whether a time lies in it.
    pub fn contains(&self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= time) && self.until.is_none_or(|until| time < until)
    }

    /// What lies in both; it ends before it begins if nothing does.
    pub fn intersection(&self, other: &Self) -> Self {
        let until = match (self.until, other.until) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        };
        Self { from: self.from.max(other.from), until }
    }

    /// Whether a time lies in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let Self { from, until } = self.intersection(other);
        from.zip(until).is_none_or(|(from, until)| from < until)
    }
}

/// Which chunks may be found at all; applied before scoring. All parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these documents; empty means all.
    pub documents: Vec<DocumentId>,
    /// Only documents with each of these attributes.
    pub attributes: Vec<(AttributeName, String)>,
    /// Only documents whose event time lies in this range; a document without one lies in none.
    pub event_time: TimeRange,
}

impl Filter {
    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.attributes.is_empty() && self.event_time.is_open()
    }

    /// Whether a document passes.
    pub fn admits(&self, document: &Document) -> bool {
        let has = |(name, value): &(AttributeName, String)| {
            document.attributes.get(name).is_some_and(|given| given == value)
        };
        let is_then = match document.event_time {
            Some(time) => self.event_time.contains(time),
            None => self.event_time.is_open(),
        };
        (self.documents.is_empty() || self.documents.contains(&document.id))
            && self.attributes.iter().all(has)
            && is_then
    }
}

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The words of the question.
    pub text: String,
    /// Most items of evidence wanted.
    pub k: usize,
    /// How passages are matched.
    pub mode: SearchMode,
    /// What may be found.
    pub filter: Filter,
    /// What an item is.
    pub grouping: Grouping,
    /// Compare with every vector instead of asking the approximate index: the oracle of recall.
    pub exact: bool,
    /// How many of the best candidates a reranker reads, of which the best `k` are found; `None`: it reads none.
    pub rerank: Option<usize>,
}

impl Query {
    /// A hybrid search for the best `k` chunks.
    pub fn new(text: impl Into<String>, k: usize) -> Self {
        Self {
            text: text.into(),
            k,
            mode: SearchMode::default(),
            filter: Filter::default(),
            grouping: Grouping::default(),
            exact: false,
            rerank: None,
        }
    }

    /// Refuses a query that cannot be answered within `limits`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming every field at fault.
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        let mut violations = Violations::default();
        if self.text.trim().is_empty() {
            violations.push("query.text", "must contain something other than white space");
        }
        if self.text.len() > limits.query_bytes {
            violations.push(
                "query.text",
                format!("expected at most {} bytes, got {}", limits.query_bytes, self.text.len()),
            );
        }
        if !(1..=limits.results).contains(&self.k) {
            violations.push("query.k", format!("expected 1 to {}, got {}", limits.results, self.k));
        }
        let most = limits.reranked;
        if let Some(rerank) = self.rerank.filter(|rerank| !(self.k..=most).contains(rerank)) {
            let problem = format!("expected {} (`k`) to {most}, got {rerank}", self.k);
            violations.push("query.rerank", problem);
        }
        if self.filter.documents.len() > limits.document_ids {
            violations.push(
                "query.filter.documents",
                format!(
                    "expected at most {} ids, got {}",
                    limits.document_ids,
                    self.filter.documents.len()
                ),
            );
        }
        let range = self.filter.event_time;
        if let (Some(from), Some(until)) = (range.from, range.until)
            && from >= until
        {
            violations.push("query.filter.event_time", "`from` must be before `until`");
        }
        violations.into_result()
    }
}

/// A passage that was found, whole and from one version of its document.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The chunk.
    pub chunk_id: ChunkId,
    /// Its document.
    pub document_id: DocumentId,
    /// The document's version the passage is from.
    pub version: Version,
    /// The document's title; may be empty.
    pub title: String,
    /// Where the passage lies in the document's text.
    pub span: Span,
    /// The passage.
    pub text: String,
    /// When what it tells of happened.
    pub event_time: Option<Timestamp>,
    /// Rank score within this result: higher is better, comparable within one result only.
    pub score: f32,
    /// Cosine similarity to the query, where embeddings were compared.
    pub dense_score: Option<f32>,
    /// BM25 score, where the text index was asked.
    pub sparse_score: Option<f32>,
}

impl Evidence {
    /// Where it stands.
    pub fn place(&self) -> Place {
        let (document_id, version, span) = (self.document_id.clone(), self.version, self.span);
        Place { document_id, version, span }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_refused_with_every_fault_named() {
        let mut query = Query::new(" ", 0);
        query.filter.event_time = TimeRange {
            from: Some(Timestamp::from_micros(2)),
            until: Some(Timestamp::from_micros(2)),
        };
        let error = query.check(&Limits::default()).unwrap_err();
        let fields: Vec<_> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["query.text", "query.k", "query.filter.event_time"]);
        assert!(Query::new("who?", 1000).check(&Limits::default()).is_ok());
        assert!(Query::new("who?", 1001).check(&Limits::default()).is_err());
        let refused = [(10, 9), (10, 201), (500, 200)];
        for (k, rerank) in refused {
            let query = Query { rerank: Some(rerank), ..Query::new("who?", k) };
            let error = query.check(&Limits::default()).unwrap_err();
            assert_eq!(error.violations()[0].field, "query.rerank", "{rerank} for {k}");
        }
        let taken = Query { rerank: Some(200), ..Query::new("who?", 200) };
        assert!(taken.check(&Limits::default()).is_ok());
    }
}
