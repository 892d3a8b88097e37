//! Ways of finding the units of a haystack: what is indexed, what is searched for, and how what was found
//! becomes a ranking.

use std::fmt;
use std::str::FromStr;

use clew_chat::time::{Moment, asked_about};
use clew_chat::{KeyDesign, Smoothing, TimeUse, boosted};
use clew_core::fusion::fuse_ranks;
use clew_core::{DocumentId, SearchMode, TimeRange, Timestamp};

use crate::{Error, Haystack, Question, Run, UnitKind};

/// Units of each search that are smoothed, boosted or merged by rank: as many as a hybrid search takes of each
/// of its rankings.
const DEEP: usize = 200;

/// How the parts of a key design come together ("LongMemEval", appendix E.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Merging {
    /// In one text, which is indexed.
    #[default]
    Key,
    /// Each is indexed apart, and the rankings are fused by reciprocal ranks.
    Rank,
}

const MERGINGS: [Merging; 2] = [Merging::Key, Merging::Rank];

impl Merging {
    /// Its name on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Rank => "rank",
        }
    }
}

impl fmt::Display for Merging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Merging {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        MERGINGS.into_iter().find(|merging| merging.as_str() == name).ok_or_else(|| {
            Error::UnknownName {
                what: "merging".to_owned(),
                name: name.to_owned(),
                expected: "key or rank".to_owned(),
            }
        })
    }
}

/// How units are ranked for a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// By what they are found.
    pub keys: KeyDesign,
    /// How.
    pub method: Method,
}

/// What ranks units.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// A search.
    Search(Search),
    /// What the strategy of that name reads.
    Strategy(String),
}

/// A search for units.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// How the parts of their keys come together; [`Merging::Key`] where there is but one.
    pub merging: Merging,
    /// How passages are matched.
    pub mode: SearchMode,
    /// How scores are smoothed over sessions, if they are.
    pub smoothing: Option<Smoothing>,
    /// What is made of the time that the question asks about.
    pub time: TimeUse,
}

/// Settings that are measured in all combinations.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By what units are found.
    pub keys: Vec<KeyDesign>,
    /// How the parts of keys come together.
    pub merging: Vec<Merging>,
    /// How passages are matched.
    pub mode: Vec<SearchMode>,
    /// How scores are smoothed.
    pub smoothing: Vec<Option<Smoothing>>,
    /// What is made of the time that questions ask about.
    pub time: Vec<TimeUse>,
    /// Strategies, which are measured beside the searches by each of the keys.
    pub strategies: Vec<String>,
}

impl Settings {
    /// All combinations, each once, in the order of the fields. A key of one part has nothing to be merged and
    /// is measured once, as [`Merging::Key`].
    pub fn ways(&self) -> Vec<Way> {
        let mut ways: Vec<Way> = Vec::new();
        let mut add = |keys: &KeyDesign, method| {
            let way = Way { keys: keys.clone(), method };
            if !ways.contains(&way) {
                ways.push(way);
            }
        };
        for keys in &self.keys {
            let is_one = keys.apart().len() == 1;
            for &merging in &self.merging {
                let merging = if is_one { Merging::Key } else { merging };
                for &mode in &self.mode {
                    for &smoothing in &self.smoothing {
                        for &time in &self.time {
                            let search = Search { merging, mode, smoothing, time };
                            add(keys, Method::Search(search));
                        }
                    }
                }
            }
            for strategy in &self.strategies {
                add(keys, Method::Strategy(strategy.clone()));
            }
        }
        ways
    }
}

impl Way {
    /// The keys that are indexed for it, each by itself.
    fn indexed(&self) -> Vec<KeyDesign> {
        match &self.method {
            Method::Search(Search { merging: Merging::Rank, .. }) => self.keys.apart(),
            Method::Search(_) | Method::Strategy(_) => vec![self.keys.clone()],
        }
    }

