//! Which documents and turns are considered.

use clap::Args;
use clew_core::{AttributeName, DocumentId, Filter, TimeRange, Timestamp};

/// Which documents may be found.
#[derive(Clone, Debug, Default, Args)]
pub struct FilterArgs {
    /// Only this document; may be repeated.
    #[arg(long = "document", value_name = "ID")]
    pub documents: Vec<DocumentId>,
    /// Only documents with this attribute; may be repeated.
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = attribute)]
    pub attributes: Vec<(AttributeName, String)>,
    /// Only documents of events at or after this time (RFC 3339 or YYYY-MM-DD).
    #[arg(long, value_name = "TIME")]
    pub from: Option<Timestamp>,
    /// Only documents of events before this time.
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

/// Which turns.
#[derive(Clone, Debug, Args)]
pub struct TurnFilterArgs {
    /// Only turns with this attribute, of which `chat.role`, `chat.speaker` and `chat.session` are given; may be
    /// repeated.
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = attribute)]
    pub attributes: Vec<(AttributeName, String)>,
    /// Only what was said at or after this time (RFC 3339 or YYYY-MM-DD).
    #[arg(long, value_name = "TIME")]
    pub from: Option<Timestamp>,
    /// Only what was said before this time.
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
