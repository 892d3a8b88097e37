//! Command `clew chat`.

mod conversations;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use clew_core::{
    AttributeName, CorpusName, History, KeyMerging, Label, Labels, Notes, PassageLayout,
    SpeakerRole, TimeUse, Timestamp, Turn, TurnId, Value,
};
use clew_proto::chat::v1 as wire;
use clew_proto::convert::chat::{Appended, Inference};
use clew_proto::convert::query::filter_to_wire;
use clew_proto::convert::timestamp_to_wire;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ask::{self, Asked};
use super::ingest::make_if_missing;
use crate::args::chat::{
    HistoryChoice, InferenceChoice, LayoutChoice, MergingChoice, NotesChoice, TimeChoice,
    ValueChoice,
};
use crate::args::filter::TurnFilterArgs;
use crate::args::global::GlobalArgs;
use crate::command::receipt as told;
use crate::connection::Connection;
use crate::output::{self, Output, one_line};

/// Arguments of `chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(subcommand)]
    pub action: ChatAction,
}

/// User whose conversations a command works on.
#[derive(Debug, Args)]
pub struct UserArgs {
    /// Name of the corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Name of the user.
    #[arg(long)]
    pub user: String,
}

/// Actions on conversations.
#[derive(Debug, Subcommand)]
pub enum ChatAction {
    /// Append turns; turns that are stored already change nothing.
    Append {
        #[command(flatten)]
        of: UserArgs,
        /// Session of turns that name none.
        #[arg(long)]
        session: Option<String>,
        /// Source of the statements of speakers, by which turns are found.
        #[arg(long, value_enum, default_value_t = InferenceChoice::Rules)]
        infer: InferenceChoice,
        /// Access label that every turn gets besides its own; may be repeated. Only callers who
        /// hold all labels of a turn can recall it.
        #[arg(long = "label", value_name = "LABEL")]
        labels: Vec<Label>,
        /// File of JSON Lines (`-`: standard input) with `text` and, as far as known, `session`,
        /// `number` (from 0; by default the turn's place among those of its session in the file),
        /// `role` (user or assistant), `speaker`, `time` (RFC 3339), `attributes` (an object of
        /// texts) and `labels` (an array of texts).
        file: PathBuf,
    },
    /// Show what a user's conversations hold about a question, in chronological order.
    Recall {
        #[command(flatten)]
        of: UserArgs,
        /// Question to recall for.
        question: String,
        /// Time at which the question is asked, such as 2024-05-20T10:00:00Z. "Last week" is
        /// understood from it.
        #[arg(long, value_name = "TIME")]
        asked_at: Option<Timestamp>,
        /// Maximum number of items, 1 to 100.
        #[arg(short)]
        k: Option<u32>,
        #[command(flatten)]
        recalling: RecallArgs,
        /// Source of the time that the question asks about.
        #[arg(long, value_enum, default_value_t = InferenceChoice::Rules)]
        infer: InferenceChoice,
        #[command(flatten)]
        filters: TurnFilterArgs,
    },
    /// Answer a question from a user's conversations: `ask` with the strategy `chat`.
    Ask {
        #[command(flatten)]
        of: UserArgs,
        /// Question to answer.
        question: String,
        /// Time at which the question is asked.
        #[arg(long, value_name = "TIME")]
        asked_at: Option<Timestamp>,
        /// Maximum number of rounds to read.
        #[arg(short)]
        k: Option<u32>,
        #[command(flatten)]
        recalling: RecallArgs,
        /// Source of the time that the question asks about.
        #[arg(long, value_enum, default_value_t = InferenceChoice::Rules)]
        infer: InferenceChoice,
        /// Whether a language model takes notes before it answers [default: that of the corpus,
        /// else chain].
        #[arg(long, value_enum)]
        notes: Option<NotesChoice>,
        /// Format in which passages are shown to a language model [default: that of the corpus,
        /// else json].
        #[arg(long, value_enum)]
        layout: Option<LayoutChoice>,
        /// Write how the question was answered to this file, for `clew trace show`.
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        #[command(flatten)]
        filters: TurnFilterArgs,
    },
    /// List the users of whom turns are stored, with how many.
    Users {
        /// Name of the corpus.
        #[arg(long)]
        corpus: CorpusName,
        /// List only users whose names begin with this.
        #[arg(long, default_value = "")]
        prefix: String,
    },
    /// List the sessions of a user, with how many turns are stored of each.
    Sessions {
        #[command(flatten)]
        of: UserArgs,
    },
    /// List all stored turns of a user, in the form that `append` takes.
    List {
        #[command(flatten)]
        of: UserArgs,
        /// List only this session.
        #[arg(long)]
        session: Option<String>,
        #[command(flatten)]
        filters: TurnFilterArgs,
    },
    /// Forget turns, down to the bytes on disk, and print the receipt.
    Forget {
        #[command(flatten)]
        of: UserArgs,
        /// Forget only this session; without it, all sessions of the user.
        #[arg(long)]
        session: Option<String>,
        /// Forget only this turn of the session; may be repeated.
        #[arg(long = "number", value_name = "N", requires = "session")]
        numbers: Vec<u32>,
        /// Forget only the best K turns that a search for these words finds. A search finds
        /// something for any words, so look at the preview first.
        #[arg(long, value_name = "WORDS", requires = "k", conflicts_with = "numbers")]
        about: Option<String>,
        /// Maximum number of turns for --about, 1 to 100.
        #[arg(short, requires = "about")]
        k: Option<u32>,
        #[command(flatten)]
        filters: TurnFilterArgs,
        /// Only show what would be forgotten.
        #[arg(long)]
        preview: bool,
    },
}

