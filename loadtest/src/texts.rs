//! Texts with planted facts: seeded, as many as wanted, and with questions whose answers are known.
//!
//! Each paragraph of a document states one fact about a person that no other paragraph names, so a
//! question has exactly one document and one place as its answer.

use clew_core::{Attributes, Document, DocumentId, Error, Labels, MediaType};

/// Parts of the 64 syllables of names.
const CONSONANTS: [&str; 16] =
    ["b", "br", "d", "dr", "f", "g", "gl", "k", "l", "m", "n", "p", "r", "st", "t", "v"];
const VOWELS: [&str; 4] = ["a", "e", "i", "o"];
/// Number of bits of a name: four syllables of 6 bits.
const NAME_BITS: u32 = 24;
/// Odd, so that multiplication by it is a bijection: neighbouring numbers get unlike names.
const SCATTER: u64 = 0x9E37_79B1;

const THINGS: [&str; 16] = [
    "silver compass",
    "blue lantern",
    "iron key",
    "old atlas",
    "glass bell",
    "copper kettle",
    "wooden flute",
    "red notebook",
    "brass telescope",
    "velvet coat",
    "stone seal",
    "ivory comb",
    "paper crown",
    "music box",
    "leather saddle",
    "amber ring",
];
const BUILDINGS: [&str; 8] =
    ["library", "lighthouse", "chapel", "station", "mill", "harbour", "theatre", "observatory"];
const SUBJECTS: [&str; 12] = [
    "The river",
    "A merchant from the north",
    "The council",
    "An early train",
    "The weather",
    "The gardener",
    "A letter from the capital",
    "The price of grain",
    "The new bridge",
    "A travelling musician",
    "The school",
    "The market",
];
const DOINGS: [&str; 12] = [
    "was late again that spring",
    "changed more slowly than people had hoped",
    "brought news of a quarrel",
    "kept everyone busy until the evening",
    "was the talk of the town",
    "had been repaired twice already",
    "gave little reason to complain",
    "surprised even those who had expected it",
    "made the older people shake their heads",
    "was soon forgotten",
    "cost more than it was worth",
    "drew a crowd on the square",
];
const ENDINGS: [&str; 8] = [
    "and nobody minded much",
    "although the harvest had been good",
    "while the children played outside",
    "before the first snow fell",
    "as the newspapers wrote later",
    "which was a relief to many",
    "since there was nothing else to do",
    "and so the summer passed",
];

/// Number of sentences of a paragraph besides its fact.
const FILLER_SENTENCES: usize = 4;

/// Generator of texts from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    seed: u64,
    paragraphs: u32,
}

/// Question with its known answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The question.
    pub question: String,
    /// Id of the only document that answers the question.
    pub document: DocumentId,
    /// Name that is in every right answer, and in no other.
    pub answer: String,
}

/// Fact of a paragraph.
struct Fact {
    person: String,
    thing: &'static str,
    building: &'static str,
    town: String,
}

impl Texts {
    /// Creates a generator of documents with the given number of paragraphs.
    pub fn new(seed: u64, paragraphs: u32) -> Self {
        Self { seed, paragraphs: paragraphs.max(1) }
    }

    /// Returns the id of a document.
    ///
    /// # Errors
    /// Never returns an error, because a number makes a valid id.
    pub fn id(number: u64) -> Result<DocumentId, Error> {
        format!("load-{number:08}").parse()
    }

    /// Returns a document by its number.
    ///
    /// # Errors
    /// Returns the errors of [`Self::id`].
    pub fn document(&self, number: u64) -> Result<Document, Error> {
        let mut random = fastrand::Rng::with_seed(mixed(self.seed, number));
        let paragraphs = (0..self.paragraphs).map(|paragraph| {
            let Fact { person, thing, building, town } = self.fact(number, paragraph);
            let fact = format!("{person} hid the {thing} in the {building} of {town}.");
            let at = random.usize(..=FILLER_SENTENCES);
            let mut sentences: Vec<String> =
                (0..FILLER_SENTENCES).map(|_| filler(&mut random)).collect();
            sentences.insert(at, fact);
            sentences.join(" ")
        });
        Ok(Document {
            id: Self::id(number)?,
            text: paragraphs.collect::<Vec<_>>().join("\n\n"),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::default(),
            source_version: None,
        })
    }

    /// Returns a question about one of the documents with numbers below `documents`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::id`].
    pub fn question(&self, documents: u64, random: &mut fastrand::Rng) -> Result<Known, Error> {
        let number = random.u64(..documents.max(1));
        let Fact { person, thing, town, .. } = self.fact(number, random.u32(..self.paragraphs));
        let question = format!("Where did {person} hide the {thing}?");
        Ok(Known { question, document: Self::id(number)?, answer: town })
    }

    fn fact(&self, document: u64, paragraph: u32) -> Fact {
        let number = document * u64::from(self.paragraphs) + u64::from(paragraph);
        let mut random = fastrand::Rng::with_seed(mixed(self.seed ^ 0xFAC7, number));
        // Persons are numbered from one end of all names and towns from the other, with different
        // endings, so no person has the name of a town.
        Fact {
            person: format!("{} {}", name(number, "n"), name(number ^ 0x5A_5A5A, "s")),
            thing: THINGS[random.usize(..THINGS.len())],
            building: BUILDINGS[random.usize(..BUILDINGS.len())],
            town: name(number ^ 0xA5_A5A5, "burg"),
        }
    }
}

/// Returns the name of a number. A bijection for the first 2^24 numbers.
fn name(number: u64, ending: &str) -> String {
    let mut rest = number.wrapping_mul(SCATTER) & ((1 << NAME_BITS) - 1);
    let mut name = String::new();
    for _ in 0..NAME_BITS / 6 {
        let syllable = (rest & 63) as usize;
        name.push_str(CONSONANTS[syllable >> 2]);
        name.push_str(VOWELS[syllable & 3]);
        rest >>= 6;
    }
    name.push_str(ending);
    let first = name.remove(0).to_ascii_uppercase();
    format!("{first}{name}")
}

fn filler(random: &mut fastrand::Rng) -> String {
    let subject = SUBJECTS[random.usize(..SUBJECTS.len())];
    let doing = DOINGS[random.usize(..DOINGS.len())];
    format!("{subject} {doing}, {}.", ENDINGS[random.usize(..ENDINGS.len())])
}

/// Mixes two numbers to a seed (the finaliser of SplitMix64).
pub(crate) fn mixed(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_question_is_answered_in_its_document_and_nowhere_else(seed: u64, chosen: u64) {
            let texts = Texts::new(seed, 3);
            let known = texts.question(60, &mut fastrand::Rng::with_seed(chosen)).unwrap();
            let telling: Vec<DocumentId> = (0..60)
                .map(|number| texts.document(number).unwrap())
                .filter(|document| document.text.contains(&known.answer))
                .map(|document| document.id)
                .collect();
            prop_assert_eq!(telling, vec![known.document.clone()]);
        }

        #[test]
        fn the_same_seed_makes_the_same_texts(seed: u64, number in 0_u64..1 << 22) {
            let one = Texts::new(seed, 2).document(number).unwrap();
            prop_assert_eq!(&one, &Texts::new(seed, 2).document(number).unwrap());
            let other = Texts::new(seed.wrapping_add(1), 2).document(number).unwrap();
            prop_assert_ne!(one.text, other.text);
        }
    }

    #[test]
    fn names_are_given_once() {
        let names: HashSet<String> = (0..100_000).map(|number| name(number, "n")).collect();
        assert_eq!(names.len(), 100_000);
    }
}
