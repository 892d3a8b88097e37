//! `list_corpora`: lists the corpora.

use clew_core::Error;
use clew_proto::corpus::v1::{Corpus, GetCorpusRequest, ListCorporaRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Caller;

/// Maximum number of corpora that are listed.
const CORPORA: u32 = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {}

pub(super) async fn run(caller: &Caller) -> Result<Value, Error> {
    if let Some(name) = caller.pinned() {
        let request = GetCorpusRequest { name: name.to_string() };
        let read = caller.corpora().get_corpus(caller.request(request)).await;
        let read = read.map_err(|status| caller.failed(&status))?.into_inner();
        return Ok(listed(&[read.corpus.unwrap_or_default()], true));
    }
    let request = ListCorporaRequest { page_size: CORPORA, ..ListCorporaRequest::default() };
    let page = caller.corpora().list_corpora(caller.request(request)).await;
    let page = page.map_err(|status| caller.failed(&status))?.into_inner();
    Ok(listed(&page.corpora, page.next_page_token.is_empty()))
}

fn listed(corpora: &[Corpus], complete: bool) -> Value {
    let corpus = |corpus: &Corpus| {
        let count = |count: Option<u64>| count.map_or(json!(-1), |count| json!(count));
        let counts = corpus.counts.as_ref();
        let problem = corpus.fault.as_ref().map(|fault| fault.message.as_str());
        json!({
            "name": corpus.name,
            "documents": count(counts.map(|counts| counts.documents)),
            "pending": count(counts.map(|counts| counts.pending_documents)),
            "problem": problem.unwrap_or_default(),
        })
    };
    json!({ "corpora": corpora.iter().map(corpus).collect::<Vec<_>>(), "complete": complete })
}

#[cfg(test)]
mod tests {
    use clew_proto::corpus::v1::{CorpusCounts, CorpusFault};

    use super::*;

    #[test]
    fn a_corpus_that_cannot_be_used_is_listed_with_the_reason() {
        let counts = CorpusCounts { documents: 5, pending_documents: 1, ..Default::default() };
        let fault = CorpusFault { reason: "DATA_LOSS".to_owned(), message: "broken".to_owned() };
        let named = |name: &str| Corpus { name: name.to_owned(), ..Corpus::default() };
        let corpora = [
            Corpus { counts: Some(counts), ..named("notes") },
            Corpus { fault: Some(fault), ..named("old") },
        ];
        let expected = json!({
            "corpora": [
                { "name": "notes", "documents": 5, "pending": 1, "problem": "" },
                { "name": "old", "documents": -1, "pending": -1, "problem": "broken" },
            ],
            "complete": false,
        });
        assert_eq!(listed(&corpora, false), expected);
    }
}
