//! Graph expansion search: search again with the question elaborated by what the graph knows.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clew_core::fusion::RECIPROCAL_RANK_BASE;
use clew_core::{Answer, ChunkId, EntityNode, Error, Evidence};

use super::edge::Edge;
use super::navigation::{Memory, Navigation};
use super::passage::{Passage, join};
use crate::work::{Work, overlap};
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of rounds of expansion. Entities three edges away seldom belong to a question of
/// two or three hops.
pub const MAX_EXPANSIONS: usize = 2;

/// Minimum cosine of the question and an edge that is followed.
pub const EDGE_THRESHOLD: f32 = 0.35;

/// Maximum number of edges followed in a round.
const MAX_FOLLOWED: usize = 10;

/// Maximum number of elaborated questions that are searched for.
const MAX_ELABORATED: usize = 4;

/// Number of passages of each search if the caller does not set `k`.
const DEFAULT_K: usize = 10;

/// Strategy of *graph expansion search* (QRMeM, section 2.2).
///
/// Up to [`MAX_EXPANSIONS`] times, the neighbours that the edges most similar to the question lead
/// to join E; edges below [`EDGE_THRESHOLD`] are not followed. The question is elaborated with
/// these edges, `Q <- LLM(E, R, Q)`. The results of the searches for the question and its
/// elaborations are fused by reciprocal ranks, since scores of different searches have no common
/// scale. They are read together with the segments of E: a found passage that lies in one of these
/// is replaced by the segment. The window is filled first with the passages found, then with the
/// other segments. The strategy ends after one reading.
#[derive(Clone, Copy, Debug)]
pub struct QrmemExpand;

#[async_trait]
impl Strategy for QrmemExpand {
    fn name(&self) -> &'static str {
        "qrmem-expand"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let work = Work::new(question, seams, progress);
        let mut navigation = Navigation::begin(work, Memory::QueryOriented).await?;
        let followed = expand(&mut navigation).await?;
        let found = search_again(&mut navigation, &followed).await?;
        let entities = navigation.entities.clone();
        let segments = if entities.is_empty() {
            std::mem::take(&mut navigation.important)
        } else {
            let stated: Vec<_> = followed.into_iter().flat_map(|edge| edge.segments).collect();
            navigation.segments_of(&entities, &stated).await?
        };
        let mut passages = in_segments(found, &segments);
        join(&mut passages, segments);
        let dropped = navigation.window.cut(&mut passages);
        navigation.trace_gathered(passages.iter(), dropped);
        navigation.read(&passages).await
    }
}

/// Takes up the neighbours of E whose edges are similar enough. Returns the edges that led to them.
async fn expand(navigation: &mut Navigation<'_>) -> Result<Vec<Edge>, Error> {
    let mut followed = Vec::new();
    for _ in 0..MAX_EXPANSIONS {
        navigation.work.check_time("navigating the graph")?;
        let question = navigation.work.question.text.clone();
        let mut scored = navigation.edges_by_similarity(question).await?;
        scored.retain(|(_, similarity)| *similarity >= EDGE_THRESHOLD);
        scored.truncate(MAX_FOLLOWED);
        if scored.is_empty() {
            break;
        }
        let mut neighbours: Vec<EntityNode> = Vec::new();
        for (edge, similarity) in scored {
            navigation.work.trace(edge.followed(similarity, "it is similar to the question"));
            if !neighbours.iter().any(|known| known.key == edge.to.key) {
                neighbours.push(edge.to.clone());
            }
            followed.push(edge);
        }
        navigation.entities.extend(neighbours);
    }
    Ok(followed)
}

/// Returns what searches for the question and its elaborations find, best first.
async fn search_again(
    navigation: &mut Navigation<'_>,
    followed: &[Edge],
) -> Result<Vec<Evidence>, Error> {
    let k = navigation.work.question.k.unwrap_or(DEFAULT_K);
    let mut rankings = vec![navigation.hits.iter().take(k).cloned().collect()];
    if !followed.is_empty() {
        let relations: Vec<String> = followed.iter().map(|edge| edge.text().to_owned()).collect();
        let work = &mut navigation.work;
        let (question, deadline) = (&work.question.text, work.deadline());
        let elaborated = work.seams.navigator.elaborate(question, &relations, deadline).await?;
        work.spend(elaborated.cost);
        let texts = elaborated.texts.into_iter().take(MAX_ELABORATED);
        let queries = texts.map(|text| work.query(text, k)).collect();
        rankings.extend(work.search_all(queries).await?);
    }
    Ok(fuse(rankings))
}

/// Fuses several rankings into one by the sum of reciprocal ranks; equal ones in the order found.
fn fuse(rankings: Vec<Vec<Evidence>>) -> Vec<Evidence> {
    let mut fused: Vec<Evidence> = Vec::new();
    let mut places: BTreeMap<ChunkId, usize> = BTreeMap::new();
    for ranking in rankings {
        for (rank, item) in (1..).zip(ranking) {
            let score = 1.0 / (RECIPROCAL_RANK_BASE + rank as f32);
            match places.get(&item.chunk_id) {
                Some(&place) => fused[place].score += score,
                None => {
                    places.insert(item.chunk_id, fused.len());
                    fused.push(Evidence { score, ..item });
                }
            }
        }
    }
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused
}

/// Returns the passages found, each as the segment of E that it lies in, or by itself.
fn in_segments(found: Vec<Evidence>, segments: &[Passage]) -> Vec<Passage> {
    let mut passages = Vec::new();
    for item in found {
        let around = segments.iter().find(|segment| overlap(&segment.evidence, &item));
        let passage = around.cloned().unwrap_or_else(|| Passage::new(item, &[], 0));
        join(&mut passages, vec![passage]);
    }
    passages
}
