//! What the pages of the tree and of the graph say where there is none, or not all of it.

use maud::{Markup, html};

use crate::failed::Failed;
use crate::text::counted;

/// Returns whether a call failed because its corpus was made without trees and a graph.
pub(crate) fn is_lacking(failed: &Failed) -> bool {
    failed.reason() == "NO_STRUCTURE"
}

/// Returns how to get trees and a graph.
pub(crate) fn lacking() -> Markup {
    html! {
        p {
            "This corpus was made without trees and a graph, which a corpus keeps as it is made. "
            "Make another by " code { "clew corpus create NAME" } ", and add the documents to it: "
            "both are built behind them."
        }
    }
}

/// Returns which shards did not answer, if any.
pub(crate) fn silent(shards: &[u32]) -> Markup {
    html! {
        @if !shards.is_empty() {
            p class="problem" {
                (counted(shards.len() as u64, "shard")) " did not answer, and what is theirs is missing."
            }
        }
    }
}
