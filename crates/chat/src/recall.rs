//! What a memory of conversations holds of a question.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use clew_core::{
    Cost, DocumentId, Documents, Error, Evidence, Filter, Query, Retriever, ShardIndex, TimeRange,
    Timestamp, WholeDocument,
};

use crate::time::{Moment, asked_about, closeness};
use crate::{Address, Place, Role, Smoothing, Turn, TurnId, rounds, smoothed};

/// Turns that a search finds for each item that is wanted, of which several may be of one round, and at least:
/// smoothing knows neighbours that were found.
const HITS_PER_ITEM: usize = 3;
const MIN_HITS: usize = 60;
/// Turns before and after one that is found among which those of its round are looked for.
const REACH: u32 = 6;
/// What a turn's score gains, as a share of it, if it was said at the time that the question asks about. Little,
/// since users often tell of something days after it happened.
const TIME_BOOST: f32 = 0.1;
/// Most turns of a session that are told.
const MAX_SESSION: usize = 1_000;

/// What is recalled as one (LongMemEval, section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// A turn.
    Turn,
    /// What a user said with what an assistant replied; of other conversations a turn.
    #[default]
    Round,
    /// All of a session.
    Session,
}

/// What is made of the time that a question asks about (LongMemEval, section 5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeUse {
    /// What was said then comes before what was not.
    #[default]
    Boost,
    /// Only what was said then is found.
    Filter,
    /// Nothing.
    Ignore,
}

/// What is to be recalled.
#[derive(Clone, Debug)]
pub struct Recall {
    /// The question.
    pub question: String,
    /// When it is asked, if that is known.
    pub asked_at: Option<Timestamp>,
    /// What may be found, such as [`crate::user_filter`].
    pub filter: Filter,
    /// Most items.
    pub k: usize,
    /// What an item is.
    pub value: Value,
    /// What is made of the question's time.
    pub time: TimeUse,
}

/// Something that was recalled.
#[derive(Clone, Debug)]
pub struct Item {
    /// The session that it is of; empty for a document that is no turn.
    pub session: String,
    /// Its turns, in order; none of a document that is no turn.
    pub turns: Vec<Turn>,
    /// Numbers of those that the search found.
    pub found: Vec<u32>,
    /// How well it fits; comparable within one recall.
    pub score: f32,
    /// Its texts, in order, with the score of the item.
    pub passages: Vec<Evidence>,
}

/// What was recalled.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// The items, best first.
    pub items: Vec<Item>,
    /// The time that the question was understood to ask about.
    pub range: Option<TimeRange>,
    /// What the search found, best first.
    pub hits: Vec<Evidence>,
    /// Shards that did not answer.
    pub shards_missing: Vec<ShardIndex>,
    /// What it cost.
    pub cost: Cost,
}

/// Searches turns, and completes what is found to rounds or sessions.
///
/// # Errors
/// Those of the retriever and of the documents.
pub async fn recall(
    retriever: &dyn Retriever,
    documents: &dyn Documents,
    asked: &Recall,
    deadline: Instant,
) -> Result<Recalled, Error> {
    let mut query = Query::new(asked.question.clone(), (asked.k * HITS_PER_ITEM).max(MIN_HITS));
    query.filter = asked.filter.clone();
    let range = range(asked)?;
    if let (Some(range), TimeUse::Filter) = (range, asked.time) {
        query.filter.event_time = range;
    }
    let mut found = retriever.retrieve(&query, deadline).await?;
    if let (Some(range), TimeUse::Boost) = (range, asked.time) {
        for hit in &mut found.evidence {
            let closeness = hit.event_time.map_or(0.0, |time| closeness(range, time));
            hit.score *= 1.0 + TIME_BOOST * closeness;
        }
    }
    let items = completed(documents, &found.evidence, asked.value, deadline).await?;
    Ok(Recalled {
        items: best(items, asked.k),
        range,
        hits: found.evidence,
        shards_missing: found.shards_missing,
        cost: found.cost,
    })
}

/// The time that is asked about, if any is and it matters.
fn range(asked: &Recall) -> Result<Option<TimeRange>, Error> {
    match asked.asked_at {
        Some(time) if asked.time != TimeUse::Ignore => {
            Ok(asked_about(&asked.question, Moment::try_new(time, 0)?))
        }
        _ => Ok(None),
    }
}

/// Items by score.
fn best(mut items: Vec<Item>, k: usize) -> Vec<Item> {
    // Stable: among equals what was found first stays first.
    items.sort_by(|a, b| b.score.total_cmp(&a.score));
    items.truncate(k);
    items
}

/// What is no turn, as an item by itself.
fn alone(hit: &Evidence) -> Item {
    Item {
        session: String::new(),
        turns: Vec::new(),
        found: Vec::new(),
        score: hit.score,
        passages: vec![hit.clone()],
    }
}

/// Whose session, and which.
type Session = (String, DocumentId);

