//! Tests of the service of graph builders over the extractive one.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use clew_auth::Caller;
use clew_core::{ErrorKind, Limits};
use clew_graph_builder::{ExtractiveGraphBuilder, GraphBuilderConfig};
use clew_proto::from_status;
use clew_proto::graph_builder::v1 as wire;
use clew_proto::graph_builder::v1::graph_builder_service_server::GraphBuilderService;
use clew_remote::GraphBuilderRpc;
use futures::TryStreamExt;
use tonic::Request;

/// Retry delay for refused callers.
const RETRY_AFTER: Duration = Duration::from_millis(500);

fn rpc(queue_bytes: u32) -> GraphBuilderRpc {
    let builder = Arc::new(ExtractiveGraphBuilder::new(&GraphBuilderConfig::default()));
    GraphBuilderRpc::new(builder, Limits::default(), queue_bytes)
}

fn request(text: &str) -> Request<wire::ExtractRequest> {
    let task = wire::ExtractionTask { text: text.to_owned(), ..Default::default() };
    asked(wire::ExtractRequest { tasks: vec![task], ..Default::default() })
}

fn asked<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Caller::operator("anybody"));
    request
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
    let Err(refused) = rpc.summarise(asked(wire::SummariseRequest::default())).await else {
        panic!("it has no task")
    };
    assert_eq!(from_status(&refused).violations()[0].field, "tasks");
}
