//! Data sets as haystacks: units that can be found, questions that should find them, and right
//! answers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clew_core::{Attributes, Document, DocumentId, Judging, Labels, MediaType, Timestamp, Turn};
use serde::{Serialize, Serializer};

use crate::Error;
use crate::answers::ChoiceOption;

mod answer;
mod beam;
mod dates;
mod files;
mod govreport;
mod keys;
mod leval;
mod lihua;
mod locomo;
mod long;
mod longmemeval;
mod multihop;
mod nocha;
mod quality;
pub(crate) mod records;
mod squad;
mod squality;
mod survey;
#[cfg(test)]
mod testing;

pub use keys::{KEPT_USER, Places};
pub use survey::Survey;

/// All formats that can be read, in the order in which they are offered.
pub const FORMATS: &[DatasetFormat] = &[
    multihop::FORMAT,
    locomo::FORMAT,
    longmemeval::FORMAT,
    lihua::FORMAT,
    beam::FORMAT,
    quality::FORMAT,
    nocha::FORMAT,
    govreport::FORMAT,
    squality::FORMAT,
    squad::FORMAT,
];

/// Kind of the units of a haystack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnitKind {
    /// Passage of an encyclopedia.
    Passage,
    /// File of chat messages.
    Chat,
    /// Message of one speaker.
    Turn,
    /// User's message, with the replies up to the user's next message.
    Round,
    /// Conversation from greeting to farewell. Between a user and an assistant, only the user's
    /// words: the key that most published figures use.
    Session,
    /// Session with the words of both sides, for data of which [`UnitKind::Session`] leaves one
    /// out.
    SessionAll,
    /// Book, story or report.
    Document,
}

const UNIT_KINDS: [UnitKind; 7] = [
    UnitKind::Passage,
    UnitKind::Chat,
    UnitKind::Turn,
    UnitKind::Round,
    UnitKind::Session,
    UnitKind::SessionAll,
    UnitKind::Document,
];

impl UnitKind {
    /// Returns the name on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passage => "passage",
            Self::Chat => "chat",
            Self::Turn => "turn",
            Self::Round => "round",
            Self::Session => "session",
            Self::SessionAll => "session-all",
            Self::Document => "document",
        }
    }
}

impl fmt::Display for UnitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for UnitKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        UNIT_KINDS.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| {
            Error::UnknownName {
                what: "unit".to_owned(),
                name: name.to_owned(),
                expected: one_of(UNIT_KINDS.map(UnitKind::as_str)),
            }
        })
    }
}

impl Serialize for UnitKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Unit of a haystack, which can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Id, unique in its haystack.
    pub id: DocumentId,
    /// Title, which is not part of the text; may be empty.
    pub title: String,
    /// Text; never blank.
    pub text: String,
    /// Time at which it was said.
    pub event_time: Option<Timestamp>,
    /// Turns that it consists of, in order; empty if it is not part of a conversation. Its key is
    /// made from them.
    pub said: Vec<Turn>,
}

impl From<Unit> for Document {
    fn from(unit: Unit) -> Self {
        Self {
            id: unit.id,
            text: unit.text,
            media_type: MediaType::Plain,
            title: unit.title,
            attributes: Attributes::new(),
            event_time: unit.event_time,
            labels: Labels::default(),
            source_version: None,
        }
    }
}

/// Document, with the unit that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitDocument {
    /// The unit.
    pub unit: DocumentId,
    /// The document.
    pub document: Document,
}

/// Rule by which answers to a question are compared with the reference answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// Exact match and F1 of words, as in SQuAD.
    Squad,
    /// F1 of stems, as in LoCoMo. The right response to an abstention question has an F1 of 1, any
    /// other 0.
    Locomo,
    /// F1 of stems, averaged over the parts of the reference between commas: LoCoMo's multi-hop
    /// questions.
    LocomoSubAnswers,
    /// Right letter among options; the reference answers are the right option's text.
    Choice {
        /// Question without its options.
        stem: String,
        /// Options, at least two.
        options: Vec<ChoiceOption>,
        /// Letter of the right option.
        right: char,
    },
    /// Verdict on whether a claim, which is the question's text, is true.
    ClaimPair {
        /// Name of the pair of claims; unique in the data set.
        pair: String,
        /// Whether this claim is true.
        is_true: bool,
    },
    /// ROUGE-L with the reference summaries.
    RougeL,
    /// Verdict of a judge, who is asked this; no rule on the text says how good an answer is.
    Judged(Judging),
}