/// The turns, rounds or sessions of what was found. What is no turn is an item by itself.
async fn completed(
    documents: &dyn Documents,
    hits: &[Evidence],
    value: Value,
    deadline: Instant,
) -> Result<Vec<Item>, Error> {
    let mut items: Vec<Item> = Vec::new();
    let mut scores: BTreeMap<Session, BTreeMap<u32, f32>> = BTreeMap::new();
    for hit in hits {
        match Address::of(&hit.document_id) {
            None => items.push(alone(hit)),
            Some(Address { user, turn: TurnId { session, number } }) => {
                let score = scores.entry((user, session)).or_default().entry(number);
                let score = score.or_insert(hit.score);
                *score = score.max(hit.score);
            }
        }
    }
    let sessions = turns_of(documents, &scores, value, deadline).await?;
    let is_of_several = |kept: &Kept| kept.iter().all(|(turn, _)| turn.role == Role::Other);
    if items.is_empty() && sessions.values().all(is_of_several) {
        smooth(&mut scores);
    }
    for (session, scores) in scores {
        let Some(kept) = sessions.get(&session) else { continue };
        for group in groups(kept, value) {
            let numbers = group.iter().map(|(turn, _)| turn.id.number);
            let found: Vec<u32> = numbers.filter(|number| scores.contains_key(number)).collect();
            let best = found.iter().filter_map(|number| scores.get(number)).copied();
            let Some(score) = best.max_by(f32::total_cmp) else { continue };
            let passages = group.iter().map(|(_, text)| Evidence { score, ..text.clone() });
            items.push(Item {
                session: session.1.to_string(),
                turns: group.iter().map(|(turn, _)| turn.clone()).collect(),
                found,
                score,
                passages: passages.collect(),
            });
        }
    }
    Ok(items)
}

/// Lets what is said beside a match count, among several people; rounds of an assistant are other matters than
/// their neighbours (see [`Smoothing`]).
fn smooth(scores: &mut BTreeMap<Session, BTreeMap<u32, f32>>) {
    let names: BTreeMap<&Session, DocumentId> = scores
        .keys()
        .filter_map(|session| {
            Some((session, Address::prefix(&session.0, Some(session.1.as_str())).parse().ok()?))
        })
        .collect();
    let mut found: Vec<(Place<'_>, f32)> = Vec::new();
    for (session, scores) in &*scores {
        let Some(name) = names.get(session) else { continue };
        let places = scores
            .iter()
            .map(|(number, score)| (Place { session: name, number: *number as usize }, *score));
        found.extend(places);
    }
    let mut smoothed = smoothed(&found, &Smoothing::TURNS).into_iter();
    for score in scores.values_mut().flat_map(BTreeMap::values_mut) {
        if let Some(better) = smoothed.next() {
            *score = better;
        }
    }
}

/// The turns of a session, in order, as values.
fn groups(kept: &Kept, value: Value) -> Vec<&[(Turn, Evidence)]> {
    match value {
        Value::Turn => kept.chunks(1).collect(),
        Value::Session => vec![kept],
        Value::Round => {
            let turns = kept.iter().map(|(turn, _)| turn.clone());
            let mut rest = kept.as_slice();
            let mut groups = Vec::new();
            for round in rounds(turns) {
                let (group, others) = rest.split_at(round.turns.len().min(rest.len()));
                groups.push(group);
                rest = others;
            }
            groups
        }
    }
}

type Kept = Vec<(Turn, Evidence)>;

/// The turns around those that were found, or all of their sessions, in order.
async fn turns_of(
    documents: &dyn Documents,
    found: &BTreeMap<Session, BTreeMap<u32, f32>>,
    value: Value,
    deadline: Instant,
) -> Result<BTreeMap<Session, Kept>, Error> {
    let reach = if value == Value::Turn { 0 } else { REACH };
    let mut ids: BTreeSet<DocumentId> = BTreeSet::new();
    for ((user, session), numbers) in found {
        if value == Value::Session {
            let prefix = Address::prefix(user, Some(session.as_str()));
            ids.extend(documents.ids(&prefix, None, MAX_SESSION, deadline).await?);
            continue;
        }
        for number in numbers.keys() {
            for number in number.saturating_sub(reach)..=number.saturating_add(reach) {
                let turn = TurnId { session: session.clone(), number };
                ids.insert(Address { user: user.clone(), turn }.document_id()?);
            }
        }
    }
    let ids: Vec<DocumentId> = ids.into_iter().collect();
    let mut sessions: BTreeMap<Session, Kept> = BTreeMap::new();
    for WholeDocument { document, passage } in documents.documents(&ids, deadline).await? {
        if let Some((user, turn)) = Turn::of(&document) {
            let session = (user, turn.id.session.clone());
            sessions.entry(session).or_default().push((turn, passage));
        }
    }
    for kept in sessions.values_mut() {
        kept.sort_by_key(|(turn, _)| turn.id.number);
    }
    Ok(sessions)
}
