//! Ledger of what clients were told. It decides what the cluster may answer and what it must hold.
//!
//! Each document has one writer, which performs one action after the other, so its versions are
//! ordered in time. A version that was offered without an answer may or may not be stored.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::placement::shard_of;
use clew_proto::query::v1::SearchResponse;

use crate::client::id;
use crate::words::{number_of, spelled, text_with, word};

/// Number of shards of the corpus.
pub const SHARDS: u32 = 4;
/// Number of documents of each shard that are written again and again.
const WRITTEN: usize = 7;
/// Number of documents in all shards that are written again and again.
const ALL_WRITTEN: usize = SHARDS as usize * WRITTEN;
/// Number of letters of a version's word, enough for half a million versions.
const VERSION_LETTERS: usize = 5;
/// Number of documents that never change.
const LASTING: usize = 24;
/// Word in every chunk of every document that is written again and again.
pub const EVERYWHERE: &str = "xlantern";

/// Returns the names of the documents that are written again and again, by shard.
pub fn written_documents() -> Vec<Vec<String>> {
    let mut shards = vec![Vec::new(); SHARDS as usize];
    for name in (0..).map(|number| format!("d{number}")) {
        let of_shard: &mut Vec<String> = &mut shards[shard(&name) as usize];
        if of_shard.len() < WRITTEN {
            of_shard.push(name);
        } else if shards.iter().all(|names| names.len() == WRITTEN) {
            break;
        }
    }
    shards
}

/// Returns the names and texts of the documents that never change.
pub fn lasting_documents() -> impl Iterator<Item = (String, String)> {
    (0..LASTING).map(|number| (format!("s{number}"), text_with(&[&lasting_word(number)])))
}

/// Returns the word by which a lasting document is found.
pub fn lasting_word(number: usize) -> String {
    word('s', number)
}

/// Returns the text of a version. No other version contains its word.
pub fn text(name: &str, version: usize) -> String {
    let number = name.trim_start_matches('d').parse().unwrap();
    text_with(&[EVERYWHERE, &word('n', number), &version_word(version)])
}

/// Returns the word of a version.
pub fn version_word(version: usize) -> String {
    spelled('v', version, VERSION_LETTERS)
}

fn shard(name: &str) -> u32 {
    shard_of(&id(name), SHARDS).0
}

/// State of a document, as far as it is known.
#[derive(Clone, Debug)]
pub struct Known {
    /// Versions of which one is stored, or `None` if the document may be absent: the last one that
    /// was acknowledged, and those that were offered since without an answer.
    pub possible: Vec<Option<usize>>,
    /// Oldest version that a request that begins now may see.
    oldest: usize,
    newest: usize,
    /// Number of times that it may have become absent.
    absences: usize,
    /// Whether it was found since.
    is_found: bool,
    /// Versions below this one were forgotten, down to the bytes on the disk.
    pub erased_below: usize,
}

/// States of all documents that are written again and again.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub documents: BTreeMap<String, Known>,
}

impl Known {
    fn may_be_absent(&mut self) {
        self.absences += 1;
        self.is_found = false;
    }
}

impl Ledger {
    pub fn new() -> Self {
        // The version numbers of different documents differ modulo [`ALL_WRITTEN`].
        let nothing = |newest| Known {
            possible: vec![None],
            oldest: 0,
            newest,
            absences: 0,
            is_found: false,
            erased_below: 0,
        };
        let names = written_documents().into_iter().flatten().zip(0..);
        Self { documents: names.map(|(name, place)| (name, nothing(place))).collect() }
    }

    fn known(&mut self, name: &str) -> &mut Known {
        self.documents.get_mut(name).expect("a document of the test")
    }

    /// Records that a new version is offered, and returns its number.
    pub fn offer(&mut self, name: &str) -> usize {
        let known = self.known(name);
        known.newest += ALL_WRITTEN;
        known.possible.push(Some(known.newest));
        known.newest
    }

    /// Returns whether a version belongs to this document.
    pub fn is_version_of(&self, version: usize, name: &str) -> bool {
        self.documents[name].newest % ALL_WRITTEN == version % ALL_WRITTEN
    }

