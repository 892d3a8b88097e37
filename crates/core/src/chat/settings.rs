//! Settings of chat memory: how conversations are indexed, recalled and read. They are the control
//! points of LongMemEval ("LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive
//! Memory", sections 4 and 5).

use serde::{Deserialize, Serialize};

use crate::Error;

/// Unit that is recalled as one item (LongMemEval, section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// One turn.
    Turn,
    /// One round: a user's turn with the assistant's replies. In conversations without an
    /// assistant, one turn.
    #[default]
    Round,
    /// One whole session.
    Session,
    /// The statements of a round by which its turns are indexed. Rounds without statements are left
    /// out.
    Facts,
    /// An extract of a session: the best sentences of what people say in it.
    Summary,
}

/// Use of the time that a question asks about (LongMemEval, section 5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUse {
    /// Raise the scores of passages that were said in or near that time, or that mention it.
    #[default]
    Boost,
    /// Find only passages that were said in that time and, among the best of all passages, those
    /// that mention it.
    Filter,
    /// Ignore the time.
    Ignore,
}

impl TimeUse {
    /// Returns the name of the use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Boost => "boost",
            Self::Filter => "filter",
            Self::Ignore => "ignore",
        }
    }
}

/// Treatment of statements that later ones supersede.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// They rank after the statements that supersede them: the caller wants to know what holds now.
    #[default]
    Latest,
    /// They rank like all others: the caller wants to know what has changed.
    All,
}

/// Way of combining the results of several keys (LongMemEval, section 5.3 and appendix E.3). Keys
/// whose parts are merged into one text count as one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyMerging {
    /// Each turn gets the rank that the best of its keys gives it.
    #[default]
    Best,
    /// Each key ranks the turns by itself, and the rankings are fused by reciprocal ranks.
    Rank,
}

/// Use of notes by a reader before it answers (LongMemEval, section 5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notes {
    /// The reader notes what each passage says about the question and answers from the notes
    /// (chain-of-note).
    #[default]
    Chain,
    /// The reader answers at once.
    Direct,
}

/// Format of passages that are read in chronological order (LongMemEval, section 5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassageLayout {
    /// Each passage is a JSON object.
    #[default]
    Json,
    /// Each passage is a text under its number, title and day.
    Text,
}

/// Settings for a language model that reads passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadingStrategy {
    /// Whether it takes notes.
    pub notes: Notes,
    /// Format of the passages.
    pub layout: PassageLayout,
}

/// Chat settings of a corpus: how conversations are indexed, and the defaults for recalling and
/// reading them, which a question may override. The default values measured best.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatSettings {
    /// Names of the key designs by which turns are found; each is indexed by itself. If empty,
    /// turns are found by one key of the day, the statements and the text, and also by each
    /// statement.
    pub keys: Vec<String>,
    /// Way of combining the results of several keys.
    pub merging: KeyMerging,
    /// Unit that is recalled as one item.
    pub value: Value,
    /// Use of the time that a question asks about.
    pub time: TimeUse,
    /// Treatment of statements that later ones supersede.
    pub history: History,
    /// Settings for reading what was recalled.
    pub reading: ReadingStrategy,
}

/// Chat settings of one question, where they differ from those of its corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatChoice {
    /// Keys of the corpus to search by; all if empty.
    pub keys: Vec<String>,
    /// Way of combining the results of several keys. Here and below, `None` means the setting of
    /// the corpus.
    pub merging: Option<KeyMerging>,
    /// Unit that is recalled as one item.
    pub value: Option<Value>,
    /// Use of the time that the question asks about.
    pub time: Option<TimeUse>,
    /// Treatment of statements that later ones supersede.
    pub history: Option<History>,
    /// Whether the reader takes notes.
    pub notes: Option<Notes>,
    /// Format of the passages.
    pub layout: Option<PassageLayout>,
}

impl ChatSettings {
    /// Returns these settings with `choice` applied. The result's keys are those to search by
    /// separately. They are empty if a single search over all keys of the corpus gives the result.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming the field at fault if `choice` names keys
    /// that the corpus does not have, or asks to merge rankings although the corpus has fewer than
    /// two keys.
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
        if choice.merging == Some(KeyMerging::Rank) && self.keys.len() < 2 {
            let problem = "expected best: the corpus has no several keys whose rankings could be merged; make one \
                           with several `--chat-keys`";
            return Err(Error::invalid("merging", problem));
        }
        let is_all = keys.is_empty() || self.keys.iter().all(|key| keys.contains(key));
        match (is_all, merging) {
            (true, KeyMerging::Best) => keys.clear(),
            (true, KeyMerging::Rank) => keys.clone_from(&self.keys),
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
            (vec![], Some(KeyMerging::Rank), vec!["value", "fact"]),
            (vec!["fact"], Some(KeyMerging::Rank), vec!["fact"]),
        ] {
            let choice = ChatChoice { keys: of_keys(&wanted), merging, ..Default::default() };
            assert_eq!(settings.chosen(&choice).unwrap().keys, searched, "{wanted:?}");
        }
    }

    #[test]
    fn what_a_corpus_does_not_have_is_refused_with_what_to_do() {
        let settings = ChatSettings { keys: of_keys(&["value", "fact"]), ..Default::default() };
        let summary = ChatChoice { keys: of_keys(&["summary"]), ..Default::default() };
        let ranked = ChatChoice { merging: Some(KeyMerging::Rank), ..Default::default() };
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
        let reading = ReadingStrategy { notes: Notes::Direct, layout: PassageLayout::Text };
        let settings = ChatSettings { value: Value::Session, reading, ..ChatSettings::default() };
        assert_eq!(settings.chosen(&ChatChoice::default()).unwrap(), settings);
        let choice = ChatChoice { layout: Some(PassageLayout::Json), ..ChatChoice::default() };
        let chosen = settings.chosen(&choice).unwrap();
        assert_eq!(
            chosen.reading,
            ReadingStrategy { notes: Notes::Direct, layout: PassageLayout::Json }
        );
    }

    #[test]
    fn settings_that_were_stored_before_a_control_point_came_have_its_default() {
        assert_eq!(serde_json::from_str::<ChatSettings>("{}").unwrap(), ChatSettings::default());
        let json = r#"{"keys": ["value"], "reading": {"notes": "direct"}}"#;
        let settings: ChatSettings = serde_json::from_str(json).unwrap();
        assert_eq!((settings.keys, settings.reading.notes), (of_keys(&["value"]), Notes::Direct));
    }
}