/// Question whose evidence, answer or both are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalQuestion {
    /// Id, unique in its data set.
    pub id: String,
    /// Text of the question.
    pub text: String,
    /// Type of the question, as the data set names it.
    pub kind: String,
    /// Groups of several types that it counts in, such as `all`.
    pub groups: Vec<String>,
    /// Units that hold its evidence, each once. A blank unit that is evidence stays here although
    /// it cannot be found.
    pub gold: Vec<DocumentId>,
    /// Time at which it is asked.
    pub asked_at: Option<Timestamp>,
    /// Whether the right answer is that it was never said.
    pub is_abstention: bool,
    /// Right answers, each as good as the others. Empty if the data set has none.
    pub references: Vec<String>,
    /// Rule by which answers are compared with them.
    pub scoring: Scoring,
}

/// Search space with its units and questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Haystack {
    /// Name of the conversation, corpus or question that it belongs to.
    pub name: String,
    /// Units that can be found, in the order of the data set. Blank units are left out.
    pub units: Vec<Unit>,
    /// Questions with evidence, on which retrieval is measured.
    pub questions: Vec<EvalQuestion>,
    /// Questions for which no unit is evidence, because the answer was never said or its place is
    /// not known. They count when answers are measured.
    pub without_evidence: Vec<EvalQuestion>,
}

impl Haystack {
    /// Creates a haystack. Removes blank units, and separates the questions without evidence.
    fn new(name: String, mut units: Vec<Unit>, questions: Vec<EvalQuestion>) -> Self {
        units.retain(|unit| !unit.text.trim().is_empty());
        let (questions, without_evidence) =
            questions.into_iter().partition(|question| !question.gold.is_empty());
        Self { name, units, questions, without_evidence }
    }

    /// Returns the questions whose right answer is known, with or without evidence. Answers are
    /// measured on these.
    pub fn answerable(&self) -> impl Iterator<Item = &EvalQuestion> {
        let questions = self.questions.iter().chain(&self.without_evidence);
        questions.filter(|question| question.has_answer())
    }
}

/// Haystacks of a data set, read one at a time. After an error there are no more.
pub type Haystacks = Box<dyn Iterator<Item = Result<Haystack, Error>> + Send>;

/// Files to read, and how to cut them.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// Folder or file.
    path: &'a Path,
    /// Kind of units, one of the format's.
    unit: UnitKind,
    /// Split, one of the format's.
    split: Option<&'a str>,
}

impl Source<'_> {
    /// Returns the file to read: the path itself, or the first of `names` if the path is a folder.
    fn file(&self, format: &'static str, names: &[&str]) -> Result<PathBuf, Error> {
        if !self.path.is_dir() {
            return Ok(self.path.to_owned());
        }
        files::first_of(self.path, names)
            .ok_or_else(|| self.unknown_layout(format, format!("`{}`", names.join("` or `"))))
    }

    /// Returns the error for files that are not laid out as `format` expects.
    fn unknown_layout(&self, format: &'static str, expected: String) -> Error {
        Error::UnknownLayout { path: self.path.to_owned(), format, expected }
    }
}

/// Format of a data set: the layout of its files, and the units that can be read from them.
pub struct DatasetFormat {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// Units that it can be cut into; the first is the default.
    pub units: &'static [UnitKind],
    /// Parts that can be read alone; empty if there are none. Without a choice, a format reads
    /// everything or, if the parts overlap, the first part that exists.
    pub splits: &'static [&'static str],
    /// Whether its questions name their evidence, so that retrieval can be measured.
    pub has_evidence: bool,
    open: fn(Source<'_>) -> Result<Haystacks, Error>,
}

