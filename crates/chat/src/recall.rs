//! Recall: finds what a memory of conversations holds about a question.

mod history;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::slice;
use std::time::Instant;

use clew_core::fusion::fuse_ranks;
use clew_core::{
    Cost, DocumentId, Documents, Error, Evidence, History, Item, KeyMerging, Partial, Query,
    Recall, Recalled, Retrieved, Retriever, TimeRange, TimeUse, Timestamp, Turn, TurnAddress,
    TurnId, Update, Value,
};

use crate::key::{of_key, stated, summary};
use crate::time::{Moment, asked_about, closeness, mentions};
use crate::{Smoothing, UnitPosition, rounds, smoothed};

use history::{Said, latest_first, said};
use read::{Kept, Read, Session};

/// Number of turns to search for per requested item, because several may belong to one round, and
/// the minimum number. Smoothing uses only neighbours that were found.
const HITS_PER_ITEM: usize = 3;
const MIN_HITS: usize = 200;
/// Number of hits of a second search if the first found too few turns: with several keys, a turn is
/// hit several times.
const MORE_HITS: usize = 1000;
/// Number of turns to complete per requested item. Reading turns is the largest cost of recall.
const TURNS_PER_ITEM: usize = 2;
/// Turns to read with each turn that is found. They usually contain its round and the beginning of
/// the next.
const AROUND: RangeInclusive<i32> = -1..=2;
/// Share by which the score of a turn rises if it was said at the time that the question asks
/// about. It is small, because users often tell of something days after it happened.
const TIME_BOOST: f32 = 0.1;

/// Returns whether the items of a value are rounds.
fn is_of_rounds(value: Value) -> bool {
    matches!(value, Value::Round | Value::Facts)
}

/// Searches for turns and completes them to rounds or sessions.
///
/// # Errors
/// Returns the errors of the retriever and of the documents, and
/// [`clew_core::ErrorKind::InvalidInput`] if the question's time is outside the years -9999 to
/// 9999.
pub async fn recall(
    retriever: &dyn Retriever,
    documents: &dyn Documents,
    asked: &Recall,
    deadline: Instant,
) -> Result<Recalled, Error> {
    let range = range(asked)?;
    let (mut rankings, mut cost, mut missing) = (Vec::new(), Cost::default(), Vec::new());
    let mut keys: Vec<Option<&str>> = asked.keys.iter().map(|key| Some(key.as_str())).collect();
    if keys.is_empty() {
        keys.push(None);
    }
    let queries: Vec<Query> =
        keys.into_iter().map(|key| query(asked, key)).collect::<Result<_, _>>()?;
    let first = retriever.retrieve_all(&queries, deadline).await?;
    for (query, first) in queries.into_iter().zip(first) {
        let found = search(retriever, asked, query, first, range, deadline).await?;
        cost += found.cost;
        missing.extend(found.shards_missing);
        rankings.push(found.evidence);
    }
    let hits = merged(rankings, asked.merging);
    let completed = completed(documents, &hits, asked, deadline).await?;
    let Partial { found: (mut items, said), shards_missing } = completed.missing(missing);
    // The sort is stable: among equal scores, the item that was found first stays first.
    items.sort_by(|a, b| b.score.total_cmp(&a.score));
    match asked.history {
        History::Latest => items = latest_first(items, &said, &asked.question, asked.k),
        History::All => items.truncate(asked.k),
    }
    Ok(Recalled { items, range, hits, shards_missing, cost })
}

/// Returns the search by one key, or by all of them.
fn query(asked: &Recall, key: Option<&str>) -> Result<Query, Error> {
    let mut query = Query::new(asked.question.clone(), (asked.k * HITS_PER_ITEM).max(MIN_HITS));
    query.filter = asked.filter.clone();
    query.filter.attributes.extend(key.map(of_key).transpose()?);
    Ok(query)
}

/// Searches for more than `found` if that has too few turns, and applies the time that the question
/// asks about.
async fn search(
    retriever: &dyn Retriever,
    asked: &Recall,
    mut query: Query,
    mut found: Retrieved,
    range: Option<TimeRange>,
    deadline: Instant,
) -> Result<Retrieved, Error> {
    let turns: HashSet<&DocumentId> = found.evidence.iter().map(|hit| &hit.document_id).collect();
    if turns.len() < asked.k && found.evidence.len() == query.k {
        query.k = MORE_HITS;
        let cost = found.cost;
        found = retriever.retrieve(&query, deadline).await?;
        found.cost += cost;
    }
    match (range, asked.time) {
        (Some(range), TimeUse::Boost) => {
            for hit in &mut found.evidence {
                hit.score = match tells_of(hit, range) {
                    true => raised(hit.score, 1.0),
                    false => boosted(hit.score, range, hit.event_time),
                };
            }
        }
        (Some(range), TimeUse::Filter) => {
            found.evidence.retain(|hit| tells_of(hit, range));
            query.filter.event_time = asked.filter.event_time.intersection(&range);
            let said_then = retriever.retrieve(&query, deadline).await?;
            found.cost += said_then.cost;
            found.shards_missing.extend(said_then.shards_missing);
            for hit in said_then.evidence {
                if found.evidence.iter().all(|known| known.chunk_id != hit.chunk_id) {
                    found.evidence.push(hit);
                }
            }
        }
        (None, _) | (Some(_), TimeUse::Ignore) => {}
    }
    Ok(found)
}

