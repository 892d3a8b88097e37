//! Single requests: sending one, waiting for its answer, and judging it by what is known.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clew_client::{Client, QuestionRequest};
use clew_core::{CorpusName, DocumentId, Error, Query};
use clew_proto::ingest::v1::{DocumentStage, ingest_response};
use clew_proto::query::v1 as query;
use futures::StreamExt;

use crate::outcome::{Done, Failure, Judgement, NOTHING_TO_FORGET, Outcome, ServerTime};
use crate::scenario::RequestKind;
use crate::texts::Texts;

/// Time that the client waits beyond the deadline that it sent, so that the server can report that
/// it has passed.
const GRACE: Duration = Duration::from_secs(1);

/// State of a tenant during a run.
#[derive(Debug)]
pub(crate) struct TenantState {
    pub name: String,
    pub corpus: CorpusName,
    pub texts: Texts,
    /// Number of initial documents. Questions are about documents with lower numbers.
    pub known_documents: u64,
    next_document: AtomicU64,
    ledger: Mutex<Ledger>,
}

/// State of the documents that a run ingested.
#[derive(Debug, Default)]
struct Ledger {
    /// Documents that were acknowledged and must be kept, oldest first.
    kept: VecDeque<u64>,
    /// Documents of requests that are under way or ended with an unknown result.
    unsure: HashSet<u64>,
    /// Documents that receipts report as forgotten.
    forgotten: HashSet<u64>,
}

/// Comparison of what a server has with what it acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Number of documents that were acknowledged and not forgotten.
    pub expected: u64,
    /// Number of these documents that are not stored.
    pub lost: u64,
    /// Number of documents that were forgotten but are still stored.
    pub undead: u64,
}

/// Connections of one flow, used in rotation.
#[derive(Debug)]
pub(crate) struct Connections {
    clients: Vec<Client>,
    next: AtomicUsize,
}

impl Connections {
    /// Creates the rotation. `clients` must not be empty.
    pub fn new(clients: Vec<Client>) -> Self {
        Self { clients, next: AtomicUsize::new(0) }
    }

    fn take(&self) -> Client {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.clients[number % self.clients.len()].clone()
    }
}

impl TenantState {
    pub fn new(name: String, corpus: CorpusName, texts: Texts, known_documents: u64) -> Self {
        let next_document = AtomicU64::new(known_documents);
        Self { name, corpus, texts, known_documents, next_document, ledger: Mutex::default() }
    }

    // No code that can panic runs under the lock, so a poisoned lock holds a valid ledger.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one request and waits for its outcome, a little longer than its deadline.
    pub async fn perform(
        &self,
        connections: &Connections,
        act: &RequestKind,
        deadline: Duration,
        seed: u64,
    ) -> Outcome {
        let client = connections.take();
        let mut random = fastrand::Rng::with_seed(seed);
        let acting = async {
            match act {
                RequestKind::Search(search) => {
                    let known = self.texts.question(self.known_documents, &mut random)?;
                    let mut query = Query::new(known.question, search.k);
                    query.mode = search.mode;
                    let found = client.search(&self.corpus, query).await?;
                    Ok(Outcome::Done(judged_search(&found, &known.document)))
                }
                RequestKind::Answer(answer) => {
                    let known = self.texts.question(self.known_documents, &mut random)?;
                    let question = QuestionRequest {
                        text: known.question,
                        strategy: answer.strategy.clone(),
                        k: answer.k,
                        ..QuestionRequest::default()
                    };
                    let answer = last_answer(&client, &self.corpus, question).await?;
                    Ok(Outcome::Done(judged_answer(&answer, &known.answer)))
                }
                RequestKind::Ingest(batch) => self.ingest(&client, batch.documents).await,
                RequestKind::Forget(batch) => self.forget(&client, batch.documents).await,
            }
        };
        match tokio::time::timeout(deadline + GRACE, acting).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Outcome::Failed(Failure::of(&error)),
            Err(_elapsed) => Outcome::Failed(Failure::gave_up()),
        }
    }

    async fn ingest(&self, client: &Client, count: u32) -> Result<Outcome, Error> {
        let first = self.next_document.fetch_add(count.into(), Ordering::Relaxed);
        let numbers = first..first + u64::from(count);
        self.ledger().unsure.extend(numbers.clone());
        let documents: Result<Vec<_>, Error> =
            numbers.clone().map(|number| self.texts.document(number)).collect();
        let responses = client.ingest(&self.corpus, futures::stream::iter(documents?)).await?;
        let mut responses = std::pin::pin!(responses);
        let mut refusal = None;
        for number in numbers {
            let cut = || Error::internal("the stream ended before its last acknowledgement");
            match responses.next().await.ok_or_else(cut)??.result {
                Some(ingest_response::Result::Accepted(_)) => {
                    let mut ledger = self.ledger();
                    ledger.unsure.remove(&number);
                    ledger.kept.push_back(number);
                }
                Some(ingest_response::Result::Refused(refused)) => {
                    refusal = Some(Failure::refused_document(refused.reason, refused.retryable));
                }
                None => return Err(Error::internal("a document was answered with nothing")),
            }
        }
        Ok(match refusal {
            None => Outcome::Done(Done { documents: count.into(), ..Done::default() }),
            Some(failure) => Outcome::Failed(failure),
        })
    }

    async fn forget(&self, client: &Client, count: u32) -> Result<Outcome, Error> {
        let chosen: Vec<u64> = {
            let mut ledger = self.ledger();
            let most = ledger.kept.len().min(count as usize);
            let chosen: Vec<u64> = ledger.kept.drain(..most).collect();
            ledger.unsure.extend(&chosen);
            chosen
        };
        if chosen.is_empty() {
            return Ok(Outcome::NotSent(NOTHING_TO_FORGET));
        }
        let ids: Result<Vec<DocumentId>, Error> = chosen.iter().map(|n| Texts::id(*n)).collect();
        let receipt = client.forget(&self.corpus, &ids?).await?;
        let all_found = receipt.documents.iter().all(|document| document.found);
        let is_right = receipt.verified && all_found && receipt.documents.len() == chosen.len();
        if receipt.verified {
            let mut ledger = self.ledger();
            for number in &chosen {
                ledger.unsure.remove(number);
            }
            ledger.forgotten.extend(&chosen);
        }
        let judgement = if is_right { Judgement::Right } else { Judgement::Wrong };
        let documents = chosen.len() as u64;
        Ok(Outcome::Done(Done { judgement, documents, ..Done::default() }))
    }

    /// Compares what the server has with what it acknowledged. Documents with an unknown result may
    /// be stored or not.
    ///
    /// # Errors
    /// Returns the errors of listing documents.
    pub async fn kept(&self, client: &Client) -> Result<Kept, Error> {
        let listed = client.documents(&self.corpus, DocumentStage::Unspecified).await?;
        let there: HashSet<&str> = listed.iter().map(|document| document.id.as_str()).collect();
        let is_there = |number: &u64| {
            Texts::id(*number).is_ok_and(|id| there.contains(id.to_string().as_str()))
        };
        let ledger = self.ledger();
        let known: Vec<u64> =
            (0..self.known_documents).chain(ledger.kept.iter().copied()).collect();
        Ok(Kept {
            expected: known.len() as u64,
            lost: known.iter().filter(|number| !is_there(number)).count() as u64,
            undead: ledger.forgotten.iter().filter(|number| is_there(number)).count() as u64,
        })
    }
}

