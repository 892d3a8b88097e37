//! What a memory of conversations holds of a question.

mod history;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::slice;
use std::time::Instant;

use clew_core::fusion::fuse_ranks;
use clew_core::{
    Cost, DocumentId, Documents, Error, Evidence, Filter, History, Merging, Partial, Query,
    Retrieved, Retriever, ShardIndex, TimeRange, TimeUse, Timestamp, Value, WholeDocument,
};

use crate::kept::of_key;
use crate::key::{stated, summary};
use crate::time::{Moment, asked_about, closeness, mentions};
use crate::{Address, Place, Role, Smoothing, Turn, TurnId, Update, rounds, smoothed};

use history::{Said, latest_first, said};

/// Turns that a search finds for each item that is wanted, of which several may be of one round, and at least:
/// smoothing knows neighbours that were found.
const HITS_PER_ITEM: usize = 3;
const MIN_HITS: usize = 200;
/// Hits of one search where those are of too few turns: by several keys a turn is hit several times.
const MORE_HITS: usize = 1000;
/// Turns of those that are completed for each item that is wanted: reading turns is most of what recalling costs.
const TURNS_PER_ITEM: usize = 2;
/// Turns that are read with one that is found: mostly they hold its round, and where the next begins.
const AROUND: RangeInclusive<i32> = -1..=2;
/// Turns before and after those among which others of its round are looked for.
const REACH: u32 = 8;
/// What a turn's score gains, as a share of it, if it was said at the time that the question asks about. Little,
/// since users often tell of something days after it happened.
const TIME_BOOST: f32 = 0.1;
/// Most turns of a session that are told.
const MAX_SESSION: usize = 1_000;

/// Whether a value is made of rounds.
fn is_of_rounds(value: Value) -> bool {
    matches!(value, Value::Round | Value::Facts)
}

/// What is to be recalled.
#[derive(Clone, Debug)]
pub struct Recall {
    /// The question.
    pub question: String,
    /// When it is asked, if that is known.
    pub asked_at: Option<Timestamp>,
    /// What may be found, such as [`crate::turn_filter`].
    pub filter: Filter,
    /// Most items.
    pub k: usize,
    /// By which keys of the corpus turns are to be found, each by itself ([`crate::key_chunks`]); empty: by whatever
    /// there is.
    pub keys: Vec<String>,
    /// How what several keys find comes together.
    pub merging: Merging,
    /// What an item is.
    pub value: Value,
    /// What is made of the question's time.
    pub time: TimeUse,
    /// That time, if somebody has inferred it already; otherwise rules do ([`asked_about`]).
    pub range: Option<TimeRange>,
    /// What becomes of statements that later ones supersede.
    pub history: History,
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
    /// How well it fits; comparable within one recall. With [`History::Latest`] what is superseded has a lower one than
    /// what supersedes it.
    pub score: f32,
    /// Its texts, in order, with the score of the item.
    pub passages: Vec<Evidence>,
    /// What is to be read instead of its turns: of [`Value::Facts`] what is stated in each, of [`Value::Summary`] the
    /// summary; nothing of others. Made of the turns that are there now, so that it never outlives them.
    pub texts: Vec<String>,
    /// Statements of its turns, as far as they were found, that later ones which were found supersede, in order of time.
    pub superseded: Vec<Update>,
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
    let range = range(asked)?;
    let (mut rankings, mut cost, mut missing) = (Vec::new(), Cost::default(), Vec::new());
    let mut keys: Vec<Option<&str>> = asked.keys.iter().map(|key| Some(key.as_str())).collect();
    if keys.is_empty() {
        keys.push(None);
    }
    for key in keys {
        let found = search(retriever, asked, key, range, deadline).await?;
        cost += found.cost;
        missing.extend(found.shards_missing);
        rankings.push(found.evidence);
    }
    let hits = merged(rankings, asked.merging);
    let completed = completed(documents, &hits, asked, deadline).await?;
    let Partial { found: (mut items, said), shards_missing } = completed.missing(missing);
    // Stable: among equals what was found first stays first.
    items.sort_by(|a, b| b.score.total_cmp(&a.score));
    match asked.history {
        History::Latest => items = latest_first(items, &said, &asked.question, asked.k),
        History::All => items.truncate(asked.k),
    }
    Ok(Recalled { items, range, hits, shards_missing, cost })
}

