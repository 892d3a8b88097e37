//! What clients were told, and so what the cluster may say and what it has to hold.
//!
//! Each document has one writer, which does one thing after the other, so that its versions follow each
//! other in time. What was offered without an answer may have happened or not.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::placement::shard_of;
use clew_proto::query::v1::SearchResponse;

use crate::client::id;
use crate::words::{number_of, spelled, text_with, word};

/// Shards of the corpus.
pub const SHARDS: u32 = 4;
/// Documents of each shard that are written over and over.
const WRITTEN: usize = 7;
/// All of these.
const ALL_WRITTEN: usize = SHARDS as usize * WRITTEN;
/// Letters of a version's word, enough for half a million versions.
const VERSION_LETTERS: usize = 5;
/// Documents that stay as they are.
const LASTING: usize = 24;
/// In every chunk of every document that is written over and over.
pub const EVERYWHERE: &str = "xlantern";

/// Names of the documents that are written over and over, by shard.
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

/// Names and texts of the documents that stay as they are.
pub fn lasting_documents() -> impl Iterator<Item = (String, String)> {
    (0..LASTING).map(|number| (format!("s{number}"), text_with(&[&lasting_word(number)])))
}

/// The word by which a lasting document is found.
pub fn lasting_word(number: usize) -> String {
    word('s', number)
}

/// The text of a version: no other version has its word.
pub fn text(name: &str, version: usize) -> String {
    let number = name.trim_start_matches('d').parse().unwrap();
    text_with(&[EVERYWHERE, &word('n', number), &version_word(version)])
}

/// The word of a version.
pub fn version_word(version: usize) -> String {
    spelled('v', version, VERSION_LETTERS)
}

fn shard(name: &str) -> u32 {
    shard_of(&id(name), SHARDS).0
}

/// What is known of a document.
#[derive(Clone, Debug)]
pub struct Known {
    /// Versions of which one is stored, or nothing if `None` is among them: what was acknowledged
    /// last, and what was offered since without an answer.
    pub possible: Vec<Option<usize>>,
    /// The oldest version that may be seen by whoever begins to look now.
    oldest: usize,
    newest: usize,
    /// How often it may have become absent.
    absences: usize,
    /// Whether it was found since.
    is_found: bool,
    /// Versions below this one were forgotten, down to the bytes on the disk.
    pub erased_below: usize,
}

/// What is known of all documents that are written over and over.
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
        // Numbers of versions differ from document to document by what is left when they are divided.
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

    /// A new version is offered.
    pub fn offer(&mut self, name: &str) -> usize {
        let known = self.known(name);
        known.newest += ALL_WRITTEN;
        known.possible.push(Some(known.newest));
        known.newest
    }

    /// Whether a version is one of this document.
    pub fn is_version_of(&self, version: usize, name: &str) -> bool {
        self.documents[name].newest % ALL_WRITTEN == version % ALL_WRITTEN
    }

    /// The newest version was acknowledged.
    pub fn accepted(&mut self, name: &str) {
        let known = self.known(name);
        if known.possible.contains(&None) {
            // Whoever found it may have found what was forgotten since.
            known.may_be_absent();
        }
        known.possible = vec![Some(known.newest)];
    }

    /// It is to be forgotten.
    pub fn forget(&mut self, name: &str) {
        let known = self.known(name);
        known.may_be_absent();
        known.possible.push(None);
    }

    /// That was acknowledged.
    pub fn forgotten(&mut self, name: &str) {
        let known = self.known(name);
        known.may_be_absent();
        known.possible = vec![None];
        known.oldest = known.newest + 1;
        known.erased_below = known.newest + 1;
    }

    /// Notes what a search found that began when the ledger was as `before`. Returns what is wrong
    /// with it.
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

    /// Notes that a piece of a version was seen by who began to look when the ledger was as `before`.
    /// Returns what is wrong with that.
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

    /// Returns what is wrong with that a document was not there for who began to look when the ledger
    /// was as `before`.
    pub fn saw_nothing(&self, before: &Self, name: &str) -> Option<String> {
        let (known, now) = (&before.documents[name], &self.documents[name]);
        let can_be = known.possible.contains(&None) || now.absences > known.absences;
        (!can_be).then(|| format!("{name} was not there: {known:?}"))
    }
}

/// The version that a piece of a text is of.
pub fn version_in(text: &str) -> Option<usize> {
    let length = version_word(0).len();
    let is_version = |word: &&str| word.starts_with("xv") && word.len() == length;
    text.split_whitespace().find(is_version).and_then(number_of)
}
