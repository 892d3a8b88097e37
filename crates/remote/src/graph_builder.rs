//! Graph builders of other nodes: a client of them, and their service, which gateways offer too.

mod service;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Role;
use clew_core::{
    Account, Budget, Cost, Error, Extraction, ExtractionTask, GraphBuilder, GraphBuilders, Limits,
    Loan, Owner, Spent, Summary, SummaryTask,
};
use clew_node::Node;
use clew_proto::convert::account::{account_to_wire, spent_from_wire};
use clew_proto::convert::graph_builder as convert;
use clew_proto::graph_builder::v1 as wire;
use clew_proto::graph_builder::v1::graph_builder_service_client::GraphBuilderServiceClient;
use clew_proto::query::v1 as query;
use clew_runtime::deadline::request;
use clew_runtime::pool::Pool;
use futures::{StreamExt, TryStreamExt, stream};
use tonic::Streaming;

pub use self::service::GraphBuilderRpc;
use crate::failed::failed;

/// Service whose health status shows whether a graph builder accepts work.
const SERVICE: &str = "clew.graph_builder.v1.GraphBuilderService";
/// Maximum bytes of text in progress on one graph builder. It is less than a graph builder queues,
/// so that several callers find room.
const CREDITS: u32 = 8 << 20;
/// Maximum number of concurrent messages of one call, so that several graph builders share its
/// tasks. On an account with a budget messages go one after the other, because each carries the
/// whole remaining budget.
const MESSAGES: usize = 8;
/// Budget of a rehearsal. It keeps a graph builder that does not know rehearsals from calling a
/// model.
const NOTHING: Budget = Budget { calls: 0, tokens: 0, time: Duration::ZERO };

/// Graph builders of a cluster; each message goes to the least busy one.
pub struct RemoteGraphBuilders {
    builders: Pool,
}

impl RemoteGraphBuilders {
    /// Creates a client of the graph builders of the node's cluster.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn of(node: &Node) -> Result<Self, Error> {
        let role = Some(Role::GraphBuilder);
        Ok(Self { builders: node.pool(role, "graph-builders", SERVICE, CREDITS).await? })
    }

    /// Returns the graph builders that the roles of `node` share ([`clew_node::SharedSeams`]):
    /// those of this process, or else those of the cluster.
    ///
    /// # Errors
    /// Returns the errors of [`Self::of`].
    pub async fn shared(node: &Node) -> Result<Arc<dyn GraphBuilders>, Error> {
        let connect = async { Ok(Arc::new(Self::of(node).await?) as Arc<dyn GraphBuilders>) };
        node.seams().graph_builders.or_connect(connect).await
    }
}

impl GraphBuilders for RemoteGraphBuilders {
    fn on(&self, account: &Account) -> Arc<dyn GraphBuilder> {
        let (builders, account) = (self.builders.clone(), Some(account.clone()));
        Arc::new(RemoteGraphBuilder { builders, account })
    }

    fn rehearsal(&self) -> Arc<dyn GraphBuilder> {
        Arc::new(RemoteGraphBuilder { builders: self.builders.clone(), account: None })
    }
}

/// The cluster's graph builders as a single one, on an account; without an account it rehearses.
struct RemoteGraphBuilder {
    builders: Pool,
    account: Option<Account>,
}

/// An account with the budget that is lent for one message.
struct Lent<'a> {
    owner: Owner,
    /// The loan that bounds the spending and records it.
    loan: Loan<'a>,
}

impl RemoteGraphBuilder {
    fn messages(&self) -> usize {
        let is_bounded = |account: &Account| account.ledger().is_bounded();
        if self.account.as_ref().is_some_and(is_bounded) { 1 } else { MESSAGES }
    }