/// Merges the results of several searches into one ranking, best first, by the turns' ranks in
/// each. The scores of different searches are not comparable, because each search combines its
/// vector and text scores according to its own results.
fn merged(mut rankings: Vec<Vec<Evidence>>, merging: KeyMerging) -> Vec<Evidence> {
    if rankings.len() == 1 {
        return rankings.pop().unwrap_or_default();
    }
    for ranking in &mut rankings {
        ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
    let turns: Vec<Vec<DocumentId>> = rankings.iter().map(|ranking| turns_of(ranking)).collect();
    let ranked = match merging {
        KeyMerging::Best => {
            turns.iter().flat_map(|ranking| fuse_ranks(slice::from_ref(ranking))).collect()
        }
        KeyMerging::Rank => fuse_ranks(&turns),
    };
    let mut scores: BTreeMap<DocumentId, f32> = BTreeMap::new();
    for (turn, score) in ranked {
        let best = scores.entry(turn).or_insert(score);
        *best = best.max(score);
    }
    let scored = |hit: Evidence| {
        let score = scores.get(&hit.document_id).copied().unwrap_or_default();
        Evidence { score, ..hit }
    };
    let mut hits: Vec<Evidence> = rankings.into_iter().flatten().map(scored).collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits
}

/// Returns the turns of a ranking, each once.
fn turns_of(ranking: &[Evidence]) -> Vec<DocumentId> {
    let mut known = BTreeSet::new();
    let mut turns: Vec<DocumentId> = ranking.iter().map(|hit| hit.document_id.clone()).collect();
    turns.retain(|turn| known.insert(turn.clone()));
    turns
}

/// Returns the score of something that was said at `time`, raised by up to a tenth of it. The
/// increase depends on how near that time is to the `range` that a question asks about
/// ([`closeness`]). A score that is not negative never falls.
pub fn boosted(score: f32, range: TimeRange, time: Option<Timestamp>) -> f32 {
    raised(score, time.map_or(0.0, |time| closeness(range, time)))
}

fn raised(score: f32, closeness: f32) -> f32 {
    score * (1.0 + TIME_BOOST * closeness)
}

/// Returns whether a hit mentions a time in `range`, whenever it was said: "I saw her last Friday".
fn tells_of(hit: &Evidence, range: TimeRange) -> bool {
    let Some(told_at) = hit.event_time.and_then(|time| Moment::try_new(time, 0).ok()) else {
        return false;
    };
    mentions(&hit.text, told_at).iter().any(|mention| mention.range.overlaps(&range))
}

/// Returns the time that the question asks about, if there is one and it is used.
fn range(asked: &Recall) -> Result<Option<TimeRange>, Error> {
    match asked.asked_at {
        _ if asked.time == TimeUse::Ignore => Ok(None),
        _ if asked.range.is_some() => Ok(asked.range),
        Some(time) => Ok(asked_about(&asked.question, Moment::try_new(time, 0)?)),
        None => Ok(None),
    }
}

/// Returns a hit that is not a turn as an item by itself.
fn alone(hit: &Evidence) -> Item {
    Item {
        session: String::new(),
        turns: Vec::new(),
        found: Vec::new(),
        score: hit.score,
        passages: vec![hit.clone()],
        texts: Vec::new(),
        superseded: Vec::new(),
    }
}

/// The scores of the turns that were found.
type Scores = BTreeMap<Session, BTreeMap<u32, f32>>;

/// Completes hits to turns, rounds or sessions, and finds the statements in them. A hit that is not
/// a turn is an item by itself.
async fn completed(
    documents: &dyn Documents,
    hits: &[Evidence],
    asked: &Recall,
    deadline: Instant,
) -> Result<Partial<(Vec<Item>, Said)>, Error> {
    let mut items: Vec<Item> = Vec::new();
    let mut scores = Scores::new();
    for hit in hits {
        match TurnAddress::of(&hit.document_id) {
            None => items.push(alone(hit)),
            Some(TurnAddress { user, turn: TurnId { session, number } }) => {
                let score = scores.entry((user, session)).or_default().entry(number);
                let score = score.or_insert(hit.score);
                *score = score.max(hit.score);
            }
        }
    }
    let most = asked.k * TURNS_PER_ITEM;
    let mut read = Read { documents, deadline, turns: BTreeMap::new(), missing: Vec::new() };
    let around = if is_of_rounds(asked.value) { AROUND } else { 0..=0 };
    read.read_around(best_places(&scores, most), &around).await?;
    if items.is_empty() && read.are_of_several() {
        smooth(&mut scores);
        read.read_around(best_places(&scores, most), &around).await?;
    }
    let mut chosen = best_places(&scores, most);
    let (said, newer) = said(hits, &mut read, &chosen, asked.k).await?;
    chosen.extend(newer);
    match asked.value {
        Value::Turn => {}
        Value::Round | Value::Facts => read.complete_rounds(&chosen).await?,
        Value::Session | Value::Summary => read.read_sessions(&chosen).await?,
    }
    let mut by_session: BTreeMap<Session, BTreeSet<u32>> = BTreeMap::new();
    for (session, number) in chosen {
        by_session.entry(session).or_default().insert(number);
    }
    for (session, chosen) in by_session {
        let Some(scores) = scores.get(&session) else { continue };
        let kept = read.of(&session);
        for group in groups(&kept, asked.value) {
            let numbers = || group.iter().map(|(turn, _)| turn.id.number);
            // Turns that were read only to find where a round ends are not items, even if the
            // search found them: they may be an incomplete part of their round.
            if !numbers().any(|number| chosen.contains(&number)) {
                continue;
            }
            let found: Vec<u32> = numbers().filter(|number| scores.contains_key(number)).collect();
            let best = found.iter().filter_map(|number| scores.get(number)).copied();
            let Some(score) = best.max_by(f32::total_cmp) else { continue };
            let texts = texts(group, asked.value);
            if asked.value == Value::Facts && texts.is_empty() {
                continue;
            }
            let passages = group.iter().map(|(_, text)| Evidence { score, ..text.clone() });
            let updates = said.updates.get(&session.0).into_iter().flatten();
            let is_here =
                |update: &&Update| group.iter().any(|(turn, _)| turn.id == update.older.turn);
            items.push(Item {
                superseded: updates.filter(is_here).cloned().collect(),
                session: session.1.to_string(),
                turns: group.iter().map(|(turn, _)| turn.clone()).collect(),
                found,
                score,
                passages: passages.collect(),
                texts,
            });
        }
    }
    Ok(Partial::whole((items, said)).missing(read.missing))
}

/// Returns the places with the best scores, best first.
fn best_places(scores: &Scores, most: usize) -> Vec<(Session, u32)> {
    let all = scores.iter().flat_map(|(session, scores)| {
        scores.iter().map(move |(number, score)| (*score, session, *number))
    });
    let mut all: Vec<(f32, &Session, u32)> = all.collect();
    all.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    all.truncate(most);
    all.into_iter().map(|(_, session, number)| (session.clone(), number)).collect()
}

/// Smooths the scores of turns among several people, so that neighbours of a match count.
/// Neighbouring rounds with an assistant are about other matters (see [`Smoothing`]).
fn smooth(scores: &mut Scores) {
    let name =
        |(user, session): &Session| TurnAddress::prefix(user, Some(session.as_str())).parse();
    let names: Vec<Option<DocumentId>> = scores.keys().map(|session| name(session).ok()).collect();
    let mut found: Vec<(UnitPosition<'_>, f32)> = Vec::new();
    for (name, scores) in names.iter().zip(scores.values()) {
        let Some(session) = name else { continue };
        let place = |number: &u32| UnitPosition { session, number: *number as usize };
        found.extend(scores.iter().map(|(number, score)| (place(number), *score)));
    }
    let mut smoothed = smoothed(&found, &Smoothing::TURNS).into_iter();
    let named = names.iter().zip(scores.values_mut()).filter(|(name, _)| name.is_some());
    for score in named.flat_map(|(_, scores)| scores.values_mut()) {
        if let Some(better) = smoothed.next() {
            *score = better;
        }
    }
}

/// Groups the turns of a session, in order, into values.
fn groups(kept: &Kept, value: Value) -> Vec<&[(Turn, Evidence)]> {
    match value {
        Value::Turn => kept.chunks(1).collect(),
        Value::Session | Value::Summary => vec![kept],
        Value::Round | Value::Facts => {
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

/// Returns the texts to read instead of the turns of `group`.
fn texts(group: &[(Turn, Evidence)], value: Value) -> Vec<String> {
    match value {
        Value::Turn | Value::Round | Value::Session => Vec::new(),
        Value::Facts => {
            let stated = group.iter().map(|(turn, text)| stated(turn, &text.title));
            stated.filter(|stated| !stated.is_empty()).map(str::to_owned).collect()
        }
        Value::Summary => {
            let turns: Vec<Turn> = group.iter().map(|(turn, _)| turn.clone()).collect();
            Some(summary(&turns)).filter(|summary| !summary.is_empty()).into_iter().collect()
        }
    }
}
