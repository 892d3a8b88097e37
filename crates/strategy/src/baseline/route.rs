//! `route`: choose the strategy that suits the question.

use async_trait::async_trait;
use clew_core::{Answer, Error};

use crate::{AnswerObserver, Direct, Linked, MemWalker, Question, Seams, Strategy};

/// Strategy that chooses another one by rules without cost:
///
/// 1. A question whose filter names one to three documents and that asks for the whole (a word that
///    begins with "summar", "about", "why", "overall", "theme" or "main") walks the tree, best
///    first: no single passage holds the answer.
/// 2. A question of two steps follows names (`linked`). It has at least two relating words ("'s",
///    "of", "who", "which", "whose", "where", "that", "whom") or one that compares ("both", "same",
///    "older", "younger", "earlier", "later").
/// 3. Everything else is searched once (`direct`).
///
/// A corpus without trees and graph is searched once in the first two cases, too.
#[derive(Clone, Copy, Debug)]
pub struct Route;

/// Beginnings of words that ask for the whole.
const WHOLE: [&str; 6] = ["summar", "about", "why", "overall", "theme", "main"];
/// Words that relate one thing to another.
const RELATING: [&str; 7] = ["of", "who", "which", "whose", "where", "that", "whom"];
/// Words that compare.
const COMPARING: [&str; 6] = ["both", "same", "older", "younger", "earlier", "later"];
/// Maximum number of documents whose trees are walked rather than searched.
const FEW_DOCUMENTS: usize = 3;

/// Returns the strategy that suits a question.
fn chosen(question: &Question) -> &'static dyn Strategy {
    let text = question.text.to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    let documents = question.filter.documents.len();
    let asks_for_whole = words.iter().any(|word| WHOLE.iter().any(|whole| word.starts_with(whole)));
    if (1..=FEW_DOCUMENTS).contains(&documents) && asks_for_whole {
        return &MemWalker::BEST_FIRST;
    }
    let possessives = text.matches("'s ").count() + text.matches("’s ").count();
    let relating = words.iter().filter(|word| RELATING.contains(word)).count() + possessives;
    let compares = words.iter().any(|word| COMPARING.contains(word));
    if relating >= 2 || compares { &Linked } else { &Direct }
}

#[async_trait]
impl Strategy for Route {
    fn name(&self) -> &'static str {
        "route"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        match chosen(question).answer(question, seams, progress).await {
            Err(error) if error.reason() == "NO_STRUCTURE" => {
                Direct.answer(question, seams, progress).await
            }
            answered => answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, document};

    fn routed(text: &str, documents: usize) -> &'static str {
        let mut question = World::default().question;
        question.text = text.to_owned();
        question.filter.documents = (0..documents).map(|n| document(&format!("d{n}"))).collect();
        chosen(&question).name()
    }

    #[test]
    fn each_question_goes_its_way() {
        assert_eq!(routed("When was the bridge built?", 0), "direct");
        assert_eq!(routed("Where was the director of the film that won born?", 0), "linked");
        assert_eq!(routed("Who is older, Ada or Bob?", 0), "linked");
        assert_eq!(routed("Why did the crew leave?", 1), "memwalker-best");
        assert_eq!(routed("Why did the crew leave?", 0), "direct");
    }
}