    /// What a report calls it.
    pub fn run(&self, format: &str, unit: UnitKind) -> Run {
        let plain = Search {
            merging: Merging::Key,
            mode: SearchMode::Hybrid,
            smoothing: None,
            time: TimeUse::Ignore,
        };
        let (search, strategy) = match &self.method {
            Method::Search(search) => (search, "search"),
            Method::Strategy(strategy) => (&plain, strategy.as_str()),
        };
        let mode = match search.mode {
            SearchMode::Dense => "dense",
            SearchMode::Sparse => "sparse",
            SearchMode::Hybrid => "hybrid",
        };
        let smoothing = match search.smoothing {
            None => "none".to_owned(),
            Some(Smoothing::TURNS) => "turns".to_owned(),
            Some(Smoothing { previous, next, session }) => format!("{previous},{next},{session}"),
        };
        Run {
            format: format.to_owned(),
            unit,
            keys: self.keys.to_string(),
            merging: search.merging.as_str().to_owned(),
            mode: mode.to_owned(),
            smoothing,
            time: search.time.as_str().to_owned(),
            strategy: strategy.to_owned(),
        }
    }
}

/// What is searched for a question in one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// How passages are matched.
    pub mode: SearchMode,
    /// When a unit must have been said to be found; open for all.
    pub range: TimeRange,
    /// Most units.
    pub k: usize,
}

/// A unit that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its id.
    pub unit: DocumentId,
    /// Its score.
    pub score: f32,
    /// When it was said.
    pub time: Option<Timestamp>,
}

/// What was found for a question in one index, by what was searched for.
pub type Finds = Vec<(Lookup, Vec<Found>)>;

impl Search {
    /// What is to be searched for, for a ranking of at most `k` units.
    fn lookup(&self, question: &Question, k: usize) -> Lookup {
        let needs_more = self.merging == Merging::Rank
            || self.smoothing.is_some()
            || self.time == TimeUse::Boost;
        let range = question.asked_range().filter(|_| self.time == TimeUse::Filter);
        Lookup {
            mode: self.mode,
            range: range.unwrap_or_default(),
            k: if needs_more { k.max(DEEP) } else { k },
        }
    }

    /// A ranking of at most `k` units out of what was found in each index: boosted, merged and smoothed, in
    /// this order.
    fn ranking(
        &self,
        haystack: &Haystack,
        question: &Question,
        found: &[&[Found]],
        k: usize,
    ) -> Result<Vec<DocumentId>, Error> {
        let range = question.asked_range().filter(|_| self.time == TimeUse::Boost);
        let scored = |found: &&[Found]| {
            let score = |one: &Found| match range {
                Some(range) => boosted(one.score, range, one.time),
                None => one.score,
            };
            let mut scored: Vec<(DocumentId, f32)> =
                found.iter().map(|one| (one.unit.clone(), score(one))).collect();
            // Stable: among equals what was found first stays first.
            scored.sort_by(|a, b| b.1.total_cmp(&a.1));
            scored
        };
        let mut lists: Vec<Vec<(DocumentId, f32)>> = found.iter().map(scored).collect();
        let merged = match self.merging {
            Merging::Key => lists.pop().unwrap_or_default(),
            Merging::Rank => {
                let units = |list: Vec<(DocumentId, f32)>| list.into_iter().map(|one| one.0);
                fuse_ranks(&lists.into_iter().map(|list| units(list).collect()).collect::<Vec<_>>())
            }
        };
        let mut ranking = match self.smoothing {
            Some(weights) => haystack.places()?.smoothed(&merged, &weights),
            None => merged.into_iter().map(|(unit, _)| unit).collect(),
        };
        ranking.truncate(k);
        Ok(ranking)
    }
}

impl Question {
    /// The time that it asks about, if it is known when it was asked.
    fn asked_range(&self) -> Option<TimeRange> {
        asked_about(&self.text, Moment::try_new(self.asked_at?, 0).ok()?)
    }
}

/// What has to be indexed and searched so that ways of finding are measured on a haystack, each index made and
/// each search done once for all of them.
///
/// ```text
/// for each of indexes():   index Haystack::with_keys(it)
///     for each question:   search for each of lookups() ──► Finds
/// for each way and question: ranking() of all Finds
/// ```
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    haystack: &'a Haystack,
    ways: &'a [Way],
    /// Most units of a ranking.
    k: usize,
    /// No two of them make the same units.
    indexes: Vec<KeyDesign>,
    /// For each way the places of its indexes.
    needed: Vec<Vec<usize>>,
}

