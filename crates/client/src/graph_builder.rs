//! Graph builders: one exchange of messages, and a server as the seam.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Error, Extraction, ExtractionTask, GraphBuilder, Limits, Summary, SummaryTask};
use clew_proto::convert::graph_builder as convert;
use clew_proto::graph_builder::v1::graph_builder_service_client::GraphBuilderServiceClient;
use futures::TryStreamExt;

use crate::{Client, Wire, failed, within};

/// Has the tasks of one message summarised over `wire`, within `patience`.
///
/// # Errors
/// Those of `GraphBuilderService.Summarise`.
pub async fn summarise(
    wire: impl Into<Wire>,
    tasks: &[SummaryTask],
    patience: Duration,
) -> Result<Vec<Summary>, Error> {
    let request = within(patience, convert::summarise_to_wire(tasks));
    let responses = GraphBuilderServiceClient::new(wire.into()).summarise(request).await;
    let responses = responses.map_err(failed)?.into_inner().map_err(failed);
    in_order(tasks, responses.try_collect().await?, convert::summary_from_wire)
}

/// Has the tasks of one message extracted over `wire`, within `patience`.
///
/// # Errors
/// Those of `GraphBuilderService.Extract`.
pub async fn extract(
    wire: impl Into<Wire>,
    tasks: &[ExtractionTask],
    patience: Duration,
) -> Result<Vec<Extraction>, Error> {
    let request = within(patience, convert::extract_to_wire(tasks));
    let responses = GraphBuilderServiceClient::new(wire.into()).extract(request).await;
    let responses = responses.map_err(failed)?.into_inner().map_err(failed);
    in_order(tasks, responses.try_collect().await?, convert::extraction_from_wire)
}

/// What the responses hold, one for each task.
fn in_order<T, W, R>(
    tasks: &[T],
    responses: Vec<W>,
    convert: impl Fn(W, &T) -> Result<R, Error>,
) -> Result<Vec<R>, Error> {
    if responses.len() != tasks.len() {
        let problem = format!("{} responses to {} tasks", responses.len(), tasks.len());
        return Err(Error::internal(format!("a graph builder sent {problem}")));
    }
    responses.into_iter().zip(tasks).map(|(response, task)| convert(response, task)).collect()
}

/// A server's graph builder; message after message.
#[async_trait]
impl GraphBuilder for Client {
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        let mut summaries = Vec::with_capacity(tasks.len());
        for batch in convert::batches(tasks, SummaryTask::bytes, &Limits::default()) {
            let patience = deadline.saturating_duration_since(Instant::now());
            summaries.extend(summarise(self.wire.clone(), &batch, patience).await?);
        }
        Ok(summaries)
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let mut extractions = Vec::with_capacity(tasks.len());
        for batch in convert::batches(tasks, ExtractionTask::bytes, &Limits::default()) {
            let patience = deadline.saturating_duration_since(Instant::now());
            extractions.extend(extract(self.wire.clone(), &batch, patience).await?);
        }
        Ok(extractions)
    }
}