    /// Records that the newest version was acknowledged.
    pub fn accepted(&mut self, name: &str) {
        let known = self.known(name);
        if known.possible.contains(&None) {
            // The request that found the document may have seen a version that was forgotten since.
            known.may_be_absent();
        }
        known.possible = vec![Some(known.newest)];
    }

    /// Records that the document is about to be forgotten.
    pub fn forget(&mut self, name: &str) {
        let known = self.known(name);
        known.may_be_absent();
        known.possible.push(None);
    }

    /// Records that forgetting was acknowledged.
    pub fn forgotten(&mut self, name: &str) {
        let known = self.known(name);
        known.may_be_absent();
        known.possible = vec![None];
        known.oldest = known.newest + 1;
        known.erased_below = known.newest + 1;
    }

    /// Checks and records the result of a search that began when the ledger was as `before`.
    /// Returns the violations.
    pub fn note_search(&mut self, before: &Self, response: &SearchResponse) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut found: BTreeMap<&str, u64> = BTreeMap::new();
        for item in &response.evidence {
            let name = item.document_id.as_str();
            if *found.entry(name).or_insert(item.version) != item.version {
                wrong.push(format!("a search found two versions of {name}"));
            }
            if name.starts_with('s') {
                continue;
            }
            match version_in(&item.text) {
                Some(version) => wrong.extend(self.saw(before, name, version, &item.text)),
                None => wrong.push(format!("a search found {:?} in {name}", item.text)),
            }
        }
        let missing: BTreeSet<u32> = response.shards_missing.iter().copied().collect();
        let has_to_be_found = |(name, known): (&String, &Known)| {
            let now = &self.documents[name];
            let is_there = known.is_found && !known.possible.contains(&None);
            (is_there && now.absences == known.absences).then(|| name.clone())
        };
        let written: Vec<String> = before.documents.iter().filter_map(has_to_be_found).collect();
        for name in written.into_iter().chain(lasting_documents().map(|(name, _)| name)) {
            if !found.contains_key(name.as_str()) && !missing.contains(&shard(&name)) {
                wrong.push(format!(
                    "a search did not find {name}, which is there, and does not name shard {} as \
                     missing",
                    shard(&name)
                ));
            }
        }
        for (name, known) in &mut self.documents {
            let unchanged = before.documents[name].absences == known.absences;
            known.is_found |= unchanged && found.contains_key(name.as_str());
        }
        wrong
    }

    /// Checks and records that a request saw a piece of a version. The request began when the
    /// ledger was as `before`. Returns the violation, if there is one.
    pub fn saw(
        &mut self,
        before: &Self,
        name: &str,
        version: usize,
        piece: &str,
    ) -> Option<String> {
        let oldest = before.documents[name].oldest;
        let known = self.known(name);
        let is_its = version % ALL_WRITTEN == known.newest % ALL_WRITTEN;
        if !is_its || version < oldest || version > known.newest {
            return Some(format!(
                "version {version} of {name} was seen, though {oldest} to {} can be: {known:?}",
                known.newest
            ));
        }
        known.oldest = known.oldest.max(version);
        let is_text = text(name, version).contains(piece);
        (!is_text).then(|| format!("version {version} of {name} was seen as {piece:?}"))
    }

    /// Checks that a document may be absent for a request that began when the ledger was as
    /// `before`. Returns the violation, if there is one.
    pub fn saw_nothing(&self, before: &Self, name: &str) -> Option<String> {
        let (known, now) = (&before.documents[name], &self.documents[name]);
        let can_be = known.possible.contains(&None) || now.absences > known.absences;
        (!can_be).then(|| format!("{name} was not there: {known:?}"))
    }
}

/// Returns the version to which a piece of a text belongs.
pub fn version_in(text: &str) -> Option<usize> {
    let length = version_word(0).len();
    let is_version = |word: &&str| word.starts_with("xv") && word.len() == length;
    text.split_whitespace().find(is_version).and_then(number_of)
}
