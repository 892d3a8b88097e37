//! `GraphBuilderService`: a graph builder for callers elsewhere.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Error, ExtractionTask, GraphBuilder, Limits, SummaryTask};
use clew_proto::convert::graph_builder as convert;
use clew_proto::graph_builder::v1 as wire;
use clew_proto::graph_builder::v1::graph_builder_service_server::{
    GraphBuilderService, GraphBuilderServiceServer,
};
use clew_proto::to_status;
use clew_runtime::admission::Gate;
use clew_runtime::deadline::{of_request, within};
use futures::{Stream, StreamExt, stream};
use tonic::{Request, Response, Status};

/// Time of a call that names no deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);
/// Delay after which a refused caller may come back: texts are read at megabytes a second.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Largest message taken: a task as large as the limits allow, with room to spare.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// The handler.
pub struct GraphBuilderRpc {
    builder: Arc<dyn GraphBuilder>,
    limits: Limits,
    queue: Gate,
}

impl GraphBuilderRpc {
    /// Serves `builder`, which is given texts of at most `queue_bytes` at once.
    pub fn new(builder: Arc<dyn GraphBuilder>, limits: Limits, queue_bytes: u32) -> Self {
        let queue = Gate::new("the queue of texts to be read", queue_bytes, RETRY_AFTER)
            .seen_as("graph_builder", "bytes");
        Self { builder, limits, queue }
    }

    /// What it holds, in bytes of text.
    pub fn gate(&self) -> &Gate {
        &self.queue
    }

    /// What a server is given.
    pub fn into_service(self) -> GraphBuilderServiceServer<Self> {
        GraphBuilderServiceServer::new(self).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    async fn try_summarise(
        &self,
        request: Request<wire::SummariseRequest>,
    ) -> Result<Vec<wire::SummariseResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let tasks = convert::summarise_from_wire(request.into_inner(), &self.limits)?;
        let _permit = self.queue.try_enter(tasks.iter().map(SummaryTask::bytes).sum())?;
        let summaries = self.builder.summarise(tasks, deadline);
        let summaries = within(deadline, "summarising", summaries).await?;
        Ok(summaries.into_iter().map(convert::summary_to_wire).collect())
    }

    async fn try_extract(
        &self,
        request: Request<wire::ExtractRequest>,
    ) -> Result<Vec<wire::ExtractResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let tasks = convert::extract_from_wire(request.into_inner(), &self.limits)?;
        let _permit = self.queue.try_enter(tasks.iter().map(ExtractionTask::bytes).sum())?;
        let extractions = within(deadline, "extracting", self.builder.extract(tasks, deadline));
        Ok(extractions.await?.into_iter().map(convert::extraction_to_wire).collect())
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn responses<T: Send + 'static>(
    made: Result<Vec<T>, Error>,
) -> Result<Response<Responses<T>>, Status> {
    let made = made.map_err(|error| to_status(&error))?;
    Ok(Response::new(stream::iter(made.into_iter().map(Ok)).boxed()))
}

#[tonic::async_trait]
impl GraphBuilderService for GraphBuilderRpc {
    type SummariseStream = Responses<wire::SummariseResponse>;
    type ExtractStream = Responses<wire::ExtractResponse>;

    async fn summarise(
        &self,
        request: Request<wire::SummariseRequest>,
    ) -> Result<Response<Self::SummariseStream>, Status> {
        responses(self.try_summarise(request).await)
    }

    async fn extract(
        &self,
        request: Request<wire::ExtractRequest>,
    ) -> Result<Response<Self::ExtractStream>, Status> {
        responses(self.try_extract(request).await)
    }
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;
    use clew_proto::from_status;
    use futures::TryStreamExt;

    use super::*;
    use crate::{Extractive, GraphBuilderConfig};

    fn rpc(queue_bytes: u32) -> GraphBuilderRpc {
        let builder = Arc::new(Extractive::new(&GraphBuilderConfig::default()));
        GraphBuilderRpc::new(builder, Limits::default(), queue_bytes)
    }

    fn request(text: &str) -> Request<wire::ExtractRequest> {
        let task = wire::ExtractionTask { text: text.to_owned(), ..Default::default() };
        Request::new(wire::ExtractRequest { tasks: vec![task] })
    }

    #[tokio::test]
    async fn a_call_is_admitted_by_its_bytes_and_gives_them_back() {
        let rpc = rpc(100);
        let held = rpc.gate().try_enter(95).unwrap();
        let Err(refused) = rpc.extract(request("Ada met Bob.")).await else {
            panic!("there is no room for twelve bytes")
        };
        let refused = from_status(&refused);
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        assert_eq!(refused.retry_after(), Some(RETRY_AFTER));
        drop(held);
        let responses = rpc.extract(request("Ada met Bob.")).await.unwrap().into_inner();
        let responses: Vec<_> = responses.try_collect().await.unwrap();
        assert_eq!(responses[0].extraction.as_ref().unwrap().entities.len(), 2);
        assert_eq!(rpc.gate().in_use(), 0);
    }

    #[tokio::test]
    async fn a_bad_task_is_refused_before_it_waits() {
        let rpc = rpc(1);
        let _full = rpc.gate().try_enter(1).unwrap();
        let Err(refused) = rpc.summarise(Request::new(wire::SummariseRequest::default())).await
        else {
            panic!("it has no task")
        };
        assert_eq!(from_status(&refused).violations()[0].field, "tasks");
    }
}
