//! The seam [`GraphBuilder`] for a client.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Error, Extraction, ExtractionTask, GraphBuilder, Limits, Summary, SummaryTask};
use clew_proto::convert::graph_builder as convert;
use clew_proto::graph_builder::v1::graph_builder_service_client::GraphBuilderServiceClient;
use futures::TryStreamExt;

use crate::{Client, failed, within};

/// The graph builder of the server, called one message at a time. The work is charged to the
/// account of the client's key.
#[async_trait]
impl GraphBuilder for Client {
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        let mut client = GraphBuilderServiceClient::new(self.wire.clone());
        let mut summaries = Vec::with_capacity(tasks.len());
        for batch in convert::batches(tasks, SummaryTask::bytes, &Limits::default()) {
            let patience = deadline.saturating_duration_since(Instant::now());
            let request = within(patience, convert::summarise_to_wire(&batch));
            let responses = client.summarise(request).await.map_err(failed)?.into_inner();
            let made = responses.try_collect().await.map_err(failed)?;
            summaries.extend(convert::in_order(&batch, made, convert::summary_from_wire)?);
        }
        Ok(summaries)
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let mut client = GraphBuilderServiceClient::new(self.wire.clone());
        let mut extractions = Vec::with_capacity(tasks.len());
        for batch in convert::batches(tasks, ExtractionTask::bytes, &Limits::default()) {
            let patience = deadline.saturating_duration_since(Instant::now());
            let request = within(patience, convert::extract_to_wire(&batch));
            let responses = client.extract(request).await.map_err(failed)?.into_inner();
            let made = responses.try_collect().await.map_err(failed)?;
            extractions.extend(convert::in_order(&batch, made, convert::extraction_from_wire)?);
        }
        Ok(extractions)
    }
}
