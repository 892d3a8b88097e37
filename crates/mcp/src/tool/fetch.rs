//! `fetch`: returns a document, in the shape that ChatGPT's connectors read.

use clew_client::{address_of, name_of};
use clew_core::{CorpusName, Error};
use clew_proto::ingest::v1::{Document, DocumentState};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::told;
use crate::caller::Caller;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    id: String,
}

pub(super) async fn run(
    caller: &Caller,
    named: Option<CorpusName>,
    arguments: Arguments,
) -> Result<Value, Error> {
    let corpus = caller.corpus(named).await?;
    let (document, state) = caller.document(&corpus, &arguments.id).await?;
    Ok(whole(&corpus, &document, &state))
}

/// Returns a document with as much of its text as the response of the service had.
fn whole(corpus: &CorpusName, document: &Document, state: &DocumentState) -> Value {
    let mut metadata: Map<String, Value> = document
        .attributes
        .iter()
        .map(|attribute| (attribute.name.clone(), attribute.value.clone().into()))
        .collect();
    // After the attributes, so that no document passes off its own values as Clew's.
    metadata.insert("version".to_owned(), state.version.to_string().into());
    metadata.insert("text_bytes".to_owned(), state.text_bytes.to_string().into());
    let is_cut = (document.text.len() as u64) < state.text_bytes;
    metadata.insert("truncated".to_owned(), is_cut.to_string().into());
    metadata.insert("event_time".to_owned(), told::time(document.event_time.as_ref()).into());
    let url = address_of(corpus.as_str(), &document.id, None, &document.attributes);
    json!({
        "id": document.id,
        "title": name_of(&document.title, &document.id),
        "text": String::from_utf8_lossy(&document.text),
        "url": url,
        "metadata": metadata,
    })
}

#[cfg(test)]
mod tests {
    use clew_proto::ingest::v1::Attribute;

    use super::*;

    fn attribute(name: &str, value: &str) -> Attribute {
        Attribute { name: name.to_owned(), value: value.to_owned(), typed: None }
    }

    #[test]
    fn a_document_comes_with_its_attributes_and_says_whether_it_is_cut() {
        let corpus = "notes".parse().unwrap();
        let document = Document {
            id: "bees".to_owned(),
            text: "Bees.".into(),
            attributes: vec![
                attribute("url", "https://example.com/bees"),
                attribute("truncated", "maybe"),
            ],
            event_time: Some(clew_proto::Timestamp { seconds: 0, nanos: 0 }),
            ..Document::default()
        };
        let state = |text_bytes| DocumentState { version: 7, text_bytes, ..Default::default() };
        let read = whole(&corpus, &document, &state(5));
        let expected = json!({
            "id": "bees",
            "title": "bees",
            "text": "Bees.",
            "url": "https://example.com/bees",
            "metadata": {
                "url": "https://example.com/bees",
                "version": "7",
                "text_bytes": "5",
                "truncated": "false",
                "event_time": "1970-01-01T00:00:00Z",
            },
        });
        assert_eq!(read, expected);
        assert_eq!(whole(&corpus, &document, &state(6))["metadata"]["truncated"], "true");
    }
}
