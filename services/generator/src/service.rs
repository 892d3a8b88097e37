//! `GeneratorService`: a reasoner of this process for coordinators elsewhere.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Error, Limits, Reasoner};
use clew_proto::convert::generator as convert;
use clew_proto::generator::v1 as wire;
use clew_proto::generator::v1::generator_service_server::GeneratorService;
use clew_proto::generator::v1::read_response::Event;
use clew_proto::to_status;
use clew_runtime::admission::Gate;
use clew_runtime::deadline::{of_request, within};
use futures::{Stream, StreamExt, stream};
use tonic::{Request, Response, Status};

use crate::GeneratorConfig;

/// Time of a call that names no deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// The handler.
pub struct GeneratorRpc {
    reasoner: Arc<dyn Reasoner>,
    limits: Limits,
    readings: Gate,
}

impl GeneratorRpc {
    /// Serves `reasoner`.
    pub fn new(reasoner: Arc<dyn Reasoner>, limits: Limits, config: &GeneratorConfig) -> Self {
        let retry_after = Duration::from_millis(500);
        let readings = Gate::new("the generator's queue", config.readings, retry_after);
        Self { reasoner, limits, readings }
    }

    /// What it holds.
    pub fn gate(&self) -> &Gate {
        &self.readings
    }

    async fn read(&self, request: Request<wire::ReadRequest>) -> Result<wire::Reading, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (question, evidence) = convert::read_from_wire(request.into_inner(), &self.limits)?;
        let _permit = self.readings.try_enter(1)?;
        let reading =
            within(deadline, "reading", self.reasoner.read(&question, &evidence, deadline)).await?;
        Ok(convert::reading_to_wire(reading))
    }
}

#[tonic::async_trait]
impl GeneratorService for GeneratorRpc {
    type ReadStream = Pin<Box<dyn Stream<Item = Result<wire::ReadResponse, Status>> + Send>>;

    async fn read(
        &self,
        request: Request<wire::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let reading = self.read(request).await.map_err(|error| to_status(&error))?;
        // An extractive reader has its text at once.
        let delta = (!reading.text.is_empty()).then(|| Event::TextDelta(reading.text.clone()));
        let events = delta.into_iter().chain([Event::Reading(reading)]);
        let responses = events.map(|event| Ok(wire::ReadResponse { event: Some(event) }));
        Ok(Response::new(stream::iter(responses.collect::<Vec<_>>()).boxed()))
    }
}
