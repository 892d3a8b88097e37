//! The reasoners and guides of a cluster, with the language model of its generators or by rules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Account, Budget, ChildChoice, Clues, Concerns, Cost, Encoders, EntityChoice, Error, Evidence,
    Findings, GeneratorIdentity, Guide, LeafReading, Listener, MemoryPoint, MergedPoint, Named,
    Navigator, Planner, PointChanges, Reasoner, Reasoners, Reflection, Rewording, SpanReader,
    TimeRange, Timestamp, Triage,
};
use clew_node::Node;
use clew_reason::ModelOrRules;
use clew_reason::prompted::{Prompted, ReplyCache};
use clew_runtime::deadline::within;
use clew_runtime::pool::Pool;
use tokio::sync::Mutex;

use crate::SharedReplies;
use crate::generator::{RemoteGenerator, RemoteReasoner, generators};

/// Time for which the generators' model and budget are cached.
const BELIEVED: Duration = Duration::from_secs(60);
/// Longest wait for generators to describe their model and budget again.
const RENEWAL_PATIENCE: Duration = Duration::from_secs(2);
/// Time for which the cached values stay in use after generators did not describe them in time.
const BELIEVED_UNTOLD: Duration = Duration::from_secs(10);

/// Reasoners and guides of a cluster. The generators read evidence; trees and graphs are navigated
/// with the generators' language model or, if they have none, by extractive rules. The first
/// question asks the generators which of the two it is. Cheap to clone.
#[derive(Clone)]
pub struct RemoteReasoners {
    generators: Pool,
    encoders: Arc<dyn Encoders>,
    reader: Arc<dyn SpanReader>,
    shared: Option<Arc<dyn ReplyCache>>,
    known: Arc<Mutex<Option<Known>>>,
}

#[derive(Clone)]
struct Known {
    judge: ModelOrRules,
    /// The generators' model; `None` if they have none.
    model: Option<GeneratorIdentity>,
    budget: Budget,
    until: Instant,
}

impl RemoteReasoners {
    /// Connects to the generators of the node's cluster. Without a language model, `reader` finds
    /// words that answer, and the current encoder of `encoders` compares texts.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn of(
        node: &Node,
        encoders: Arc<dyn Encoders>,
        reader: Arc<dyn SpanReader>,
    ) -> Result<Self, Error> {
        let shared = Some(SharedReplies::of(node));
        Ok(Self::over(generators(node).await?, encoders, reader, shared))
    }

    /// Creates reasoners over `generators`. Replies are cached in this process and, through
    /// `shared`, on the nodes that share that cache.
    pub fn over(
        generators: Pool,
        encoders: Arc<dyn Encoders>,
        reader: Arc<dyn SpanReader>,
        shared: Option<Arc<dyn ReplyCache>>,
    ) -> Self {
        Self { generators, encoders, reader, shared, known: Arc::default() }
    }

    async fn known(&self, deadline: Instant) -> Result<Known, Error> {
        let mut known = self.known.lock().await;
        let before = known.as_ref();
        let patience = match before {
            Some(before) if Instant::now() < before.until => return Ok(before.clone()),
            Some(_) => deadline.min(Instant::now() + RENEWAL_PATIENCE),
            None => deadline,
        };
        let described = RemoteGenerator::described(self.generators.clone(), patience).await;
        let until = Instant::now() + BELIEVED;
        let found = match (described, before) {
            (Ok((model, budget)), before) => {
                let identity = Some(clew_core::Generator::identity(&model).clone());
                match before.filter(|it| it.model == identity && it.budget == budget) {
                    // Keep the judge: its cache of replies stays valid.
                    Some(before) => Known { until, ..before.clone() },
                    None => {
                        // The budget is that of a whole question. The account holds all calls
                        // together to it.
                        let prompted = Prompted::new(Arc::new(model))
                            .with_kept_replies(self.shared.clone())
                            .with_budget(budget);
                        let judge = ModelOrRules::Model(prompted);
                        Known { judge, model: identity, budget, until }
                    }
                }
            }
            (Err(error), _) if error.reason() == "NO_MODEL" => {
                let (encoders, reader) = (Arc::clone(&self.encoders), Arc::clone(&self.reader));
                let judge = ModelOrRules::Rules { encoders, reader };
                Known { judge, model: None, budget: Budget::default(), until }
            }
            (Err(_), Some(before)) => {
                Known { until: Instant::now() + BELIEVED_UNTOLD, ..before.clone() }
            }
            (Err(error), None) => return Err(error),
        };
        *known = Some(found.clone());
        Ok(found)
    }
}

#[async_trait]
impl Reasoners for RemoteReasoners {
    /// Returns the budget that the generators are configured with. Returns the default if they have
    /// no model.
    async fn budget(&self, deadline: Instant) -> Result<Budget, Error> {
        let known = self.known(deadline);
        Ok(within(deadline, "asking generators for their budget", known).await?.budget)
    }

