//! Rehearsals: estimates of the cost of building a graph, made without calling the model.
//!
//! A rehearsal performs the same acts as the real work: they are cut to the model's window,
//! rendered, counted, parsed and limited by the budget. Only the replies do not come from the
//! model: rules derive them from the same text, in the requested format. The model's server knows
//! the number of tokens of a prompt better than a local count, and its earlier replies show better
//! than rules how much the model writes. The usage reported by earlier calls therefore corrects the
//! counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
use super::{NamedEntity, Prompted};

/// Minimum number of prompt tokens reported before they correct the count. Fewer say little about
/// the next prompt.
const ENOUGH_TOKENS: u64 = 2_000;
/// Minimum number of replies in one form before their mean length is expected of the next.
const ENOUGH_REPLIES: u64 = 16;
/// Number of words in a question that the model is assumed to ask.
const QUESTION_WORDS: usize = 12;

/// Form of a reply in the building of a graph.
#[derive(Clone, Copy, Debug)]
enum Form {
    Text,
    Entities,
    Relations,
    Questions,
}

impl Form {
    /// Returns the form of a reply of this format. Returns `None` for formats that graphs are not
    /// built from.
    fn of(format: &ReplyFormat) -> Option<Self> {
        let schema = match format {
            ReplyFormat::Text => return Some(Self::Text),
            ReplyFormat::Choice(_) => return None,
            ReplyFormat::JsonSchema(schema) => schema,
        };
        let keys = [
            (r#""relations""#, Self::Relations),
            (r#""questions""#, Self::Questions),
            (r#""entities""#, Self::Entities),
        ];
        keys.into_iter().find(|(key, _)| schema.contains(key)).map(|(_, form)| form)
    }
}

/// Usage reported by the model's server for earlier calls.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Tokens of prompts, as counted here and as reported.
    prompts: Pair,
    /// Replies and their reported tokens, by [`Form`].
    replies: [Pair; 4],
}

#[derive(Debug, Default)]
struct Pair {
    counted: AtomicU64,
    told: AtomicU64,
}

impl Told {
    /// Records a call whose prompt was counted as `prompt` tokens and whose reply has this format.
    pub(super) fn note(&self, prompt: u64, format: &ReplyFormat, usage: &Usage) {
        // The usage of a repeated call is reported in total, so it tells nothing about one call.
        if usage.calls <= 1 {
            self.prompts.note(prompt, usage.prompt_tokens);
            if let Some(form) = Form::of(format) {
                self.replies[form as usize].note(1, usage.completion_tokens);
            }
        }
    }

    fn prompt_tokens(&self, counted: u64) -> u64 {
        let told = self.prompts.told_for_one(ENOUGH_TOKENS);
        told.map_or(counted, |told| (counted as f64 * told).round() as u64)
    }

    fn reply_tokens(&self, format: &ReplyFormat, counted: u64) -> u64 {
        let told = |form: Form| self.replies[form as usize].told_for_one(ENOUGH_REPLIES);
        Form::of(format).and_then(told).map_or(counted, |told| told.round() as u64)
    }
}

impl Pair {
    fn note(&self, counted: u64, told: u64) {
        // A server that reports no usage corrects nothing.
        if told > 0 {
            self.counted.fetch_add(counted, Ordering::Relaxed);
            self.told.fetch_add(told, Ordering::Relaxed);
        }
    }

    /// Returns the reported value per counted unit, once there are enough.
    fn told_for_one(&self, enough: u64) -> Option<f64> {
        let counted = self.counted.load(Ordering::Relaxed);
        let told = self.told.load(Ordering::Relaxed);
        (counted >= enough).then(|| told as f64 / counted as f64)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_corrected_once_enough_was_told() {
        let told = Told::default();
        let usage = |prompt_tokens, completion_tokens| Usage {
            prompt_tokens,
            completion_tokens,
            ..Usage::default()
        };
        let text = &ReplyFormat::Text;
        told.note(1_500, text, &usage(1_000, 50));
        assert_eq!((told.prompt_tokens(300), told.reply_tokens(text, 300)), (300, 300));
        (0..15).for_each(|_| told.note(1_500, text, &usage(1_000, 50)));
        assert_eq!((told.prompt_tokens(300), told.reply_tokens(text, 300)), (200, 50));
        let list = &ReplyFormat::JsonSchema(r#"{"entities": []}"#.to_owned());
        assert_eq!(told.reply_tokens(list, 300), 300, "of lists nothing was told");
        let silent = Told::default();
        silent.note(9_000, text, &usage(0, 0));
        assert_eq!(silent.prompt_tokens(300), 300);
    }
}