/// Settings for recalling conversations for a question.
#[derive(Clone, Debug, Args)]
pub struct RecallArgs {
    /// Keys of the corpus by which turns are found, with commas between them [default: all].
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub keys: Vec<String>,
    /// Way of merging the results of several keys [default: that of the corpus, else best].
    #[arg(long, value_enum)]
    pub merging: Option<MergingChoice>,
    /// Unit that is recalled as one item [default: that of the corpus, else round].
    #[arg(long, value_enum)]
    pub value: Option<ValueChoice>,
    /// Use of the time that the question asks about [default: that of the corpus, else boost].
    #[arg(long, value_enum)]
    pub time: Option<TimeChoice>,
    /// Treatment of statements that later ones supersede [default: that of the corpus, else
    /// latest].
    #[arg(long, value_enum)]
    pub history: Option<HistoryChoice>,
}

/// Maximum number of turns in one request.
const TURNS_AT_ONCE: usize = 200;

/// A turn as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    speaker: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    text: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    /// Additional text by which the turn is found. Printed by `list`, ignored by `append`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    key: String,
}

/// Appends, recalls, asks, lists or forgets turns, or lists users or sessions.
pub async fn run(global: &GlobalArgs, arguments: ChatArgs, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = act(&connection, arguments.action, output).await;
    connection.close().await?;
    done
}

