//! Conversions of the messages of `clew.chat.v1`.

use std::collections::HashSet;

use clew_core::{
    AttributeName, AttributeValue, Attributes, ChatChoice, ChatSettings, CorpusName, DocumentId,
    Error, Filter, History, Item, KeyMerging, Labels, Limits, Notes, PassageLayout, Query,
    ReadingStrategy, Recall, Recalled, SpeakerRole, Statement, TimeUse, Timestamp, Turn,
    TurnAddress, TurnId, Update, Value, Violations, turn_filter,
};

use crate::chat::v1 as wire;
use crate::convert::ingest::{labels_from_wire, labels_to_wire};
use crate::convert::query::{check_as_sent, cost_to_wire, filter_from_wire};
use crate::convert::{corpus_name, document_id, optional_timestamp_from_wire, timestamp_to_wire};
use crate::query::v1 as query;

/// Maximum number of turns that are appended at once.
const MAX_TURNS: usize = 1_000;
/// Default and maximum number of items.
const ITEMS: (u32, u32) = (10, 100);

/// Turns that are to be appended to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Name of the corpus.
    pub corpus: CorpusName,
    /// Id of the user whose memory it is.
    pub user: String,
    /// Turns of one session.
    pub turns: Vec<Turn>,
    /// Method that finds the statements of their speakers.
    pub inference: Inference,
    /// Labels that a caller must hold to recall them.
    pub labels: Labels,
}

/// Method of understanding texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inference {
    /// Rules.
    #[default]
    Rules,
    /// A language model, or rules if there is none.
    Model,
}

impl Inference {
    fn from_wire(inference: i32, violations: &mut Violations) -> Self {
        match wire::Inference::try_from(inference) {
            Ok(wire::Inference::Unspecified | wire::Inference::Rules) => Self::Rules,
            Ok(wire::Inference::Model) => Self::Model,
            Err(_) => {
                violations.push("inference", "expected rules or model");
                Self::Rules
            }
        }
    }
}

impl From<Inference> for wire::Inference {
    fn from(inference: Inference) -> Self {
        match inference {
            Inference::Rules => Self::Rules,
            Inference::Model => Self::Model,
        }
    }
}

/// Converts turns from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn append_from_wire(request: wire::AppendTurnsRequest) -> Result<Appended, Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    TurnAddress::check("user", &request.user, &mut violations);
    TurnAddress::check("session", &request.session, &mut violations);
    if !(1..=MAX_TURNS).contains(&request.turns.len()) {
        let problem = format!("expected 1 to {MAX_TURNS}, got {}", request.turns.len());
        violations.push("turns", problem);
    }
    let session = violations.take(document_id("session", &request.session));
    let (mut turns, mut numbers) = (Vec::new(), HashSet::new());
    for (at, turn) in request.turns.into_iter().enumerate() {
        let field = format!("turns[{at}]");
        if !numbers.insert(turn.number) {
            violations.push(format!("{field}.number"), "expected each number once");
        }
        let Some(session) = &session else { continue };
        if let Some(turn) = turn_from_wire(&field, session, turn, &mut violations) {
            turn.check(&field, &mut violations);
            turns.push(turn);
        }
    }
    let inference = Inference::from_wire(request.inference, &mut violations);
    let labels = labels_from_wire("labels", &request.labels, &mut violations);
    violations.into_result()?;
    let corpus = corpus.ok_or_else(unfinished)?;
    Ok(Appended { corpus, user: request.user, turns, inference, labels })
}

/// Converts turns for the wire.
pub fn append_to_wire(appended: Appended) -> wire::AppendTurnsRequest {
    let session = appended.turns.first().map(|turn| turn.id.session.to_string());
    wire::AppendTurnsRequest {
        corpus: appended.corpus.to_string(),
        user: appended.user,
        session: session.unwrap_or_default(),
        turns: appended.turns.into_iter().map(turn_to_wire).collect(),
        without_waiting: false,
        inference: wire::Inference::from(appended.inference).into(),
        labels: labels_to_wire(&appended.labels),
    }
}

