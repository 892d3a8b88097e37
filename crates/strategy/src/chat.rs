//! `chat`: recall rounds from a user's conversations.

use async_trait::async_trait;
use clew_core::{Answer, Error, Evidence};

use crate::work::{Work, order};
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Number of rounds read if the caller does not set `k`.
const DEFAULT_K: usize = 10;

/// Strategy for conversations, after LongMemEval ("LongMemEval: Benchmarking Chat Assistants on
/// Long-Term Interactive Memory", section 5). It searches turns, completes them to rounds, and
/// reads each with its day. Documents that are no turns are read as found.
///
/// Passages are chosen best first within the question's token limit, and read in order of time
/// (section 5.1). They keep their scores for readers that rank by score. By score, a superseded
/// statement comes after the one that supersedes it ([`clew_core::History::Latest`]).
#[derive(Clone, Copy, Debug)]
pub struct Chat;

#[async_trait]
impl Strategy for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let items = work.recall(question.k.unwrap_or(DEFAULT_K)).await?;
        let passages: Vec<Evidence> = items.into_iter().flat_map(|item| item.passages).collect();
        let mut passages = work.within_tokens(&passages).to_vec();
        passages.sort_by(|a, b| (a.event_time, order(a)).cmp(&(b.event_time, order(b))));
        let reading = work.read_with(&[], &passages).await?;
        Ok(work.conclude(reading))
    }
}

#[cfg(test)]
mod tests {
    use clew_chat::turn_document;
    use clew_core::{Attributes, Outcome, ShardIndex, SpeakerRole, Turn, TurnId};

    use super::*;
    use crate::testing::{World, evidence};

    /// Adds a session of a user: rounds of two turns each.
    fn session(world: &mut World, session: &str, rounds: u32) {
        for number in 0..2 * rounds {
            let role = if number % 2 == 0 { SpeakerRole::User } else { SpeakerRole::Assistant };
            let text = format!("{session} {number}");
            let id = TurnId { session: session.parse().unwrap(), number };
            let (speaker, attributes) = (String::new(), Attributes::new());
            let turn = Turn { id, role, text, speaker, time: None, attributes };
            world.documents.all.push(turn_document(&turn, "ada").unwrap());
        }
    }

    fn hit(session: &str, number: u32, score: f32) -> Evidence {
        evidence(&format!("ada/{session}/{number:010}"), 0, 12, score)
    }

    fn read(world: &World) -> Vec<String> {
        world.reasoner.evidence().iter().map(|passage| passage.text.clone()).collect()
    }

    #[tokio::test]
    async fn turns_that_are_found_are_read_as_rounds() {
        let mut world = World::default();
        session(&mut world, "monday", 4);
        session(&mut world, "tuesday", 1);
        let hits = vec![hit("monday", 3, 0.9), hit("tuesday", 0, 0.8), hit("monday", 2, 0.7)];
        world.retriever.found.insert("what?".to_owned(), hits);
        world.ask(&Chat).await.unwrap();
        let rounds =
            ["user: monday 2", "assistant: monday 3", "user: tuesday 0", "assistant: tuesday 1"];
        assert_eq!(read(&world), rounds);
        world.question.k = Some(1);
        world.ask(&Chat).await.unwrap();
        assert_eq!(read(&world), rounds[..2]);
    }

    #[tokio::test]
    async fn what_is_no_turn_is_read_as_it_was_found() {
        let mut world = World::default();
        let hits = vec![evidence("notes.txt", 0, 9, 0.9), hit("forgotten", 0, 0.8)];
        world.retriever.found.insert("what?".to_owned(), hits);
        world.ask(&Chat).await.unwrap();
        assert_eq!(world.reasoner.read_last(), ["notes.txt:0"]);
    }

    #[tokio::test]
    async fn shards_whose_turns_cannot_be_read_are_named() {
        let mut world = World::default();
        session(&mut world, "monday", 1);
        world.documents.missing = Some(ShardIndex(1));
        world.retriever.found.insert("what?".to_owned(), vec![hit("monday", 0, 0.9)]);
        let answer = world.ask(&Chat).await.unwrap();
        assert_eq!(answer.outcome, Outcome::AnsweredWithShardsMissing(vec![ShardIndex(1)]));
    }

    #[tokio::test]
    async fn passages_are_read_in_the_order_of_time_and_what_holds_is_the_best() {
        let mut world = World::default();
        let older = world.said(3, "I keep four hives on my roof.", 0.9);
        let other = world.said(1, "My roof is flat and sunny.", 0.8);
        let newer = world.said(9, "I keep six hives on my roof now.", 0.1);
        world.retriever.found.insert("what?".to_owned(), vec![older, other, newer]);
        world.ask(&Chat).await.unwrap();
        let read = world.reasoner.evidence();
        let texts: Vec<&str> = read.iter().map(|passage| passage.text.as_str()).collect();
        let expected = [
            "user: My roof is flat and sunny.",
            "user: I keep four hives on my roof.",
            "user: I keep six hives on my roof now.",
        ];
        assert_eq!(texts, expected);
        let [other, older, newer] = [0, 1, 2].map(|at| read[at].score);
        assert!(newer > older && older >= other, "{newer} {older} {other}");
    }

    #[tokio::test]
    async fn the_best_is_read_where_there_is_no_room_for_all() {
        let mut world = World::default();
        let best = world.said(9, "My bees like lime trees.", 0.9);
        let first = world.said(1, "My bees like heather.", 0.1);
        world.retriever.found.insert("what?".to_owned(), vec![best, first]);
        world.question.evidence_tokens = Some(1);
        world.ask(&Chat).await.unwrap();
        assert_eq!(read(&world), ["user: My bees like lime trees."]);
    }
}
