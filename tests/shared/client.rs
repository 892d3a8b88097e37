//! Requests to a server, and checks of its answers.

use std::collections::BTreeMap;

use clew_client::Client;
use clew_core::{
    Attributes, Chunking, CorpusName, Document, DocumentId, ErrorKind, Labels, MediaType, Query,
    SearchMode, StructureSettings,
};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::corpus::v1::CorpusCounts;
use clew_proto::ingest::v1::{Accepted, DocumentStage, DocumentState, Refused, ingest_response};
use clew_proto::query::v1::Evidence;
use futures::{StreamExt, TryStreamExt};

use crate::harness::{PATIENCE, eventually};

/// Tokens of a chunk. The tiny model reads 64, and short chunks give a short text many chunks.
pub const CHUNK_TOKENS: u32 = 48;

/// Maximum number of passages that a search may request.
pub const MOST_RESULTS: usize = 1000;

pub fn corpus(name: &str) -> CorpusName {
    name.parse().unwrap()
}

pub fn id(id: &str) -> DocumentId {
    id.parse().unwrap()
}

pub fn document(id: &str, text: impl Into<String>) -> Document {
    Document {
        id: self::id(id),
        text: text.into(),
        media_type: MediaType::Plain,
        title: String::new(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::default(),
        source_version: None,
    }
}

/// Creates a corpus of one shard with short chunks.
pub async fn create(client: &Client, name: &str) -> CorpusName {
    create_in_shards(client, name, 1).await
}

/// Creates a corpus with short chunks.
pub async fn create_in_shards(client: &Client, name: &str, shards: u32) -> CorpusName {
    let new = NewCorpus {
        name: corpus(name),
        shards,
        chunking: Some(Chunking::Sections { max_tokens: CHUNK_TOKENS }),
        structure: Some(StructureSettings::default()),
        retention_days: None,
        memory: None,
        chat: None,
    };
    client.create_corpus(new.clone()).await.unwrap();
    new.name
}

/// Sends documents in one stream. Returns the server's answers in order.
pub async fn send(
    client: &Client,
    corpus: &CorpusName,
    documents: Vec<Document>,
) -> Vec<Result<Accepted, Refused>> {
    let sending = async {
        let responses = client.ingest(corpus, futures::stream::iter(documents)).await.unwrap();
        let results = responses.map_ok(|response| match response.result.unwrap() {
            ingest_response::Result::Accepted(accepted) => Ok(accepted),
            ingest_response::Result::Refused(refused) => Err(refused),
        });
        results.try_collect().await.unwrap()
    };
    tokio::time::timeout(PATIENCE, sending).await.expect("the stream ends")
}

/// Sends documents that must all be accepted.
pub async fn accept(
    client: &Client,
    corpus: &CorpusName,
    documents: Vec<Document>,
) -> Vec<Accepted> {
    send(client, corpus, documents).await.into_iter().map(Result::unwrap).collect()
}

/// Waits until everything accepted is indexed.
pub async fn idle(client: &Client, corpus: &CorpusName) {
    let watching = async {
        let mut reports = std::pin::pin!(client.watch_until_idle(corpus).await.unwrap());
        let mut last = None;
        while let Some(report) = reports.next().await {
            last = Some(report.unwrap());
        }
        last.expect("at least one report")
    };
    let last = tokio::time::timeout(PATIENCE, watching).await.expect("indexing comes to an end");
    assert_eq!((last.pending_documents, last.failed_documents), (0, 0), "{last:?}");
}

/// Waits until the trees and the graph are built.
pub async fn structured(client: &Client, corpus: &CorpusName) {
    eventually("every document has its tree", async || {
        let counts = counts(client, corpus).await;
        let is_done = counts.unstructured_documents == 0 && counts.indexed_documents > 0;
        (is_done && counts.structured_documents == counts.indexed_documents).then_some(())
    })
    .await;
}

/// Sends documents that must all be accepted, and waits until they can be found.
pub async fn remember(client: &Client, corpus: &CorpusName, documents: Vec<Document>) {
    accept(client, corpus, documents).await;
    idle(client, corpus).await;
}

pub async fn counts(client: &Client, corpus: &CorpusName) -> CorpusCounts {
    client.corpus(corpus).await.unwrap().counts.expect("the corpus runs")
}

/// Returns the states of all documents. Fails if an id is listed twice.
pub async fn states(client: &Client, corpus: &CorpusName) -> BTreeMap<String, DocumentState> {
    let listed = client.documents(corpus, DocumentStage::Unspecified).await.unwrap();
    let count = listed.len();
    let states: BTreeMap<_, _> =
        listed.into_iter().map(|state| (state.id.clone(), state)).collect();
    assert_eq!(states.len(), count, "an id is listed twice");
    states
}

pub async fn text_of(client: &Client, corpus: &CorpusName, id: &DocumentId) -> String {
    let (document, _) = client.document(corpus, id).await.unwrap();
    String::from_utf8(document.text.to_vec()).unwrap()
}

/// Returns a query for up to [`MOST_RESULTS`] passages.
pub fn query(text: &str, mode: SearchMode) -> Query {
    Query { mode, ..Query::new(text, MOST_RESULTS) }
}

/// Returns the passages that a search finds. Retries if a shard is late, as in a cluster on a busy
/// machine.
pub async fn search(client: &Client, corpus: &CorpusName, query: Query) -> Vec<Evidence> {
    for _ in 0..20 {
        match client.search(corpus, query.clone()).await {
            Ok(found) if found.shards_missing.is_empty() => return found.evidence,
            Ok(_) => {}
            // The only shard of a corpus was late.
            Err(error) if error.kind() == ErrorKind::DeadlineExceeded => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("shards are missing again and again");
}

/// Returns everything that a search by words finds.
pub async fn by_words(client: &Client, corpus: &CorpusName, words: &str) -> Vec<Evidence> {
    search(client, corpus, query(words, SearchMode::Sparse)).await
}

/// Returns a query that compares every vector, so that it ranks every chunk there is.
pub fn exhaustive(text: &str) -> Query {
    Query { exact: true, ..query(text, SearchMode::Dense) }
}

/// Returns all chunks of the documents as searches see them, in the order of the text.
pub async fn chunks(
    client: &Client,
    corpus: &CorpusName,
    ids: &[DocumentId],
) -> BTreeMap<String, Vec<Evidence>> {
    let mut chunks: BTreeMap<String, Vec<Evidence>> = BTreeMap::new();
    // So few at a time that all their chunks fit into one answer.
    for some in ids.chunks(50) {
        let mut all = exhaustive("the river");
        all.filter.documents = some.to_vec();
        let evidence = search(client, corpus, all).await;
        assert!(evidence.len() < MOST_RESULTS, "the answer may be cut");
        for item in evidence {
            chunks.entry(item.document_id.clone()).or_default().push(item);
        }
    }
    for items in chunks.values_mut() {
        items.sort_by_key(|item| item.span.map(|span| span.start));
    }
    chunks
}

/// Fails unless `chunks`, in the order of the text, are of one version and together make up the
/// text: none missing, none twice. Returns the version.
pub fn assert_whole(text: &str, chunks: &[Evidence]) -> u64 {
    let version = chunks.first().expect("chunks of a document that is there").version;
    let mut end = 0;
    for chunk in chunks {
        let span = chunk.span.unwrap();
        assert_eq!(chunk.version, version, "chunks of two versions: {chunks:#?}");
        assert_eq!(span.start, end, "a gap or an overlap: {chunks:#?}");
        let quoted = text.get(span.start as usize..span.end as usize);
        assert_eq!(quoted, Some(chunk.text.as_str()), "a span that is not the text's");
        end = span.end;
    }
    assert_eq!(end, text.len() as u64, "the end is missing: {chunks:#?}");
    version
}
