//! Entities from mentions: which mentions name the same thing.

use std::collections::{BTreeMap, HashMap};

use clew_core::{Entity, EntityKind, Span};
use clew_text::{Term, is_grammar_word, one_line, terms};

use crate::word::Words;

/// Maximum number of words in a topic of a question.
const MAX_TOPIC_WORDS: usize = 4;
/// Maximum number of topics of a question that are looked for.
const MAX_TOPICS: usize = 16;
/// Words with which speakers mean themselves.
const FIRST_PERSON: [&str; 5] = ["i", "me", "mine", "my", "myself"];

/// Place where something is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Byte range in the passage.
    pub span: Span,
    /// Kind that this place suggests.
    pub kind: EntityKind,
    /// Name, if it is not the text of the place.
    name: Option<String>,
}

impl Found {
    pub fn new(span: Span, kind: EntityKind) -> Self {
        Self { span, kind, name: None }
    }
}

/// Entities of a passage, with their mentions.
#[derive(Debug)]
pub(crate) struct Named {
    /// Entities in the order of their first mentions.
    pub entities: Vec<Entity>,
    /// All mentions in order, each with the index of its entity.
    pub mentions: Vec<(Span, usize)>,
}

/// Adds the places where the passage mentions topics of `question`, except where something was
/// found already.
pub(crate) fn topics(words: &Words<'_>, question: &str, found: &mut Vec<Found>) {
    let asked = topics_of(question);
    if asked.is_empty() {
        return;
    }
    let passage: Vec<(usize, Term)> = words
        .words
        .iter()
        .enumerate()
        .flat_map(|(at, word)| terms(word.text).map(move |term| (at, term)))
        .collect();
    let mut added = Vec::new();
    for topic in &asked {
        for run in passage.windows(topic.len()) {
            let is_mention = run.iter().map(|(_, term)| term).eq(topic);
            let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else { continue };
            // The words are in a row, except for words without a term, such as "of".
            if is_mention && last - first < MAX_TOPIC_WORDS {
                let span = Span::new(words.words[*first].span.start, words.words[*last].span.end);
                added.push(Found::new(span, EntityKind::Other));
            }
        }
    }
    // Longer topics first, so that they take precedence over their parts.
    added.sort_by_key(|topic| (usize::MAX - topic.span.len(), topic.span.start));
    add_apart(found, added);
}

/// Returns the runs of content words of a question.
fn topics_of(question: &str) -> Vec<Vec<Term>> {
    let mut topics: Vec<Vec<Term>> = vec![Vec::new()];
    let mut last_end = 0;
    for span in clew_text::words(question) {
        let word = &question[span.start..span.end];
        let lower = word.to_lowercase();
        let continues = question[last_end..span.start].trim().is_empty();
        last_end = span.end;
        let is_content = !is_grammar_word(&lower) && !clew_text::is_common_verb(&lower);
        if !continues || !is_content {
            topics.push(Vec::new());
        }
        if is_content && let Some(topic) = topics.last_mut() {
            topic.extend(terms(word));
        }
    }
    topics.retain(|topic| (1..=MAX_TOPIC_WORDS).contains(&topic.len()));
    topics.truncate(MAX_TOPICS);
    topics
}

/// Adds the places where `speaker` means themselves.
pub(crate) fn speaker(words: &Words<'_>, speaker: &str, found: &mut Vec<Found>) {
    let speaker = speaker.trim();
    if speaker.is_empty() {
        return;
    }
    let meant = words.words.iter().filter(|word| {
        // "I'm" and "I've" are one word each.
        let subject = word.lower.split(['\'', '’']).next().unwrap_or_default();
        FIRST_PERSON.contains(&subject)
    });
    let added = meant.map(|word| {
        let letters = word.text.find(['\'', '’']).unwrap_or(word.text.len());
        let span = Span::new(word.span.start, word.span.start + letters);
        Found { span, kind: EntityKind::Person, name: Some(speaker.to_owned()) }
    });
    add_apart(found, added.collect());
}