/// What a search by a key, or by all of them, finds, with what the time brings that the question asks about.
async fn search(
    retriever: &dyn Retriever,
    asked: &Recall,
    key: Option<&str>,
    range: Option<TimeRange>,
    deadline: Instant,
) -> Result<Retrieved, Error> {
    let mut query = Query::new(asked.question.clone(), (asked.k * HITS_PER_ITEM).max(MIN_HITS));
    query.filter = asked.filter.clone();
    query.filter.attributes.extend(key.map(of_key).transpose()?);
    let mut found = retriever.retrieve(&query, deadline).await?;
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

/// What several searches found as one ranking, best first: turns by their places in each. Scores of searches cannot be
/// compared, since each decides by what it finds how those of vectors and of words come together.
fn merged(mut rankings: Vec<Vec<Evidence>>, merging: Merging) -> Vec<Evidence> {
    if rankings.len() == 1 {
        return rankings.pop().unwrap_or_default();
    }
    for ranking in &mut rankings {
        ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
    let turns: Vec<Vec<DocumentId>> = rankings.iter().map(|ranking| turns_of(ranking)).collect();
    let ranked = match merging {
        Merging::Best => {
            turns.iter().flat_map(|ranking| fuse_ranks(slice::from_ref(ranking))).collect()
        }
        Merging::Rank => fuse_ranks(&turns),
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

/// The turns of a ranking, each once.
fn turns_of(ranking: &[Evidence]) -> Vec<DocumentId> {
    let mut known = BTreeSet::new();
    let mut turns: Vec<DocumentId> = ranking.iter().map(|hit| hit.document_id.clone()).collect();
    turns.retain(|turn| known.insert(turn.clone()));
    turns
}

/// The score of something told at `time`, raised by up to a tenth of it: the nearer it was told to the `range`
/// that a question asks about, the more ([`closeness`]). It never falls below `score`, if that is not negative.
pub fn boosted(score: f32, range: TimeRange, time: Option<Timestamp>) -> f32 {
    raised(score, time.map_or(0.0, |time| closeness(range, time)))
}

fn raised(score: f32, closeness: f32) -> f32 {
    score * (1.0 + TIME_BOOST * closeness)
}

/// Whether something that was found tells of a time in `range`, whenever it was said: "I saw her last Friday".
fn tells_of(hit: &Evidence, range: TimeRange) -> bool {
    let Some(told_at) = hit.event_time.and_then(|time| Moment::try_new(time, 0).ok()) else {
        return false;
    };
    mentions(&hit.text, told_at).iter().any(|mention| mention.range.overlaps(&range))
}

/// The time that is asked about, if any is and it matters.
fn range(asked: &Recall) -> Result<Option<TimeRange>, Error> {
    match asked.asked_at {
        _ if asked.time == TimeUse::Ignore => Ok(None),
        _ if asked.range.is_some() => Ok(asked.range),
        Some(time) => Ok(asked_about(&asked.question, Moment::try_new(time, 0)?)),
        None => Ok(None),
    }
}

/// What is no turn, as an item by itself.
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

/// Whose session, and which.
type Session = (String, DocumentId);
/// The scores of what was found.
type Scores = BTreeMap<Session, BTreeMap<u32, f32>>;

/// The turns, rounds or sessions of what was found, and what is said in it. What is no turn is an item by itself.
async fn completed(
    documents: &dyn Documents,
    hits: &[Evidence],
    asked: &Recall,
    deadline: Instant,
) -> Result<Partial<(Vec<Item>, Said)>, Error> {
    let mut items: Vec<Item> = Vec::new();
    let mut scores = Scores::new();
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
            // What was read to see where a round ends is no item, found or not: it may be a part of its round.
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

/// The places of the best scores, best first.
fn best_places(scores: &Scores, most: usize) -> Vec<(Session, u32)> {
    let all = scores.iter().flat_map(|(session, scores)| {
        scores.iter().map(move |(number, score)| (*score, session, *number))
    });
    let mut all: Vec<(f32, &Session, u32)> = all.collect();
    all.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    all.truncate(most);
    all.into_iter().map(|(_, session, number)| (session.clone(), number)).collect()
}

/// Lets what is said beside a match count, among several people; rounds of an assistant are other matters than
/// their neighbours (see [`Smoothing`]).
fn smooth(scores: &mut Scores) {
    let name = |(user, session): &Session| Address::prefix(user, Some(session.as_str())).parse();
    let names: Vec<Option<DocumentId>> = scores.keys().map(|session| name(session).ok()).collect();
    let mut found: Vec<(Place<'_>, f32)> = Vec::new();
    for (name, scores) in names.iter().zip(scores.values()) {
        let Some(session) = name else { continue };
        let place = |number: &u32| Place { session, number: *number as usize };
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

/// The turns that were read so far; `None` where there is none, or its shard does not answer.
struct Read<'a> {
    documents: &'a dyn Documents,
    deadline: Instant,
    turns: BTreeMap<(Session, u32), Option<(Turn, Evidence)>>,
    /// Shards that did not answer.
    missing: Vec<ShardIndex>,
}

impl Read<'_> {
    /// Reads turns that are not known yet, with those that stand around them.
    async fn read_around(
        &mut self,
        places: Vec<(Session, u32)>,
        around: &RangeInclusive<i32>,
    ) -> Result<(), Error> {
        let at = |(session, number): (Session, u32)| {
            let numbers = around.clone().filter_map(move |step| number.checked_add_signed(step));
            numbers.map(move |number| (session.clone(), number))
        };
        self.read(places.into_iter().flat_map(at).collect()).await
    }

    /// Reads turns that are not known yet.
    async fn read(&mut self, places: Vec<(Session, u32)>) -> Result<(), Error> {
        let mut ids = Vec::new();
        for (session, number) in places {
            if self.turns.contains_key(&(session.clone(), number)) {
                continue;
            }
            let turn = TurnId { session: session.1.clone(), number };
            ids.push(Address { user: session.0.clone(), turn }.document_id()?);
            self.turns.insert((session, number), None);
        }
        if ids.is_empty() { Ok(()) } else { self.read_documents(&ids).await }
    }

    async fn read_documents(&mut self, ids: &[DocumentId]) -> Result<(), Error> {
        let read = self.documents.documents(ids, self.deadline).await?;
        self.missing.extend(read.shards_missing);
        for WholeDocument { document, passage } in read.found {
            if let Some((user, turn)) = Turn::of(&document) {
                let place = ((user, turn.id.session.clone()), turn.id.number);
                self.turns.insert(place, Some((turn, passage)));
            }
        }
        Ok(())
    }

    /// Reads all turns of the sessions of places.
    async fn read_sessions(&mut self, places: &[(Session, u32)]) -> Result<(), Error> {
        let sessions: BTreeSet<&Session> = places.iter().map(|(session, _)| session).collect();
        for (user, session) in sessions {
            let prefix = Address::prefix(user, Some(session.as_str()));
            let ids = self.documents.ids(&prefix, None, MAX_SESSION, self.deadline).await?;
            self.missing.extend(ids.shards_missing);
            let ids = ids.found;
            self.read_documents(&ids).await?;
        }
        Ok(())
    }

    /// Reads what belongs to the rounds of places and was not read around them.
    async fn complete_rounds(&mut self, places: &[(Session, u32)]) -> Result<(), Error> {
        let mut wanted: Vec<(Session, u32)> = Vec::new();
        for (session, number) in places {
            let before = self.before(session, *number).map(|at| at.saturating_sub(REACH - 1)..=at);
            let after = self.after(session, *number).map(|at| at..=at.saturating_add(REACH - 1));
            let unknown = before.into_iter().chain(after).flatten();
            wanted.extend(unknown.map(|number| (session.clone(), number)));
        }
        self.read(wanted).await
    }

    /// The nearest turn before `number` that its round may begin with and that is not known yet.
    fn before(&self, session: &Session, number: u32) -> Option<u32> {
        let mut at = number;
        // Turns may be missing in between: forgotten, or late.
        while self.role(session, at).is_none_or(|role| role == Role::Assistant) {
            at = at.checked_sub(1)?;
            if !self.turns.contains_key(&(session.clone(), at)) {
                return Some(at);
            }
        }
        None
    }

    /// The nearest turn after `number` that its round may go on with and that is not known yet.
    fn after(&self, session: &Session, number: u32) -> Option<u32> {
        if self.role(session, number)? == Role::Other {
            return None;
        }
        let mut at = number.checked_add(1)?;
        while self.turns.contains_key(&(session.clone(), at)) {
            if self.role(session, at).is_some_and(|role| role != Role::Assistant) {
                return None;
            }
            at = at.checked_add(1)?;
        }
        Some(at)
    }

    fn role(&self, session: &Session, number: u32) -> Option<Role> {
        self.turn(&(session.clone(), number)).map(|turn| turn.role)
    }

    fn turn(&self, (session, number): &(Session, u32)) -> Option<&Turn> {
        self.turns.get(&(session.clone(), *number))?.as_ref().map(|(turn, _)| turn)
    }

    /// All turns that were read.
    fn known(&self) -> impl Iterator<Item = &Turn> {
        self.turns.values().flatten().map(|(turn, _)| turn)
    }

    /// Whether all turns are of conversations of several people.
    fn are_of_several(&self) -> bool {
        self.known().all(|turn| turn.role == Role::Other)
    }

    /// The turns of a session, in order.
    fn of(&self, session: &Session) -> Kept {
        let all = (session.clone(), 0)..=(session.clone(), u32::MAX);
        self.turns.range(all).filter_map(|(_, turn)| turn.clone()).collect()
    }
}

type Kept = Vec<(Turn, Evidence)>;

/// The turns of a session, in order, as values.
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

/// What is read of `group` instead of its turns.
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
