//! Navigation by reflection: follow the edge that fits what is missing.

use async_trait::async_trait;
use clew_core::{Answer, Error};

use super::MAX_TRIALS;
use super::navigation::{Memory, Navigation, failure};
use super::passage::{Passage, Window};
use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Strategy of *reflection-based navigation* ("QRMeM: Unleash the Length Limitation through
/// Question then Reflection Memory Mechanism", algorithm 1 in appendix A).
///
/// While the segments read, `S_mix = S_imp + S_add`, do not suffice, it follows the edge out of E
/// that is most similar to `[Q; R; E]`: the question, what the reflection found missing, and the
/// names of the entities. The entity that the edge leads to joins E, and its segments join S_add
/// with the similarity of that edge. If S_mix exceeds the window, the least similar of S_add are
/// dropped, but none of S_imp. It ends when S_mix suffices, when no edge leads out of E, or after
/// [`MAX_TRIALS`] edges. Then S_mix is read for the answer.
#[derive(Clone, Copy, Debug)]
pub struct QrmemReflect {
    name: &'static str,
    memory: Memory,
}

impl QrmemReflect {
    /// `qrmem-reflect`: over the query-oriented graph, the paper's method. Segments that joined
    /// S_add on a trial and fit the window are read for the question before the next edge is
    /// chosen.
    pub const QUERY_ORIENTED: Self = Self { name: "qrmem-reflect", memory: Memory::QueryOriented };

    /// `qrmem-reflect-offline`: over the stored graph alone.
    pub const OFFLINE: Self = Self { name: "qrmem-reflect-offline", memory: Memory::Stored };

    /// `qrmem-reflect-full`: over a graph that is built for the question from every passage, as in
    /// the paper (section 2.1), up to [`super::MAX_FULL`].
    pub const FULL: Self = Self { name: "qrmem-reflect-full", memory: Memory::Full };
}

/// Segment of S_add with the similarity of the edge that led to it.
struct Added {
    passage: Passage,
    similarity: f32,
}

#[async_trait]
impl Strategy for QrmemReflect {
    fn name(&self) -> &'static str {
        self.name
    }

    // The numbers are the lines of algorithm 1.
    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        // 1
        let work = Work::new(question, seams, progress);
        let mut navigation = Navigation::begin(work, self.memory).await?;
        let mut added: Vec<Added> = Vec::new();
        // 2
        let mut mix = mixed(&navigation.important, &added);
        let mut joined: Vec<Passage> = Vec::new();
        // 3
        for _ in 0..MAX_TRIALS {
            // 4 to 7
            let reflection = navigation.judge(&mix).await?;
            if reflection.suffices {
                break;
            }
            joined.retain(|passage| mix.iter().any(|kept| kept.is_same(passage)));
            navigation.read_for_question(&joined).await?;
            // 8 to 14
            let Some(new) = follow(&mut navigation, &failure(&reflection)).await? else { break };
            let is_new = |new: &Added| !mix.iter().any(|known| known.is_same(&new.passage));
            let new: Vec<Added> = new.into_iter().filter(is_new).collect();
            joined = new.iter().map(|new| new.passage.clone()).collect();
            added.extend(new);
            // 16 to 19
            let dropped = filter(&mut added, &navigation.important, navigation.window);
            mix = mixed(&navigation.important, &added);
            navigation.trace_gathered(mix.iter(), dropped);
        }
        // 5
        navigation.read(&mix).await
    }
}

/// Follows the edge that is most similar to `[Q; R; E]`. Returns the segments of the entity that it
/// leads to, or `None` if there is no edge.
async fn follow(
    navigation: &mut Navigation<'_>,
    reason: &str,
) -> Result<Option<Vec<Added>>, Error> {
    let names: Vec<&str> = navigation.entities.iter().map(|entity| entity.name.as_str()).collect();
    let parts = [navigation.work.question.text.as_str(), reason, &names.join(", ")];
    let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
    let scored = navigation.edges_by_similarity(text).await?;
    let Some((edge, similarity)) = scored.into_iter().next() else { return Ok(None) };
    navigation.work.trace(edge.followed(similarity, reason));
    let to = [edge.to];
    let segments = navigation.segments_of(&to, &edge.segments).await?;
    navigation.entities.extend(to);
    Ok(Some(segments.into_iter().map(|passage| Added { passage, similarity }).collect()))
}

/// Returns S_mix: the important segments, the most relevant first, and then the others, the most
/// similar first.
fn mixed(important: &[Passage], added: &[Added]) -> Vec<Passage> {
    let mut added: Vec<&Added> = added.iter().collect();
    added.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
    important.iter().chain(added.into_iter().map(|added| &added.passage)).cloned().collect()
}

/// Drops the least similar of S_add, of equal ones the last, until S_mix fits. Returns how many.
fn filter(added: &mut Vec<Added>, important: &[Passage], window: Window) -> usize {
    added.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
    let before = added.len();
    while !added.is_empty() {
        let mix = important.iter().chain(added.iter().map(|added| &added.passage));
        if window.holds(mix) {
            break;
        }
        added.pop();
    }
    before - added.len()
}
