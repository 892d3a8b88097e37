//! Ways of ranking the units of a haystack: what is indexed and searched for, and how the hits
//! become a ranking.

use std::fmt;
use std::str::FromStr;

use clew_chat::time::{Moment, asked_about};
use clew_chat::{Smoothing, boosted};
use clew_core::fusion::fuse_ranks;
use clew_core::{DocumentId, KeyDesign, SearchMode, TimeRange, TimeUse, Timestamp};

use crate::{Error, EvalQuestion, Haystack, Run, UnitKind};

/// Number of units of each search that are smoothed, boosted or merged by rank: as many as a hybrid
/// search takes from each of its rankings.
const DEEP: usize = 200;

/// Way of combining the parts of a key design ("LongMemEval", appendix E.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PartMerging {
    /// The parts are one text, which is indexed.
    #[default]
    Key,
    /// Each part is indexed separately, and the rankings are fused by reciprocal rank.
    Rank,
}

const MERGINGS: [PartMerging; 2] = [PartMerging::Key, PartMerging::Rank];

impl PartMerging {
    /// Returns the name on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Rank => "rank",
        }
    }
}

impl fmt::Display for PartMerging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PartMerging {
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

/// Way of ranking units for a question.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievalVariant {
    /// Keys by which units are found.
    pub keys: KeyDesign,
    /// Method of ranking.
    pub method: Method,
}

/// Method of ranking units.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// Ranking by a search.
    Search(Search),
    /// Ranking by what the strategy of that name reads.
    Strategy(String),
}

/// Settings of a search for units.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Way of combining the parts of their keys; [`PartMerging::Key`] if there is only one.
    pub merging: PartMerging,
    /// Way of matching passages.
    pub mode: SearchMode,
    /// Smoothing of scores over sessions, if any.
    pub smoothing: Option<Smoothing>,
    /// Use of the time that the question asks about.
    pub time: TimeUse,
}

/// Settings that are measured in all combinations.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Keys by which units are found.
    pub keys: Vec<KeyDesign>,
    /// Ways of combining the parts of keys.
    pub merging: Vec<PartMerging>,
    /// Ways of matching passages.
    pub mode: Vec<SearchMode>,
    /// Smoothings of scores.
    pub smoothing: Vec<Option<Smoothing>>,
    /// Uses of the time that questions ask about.
    pub time: Vec<TimeUse>,
    /// Strategies, which are measured in addition to the searches, with each of the keys.
    pub strategies: Vec<String>,
}

impl Settings {
    /// Returns all combinations, each once, in the order of the fields. A key of one part has
    /// nothing to merge and is measured once, as [`PartMerging::Key`].
    pub fn variants(&self) -> Vec<RetrievalVariant> {
        let mut variants: Vec<RetrievalVariant> = Vec::new();
        let mut add = |keys: &KeyDesign, method| {
            let variant = RetrievalVariant { keys: keys.clone(), method };
            if !variants.contains(&variant) {
                variants.push(variant);
            }
        };
        for keys in &self.keys {
            let is_one = keys.apart().len() == 1;
            for &merging in &self.merging {
                let merging = if is_one { PartMerging::Key } else { merging };
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
        variants
    }
}

impl RetrievalVariant {
    /// Returns the keys that are indexed for this variant, each by itself.
    fn indexed(&self) -> Vec<KeyDesign> {
        match &self.method {
            Method::Search(Search { merging: PartMerging::Rank, .. }) => self.keys.apart(),
            Method::Search(_) | Method::Strategy(_) => vec![self.keys.clone()],
        }
    }

    /// Returns whether passages are ranked by a search, and not by a strategy.
    pub fn is_search(&self) -> bool {
        matches!(self.method, Method::Search(_))
    }

    /// Returns the settings as a report names them.
    pub fn run(&self, format: &str, unit: UnitKind) -> Run {
        let plain = Search {
            merging: PartMerging::Key,
            mode: SearchMode::Hybrid,
            smoothing: None,
            time: TimeUse::Ignore,
        };
        let (search, strategy) = match &self.method {
            Method::Search(search) => (search, "search"),
            Method::Strategy(strategy) => (&plain, strategy.as_str()),
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
            mode: search.mode.as_str().to_owned(),
            smoothing,
            time: search.time.as_str().to_owned(),
            strategy: strategy.to_owned(),
        }
    }
}

/// Search for a question in one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Way of matching passages.
    pub mode: SearchMode,
    /// Range of the times at which a unit was said; open for all units.
    pub range: TimeRange,
    /// Maximum number of units.
    pub k: usize,
}

/// Unit that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundUnit {
    /// Id of the unit.
    pub unit: DocumentId,
    /// Score of the unit.
    pub score: f32,
    /// Time at which it was said.
    pub time: Option<Timestamp>,
}

/// Hits for a question in one index, by lookup.
pub type Finds = Vec<(Lookup, Vec<FoundUnit>)>;

impl Search {
    /// Returns the search for a question, for a ranking of at most `k` units.
    fn lookup(&self, question: &EvalQuestion, k: usize) -> Lookup {
        let needs_more = self.merging == PartMerging::Rank
            || self.smoothing.is_some()
            || self.time == TimeUse::Boost;
        let range = question.asked_range().filter(|_| self.time == TimeUse::Filter);
        Lookup {
            mode: self.mode,
            range: range.unwrap_or_default(),
            k: if needs_more { k.max(DEEP) } else { k },
        }
    }

