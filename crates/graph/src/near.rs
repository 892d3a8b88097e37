//! Near names: the synonymy edges of HippoRAG ("HippoRAG: Neurobiologically Inspired Long-Term
//! Memory for Large Language Models", section 2.3), from the letters of names instead of vectors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use clew_text::is_grammar_word;

/// Minimum share of character trigrams (Dice's coefficient). HippoRAG's threshold for the cosine of
/// names is 0.8, too. At this share long names may differ by a letter, and short ones hardly at
/// all, so that "Anna" and "Hanna" stay apart.
const LEAST_DICE: f32 = 0.8;
/// Minimum share of the longer name's words that the shorter name has. A surname is near to a first
/// name with the surname, but not to every institution that has the surname in its name.
const LEAST_WORDS: f32 = 0.5;
/// Maximum number of names with a word through which a short name is near to longer ones. "John" is
/// too frequent to mean anything.
const MOST_WITH_WORD: usize = 16;
/// Nearness of an acronym to a name that it may stand for. It is a guess, so it is the lowest.
const ACRONYM: f32 = 0.5;
/// Number of letters in an acronym.
const ACRONYM_LETTERS: std::ops::RangeInclusive<usize> = 2..=6;
/// Maximum number of names with the same initials for an acronym to mean one of them.
const MOST_WITH_INITIALS: usize = 4;
/// Maximum number of names that are near to one.
const MOST_NEAR: usize = 16;

/// Names of a graph by their words, initials and trigrams, so that near names are found without
/// comparing all pairs.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    by_key: HashMap<Box<str>, u32>,
    by_word: HashMap<Box<str>, Vec<u32>>,
    by_initials: HashMap<Box<str>, Vec<u32>>,
    by_trigram: HashMap<u64, Vec<u32>>,
}

impl NameIndex {
    /// Returns the name with that key.
    pub fn get(&self, key: &str) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub fn insert(&mut self, id: u32, key: &str) {
        self.by_key.insert(key.into(), id);
        for word in key.split(' ').collect::<BTreeSet<_>>() {
            put(self.by_word.entry(word.into()).or_default(), id);
        }
        for initials in initials(key) {
            put(self.by_initials.entry(initials.into()).or_default(), id);
        }
        for trigram in trigrams(key) {
            put(self.by_trigram.entry(trigram).or_default(), id);
        }
    }

    pub fn remove(&mut self, id: u32, key: &str) {
        self.by_key.remove(key);
        for word in key.split(' ') {
            take(&mut self.by_word, word, id);
        }
        for initials in initials(key) {
            take(&mut self.by_initials, initials.as_str(), id);
        }
        for trigram in trigrams(key) {
            take(&mut self.by_trigram, &trigram, id);
        }
    }

