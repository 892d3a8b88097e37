//! Open relations: the words between two entities of a sentence.

use clew_core::{EntityKind, Relation, Span};
use clew_text::one_line;

use crate::entity::Named;
use crate::word::Words;

/// Maximum number of words between two entities that still relate both.
const MAX_WORDS: usize = 12;
/// Maximum number of relations of one sentence. Two lists of ten entities would have a hundred.
const MAX_OF_SENTENCE: usize = 16;
/// Words that relate nothing by themselves.
const EMPTY: [&str; 9] = ["a", "an", "and", "but", "nor", "of", "or", "the", "to"];
/// Words that begin another clause, so that the entity before them is not its subject.
const CLAUSES: [&str; 9] =
    ["although", "and", "because", "but", "if", "so", "when", "whereas", "while"];
/// Words that begin an aside about the entity before them.
const ASIDES: [&str; 7] = ["a", "an", "that", "the", "which", "who", "whose"];

/// Entities of a list in a sentence. A statement about the list is about each of them.
struct Group {
    entities: Vec<usize>,
    span: Span,
    is_time: bool,
}

/// Returns the relations of a passage.
pub(crate) fn relations(words: &Words<'_>, named: &Named) -> Vec<Relation> {
    let mut relations = Vec::new();
    let mut mentions = named.mentions.iter().peekable();
    for sentence in &words.sentences {
        let mut of_sentence = Vec::new();
        while let Some(mention) = mentions.next_if(|(span, _)| span.start < sentence.span.end) {
            of_sentence.push(*mention);
        }
        let groups = groups(words.passage, named, &of_sentence);
        let before = relations.len();
        for (head, tail, text) in related(words.passage, &groups) {
            for (head, tail) in pairs(head, tail) {
                let room = relations.len() - before < MAX_OF_SENTENCE;
                if head != tail && room {
                    let (text, evidence) = (text.clone(), sentence.span);
                    relations.push(Relation { head, text, tail, evidence });
                }
            }
        }
    }
    relations
}

fn pairs<'g>(head: &'g Group, tail: &'g Group) -> impl Iterator<Item = (usize, usize)> + 'g {
    head.entities.iter().flat_map(|&head| tail.entities.iter().map(move |&tail| (head, tail)))
}

/// Groups the mentions of a sentence. Those of a list, such as "A, B and C", form one group.
fn groups(passage: &str, named: &Named, mentions: &[(Span, usize)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut has_comma = false;
    for &(span, entity) in mentions {
        let is_time = named.entities[entity].kind == EntityKind::Time;
        let alone = Group { entities: vec![entity], span, is_time };
        let Some(last) = groups.last_mut() else {
            groups.push(alone);
            continue;
        };
        let gap = passage[last.span.end..span.start].trim_matches(is_markup);
        let lists = match gap {
            "," => true,
            "and" | "or" | "&" => true,
            // Comma before the last item of a list. Without an earlier comma, another clause
            // begins.
            ", and" | ", or" => has_comma,
            _ => false,
        };
        if lists && !is_time && !last.is_time {
            has_comma |= gap == ",";
            last.entities.push(entity);
            last.span.end = span.end;
        } else {
            has_comma = false;
            groups.push(alone);
        }
    }
    groups
}

/// Returns which groups are related, and the words that relate them.
fn related<'g>(passage: &str, groups: &'g [Group]) -> Vec<(&'g Group, &'g Group, String)> {
    let mut related = Vec::new();
    let mut subject: Option<usize> = None;
    for (at, group) in groups.iter().enumerate() {
        let Some(head) = subject else {
            // A time can be the tail of a relation, but not its head.
            subject = (!group.is_time).then_some(at);
            continue;
        };
        let gap = &passage[groups[at - 1].span.end..group.span.start];
        if begins_clause(gap) {
            subject = (!group.is_time).then_some(at).or(subject);
            continue;
        }
        let from = |head: usize| words_between(&passage[groups[head].span.end..group.span.start]);
        let is_aside = at - 1 != head && !groups[at - 1].is_time && begins_aside(gap);
        let near = (!groups[at - 1].is_time).then_some(at - 1);
        let told = match is_aside {
            true => near.and_then(|near| Some((near, from(near)?))),
            false => from(head).map(|text| (head, text)),
        };
        // A group that is too far from the first entity may still be related to the last one.
        let told = told.or_else(|| near.and_then(|near| Some((near, from(near)?))));
        if let Some((head, text)) = told {
            related.push((&groups[head], group, text));
        }
    }
    related
}

/// Returns whether the text between two entities ends the statement about the first.
fn begins_clause(gap: &str) -> bool {
    let after_comma = gap.trim_start().strip_prefix(',').map(first_word);
    gap.contains([';', ':', '"', '“', '”', '‘', '(', ')', '!', '?', '—', '|'])
        // An apostrophe after a blank opens a quotation.
        || ["\n\n", " '", "\n'", "--"].iter().any(|sign| gap.contains(sign))
        || after_comma.is_some_and(|word| CLAUSES.contains(&word.as_str()))
}

fn begins_aside(gap: &str) -> bool {
    let after_comma = gap.trim_start().strip_prefix(',').map(first_word);
    after_comma.is_some_and(|word| ASIDES.contains(&word.as_str()))
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_lowercase()
}

/// Returns whether a character is white space or a sign that Markdown puts around names.
fn is_markup(c: char) -> bool {
    c.is_whitespace() || "`*_".contains(c)
}

/// Returns the words of a relation, on one line. Returns `None` if there are too many, or none that
/// relates.
fn words_between(gap: &str) -> Option<String> {
    let gap = ["'s", "’s", "'S", "’S"].iter().find_map(|end| gap.strip_prefix(end)).unwrap_or(gap);
    let text = gap.trim_matches(|c: char| is_markup(c) || ",.'’-–@".contains(c));
    // An article before the second entity belongs to that entity.
    let bare = [" the", " a", " an"].iter().find_map(|article| text.strip_suffix(article));
    let text = bare.unwrap_or(text).trim_end();
    let (mut words, mut relates) = (0, false);
    for span in clew_text::words(text) {
        words += 1;
        relates |= !EMPTY.contains(&text[span.start..span.end].to_lowercase().as_str());
    }
    (relates && words <= MAX_WORDS).then(|| one_line(text))
}