impl<'a> Plan<'a> {
    /// The plan for `ways`, for rankings of at most `k` units. Cost is that of making all keys.
    ///
    /// # Errors
    /// [`Error::NoTurns`] if a way needs turns and there are none; [`Error::NoQuestionDates`] if one needs to
    /// know when questions are asked and no question tells.
    pub fn try_new(haystack: &'a Haystack, ways: &'a [Way], k: usize) -> Result<Self, Error> {
        let mut indexes: Vec<(KeyDesign, blake3::Hash)> = Vec::new();
        let mut known: Vec<(KeyDesign, usize)> = Vec::new();
        let mut needed = Vec::with_capacity(ways.len());
        for way in ways {
            way.check(haystack)?;
            let mut places = Vec::new();
            for keys in way.indexed() {
                if let Some((_, place)) = known.iter().find(|(design, _)| *design == keys) {
                    places.push(*place);
                    continue;
                }
                let hash = content_of(&haystack.with_keys(&keys)?);
                let same = indexes.iter().position(|(_, other)| *other == hash);
                let place = same.unwrap_or(indexes.len());
                if same.is_none() {
                    indexes.push((keys.clone(), hash));
                }
                known.push((keys, place));
                places.push(place);
            }
            needed.push(places);
        }
        let indexes = indexes.into_iter().map(|(keys, _)| keys).collect();
        Ok(Self { haystack, ways, k, indexes, needed })
    }

    /// The keys by which the haystack is to be indexed.
    pub fn indexes(&self) -> &[KeyDesign] {
        &self.indexes
    }

    /// What is to be searched for `question` in the index at `index`, each once.
    pub fn lookups(&self, index: usize, question: &Question) -> Vec<Lookup> {
        let mut lookups = Vec::new();
        for (way, needed) in self.ways.iter().zip(&self.needed) {
            if let Method::Search(search) = &way.method
                && needed.contains(&index)
            {
                let lookup = search.lookup(question, self.k);
                if !lookups.contains(&lookup) {
                    lookups.push(lookup);
                }
            }
        }
        lookups
    }

    /// The strategies to be asked in the index at `index`, each with the place of its way.
    pub fn strategies(&self, index: usize) -> impl Iterator<Item = (usize, &'a str)> {
        let ways = self.ways.iter().zip(&self.needed).enumerate();
        ways.filter_map(move |(place, (way, needed))| match &way.method {
            Method::Strategy(strategy) if needed.contains(&index) => {
                Some((place, strategy.as_str()))
            }
            Method::Strategy(_) | Method::Search(_) => None,
        })
    }

    /// The ranking by the way at `way` of what was found for `question` in each index; `None` for a strategy,
    /// which ranks itself. What was not searched for is not found.
    ///
    /// # Errors
    /// [`Error::NoTurns`] as for the plan.
    pub fn ranking(
        &self,
        way: usize,
        question: &Question,
        finds: &[&Finds],
    ) -> Result<Option<Vec<DocumentId>>, Error> {
        let Method::Search(search) = &self.ways[way].method else { return Ok(None) };
        let lookup = search.lookup(question, self.k);
        let found_in = |index: &usize| -> &[Found] {
            let mut of_index = finds.get(*index).into_iter().flat_map(|finds| finds.iter());
            of_index.find(|(known, _)| *known == lookup).map_or(&[], |(_, found)| found)
        };
        let found: Vec<&[Found]> = self.needed[way].iter().map(found_in).collect();
        search.ranking(self.haystack, question, &found, self.k).map(Some)
    }
}

impl Way {
    fn check(&self, haystack: &Haystack) -> Result<(), Error> {
        let Method::Search(search) = &self.method else { return Ok(()) };
        if search.smoothing.is_some() {
            haystack.places()?;
        }
        let questions = &haystack.questions;
        let has_dates = questions.is_empty() || questions.iter().any(|q| q.asked_at.is_some());
        if search.time != TimeUse::Ignore && !has_dates {
            return Err(Error::NoQuestionDates { haystack: haystack.name.clone() });
        }
        Ok(())
    }
}

/// The same for the same documents.
fn content_of(haystack: &Haystack) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for unit in &haystack.units {
        for part in [unit.id.as_str(), &unit.title, &unit.text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests;
