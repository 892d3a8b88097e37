//! Control points of conversations.

use clap::{Args, ValueEnum};
use clew_core::{ChatSettings, History, Layout, Merging, Notes, ReadingStrategy, TimeUse, Value};
use clew_proto::convert::chat::Inference;

/// How conversations of a corpus are kept, and recalled and read where a question does not say otherwise.
#[derive(Clone, Debug, Args)]
pub struct ChatDefaultsArgs {
    /// By what turns of conversations are found, each key by itself: names with commas between them, such as
    /// `value,fact,date+fact+value`, made of value, user, date, fact, phrase, summary and event; one has to hold the value.
    /// A question chooses among them [default: one key of date, facts and value, and each fact besides].
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub chat_keys: Vec<String>,
    /// How what several keys find comes together [default: best].
    #[arg(long, value_enum)]
    pub chat_merging: Option<MergingChoice>,
    /// What is recalled as one [default: round].
    #[arg(long, value_enum)]
    pub chat_value: Option<ValueChoice>,
    /// What is made of the time that a question asks about [default: boost].
    #[arg(long, value_enum)]
    pub chat_time: Option<TimeChoice>,
    /// What is made of statements that later ones supersede [default: latest].
    #[arg(long, value_enum)]
    pub chat_history: Option<HistoryChoice>,
    /// Whether a language model takes notes before it answers [default: chain].
    #[arg(long, value_enum)]
    pub chat_notes: Option<NotesChoice>,
    /// How passages are shown to a language model [default: json].
    #[arg(long, value_enum)]
    pub chat_layout: Option<LayoutChoice>,
}

impl ChatDefaultsArgs {
    /// The settings; `None`: the defaults.
    pub fn settings(self) -> Option<ChatSettings> {
        let settings = ChatSettings {
            keys: self.chat_keys,
            merging: self.chat_merging.map(Into::into).unwrap_or_default(),
            value: self.chat_value.map(Into::into).unwrap_or_default(),
            time: self.chat_time.map(Into::into).unwrap_or_default(),
            history: self.chat_history.map(Into::into).unwrap_or_default(),
            reading: ReadingStrategy {
                notes: self.chat_notes.map(Into::into).unwrap_or_default(),
                layout: self.chat_layout.map(Into::into).unwrap_or_default(),
            },
        };
        (settings != ChatSettings::default()).then_some(settings)
    }
}

/// How what several keys find comes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MergingChoice {
    /// A turn is as good as the best of its keys.
    Best,
    /// Each key ranks turns by itself, and the rankings are fused.
    Rank,
}

impl From<MergingChoice> for Merging {
    fn from(merging: MergingChoice) -> Self {
        match merging {
            MergingChoice::Best => Self::Best,
            MergingChoice::Rank => Self::Rank,
        }
    }
}

/// Whether a language model takes notes before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NotesChoice {
    /// It notes what each passage says, and answers out of the notes.
    Chain,
    /// It answers at once.
    Direct,
}

impl From<NotesChoice> for Notes {
    fn from(notes: NotesChoice) -> Self {
        match notes {
            NotesChoice::Chain => Self::Chain,
            NotesChoice::Direct => Self::Direct,
        }
    }
}

/// How passages are shown to a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutChoice {
    /// As objects of JSON.
    Json,
    /// As texts under their numbers and days.
    Text,
}

impl From<LayoutChoice> for Layout {
    fn from(layout: LayoutChoice) -> Self {
        match layout {
            LayoutChoice::Json => Self::Json,
            LayoutChoice::Text => Self::Text,
        }
    }
}

impl From<ValueChoice> for Value {
    fn from(value: ValueChoice) -> Self {
        match value {
            ValueChoice::Turn => Self::Turn,
            ValueChoice::Round => Self::Round,
            ValueChoice::Session => Self::Session,
            ValueChoice::Facts => Self::Facts,
            ValueChoice::Summary => Self::Summary,
        }
    }
}

impl From<HistoryChoice> for History {
    fn from(history: HistoryChoice) -> Self {
        match history {
            HistoryChoice::Latest => Self::Latest,
            HistoryChoice::All => Self::All,
        }
    }
}

/// What is recalled as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueChoice {
    /// A turn.
    Turn,
    /// What a user said with the replies.
    Round,
    /// A session.
    Session,
    /// What is stated in a round.
    Facts,
    /// The best sentences of a session.
    Summary,
}

/// What is made of the time that a question asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeChoice {
    /// What was said then comes first.
    Boost,
    /// Only what was said then is found.
    Filter,
    /// Nothing.
    Ignore,
}

impl From<TimeChoice> for TimeUse {
    fn from(time: TimeChoice) -> Self {
        match time {
            TimeChoice::Boost => Self::Boost,
            TimeChoice::Filter => Self::Filter,
            TimeChoice::Ignore => Self::Ignore,
        }
    }
}

/// What is made of statements that later ones supersede.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HistoryChoice {
    /// The latest comes first.
    Latest,
    /// As well as they fit the question.
    All,
}

/// Who understands what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InferenceChoice {
    /// Rules for English.
    Rules,
    /// The configured language model, where there is one.
    Model,
}

impl From<InferenceChoice> for Inference {
    fn from(inference: InferenceChoice) -> Self {
        match inference {
            InferenceChoice::Rules => Self::Rules,
            InferenceChoice::Model => Self::Model,
        }
    }
}
