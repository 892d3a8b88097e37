//! `chat`: what a user's conversations hold, as rounds.

use async_trait::async_trait;
use clew_core::{Answer, Error, Evidence};

use crate::work::Work;
use crate::{Progress, Question, Seams, Strategy};

/// Rounds that are read where the caller does not say.
const DEFAULT_K: usize = 10;

/// The reading of LongMemEval ("LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory",
/// section 5): turns are searched, completed to rounds, and read with the day of each. Documents that are no
/// turns are read as they are found.
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
        progress: &dyn Progress,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let items = work.recall(question.k.unwrap_or(DEFAULT_K)).await?;
        let passages: Vec<Evidence> = items.into_iter().flat_map(|item| item.passages).collect();
        let reading = work.read(&passages).await?;
        Ok(work.conclude(reading))
    }
}

#[cfg(test)]
mod tests {
    use clew_chat::{Role, Turn, TurnId};
    use clew_core::Attributes;

    use super::*;
    use crate::testing::{World, evidence};

    /// A session of a user: rounds of two turns each.
    fn session(world: &mut World, session: &str, rounds: u32) {
        for number in 0..2 * rounds {
            let role = if number % 2 == 0 { Role::User } else { Role::Assistant };
            let text = format!("{session} {number}");
            let id = TurnId { session: session.parse().unwrap(), number };
            let (speaker, attributes) = (String::new(), Attributes::new());
            let turn = Turn { id, role, text, speaker, time: None, attributes };
            world.documents.0.push(turn.document("ada").unwrap());
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
}
