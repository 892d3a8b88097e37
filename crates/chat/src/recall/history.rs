//! Superseded statements among what was found, and their ranking.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{
    Attributes, DocumentId, Error, Evidence, Item, SpeakerRole, Statement, Turn, TurnAddress,
    TurnId, Update,
};
use clew_text::{Term, is_grammar_word, terms};

use super::read::{Read, Session};
use crate::{statements, updates};

/// Maximum number of statements of the best hits that are compared. 100 hits have about 250.
const MAX_STATEMENTS: usize = 300;
/// Minimum share of matching terms, relative to the best statement of the item, for a statement to
/// count as relevant to the question.
const RELEVANT: f32 = 0.5;

/// The place of a turn: its user and session, and its number.
pub(super) type Spot = (Session, u32);

/// Statements in hits, by user, with their updates.
#[derive(Debug, Default)]
pub(super) struct Said {
    statements: BTreeMap<String, Vec<Statement>>,
    pub(super) updates: BTreeMap<String, Vec<Update>>,
}

impl Said {
    /// Extracts the statements from the texts of `hits`, which are chunks of turns or whole turns,
    /// and computes their updates. The speaker is known if the turn was read, and otherwise guessed
    /// from the beginning of its text.
    fn of(hits: &[Evidence], read: &Read<'_>) -> Self {
        let speakers = speakers(read);
        let mut said = Self::default();
        let mut count = 0;
        for hit in hits {
            let Some(TurnAddress { user, turn: id }) = TurnAddress::of(&hit.document_id) else {
                continue;
            };
            let known = read.turn(&((user.clone(), id.session.clone()), id.number));
            let turn = match known {
                Some(turn) => part(hit, turn),
                None => guessed(hit, id, &speakers),
            };
            let Some((turn, shift)) = turn else { continue };
            let told = said.statements.entry(user).or_default();
            for mut statement in statements(&turn) {
                statement.start += shift;
                count += 1;
                told.push(statement);
            }
            if count >= MAX_STATEMENTS {
                break;
            }
        }
        let of_user =
            |(user, told): (&String, &Vec<Statement>)| (user.clone(), updates(told.clone()));
        said.updates = said.statements.iter().map(of_user).collect();
        said
    }

    /// Returns the statements of a turn.
    fn in_turn(&self, user: &str, turn: &TurnId) -> impl Iterator<Item = &Statement> {
        let told = self.statements.get(user).into_iter().flatten();
        told.filter(move |statement| statement.turn == *turn)
    }

    /// Returns the turns that supersede a statement of these places, directly or through others.
    fn newer(&self, places: &[Spot]) -> BTreeSet<Spot> {
        let mut known: BTreeSet<Spot> = places.iter().cloned().collect();
        let mut newer = BTreeSet::new();
        for (user, updates) in &self.updates {
            let spot = |turn: &TurnId| ((user.clone(), turn.session.clone()), turn.number);
            // In order of time, so that each update is visited before the updates of its newer
            // statement.
            for update in updates {
                if known.contains(&spot(&update.older.turn))
                    && known.insert(spot(&update.newer.turn))
                {
                    newer.insert(spot(&update.newer.turn));
                }
            }
        }
        newer
    }
}

/// Finds the updates among the statements of `hits` and the turns that supersede a statement of
/// `chosen`. These turns are read, at most `most` of them.
pub(super) async fn said(
    hits: &[Evidence],
    read: &mut Read<'_>,
    chosen: &[Spot],
    most: usize,
) -> Result<(Said, Vec<Spot>), Error> {
    let mut said = Said::of(hits, read);
    let newer: Vec<Spot> = said.newer(chosen).into_iter().take(most).collect();
    if newer.iter().any(|spot| read.turn(spot).is_none()) {
        read.read(newer.clone()).await?;
        said = Said::of(hits, read);
    }
    for (user, updates) in &mut said.updates {
        let is_read = |turn: &TurnId| {
            read.turn(&((user.clone(), turn.session.clone()), turn.number)).is_some()
        };
        updates.retain(|update| is_read(&update.older.turn) && is_read(&update.newer.turn));
    }
    Ok((said, newer))
}

