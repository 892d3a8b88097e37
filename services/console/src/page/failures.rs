//! What fails: the documents that were set aside, by what they failed with, and what to do.

use std::collections::BTreeMap;

use clew_proto::ingest::v1::{DocumentStage, DocumentState, ListDocumentsRequest};
use maud::html;

use super::Shown;
use crate::shell::{self, Tab, Where};
use crate::text::{count, counted, time};
use crate::visitor::{OfCorpus, Visitor};

/// Documents of one call.
const AT_ONCE: u32 = 1000;
/// Calls for one page. What fails so often has a cause that the first thousands show.
const CALLS: usize = 5;
/// Documents that are listed of one group.
const SHOWN: usize = 20;

pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let (mut failed, mut page_token) = (Vec::new(), String::new());
    for _ in 0..CALLS {
        let request = ListDocumentsRequest {
            corpus: corpus.to_string(),
            stage: DocumentStage::Failed.into(),
            page_size: AT_ONCE,
            page_token,
            ..Default::default()
        };
        let page = visitor.client.documents_page(request).await?;
        failed.extend(page.documents);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let groups = groups(&failed);
    let content = html! {
        h1 { "What fails" }
        @if failed.is_empty() {
            p { span class="state good" { "nothing" } " No document is set aside." }
        } @else {
            p {
                (counted(failed.len() as u64, "document"))
                @if !page_token.is_empty() { " and more" }
                " could not be made searchable, and will not be tried again by themselves. Correct the cause, and "
                "send a document again: it is then accepted as a new version. Or forget it."
            }
        }
        @for (error, documents) in &groups {
            section class="group" {
                h2 { (error) }
                p { (counted(documents.len() as u64, "document")) }
                ul {
                    @for document in documents.iter().take(SHOWN) {
                        li {
                            a href=(visitor.of(&corpus, "document", &[("id", &document.id)])) { bdi { (document.id) } }
                            " " span class="quiet" {
                                "after " (counted(document.attempts.into(), "attempt")) ", accepted "
                                (time(document.accepted_at.as_ref()))
                            }
                        }
                    }
                }
                @if documents.len() > SHOWN {
                    p class="quiet" { "And " (count((documents.len() - SHOWN) as u64)) " more." }
                }
            }
        }
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Failures), "What fails", content))
}

/// Returns the documents by what they failed with: the most frequent first.
fn groups(failed: &[DocumentState]) -> Vec<(&str, Vec<&DocumentState>)> {
    let mut groups: BTreeMap<&str, Vec<&DocumentState>> = BTreeMap::new();
    for document in failed {
        groups.entry(&document.last_error).or_default().push(document);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, documents)| std::cmp::Reverse(documents.len()));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_failure_comes_first() {
        let failed = ["b", "a", "b"].map(|error| DocumentState {
            last_error: error.to_owned(),
            ..DocumentState::default()
        });
        let groups = groups(&failed);
        let sizes: Vec<_> = groups.iter().map(|(error, all)| (*error, all.len())).collect();
        assert_eq!(sizes, [("b", 2), ("a", 1)]);
    }
}
