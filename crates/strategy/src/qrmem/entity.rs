//! Entity trial: try other entities until their segments suffice.

use async_trait::async_trait;
use clew_core::{Answer, EntityChoice, EntityNode, Error};

use super::MAX_TRIALS;
use super::navigation::{Memory, Navigation, failure};
use super::passage::join;
use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of entities that the navigator chooses from.
const MAX_CANDIDATES: usize = 64;

/// Maximum number of entities that it chooses at once.
const MAX_CHOSEN: usize = 4;

/// Strategy of *entity trial* over the bipartite graph of entities and segments (QRMeM, section
/// 2.2).
///
/// While the segments read do not suffice, the navigator chooses further entities among those of
/// these segments, `E <- LLM(E, R, S_imp, Q)`, and their segments join the important ones. It ends
/// when the segments suffice, when no entity is left or chosen, when the window has no room for new
/// segments, or after [`MAX_TRIALS`] updates of E. Then the segments are read for the answer.
#[derive(Clone, Copy, Debug)]
pub struct QrmemEntity;

#[async_trait]
impl Strategy for QrmemEntity {
    fn name(&self) -> &'static str {
        "qrmem-entity"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let work = Work::new(question, seams, progress);
        let mut navigation = Navigation::begin(work, Memory::QueryOriented).await?;
        let mut read = std::mem::take(&mut navigation.important);
        for _ in 0..MAX_TRIALS {
            let reflection = navigation.judge(&read).await?;
            if reflection.suffices {
                break;
            }
            let mut candidates = navigation.entities_in(&read).await?;
            candidates.truncate(MAX_CANDIDATES);
            let reason = failure(&reflection);
            let chosen = choose(&mut navigation, candidates, &reason).await?;
            if chosen.is_empty() {
                break;
            }
            let new = navigation.segments_of(&chosen, &[]).await?;
            navigation.take_up(chosen, &reason);
            let before = read.len();
            join(&mut read, new);
            let joined = read.len() - before;
            let dropped = navigation.window.cut(&mut read);
            navigation.trace_gathered(read.iter(), dropped);
            if dropped > 0 && dropped == joined {
                break;
            }
        }
        navigation.read(&read).await
    }
}

/// Returns the entities that the navigator chooses; none if there are none to choose from.
async fn choose(
    navigation: &mut Navigation<'_>,
    candidates: Vec<EntityNode>,
    reason: &str,
) -> Result<Vec<EntityNode>, Error> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let name = |entity: &EntityNode| entity.name.clone();
    let work = &mut navigation.work;
    let choice = EntityChoice {
        question: work.question.text.clone(),
        reason: reason.to_owned(),
        known: navigation.entities.iter().map(name).collect(),
        candidates: candidates.iter().map(name).collect(),
        most: MAX_CHOSEN,
    };
    let (indices, cost) = work.seams.navigator.choose_entities(&choice, work.deadline()).await?;
    work.spend(cost);
    let mut chosen: Vec<EntityNode> = Vec::new();
    for index in indices.into_iter().take(MAX_CHOSEN) {
        let entity = candidates.get(index).ok_or_else(|| {
            Error::internal("the navigator chose an entity that was not shown to it")
        })?;
        if !chosen.contains(entity) {
            chosen.push(entity.clone());
        }
    }
    Ok(chosen)
}