/// Returns the known beginnings of turns' texts with their speakers.
fn speakers(read: &Read<'_>) -> BTreeMap<String, (SpeakerRole, String)> {
    let mut speakers = BTreeMap::from([
        (SpeakerRole::User.heading(""), (SpeakerRole::User, String::new())),
        (SpeakerRole::Assistant.heading(""), (SpeakerRole::Assistant, String::new())),
    ]);
    for turn in read.known() {
        let heading = turn.role.heading(&turn.speaker);
        speakers.insert(heading, (turn.role, turn.speaker.clone()));
    }
    speakers
}

/// Returns the part of a turn that a hit contains, as a turn, and the position in the turn's text
/// where it begins.
fn part(hit: &Evidence, turn: &Turn) -> Option<(Turn, usize)> {
    let heading = turn.role.heading(&turn.speaker);
    let text = match hit.span.start {
        0 => hit.text.strip_prefix(&heading)?,
        _ => hit.text.as_str(),
    };
    let shift = hit.span.start.saturating_sub(heading.len());
    let (id, speaker) = (turn.id.clone(), turn.speaker.clone());
    let part = Turn { id, speaker, text: text.to_owned(), attributes: Attributes::new(), ..*turn };
    Some((part, shift))
}

/// Does the same for a turn that was not read. A hit from the middle of a turn is assumed to be the
/// user's. If an assistant said it, that is detected when the turn is read.
fn guessed(
    hit: &Evidence,
    id: TurnId,
    speakers: &BTreeMap<String, (SpeakerRole, String)>,
) -> Option<(Turn, usize)> {
    let (heading, role, speaker) = match hit.text.split_once(": ") {
        Some((name, _)) if hit.span.start == 0 => {
            let heading = format!("{name}: ");
            let known = speakers.get(&heading).cloned();
            let (role, speaker) = known.unwrap_or_else(|| (SpeakerRole::Other, name.to_owned()));
            (heading, role, speaker)
        }
        _ if hit.span.start == 0 => return None,
        // Among several people, the speaker cannot be guessed.
        _ if speakers.values().any(|(role, _)| *role == SpeakerRole::Other) => return None,
        _ => (String::new(), SpeakerRole::User, String::new()),
    };
    let text = hit.text.get(heading.len()..)?.to_owned();
    let (time, attributes) = (hit.event_time, Attributes::new());
    Some((Turn { id, speaker, role, text, time, attributes }, hit.span.start))
}

/// Orders items by their scores, with items that supersede others before these. Returns at most
/// `k`.
///
/// An item whose relevant statements are all superseded comes directly after the items that
/// supersede them, unless these rank higher anyway. If only some are superseded, the items that
/// supersede them come directly after it. Items keep their scores, except that the score of an item
/// that supersedes another is raised to at least that item's, and the superseded item's is lowered
/// below it.
pub(super) fn latest_first(items: Vec<Item>, said: &Said, question: &str, k: usize) -> Vec<Item> {
    let asked: BTreeSet<Term> = content(question).collect();
    let mut places: BTreeMap<DocumentId, usize> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        places.extend(item.passages.iter().map(|passage| (passage.document_id.clone(), at)));
    }
    let verdicts: Vec<Verdict> =
        (0..items.len()).map(|at| Verdict::of(at, &items, said, &asked, &places)).collect();
    let mut order =
        Order { verdicts: &verdicts, seen: vec![false; items.len()], order: Vec::new() };
    for at in 0..items.len().min(k) {
        order.take(at);
    }
    let order: Vec<usize> = order.order.into_iter().take(k).collect();
    let scores = scores(&order, &verdicts, &items);
    let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
    let taken = order.iter().zip(scores).filter_map(|(at, score)| {
        let mut item = items.get_mut(*at)?.take()?;
        item.score = score;
        item.passages.iter_mut().for_each(|passage| passage.score = score);
        Some(item)
    });
    taken.collect()
}

