//! The coordinator actor of a question, which runs the strategy within the question's deadline and
//! on its account.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use clew_auth::Bill;
use clew_core::{Account, Answer, Cost, Error, Guide, Retriever, TimeUse, Timing, TraceEvent};
use clew_proto::convert::chat::Inference;
use clew_runtime::admission::Permit;
use clew_runtime::deadline::within;
use clew_runtime::timing::Stopwatch;
use clew_strategy::{AnswerObserver, Question, Seams, Strategy};
use clew_telemetry::metrics;
use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;
use tracing::{Instrument, Span};

use crate::Backends;
use crate::compressed::CompressedMemory;
use crate::described::Described;
use crate::structure::CorpusStructure;

/// Report of a coordinator.
#[derive(Debug)]
pub(crate) enum Event {
    Trace(TraceEvent),
    Text(String),
    /// The answer, with the attributes of the documents that it cites, if they were asked for.
    Ended(Result<(Answer, Timing, Described), Error>),
}

/// Number of events that are buffered for a slow client; a strategy takes far fewer steps.
pub(crate) const EVENTS: usize = 1024;

/// The actor that coordinates one question.
pub(crate) struct Coordinator;

/// Arguments of a [`Coordinator`].
pub(crate) struct Arguments {
    /// The question's account, which is charged however the question ends.
    pub bill: Bill,
    pub question: Question,
    /// Whether citations come with the attributes of their documents.
    pub with_attributes: bool,
    /// Component that infers the time that the question asks about.
    pub inference: Inference,
    pub strategy: &'static dyn Strategy,
    pub structure: CorpusStructure,
    /// Retriever that finds the strategy's evidence.
    pub retriever: Box<dyn Retriever>,
    pub backends: Arc<Backends>,
    pub events: mpsc::Sender<Event>,
    pub permit: Permit,
    pub stopwatch: Stopwatch,
    /// Span of the question in the trace.
    pub span: Span,
}

impl Actor for Coordinator {
    /// The only message: begin.
    type Msg = ();
    type State = Option<Arguments>;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        arguments: Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        myself.cast(())?;
        Ok(Some(arguments))
    }

    async fn handle(
        &self,
        myself: ActorRef<()>,
        (): (),
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(arguments) = state.take() {
            let span = arguments.span.clone();
            run(arguments).instrument(span).await;
        }
        myself.stop(None);
        Ok(())
    }
}

async fn run(arguments: Arguments) {
    let Arguments {
        mut bill,
        mut question,
        with_attributes,
        inference,
        strategy,
        structure,
        retriever,
        backends,
        events,
        permit,
        stopwatch,
        span: _,
    } = arguments;
    let account = bill.account().clone();
    let reasoner = backends.reasoners.reasoner(&account);
    let guide = backends.reasoners.guide(&account);
    let graph_builder = backends.graph_builders.on(&account);
    let progress = Reported(events.clone());
    // A vector that is compared with stored ones must come from the corpus' model. To compare texts
    // with each other, another model does as well.
    let (encoders, model) = (backends.encoders_on(&account), &structure.corpus.settings().encoder);
    let encoder = encoders.of_or_current(model, question.deadline).await;
    let seams = Seams {
        retriever: retriever.as_ref(),
        documents: &structure,
        reasoner: reasoner.as_ref(),
        tree: &structure,
        graph: &structure,
        navigator: guide.as_ref(),
        planner: guide.as_ref(),
        memory: &CompressedMemory {
            structure: &structure,
            planner: guide.as_ref(),
            account: &account,
        },
        encoder: encoder.as_ref(),
        graph_builder: graph_builder.as_ref(),
    };
    let deadline = question.deadline;
    let answering = AssertUnwindSafe(async {
        infer_time(&mut question, inference, guide.as_ref()).await?;
        strategy.answer(&question, seams, &progress).await
    });
    let answering = answering.catch_unwind();
    let answering = within(deadline, "answering", async {
        let answer = stopwatch.over(answering).await;
        let answer =
            answer.unwrap_or_else(|_panic| Err(Error::internal("the strategy panicked")))?;
        let mut described = Described::default();
        if with_attributes {
            let cited = answer.citations.iter().map(|citation| citation.document_id.as_str());
            // The answer holds without them.
            match Box::pin(Described::of(&structure.shards, cited, deadline)).await {
                Ok(of_cited) => described = of_cited.found,
                Err(error) => {
                    tracing::warn!(error = error.chain(), "citations come without attributes");
                }
            }
        }
        Ok((with_cost_of(&account, answer), stopwatch.read(), described))
    });
    tokio::select! {
        // The client left, so nobody wants the answer.
        () = events.closed() => {}
        ended = metrics::stage("answer", answering) => {
            // The account is charged before the client can ask its next question.
            bill.settle().await;
            // The place is free for the next question, however slowly the client reads.
            drop(permit);
            drop(events.send_timeout(Event::Ended(ended), backends.config.reader_patience()).await);
        }
    }
}

/// Sets the cost of an answer to all that was spent on it, including steps that had no result.
fn with_cost_of(account: &Account, answer: Answer) -> Answer {
    let shards_searched = answer.cost.shards_searched;
    Answer { cost: Cost { shards_searched, ..account.ledger().cost() }, ..answer }
}

/// Lets a model infer the time that the question asks about, if that is wanted and the time of
/// asking is known.
async fn infer_time(
    question: &mut Question,
    inference: Inference,
    guide: &dyn Guide,
) -> Result<(), Error> {
    let (Inference::Model, Some(asked_at)) = (inference, question.asked_at) else { return Ok(()) };
    (question.range, _) = guide.time_range(&question.text, asked_at, question.deadline).await?;
    // If the model infers nothing, the question asks about no time. Rules must not guess one.
    if question.range.is_none() {
        question.chat.time = TimeUse::Ignore;
    }
    Ok(())
}

struct Reported(mpsc::Sender<Event>);

impl AnswerObserver for Reported {
    // A client that has not read 1024 events loses the next ones.
    fn trace(&self, event: TraceEvent) {
        drop(self.0.try_send(Event::Trace(event)));
    }

    fn text(&self, delta: &str) {
        drop(self.0.try_send(Event::Text(delta.to_owned())));
    }
}
