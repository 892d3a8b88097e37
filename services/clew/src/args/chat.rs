//! Arguments for the control points of conversations (LongMemEval, sections 4 and 5).

use clap::{Args, ValueEnum};
use clew_core::{
    ChatSettings, History, KeyMerging, Notes, PassageLayout, ReadingStrategy, TimeUse, Value,
};
use clew_proto::convert::chat::Inference;

/// Chat settings of a corpus: how conversations are indexed, and the defaults for recalling and
/// reading them, which a question may override.
#[derive(Clone, Debug, Args)]
pub struct ChatDefaultsArgs {
    /// Keys by which turns are found, each indexed by itself, with commas between them, such as
    /// `value,fact,date+fact+value`. A key consists of one or more of value, user, date, fact,
    /// phrase, summary and event, with + between them. One key must contain value. A question
    /// chooses among these keys [default: one key of date, facts and value, and each fact besides].
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub chat_keys: Vec<String>,
    /// Way of merging the results of several keys [default: best].
    #[arg(long, value_enum)]
    pub chat_merging: Option<MergingChoice>,
    /// Unit that is recalled as one item [default: round].
    #[arg(long, value_enum)]
    pub chat_value: Option<ValueChoice>,
    /// Use of the time that a question asks about [default: boost].
    #[arg(long, value_enum)]
    pub chat_time: Option<TimeChoice>,
    /// Treatment of statements that later ones supersede [default: latest].
    #[arg(long, value_enum)]
    pub chat_history: Option<HistoryChoice>,
    /// Whether a language model takes notes before it answers [default: chain].
    #[arg(long, value_enum)]
    pub chat_notes: Option<NotesChoice>,
    /// Format in which passages are shown to a language model [default: json].
    #[arg(long, value_enum)]
    pub chat_layout: Option<LayoutChoice>,
}

impl ChatDefaultsArgs {
    /// Returns the settings, or `None` if they are the defaults.
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

/// Way of merging the results of several keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MergingChoice {
    /// A turn ranks as high as its best key.
    Best,
    /// Each key ranks turns by itself, and the rankings are fused.
    Rank,
}

impl From<MergingChoice> for KeyMerging {
    fn from(merging: MergingChoice) -> Self {
        match merging {
            MergingChoice::Best => Self::Best,
            MergingChoice::Rank => Self::Rank,
        }
    }
}

/// Use of notes before an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NotesChoice {
    /// The model notes what each passage says, and answers from the notes.
    Chain,
    /// The model answers at once.
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

/// Format in which passages are shown to a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutChoice {
    /// JSON objects.
    Json,
    /// Texts under their numbers and days.
    Text,
}

impl From<LayoutChoice> for PassageLayout {
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

/// Unit that is recalled as one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueChoice {
    /// One turn.
    Turn,
    /// One round: a user's turn with the replies to it.
    Round,
    /// One session.
    Session,
    /// The statements of a round.
    Facts,
    /// The best sentences of a session.
    Summary,
}

/// Use of the time that a question asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeChoice {
    /// Raises the scores of passages from that time, or that mention it.
    Boost,
    /// Finds only passages from that time, or that mention it.
    Filter,
    /// Ignores the time.
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

/// Treatment of statements that later ones supersede.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HistoryChoice {
    /// Ranks the latest statement first.
    Latest,
    /// Ranks statements by how well they fit the question.
    All,
}

/// Source of inferences about what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InferenceChoice {
    /// Rules for English.
    Rules,
    /// The configured language model, if there is one.
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
