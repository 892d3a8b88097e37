//! Tables, of which narrow windows show a part that people scroll, also by keyboard.

use maud::{Markup, html};

/// Column of a table, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Of words, which begin below each other.
    Words(&'static str),
    /// Of numbers, which end below each other. Cells of it have the class `number`.
    Number(&'static str),
}

/// Returns a table of `rows`, each a `tr`. `name` says what they are.
pub(crate) fn table(name: &str, columns: &[Column], rows: &Markup) -> Markup {
    html! {
        div class="wide" tabindex="0" role="region" aria-label=(name) {
            table {
                thead {
                    tr {
                        @for column in columns {
                            @match column {
                                Column::Words(name) => th scope="col" { (name) },
                                Column::Number(name) => th scope="col" class="number" { (name) },
                            }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}
