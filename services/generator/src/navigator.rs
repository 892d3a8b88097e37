//! The seam `Navigator` in a cluster: with the model of its generators, or without one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Cache;
use clew_core::{
    ChildChoice, Cost, Encoder, EntityChoice, Error, Evidence, LeafReading, Named, Navigator,
    Reflection, Triage,
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
pub struct RemoteNavigator {
    generators: Pool,
    encoder: Arc<dyn Encoder>,
    cache: Option<Cache>,
    known: Mutex<Option<Known>>,
}

struct Known {
    navigator: Arc<dyn Navigator>,
    until: Option<Instant>,
}

impl RemoteNavigator {
    /// The navigator of the node's cluster; `encoder` compares texts where there is no model.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
    pub async fn of(node: &Node, encoder: Arc<dyn Encoder>) -> Result<Self, Error> {
        let (generators, cache) = (generators(node).await?, Some(node.cache().clone()));
        Ok(Self { generators, encoder, cache, known: Mutex::default() })
    }

    async fn navigator(&self, deadline: Instant) -> Result<Arc<dyn Navigator>, Error> {
        let mut known = self.known.lock().await;
        if let Some(Known { navigator, until }) = &*known
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(Arc::clone(navigator));
        }
        let described = RemoteGenerator::described(self.generators.clone(), deadline).await;
        let (navigator, until): (Arc<dyn Navigator>, _) = match described {
            Ok(model) => {
                let budget = BudgetConfig::default();
                (Arc::new(prompted(Arc::new(model), &budget, self.cache.clone())), None)
            }
            Err(error) if error.reason() == "NO_MODEL" => {
                let until = Instant::now() + BELIEVED;
                (Arc::new(Extractive::new(Arc::clone(&self.encoder))), Some(until))
            }
            Err(error) => return Err(error),
        };
        *known = Some(Known { navigator: Arc::clone(&navigator), until });
        Ok(navigator)
    }
}

#[async_trait]
impl Navigator for RemoteNavigator {
    async fn choose_child(&self, choice: &ChildChoice, deadline: Instant) -> Result<Triage, Error> {
        self.navigator(deadline).await?.choose_child(choice, deadline).await
    }

    async fn read_leaf(
        &self,
        question: &str,
        memory: &[String],
        leaf: &Evidence,
        deadline: Instant,
    ) -> Result<LeafReading, Error> {
        self.navigator(deadline).await?.read_leaf(question, memory, leaf, deadline).await
    }

    async fn judge(
        &self,
        question: &str,
        evidence: &[Evidence],
        deadline: Instant,
    ) -> Result<Reflection, Error> {
        self.navigator(deadline).await?.judge(question, evidence, deadline).await
    }

    async fn name_entities(&self, question: &str, deadline: Instant) -> Result<Named, Error> {
        self.navigator(deadline).await?.name_entities(question, deadline).await
    }

    async fn choose_entities(
        &self,
        choice: &EntityChoice,
        deadline: Instant,
    ) -> Result<(Vec<usize>, Cost), Error> {
        self.navigator(deadline).await?.choose_entities(choice, deadline).await
    }

    async fn elaborate(
        &self,
        question: &str,
        relations: &[String],
        deadline: Instant,
    ) -> Result<Named, Error> {
        self.navigator(deadline).await?.elaborate(question, relations, deadline).await
    }
}
