//! The links between the pages of a list.

use maud::{Markup, html};

use crate::visitor::Visitor;

/// Returns the links from a page of a list to the first page and to the next, as far as there are
/// such pages. `at` returns the address of the page with a token, and of the first for none;
/// `next` is the token of the next page, or empty on the last.
pub(crate) fn pages(visitor: &Visitor, next: &str, at: impl Fn(&str) -> String) -> Markup {
    let is_first = !visitor.query.has("page");
    html! {
        @if !is_first || !next.is_empty() {
            nav class="pages" aria-label="Pages" {
                @if !is_first { a href=(at("")) { "First page" } }
                @if !next.is_empty() { a rel="next" href=(at(next)) { "Next page" } }
            }
        }
    }
}