    fn reasoner(&self, account: &Account) -> Arc<dyn Reasoner> {
        Arc::new(RemoteReasoner::new(self.generators.clone(), account.clone()))
    }

    fn guide(&self, account: &Account) -> Arc<dyn Guide> {
        Arc::new(RemoteGuide { reasoners: self.clone(), account: account.clone() })
    }
}

/// A guide that works on one account.
struct RemoteGuide {
    reasoners: RemoteReasoners,
    account: Account,
}

impl RemoteGuide {
    async fn guide(&self, deadline: Instant) -> Result<Arc<dyn Guide>, Error> {
        let known = self.reasoners.known(deadline);
        let known = within(deadline, "asking generators for their model", known).await?;
        Ok(known.judge.guide(&self.account))
    }
}

#[async_trait]
impl Navigator for RemoteGuide {
    async fn choose_child(&self, choice: &ChildChoice, deadline: Instant) -> Result<Triage, Error> {
        self.guide(deadline).await?.choose_child(choice, deadline).await
    }

    async fn read_leaf(
        &self,
        question: &str,
        memory: &[String],
        leaf: &Evidence,
        deadline: Instant,
    ) -> Result<LeafReading, Error> {
        self.guide(deadline).await?.read_leaf(question, memory, leaf, deadline).await
    }

    async fn judge(
        &self,
        question: &str,
        evidence: &[Evidence],
        deadline: Instant,
    ) -> Result<Reflection, Error> {
        self.guide(deadline).await?.judge(question, evidence, deadline).await
    }

    async fn name_entities(&self, question: &str, deadline: Instant) -> Result<Named, Error> {
        self.guide(deadline).await?.name_entities(question, deadline).await
    }

    async fn choose_entities(
        &self,
        choice: &EntityChoice,
        deadline: Instant,
    ) -> Result<(Vec<usize>, Cost), Error> {
        self.guide(deadline).await?.choose_entities(choice, deadline).await
    }

    async fn elaborate(
        &self,
        question: &str,
        relations: &[String],
        deadline: Instant,
    ) -> Result<Named, Error> {
        self.guide(deadline).await?.elaborate(question, relations, deadline).await
    }

    async fn fuse(
        &self,
        question: &str,
        subject: &str,
        descriptions: &[String],
        deadline: Instant,
    ) -> Result<(String, Cost), Error> {
        self.guide(deadline).await?.fuse(question, subject, descriptions, deadline).await
    }
}

#[async_trait]
impl Listener for RemoteGuide {
    async fn facts(&self, speaker: &str, message: &str, deadline: Instant) -> Result<Named, Error> {
        self.guide(deadline).await?.facts(speaker, message, deadline).await
    }

    async fn time_range(
        &self,
        question: &str,
        asked_at: Timestamp,
        deadline: Instant,
    ) -> Result<(Option<TimeRange>, Cost), Error> {
        self.guide(deadline).await?.time_range(question, asked_at, deadline).await
    }
}

#[async_trait]
impl Planner for RemoteGuide {
    async fn clues(
        &self,
        question: &str,
        outline: &str,
        near: &[Evidence],
        most: usize,
        deadline: Instant,
    ) -> Result<(Clues, Cost), Error> {
        self.guide(deadline).await?.clues(question, outline, near, most, deadline).await
    }

    async fn key_points(
        &self,
        task: &str,
        outline: &str,
        most: usize,
        deadline: Instant,
    ) -> Result<Named, Error> {
        self.guide(deadline).await?.key_points(task, outline, most, deadline).await
    }

    async fn imagine(
        &self,
        question: &str,
        near: &[Evidence],
        deadline: Instant,
    ) -> Result<Named, Error> {
        self.guide(deadline).await?.imagine(question, near, deadline).await
    }

    async fn reword(
        &self,
        question: &str,
        how: Rewording,
        most: usize,
        deadline: Instant,
    ) -> Result<Named, Error> {
        self.guide(deadline).await?.reword(question, how, most, deadline).await
    }

    async fn concerns(
        &self,
        question: &str,
        points: &[MemoryPoint],
        most: usize,
        deadline: Instant,
    ) -> Result<(Concerns, Cost), Error> {
        self.guide(deadline).await?.concerns(question, points, most, deadline).await
    }

    async fn subquery(
        &self,
        question: &str,
        points: &[MemoryPoint],
        concern: &str,
        asked: &[String],
        deadline: Instant,
    ) -> Result<Named, Error> {
        self.guide(deadline).await?.subquery(question, points, concern, asked, deadline).await
    }

    async fn take_in(
        &self,
        question: &str,
        points: &[MemoryPoint],
        findings: &Findings,
        deadline: Instant,
    ) -> Result<(PointChanges, Cost), Error> {
        self.guide(deadline).await?.take_in(question, points, findings, deadline).await
    }

    async fn merge(
        &self,
        question: &str,
        points: &[MemoryPoint],
        deadline: Instant,
    ) -> Result<(Vec<MergedPoint>, Cost), Error> {
        self.guide(deadline).await?.merge(question, points, deadline).await
    }
}
