//! How a memory of conversations is kept, recalled and read: the control points of LongMemEval ("LongMemEval:
//! Benchmarking Chat Assistants on Long-Term Interactive Memory", sections 4 and 5).

use serde::{Deserialize, Serialize};

use crate::Error;

/// What is recalled as one (LongMemEval, section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A turn.
    Turn,
    /// What a user said with what an assistant replied; of other conversations a turn.
    #[default]
    Round,
    /// All of a session.
    Session,
    /// What is stated in a round, as far as its turns are found by it; rounds in which nothing is are left out.
    Facts,
    /// The best sentences of what people say in a session.
    Summary,
}

/// What is made of the time that a question asks about (LongMemEval, section 5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUse {
    /// What was said then, or tells of then, comes before what does neither.
    #[default]
    Boost,
    /// Only what was said then is found, and of the best that which tells of then.
    Filter,
    /// Nothing.
    Ignore,
}

impl TimeUse {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Boost => "boost",
            Self::Filter => "filter",
            Self::Ignore => "ignore",
        }
    }
}

/// What becomes of statements that later ones supersede.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// They come after what supersedes them: whoever asks wants to know what holds now.
    #[default]
    Latest,
    /// They are ranked as everything else: whoever asks wants to know what has changed.
    All,
}

/// How what several keys find comes together (LongMemEval, section 5.3 and appendix E.3). Keys whose parts are merged
/// into one text are one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Merging {
    /// A turn is as good as the best of its keys.
    #[default]
    Best,
    /// Each key ranks turns by itself, and the rankings are fused by reciprocal ranks.
    Rank,
}

/// Whether a reader takes notes before it answers (LongMemEval, section 5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notes {
    /// It notes what each passage says of the question, and answers out of the notes (chain-of-note).
    #[default]
    Chain,
    /// It answers at once.
    Direct,
}

/// How passages that are read in the order of time are written down (LongMemEval, section 5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Each as an object of JSON.
    #[default]
    Json,
    /// Each as a text under its number, title and day.
    Text,
}

/// How a language model reads passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadingStrategy {
    /// Whether it takes notes.
    pub notes: Notes,
    /// How passages are written down.
    pub layout: Layout,
}

/// How the conversations of a corpus are kept, and recalled and read where a question does not say otherwise. The
/// defaults are what was measured best.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatSettings {
    /// By what turns are found: names of key designs, each indexed by itself. Empty: by one key of the day, what is
    /// stated and what is said, and by each statement besides.
    pub keys: Vec<String>,
    /// How what several of them find comes together.
    pub merging: Merging,
    /// What is recalled as one.
    pub value: Value,
    /// What is made of the time that a question asks about.
    pub time: TimeUse,
    /// What becomes of statements that later ones supersede.
    pub history: History,
    /// How what is recalled is read.
    pub reading: ReadingStrategy,
}

/// What a question wants otherwise than its corpus has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatChoice {
    /// By which of the corpus' keys; empty: by all.
    pub keys: Vec<String>,
    /// As in [`ChatSettings`], from here on.
    pub merging: Option<Merging>,
    /// What is recalled as one.
    pub value: Option<Value>,
    /// What is made of the time that it asks about.
    pub time: Option<TimeUse>,
    /// What becomes of statements that later ones supersede.
    pub history: Option<History>,
    /// Whether the reader takes notes.
    pub notes: Option<Notes>,
    /// How passages are written down.
    pub layout: Option<Layout>,
}

