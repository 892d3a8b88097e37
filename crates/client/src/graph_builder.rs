//! Requests to graph builders, and [`clew_core::GraphBuilder`] for a client.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Budget, Cost, Error, Extraction, ExtractionTask, GraphBuilder, Limits, Loan, Owner, Spent,
    Summary, SummaryTask,
};
use clew_proto::convert::account::{account_to_wire, spent_from_wire};
use clew_proto::convert::graph_builder as convert;
use clew_proto::graph_builder::v1 as proto;
use clew_proto::graph_builder::v1::graph_builder_service_client::GraphBuilderServiceClient;
use clew_proto::query::v1 as query;
use futures::TryStreamExt;
use tonic::Streaming;

use crate::{Client, Wire, failed, within};

/// The account that a node names for the work that it requests, with the budget lent for it.
/// Clients do not send one: their work is charged to the account of their key.
#[derive(Clone, Copy)]
pub struct Lent<'a> {
    /// Owner of the account.
    pub owner: Owner,
    /// The loan that bounds the spending and records it.
    pub loan: &'a Loan<'a>,
}

/// The account that pays for a request.
#[derive(Clone, Copy)]
pub enum Terms<'a> {
    /// The account of the client's key.
    Key,
    /// An account that the request names.
    Lent(Lent<'a>),
    /// No account: no model is called, and the results only say what the work would cost.
    Rehearsal,
}

impl<'a> Terms<'a> {
    fn is_rehearsal(self) -> bool {
        matches!(self, Self::Rehearsal)
    }

    fn lent(self) -> Option<Lent<'a>> {
        match self {
            Self::Lent(lent) => Some(lent),
            Self::Key | Self::Rehearsal => None,
        }
    }

    fn account(self) -> Option<query::Account> {
        match self {
            Self::Key => None,
            Self::Lent(Lent { owner, loan }) => Some(account_to_wire(owner, loan.for_another())),
            // The empty budget keeps a graph builder that does not know rehearsals from calling a
            // model.
            Self::Rehearsal => Some(account_to_wire(Owner::default(), NOTHING)),
        }
    }
}

const NOTHING: Budget = Budget { calls: 0, tokens: 0, time: Duration::ZERO };

/// Summarises the tasks of one message over `wire`, within `patience`.
///
/// # Errors
/// Returns the errors of `GraphBuilderService.Summarise`.
pub async fn summarise(
    wire: impl Into<Wire>,
    tasks: &[SummaryTask],
    terms: Terms<'_>,
    patience: Duration,
) -> Result<Vec<Summary>, Error> {
    let (account, rehearsal, lent) = (terms.account(), terms.is_rehearsal(), terms.lent());
    let message =
        proto::SummariseRequest { account, rehearsal, ..convert::summarise_to_wire(tasks) };
    let responses =
        GraphBuilderServiceClient::new(wire.into()).summarise(within(patience, message)).await;
    let responses = responses.map_err(failed)?.into_inner();
    let (made, is_told) = results(responses, lent, |response| response.spent).await?;
    let summaries = in_order(tasks, made, convert::summary_from_wire)?;
    if !is_told {
        tell_costs(lent, summaries.iter().map(|summary| summary.cost));
    }
    Ok(summaries)
}

/// Extracts from the tasks of one message over `wire`, within `patience`.
///
/// # Errors
/// Returns the errors of `GraphBuilderService.Extract`.
pub async fn extract(
    wire: impl Into<Wire>,
    tasks: &[ExtractionTask],
    terms: Terms<'_>,
    patience: Duration,
) -> Result<Vec<Extraction>, Error> {
    let (account, rehearsal, lent) = (terms.account(), terms.is_rehearsal(), terms.lent());
    let message = proto::ExtractRequest { account, rehearsal, ..convert::extract_to_wire(tasks) };
    let responses =
        GraphBuilderServiceClient::new(wire.into()).extract(within(patience, message)).await;
    let responses = responses.map_err(failed)?.into_inner();
    let (made, is_told) = results(responses, lent, |response| response.spent).await?;
    let extractions = in_order(tasks, made, convert::extraction_from_wire)?;
    if !is_told {
        tell_costs(lent, extractions.iter().map(|extraction| extraction.cost));
    }
    Ok(extractions)
}

/// Returns the responses that are results, and whether the spending was reported separately.
async fn results<W>(
    mut responses: Streaming<W>,
    lent: Option<Lent<'_>>,
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
fn tell_costs(lent: Option<Lent<'_>>, costs: impl Iterator<Item = Cost>) {
    if let Some(lent) = lent {
        let all = costs.fold(Cost::default(), |mut all, cost| {
            all += cost;
            all
        });
        lent.loan.is_spent(Spent::of(all));
    }
}

/// Converts the responses, one for each task.
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

/// The graph builder of the server, called one message at a time.
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
            summaries.extend(summarise(self.wire.clone(), &batch, Terms::Key, patience).await?);
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
            extractions.extend(extract(self.wire.clone(), &batch, Terms::Key, patience).await?);
        }
        Ok(extractions)
    }
}
