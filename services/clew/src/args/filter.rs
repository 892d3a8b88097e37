//! Arguments that filter documents and turns.

use clap::Args;
use clew_core::{AttributeName, DocumentId, Filter, TimeRange, Timestamp};

/// Filter of documents.
#[derive(Clone, Debug, Default, Args)]
pub struct FilterArgs {
    /// Consider only this document; may be repeated.
    #[arg(long = "document", value_name = "ID")]
    pub documents: Vec<DocumentId>,
    /// Consider only documents with this attribute; may be repeated.
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = attribute)]
    pub attributes: Vec<(AttributeName, String)>,
    /// Consider only documents about events at or after this time (RFC 3339 or YYYY-MM-DD).
    #[arg(long, value_name = "TIME")]
    pub from: Option<Timestamp>,
    /// Consider only documents about events before this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Timestamp>,
}

impl From<FilterArgs> for Filter {
    fn from(filters: FilterArgs) -> Self {
        Self {
            documents: filters.documents,
            attributes: filters.attributes,
            event_time: TimeRange { from: filters.from, until: filters.until },
        }
    }
}

/// Filter of turns.
#[derive(Clone, Debug, Args)]
pub struct TurnFilterArgs {
    /// Consider only turns with this attribute; may be repeated. Clew sets `chat.role`,
    /// `chat.speaker` and `chat.session`.
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = attribute)]
    pub attributes: Vec<(AttributeName, String)>,
    /// Consider only what was said at or after this time (RFC 3339 or YYYY-MM-DD).
    #[arg(long, value_name = "TIME")]
    pub from: Option<Timestamp>,
    /// Consider only what was said before this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Timestamp>,
}

impl From<TurnFilterArgs> for Filter {
    fn from(TurnFilterArgs { attributes, from, until }: TurnFilterArgs) -> Self {
        Self { attributes, event_time: TimeRange { from, until }, ..Self::default() }
    }
}

fn attribute(text: &str) -> Result<(AttributeName, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let name = AttributeName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    Ok((name, value.to_owned()))
}
