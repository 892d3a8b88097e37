//! Arguments that filter documents and turns.

use clap::Args;
use clew_core::{Condition, DocumentId, Filter, TimeRange, Timestamp};

/// Filter of documents.
#[derive(Clone, Debug, Default, Args)]
pub struct FilterArgs {
    /// Consider only this document; may be repeated.
    #[arg(long = "document", value_name = "ID")]
    pub documents: Vec<DocumentId>,
    #[command(flatten)]
    pub attributes: AttributeFilterArgs,
}

/// Filter of documents by their attributes and times.
#[derive(Clone, Debug, Default, Args)]
pub struct AttributeFilterArgs {
    /// Consider only documents whose attributes meet this condition, such as `lang=en` or `year >=
    /// 2020 and not draft = true`; may be repeated.
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition)]
    pub conditions: Vec<Condition>,
    /// Consider only documents about events at or after this time (RFC 3339 or YYYY-MM-DD).
    #[arg(long, value_name = "TIME")]
    pub from: Option<Timestamp>,
    /// Consider only documents about events before this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Timestamp>,
}

impl From<FilterArgs> for Filter {
    fn from(FilterArgs { documents, attributes }: FilterArgs) -> Self {
        Self { documents, ..attributes.into() }
    }
}

impl From<AttributeFilterArgs> for Filter {
    fn from(AttributeFilterArgs { conditions, from, until }: AttributeFilterArgs) -> Self {
        let (condition, event_time) = (all_of(conditions), TimeRange { from, until });
        Self { condition, event_time, ..Self::default() }
    }
}

/// Filter of turns.
#[derive(Clone, Debug, Args)]
pub struct TurnFilterArgs {
    /// Consider only turns whose attributes meet this condition, such as `topic=travel`; may be
    /// repeated. Clew sets `chat.role`, `chat.speaker` and `chat.session`.
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition)]
    pub conditions: Vec<Condition>,
    /// Consider only what was said at or after this time (RFC 3339 or YYYY-MM-DD).
    #[arg(long, value_name = "TIME")]
    pub from: Option<Timestamp>,
    /// Consider only what was said before this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Timestamp>,
}

impl From<TurnFilterArgs> for Filter {
    fn from(TurnFilterArgs { conditions, from, until }: TurnFilterArgs) -> Self {
        let (condition, event_time) = (all_of(conditions), TimeRange { from, until });
        Self { condition, event_time, ..Self::default() }
    }
}

fn all_of(mut conditions: Vec<Condition>) -> Option<Condition> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(Condition::All(conditions)),
    }
}

fn condition(text: &str) -> Result<Condition, String> {
    text.parse().map_err(|error: clew_core::Error| match error.violations() {
        [violation, ..] => violation.description.clone(),
        [] => error.to_string(),
    })
}