    /// Returns the names near to `key`, nearest first, with their nearness: above 0, at most 1.
    /// `key_of` returns the keys of inserted names. Nearness is symmetric, but if very many names
    /// are near to one, only the nearest are returned.
    pub fn near<'k>(&self, key: &str, key_of: impl Fn(u32) -> &'k str) -> Vec<(u32, f32)> {
        self.near_seen(key, key_of, |_| true)
    }

    /// Returns what [`Self::near`] would return if only the names that `sees` admits had been
    /// inserted.
    pub fn near_seen<'k>(
        &self,
        key: &str,
        key_of: impl Fn(u32) -> &'k str,
        sees: impl Fn(u32) -> bool,
    ) -> Vec<(u32, f32)> {
        let mut found: BTreeMap<u32, f32> = BTreeMap::new();
        let words = self.by_words(key, &key_of, &sees);
        let spelled = self.by_spelling(key, &key_of).filter(|(id, _)| sees(*id));
        for (id, nearness) in words.chain(self.by_acronym(key, &sees)).chain(spelled) {
            if key_of(id) != key {
                let best = found.entry(id).or_default();
                *best = best.max(nearness);
            }
        }
        let mut near: Vec<(u32, f32)> = found.into_iter().collect();
        near.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| key_of(a.0).cmp(key_of(b.0))));
        near.truncate(MOST_NEAR);
        near
    }

    /// Returns the names that begin or end with the words of `key`, and those that `key` begins or
    /// ends with.
    fn by_words<'a, 'k: 'a>(
        &'a self,
        key: &'a str,
        key_of: &'a impl Fn(u32) -> &'k str,
        sees: &'a impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = (u32, f32)> + 'a {
        let rarest = self.rarest_word(key, sees).filter(|ids| ids.len() <= MOST_WITH_WORD);
        let longer = rarest.into_iter().flatten().filter_map(move |id| {
            Some((id, part_of(key, key_of(id)).filter(|_| may_be_part(key))?))
        });
        let shorter = ends_of(key).filter_map(move |part| {
            let spread = self.rarest_word(part, sees)?.len();
            let is_telling = spread <= MOST_WITH_WORD && may_be_part(part);
            let id = self.get(part).filter(|id| sees(*id))?;
            Some((id, part_of(part, key).filter(|_| is_telling)?))
        });
        longer.chain(shorter)
    }

    /// Returns the names with the rarest word of `key`, at most one more than the limit.
    fn rarest_word(&self, key: &str, sees: impl Fn(u32) -> bool) -> Option<Vec<u32>> {
        let lists = key.split(' ').filter_map(|word| self.by_word.get(word));
        let seen = lists.map(|ids| first_seen(ids, &sees, MOST_WITH_WORD + 1));
        seen.filter(|ids| !ids.is_empty()).min_by_key(Vec::len)
    }

    /// Returns the names that `key` may stand for, and the acronyms that may stand for it.
    fn by_acronym<'a>(
        &'a self,
        key: &'a str,
        sees: &'a impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = (u32, f32)> + 'a {
        let telling = move |acronym: &str| {
            let ids = first_seen(self.by_initials.get(acronym)?, sees, MOST_WITH_INITIALS + 1);
            (1..=MOST_WITH_INITIALS).contains(&ids.len()).then_some(ids)
        };
        let long = telling(key).into_iter().flatten();
        let short = initials(key)
            .into_iter()
            .filter(move |acronym| telling(acronym).is_some())
            .filter_map(move |acronym| self.get(&acronym).filter(|id| sees(*id)));
        long.chain(short).map(|id| (id, ACRONYM))
    }

    /// Returns the names that share most trigrams with `key`.
    fn by_spelling<'a, 'k: 'a>(
        &'a self,
        key: &'a str,
        key_of: &'a impl Fn(u32) -> &'k str,
    ) -> impl Iterator<Item = (u32, f32)> + 'a {
        let own = trigrams(key);
        let mut lists: Vec<&Vec<u32>> =
            own.iter().filter_map(|trigram| self.by_trigram.get(trigram)).collect();
        lists.sort_by_key(|ids| ids.len());
        // A name with a Dice coefficient of at least 0.8 has at least two thirds of these trigrams.
        // So any set of more than a third of them includes one that the name has.
        let missing = own.len() - lists.len();
        lists.truncate((own.len() / 3 + 1).saturating_sub(missing));
        let candidates: BTreeSet<u32> = lists.into_iter().flatten().copied().collect();
        candidates.into_iter().filter_map(move |id| {
            let other = trigrams(key_of(id));
            let shared = own.intersection(&other).count();
            let dice = ratio(2 * shared, own.len() + other.len());
            // Dates and versions that differ in a digit are different.
            let is_near = dice >= LEAST_DICE && digits(key).eq(digits(key_of(id)));
            is_near.then_some((id, dice))
        })
    }
}

/// Returns the first ids that `sees` admits, at most `most`.
fn first_seen(ids: &[u32], sees: impl Fn(u32) -> bool, most: usize) -> Vec<u32> {
    ids.iter().copied().filter(|id| sees(*id)).take(most).collect()
}

fn put(ids: &mut Vec<u32>, id: u32) {
    if let Err(at) = ids.binary_search(&id) {
        ids.insert(at, id);
    }
}

fn take<K, Q>(lists: &mut HashMap<K, Vec<u32>>, key: &Q, id: u32)
where
    K: std::borrow::Borrow<Q> + Hash + Eq,
    Q: Hash + Eq + ?Sized,
{
    let Some(ids) = lists.get_mut(key) else { return };
    if let Ok(at) = ids.binary_search(&id) {
        ids.remove(at);
    }
    if ids.is_empty() {
        lists.remove(key);
    }
}

/// Returns the share of the words of `long` that `short` has, if `long` begins or ends with
/// `short`.
fn part_of(short: &str, long: &str) -> Option<f32> {
    let begins = long.strip_prefix(short).is_some_and(|rest| rest.starts_with(' '));
    let ends = long.strip_suffix(short).is_some_and(|rest| rest.ends_with(' '));
    let share = ratio(short.split(' ').count(), long.split(' ').count());
    ((begins || ends) && share >= LEAST_WORDS).then_some(share)
}

/// Returns whether a name can be part of another one: it must not consist of numbers and grammar
/// words alone.
fn may_be_part(key: &str) -> bool {
    key.split(' ').any(|word| {
        word.chars().nth(1).is_some()
            && word.chars().any(char::is_alphabetic)
            && !is_grammar_word(word)
    })
}

/// Returns the runs of words that a name begins or ends with, without the whole name.
fn ends_of(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices(' ').flat_map(|(at, _)| [&key[..at], &key[at + 1..]])
}

