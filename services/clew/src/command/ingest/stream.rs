//! One stream of documents to a server that may go away and come back.
//!
//! Documents that were sent and not answered are kept, within bounds, and sent again when the
//! stream breaks off. The server recognises what it has by its content, so nothing is ingested
//! twice. While the bounds are reached, nothing more is read from the source.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clew_client::Client;
use clew_core::{CorpusName, Document, Error, IfThere};
use clew_proto::convert::ingest::accepted_from_wire;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use clew_proto::ingest::v1::{IngestResponse, Refused};
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use super::report::DocumentResult;

/// Maximum number of bytes of unanswered texts. A single document may exceed it.
const UNANSWERED_BYTES: usize = 16 << 20;
/// Maximum number of unanswered documents.
const UNANSWERED: usize = 1_024;
/// Maximum time that a server may be away before the stream gives up.
const PATIENCE: Duration = Duration::from_secs(120);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Stream of documents to one corpus.
pub struct SendingStream {
    client: Client,
    corpus: CorpusName,
    if_there: IfThere,
    fates: mpsc::Sender<DocumentResult>,
    /// Documents that were refused for now.
    refused: Vec<Arc<Document>>,
    /// Documents that were sent and not answered, oldest first.
    unanswered: VecDeque<Arc<Document>>,
    unanswered_bytes: usize,
    /// Documents to send before anything new.
    waiting: VecDeque<Arc<Document>>,
    /// Whether the source has no more documents.
    is_read: bool,
    /// Whether the server answered for a document since the stream was opened.
    has_progressed: bool,
}

/// Reason why a stream ended before everything was answered.
enum Break {
    /// The server may come back, or have room later.
    Later(Error),
    /// Trying again does not help.
    Final(anyhow::Error),
}

impl SendingStream {
    /// Creates a stream that sends the fates of its documents to `fates`.
    pub fn new(
        client: Client,
        corpus: CorpusName,
        if_there: IfThere,
        fates: mpsc::Sender<DocumentResult>,
    ) -> Self {
        Self {
            client,
            corpus,
            if_there,
            fates,
            refused: Vec::new(),
            unanswered: VecDeque::new(),
            unanswered_bytes: 0,
            waiting: VecDeque::new(),
            is_read: false,
            has_progressed: false,
        }
    }

    /// Sends all documents of `source`. Returns when each is answered.
    ///
    /// # Errors
    /// Returns an error if the server stays away or has no room for two minutes, or if an error is
    /// not retryable.
    pub async fn run(mut self, mut source: mpsc::Receiver<Document>) -> anyhow::Result<()> {
        let mut pause = FIRST_PAUSE;
        let mut failing_since = None;
        loop {
            let error = match self.stream(&mut source).await {
                Ok(()) => return Ok(()),
                Err(Break::Final(error)) => return Err(error),
                Err(Break::Later(error)) => error,
            };
            if std::mem::take(&mut self.has_progressed) {
                (pause, failing_since) = (FIRST_PAUSE, None);
            }
            if failing_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err(error).context(
                    "the server took nothing for two minutes; run the same command again, what was \
                     accepted is kept",
                );
            }
            tracing::info!(error = error.chain(), "the stream broke off and is resumed");
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            // The order in which they were first sent.
            let refused = self.refused.drain(..);
            let again: VecDeque<Arc<Document>> = refused.chain(self.unanswered.drain(..)).collect();
            self.unanswered_bytes = 0;
            let later = std::mem::replace(&mut self.waiting, again);
            self.waiting.extend(later);
        }
    }

    /// Sends until everything is answered or the stream breaks off.
    async fn stream(&mut self, source: &mut mpsc::Receiver<Document>) -> Result<(), Break> {
        let (sender, to_send) = mpsc::channel(1);
        let mut sender = Some(sender);
        let (client, corpus) = (self.client.clone(), self.corpus.clone());
        let documents = ReceiverStream::new(to_send);
        let responses = client.ingest_if(&corpus, documents, self.if_there).await;
        let responses = responses.map_err(broken)?;
        futures::pin_mut!(responses);
        loop {
            // Documents on their way are answered before refused ones are tried again.
            if (self.is_read && self.waiting.is_empty()) || !self.refused.is_empty() {
                sender = None;
            }
            let may_send = self.waiting.front().is_some_and(|document| self.has_room_for(document));
            let may_read = self.waiting.is_empty() && !self.is_read && sender.is_some();
            tokio::select! {
                // An answer makes room, and tells of errors.
                biased;
                response = responses.next() => match response {
                    Some(Ok(response)) => self.answered(response).await.map_err(Break::Final)?,
                    Some(Err(error)) => return Err(broken(error)),
                    None if self.is_done() => return Ok(()),
                    None => return Err(Break::Later(Error::deadline("the server took documents"))),
                },
                permit = reserve(sender.as_ref()), if may_send => {
                    if let Some(document) = self.waiting.pop_front() {
                        self.unanswered_bytes += document.text.len();
                        self.unanswered.push_back(Arc::clone(&document));
                        permit.send(document);
                    }
                },
                document = source.recv(), if may_read => match document {
                    Some(document) => self.waiting.push_back(Arc::new(document)),
                    None => self.is_read = true,
                },
            }
        }
    }

    fn has_room_for(&self, document: &Document) -> bool {
        let is_full = self.unanswered.len() >= UNANSWERED
            || self.unanswered_bytes + document.text.len() > UNANSWERED_BYTES;
        self.unanswered.is_empty() || !is_full
    }

    fn is_done(&self) -> bool {
        let is_sent = self.is_read && self.waiting.is_empty();
        is_sent && self.unanswered.is_empty() && self.refused.is_empty()
    }

    async fn answered(&mut self, response: IngestResponse) -> anyhow::Result<()> {
        let document = self.unanswered.pop_front().context("the server answered too much")?;
        self.unanswered_bytes -= document.text.len();
        let id = response.document_id;
        let outcome = response.result.context("the answer says neither accepted nor refused")?;
        let fate = match outcome {
            Outcome::Accepted(accepted) => {
                DocumentResult::Accepted { id, accepted: accepted_from_wire(&accepted) }
            }
            Outcome::Refused(refused) if self.is_worth_another_try(&document, &refused) => {
                tracing::info!(reason = refused.reason, "a document is sent again later");
                self.refused.push(document);
                return Ok(());
            }
            Outcome::Refused(refused) => DocumentResult::Refused { id, refused },
        };
        self.has_progressed = true;
        // Nobody receives any more if another stream failed.
        drop(self.fates.send(fate).await);
        Ok(())
    }

    /// Returns whether to send a refused document again. False if a newer version of it was sent
    /// already.
    fn is_worth_another_try(&self, document: &Document, refused: &Refused) -> bool {
        refused.retryable && self.unanswered.iter().all(|newer| newer.id != document.id)
    }
}

/// Waits until the server takes a document. Never returns if it takes no more: its answers tell
/// why.
async fn reserve(sender: Option<&mpsc::Sender<Arc<Document>>>) -> mpsc::Permit<'_, Arc<Document>> {
    if let Some(sender) = sender
        && let Ok(permit) = sender.reserve().await
    {
        return permit;
    }
    std::future::pending().await
}

fn broken(error: Error) -> Break {
    if error.is_retryable() { Break::Later(error) } else { Break::Final(error.into()) }
}
