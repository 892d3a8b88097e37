//! `search`: finds documents, in the shape that ChatGPT's connectors read.

use clew_client::{address_of, name_of};
use clew_core::{CorpusName, Error};
use clew_proto::query::v1::{Evidence, Grouping, SearchRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Caller;

/// Number of documents that are returned.
const RESULTS: u32 = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    query: String,
}

pub(super) async fn run(
    caller: &Caller,
    named: Option<CorpusName>,
    arguments: Arguments,
) -> Result<Value, Error> {
    let corpus = caller.corpus(named).await?;
    let request = SearchRequest {
        corpus: corpus.to_string(),
        query: arguments.query,
        k: Some(RESULTS),
        grouping: Grouping::Documents.into(),
        with_attributes: true,
        ..SearchRequest::default()
    };
    let found = caller.queries().search(caller.request(request)).await;
    let found = found.map_err(|status| caller.failed(&status))?.into_inner();
    Ok(results(&corpus, &found.evidence))
}

fn results(corpus: &CorpusName, evidence: &[Evidence]) -> Value {
    let result = |hit: &Evidence| {
        let url = address_of(corpus.as_str(), &hit.document_id, hit.span, &hit.attributes);
        json!({
            "id": hit.document_id,
            "title": name_of(&hit.title, &hit.document_id),
            "url": url,
            "text": hit.text,
        })
    };
    json!({ "results": evidence.iter().map(result).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use clew_proto::query::v1::Span;

    use super::*;

    #[test]
    fn a_hit_has_the_four_fields_that_connectors_read() {
        let hit = |title: &str| Evidence {
            document_id: "bees/1".to_owned(),
            title: title.to_owned(),
            span: Some(Span { start: 0, end: 4 }),
            text: "Bees.".to_owned(),
            score: 0.5,
            ..Evidence::default()
        };
        let corpus = "notes".parse().unwrap();
        let expected = json!({ "results": [
            { "id": "bees/1", "title": "On bees", "url": "clew:notes/bees/1#bytes=0-4", "text": "Bees." },
            { "id": "bees/1", "title": "bees/1", "url": "clew:notes/bees/1#bytes=0-4", "text": "Bees." },
        ] });
        assert_eq!(results(&corpus, &[hit("On bees"), hit("")]), expected);
        assert_eq!(results(&corpus, &[]), json!({ "results": [] }));
    }
}