/// Returns the first letters of a name's words, with grammar words and without.
fn initials(key: &str) -> BTreeSet<String> {
    let of = |words: &mut dyn Iterator<Item = &str>| -> String {
        words.filter_map(|word| word.chars().next()).collect()
    };
    let all = of(&mut key.split(' '));
    let content = of(&mut key.split(' ').filter(|word| !is_grammar_word(word)));
    let fits = |initials: &String| {
        ACRONYM_LETTERS.contains(&initials.chars().count())
            && initials.chars().all(char::is_alphabetic)
    };
    [all, content].into_iter().filter(fits).collect()
}

/// Returns the runs of three characters of a name, with a space at each end.
fn trigrams(key: &str) -> BTreeSet<u64> {
    let mut window = (0, u64::from(' '));
    let mut trigrams = BTreeSet::new();
    for c in key.chars().chain([' ']) {
        // A character has 21 bits.
        let trigram = window.0 << 42 | window.1 << 21 | u64::from(c);
        if window.0 != 0 {
            trigrams.insert(trigram);
        }
        window = (window.1, u64::from(c));
    }
    trigrams
}

fn digits(key: &str) -> impl Iterator<Item = char> {
    key.chars().filter(|c| c.is_numeric())
}

#[expect(clippy::cast_precision_loss, reason = "a name has few words and letters")]
fn ratio(part: usize, whole: usize) -> f32 {
    part as f32 / whole.max(1) as f32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(keys: &[String]) -> NameIndex {
        let mut index = NameIndex::default();
        for (id, key) in (0..).zip(keys) {
            index.insert(id, key);
        }
        index
    }

    fn near(keys: &[&str], key: &str) -> Vec<String> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let near = index(&keys).near(key, |id| &keys[id as usize]);
        near.into_iter().map(|(id, _)| keys[id as usize].clone()).collect()
    }

    #[test]
    fn near_are_surnames_acronyms_and_spellings() {
        let keys = [
            "pierre bezukhov",
            "bezukhov",
            "world health organization",
            "who",
            "university of california los angeles",
            "ucla",
            "mademoiselle bourienne",
            "mademoisele bourienne",
            "15 december 1840",
            "16 december 1840",
            "december",
            "may 1840",
            "1840",
            "anna",
            "hanna",
        ];
        for (a, b) in [
            ("bezukhov", "pierre bezukhov"),
            ("who", "world health organization"),
            ("ucla", "university of california los angeles"),
            ("mademoiselle bourienne", "mademoisele bourienne"),
        ] {
            assert_eq!(near(&keys, a), [b]);
            assert_eq!(near(&keys, b), [a]);
        }
        for alone in ["15 december 1840", "december", "may 1840", "1840", "anna", "hanna"] {
            assert!(near(&keys, alone).is_empty(), "{alone}: {:?}", near(&keys, alone));
        }
    }

    #[test]
    fn a_word_of_many_names_tells_nothing() {
        let mut keys: Vec<String> = ('a'..='z').map(|c| format!("john {c}{c}{c}")).collect();
        keys.push("john".to_owned());
        assert!(index(&keys).near("john", |id| &keys[id as usize]).is_empty());
        assert!(index(&keys).near("john aaa", |id| &keys[id as usize]).is_empty());
    }

    proptest! {
        #[test]
        fn near_is_mutual_and_found_as_by_comparing_all(
            keys in prop::collection::btree_set("[ab]{1,8}( [ab]{1,3})?", 1..8)
        ) {
            let keys: Vec<String> = keys.into_iter().collect();
            let index = index(&keys);
            let key_of = |id: u32| keys[id as usize].as_str();
            for (a, key) in (0..).zip(&keys) {
                let near = index.near(key, key_of);
                for (b, other) in (0..).zip(&keys) {
                    let (own, its) = (trigrams(key), trigrams(other));
                    let shared = own.intersection(&its).count();
                    let dice = ratio(2 * shared, own.len() + its.len());
                    let is_near = near.iter().any(|(id, _)| *id == b);
                    prop_assert!(a == b || dice < LEAST_DICE || is_near, "{key} {other}");
                    let back = index.near(other, key_of);
                    prop_assert_eq!(is_near, back.iter().any(|(id, _)| *id == a));
                }
            }
        }

        #[test]
        fn what_is_removed_leaves_nothing(keys in prop::collection::btree_set("[a-c ]{1,9}", 1..8)) {
            let keys: Vec<String> = keys.into_iter().collect();
            let mut index = index(&keys);
            for (id, key) in (0..).zip(&keys) {
                index.remove(id, key);
            }
            let empty = format!("{:?}", NameIndex::default());
            prop_assert_eq!(format!("{index:?}"), empty);
        }
    }
}
