//! `hgmem`: answer with a working memory of points, each about several entities, that asks for what
//! it lacks.
//!
//! The method is HGMem's ("Improving Multi-step RAG with Hypergraph-based Memory for Long-context
//! Complex Relational Modeling", sections 3.2 to 3.6), step by step:
//!
//! 1. At step 0 the question is the only subquery (3.2).
//! 2. For each subquery, entities are retrieved with their relations and passages (equation 1). A
//!    *local investigation* looks among those around a point's entities (equation 6), a *global
//!    exploration* among all that are not in memory (equation 7).
//! 3. The memory takes them in: points are updated and inserted, then merged (3.5).
//! 4. The planner judges whether the memory resolves the question. If not, it raises up to
//!    [`MAX_CONCERNS`] concerns, each of which becomes a subquery (3.4), and step 2 follows, for at
//!    most [`MAX_STEPS`] steps.
//! 5. The passages that the points rest on, and the passages of all their entities as far as a
//!    window goes, are read (3.6).
//!
//! Decisions that the paper leaves open:
//! - The similarity of an entity and a subquery is that of the entity's name and description
//!   (equations 1 and 7). The graph stores the signs of the vectors of all entities
//!   ([`clew_core::Signs`]). The entities nearest by these, and those that the subquery names, are
//!   compared exactly. Entities that were stored before there were vectors, or embedded by another
//!   model, have no signs. While there are any, the entities of the places that a search for the
//!   subquery finds best are compared too.
//! - If many passages of a long text mention an entity, those that the search also found are looked
//!   at first. In the end, those that mention the most entities of the memory come first.
//! - A point rests on the segments that state a relation between two of its entities, and on the
//!   passages found that mention two of them.
//! - A subquery that is nearly the same as an earlier one ([`CLOSE`]) is not asked.
//! - A point that names an entity which the graph does not know adds it to the question's view.
//! - Replies of a model that the memory cannot hold (a point about one entity, an invalid number)
//!   are dropped, and the memory's own limits always apply.
//! - If the memory has no points, as for a corpus without relations, the answer comes from what the
//!   search for the question found.
//! - An answer cites passages. The reader also gets the points, to see how passages are connected.

#[cfg(test)]
mod case_studies;
mod memory;
mod retrieval;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use clew_core::{
    Answer, Concerns, Error, Findings, PointChanges, PointState, TextKind, TraceEvent,
};
use clew_hypergraph::{Hypergraph, PointEntity, PointId};

use self::memory::Memory;
use self::retrieval::{Found, Scope, Subquery};
use crate::admitted::Admitted;
use crate::work::{Work, cosine};
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of steps, including the first: the paper's best value (section 5).
pub const MAX_STEPS: usize = 3;

/// Maximum number of concerns in a step.
pub const MAX_CONCERNS: usize = 3;

/// Cosine from which two subqueries count as the same.
pub const CLOSE: f32 = 0.95;

/// Maximum number of bytes of the passages that are read in the end: about 6,000 tokens.
const WINDOW_BYTES: usize = 24_000;

/// Number of passages read in the end if the caller does not set `k`.
const DEFAULT_K: usize = 24;

/// Strategy with a hypergraph as working memory (HGMem). The module's documentation describes it.
#[derive(Clone, Copy, Debug)]
pub struct HgMem;

#[async_trait]
impl Strategy for HgMem {
    fn name(&self) -> &'static str {
        "hgmem"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let admitted = Admitted::find(&mut work).await?;
        let graph = Hypergraph::default();
        let mut memory = Memory { work, admitted, graph, asked: Vec::new(), hits: Vec::new() };
        let first = memory.subquery(question.text.clone(), Scope::Everything).await?;
        memory.evolve(vec![first]).await?;
        for _ in 1..MAX_STEPS {
            let subqueries = memory.subqueries().await?;
            if subqueries.is_empty() {
                break;
            }
            memory.graph.next_step();
            memory.evolve(subqueries).await?;
        }
        memory.respond().await
    }
}

