//! `GeneratorService`: the reasoners and the language model of this process, for other nodes.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Budget, Error, ErrorKind, Generator, Heard, Limits, Reasoners};
use clew_proto::convert::generator as convert;
use clew_proto::generator::v1 as wire;
use clew_proto::generator::v1::generator_service_server::GeneratorService;
use clew_proto::generator::v1::{generate_response, read_response};
use clew_proto::{respond, to_status};
use clew_remote::{ReceivedAccount, Told};
use clew_runtime::admission::Gate;
use clew_runtime::deadline::{of_request, within};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future, stream};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use crate::GeneratorConfig;

/// Time limit of a call without a deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// Handler of `GeneratorService`.
pub struct GeneratorRpc {
    reasoners: Arc<dyn Reasoners>,
    model: Option<Arc<dyn Generator>>,
    limits: Limits,
    budget: Budget,
    work: Gate,
}

/// Response stream of a call.
type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl GeneratorRpc {
    /// Creates a handler that reads evidence with `reasoners` and offers `model`, if there is one.
    pub fn new(
        reasoners: Arc<dyn Reasoners>,
        model: Option<Arc<dyn Generator>>,
        limits: Limits,
        config: &GeneratorConfig,
    ) -> Self {
        let retry_after = Duration::from_millis(500);
        let work = Gate::new("the generator's queue", config.readings, retry_after)
            .seen_as("readings", "requests");
        Self { reasoners, model, limits, budget: config.budget.budget(), work }
    }

    /// Returns the gate that counts readings and replies in progress.
    pub fn gate(&self) -> &Gate {
        &self.work
    }

    fn model(&self) -> Result<&Arc<dyn Generator>, Error> {
        self.model.as_ref().ok_or_else(|| {
            let problem = "no language model is configured here; set `generator.endpoint` or \
                           `generator.local`";
            Error::new(ErrorKind::WrongState, "NO_MODEL", problem)
        })
    }

    fn try_read(
        &self,
        request: Request<wire::ReadRequest>,
    ) -> Result<Responses<wire::ReadResponse>, Error> {
        use read_response::Event;
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let message = request.into_inner();
        let received = ReceivedAccount::of(message.account.as_ref(), self.budget)?;
        let assignment = convert::read_from_wire(message, &self.limits)?;
        let permit = self.work.try_enter(1)?;
        let reasoner = self.reasoners.reasoner(received.account());
        let reading = async move {
            let _permit = permit;
            let assignment = assignment.borrowed();
            within(deadline, "reading", reasoner.read(&assignment, deadline)).await
        };
        let events = received.while_working(reading).map(|told| match told {
            Told::Spent(spent) => Ok(vec![Event::Spent(spent)]),
            Told::Done(Ok(reading)) => {
                let reading = convert::reading_to_wire(reading);
                // The text is sent as one delta, because it arrives whole.
                let text = Some(reading.text.clone()).filter(|text| !text.is_empty());
                let delta = text.map(Event::TextDelta).into_iter();
                Ok(delta.chain([Event::Reading(reading)]).collect())
            }
            Told::Done(Err(error)) => Err(to_status(&error)),
        });
        let response = |event| Ok(wire::ReadResponse { event: Some(event) });
        let responses = events.map_ok(move |events| stream::iter(events.into_iter().map(response)));
        Ok(responses.try_flatten().boxed())
    }

    fn try_generate(
        &self,
        request: Request<wire::GenerateRequest>,
    ) -> Result<Responses<wire::GenerateResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let request = convert::generate_from_wire(request.into_inner())?;
        let model = Arc::clone(self.model()?);
        let permit = self.work.try_enter(1)?;
        // Unbounded, but no longer than the reply, whose tokens are bounded.
        let (tell, told) = mpsc::unbounded_channel();
        let replying = async move {
            let _permit = permit;
            let mut heard = |heard: Heard<'_>| {
                let event = match heard {
                    Heard::Asked => generate_response::Event::Asked(wire::Asked {}),
                    Heard::Text(more) => generate_response::Event::TextDelta(more.to_owned()),
                    Heard::Anew => generate_response::Event::Anew(wire::Anew {}),
                };
                drop(tell.send(Ok(event)));
            };
            let reply = model.generate(&request, deadline, &mut heard);
            let end = within(deadline, "generating a reply", reply).await;
            let end = end.map(convert::generated_to_wire);
            let end = end.map(generate_response::Event::Generated);
            drop(tell.send(end.map_err(|error| to_status(&error))));
        };
        // The model works as part of the response stream: dropping the stream, as a caller that
        // leaves does, ends the work.
        let told = stream::unfold(told, |mut told| async move {
            told.recv().await.map(|event| (Some(event), told))
        });
        let events = stream::select(told, replying.into_stream().map(|()| None));
        let response = |event| wire::GenerateResponse { event: Some(event) };
        let responses = events.filter_map(future::ready).map(move |event| event.map(response));
        Ok(responses.boxed())
    }
}

#[tonic::async_trait]
impl GeneratorService for GeneratorRpc {
    type ReadStream = Responses<wire::ReadResponse>;
    type GenerateStream = Responses<wire::GenerateResponse>;

    async fn read(
        &self,
        request: Request<wire::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        respond(self.try_read(request))
    }

    async fn describe_model(
        &self,
        _request: Request<wire::DescribeModelRequest>,
    ) -> Result<Response<wire::DescribeModelResponse>, Status> {
        let model = self.model().map_err(|error| to_status(&error))?;
        Ok(Response::new(convert::identity_to_wire(model.identity(), self.budget)))
    }

    async fn generate(
        &self,
        request: Request<wire::GenerateRequest>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        respond(self.try_generate(request))
    }
}