fn turn_from_wire(
    field: &str,
    session: &DocumentId,
    turn: wire::Turn,
    violations: &mut Violations,
) -> Option<Turn> {
    let role = match wire::Role::try_from(turn.role) {
        Ok(wire::Role::Unspecified) => SpeakerRole::Other,
        Ok(wire::Role::User) => SpeakerRole::User,
        Ok(wire::Role::Assistant) => SpeakerRole::Assistant,
        Err(_) => {
            violations.push(format!("{field}.role"), "expected none, user or assistant");
            return None;
        }
    };
    let time = turn.time.as_ref();
    let time = optional_timestamp_from_wire(&format!("{field}.time"), time, violations);
    let id = TurnId { session: session.clone(), number: turn.number };
    let mut attributes = Attributes::new();
    for (name, value) in turn.attributes {
        match AttributeName::try_from(name) {
            Ok(name) => drop(attributes.insert(name, AttributeValue::Text(value))),
            Err(error) => violations.push(format!("{field}.attributes"), error.message()),
        }
    }
    Some(Turn { id, role, speaker: turn.speaker, text: turn.text, time, attributes })
}

/// Converts a turn for the wire.
pub fn turn_to_wire(turn: Turn) -> wire::Turn {
    let role = match turn.role {
        SpeakerRole::Other => wire::Role::Unspecified,
        SpeakerRole::User => wire::Role::User,
        SpeakerRole::Assistant => wire::Role::Assistant,
    };
    wire::Turn {
        number: turn.id.number,
        role: role.into(),
        speaker: turn.speaker,
        text: turn.text,
        time: turn.time.map(timestamp_to_wire),
        attributes: turn
            .attributes
            .into_iter()
            .map(|(name, value)| (name.into(), value.to_string()))
            .collect(),
    }
}

impl From<TimeUse> for wire::TimeUse {
    fn from(time: TimeUse) -> Self {
        match time {
            TimeUse::Boost => Self::Boost,
            TimeUse::Filter => Self::Filter,
            TimeUse::Ignore => Self::Ignore,
        }
    }
}

/// Selection of the turns of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSelection {
    /// Name of the corpus.
    pub corpus: CorpusName,
    /// Id of the user whose memory it is.
    pub user: String,
    /// Session of the turns; `None` for all sessions.
    pub session: Option<DocumentId>,
    /// Filter that the turns pass. It includes the user and the session.
    pub filter: Filter,
    /// Whether the filter includes more than that.
    pub is_filtered: bool,
}

impl TurnSelection {
    fn from_wire(
        corpus: &str,
        user: String,
        session: &str,
        filter: Option<query::Filter>,
        violations: &mut Violations,
    ) -> Option<Self> {
        let corpus = violations.take(corpus_name(corpus));
        let is_filtered = filter.as_ref().is_some_and(|filter| *filter != query::Filter::default());
        let session = Some(session).filter(|session| !session.is_empty());
        let filter = turns_from_wire(&user, session, filter, violations);
        let session = session.and_then(|session| violations.take(document_id("session", session)));
        Some(Self { corpus: corpus?, user, session, filter, is_filtered })
    }

    /// Returns the prefix of the ids of the turns.
    pub fn prefix(&self) -> String {
        TurnAddress::prefix(&self.user, self.session.as_ref().map(DocumentId::as_str))
    }
}

/// Converts a filter from the wire, and restricts it to a user's turns.
fn turns_from_wire(
    user: &str,
    session: Option<&str>,
    filter: Option<query::Filter>,
    violations: &mut Violations,
) -> Filter {
    let mut admitted = filter_from_wire(filter.unwrap_or_default(), violations);
    if !admitted.documents.is_empty() {
        let problem = "expected none: turns are told by session and number";
        violations.push("filter.document_ids", problem);
    }
    let given = violations.take(turn_filter(user, session)).unwrap_or_default();
    admitted.attributes.extend(given.attributes);
    admitted
}

/// Converts a request to list turns from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn list_from_wire(request: wire::ListTurnsRequest) -> Result<TurnSelection, Error> {
    let wire::ListTurnsRequest { corpus, user, session, filter } = request;
    let mut violations = Violations::default();
    let wanted = TurnSelection::from_wire(&corpus, user, &session, filter, &mut violations);
    violations.into_result()?;
    wanted.ok_or_else(unfinished)
}

