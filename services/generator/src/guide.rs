//! The seams `Navigator` and `Planner` in a cluster: with the model of its generators, or without one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Cache;
use clew_core::{
    ChildChoice, Clues, Concerns, Cost, Encoders, EntityChoice, Error, Evidence, Findings, Guide,
    LeafReading, Listener, MemoryPoint, MergedPoint, Named, Navigator, Planner, PointChanges,
    Reflection, Rewording, TimeRange, Timestamp, Triage,
};
use clew_node::Node;
use clew_reason::Extractive;
use clew_runtime::pool::Pool;
use tokio::sync::Mutex;

use crate::config::BudgetConfig;
use crate::models::prompted;
use crate::remote::{RemoteGenerator, generators};

/// How long it is believed that the generators have no model.
const BELIEVED: Duration = Duration::from_secs(60);

/// Walks trees and graphs with the language model of a cluster's generators, or, where they have none,
/// extractively. Which it is, the generators are asked with the first question.
pub struct RemoteGuide {
    generators: Pool,
    encoders: Arc<dyn Encoders>,
    cache: Option<Cache>,
    known: Mutex<Option<Known>>,
}

struct Known {
    guide: Arc<dyn Guide>,
    until: Option<Instant>,
}

impl RemoteGuide {
    /// The navigator of the node's cluster; the current one of `encoders` compares texts where there is no model.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
    pub async fn of(node: &Node, encoders: Arc<dyn Encoders>) -> Result<Self, Error> {
        let (generators, cache) = (generators(node).await?, Some(node.cache().clone()));
        Ok(Self { generators, encoders, cache, known: Mutex::default() })
    }

    async fn guide(&self, deadline: Instant) -> Result<Arc<dyn Guide>, Error> {
        let mut known = self.known.lock().await;
        if let Some(Known { guide, until }) = &*known
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(Arc::clone(guide));
        }
        let described = RemoteGenerator::described(self.generators.clone(), deadline).await;
        let (guide, until): (Arc<dyn Guide>, _) = match described {
            Ok(model) => {
                let budget = BudgetConfig::default();
                (Arc::new(prompted(Arc::new(model), &budget, self.cache.clone())), None)
            }
            Err(error) if error.reason() == "NO_MODEL" => {
                let until = Instant::now() + BELIEVED;
                (Arc::new(Extractive::new(Arc::clone(&self.encoders))), Some(until))
            }
            Err(error) => return Err(error),
        };
        *known = Some(Known { guide: Arc::clone(&guide), until });
        Ok(guide)
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
