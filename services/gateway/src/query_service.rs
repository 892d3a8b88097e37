//! `QueryService`: searches and answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_auth::{Bill, Caller};
use clew_core::{Account, Budget, Error, Retriever};
use clew_proto::convert::chat::ChatQuestion;
use clew_proto::convert::query as convert;
use clew_proto::query::v1 as wire;
use clew_proto::query::v1::query_service_server::QueryService;
use clew_proto::{respond, to_status};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::timing::Stopwatch;
use clew_strategy::Question;
use clew_telemetry::{child, metrics};
use futures::StreamExt;
use ractor::Actor;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::Backends;
use crate::question::{Arguments, Coordinator, EVENTS, Event};
use crate::reading::{Responses, while_read};
use crate::reranked::Reranked;
use crate::scatter::Scatter;
use crate::shards::Shards;
use crate::structure::CorpusStructure;

/// Handler of `QueryService`.
pub(crate) struct Queries {
    backends: Arc<Backends>,
    questions: Gate,
}

impl Queries {
    pub fn new(backends: Arc<Backends>) -> Self {
        let retry_after = Duration::from_millis(500);
        let questions = Gate::new("the queue of questions", backends.config.questions, retry_after)
            .seen_as("questions", "requests");
        Self { backends, questions }
    }

    /// Takes a place among the questions and searches in flight.
    pub(crate) fn enter(&self) -> Result<Permit, Error> {
        self.questions.try_enter(1)
    }

    async fn search(
        &self,
        request: Request<wire::SearchRequest>,
    ) -> Result<wire::SearchResponse, Error> {
        let stopwatch = Stopwatch::begin();
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let (corpus, query) =
            convert::search_from_wire(request.into_inner(), &self.backends.limits)?;
        if query.rerank.is_some() {
            caller.has_tokens().await?;
        }
        let corpus = self.backends.corpora.of(&caller).get(&corpus, deadline).await?;
        let mut bill = Bill::open(&caller, Budget::default());
        let shards = Shards::over(&self.backends, corpus);
        let scatter = Scatter::over(&self.backends, shards, bill.account());
        let retriever = self.reranked(scatter, query.rerank, bill.account(), deadline).await?;
        let _permit = self.enter()?;
        let retrieved =
            stopwatch.over(metrics::stage("search", retriever.retrieve(&query, deadline))).await?;
        bill.settle().await;
        let response = convert::retrieved_to_wire(retrieved);
        let timing = Some(convert::timing_to_wire(stopwatch.read()));
        Ok(wire::SearchResponse { timing, ..response })
    }

    async fn search_batch(
        &self,
        request: Request<wire::SearchBatchRequest>,
    ) -> Result<wire::SearchBatchResponse, Error> {
        let stopwatch = Stopwatch::begin();
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let (corpus, queries) =
            convert::search_batch_from_wire(request.into_inner(), &self.backends.limits)?;
        // The guard has charged one request.
        caller.used_requests(queries.len() - 1).await;
        let reranked = queries.iter().position(|query| query.rerank.is_some());
        if reranked.is_some() {
            caller.has_tokens().await?;
        }
        let corpus = self.backends.corpora.of(&caller).get(&corpus, deadline).await?;
        let mut bill = Bill::open(&caller, Budget::default());
        let shards = Shards::over(&self.backends, corpus);
        let scatter = Scatter::over(&self.backends, shards, bill.account());
        let retriever: Box<dyn Retriever> = match reranked {
            // Each query says itself whether it is reranked.
            Some(first) => {
                let (backends, account) = (&self.backends, bill.account());
                let reranked = Reranked::over(scatter, backends, None, account, deadline);
                Box::new(reranked.await.map_err(|error| convert::in_batch(first, error))?)
            }
            None => Box::new(scatter),
        };
        let _permit = self.questions.try_enter(queries.len())?;
        let searching = metrics::stage("search_batch", retriever.retrieve_all(&queries, deadline));
        let retrieved = stopwatch.over(searching).await?;
        bill.settle().await;
        let results = retrieved.into_iter().map(convert::retrieved_to_wire).collect();
        let timing = Some(convert::timing_to_wire(stopwatch.read()));
        Ok(wire::SearchBatchResponse { results, timing })
    }