/// Request to forget turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToForget {
    /// Turns among which some are forgotten.
    pub of: TurnSelection,
    /// Those of them that are forgotten.
    pub which: WhichTurns,
    /// Whether to forget nothing and only report.
    pub preview: bool,
}

/// Selection among turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichTurns {
    /// All of them.
    All,
    /// Those with these numbers, of one session.
    Numbered(Vec<u32>),
    /// The best of those that a search for these words finds, up to this number.
    About(String, usize),
}

/// Converts a request to forget turns from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn forget_from_wire(
    request: wire::ForgetTurnsRequest,
    limits: &Limits,
) -> Result<ToForget, Error> {
    let wire::ForgetTurnsRequest { corpus, user, session, numbers, preview, filter, about, k } =
        request;
    let mut violations = Violations::default();
    let of = TurnSelection::from_wire(&corpus, user, &session, filter, &mut violations);
    let which = match (numbers.is_empty(), about.is_empty()) {
        (true, true) => WhichTurns::All,
        (false, is_all) => {
            if session.is_empty() {
                violations.push("numbers", "expected a session that they are of");
            }
            if !is_all || of.as_ref().is_some_and(|of| of.is_filtered) {
                violations.push("numbers", "expected no filter and no search besides");
            }
            WhichTurns::Numbered(numbers)
        }
        (true, false) => {
            check_as_sent(&Query::new(about.clone(), 1), limits, "about", &mut violations);
            check_items(k, &mut violations);
            WhichTurns::About(about, k as usize)
        }
    };
    violations.into_result()?;
    Ok(ToForget { of: of.ok_or_else(unfinished)?, which, preview })
}

fn check_items(k: u32, violations: &mut Violations) {
    if !(1..=ITEMS.1).contains(&k) {
        violations.push("k", format!("expected 1 to {}, got {k}", ITEMS.1));
    }
}

fn unfinished() -> Error {
    Error::internal("a field was neither taken nor refused")
}

/// Request to recall turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalling {
    /// Name of the corpus.
    pub corpus: CorpusName,
    /// The question.
    pub question: String,
    /// Time at which it is asked, if known.
    pub asked_at: Option<Timestamp>,
    /// Filter of the turns that may be found.
    pub filter: Filter,
    /// Maximum number of items.
    pub k: usize,
    /// Settings that differ from those of the corpus.
    pub choice: ChatChoice,
    /// Method that infers the time that the question asks about.
    pub inference: Inference,
}

impl Recalling {
    /// Returns the recall with these settings, which combine those of the corpus and of the
    /// request.
    pub fn by(self, settings: ChatSettings) -> Recall {
        let Self { question, asked_at, filter, k, .. } = self;
        let ChatSettings { keys, merging, value, time, history, reading: _ } = settings;
        let range = None;
        Recall { question, asked_at, filter, k, keys, merging, value, time, range, history }
    }
}

/// Converts a request to recall turns from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn recall_from_wire(request: wire::RecallRequest, limits: &Limits) -> Result<Recalling, Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    let filter = turns_from_wire(&request.user, None, request.filter, &mut violations);
    let k = request.k.unwrap_or(ITEMS.0);
    check_items(k, &mut violations);
    let query = Query::new(request.question.clone(), 1);
    check_as_sent(&query, limits, "question", &mut violations);
    let chosen = wire::ChatSettings {
        keys: request.keys,
        merging: request.merging,
        value: request.value,
        time: request.time,
        history: request.history,
        ..wire::ChatSettings::default()
    };
    let choice = choice_from_wire("", chosen, &mut violations);
    let inference = Inference::from_wire(request.inference, &mut violations);
    let asked_at = request.asked_at.as_ref();
    let asked_at = optional_timestamp_from_wire("asked_at", asked_at, &mut violations);
    violations.into_result()?;
    let (question, k) = (request.question, k as usize);
    let corpus = corpus.ok_or_else(unfinished)?;
    Ok(Recalling { corpus, question, asked_at, filter, k, choice, inference })
}