async fn act(connection: &Connection, action: ChatAction, output: &Output) -> anyhow::Result<()> {
    match action {
        ChatAction::Append { of, session, infer, labels, file } => {
            let labels = Labels::new(labels)?;
            let sessions = sessions(&output::read(&file)?, session.as_deref(), &labels)?;
            append(connection, of, sessions, infer.into(), output).await
        }
        ChatAction::Recall { of, question, asked_at, k, recalling, infer, filters } => {
            let Chosen { keys, merging, value, time, history } = recalling.into();
            let asked = wire::RecallRequest {
                corpus: of.corpus.to_string(),
                user: of.user,
                question,
                asked_at: asked_at.map(timestamp_to_wire),
                k,
                value,
                time,
                filter: Some(filter_to_wire(filters.into())),
                history,
                inference: wire::Inference::from(Inference::from(infer)).into(),
                keys,
                merging,
            };
            recall(connection, asked, output).await
        }
        ChatAction::Ask {
            of,
            question,
            asked_at,
            k,
            recalling,
            infer,
            notes,
            layout,
            trace,
            filters,
        } => {
            let Chosen { keys, merging, value, time, history } = recalling.into();
            let asked = Asked {
                corpus: of.corpus.to_string(),
                question: question.clone(),
                strategy: "chat".to_owned(),
                trace,
            };
            let request = wire::AnswerRequest {
                corpus: of.corpus.to_string(),
                user: of.user,
                question,
                asked_at: asked_at.map(timestamp_to_wire),
                strategy: asked.strategy.clone(),
                k,
                filter: Some(filter_to_wire(filters.into())),
                value,
                time,
                history,
                inference: wire::Inference::from(Inference::from(infer)).into(),
                keys,
                merging,
                notes: notes.map_or(0, |notes| wire::Notes::from(Notes::from(notes)).into()),
                layout: layout
                    .map_or(0, |layout| wire::Layout::from(PassageLayout::from(layout)).into()),
            };
            let events = connection.client.answer_of_chats(request).await?;
            ask::show(events, asked, output).await
        }
        ChatAction::Users { corpus, prefix } => {
            conversations::users(connection, &corpus, prefix, output).await
        }
        ChatAction::Sessions { of } => conversations::sessions(connection, of, output).await,
        ChatAction::List { of, session, filters } => {
            let asked = wire::ListTurnsRequest {
                corpus: of.corpus.to_string(),
                user: of.user,
                session: session.unwrap_or_default(),
                filter: Some(filter_to_wire(filters.into())),
            };
            list(connection, asked, output).await
        }
        ChatAction::Forget { of, session, numbers, about, k, filters, preview } => {
            let asked = wire::ForgetTurnsRequest {
                corpus: of.corpus.to_string(),
                user: of.user,
                session: session.unwrap_or_default(),
                numbers,
                preview,
                filter: Some(filter_to_wire(filters.into())),
                about: about.unwrap_or_default(),
                k: k.unwrap_or_default(),
            };
            forget(connection, asked, output).await
        }
    }
}

/// Choices for recalling conversations, as the wire has them.
struct Chosen {
    keys: Vec<String>,
    merging: i32,
    value: i32,
    time: i32,
    history: i32,
}

impl From<RecallArgs> for Chosen {
    fn from(recalling: RecallArgs) -> Self {
        let RecallArgs { keys, merging, value, time, history } = recalling;
        Self {
            keys,
            merging: merging
                .map_or(0, |merging| wire::Merging::from(KeyMerging::from(merging)).into()),
            value: value.map_or(0, |value| wire::Value::from(Value::from(value)).into()),
            time: time.map_or(0, |time| wire::TimeUse::from(TimeUse::from(time)).into()),
            history: history
                .map_or(0, |history| wire::History::from(History::from(history)).into()),
        }
    }
}

async fn append(
    connection: &Connection,
    of: UserArgs,
    sessions: Sessions,
    inference: Inference,
    output: &Output,
) -> anyhow::Result<()> {
    // Without trees and a graph: turns are too short for trees, and a turn by itself does not tell
    // of whom it speaks.
    make_if_missing(connection, &of.corpus, None).await?;
    let (mut appended, mut unchanged) = (0, 0);
    let together = sessions.values().flatten();
    for (labels, turns) in together {
        for turns in turns.chunks(TURNS_AT_ONCE) {
            let told = connection.client.append_turns(Appended {
                corpus: of.corpus.clone(),
                user: of.user.clone(),
                turns: turns.to_vec(),
                inference,
                labels: labels.clone(),
            });
            for turn in told.await?.turns {
                *if turn.unchanged { &mut unchanged } else { &mut appended } += 1;
            }
        }
    }
    let document = json!({
        "sessions": sessions.len(),
        "appended": appended,
        "unchanged": unchanged,
    });
    output.print(&document, |_| {
        format!("{appended} turns appended or corrected, {unchanged} there already\n")
    })
}

/// Turns of each session, grouped by the labels that they require.
type Sessions = BTreeMap<String, BTreeMap<Labels, Vec<Turn>>>;

