//! Rehearsals: estimates of the cost of building a graph, made without calling the model.
//!
//! A rehearsal performs the same acts as the real work: they are cut to the model's window,
//! rendered, counted, parsed and limited by the budget. Only the replies do not come from the
//! model: rules derive them from the same text, in the requested format. The model's server knows
//! the number of tokens of a prompt better than a local count, and its earlier replies show better
//! than rules how much the model writes. The usage reported by earlier calls therefore corrects the
//! counts.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Account, Entity, EntityKind, Error, Extraction, ExtractionTask, Finish, Generated,
    GenerationRequest, Generator, GeneratorIdentity, GraphBuilder, GraphBuilders, Heard, Limits,
    ReplyFormat, Summary, SummaryTask, Usage,
};

use super::acts::MAX_ITEMS;
use super::builder::placed;
use super::material::json;
use super::reported::{Form, Told};
use super::{NamedEntity, Prompted};

/// Number of words in a question that the model is assumed to ask.
const QUESTION_WORDS: usize = 12;

impl Prompted {
    /// Returns graph builders for all accounts, each of which calls the model. Their rehearsals
    /// assume that the model finds and writes what `rules` do.
    pub fn into_graph_builders(self, rules: Arc<dyn GraphBuilder>) -> Arc<dyn GraphBuilders> {
        Arc::new(Readers { prompted: self, rules })
    }

    /// Returns a copy whose stand-in model replies with `said`, without an account.
    fn rehearsing(&self, said: Said) -> Self {
        let (model, told) = (Arc::clone(&self.generator), Arc::clone(&self.told));
        let generator = Arc::new(StandIn { model, told, said });
        Self { generator, cache: None, account: None, told: Arc::default(), ..self.clone() }
    }
}

struct Readers {
    prompted: Prompted,
    rules: Arc<dyn GraphBuilder>,
}

impl GraphBuilders for Readers {
    fn on(&self, account: &Account) -> Arc<dyn GraphBuilder> {
        Arc::new(self.prompted.on_account(account))
    }

    fn rehearsal(&self) -> Arc<dyn GraphBuilder> {
        let (prompted, rules) = (self.prompted.clone(), Arc::clone(&self.rules));
        Arc::new(Rehearsal { prompted, rules })
    }
}

/// A graph builder that returns the results of rules, with the estimated cost of obtaining the same
/// results from the model.
struct Rehearsal {
    prompted: Prompted,
    rules: Arc<dyn GraphBuilder>,
}

/// Tasks run one after the other. While the rules read on their own threads, other work can run.
#[async_trait]
impl GraphBuilder for Rehearsal {
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        let limits = Limits::default();
        tasks.iter().try_for_each(|task| task.check(&limits))?;
        let mut summaries = Vec::with_capacity(tasks.len());
        for task in tasks {
            let found = self.rules.summarise(vec![task.clone()], deadline).await?;
            let found = found.into_iter().next().unwrap_or_default();
            let prompted = self.prompted.rehearsing(Said::of_summary(&found.text));
            summaries.push(prompted.summary(&task, deadline).await?);
        }
        Ok(summaries)
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let limits = Limits::default();
        tasks.iter().try_for_each(|task| task.check(&limits))?;
        let mut extractions = Vec::with_capacity(tasks.len());
        for task in tasks {
            let found = self.rules.extract(vec![task.clone()], deadline).await?;
            let found = found.into_iter().next().unwrap_or_default();
            let said = Said::of_extraction(&task, &found, self.prompted.questions);
            let prompted = self.prompted.rehearsing(said);
            extractions.push(prompted.extraction(&task, deadline).await?);
        }
        Ok(extractions)
    }
}

/// Replies that the model is assumed to give, by form.
#[derive(Debug, Default)]
struct Said {
    text: String,
    entities: String,
    relations: String,
    questions: String,
}