/// Converts settings that differ from the defaults, of a request or a corpus. Field names in
/// violations begin with `of`.
fn choice_from_wire(
    of: &str,
    chosen: wire::ChatSettings,
    violations: &mut Violations,
) -> ChatChoice {
    let wire::ChatSettings { keys, merging, value, time, history, notes, layout } = chosen;
    let mut refuse = |field: &str, expected: &str| {
        violations.push(format!("{of}{field}"), format!("expected {expected}"));
    };
    let merging = match wire::Merging::try_from(merging) {
        Ok(wire::Merging::Unspecified) => None,
        Ok(wire::Merging::Best) => Some(KeyMerging::Best),
        Ok(wire::Merging::Rank) => Some(KeyMerging::Rank),
        Err(_) => {
            refuse("merging", "best or rank");
            None
        }
    };
    let value = match wire::Value::try_from(value) {
        Ok(wire::Value::Unspecified) => None,
        Ok(wire::Value::Turn) => Some(Value::Turn),
        Ok(wire::Value::Round) => Some(Value::Round),
        Ok(wire::Value::Session) => Some(Value::Session),
        Ok(wire::Value::Facts) => Some(Value::Facts),
        Ok(wire::Value::Summary) => Some(Value::Summary),
        Err(_) => {
            refuse("value", "turn, round, session, facts or summary");
            None
        }
    };
    let time = match wire::TimeUse::try_from(time) {
        Ok(wire::TimeUse::Unspecified) => None,
        Ok(wire::TimeUse::Boost) => Some(TimeUse::Boost),
        Ok(wire::TimeUse::Filter) => Some(TimeUse::Filter),
        Ok(wire::TimeUse::Ignore) => Some(TimeUse::Ignore),
        Err(_) => {
            refuse("time", "boost, filter or ignore");
            None
        }
    };
    let history = match wire::History::try_from(history) {
        Ok(wire::History::Unspecified) => None,
        Ok(wire::History::Latest) => Some(History::Latest),
        Ok(wire::History::All) => Some(History::All),
        Err(_) => {
            refuse("history", "latest or all");
            None
        }
    };
    let notes = notes_from_wire(of, notes, violations);
    let layout = layout_from_wire(of, layout, violations);
    ChatChoice { keys, merging, value, time, history, notes, layout }
}

/// Parses the note-taking of the reader; `None` if it is not set. Adds a violation if it is
/// unknown.
pub(crate) fn notes_from_wire(of: &str, notes: i32, violations: &mut Violations) -> Option<Notes> {
    match wire::Notes::try_from(notes) {
        Ok(wire::Notes::Unspecified) => None,
        Ok(wire::Notes::Chain) => Some(Notes::Chain),
        Ok(wire::Notes::Direct) => Some(Notes::Direct),
        Err(_) => {
            violations.push(format!("{of}notes"), "expected chain or direct");
            None
        }
    }
}

/// Parses the layout of passages; `None` if it is not set. Adds a violation if it is unknown.
pub(crate) fn layout_from_wire(
    of: &str,
    layout: i32,
    violations: &mut Violations,
) -> Option<PassageLayout> {
    match wire::Layout::try_from(layout) {
        Ok(wire::Layout::Unspecified) => None,
        Ok(wire::Layout::Json) => Some(PassageLayout::Json),
        Ok(wire::Layout::Text) => Some(PassageLayout::Text),
        Err(_) => {
            violations.push(format!("{of}layout"), "expected json or text");
            None
        }
    }
}

/// Converts the chat settings of a corpus from the wire.
pub(crate) fn settings_from_wire(
    settings: wire::ChatSettings,
    violations: &mut Violations,
) -> ChatSettings {
    let choice = choice_from_wire("chat.", settings, violations);
    clew_core::check_keys("chat.keys", &choice.keys, violations);
    if choice.merging == Some(KeyMerging::Rank) && choice.keys.len() < 2 {
        violations
            .push("chat.merging", "expected best, or several `keys` whose rankings are merged");
    }
    ChatSettings {
        keys: choice.keys,
        merging: choice.merging.unwrap_or_default(),
        value: choice.value.unwrap_or_default(),
        time: choice.time.unwrap_or_default(),
        history: choice.history.unwrap_or_default(),
        reading: ReadingStrategy {
            notes: choice.notes.unwrap_or_default(),
            layout: choice.layout.unwrap_or_default(),
        },
    }
}

