//! Export of a corpus: one shard after another, a page at a time, as fast as the client reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_auth::Caller;
use clew_core::{Corpus, Error};
use clew_proto::convert::export as convert;
use clew_proto::corpus::v1 as wire;
use clew_proto::to_status;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status};

use super::handler::Corpora;
use super::snapshots::{Events, Patience};

/// Number of messages that are buffered for the client.
const MESSAGES: usize = 4;
/// Longest time that one page may take.
const PAGE_PATIENCE: Duration = Duration::from_secs(120);

type Sender = mpsc::Sender<Result<wire::ExportCorpusResponse, Status>>;

impl Corpora {
    pub(super) async fn export(
        &self,
        request: Request<wire::ExportCorpusRequest>,
    ) -> Result<Events<wire::ExportCorpusResponse>, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let name = request.into_inner().name.parse()?;
        let corpus = self.backends.corpora.of(&caller).get(&name, deadline).await?;
        let (messages, receiver) = mpsc::channel(MESSAGES);
        tokio::spawn(async move {
            if let Err(error) = send(&corpus, &messages).await {
                // Fails if the client is gone.
                drop(messages.send(Err(to_status(&error))).await);
            }
        });
        Ok(ReceiverStream::new(receiver))
    }
}

/// Sends all pages. Ends early when the client leaves.
async fn send(corpus: &Arc<Corpus>, messages: &Sender) -> Result<(), Error> {
    let mut documents = 0;
    for shard in corpus.shards() {
        let mut after = String::new();
        let mut patience = Patience::default();
        loop {
            let page = match shard.export(&after, Instant::now() + PAGE_PATIENCE).await {
                Ok(page) => page,
                Err(error) => {
                    patience.bear(error).await?;
                    continue;
                }
            };
            patience = Patience::default();
            documents += page.documents;
            for message in page.tables.into_iter().flat_map(convert::rows_to_wire) {
                if messages.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
            }
            let payload = Some(wire::export_corpus_response::Payload::Documents(documents));
            if messages.send(Ok(wire::ExportCorpusResponse { payload })).await.is_err() {
                return Ok(());
            }
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
    }
    Ok(())
}