/// Adds those of `added` that do not overlap with others, the first ones first.
fn add_apart(found: &mut Vec<Found>, added: Vec<Found>) {
    let mut taken: BTreeMap<usize, usize> =
        found.iter().map(|found| (found.span.start, found.span.end)).collect();
    for one in added {
        let before = taken.range(..one.span.end).next_back();
        if before.is_none_or(|(_, end)| *end <= one.span.start) {
            taken.insert(one.span.start, one.span.end);
            found.push(one);
        }
    }
}

/// Merges the places that name the same thing into entities.
pub(crate) fn unite(passage: &str, mut found: Vec<Found>) -> Named {
    found.sort_by_key(|one| one.span);
    let names: Vec<String> = found
        .iter()
        .map(|one| match &one.name {
            Some(name) => name.clone(),
            None => one_line(one.span.of(passage).unwrap_or_default()),
        })
        .collect();
    let keys: Vec<Vec<String>> = names.iter().map(|name| key_of(name)).collect();
    let full = full_names(&found, &keys);
    let mut named = Named { entities: Vec::new(), mentions: Vec::new() };
    let mut of_key: HashMap<&[String], usize> = HashMap::new();
    let mut kinds: Vec<Vec<EntityKind>> = Vec::new();
    for ((one, name), key) in found.iter().zip(names).zip(&keys) {
        let key = full.get(key.as_slice()).copied().unwrap_or(key);
        let index = *of_key.entry(key).or_insert(named.entities.len());
        if index == named.entities.len() {
            kinds.push(Vec::new());
            let (kind, mentions) = (EntityKind::Other, Vec::new());
            named.entities.push(Entity { name: name.clone(), kind, mentions });
        }
        let entity = &mut named.entities[index];
        if name.len() > entity.name.len() {
            entity.name = name;
        }
        entity.mentions.push(one.span);
        kinds[index].push(one.kind);
        named.mentions.push((one.span, index));
    }
    for (entity, kinds) in named.entities.iter_mut().zip(&kinds) {
        entity.kind = prevailing(kinds);
    }
    named
}

/// Returns for each surname or first name the one full name that it belongs to.
fn full_names<'k>(
    found: &[Found],
    keys: &'k [Vec<String>],
) -> HashMap<&'k [String], &'k Vec<String>> {
    let mut full: HashMap<&[String], Option<&Vec<String>>> = HashMap::new();
    for (one, key) in found.iter().zip(keys) {
        let may_be_person = matches!(one.kind, EntityKind::Person | EntityKind::Other);
        // In "University of Oxford" no single word stands for the whole.
        let is_plain = key.len() > 1 && key.iter().all(|part| !is_grammar_word(part));
        if !may_be_person || !is_plain {
            continue;
        }
        for part in [&key[..1], &key[key.len() - 1..]] {
            let known = full.entry(part).or_insert(Some(key));
            if known.is_some_and(|known| known != key) {
                *known = None;
            }
        }
    }
    full.into_iter().filter_map(|(part, key)| Some((part, key?))).collect()
}

/// Returns the key that spellings of a name have in common: its words in lower case.
fn key_of(name: &str) -> Vec<String> {
    let words = clew_text::words(name).filter_map(|span| span.of(name));
    let key: Vec<String> = words.map(str::to_lowercase).collect();
    if key.is_empty() { vec![name.to_owned()] } else { key }
}

/// Returns the kind that most mentions suggest, ignoring those that suggest none.
fn prevailing(kinds: &[EntityKind]) -> EntityKind {
    let count = |kind: EntityKind| kinds.iter().filter(|other| **other == kind).count();
    let telling =
        [EntityKind::Person, EntityKind::Organisation, EntityKind::Place, EntityKind::Time];
    // Ties go to the first.
    let best = telling.into_iter().rev().max_by_key(|kind| count(*kind));
    best.filter(|kind| count(*kind) > 0).unwrap_or(EntityKind::Other)
}