/// Converts the chat settings of a corpus for the wire.
pub(crate) fn settings_to_wire(settings: ChatSettings) -> wire::ChatSettings {
    let ChatSettings { keys, merging, value, time, history, reading } = settings;
    wire::ChatSettings {
        keys,
        merging: wire::Merging::from(merging).into(),
        value: wire::Value::from(value).into(),
        time: wire::TimeUse::from(time).into(),
        history: wire::History::from(history).into(),
        notes: wire::Notes::from(reading.notes).into(),
        layout: wire::Layout::from(reading.layout).into(),
    }
}

impl From<KeyMerging> for wire::Merging {
    fn from(merging: KeyMerging) -> Self {
        match merging {
            KeyMerging::Best => Self::Best,
            KeyMerging::Rank => Self::Rank,
        }
    }
}

impl From<Value> for wire::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Turn => Self::Turn,
            Value::Round => Self::Round,
            Value::Session => Self::Session,
            Value::Facts => Self::Facts,
            Value::Summary => Self::Summary,
        }
    }
}

impl From<History> for wire::History {
    fn from(history: History) -> Self {
        match history {
            History::Latest => Self::Latest,
            History::All => Self::All,
        }
    }
}

impl From<Notes> for wire::Notes {
    fn from(notes: Notes) -> Self {
        match notes {
            Notes::Chain => Self::Chain,
            Notes::Direct => Self::Direct,
        }
    }
}

impl From<PassageLayout> for wire::Layout {
    fn from(layout: PassageLayout) -> Self {
        match layout {
            PassageLayout::Json => Self::Json,
            PassageLayout::Text => Self::Text,
        }
    }
}

/// Converts recalled items for the wire, in the order of time, as readers need them (LongMemEval,
/// section 5.1).
pub fn recalled_to_wire(recalled: Recalled) -> wire::RecallResponse {
    let mut items = recalled.items;
    let place = |item: &Item| {
        let first = item.turns.first();
        let time = first.and_then(|turn| turn.time);
        (time, item.session.clone(), first.map(|turn| turn.id.number))
    };
    items.sort_by_key(place);
    let range = recalled.range.unwrap_or_default();
    wire::RecallResponse {
        items: items.into_iter().map(item_to_wire).collect(),
        from: range.from.map(timestamp_to_wire),
        until: range.until.map(timestamp_to_wire),
        shards_missing: recalled.shards_missing.iter().map(|shard| shard.0).collect(),
        cost: Some(cost_to_wire(recalled.cost)),
    }
}

fn item_to_wire(item: Item) -> wire::RecalledItem {
    let mut turns: Vec<wire::Turn> = item.turns.into_iter().map(turn_to_wire).collect();
    if !item.texts.is_empty() {
        turns.iter_mut().for_each(|turn| turn.text.clear());
    }
    wire::RecalledItem {
        session: item.session,
        turns,
        texts: item.texts,
        found: item.found,
        score: item.score,
        superseded: item.superseded.into_iter().map(update_to_wire).collect(),
    }
}

fn update_to_wire(Update { older, newer }: Update) -> wire::Superseded {
    let told = |statement: Statement| wire::Statement {
        session: statement.turn.session.to_string(),
        number: statement.turn.number,
        text: statement.text,
        time: statement.time.map(timestamp_to_wire),
    };
    wire::Superseded { older: Some(told(older)), newer: Some(told(newer)) }
}

/// Question about conversations.
#[derive(Clone, Debug)]
pub struct ChatQuestion {
    /// The same as a question to their corpus.
    pub asked: query::AnswerRequest,
    /// Settings that differ from those of the corpus.
    pub choice: ChatChoice,
    /// Method that infers the time that it asks about.
    pub inference: Inference,
}

impl ChatQuestion {
    /// Creates a question with the settings of its corpus.
    pub fn plain(asked: query::AnswerRequest) -> Self {
        Self { asked, choice: ChatChoice::default(), inference: Inference::default() }
    }
}