impl DatasetFormat {
    /// Returns the format of that name.
    ///
    /// # Errors
    /// Returns [`Error::UnknownName`] if there is none.
    pub fn named(name: &str) -> Result<&'static Self, Error> {
        FORMATS.iter().find(|format| format.name == name).ok_or_else(|| Error::UnknownName {
            what: "format".to_owned(),
            name: name.to_owned(),
            expected: one_of(FORMATS.iter().map(|format| format.name)),
        })
    }

    /// Returns the unit that is used if none is chosen.
    pub fn default_unit(&self) -> UnitKind {
        self.units[0]
    }

    /// Checks that the questions of the format name their evidence.
    ///
    /// # Errors
    /// Returns [`Error::NoEvidence`] if they do not, so that retrieval cannot be measured.
    pub fn check_retrieval(&self) -> Result<(), Error> {
        if self.has_evidence {
            return Ok(());
        }
        let formats = FORMATS.iter().filter(|format| format.has_evidence);
        let expected = one_of(formats.map(|format| format.name));
        Err(Error::NoEvidence { format: self.name, expected })
    }

    /// Checks that the format has this unit and this split.
    ///
    /// # Errors
    /// Returns [`Error::UnknownName`] if it does not.
    pub fn check(&self, unit: UnitKind, split: Option<&str>) -> Result<(), Error> {
        if !self.units.contains(&unit) {
            return Err(Error::UnknownName {
                what: format!("unit of {}", self.name),
                name: unit.to_string(),
                expected: one_of(self.units.iter().map(|unit| unit.as_str())),
            });
        }
        if let Some(split) = split
            && !self.splits.contains(&split)
        {
            return Err(Error::UnknownName {
                what: format!("split of {}", self.name),
                name: split.to_owned(),
                expected: one_of(self.splits.iter().copied()),
            });
        }
        Ok(())
    }

    /// Reads the data set at `path`, a folder or one of its files, cut into `unit`s.
    ///
    /// # Errors
    /// Returns the errors of [`DatasetFormat::check`], [`Error::UnknownLayout`] or
    /// [`Error::Unreadable`] if files are missing, and [`Error::Malformed`] if one is broken. The
    /// last two may also come with a later haystack.
    pub fn open(
        &self,
        path: &Path,
        unit: Option<UnitKind>,
        split: Option<&str>,
    ) -> Result<Haystacks, Error> {
        let unit = unit.unwrap_or(self.default_unit());
        self.check(unit, split)?;
        if let Err(source) = path.metadata() {
            return Err(Error::unreadable(path, source));
        }
        let mut haystacks = (self.open)(Source { path, unit, split })?;
        let mut is_over = false;
        Ok(Box::new(std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let haystack = haystacks.next();
            is_over = !matches!(haystack, Some(Ok(_)));
            haystack
        })))
    }
}

impl fmt::Debug for DatasetFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Joins names for messages, as in `a, b or c`.
fn one_of(names: impl IntoIterator<Item = &'static str>) -> String {
    let mut names: Vec<_> = names.into_iter().collect();
    match names.pop() {
        None => "none".to_owned(),
        Some(last) if names.is_empty() => last.to_owned(),
        Some(last) => format!("{} or {last}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Files;
    use super::*;

    #[test]
    fn names_of_formats_and_units_are_read_back() {
        for format in FORMATS {
            assert_eq!(DatasetFormat::named(format.name).unwrap().name, format.name);
        }
        for unit in UNIT_KINDS {
            assert_eq!(unit.to_string().parse::<UnitKind>().unwrap(), unit);
        }
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let files = Files::of(&[]);
        let cases = [
            ("trivia", None, None, "multihop, locomo, longmemeval, lihua, beam, quality"),
            ("beam", Some("page"), None, "session"),
            ("beam", Some("passage"), None, "round or turn"),
            ("lihua", Some("turn"), None, "expected chat"),
            ("beam", None, Some("2M"), "100K, 500K, 1M or 10M"),
            ("lihua", None, Some("2M"), "expected none"),
        ];
        for (format, unit, split, expected) in cases {
            let error = files.read(format, unit, split).unwrap_err();
            assert!(matches!(error, Error::UnknownName { .. }), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn missing_paths_and_foreign_folders_are_refused_by_every_format() {
        let files = Files::of(&[("notes.txt", "nothing of use")]);
        for format in FORMATS {
            let error = files.read(format.name, None, None).unwrap_err();
            assert!(matches!(error, Error::UnknownLayout { .. }), "{error:?}");
            let error = files.read_at(&files.path("none"), format.name, None, None).unwrap_err();
            assert_eq!(error.kind(), clew_core::ErrorKind::NotFound, "{error:?}");
            assert!(files.read_at(&files.path("notes.txt"), format.name, None, None).is_err());
        }
    }

    #[test]
    fn blank_units_are_left_out_and_make_a_document_otherwise() {
        let unit = |text: &str| Unit {
            id: "u".parse().unwrap(),
            title: "Title".to_owned(),
            text: text.to_owned(),
            event_time: Some(Timestamp::from_micros(1)),
            said: Vec::new(),
        };
        let haystack = Haystack::new("h".to_owned(), vec![unit(" \n"), unit("words")], vec![]);
        assert_eq!(haystack.units, [unit("words")]);
        let document = Document::from(unit("words"));
        assert_eq!((&*document.title, &*document.text), ("Title", "words"));
        assert_eq!(document.event_time, Some(Timestamp::from_micros(1)));
    }
}