impl ChatSettings {
    /// What holds for a question that wants `choice`. Its keys are those to search by: empty if what all keys of the
    /// corpus find together is asked for, which one search tells.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming the field at fault if it wants keys that the corpus does not have, or
    /// rankings of keys to be merged where there is one.
    pub fn chosen(&self, choice: &ChatChoice) -> Result<Self, Error> {
        let mut keys: Vec<String> = Vec::new();
        for key in &choice.keys {
            if !self.keys.contains(key) {
                return Err(Error::invalid("keys", self.unknown(key)));
            }
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        let merging = choice.merging.unwrap_or(self.merging);
        if choice.merging == Some(Merging::Rank) && self.keys.len() < 2 {
            let problem = "expected best: the corpus has no several keys whose rankings could be merged; make one \
                           with several `--chat-keys`";
            return Err(Error::invalid("merging", problem));
        }
        let is_all = keys.is_empty() || self.keys.iter().all(|key| keys.contains(key));
        match (is_all, merging) {
            (true, Merging::Best) => keys.clear(),
            (true, Merging::Rank) => keys.clone_from(&self.keys),
            (false, _) => {}
        }
        Ok(Self {
            keys,
            merging,
            value: choice.value.unwrap_or(self.value),
            time: choice.time.unwrap_or(self.time),
            history: choice.history.unwrap_or(self.history),
            reading: ReadingStrategy {
                notes: choice.notes.unwrap_or(self.reading.notes),
                layout: choice.layout.unwrap_or(self.reading.layout),
            },
        })
    }

    fn unknown(&self, key: &str) -> String {
        let make = format!("to choose `{key}`, make a corpus with it among its `--chat-keys`");
        match self.keys.as_slice() {
            [] => format!(
                "expected none: turns of this corpus are found by its default keys together; {make}"
            ),
            keys => format!(
                "expected some of `{}`, which this corpus has, got `{key}`; {make}",
                keys.join("`, `")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_keys(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn a_question_chooses_among_the_keys_that_its_corpus_has() {
        let settings = ChatSettings { keys: of_keys(&["value", "fact"]), ..Default::default() };
        for (wanted, merging, searched) in [
            (vec![], None, vec![]),
            (vec!["fact", "value"], None, vec![]),
            (vec!["fact", "fact"], None, vec!["fact"]),
            (vec![], Some(Merging::Rank), vec!["value", "fact"]),
            (vec!["fact"], Some(Merging::Rank), vec!["fact"]),
        ] {
            let choice = ChatChoice { keys: of_keys(&wanted), merging, ..Default::default() };
            assert_eq!(settings.chosen(&choice).unwrap().keys, searched, "{wanted:?}");
        }
    }

    #[test]
    fn what_a_corpus_does_not_have_is_refused_with_what_to_do() {
        let settings = ChatSettings { keys: of_keys(&["value", "fact"]), ..Default::default() };
        let summary = ChatChoice { keys: of_keys(&["summary"]), ..Default::default() };
        let ranked = ChatChoice { merging: Some(Merging::Rank), ..Default::default() };
        for (settings, choice, field, told) in [
            (&settings, &summary, "keys", "`value`, `fact`"),
            (&ChatSettings::default(), &summary, "keys", "expected none"),
            (&ChatSettings::default(), &ranked, "merging", "expected best"),
        ] {
            let error = settings.chosen(choice).unwrap_err();
            let violation = &error.violations()[0];
            assert_eq!(violation.field, field);
            assert!(violation.description.contains(told), "{error}");
            assert!(violation.description.contains("--chat-keys"), "{error}");
        }
    }

    #[test]
    fn what_a_question_does_not_choose_is_as_its_corpus_has_it() {
        let reading = ReadingStrategy { notes: Notes::Direct, layout: Layout::Text };
        let settings = ChatSettings { value: Value::Session, reading, ..ChatSettings::default() };
        assert_eq!(settings.chosen(&ChatChoice::default()).unwrap(), settings);
        let choice = ChatChoice { layout: Some(Layout::Json), ..ChatChoice::default() };
        let chosen = settings.chosen(&choice).unwrap();
        assert_eq!(chosen.reading, ReadingStrategy { notes: Notes::Direct, layout: Layout::Json });
    }

    #[test]
    fn settings_that_were_stored_before_a_control_point_came_have_its_default() {
        assert_eq!(serde_json::from_str::<ChatSettings>("{}").unwrap(), ChatSettings::default());
        let json = r#"{"keys": ["value"], "reading": {"notes": "direct"}}"#;
        let settings: ChatSettings = serde_json::from_str(json).unwrap();
        assert_eq!((settings.keys, settings.reading.notes), (of_keys(&["value"]), Notes::Direct));
    }
}
