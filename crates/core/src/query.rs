//! Queries to a corpus and the evidence that they find.

use serde::{Deserialize, Serialize};

use crate::{
    AttributeName, AttributeValue, ChunkId, Condition, Document, DocumentId, DocumentRange, Error,
    Limits, Span, Timestamp, Version, Violations,
};

/// Way of matching passages to a query.
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
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Dense, Self::Sparse, Self::Hybrid];

    /// Returns the mode in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Sparse => "sparse",
            Self::Hybrid => "hybrid",
        }
    }

    /// Returns whether the query must be embedded.
    pub fn uses_embeddings(self) -> bool {
        match self {
            Self::Dense | Self::Hybrid => true,
            Self::Sparse => false,
        }
    }

    /// Returns whether the text index is asked.
    pub fn uses_text_index(self) -> bool {
        match self {
            Self::Sparse | Self::Hybrid => true,
            Self::Dense => false,
        }
    }
}

/// Unit of evidence.
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

/// Half-open range of event times; a missing bound is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// Earliest event time, included.
    pub from: Option<Timestamp>,
    /// Latest event time, excluded.
    pub until: Option<Timestamp>,
}

impl TimeRange {
    /// Returns whether the range restricts nothing.
    pub fn is_open(&self) -> bool {
        self.from.is_none() && self.until.is_none()
    }

    /// Returns whether a time lies in the range.
    pub fn contains(&self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= time) && self.until.is_none_or(|until| time < until)
    }

    /// Returns the times that lie in both ranges. If there are none, the result ends before it
    /// begins.
    pub fn intersection(&self, other: &Self) -> Self {
        let until = match (self.until, other.until) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        };
        Self { from: self.from.max(other.from), until }
    }

    /// Returns whether any time lies in both ranges.
    pub fn overlaps(&self, other: &Self) -> bool {
        let Self { from, until } = self.intersection(other);
        from.zip(until).is_none_or(|(from, until)| from < until)
    }
}

/// Filter on the chunks that may be found, applied before scoring. All parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Documents that may be found; empty means all.
    pub documents: Vec<DocumentId>,
    /// Attributes that a document must have, as texts.
    pub attributes: Vec<(AttributeName, String)>,
    /// Condition that a document's attributes must meet.
    pub condition: Option<Condition>,
    /// Range in which a document's event time must lie. A document without an event time passes
    /// only an open range.
    pub event_time: TimeRange,
}

impl Filter {
    /// Returns whether everything passes.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.names_documents_only()
    }

    /// Returns whether it restricts nothing but which documents pass by their ids.
    pub fn names_documents_only(&self) -> bool {
        self.attributes.is_empty() && self.condition.is_none() && self.event_time.is_open()
    }

    /// Adds what is wrong with the filter, which came in `field`, to `violations`.
    pub fn check(&self, field: &str, limits: &Limits, violations: &mut Violations) {
        let (most, got) = (limits.document_ids, self.documents.len());
        if got > most {
            let problem = format!("expected at most {most} ids, got {got}");
            violations.push(format!("{field}.documents"), problem);
        }
        if let Some(condition) = &self.condition {
            condition.check(&format!("{field}.condition"), limits, violations);
        }
        if let TimeRange { from: Some(from), until: Some(until) } = self.event_time
            && from >= until
        {
            violations.push(format!("{field}.event_time"), "`from` must be before `until`");
        }
    }

    /// Returns whether a document passes.
    pub fn admits(&self, document: &Document) -> bool {
        let has = |(name, value): &(AttributeName, String)| {
            let given = document.attributes.get(name).and_then(AttributeValue::as_text);
            given.is_some_and(|given| given == value)
        };
        let is_then = match document.event_time {
            Some(time) => self.event_time.contains(time),
            None => self.event_time.is_open(),
        };
        (self.documents.is_empty() || self.documents.contains(&document.id))
            && self.attributes.iter().all(has)
            && self.condition.as_ref().is_none_or(|it| it.holds(&document.attributes))
            && is_then
    }
}

/// Search for evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Text to search for.
    pub text: String,
    /// Maximum number of items of evidence.
    pub k: usize,
    /// Way of matching passages.
    pub mode: SearchMode,
    /// Filter on what may be found.
    pub filter: Filter,
    /// Unit of evidence.
    pub grouping: Grouping,
    /// Whether to compare with every vector instead of asking the approximate index. Used as the
    /// reference for recall.
    pub exact: bool,
    /// Number of best candidates that a reranker reads, of which the best `k` are returned; `None`
    /// for no reranking.
    pub rerank: Option<usize>,
}

impl Query {
    /// Creates a hybrid search for the best `k` chunks.
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

    /// Checks the query against `limits`.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming every field at fault.
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
        self.filter.check("query.filter", limits, &mut violations);
        violations.into_result()
    }

    /// Checks the queries of a batch against `limits`.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming every field at fault, of a query by the
    /// query's position: `queries[2].k`.
    pub fn check_all(queries: &[Self], limits: &Limits) -> Result<(), Error> {
        let (most, got) = (limits.searches, queries.len());
        if got > most {
            return Err(Error::invalid("queries", format!("expected at most {most}, got {got}")));
        }
        let mut violations = Violations::default();
        for (place, query) in queries.iter().enumerate() {
            let Err(error) = query.check(limits) else { continue };
            for violation in error.violations() {
                let field = violation.field.strip_prefix("query.").unwrap_or(&violation.field);
                violations.push(format!("queries[{place}].{field}"), &violation.description);
            }
        }
        violations.into_result()
    }
}

/// Passage that was found, whole and from one version of its document.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Id of the chunk.
    pub chunk_id: ChunkId,
    /// Id of the document.
    pub document_id: DocumentId,
    /// Version of the document that the passage is from.
    pub version: Version,
    /// The document's title; may be empty.
    pub title: String,
    /// Range of the document's text.
    pub span: Span,
    /// Text of the passage.
    pub text: String,
    /// Time when what it tells of happened.
    pub event_time: Option<Timestamp>,
    /// Score within this result: higher is better. Scores of different results cannot be compared.
    pub score: f32,
    /// Cosine similarity to the query, where embeddings were compared.
    pub dense_score: Option<f32>,
    /// BM25 score, where the text index was asked.
    pub sparse_score: Option<f32>,
}

impl Evidence {
    /// Returns the place of the passage.
    pub fn place(&self) -> DocumentRange {
        let (document_id, version, span) = (self.document_id.clone(), self.version, self.span);
        DocumentRange { document_id, version, span }
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
        let fields = error.fields_at_fault();
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

    #[test]
    fn a_batch_is_refused_with_the_faults_of_each_query_or_for_its_length() {
        let limits = Limits { searches: 3, ..Limits::default() };
        let batch = [Query::new("who?", 1), Query::new(" ", 1), Query::new("when?", 0)];
        let error = Query::check_all(&batch, &limits).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["queries[1].text", "queries[2].k"]);
        let mut batch = vec![Query::new("who?", 1); 3];
        assert!(Query::check_all(&batch, &limits).is_ok());
        batch.push(Query::new(" ", 1));
        let error = Query::check_all(&batch, &limits).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["queries"]);
    }
}