impl Said {
    fn of_summary(summary: &str) -> Self {
        // The rules leave out only white space, for which the model is not called; an empty reply
        // is invalid.
        let text = if summary.trim().is_empty() { "none" } else { summary };
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Builds the replies for a passage, with `questions` questions about it.
    fn of_extraction(task: &ExtractionTask, found: &Extraction, questions: usize) -> Self {
        // The acts keep only entities that the passage names, each once.
        let named = found.entities.iter().filter(|entity| !entity.name.trim().is_empty());
        let named: Vec<NamedEntity> = named.take(MAX_ITEMS).map(named_entity).collect();
        let placed = placed(named, task);
        let entities: Vec<String> = placed.iter().map(entity_in_json).collect();
        let relations: Vec<String> = relations_in_json(task, found, &placed).collect();
        Self {
            text: String::new(),
            entities: format!(r#"{{"entities": [{}]}}"#, entities.join(", ")),
            relations: format!(r#"{{"relations": [{}]}}"#, relations.join(", ")),
            questions: format!(r#"{{"questions": [{}]}}"#, questions_in_json(task, questions)),
        }
    }

    /// Returns the reply that has this format.
    fn reply_to(&self, format: &ReplyFormat) -> &str {
        match Form::of(format) {
            Some(Form::Text) => &self.text,
            Some(Form::Entities) => &self.entities,
            Some(Form::Relations) => &self.relations,
            Some(Form::Questions) => &self.questions,
            None => "{}",
        }
    }
}

fn named_entity(entity: &Entity) -> NamedEntity {
    NamedEntity { name: entity.name.clone(), kind: entity.kind }
}

fn entity_in_json(entity: &Entity) -> String {
    let kind = match entity.kind {
        EntityKind::Person => "person",
        EntityKind::Organisation => "organisation",
        EntityKind::Place => "place",
        EntityKind::Time => "time",
        EntityKind::Other => "other",
    };
    format!(r#"{{"name": {}, "kind": "{kind}"}}"#, json(&entity.name))
}

/// Writes the relations between entities that are kept, which the model numbers from 1.
fn relations_in_json(
    task: &ExtractionTask,
    found: &Extraction,
    placed: &[Entity],
) -> impl Iterator<Item = String> {
    let number = |index: usize| {
        let name = &found.entities.get(index)?.name;
        Some(placed.iter().position(|entity| entity.name == *name)? + 1)
    };
    let told = found.relations.iter().filter(|relation| !relation.text.trim().is_empty());
    told.take(MAX_ITEMS).filter_map(move |relation| {
        let (head, tail) = (number(relation.head)?, number(relation.tail)?);
        let (words, quote) = (json(&relation.text), relation.evidence.of(&task.text));
        let quote = json(quote.unwrap_or_default());
        Some(format!(
            r#"{{"head": {head}, "relation": {words}, "tail": {tail}, "quote": {quote}}}"#
        ))
    })
}

/// Writes questions about as long as a model's and not very similar to each other: the beginnings
/// of sentences of the passage.
fn questions_in_json(task: &ExtractionTask, most: usize) -> String {
    let sentences = clew_text::sentences(&task.text);
    let step = sentences.len().div_ceil(most.max(1)).max(1);
    let question = |sentence: &clew_core::Span| {
        let words = sentence.of(&task.text).unwrap_or_default().split_whitespace();
        json(&format!("{}?", words.take(QUESTION_WORDS).collect::<Vec<_>>().join(" ")))
    };
    let questions: Vec<String> = sentences.iter().step_by(step).take(most).map(question).collect();
    questions.join(", ")
}

/// A stand-in for a model: it has the model's window and tokenizer, and gives predetermined
/// replies.
struct StandIn {
    model: Arc<dyn Generator>,
    told: Arc<Told>,
    said: Said,
}

#[async_trait]
impl Generator for StandIn {
    fn identity(&self) -> &GeneratorIdentity {
        self.model.identity()
    }

    fn count_tokens(&self, text: &str) -> u32 {
        self.model.count_tokens(text)
    }

    async fn generate(
        &self,
        request: &GenerationRequest,
        _deadline: Instant,
        _heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error> {
        let count = |text: &str| u64::from(self.model.count_tokens(text));
        let prompt = request.messages.iter().map(|message| count(&message.text)).sum();
        let text = self.said.reply_to(&request.format).to_owned();
        let reply = count(&text).min(request.max_tokens.into());
        let usage = Usage {
            prompt_tokens: self.told.prompt_tokens(prompt),
            completion_tokens: self.told.reply_tokens(&request.format, reply),
            calls: 1,
            ..Usage::default()
        };
        let model = self.model.identity().model.clone();
        Ok(Generated { text, finish: Finish::Stop, usage, model })
    }
}
