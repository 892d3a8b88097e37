//! Requests for recall, and what a recall returns.

use crate::{
    Cost, Evidence, Filter, History, KeyMerging, ShardIndex, TimeRange, TimeUse, Timestamp, Turn,
    Update, Value,
};

/// A request for recall.
#[derive(Clone, Debug)]
pub struct Recall {
    /// The question.
    pub question: String,
    /// Time at which it is asked, if known.
    pub asked_at: Option<Timestamp>,
    /// Filter of what may be found, such as [`crate::turn_filter`].
    pub filter: Filter,
    /// Maximum number of items.
    pub k: usize,
    /// Keys of the corpus by which turns are to be found, each by itself
    /// ([`crate::ChatSettings::keys`]). If empty, turns are found by any key.
    pub keys: Vec<String>,
    /// Way of combining the results of several keys.
    pub merging: KeyMerging,
    /// Unit that is recalled as one item.
    pub value: Value,
    /// Use of the question's time.
    pub time: TimeUse,
    /// The question's time, if it is already known. Otherwise rules infer it.
    pub range: Option<TimeRange>,
    /// Treatment of statements that later ones supersede.
    pub history: History,
}

/// The result of a recall.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// The items, best first.
    pub items: Vec<Item>,
    /// The time that the question was understood to ask about.
    pub range: Option<TimeRange>,
    /// The hits of the search, best first.
    pub hits: Vec<Evidence>,
    /// Shards that did not answer.
    pub shards_missing: Vec<ShardIndex>,
    /// Cost of the recall.
    pub cost: Cost,
}

/// A recalled item.
#[derive(Clone, Debug)]
pub struct Item {
    /// Session of the item. Empty for a document that is not a turn.
    pub session: String,
    /// Turns of the item, in order. Empty for a document that is not a turn.
    pub turns: Vec<Turn>,
    /// Numbers of the turns that the search found.
    pub found: Vec<u32>,
    /// Relevance, comparable within one recall. With [`Latest`](crate::History::Latest), a
    /// superseded item has a lower score than the item that supersedes it.
    pub score: f32,
    /// Passages of the item, in order, with the score of the item.
    pub passages: Vec<Evidence>,
    /// Texts to read instead of the turns: for [`Facts`](crate::Value::Facts) the facts of each
    /// turn, for [`Summary`](crate::Value::Summary) the summary, and nothing for other values.
    /// They are derived from the current turns at recall, so they never outlive them.
    pub texts: Vec<String>,
    /// Statements of its turns that later statements supersede, in order of time. Both statements
    /// must be among what was found.
    pub superseded: Vec<Update>,
}