/// Converts a question about conversations from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn answer_from_wire(request: wire::AnswerRequest) -> Result<ChatQuestion, Error> {
    let mut violations = Violations::default();
    let filter = turns_from_wire(&request.user, None, request.filter, &mut violations);
    let chosen = wire::ChatSettings {
        keys: request.keys,
        merging: request.merging,
        value: request.value,
        time: request.time,
        history: request.history,
        notes: request.notes,
        layout: request.layout,
    };
    let choice = choice_from_wire("", chosen, &mut violations);
    let inference = Inference::from_wire(request.inference, &mut violations);
    let strategy = match request.strategy.as_str() {
        "" => RECALLING.to_owned(),
        _ => request.strategy,
    };
    if strategy != RECALLING {
        check_without_recalling(&strategy, &choice, inference, &mut violations);
    }
    violations.into_result()?;
    let asked = query::AnswerRequest {
        corpus: request.corpus,
        question: request.question,
        strategy,
        k: request.k,
        filter: Some(super::query::filter_to_wire(filter)),
        task: query::Task::Answer.into(),
        asked_at: request.asked_at,
        evidence_tokens: None,
        memory_use: query::MemoryUse::Unspecified.into(),
        rerank: None,
        with_attributes: false,
    };
    Ok(ChatQuestion { asked, choice, inference })
}

/// Name of the strategy that answers questions about conversations from what it recalls of them.
const RECALLING: &str = "chat";

