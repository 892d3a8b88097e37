//! Tests of refusals: with a typed error that names the problem, and before anything changes.
//!
//! `tests/README.md` lists every case.

mod command_line;
mod disk_full;
mod grpc;
mod raw;
mod startup;
mod stored_data;

use std::collections::BTreeMap;

use clew_client::Client;
use clew_core::{Query, SearchMode};
use clew_proto::ingest::v1::{DocumentStage, DocumentState};

use crate::client::{MOST_RESULTS, create, document, remember, text_of};
use crate::words::{text_with, word};

/// Content of a server: the states and texts of the documents of each corpus.
#[derive(Debug, PartialEq)]
struct Holdings(BTreeMap<String, Vec<(DocumentState, String)>>);

impl Holdings {
    async fn of(client: &Client) -> Self {
        let mut held = BTreeMap::new();
        for described in client.corpora().await.unwrap() {
            let corpus = described.name.parse().unwrap();
            let mut documents = Vec::new();
            for state in client.documents(&corpus, DocumentStage::Unspecified).await.unwrap() {
                let text = text_of(client, &corpus, &state.id.parse().unwrap()).await;
                // Tree nodes are built in the background, so their number may change.
                documents.push((DocumentState { nodes: 0, ..state }, text));
            }
            held.insert(described.name, documents);
        }
        Self(held)
    }
}

/// Fills a server with a corpus `notes` of three documents.
async fn furnish(client: &Client) {
    let notes = create(client, "notes").await;
    remember(client, &notes, (0..3).map(kept).collect()).await;
}

fn kept(number: usize) -> clew_core::Document {
    document(&format!("kept-{number}"), text_with(&[&word('k', number)]))
}

/// Fails unless the three documents can be found in `notes`.
async fn assert_furnished(client: &Client) {
    for number in 0..3 {
        let mut query = Query::new(word('k', number), MOST_RESULTS);
        query.mode = SearchMode::Sparse;
        let found = client.search(&crate::client::corpus("notes"), query).await.unwrap().evidence;
        let name = format!("kept-{number}");
        assert!(
            !found.is_empty() && found.iter().all(|item| item.document_id == name),
            "{found:?}"
        );
    }
}
