//! `GraphBuilderService`: a graph builder for callers on other machines.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clew_auth::{Bill, Caller};
use clew_core::{
    Account, Budget, Error, ExtractionTask, GraphBuilder, GraphBuilders, Limits, SummaryTask,
};
use clew_proto::convert::graph_builder as convert;
use clew_proto::graph_builder::v1 as wire;
use clew_proto::graph_builder::v1::graph_builder_service_server::{
    GraphBuilderService, GraphBuilderServiceServer,
};
use clew_proto::query::v1 as query;
use clew_proto::{respond, to_status};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::deadline::{of_request, within};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tonic::{Request, Response, Status};

use crate::received::{ReceivedAccount, Told};

/// Time limit of a call without a deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);
/// Retry delay for refused callers. Texts are read at megabytes per second.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Maximum size of a message: the largest task that the limits allow, and some room.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Handler of `GraphBuilderService`.
pub struct GraphBuilderRpc {
    builders: Arc<dyn GraphBuilders>,
    limits: Limits,
    queue: Gate,
}

impl GraphBuilderRpc {
    /// Creates a handler that passes at most `queue_bytes` of text to `builders` at a time.
    pub fn new(builders: Arc<dyn GraphBuilders>, limits: Limits, queue_bytes: u32) -> Self {
        let queue = Gate::new("the queue of texts to be read", queue_bytes, RETRY_AFTER)
            .seen_as("graph_builder", "bytes");
        Self { builders, limits, queue }
    }

    /// Returns the gate that counts bytes of text in progress.
    pub fn gate(&self) -> &Gate {
        &self.queue
    }

    /// Wraps the handler for a tonic server.
    pub fn into_service(self) -> GraphBuilderServiceServer<Self> {
        GraphBuilderServiceServer::new(self).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    async fn try_summarise(
        &self,
        request: Request<wire::SummariseRequest>,
    ) -> Result<Responses<wire::SummariseResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let caller = Caller::of(&request)?;
        let message = request.into_inner();
        let received = received(&caller, message.account.as_ref())?;
        let is_rehearsal = message.rehearsal;
        let tasks = convert::summarise_from_wire(message, &self.limits)?;
        let work = self.admit(&caller, tasks.iter().map(SummaryTask::bytes).sum(), &received);
        let mut work = work.await?;
        if is_rehearsal {
            work.builder = self.builders.rehearsal();
        }
        let summarising = async move {
            let made = work.builder.summarise(tasks, deadline);
            let made = within(deadline, "summarising", made).await;
            work.bill.settle().await;
            made
        };
        let spent = |spent| wire::SummariseResponse { spent: Some(spent), ..Default::default() };
        Ok(responses(received, summarising, convert::summary_to_wire, spent))
    }

    async fn try_extract(
        &self,
        request: Request<wire::ExtractRequest>,
    ) -> Result<Responses<wire::ExtractResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let caller = Caller::of(&request)?;
        let message = request.into_inner();
        let received = received(&caller, message.account.as_ref())?;
        let is_rehearsal = message.rehearsal;
        let tasks = convert::extract_from_wire(message, &self.limits)?;
        let work = self.admit(&caller, tasks.iter().map(ExtractionTask::bytes).sum(), &received);
        let mut work = work.await?;
        if is_rehearsal {
            work.builder = self.builders.rehearsal();
        }
        let extracting = async move {
            let made = work.builder.extract(tasks, deadline);
            let made = within(deadline, "extracting", made).await;
            work.bill.settle().await;
            made
        };
        let spent = |spent| wire::ExtractResponse { spent: Some(spent), ..Default::default() };
        Ok(responses(received, extracting, convert::extraction_to_wire, spent))
    }

    /// Admits texts of `bytes` bytes if the queue has room and the caller's quotas are not used up.
    async fn admit(
        &self,
        caller: &Caller,
        bytes: usize,
        received: &ReceivedAccount,
    ) -> Result<Work, Error> {
        caller.has_tokens().await?;
        let permit = self.queue.try_enter(bytes)?;
        caller.take_bytes(bytes).await?;
        let account = received.account();
        let builder = self.builders.on(account);
        Ok(Work { builder, bill: Bill::on(caller, account.clone()), _permit: permit })
    }
}

/// Admitted work: the builder that reads the texts of a call, and the bill for it.
struct Work {
    builder: Arc<dyn GraphBuilder>,
    bill: Bill,
    _permit: Permit,
}

/// Returns the account of a request. A node sends one. A request without one works on an account of
/// the caller's owner, bounded only by the tenant's quota and by the budget of each text. A tenant
/// may not send an account.
fn received(caller: &Caller, account: Option<&query::Account>) -> Result<ReceivedAccount, Error> {
    match account {
        Some(account) if caller.tenant().is_none() => {
            ReceivedAccount::of(Some(account), Budget::UNBOUNDED)
        }
        Some(_) => {
            let problem = "expected none, since a key's requests are on the account of its tenant";
            Err(Error::invalid("account", problem))
        }
        None => Ok(ReceivedAccount::on(Account::open(caller.owner(), Budget::UNBOUNDED))),
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Streams the spending while the work runs, if the caller is a node that sent an account, and then
/// the results.
fn responses<R, T>(
    received: ReceivedAccount,
    working: impl Future<Output = Result<Vec<R>, Error>> + Send + 'static,
    result: fn(R) -> T,
    spent: fn(query::Spent) -> T,
) -> Responses<T>
where
    R: Send + 'static,
    T: Send + 'static,
{
    let told = received.while_working(working).map(move |told| match told {
        Told::Spent(now) => Ok(vec![spent(now)]),
        Told::Done(Ok(made)) => Ok(made.into_iter().map(result).collect()),
        Told::Done(Err(error)) => Err(to_status(&error)),
    });
    told.map_ok(|told| stream::iter(told.into_iter().map(Ok))).try_flatten().boxed()
}

#[tonic::async_trait]
impl GraphBuilderService for GraphBuilderRpc {
    type SummariseStream = Responses<wire::SummariseResponse>;
    type ExtractStream = Responses<wire::ExtractResponse>;

    async fn summarise(
        &self,
        request: Request<wire::SummariseRequest>,
    ) -> Result<Response<Self::SummariseStream>, Status> {
        let responses = self.try_summarise(request).await;
        respond(responses)
    }

    async fn extract(
        &self,
        request: Request<wire::ExtractRequest>,
    ) -> Result<Response<Self::ExtractStream>, Status> {
        let responses = self.try_extract(request).await;
        respond(responses)
    }
}
