//! Implementation of the core's graph builder.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Entity, EntityKind, Error, ErrorKind, Extraction, ExtractionTask, GraphBuilder, Ledger, Limits,
    Relation, Span, Summary, SummaryTask,
};
use futures::future::try_join_all;

use super::questions::diverse;
use super::reader::find_quote;
use super::{
    AskQuestions, NameEntities, NamedEntity, Prompted, RelateEntities, RelatedEntities, Summarise,
};

/// Maximum number of key phrases of a passage. They are extracted without the model.
const MAX_KEY_PHRASES: usize = 10;

#[async_trait]
impl GraphBuilder for Prompted {
    /// Performs [`Summarise`] for each task. Texts of only white space are not sent to the model.
    ///
    /// # Errors
    /// Returns the errors of [`Prompted::perform`], and [`clew_core::ErrorKind::InvalidInput`] if a
    /// task is beyond the limits.
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        let limits = Limits::default();
        tasks.iter().try_for_each(|task| task.check(&limits))?;
        let mut summaries = Vec::with_capacity(tasks.len());
        for some in tasks.chunks(self.at_once) {
            let asked = some.iter().map(|task| self.summary(task, deadline));
            summaries.extend(try_join_all(asked).await?);
        }
        Ok(summaries)
    }

    /// Performs [`NameEntities`] and, if there are at least two, [`RelateEntities`] for each task.
    ///
    /// Leaves out entities that the passage does not name, except for the speaker: the nodes of a
    /// graph lead to the places that name them. A relation's evidence is the sentence or sentences
    /// that contain the words the model quotes, or the whole passage if it does not contain them.
    ///
    /// A task without a question may be read again in view of the model's own questions, see
    /// [`Prompted::with_questions`]. Entities of the same name, and relations of the same two
    /// entities in the same words, are kept once.
    ///
    /// # Errors
    /// Returns the errors of [`Self::summarise`].
    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let limits = Limits::default();
        tasks.iter().try_for_each(|task| task.check(&limits))?;
        let mut extractions = Vec::with_capacity(tasks.len());
        for some in tasks.chunks(self.at_once) {
            let asked = some.iter().map(|task| self.extraction(task, deadline));
            extractions.extend(try_join_all(asked).await?);
        }
        Ok(extractions)
    }
}

impl Prompted {
    pub(super) async fn summary(
        &self,
        task: &SummaryTask,
        deadline: Instant,
    ) -> Result<Summary, Error> {
        let is_blank = |part: &String| part.trim().is_empty();
        if task.parts.iter().all(is_blank) {
            return Ok(Summary::default());
        }
        let texts = task.parts.iter().filter(|part| !is_blank(part)).cloned().collect();
        let act = Summarise { level: task.level, texts, max_bytes: task.max_bytes };
        let ledger = self.ledger();
        let text = self.perform(&act, deadline, &ledger).await?;
        Ok(Summary { text, quotes: Vec::new(), cost: ledger.cost() })
    }

    pub(super) async fn extraction(
        &self,
        task: &ExtractionTask,
        deadline: Instant,
    ) -> Result<Extraction, Error> {
        if task.text.trim().is_empty() {
            return Ok(Extraction::default());
        }
        let ledger = self.ledger();
        let mut drawn = Drawn::default();
        self.draw(task, &task.question, &mut drawn, deadline, &ledger).await?;
        if self.questions > 0 && task.question.trim().is_empty() {
            let asked = self.draw_for_questions(task, &mut drawn, deadline, &ledger).await;
            asked.or_else(|error| if is_budget_spent(&error) { Ok(()) } else { Err(error) })?;
        }
        let (entities, relations) = drawn.in_order();
        let phrases = clew_text::key_phrases(&task.text, MAX_KEY_PHRASES);
        let key_phrases = phrases.into_iter().map(clew_text::one_line).collect();
        Ok(Extraction { entities, relations, key_phrases, vectors: None, cost: ledger.cost() })
    }

    /// Adds the entities and relations of the passage in view of `question`, which may be empty.
    async fn draw(
        &self,
        task: &ExtractionTask,
        question: &str,
        drawn: &mut Drawn,
        deadline: Instant,
        ledger: &Ledger,
    ) -> Result<(), Error> {
        let act = NameEntities {
            text: task.text.clone(),
            background: task.background.clone(),
            question: question.to_owned(),
            speaker: task.speaker.clone(),
        };
        let named = self.perform(&act, deadline, ledger).await?;
        drawn.add_entities(placed(named, task));
        if drawn.entities.len() > 1 {
            let act = RelateEntities {
                text: task.text.clone(),
                entities: drawn.entities.iter().map(|entity| entity.name.clone()).collect(),
                background: task.background.clone(),
                question: question.to_owned(),
            };
            let found = self.perform(&act, deadline, ledger).await?;
            drawn.add_relations(found.into_iter().map(|found| relation(found, &task.text)));
        }
        Ok(())
    }

    /// Adds the entities and relations of the passage in view of the model's questions about it,
    /// without similar ones.
    async fn draw_for_questions(
        &self,
        task: &ExtractionTask,
        drawn: &mut Drawn,
        deadline: Instant,
        ledger: &Ledger,
    ) -> Result<(), Error> {
        let act = AskQuestions {
            text: task.text.clone(),
            background: task.background.clone(),
            known: drawn.in_words(),
            most: self.questions,
        };
        let asked = self.perform(&act, deadline, ledger).await?;
        for question in diverse(asked) {
            self.draw(task, &question, drawn, deadline, ledger).await?;
        }
        Ok(())
    }
}