/// Parses turns and groups them by session and labels. Each turn gets `labels` besides its own.
fn sessions(text: &str, default: Option<&str>, labels: &Labels) -> anyhow::Result<Sessions> {
    let mut sessions = Sessions::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("line {}", at + 1);
        let line: Line = serde_json::from_str(line).with_context(place)?;
        let Some(session) = line.session.as_deref().or(default) else {
            bail!("{}: it names no `session`; name one, or use --session", place());
        };
        let role = match line.role.as_deref() {
            None | Some("") => SpeakerRole::Other,
            Some("user") => SpeakerRole::User,
            Some("assistant") => SpeakerRole::Assistant,
            Some(role) => bail!("{}: expected the role user or assistant, got `{role}`", place()),
        };
        let time = line.time.map(|time| time.parse::<Timestamp>()).transpose();
        let attribute = |(name, value): (String, String)| {
            anyhow::Ok((AttributeName::try_from(name)?, value.into()))
        };
        let attributes = line.attributes.into_iter().map(attribute);
        let labels = Labels::parse(&line.labels).with_context(place)?.union(labels);
        let turns = sessions.entry(session.to_owned()).or_default();
        let before = turns.values().map(Vec::len).sum::<usize>();
        let number = line.number.map_or_else(|| u32::try_from(before), Ok)?;
        turns.entry(labels).or_default().push(Turn {
            id: TurnId { session: session.parse().with_context(place)?, number },
            role,
            speaker: line.speaker,
            text: line.text,
            time: time.with_context(place)?,
            attributes: attributes.collect::<Result<_, _>>().with_context(place)?,
        });
    }
    Ok(sessions)
}

/// Returns a turn in the form that `append` takes.
fn line(session: &str, turn: wire::Turn) -> Line {
    let role = match turn.role() {
        wire::Role::Unspecified => None,
        wire::Role::User => Some("user".to_owned()),
        wire::Role::Assistant => Some("assistant".to_owned()),
    };
    Line {
        session: Some(session.to_owned()),
        number: Some(turn.number),
        role,
        time: turn.time.as_ref().map(output::timestamp),
        speaker: turn.speaker,
        text: turn.text,
        attributes: turn.attributes.into_iter().collect(),
        labels: Vec::new(),
        key: String::new(),
    }
}

async fn recall(
    connection: &Connection,
    asked: wire::RecallRequest,
    output: &Output,
) -> anyhow::Result<()> {
    let recalled = connection.client.recall(asked).await?;
    let items = recalled.items.into_iter().map(|item| {
        let turns = item.turns.into_iter().map(|turn| line(&item.session, turn));
        json!({
            "session": item.session,
            "score": item.score,
            "found": item.found,
            "turns": turns.collect::<Vec<_>>(),
            "texts": item.texts,
            "superseded": item.superseded.iter().map(superseded).collect::<Vec<_>>(),
        })
    });
    let document = json!({
        "items": items.collect::<Vec<_>>(),
        "from": recalled.from.as_ref().map(output::timestamp),
        "until": recalled.until.as_ref().map(output::timestamp),
        "shards_missing": recalled.shards_missing,
        "cost": output::cost(recalled.cost.as_ref()),
    });
    output.print(&document, |document| {
        let mut text = String::new();
        for item in document["items"].as_array().into_iter().flatten() {
            let session = item["session"].as_str().unwrap_or_default();
            let score = item["score"].as_f64().unwrap_or_default();
            text.push_str(&format!("{session} ({score:.3})\n"));
            for read in item["texts"].as_array().into_iter().flatten() {
                text.push_str(&format!("  {}\n", read.as_str().unwrap_or_default()));
            }
            for turn in item["turns"].as_array().into_iter().flatten() {
                let word = |name: &str| turn[name].as_str().unwrap_or_default();
                if word("text").is_empty() {
                    continue;
                }
                let who = if word("speaker").is_empty() { word("role") } else { word("speaker") };
                let said = one_line(word("text"), 160);
                text.push_str(&format!("  {} {who}: {said}\n", word("time")));
            }
            for update in item["superseded"].as_array().into_iter().flatten() {
                let said = |which: &str| update[which]["text"].as_str().unwrap_or_default();
                text.push_str(&format!("  superseded: {} by: {}\n", said("older"), said("newer")));
            }
        }
        if text.is_empty() {
            text.push_str("nothing is recalled\n");
        }
        text + &output::missing(&recalled.shards_missing)
    })
}

/// Returns a superseded statement and the one that supersedes it as JSON.
fn superseded(update: &wire::Superseded) -> serde_json::Value {
    let told = |statement: Option<&wire::Statement>| {
        let statement = statement?;
        Some(json!({
            "session": statement.session,
            "number": statement.number,
            "text": statement.text,
            "time": statement.time.as_ref().map(output::timestamp),
        }))
    };
    json!({ "older": told(update.older.as_ref()), "newer": told(update.newer.as_ref()) })
}

