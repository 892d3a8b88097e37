//! `graph-walk`: personalised PageRank from the question's entities.

use std::collections::HashMap;

use async_trait::async_trait;
use clew_core::{Answer, Error, Evidence, SegmentId, TraceEvent};

use super::DEFAULT_K;
use crate::admitted::Admitted;
use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Strategy that ranks segments by a random walk over entities and segments, starting at the
/// entities that a question names.
///
/// It resembles HippoRAG ("HippoRAG: Neurobiologically Inspired Long-Term Memory for Large Language
/// Models", section 2.3) but does less: names are linked to the graph by spelling, not by vectors,
/// and no step selects the relations that bear on the question. If the graph knows none of the
/// question's entities, the seeds are the entities at the best places that a search finds.
#[derive(Clone, Copy, Debug)]
pub struct GraphWalk;

/// Number of best places whose entities are the seeds if the question names none that the graph
/// knows.
const SEED_PLACES: usize = 5;

#[async_trait]
impl Strategy for GraphWalk {
    fn name(&self) -> &'static str {
        "graph-walk"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let named = seams.navigator.name_entities(&question.text, work.deadline()).await?;
        work.spend(named.cost);
        let mut query = clew_graph::reach(&question.text);
        query.texts.extend(named.texts);
        let mut graph = work.subgraph(&query).await?;
        let mut reason = "the question names them";
        let mut found = Vec::new();
        if graph.seeds.is_empty() {
            found = work.search(work.query(question.text.clone(), k)).await?;
            query.places = found.iter().take(SEED_PLACES).map(Evidence::place).collect();
            graph = work.subgraph(&query).await?;
            reason = "they stand where a search for the question finds most";
        }
        if !graph.seeds.is_empty() {
            let seeds = graph.seeds.iter().map(ToString::to_string).collect();
            let reason = reason.to_owned();
            work.trace(TraceEvent::EntitiesChosen { entities: seeds, reason });
        }
        let admitted = Admitted::find(&mut work).await?;
        let ranked: Vec<(SegmentId, f64)> = clew_graph::rank(&graph)
            .segments
            .into_iter()
            .filter(|(id, _)| admitted.has(&id.document_id))
            .take(k)
            .collect();
        let evidence = if ranked.is_empty() { found } else { read(&mut work, ranked).await? };
        work.trace(TraceEvent::Gathered {
            segments: evidence.len(),
            dropped: 0,
            bytes: evidence.iter().map(|passage| passage.text.len() as u64).sum(),
        });
        let reading = work.read(&evidence).await?;
        Ok(work.conclude(reading))
    }
}

/// Reads the texts of segments, with their ranks as scores.
async fn read(work: &mut Work<'_>, ranked: Vec<(SegmentId, f64)>) -> Result<Vec<Evidence>, Error> {
    let ids: Vec<SegmentId> = ranked.iter().map(|(id, _)| id.clone()).collect();
    let texts = work.segments(&ids).await?;
    let mut texts: HashMap<SegmentId, Evidence> = texts.into_iter().collect();
    let scored = |(id, rank): (SegmentId, f64)| {
        let text = texts.remove(&id)?;
        Some(Evidence { score: rank as f32, ..text })
    };
    Ok(ranked.into_iter().filter_map(scored).collect())
}