fn judged_search(found: &query::SearchResponse, expected: &DocumentId) -> Done {
    let expected = expected.to_string();
    let is_found = found.evidence.iter().any(|evidence| evidence.document_id == expected);
    Done {
        judgement: if is_found { Judgement::Right } else { Judgement::Wrong },
        is_partial: !found.shards_missing.is_empty(),
        timing: found.timing.as_ref().map(server_time),
        documents: 0,
    }
}

fn judged_answer(answer: &query::Answer, expected: &str) -> Done {
    let judgement = match answer.outcome() {
        query::Outcome::NotInMemory => Judgement::Abstained,
        _ if answer.text.contains(expected) => Judgement::Right,
        _ => Judgement::Wrong,
    };
    Done {
        judgement,
        is_partial: !answer.shards_missing.is_empty(),
        timing: answer.timing.as_ref().map(server_time),
        documents: 0,
    }
}

/// Reads the stream of an answer to its end.
async fn last_answer(
    client: &Client,
    corpus: &CorpusName,
    question: QuestionRequest,
) -> Result<query::Answer, Error> {
    let events = client.answer(corpus, question).await?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        if let Some(query::answer_response::Event::Answer(answer)) = event?.event {
            return Ok(answer);
        }
    }
    Err(Error::internal("an answer ended without its last message"))
}

fn server_time(timing: &query::Timing) -> ServerTime {
    // An absent or negative duration counts as zero.
    let duration = |given: &Option<clew_proto::Duration>| {
        given.and_then(|given| Duration::try_from(given).ok()).unwrap_or_default()
    };
    ServerTime {
        queue: duration(&timing.queue),
        compute: duration(&timing.compute),
        store: duration(&timing.store),
        total: duration(&timing.total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_right_if_the_passage_is_among_what_was_found() {
        let evidence =
            |id: &str| query::Evidence { document_id: id.to_owned(), ..Default::default() };
        let found = query::SearchResponse {
            evidence: vec![evidence("load-00000001"), evidence("load-00000002")],
            ..Default::default()
        };
        let judged = |number| judged_search(&found, &Texts::id(number).unwrap()).judgement;
        assert_eq!((judged(2), judged(3)), (Judgement::Right, Judgement::Wrong));
    }

    #[test]
    fn an_answer_is_right_wrong_or_not_given() {
        let answer = |outcome: query::Outcome, text: &str| {
            let mut answer = query::Answer { text: text.to_owned(), ..Default::default() };
            answer.set_outcome(outcome);
            judged_answer(&answer, "Bakadaburg").judgement
        };
        let right = "Ada hid it in the mill of Bakadaburg.";
        assert_eq!(answer(query::Outcome::Answered, right), Judgement::Right);
        assert_eq!(answer(query::Outcome::Answered, "In the mill."), Judgement::Wrong);
        assert_eq!(answer(query::Outcome::NotInMemory, ""), Judgement::Abstained);
    }
}
