//! Corpus that holds the documents of a haystack.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clew_auth::Caller;
use clew_core::{CorpusName, StructureSettings};
use clew_eval::UnitDocument;
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use futures::StreamExt;

use crate::args::chunking::ChunkingArgs;
use crate::command::ingest::{wait_until_found, wait_until_structured};
use crate::connection::Connection;

/// Number of questions that are asked at the same time.
pub(super) const CONCURRENT_QUESTIONS: usize = 4;
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Creates the corpus and ingests the documents. Returns when the indexes are up to date.
pub(super) async fn fill(
    connection: &Connection,
    corpus: &CorpusName,
    documents: Vec<UnitDocument>,
    cutting: ChunkingArgs,
    structure: Option<StructureSettings>,
) -> anyhow::Result<()> {
    let chunking = cutting.chunking();
    let (name, retention_days) = (corpus.clone(), None);
    let new = NewCorpus {
        name,
        shards: 1,
        chunking,
        structure,
        retention_days,
        memory: None,
        chat: None,
    };
    connection.client.create_corpus(new).await?;
    let documents = futures::stream::iter(documents).map(|of| of.document);
    let responses = connection.client.ingest(corpus, documents).await?;
    futures::pin_mut!(responses);
    while let Some(response) = responses.next().await {
        let response = response?;
        if let Some(Outcome::Refused(refused)) = response.result {
            bail!("unit `{}` was refused: {}", response.document_id, refused.message);
        }
    }
    wait_until_found(connection, corpus).await?;
    wait_until_structured(connection, corpus).await?;
    let node = connection.node().context("the node runs in this process")?;
    let deadline = Instant::now() + PATIENCE;
    let operator = Caller::operator("eval");
    let corpus = node.backends.corpora.of(&operator).get(corpus, deadline).await?;
    for shard in corpus.shards() {
        shard.maintain(deadline).await?;
    }
    Ok(())
}