    /// Returns `scatter`, with a reranker behind it if `candidates` are to be reranked.
    async fn reranked(
        &self,
        scatter: Scatter,
        candidates: Option<usize>,
        account: &Account,
        deadline: Instant,
    ) -> Result<Box<dyn Retriever>, Error> {
        if candidates.is_none() {
            return Ok(Box::new(scatter));
        }
        let reranked = Reranked::over(scatter, &self.backends, candidates, account, deadline);
        Ok(Box::new(reranked.await?))
    }

    /// Starts to answer a question, and streams the events.
    pub(crate) async fn answer(
        &self,
        caller: Caller,
        asked: ChatQuestion,
        deadline: Instant,
    ) -> Result<Responses<wire::AnswerResponse>, Error> {
        let stopwatch = Stopwatch::begin();
        let ChatQuestion { asked, choice, inference } = asked;
        let asked = convert::question_from_wire(asked, &self.backends.limits)?;
        caller.has_tokens().await?;
        let strategy = clew_strategy::find(&asked.strategy)?;
        let corpus = self.backends.corpora.of(&caller).get(&asked.corpus, deadline).await?;
        let settings = corpus.settings().chat.clone().unwrap_or_default();
        let chat = settings.chosen(&choice)?;
        let permit = self.enter()?;
        let budget = self.backends.reasoners.budget(deadline).await?;
        let bill = Bill::open(&caller, budget);
        let structure = CorpusStructure::over(&self.backends, corpus, bill.account());
        let search = structure.search.clone();
        let retriever = self.reranked(search, asked.rerank, bill.account(), deadline).await?;
        let (events, receiver) = mpsc::channel(EVENTS);
        let question = Question {
            text: asked.text,
            task: asked.task,
            asked_at: asked.asked_at,
            k: asked.k,
            evidence_tokens: asked.evidence_tokens,
            filter: asked.filter,
            memory_use: asked.memory_use,
            chat,
            range: None,
            deadline,
        };
        let backends = Arc::clone(&self.backends);
        let name = strategy.name();
        let span = child(|| tracing::info_span!("answer", strategy = name));
        let arguments = Arguments {
            bill,
            question,
            inference,
            strategy,
            structure,
            retriever,
            backends,
            events,
            permit,
            stopwatch,
            span,
        };
        Actor::spawn(None, Coordinator, arguments)
            .await
            .map_err(|error| Error::internal("no coordinator was started").with_source(error))?;
        let events = ReceiverStream::new(receiver).map(event_to_wire);
        Ok(while_read(events, self.backends.config.reader_patience()))
    }
}

#[tonic::async_trait]
impl QueryService for Queries {
    async fn search(
        &self,
        request: Request<wire::SearchRequest>,
    ) -> Result<Response<wire::SearchResponse>, Status> {
        respond(self.search(request).await)
    }

    async fn search_batch(
        &self,
        request: Request<wire::SearchBatchRequest>,
    ) -> Result<Response<wire::SearchBatchResponse>, Status> {
        respond(self.search_batch(request).await)
    }

    type AnswerStream = Responses<wire::AnswerResponse>;

    async fn answer(
        &self,
        request: Request<wire::AnswerRequest>,
    ) -> Result<Response<Self::AnswerStream>, Status> {
        let answering = async {
            let caller = Caller::of(&request)?;
            let deadline = self.backends.config.deadline(&request);
            let asked = ChatQuestion::plain(request.into_inner());
            Queries::answer(self, caller, asked, deadline).await
        };
        respond(answering.await)
    }
}

fn event_to_wire(event: Event) -> Result<wire::AnswerResponse, Status> {
    use wire::answer_response::Event as Wire;
    let event = match event {
        Event::Trace(event) => Wire::Trace(convert::trace_to_wire(event)),
        Event::Text(delta) => Wire::TextDelta(delta),
        Event::Ended(Ok((answer, timing))) => {
            let timing = Some(convert::timing_to_wire(timing));
            Wire::Answer(wire::Answer { timing, ..convert::answer_to_wire(answer) })
        }
        Event::Ended(Err(error)) => return Err(to_status(&error)),
    };
    Ok(wire::AnswerResponse { event: Some(event) })
}