    /// Returns a ranking of at most `k` units from the hits in each index: boosted, merged and
    /// smoothed, in this order.
    fn ranking(
        &self,
        haystack: &Haystack,
        question: &EvalQuestion,
        found: &[&[FoundUnit]],
        k: usize,
    ) -> Result<Vec<DocumentId>, Error> {
        let range = question.asked_range().filter(|_| self.time == TimeUse::Boost);
        let scored = |found: &&[FoundUnit]| {
            let score = |one: &FoundUnit| match range {
                Some(range) => boosted(one.score, range, one.time),
                None => one.score,
            };
            let mut scored: Vec<(DocumentId, f32)> =
                found.iter().map(|one| (one.unit.clone(), score(one))).collect();
            // The sort is stable: equal units keep the order of the search.
            scored.sort_by(|a, b| b.1.total_cmp(&a.1));
            scored
        };
        let mut lists: Vec<Vec<(DocumentId, f32)>> = found.iter().map(scored).collect();
        let merged = match self.merging {
            PartMerging::Key => lists.pop().unwrap_or_default(),
            PartMerging::Rank => {
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

impl EvalQuestion {
    /// Returns the time that the question asks about, if the time at which it was asked is known.
    fn asked_range(&self) -> Option<TimeRange> {
        asked_about(&self.text, Moment::try_new(self.asked_at?, 0).ok()?)
    }
}

/// Plan of the indexes and searches that measure variants on a haystack. Each index is made and
/// each search is done once for all variants.
///
/// ```text
/// for each of indexes():   index Haystack::with_keys(it)
///     for each question:   search for each of lookups() ──► Finds
/// for each variant and question: ranking() of all Finds
/// ```
#[derive(Clone, Debug)]
pub struct RetrievalPlan<'a> {
    haystack: &'a Haystack,
    variants: &'a [RetrievalVariant],
    /// Maximum number of units of a ranking.
    k: usize,
    /// Keys of the indexes, no two of which make the same units.
    indexes: Vec<KeyDesign>,
    /// Positions of the indexes of each variant.
    needed: Vec<Vec<usize>>,
}

impl<'a> RetrievalPlan<'a> {
    /// Creates the plan for `variants`, for rankings of at most `k` units. It costs as much as
    /// making all keys.
    ///
    /// # Errors
    /// Returns [`Error::NoTurns`] if a variant needs turns and there are none, and
    /// [`Error::NoQuestionDates`] if one needs the dates of questions and no question has one.
    pub fn try_new(
        haystack: &'a Haystack,
        variants: &'a [RetrievalVariant],
        k: usize,
    ) -> Result<Self, Error> {
        let mut indexes: Vec<(KeyDesign, blake3::Hash)> = Vec::new();
        let mut known: Vec<(KeyDesign, usize)> = Vec::new();
        let mut needed = Vec::with_capacity(variants.len());
        for variant in variants {
            variant.check(haystack)?;
            let mut places = Vec::new();
            for keys in variant.indexed() {
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
        Ok(Self { haystack, variants, k, indexes, needed })
    }

    /// Returns the keys by which the haystack is to be indexed.
    pub fn indexes(&self) -> &[KeyDesign] {
        &self.indexes
    }

    /// Returns the searches for `question` in the index at `index`, each once.
    pub fn lookups(&self, index: usize, question: &EvalQuestion) -> Vec<Lookup> {
        let mut lookups = Vec::new();
        for (variant, needed) in self.variants.iter().zip(&self.needed) {
            if let Method::Search(search) = &variant.method
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

    /// Returns the strategies to ask in the index at `index`, each with the position of its
    /// variant.
    pub fn strategies(&self, index: usize) -> impl Iterator<Item = (usize, &'a str)> {
        let variants = self.variants.iter().zip(&self.needed).enumerate();
        variants.filter_map(move |(place, (variant, needed))| match &variant.method {
            Method::Strategy(strategy) if needed.contains(&index) => {
                Some((place, strategy.as_str()))
            }
            Method::Strategy(_) | Method::Search(_) => None,
        })
    }

    /// Returns the ranking of the hits for `question` in each index by the variant at this
    /// position; `None` for a strategy, which ranks by itself. A search that was not done has no
    /// hits.
    ///
    /// # Errors
    /// Returns [`Error::NoTurns`] as [`RetrievalPlan::try_new`] does.
    pub fn ranking(
        &self,
        variant: usize,
        question: &EvalQuestion,
        finds: &[&Finds],
    ) -> Result<Option<Vec<DocumentId>>, Error> {
        let Method::Search(search) = &self.variants[variant].method else { return Ok(None) };
        let lookup = search.lookup(question, self.k);
        let found_in = |index: &usize| -> &[FoundUnit] {
            let mut of_index = finds.get(*index).into_iter().flat_map(|finds| finds.iter());
            of_index.find(|(known, _)| *known == lookup).map_or(&[], |(_, found)| found)
        };
        let found: Vec<&[FoundUnit]> = self.needed[variant].iter().map(found_in).collect();
        search.ranking(self.haystack, question, &found, self.k).map(Some)
    }
}

impl RetrievalVariant {
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

/// Returns a hash that is equal for equal documents.
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