/// Returns whether the error only means that nothing more can be asked about a passage. What was
/// found in it so far remains valid.
fn is_budget_spent(error: &Error) -> bool {
    error.kind() == ErrorKind::Exhausted && error.reason() == "BUDGET_SPENT"
}

/// Entities and relations found in a passage so far.
#[derive(Default)]
struct Drawn {
    entities: Vec<Entity>,
    relations: Vec<Relation>,
}

impl Drawn {
    /// Adds entities with new names.
    fn add_entities(&mut self, found: Vec<Entity>) {
        for entity in found {
            if !self.entities.iter().any(|known| known.name == entity.name) {
                self.entities.push(entity);
            }
        }
    }

    /// Adds relations that are not known yet, between the same two entities in the same words.
    fn add_relations(&mut self, found: impl Iterator<Item = Relation>) {
        let parts = |relation: &Relation| (relation.head, relation.tail, relation.text.clone());
        for relation in found {
            if !self.relations.iter().any(|known| parts(known) == parts(&relation)) {
                self.relations.push(relation);
            }
        }
    }

    fn in_words(&self) -> Vec<String> {
        let name = |index: usize| self.entities[index].name.as_str();
        let words = |relation: &Relation| {
            format!("{} {} {}", name(relation.head), relation.text, name(relation.tail))
        };
        self.relations.iter().map(words).collect()
    }

    /// Returns the entities in the order in which the passage names them, those that it does not
    /// name last, and the relations in text order.
    fn in_order(self) -> (Vec<Entity>, Vec<Relation>) {
        let mut entities: Vec<(usize, Entity)> = self.entities.into_iter().enumerate().collect();
        entities.sort_by_key(|(_, entity)| {
            entity.mentions.first().map_or(usize::MAX, |mention| mention.start)
        });
        let mut places = vec![0; entities.len()];
        for (place, (index, _)) in entities.iter().enumerate() {
            places[*index] = place;
        }
        let moved = |relation: Relation| Relation {
            head: places[relation.head],
            tail: places[relation.tail],
            ..relation
        };
        let mut relations: Vec<Relation> = self.relations.into_iter().map(moved).collect();
        relations.sort_by_key(|relation| relation.evidence);
        (entities.into_iter().map(|(_, entity)| entity).collect(), relations)
    }
}

/// Returns the entities that the passage names, in text order, then the speaker if it does not name
/// them.
pub(super) fn placed(named: Vec<NamedEntity>, task: &ExtractionTask) -> Vec<Entity> {
    let mut entities: Vec<Entity> = Vec::new();
    for NamedEntity { name, kind } in named {
        let mentions = mentions(&task.text, &name);
        let is_speaker = name == task.speaker;
        if !mentions.is_empty() || is_speaker {
            let kind = if is_speaker { EntityKind::Person } else { kind };
            entities.push(Entity { name, kind, mentions });
        }
    }
    entities.sort_by_key(|entity| entity.mentions.first().map_or(usize::MAX, |span| span.start));
    entities
}

/// Returns the places where `text` contains `name`, exactly as written, as a word or words of its
/// own.
fn mentions(text: &str, name: &str) -> Vec<Span> {
    if name.is_empty() {
        return Vec::new();
    }
    let spans = text.match_indices(name).map(|(start, _)| Span::new(start, start + name.len()));
    let is_apart = |span: &Span| {
        let before = text[..span.start].chars().next_back();
        let after = text[span.end..].chars().next();
        !goes_on(before, name.chars().next()) && !goes_on(name.chars().next_back(), after)
    };
    spans.filter(is_apart).collect()
}

/// Returns whether two neighbouring characters belong to one word.
fn goes_on(left: Option<char>, right: Option<char>) -> bool {
    left.is_some_and(is_spaced) && right.is_some_and(is_spaced)
}

/// Returns whether a character is a letter or digit of a script that separates words by spaces: all
/// except those of East Asia, whose blocks begin at U+2E80.
fn is_spaced(c: char) -> bool {
    c.is_alphanumeric() && c < '\u{2e80}'
}

fn relation(found: RelatedEntities, text: &str) -> Relation {
    let quote = find_quote(text, &found.quote);
    let evidence = quote.map_or_else(|| Span::new(0, text.len()), |quote| around(text, quote));
    let evidence = clew_text::trimmed(text, evidence);
    Relation { head: found.head, text: found.text, tail: found.tail, evidence }
}

/// Returns the span of the sentences that `span` touches.
fn around(text: &str, span: Span) -> Span {
    let touched = clew_text::sentences(text)
        .into_iter()
        .filter(|sentence| sentence.start < span.end && span.start < sentence.end);
    touched.fold(span, |all, sentence| {
        Span::new(all.start.min(sentence.start), all.end.max(sentence.end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_words_of_their_own() {
        let found = |text, name| mentions(text, name).len();
        assert_eq!(found("Ann met Anna and Ann.", "Ann"), 2);
        assert_eq!(found("京都大学で", "京都"), 1);
        assert_eq!(found("C++ and C", "C++"), 1);
        assert_eq!(found("abc", ""), 0);
        assert_eq!(found("éé", "é"), 0);
    }
}