async fn list(
    connection: &Connection,
    asked: wire::ListTurnsRequest,
    output: &Output,
) -> anyhow::Result<()> {
    let turns = connection.client.list_turns(asked).await?;
    futures::pin_mut!(turns);
    let mut lines = Vec::new();
    while let Some(told) = turns.next().await {
        let told = told?;
        let line = line(&told.session, told.turn.unwrap_or_default());
        lines.push(Line { key: told.key, labels: told.labels, ..line });
    }
    output.print(&json!({ "turns": lines }), |_| {
        lines.iter().map(|line| format!("{}\n", json!(line))).collect()
    })
}

async fn forget(
    connection: &Connection,
    asked: wire::ForgetTurnsRequest,
    output: &Output,
) -> anyhow::Result<()> {
    let preview = asked.preview;
    let receipt = connection.client.forget_turns(asked).await?;
    let document = json!({
        "preview": preview,
        "turns": receipt.turns,
        "sessions": receipt.sessions,
        "chunks": receipt.chunks,
        "text_bytes": receipt.text_bytes,
        "verified": receipt.verified,
        "scan": clew_client::receipt::scan(receipt.scan.as_ref()),
        "snapshots": clew_client::receipt::snapshots(&receipt.snapshots),
        "first": receipt.first.iter().map(forgotten).collect::<Vec<_>>(),
    });
    output.print(&document, |_| {
        let (turns, sessions) = (receipt.turns, receipt.sessions);
        if !preview {
            let told = told::in_words(receipt.scan.as_ref(), &receipt.snapshots);
            return format!("forgot {turns} turns of {sessions} sessions\n{told}");
        }
        let first = receipt.first.iter().map(|turn| {
            format!("  {} {}: {}\n", turn.session, turn.number, one_line(&turn.text, 100))
        });
        format!("would forget {turns} turns of {sessions} sessions\n{}", first.collect::<String>())
    })
}

fn forgotten(turn: &wire::ForgottenTurn) -> serde_json::Value {
    json!({ "session": turn.session, "number": turn.number, "text": turn.text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_numbered_by_their_place_in_the_session() {
        let text = r#"{"session": "a", "role": "user", "text": "Hello"}

{"text": "Good day", "speaker": "Bohumil", "time": "2024-05-20T10:00:00Z"}
{"session": "a", "role": "assistant", "text": "Hello!"}
{"session": "a", "number": 9, "text": "Late"}"#;
        let none = Labels::default();
        let sessions = sessions(text, Some("b"), &none).unwrap();
        let (a, b) = (&sessions["a"][&none], &sessions["b"][&none]);
        let numbers: Vec<u32> = a.iter().map(|turn| turn.id.number).collect();
        assert_eq!(numbers, [0, 1, 9]);
        assert_eq!(a[1].role, SpeakerRole::Assistant);
        assert_eq!(b[0].time, "2024-05-20T10:00:00Z".parse().ok());
    }

    #[test]
    fn turns_of_other_labels_are_sent_by_themselves() {
        let text = r#"{"text": "one"}
{"text": "two", "labels": ["x"]}
{"text": "three"}"#;
        let sessions = sessions(text, Some("s"), &Labels::parse(["a"]).unwrap()).unwrap();
        let told: Vec<(String, Vec<u32>)> = sessions["s"]
            .iter()
            .map(|(of, turns)| (of.to_string(), turns.iter().map(|turn| turn.id.number).collect()))
            .collect();
        assert_eq!(told, [("a".to_owned(), vec![0, 2]), ("a,x".to_owned(), vec![1])]);
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number() {
        let refused = |text| format!("{:#}", sessions(text, None, &Labels::default()).unwrap_err());
        assert!(refused(r#"{"text": "Hello"}"#).starts_with("line 1: it names no `session`"));
        let role = r#"{"session": "a", "text": "b", "role": "queen"}"#;
        assert!(refused(role).contains("got `queen`"));
        assert!(refused("\n{").starts_with("line 2"));
    }
}
