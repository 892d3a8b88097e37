//! Clients of the generators of other nodes: the seams `Reasoner` and `Generator`.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Role;
use clew_core::{
    Account, Assignment, BUDGET_SPENT, Budget, Error, ErrorKind, Generated, GenerationRequest,
    Generator, GeneratorIdentity, Heard, Reading, Reasoner, Spent,
};
use clew_node::Node;
use clew_proto::convert::account::{account_to_wire, spent_from_wire};
use clew_proto::convert::generator as convert;
use clew_proto::generator::v1 as wire;
use clew_proto::generator::v1::generator_service_client::GeneratorServiceClient;
use clew_proto::generator::v1::{generate_response, read_response};
use clew_runtime::deadline::request;
use clew_runtime::pool::Pool;
use futures::TryStreamExt;
use tokio::sync::mpsc;

use crate::failed::failed;

/// Service whose health status shows whether a generator accepts work.
const SERVICE: &str = "clew.generator.v1.GeneratorService";
/// Maximum number of readings and replies in progress on one generator.
const CREDITS: u32 = 64;
/// Longest wait for generators to describe their model. [`RemoteGenerator::connect`] then logs a
/// warning and tries again.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// Returns the pool of generators of the node's cluster.
pub(crate) async fn generators(node: &Node) -> Result<Pool, Error> {
    node.pool(Some(Role::Generator), "generators", SERVICE, CREDITS).await
}

/// Reasoner that sends each reading to the least busy generator of a cluster, with the budget that
/// is left of its account.
pub(crate) struct RemoteReasoner {
    generators: Pool,
    account: Account,
}

impl RemoteReasoner {
    pub fn new(generators: Pool, account: Account) -> Self {
        Self { generators, account }
    }
}

#[async_trait]
impl Reasoner for RemoteReasoner {
    async fn read(&self, assignment: &Assignment<'_>, deadline: Instant) -> Result<Reading, Error> {
        let message = convert::read_to_wire(assignment);
        let loan = &self.account.ledger().lend();
        self.generators
            .call(1, deadline, |channel| {
                let account = Some(account_to_wire(self.account.owner(), loan.for_another()));
                let message = wire::ReadRequest { account, ..message.clone() };
                let request = request(message, deadline);
                async move {
                    let mut is_told = false;
                    let mut client = GeneratorServiceClient::new(channel);
                    let mut events = client.read(request).await.map_err(failed)?.into_inner();
                    while let Some(response) = events.try_next().await.map_err(failed)? {
                        match response.event {
                            Some(read_response::Event::Spent(spent)) => {
                                is_told = true;
                                loan.is_spent(spent_from_wire(spent));
                            }
                            Some(read_response::Event::Reading(reading)) => {
                                let reading = convert::reading_from_wire(reading)?;
                                // Generators of versions without accounts report their cost only
                                // with the reading.
                                if !is_told {
                                    loan.is_spent(Spent::of(reading.cost));
                                }
                                return Ok(reading);
                            }
                            Some(read_response::Event::TextDelta(_)) | None => {}
                        }
                    }
                    Err(Error::internal("a generator ended without a reading"))
                }
            })
            .await
    }
}

/// The language model of a cluster's generators.
pub struct RemoteGenerator {
    generators: Pool,
    identity: GeneratorIdentity,
}

/// Progress of one attempt to get a reply.
enum Told {
    /// The attempt starts.
    Begun,
    /// A request is sent to the model.
    Asked,
    /// The next part of the text.
    Text(String),
}

impl RemoteGenerator {
    /// Connects to the language model of the node's cluster. Waits until a generator has described
    /// it. The operator must configure the same model on all generators.
    ///
    /// # Errors
    /// Returns the errors of [`Self::connect`], and [`clew_core::ErrorKind::InvalidInput`] if the
    /// configuration is invalid.
    pub async fn of(node: &Node) -> Result<Self, Error> {
        Self::connect(generators(node).await?).await
    }

    /// Returns the language model of `generators` and the budget of a question, as a generator
    /// describes them now.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] with the reason `NO_MODEL` if they have no
    /// model, and [`clew_core::ErrorKind::Unavailable`] if none answers.
    pub(crate) async fn described(
        generators: Pool,
        deadline: Instant,
    ) -> Result<(Self, Budget), Error> {
        let (identity, budget) =
            describe(&generators, deadline.min(Instant::now() + ANSWER_PATIENCE)).await?;
        Ok((Self { generators, identity }, budget))
    }