impl Memory<'_> {
    /// Retrieves for subqueries and takes in what is found (equation 2).
    async fn evolve(&mut self, subqueries: Vec<Subquery>) -> Result<(), Error> {
        self.work.check_time("evolving the working memory")?;
        let mut found = Found::default();
        let hits = self.search_for(&subqueries).await?;
        for (Subquery { text, vector, scope }, hits) in subqueries.into_iter().zip(hits) {
            self.retrieve(&text, &vector, &scope, &hits, &mut found).await?;
            self.asked.push((text, vector));
        }
        let question = self.work.question.text.clone();
        let (points, ids) = (self.points(), self.ids());
        let findings = Findings {
            asked: self.asked.iter().map(|(asked, _)| asked.clone()).collect(),
            relations: found.relations.iter().map(|relation| self.in_words(relation)).collect(),
            passages: found.passages.iter().map(|(_, passage)| passage.clone()).collect(),
        };
        let (planner, deadline) = (self.work.seams.planner, self.work.deadline());
        let (changes, cost) = planner.take_in(&question, &points, &findings, deadline).await?;
        self.work.spend(cost);
        self.change(changes, &ids, &found);
        self.merge(&question).await?;
        self.show();
        Ok(())
    }

    /// Updates and inserts points. Changes that the memory refuses are dropped.
    fn change(&mut self, changes: PointChanges, ids: &[PointId], found: &Found) {
        for update in changes.updated {
            let Some(id) = ids.get(update.point) else { continue };
            let entities = self.graph.point(*id).map(|point| point.entities.clone());
            let sources = self.sources_of(&entities.unwrap_or_default(), found);
            let _refused = self.graph.update(*id, &update.text, sources).err();
        }
        for new in changes.inserted {
            let entities: Vec<PointEntity> = new
                .entities
                .into_iter()
                .filter_map(|name| Some(PointEntity { key: self.key_of(&name)?, name }))
                .collect();
            let keys = entities.iter().map(|entity| entity.key.clone()).collect();
            let sources = self.sources_of(&keys, found);
            let _refused = self.graph.insert(&new.text, &entities, sources).err();
        }
    }

    async fn merge(&mut self, question: &str) -> Result<(), Error> {
        let (points, ids) = (self.points(), self.ids());
        let (planner, deadline) = (self.work.seams.planner, self.work.deadline());
        let (merged, cost) = planner.merge(question, &points, deadline).await?;
        self.work.spend(cost);
        for merging in merged {
            // Indices are those that the planner saw. A point that was merged earlier has become
            // another one.
            let of = merging.points.iter().filter_map(|at| self.graph.current(*ids.get(*at)?));
            let of: Vec<PointId> = of.collect();
            let _refused = self.graph.merge(&of, &merging.text).err();
        }
        Ok(())
    }

    /// Returns the next subqueries (section 3.4), or none if the memory resolves the question.
    async fn subqueries(&mut self) -> Result<Vec<Subquery>, Error> {
        let question = self.work.question.text.clone();
        let (points, ids) = (self.points(), self.ids());
        let (planner, deadline) = (self.work.seams.planner, self.work.deadline());
        let (concerns, cost) = planner.concerns(&question, &points, MAX_CONCERNS, deadline).await?;
        self.work.spend(cost);
        let raised: Vec<(String, Scope)> = match concerns {
            Concerns::Resolved => Vec::new(),
            Concerns::Global(concerns) => {
                concerns.into_iter().map(|concern| (concern, Scope::Outside)).collect()
            }
            Concerns::Local(concerns) => {
                let local =
                    |(at, concern): (usize, String)| Some((concern, Scope::Around(*ids.get(at)?)));
                concerns.into_iter().filter_map(local).collect()
            }
        };
        let raised: Vec<(String, Scope)> = raised.into_iter().take(MAX_CONCERNS).collect();
        self.work.trace(TraceEvent::Reflected {
            suffices: raised.is_empty(),
            reason: format!("{} points in memory", points.len()),
            missing: raised
                .iter()
                .map(|(concern, _)| concern.as_str())
                .collect::<Vec<_>>()
                .join("; "),
        });
        let mut subqueries: Vec<Subquery> = Vec::new();
        for (concern, scope) in raised {
            let before = self.asked.iter().map(|(asked, _)| asked);
            let now = subqueries.iter().map(|subquery| &subquery.text);
            let asked: Vec<String> = before.chain(now).cloned().collect();
            let named = planner.subquery(&question, &points, &concern, &asked, deadline).await?;
            self.work.spend(named.cost);
            let Some(text) = named.texts.into_iter().next() else { continue };
            if asked.contains(&text) {
                continue;
            }
            let subquery = self.subquery(text, scope).await?;
            if !self.was_asked(&subquery) {
                subqueries.push(subquery);
            }
        }
        Ok(subqueries)
    }

    async fn subquery(&mut self, text: String, scope: Scope) -> Result<Subquery, Error> {
        let vector = self.work.embed(vec![text.clone()], TextKind::Query).await?.pop();
        Ok(Subquery { text, vector: vector.unwrap_or_default(), scope })
    }

    /// Returns whether an earlier subquery asks the same.
    fn was_asked(&self, subquery: &Subquery) -> bool {
        self.asked.iter().any(|(_, asked)| cosine(asked, &subquery.vector) >= CLOSE)
    }

    /// Reads what the points rest on, then the passages of their entities (section 3.6).
    async fn respond(mut self) -> Result<Answer, Error> {
        let has_points = self.graph.points().next().is_some();
        let passages = match has_points {
            true => self.best_passages().await?,
            false => std::mem::take(&mut self.hits),
        };
        let most = self.work.question.k.unwrap_or(DEFAULT_K);
        let (mut bytes, mut kept) = (0, Vec::new());
        for passage in &passages {
            bytes += passage.text.len();
            if kept.len() == most || (bytes > WINDOW_BYTES && !kept.is_empty()) {
                break;
            }
            kept.push(passage.clone());
        }
        self.work.trace(TraceEvent::Gathered {
            segments: kept.len(),
            dropped: passages.len() - kept.len(),
            bytes: kept.iter().map(|passage| passage.text.len() as u64).sum(),
        });
        let (points, kept) = (self.points(), self.work.within_tokens(&kept));
        let reading = self.work.read_with(&points, kept).await?;
        Ok(self.work.conclude(reading))
    }

    /// Reports the memory at the end of a step.
    fn show(&self) {
        let changes = self.graph.changes();
        let point = |point: &clew_hypergraph::Point| PointState {
            number: point.id.0,
            fate: changes.fate(point.id),
            entities: point.entities.iter().map(|key| self.name_of(key)).collect(),
            text: point.description.clone(),
            merged_from: point.merged_from.iter().map(|id| id.0).collect(),
            segments: point.segments.iter().cloned().collect(),
        };
        self.work.trace(TraceEvent::Evolved {
            step: changes.step,
            points: self.graph.points().map(point).collect(),
            brought: changes.entities_inserted.iter().map(|key| self.name_of(key)).collect(),
        });
    }
}