/// The other items that supersede relevant statements of an item.
struct Verdict {
    newer: BTreeSet<usize>,
    /// Whether they supersede all of these statements.
    is_superseded: bool,
}

impl Verdict {
    fn of(
        at: usize,
        items: &[Item],
        said: &Said,
        asked: &BTreeSet<Term>,
        places: &BTreeMap<DocumentId, usize>,
    ) -> Self {
        let mut verdict = Self { newer: BTreeSet::new(), is_superseded: false };
        let item = &items[at];
        let user = item.passages.first().and_then(|passage| TurnAddress::of(&passage.document_id));
        let (Some(TurnAddress { user, .. }), false) = (user, item.superseded.is_empty()) else {
            return verdict;
        };
        let told = item.turns.iter().flat_map(|turn| said.in_turn(&user, &turn.id));
        let shared = |statement: &Statement| {
            content(&statement.text).filter(|term| asked.contains(term)).collect::<BTreeSet<_>>()
        };
        let told: Vec<(&Statement, usize)> =
            told.map(|statement| (statement, shared(statement).len())).collect();
        let most = told.iter().map(|(_, shared)| *shared).max().unwrap_or_default();
        let is_relevant = |shared: usize| shared as f32 >= RELEVANT * most as f32;
        verdict.is_superseded = true;
        for (statement, _) in told.into_iter().filter(|(_, shared)| is_relevant(*shared)) {
            let update = item.superseded.iter().find(|update| update.older == *statement);
            let newer = update.and_then(|update| {
                let address = TurnAddress { user: user.clone(), turn: update.newer.turn.clone() };
                places.get(&address.document_id().ok()?).copied()
            });
            match newer {
                Some(newer) if newer != at => _ = verdict.newer.insert(newer),
                // Within one item, the newer statement is returned with the older one.
                Some(_) => {}
                None => verdict.is_superseded = false,
            }
        }
        verdict.is_superseded &= !verdict.newer.is_empty();
        verdict
    }
}

struct Order<'a> {
    verdicts: &'a [Verdict],
    seen: Vec<bool>,
    order: Vec<usize>,
}

impl Order<'_> {
    /// Takes an item and, next to it, the items that supersede it and are not taken yet.
    fn take(&mut self, at: usize) {
        if std::mem::replace(&mut self.seen[at], true) {
            return;
        }
        let Verdict { newer, is_superseded } = &self.verdicts[at];
        if *is_superseded {
            newer.iter().for_each(|newer| self.take(*newer));
            self.order.push(at);
        } else {
            self.order.push(at);
            newer.iter().for_each(|newer| self.take(*newer));
        }
    }
}

/// Returns the scores of items in an order, adjusted so that they do not rise.
fn scores(order: &[usize], verdicts: &[Verdict], items: &[Item]) -> Vec<f32> {
    let mut scores: Vec<f32> = order.iter().map(|at| items[*at].score).collect();
    for rank in (1..scores.len()).rev() {
        scores[rank - 1] = scores[rank - 1].max(scores[rank]);
    }
    let mut known: BTreeMap<usize, f32> = BTreeMap::new();
    let mut least: BTreeMap<usize, f32> = BTreeMap::new();
    for (rank, at) in order.iter().enumerate() {
        let Verdict { newer, is_superseded } = &verdicts[*at];
        let mut score = scores[rank].max(least.get(at).copied().unwrap_or(f32::NEG_INFINITY));
        if let Some(before) = rank.checked_sub(1) {
            score = score.min(scores[before]);
        }
        if *is_superseded {
            let successors = newer.iter().filter_map(|newer| known.get(newer));
            score = successors.fold(score, |score, newer| score.min(newer.next_down()));
        } else {
            least.extend(newer.iter().map(|newer| (*newer, score)));
        }
        known.insert(*at, score);
        scores[rank] = score;
    }
    scores
}

/// Returns the terms of a text that are not words of grammar.
fn content(text: &str) -> impl Iterator<Item = Term> + '_ {
    terms(text).filter(|term| !is_grammar_word(term.as_str()))
}
