//! Items that a recall returns.

use clew_core::Evidence;

use crate::{Turn, Update};

/// A recalled item.
#[derive(Clone, Debug)]
pub struct Item {
    /// Session of the item. Empty for a document that is not a turn.
    pub session: String,
    /// Turns of the item, in order. Empty for a document that is not a turn.
    pub turns: Vec<Turn>,
    /// Numbers of the turns that the search found.
    pub found: Vec<u32>,
    /// Relevance, comparable within one recall. With [`Latest`](clew_core::History::Latest), a
    /// superseded item has a lower score than the item that supersedes it.
    pub score: f32,
    /// Passages of the item, in order, with the score of the item.
    pub passages: Vec<Evidence>,
    /// Texts to read instead of the turns: for [`Facts`](clew_core::Value::Facts) the facts of each
    /// turn, for [`Summary`](clew_core::Value::Summary) the summary, and nothing for other values.
    /// They are derived from the current turns at recall, so they never outlive them.
    pub texts: Vec<String>,
    /// Statements of its turns that later statements supersede, in order of time. Both statements
    /// must be among what was found.
    pub superseded: Vec<Update>,
}