    fn lend(&self) -> Option<Lent<'_>> {
        let account = self.account.as_ref();
        account.map(|account| Lent { owner: account.owner(), loan: account.ledger().lend() })
    }

    async fn summarise_batch(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        let (bytes, tasks) = (tasks.iter().map(SummaryTask::bytes).sum(), &tasks);
        let lent = self.lend();
        let lent = lent.as_ref();
        let summarise = |channel| async move {
            let message = wire::SummariseRequest {
                account: Some(account(lent)),
                rehearsal: lent.is_none(),
                ..convert::summarise_to_wire(tasks)
            };
            let mut client = GraphBuilderServiceClient::new(channel);
            let responses = client.summarise(request(message, deadline)).await.map_err(failed)?;
            let (made, is_told) = results(responses.into_inner(), lent, |it| it.spent).await?;
            let summaries = convert::in_order(tasks, made, convert::summary_from_wire)?;
            if !is_told {
                tell_costs(lent, summaries.iter().map(|summary| summary.cost));
            }
            Ok(summaries)
        };
        self.builders.call(bytes, deadline, summarise).await
    }

    async fn extract_batch(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let (bytes, tasks) = (tasks.iter().map(ExtractionTask::bytes).sum(), &tasks);
        let lent = self.lend();
        let lent = lent.as_ref();
        let extract = |channel| async move {
            let message = wire::ExtractRequest {
                account: Some(account(lent)),
                rehearsal: lent.is_none(),
                ..convert::extract_to_wire(tasks)
            };
            let mut client = GraphBuilderServiceClient::new(channel);
            let responses = client.extract(request(message, deadline)).await.map_err(failed)?;
            let (made, is_told) = results(responses.into_inner(), lent, |it| it.spent).await?;
            let extractions = convert::in_order(tasks, made, convert::extraction_from_wire)?;
            if !is_told {
                tell_costs(lent, extractions.iter().map(|extraction| extraction.cost));
            }
            Ok(extractions)
        };
        self.builders.call(bytes, deadline, extract).await
    }
}

#[async_trait]
impl GraphBuilder for RemoteGraphBuilder {
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        let batches = convert::batches(tasks, SummaryTask::bytes, &Limits::default());
        let summarising = batches.into_iter().map(|batch| self.summarise_batch(batch, deadline));
        let batches: Vec<Vec<Summary>> =
            stream::iter(summarising).buffered(self.messages()).try_collect().await?;
        Ok(batches.into_iter().flatten().collect())
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let batches = convert::batches(tasks, ExtractionTask::bytes, &Limits::default());
        let extracting = batches.into_iter().map(|batch| self.extract_batch(batch, deadline));
        let batches: Vec<Vec<Extraction>> =
            stream::iter(extracting).buffered(self.messages()).try_collect().await?;
        Ok(batches.into_iter().flatten().collect())
    }
}

/// Returns the account that a message names. A rehearsal names one without a budget.
fn account(lent: Option<&Lent<'_>>) -> query::Account {
    match lent {
        Some(Lent { owner, loan }) => account_to_wire(*owner, loan.for_another()),
        None => account_to_wire(Owner::default(), NOTHING),
    }
}

/// Returns the responses that are results, and whether the spending was reported separately.
async fn results<W>(
    mut responses: Streaming<W>,
    lent: Option<&Lent<'_>>,
    spent: impl Fn(&W) -> Option<query::Spent>,
) -> Result<(Vec<W>, bool), Error> {
    let (mut made, mut is_told) = (Vec::new(), false);
    while let Some(response) = responses.try_next().await.map_err(failed)? {
        match spent(&response) {
            None => made.push(response),
            Some(spent) => {
                is_told = true;
                if let Some(lent) = lent {
                    lent.loan.is_spent(spent_from_wire(spent));
                }
            }
        }
    }
    Ok((made, is_told))
}

/// Records the costs in the results. Older graph builders, which know no accounts, report nothing
/// else.
fn tell_costs(lent: Option<&Lent<'_>>, costs: impl Iterator<Item = Cost>) {
    if let Some(lent) = lent {
        let all = costs.fold(Cost::default(), |mut all, cost| {
            all += cost;
            all
        });
        lent.loan.is_spent(Spent::of(all));
    }
}
