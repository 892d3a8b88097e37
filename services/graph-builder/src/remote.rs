//! A client of the graph builders of other nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_client::graph_builder::{self as client, Lent, Terms};
use clew_cluster::Role;
use clew_core::{
    Account, Error, Extraction, ExtractionTask, GraphBuilder, GraphBuilders, Limits, Loan, Owner,
    Summary, SummaryTask,
};
use clew_node::Node;
use clew_proto::convert::graph_builder as convert;
use clew_runtime::pool::Pool;
use futures::{StreamExt, TryStreamExt, stream};

/// Service whose health status shows whether a graph builder accepts work.
const SERVICE: &str = "clew.graph_builder.v1.GraphBuilderService";
/// Maximum bytes of text in progress on one graph builder. It is less than a graph builder queues,
/// so that several callers find room.
const CREDITS: u32 = 8 << 20;
/// Maximum number of concurrent messages of one call, so that several graph builders share its
/// tasks. On an account with a budget messages go one after the other, because each carries the
/// whole remaining budget.
const MESSAGES: usize = 8;

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

impl RemoteGraphBuilder {
    fn messages(&self) -> usize {
        let is_bounded = |account: &Account| account.ledger().is_bounded();
        if self.account.as_ref().is_some_and(is_bounded) { 1 } else { MESSAGES }
    }

    async fn summarise_batch(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        let (bytes, tasks) = (tasks.iter().map(SummaryTask::bytes).sum(), &tasks);
        let loan = self.account.as_ref().map(|account| (account.owner(), account.ledger().lend()));
        let terms = terms(loan.as_ref());
        let summarise = |channel| client::summarise(channel, tasks, terms, rest(deadline));
        self.builders.call(bytes, deadline, summarise).await
    }

    async fn extract_batch(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let (bytes, tasks) = (tasks.iter().map(ExtractionTask::bytes).sum(), &tasks);
        let loan = self.account.as_ref().map(|account| (account.owner(), account.ledger().lend()));
        let terms = terms(loan.as_ref());
        let extract = |channel| client::extract(channel, tasks, terms, rest(deadline));
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

fn terms<'a>(loan: Option<&'a (Owner, Loan<'a>)>) -> Terms<'a> {
    match loan {
        Some((owner, loan)) => Terms::Lent(Lent { owner: *owner, loan }),
        None => Terms::Rehearsal,
    }
}

fn rest(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
