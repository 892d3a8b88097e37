//! `QueryService`: searches, answers and the list of strategies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_auth::{Bill, Caller};
use clew_core::{
    Account, Budget, Encoder, Encoders, Error, Partial, Priority, Query, Retriever, TextKind,
};
use clew_proto::convert::chat::ChatQuestion;
use clew_proto::convert::query::{self as convert, EmbedBy, ReceivedSearch};
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
use crate::described::Described;
use crate::pages::{PageStart, Search};
use crate::question::{Arguments, Coordinator, EVENTS, Event};
use crate::reading::{Responses, while_read};
use crate::reranked::Reranked;
use crate::scatter::{Page, Scatter};
use crate::shards::Shards;
use crate::strategies::strategies;
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
        let (name, ReceivedSearch { query, with_attributes, page_token }) =
            convert::search_from_wire(request.into_inner(), &self.backends.limits)?;
        let search = Search { tenant: caller.tenant(), corpus: &name, query: &query };
        let start = PageStart::read(&page_token, &search, &self.backends.limits)?;
        if query.rerank.is_some() {
            caller.has_tokens().await?;
        }
        let corpus = self.backends.corpora.of(&caller).get(&name, deadline).await?;
        let mut bill = Bill::open(&caller, Budget::default());
        let shards = Shards::over(&self.backends, corpus);
        let scatter = Scatter::over(&self.backends, shards.clone(), bill.account());
        let reranked = match query.rerank {
            None => None,
            candidates => {
                let (scatter, account) = (scatter.clone(), bill.account());
                Some(self.reranked(scatter, candidates, account, deadline).await?)
            }
        };
        let _permit = self.enter()?;
        let searching = async {
            let Page { retrieved, next } = match &reranked {
                // A reranker orders the best candidates, and nothing comes behind them.
                Some(reranked) => {
                    Page { retrieved: reranked.retrieve(&query, deadline).await?, next: None }
                }
                None => scatter.page(&query, &start, deadline).await?,
            };
            let next_page_token = next.map(|next| next.token(&search)).unwrap_or_default();
            let found = convert::retrieved_to_wire(retrieved);
            let mut found = wire::SearchResponse { next_page_token, ..found };
            let results = std::slice::from_mut(&mut found);
            describe(&shards, results, &[with_attributes], deadline).await?;
            Ok::<_, Error>(found)
        };
        let response = stopwatch.over(metrics::stage("search", searching)).await?;
        bill.settle().await;
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
        let (corpus, searches) =
            convert::search_batch_from_wire(request.into_inner(), &self.backends.limits)?;
        let with_attributes: Vec<bool> =
            searches.iter().map(|search| search.with_attributes).collect();
        let queries: Vec<Query> = searches.into_iter().map(|search| search.query).collect();
        // The guard has charged one request.
        caller.used_requests(queries.len() - 1).await;
        let reranked = queries.iter().position(|query| query.rerank.is_some());
        if reranked.is_some() {
            caller.has_tokens().await?;
        }
        let corpus = self.backends.corpora.of(&caller).get(&corpus, deadline).await?;
        let mut bill = Bill::open(&caller, Budget::default());
        let shards = Shards::over(&self.backends, corpus);
        let scatter = Scatter::over(&self.backends, shards.clone(), bill.account());
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
        let searching = async {
            let retrieved = retriever.retrieve_all(&queries, deadline).await?.into_iter();
            let mut results: Vec<_> = retrieved.map(convert::retrieved_to_wire).collect();
            describe(&shards, &mut results, &with_attributes, deadline).await?;
            Ok::<_, Error>(results)
        };
        let results = stopwatch.over(metrics::stage("search_batch", searching)).await?;
        bill.settle().await;
        let timing = Some(convert::timing_to_wire(stopwatch.read()));
        Ok(wire::SearchBatchResponse { results, timing })
    }

    async fn list_strategies(
        &self,
        request: Request<wire::ListStrategiesRequest>,
    ) -> Result<wire::ListStrategiesResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let strategies = match request.into_inner().corpus.as_str() {
            "" => strategies(None),
            name => {
                let corpora = self.backends.corpora.of(&caller);
                let corpus = corpora.get(&name.parse()?, deadline).await?;
                strategies(Some(corpus.settings()))
            }
        };
        Ok(wire::ListStrategiesResponse { strategies })
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

    async fn embed(
        &self,
        request: Request<wire::EmbedRequest>,
    ) -> Result<wire::EmbedResponse, Error> {
        let stopwatch = Stopwatch::begin();
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let wanted =
            convert::texts_to_embed_from_wire(request.into_inner(), &self.backends.limits)?;
        caller.has_tokens().await?;
        let mut bill = Bill::open(&caller, Budget::default());
        let encoders = self.backends.encoders_on(bill.account());
        let encoder = match wanted.by {
            EmbedBy::Current => encoders.current(),
            EmbedBy::Model(model) => named(encoders.as_ref(), &model, deadline).await?,
            EmbedBy::Corpus(corpus) => {
                let corpus = self.backends.corpora.of(&caller).get(&corpus, deadline).await?;
                encoders.of(&corpus.settings().encoder, deadline).await?
            }
        };
        // Passages wait behind searches, as those of documents do.
        let priority = match wanted.kind {
            TextKind::Query => Priority::Interactive,
            TextKind::Passage => Priority::Bulk,
        };
        let _permit = self.enter()?;
        let embedding = encoder.embed(wanted.texts, wanted.kind, priority, deadline);
        let embeddings = stopwatch.over(metrics::stage("embed", embedding)).await?;
        bill.settle().await;
        let identity = encoder.identity();
        Ok(wire::EmbedResponse {
            model: identity.model.clone(),
            dimension: identity.dimension,
            embeddings: embeddings.into_iter().map(convert::embedding_to_wire).collect(),
            cost: Some(convert::cost_to_wire(bill.account().ledger().cost())),
            timing: Some(convert::timing_to_wire(stopwatch.read())),
        })
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
        let with_attributes = asked.with_attributes;
        let backends = Arc::clone(&self.backends);
        let name = strategy.name();
        let span = child(|| tracing::info_span!("answer", strategy = name));
        let arguments = Arguments {
            bill,
            question,
            with_attributes,
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

/// Adds the attributes of their documents to the evidence of those results `with_attributes`. A
/// shard that does not tell them counts as missing there.
async fn describe(
    shards: &Shards,
    results: &mut [wire::SearchResponse],
    with_attributes: &[bool],
    deadline: Instant,
) -> Result<(), Error> {
    let mut wanted: Vec<_> = results
        .iter_mut()
        .zip(with_attributes)
        .filter_map(|(result, is_wanted)| is_wanted.then_some(result))
        .collect();
    let evidence = wanted.iter().flat_map(|result| &result.evidence);
    let ids = evidence.map(|item| item.document_id.as_str());
    let Partial { found, shards_missing } = Box::pin(Described::of(shards, ids, deadline)).await?;
    let missing = convert::shards_to_wire(&shards_missing);
    for result in &mut wanted {
        for item in &mut result.evidence {
            item.attributes = found.attributes(&item.document_id);
        }
        result.shards_missing.extend(&missing);
        result.shards_missing.sort_unstable();
        result.shards_missing.dedup();
    }
    Ok(())
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

    async fn embed(
        &self,
        request: Request<wire::EmbedRequest>,
    ) -> Result<Response<wire::EmbedResponse>, Status> {
        respond(self.embed(request).await)
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

    async fn list_strategies(
        &self,
        request: Request<wire::ListStrategiesRequest>,
    ) -> Result<Response<wire::ListStrategiesResponse>, Status> {
        respond(self.list_strategies(request).await)
    }
}

/// Returns the offered encoder whose model has this name.
async fn named(
    encoders: &dyn Encoders,
    model: &str,
    deadline: Instant,
) -> Result<Arc<dyn Encoder>, Error> {
    let offered = encoders.offered();
    match offered.iter().find(|offered| offered.model == model) {
        Some(identity) => encoders.of(identity, deadline).await,
        None => {
            let names: Vec<&str> = offered.iter().map(|known| known.model.as_str()).collect();
            let problem = format!("expected one of `{}`, got `{model}`", names.join("`, `"));
            Err(Error::invalid("model", problem))
        }
    }
}

fn event_to_wire(event: Event) -> Result<wire::AnswerResponse, Status> {
    use wire::answer_response::Event as Wire;
    let event = match event {
        Event::Trace(event) => Wire::Trace(convert::trace_to_wire(event)),
        Event::Text(delta) => Wire::TextDelta(delta),
        Event::Ended(Ok((answer, timing, described))) => {
            let timing = Some(convert::timing_to_wire(timing));
            let mut answer = wire::Answer { timing, ..convert::answer_to_wire(answer) };
            for citation in &mut answer.citations {
                citation.attributes = described.attributes(&citation.document_id);
            }
            Wire::Answer(answer)
        }
        Event::Ended(Err(error)) => return Err(to_status(&error)),
    };
    Ok(wire::AnswerResponse { event: Some(event) })
}