    /// Connects to the language model of `generators`. Waits as [`Self::of`] does.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] with the reason `NO_MODEL` if they have no
    /// model.
    pub async fn connect(generators: Pool) -> Result<Self, Error> {
        loop {
            match describe(&generators, Instant::now() + ANSWER_PATIENCE).await {
                Ok((identity, _)) => return Ok(Self { generators, identity }),
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::warn!(error = error.chain(), "waiting for a generator");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }
}

async fn describe(
    generators: &Pool,
    deadline: Instant,
) -> Result<(GeneratorIdentity, Budget), Error> {
    generators
        .call(1, deadline, |channel| async move {
            let mut client = GeneratorServiceClient::new(channel);
            let described = client.describe_model(request(wire::DescribeModelRequest {}, deadline));
            convert::identity_from_wire(described.await.map_err(failed)?.into_inner())
        })
        .await
}

#[async_trait]
impl Generator for RemoteGenerator {
    fn identity(&self) -> &GeneratorIdentity {
        &self.identity
    }

    fn count_tokens(&self, text: &str) -> u32 {
        clew_tokenizer::estimate_tokens(text)
    }

    async fn generate(
        &self,
        asked: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'text> FnMut(Heard<'text>) + Send),
    ) -> Result<Generated, Error> {
        asked.check()?;
        let began = Instant::now();
        let message = convert::generate_to_wire(asked.clone());
        // Progress sent here is passed to `heard` below without delay.
        let (tell, mut told) = mpsc::unbounded_channel();
        let calls = AtomicU32::new(0);
        let reply = self.generators.call(1, deadline, |channel| {
            let (tell, calls) = (tell.clone(), &calls);
            let most = left_of(asked.most_calls, calls.load(Ordering::Relaxed));
            let message =
                most.map(|most_calls| wire::GenerateRequest { most_calls, ..message.clone() });
            async move {
                let request = request(message?, deadline);
                let tell = |told| {
                    if matches!(told, Told::Asked) {
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                    // The receiver lives as long as this call.
                    drop(tell.send(told));
                };
                one_try(GeneratorServiceClient::new(channel), request, tell).await
            }
        });
        tokio::pin!(reply);
        let mut is_heard = false;
        let mut hear = |told: Told| match told {
            Told::Begun if is_heard => heard(Heard::Anew),
            Told::Begun => {}
            Told::Asked => heard(Heard::Asked),
            Told::Text(more) => {
                is_heard = true;
                heard(Heard::Text(&more));
            }
        };
        let generated = loop {
            tokio::select! {
                biased;
                Some(told) = told.recv() => hear(told),
                generated = &mut reply => break generated,
            }
        };
        while let Ok(told) = told.try_recv() {
            hear(told);
        }
        let mut generated = generated?;
        generated.usage.took = began.elapsed();
        Ok(generated)
    }
}

/// Returns the calls that are left of `most`, as on the wire: 0 means unbounded.
fn left_of(most: Option<NonZeroU32>, calls: u32) -> Result<u32, Error> {
    let Some(most) = most else { return Ok(0) };
    match most.get().saturating_sub(calls) {
        0 => {
            let message = format!("a language model was asked {most} times and did not reply");
            Err(Error::new(ErrorKind::Exhausted, BUDGET_SPENT, message))
        }
        left => Ok(left),
    }
}

async fn one_try(
    mut client: GeneratorServiceClient<clew_runtime::peer::Channel>,
    request: tonic::Request<wire::GenerateRequest>,
    tell: impl Fn(Told),
) -> Result<Generated, Error> {
    tell(Told::Begun);
    let mut text = String::new();
    let mut events = client.generate(request).await.map_err(failed)?.into_inner();
    while let Some(response) = events.try_next().await.map_err(failed)? {
        match response.event {
            Some(generate_response::Event::TextDelta(more)) => {
                text.push_str(&more);
                tell(Told::Text(more));
            }
            Some(generate_response::Event::Asked(wire::Asked {})) => tell(Told::Asked),
            Some(generate_response::Event::Anew(wire::Anew {})) => {
                text.clear();
                tell(Told::Begun);
            }
            Some(generate_response::Event::Generated(generated)) => {
                return convert::generated_from_wire(generated, text);
            }
            None => {}
        }
    }
    Err(Error::internal("a generator ended without a reply"))
}
