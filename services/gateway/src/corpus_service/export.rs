//! Export of a corpus: one shard after another, a page at a time, as fast as the client reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_auth::Caller;
use clew_core::{Corpus, Error, ExportPage};
use clew_proto::convert::export as convert;
use clew_proto::corpus::v1 as wire;
use clew_proto::to_status;
use tonic::Request;

use super::handler::Corpora;
use super::snapshots::Patience;
use crate::reading::{Responder, Responses, responses};

/// Number of messages that are buffered for the client.
const MESSAGES: usize = 4;
/// Longest time that one page may take.
const PAGE_PATIENCE: Duration = Duration::from_secs(120);

impl Corpora {
    pub(super) async fn export(
        &self,
        request: Request<wire::ExportCorpusRequest>,
    ) -> Result<Responses<wire::ExportCorpusResponse>, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let name = request.into_inner().name.parse()?;
        let corpus = self.backends.corpora.of(&caller).get(&name, deadline).await?;
        let (mut messages, read) = responses(MESSAGES, self.backends.config.reader_patience());
        tokio::spawn(async move {
            if let Err(error) = send(&corpus, &mut messages).await {
                messages.send(Err(to_status(&error))).await;
            }
        });
        Ok(read)
    }
}

/// Sends all pages. Ends early when the client leaves or does not read.
async fn send(
    corpus: &Arc<Corpus>,
    messages: &mut Responder<wire::ExportCorpusResponse>,
) -> Result<(), Error> {
    let mut documents = 0;
    for shard in corpus.shards() {
        let mut after = String::new();
        let mut patience = Patience::default();
        loop {
            let mut page = match shard.export(&after, Instant::now() + PAGE_PATIENCE).await {
                Ok(page) => page,
                Err(error) => {
                    patience.bear(error).await?;
                    continue;
                }
            };
            patience = Patience::default();
            documents += page.documents;
            let next = page.next.take();
            if !send_page(page, documents, messages).await {
                return Ok(());
            }
            match next {
                Some(next) => after = next,
                None => break,
            }
        }
    }
    Ok(())
}

/// Sends the rows of a page, and the number of documents up to its end. Returns whether the client
/// reads on.
async fn send_page(
    page: ExportPage,
    documents: u64,
    messages: &mut Responder<wire::ExportCorpusResponse>,
) -> bool {
    for message in page.tables.into_iter().flat_map(convert::rows_to_wire) {
        if !messages.send(Ok(message)).await {
            return false;
        }
    }
    let payload = Some(wire::export_corpus_response::Payload::Documents(documents));
    messages.send(Ok(wire::ExportCorpusResponse { payload })).await
}

#[cfg(test)]
mod tests {
    use clew_core::ExportedRows;
    use futures::StreamExt;
    use tonic::Code;

    use super::*;

    fn page(tables: usize) -> ExportPage {
        let rows = ExportedRows { table: "chunks".to_owned(), arrow: vec![7; 3] };
        ExportPage { tables: vec![rows; tables], documents: 2, next: None }
    }

    #[tokio::test]
    async fn a_client_that_stands_still_is_given_up_and_does_not_take_a_part_for_the_whole() {
        let (mut messages, read) = responses(MESSAGES, Duration::from_millis(50));
        let sending = send_page(page(9), 2, &mut messages);
        let is_read = tokio::time::timeout(Duration::from_secs(60), sending).await.unwrap();
        assert!(!is_read);
        drop(messages);
        let mut late: Vec<_> = read.collect().await;
        assert_eq!(late.pop().unwrap().unwrap_err().code(), Code::DeadlineExceeded);
        assert_eq!(late.into_iter().filter_map(Result::ok).count(), MESSAGES);
    }

    #[tokio::test]
    async fn a_client_that_reads_gets_every_row_and_the_number_of_documents() {
        let (mut messages, read) = responses(MESSAGES, Duration::from_secs(60));
        let sending = async move { send_page(page(9), 2, &mut messages).await };
        let (is_read, sent) = tokio::join!(sending, read.map(Result::unwrap).collect::<Vec<_>>());
        assert!(is_read);
        assert_eq!(sent.len(), 10);
        let documents = Some(wire::export_corpus_response::Payload::Documents(2));
        assert_eq!(sent[9].payload, documents);
    }
}
