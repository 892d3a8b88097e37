//! Common parts of data sets about long documents: a haystack of one unit, and questions without
//! known evidence.

use clew_core::DocumentId;

use super::{EvalQuestion, Haystack, Unit};
use crate::dataset::Scoring;

/// Returns the haystack of the document `id`.
pub(super) fn haystack(
    id: String,
    title: String,
    text: String,
    questions: Vec<EvalQuestion>,
) -> Result<Haystack, String> {
    if text.trim().is_empty() {
        return Err(format!("expected a document, got no text for `{id}`"));
    }
    let document: DocumentId =
        id.parse().map_err(|error: clew_core::Error| format!("`{id}`: {error}"))?;
    let unit = Unit { id: document, title, text, event_time: None, said: Vec::new() };
    Ok(Haystack::new(id, vec![unit], questions))
}

/// Returns a question that has no text and no references yet.
pub(super) fn question(id: String, kind: &str, scoring: Scoring) -> EvalQuestion {
    EvalQuestion {
        id,
        text: String::new(),
        kind: kind.to_owned(),
        groups: vec!["all".to_owned()],
        gold: Vec::new(),
        asked_at: None,
        is_abstention: false,
        references: Vec::new(),
        scoring,
    }
}