/// Adds violations for settings that only the recalling strategy uses.
fn check_without_recalling(
    strategy: &str,
    choice: &ChatChoice,
    inference: Inference,
    violations: &mut Violations,
) {
    let chosen = [
        ("value", choice.value.is_some()),
        ("time", choice.time.is_some()),
        ("history", choice.history.is_some()),
        ("inference", inference == Inference::Model),
        ("keys", !choice.keys.is_empty()),
        ("merging", choice.merging.is_some()),
    ];
    for (field, _) in chosen.into_iter().filter(|(_, is_chosen)| *is_chosen) {
        let problem =
            format!("expected none: only the strategy `{RECALLING}` goes by it, got `{strategy}`");
        violations.push(field, problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u32) -> Turn {
        let time = Some(Timestamp::from_micros(7));
        let (role, speaker, text) = (SpeakerRole::User, "Ada".to_owned(), "Hello".to_owned());
        let id = TurnId { session: "monday".parse().unwrap(), number };
        let attributes = [("topic".to_owned().try_into().unwrap(), "greeting".into())].into();
        Turn { id, role, speaker, text, time, attributes }
    }

    #[test]
    fn turns_round_trip() {
        let appended = Appended {
            corpus: "chats".parse().unwrap(),
            user: "ada".to_owned(),
            turns: vec![turn(1), turn(0)],
            inference: Inference::Model,
            labels: Labels::parse(["a"]).unwrap(),
        };
        let back = append_from_wire(append_to_wire(appended.clone())).unwrap();
        assert_eq!(back, appended);
    }

    #[test]
    fn what_is_wrong_with_a_request_is_told_by_name() {
        let blank = wire::Turn { number: 1, role: 7, ..wire::Turn::default() };
        let request = wire::AppendTurnsRequest {
            corpus: "chats".to_owned(),
            session: "a/b".to_owned(),
            turns: vec![turn_to_wire(turn(1)), blank],
            ..wire::AppendTurnsRequest::default()
        };
        let error = append_from_wire(request).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["user", "session", "turns[1].number", "turns[1].role"]);
        let request =
            wire::RecallRequest { k: Some(0), value: 9, ..wire::RecallRequest::default() };
        let error = recall_from_wire(request, &Limits::default()).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["corpus", "user", "k", "question", "value"]);
        let request = wire::AnswerRequest {
            user: "ada".to_owned(),
            merging: 9,
            time: 9,
            history: 9,
            notes: 9,
            layout: 9,
            ..wire::AnswerRequest::default()
        };
        let error = answer_from_wire(request).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["merging", "time", "history", "notes", "layout"]);
    }

    #[test]
    fn settings_of_a_corpus_are_refused_by_field() {
        let refused = |settings: wire::ChatSettings| {
            let mut violations = Violations::default();
            settings_from_wire(settings, &mut violations);
            let error = violations.into_result().unwrap_err();
            error.violations().iter().map(|v| v.field.clone()).collect::<Vec<_>>()
        };
        let (keys, rank) = (vec!["fact".to_owned()], wire::Merging::Rank.into());
        let settings = wire::ChatSettings { keys, merging: rank, value: 9, ..Default::default() };
        assert_eq!(refused(settings), ["chat.value", "chat.keys", "chat.merging"]);
    }

    #[test]
    fn strategies_that_recall_nothing_are_not_told_how() {
        let recalling = wire::AnswerRequest {
            user: "ada".to_owned(),
            keys: vec!["value".to_owned()],
            merging: wire::Merging::Best.into(),
            value: wire::Value::Turn.into(),
            time: wire::TimeUse::Filter.into(),
            history: wire::History::All.into(),
            inference: wire::Inference::Model.into(),
            notes: wire::Notes::Direct.into(),
            layout: wire::Layout::Text.into(),
            ..Default::default()
        };
        assert!(answer_from_wire(recalling.clone()).is_ok());
        let request = wire::AnswerRequest { strategy: "direct".to_owned(), ..recalling };
        let error = answer_from_wire(request).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["value", "time", "history", "inference", "keys", "merging"]);
    }

    #[test]
    fn what_a_question_does_not_say_is_left_to_its_corpus() {
        let request = wire::AnswerRequest { user: "ada".to_owned(), ..Default::default() };
        assert_eq!(answer_from_wire(request.clone()).unwrap().choice, ChatChoice::default());
        let keys = vec!["fact".to_owned()];
        let notes = wire::Notes::Direct.into();
        let request = wire::AnswerRequest { keys: keys.clone(), notes, ..request };
        let choice = ChatChoice { keys, notes: Some(Notes::Direct), ..ChatChoice::default() };
        assert_eq!(answer_from_wire(request).unwrap().choice, choice);
    }

    #[test]
    fn turns_are_forgotten_by_number_filter_or_search() {
        let all = wire::ForgetTurnsRequest {
            corpus: "chats".to_owned(),
            user: "ada".to_owned(),
            ..wire::ForgetTurnsRequest::default()
        };
        let limits = Limits::default();
        let which = |request| forget_from_wire(request, &limits).map(|asked| asked.which);
        assert_eq!(which(all.clone()).unwrap(), WhichTurns::All);
        let about = wire::ForgetTurnsRequest { about: "cats".to_owned(), k: 3, ..all.clone() };
        assert_eq!(which(about.clone()).unwrap(), WhichTurns::About("cats".to_owned(), 3));
        let numbered = wire::ForgetTurnsRequest { numbers: vec![4], ..all.clone() };
        let of_session =
            wire::ForgetTurnsRequest { session: "monday".to_owned(), ..numbered.clone() };
        assert_eq!(which(of_session.clone()).unwrap(), WhichTurns::Numbered(vec![4]));
        let time = Some(prost_types::Timestamp::default());
        let filter = Some(query::Filter { event_time_until: time, ..query::Filter::default() });
        let documents = query::Filter { document_ids: vec!["a".to_owned()], ..Default::default() };
        for (request, field) in [
            (numbered, "numbers"),
            (wire::ForgetTurnsRequest { k: 0, ..about }, "k"),
            (wire::ForgetTurnsRequest { filter, ..of_session }, "numbers"),
            (wire::ForgetTurnsRequest { filter: Some(documents), ..all }, "filter.document_ids"),
        ] {
            assert_eq!(which(request).unwrap_err().violations()[0].field, field);
        }
    }

    #[test]
    fn what_is_wrong_with_a_filter_or_a_search_is_told_by_the_fields_of_the_request() {
        let twice = vec!["a".to_owned(), "a".to_owned()];
        let late = Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 });
        let filter = query::Filter {
            document_ids: twice,
            event_time_from: late,
            event_time_until: late,
            ..query::Filter::default()
        };
        let request = wire::ForgetTurnsRequest {
            corpus: "chats".to_owned(),
            user: "ada".to_owned(),
            filter: Some(filter),
            about: " ".to_owned(),
            k: 1,
            ..wire::ForgetTurnsRequest::default()
        };
        let error = forget_from_wire(request, &Limits::default()).unwrap_err();
        let fields = error.fields_at_fault();
        let expected = [
            "filter.document_ids[1]",
            "filter.event_time_from",
            "filter.event_time_until",
            "filter.document_ids",
            "about",
        ];
        assert_eq!(fields, expected);
    }
}
