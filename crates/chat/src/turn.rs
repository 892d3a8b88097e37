//! Turns, how they are kept as documents, and the rounds that they make.

use std::ops::Range;

use clew_core::{
    AttributeName, Attributes, Document, DocumentId, Error, Filter, MediaType, Timestamp,
    Violations,
};

/// Who says something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Someone in a conversation of several.
    #[default]
    Other,
    /// The user of an assistant.
    User,
    /// An assistant.
    Assistant,
}

impl Role {
    /// Its name in attributes, and the speaker's where it has none; empty for [`Role::Other`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Other => "",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            _ => Self::Other,
        }
    }
}

/// Where a turn stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Whose memory it is in.
    pub user: String,
    /// Which conversation.
    pub session: String,
    /// Which turn of it, from 0.
    pub number: u32,
}

/// Something that was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Its place in the session.
    pub number: u32,
    /// Who said it.
    pub role: Role,
    /// The speaker's name; empty for the role's.
    pub speaker: String,
    /// What was said.
    pub text: String,
    /// When.
    pub time: Option<Timestamp>,
}

/// Bytes of a user's or session's name.
const MAX_NAME_BYTES: usize = 200;
/// Bytes of what is said at once.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Bytes of a speaker's name.
const MAX_SPEAKER_BYTES: usize = 200;

const USER: &str = "chat.user";
const SESSION: &str = "chat.session";
const ROLE: &str = "chat.role";
const SPEAKER: &str = "chat.speaker";

impl Address {
    /// Adds what is wrong with the name of a user or session to `violations`.
    pub fn check(field: &str, name: &str, violations: &mut Violations) {
        let fits = |c: char| c != '/' && !c.is_control();
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.chars().all(fits) {
            let problem =
                format!("expected 1 to {MAX_NAME_BYTES} bytes without `/` and control characters");
            violations.push(field, problem);
        }
    }

    /// What the ids of a user's turns begin with, or those of one of the user's sessions.
    pub fn prefix(user: &str, session: Option<&str>) -> String {
        match session {
            Some(session) => format!("{user}/{session}/"),
            None => format!("{user}/"),
        }
    }

    /// The id of the turn's document. Ids of a session are in the order of its turns.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] for names that [`Address::check`] refuses.
    pub fn document_id(&self) -> Result<DocumentId, Error> {
        let Self { user, session, number } = self;
        let mut violations = Violations::default();
        Self::check("user", user, &mut violations);
        Self::check("session", session, &mut violations);
        violations.into_result()?;
        format!("{}{number:010}", Self::prefix(user, Some(session))).parse()
    }

    /// The address that a document's id is, if it is one.
    pub fn of(id: &DocumentId) -> Option<Self> {
        let mut parts = id.as_str().split('/');
        let (user, session, number) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none() && number.len() == 10;
        let number = number.parse().ok().filter(|_| is_whole)?;
        Some(Self { user: user.to_owned(), session: session.to_owned(), number })
    }
}

/// That something is of a user's memory.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] for a name that [`Address::check`] refuses.
pub fn user_filter(user: &str) -> Result<Filter, Error> {
    let mut violations = Violations::default();
    Address::check("user", user, &mut violations);
    violations.into_result()?;
    let attributes = vec![(AttributeName::try_from(USER.to_owned())?, user.to_owned())];
    Ok(Filter { attributes, ..Filter::default() })
}

impl Turn {
    /// Adds what is wrong with it to `violations`; `field` is what it is called there.
    pub fn check(&self, field: &str, violations: &mut Violations) {
        let bytes = self.text.len();
        if self.text.trim().is_empty() || bytes > MAX_TEXT_BYTES {
            let problem = format!("expected 1 to {MAX_TEXT_BYTES} bytes, not all of them blank");
            violations.push(format!("{field}.text"), problem);
        }
        if self.speaker.len() > MAX_SPEAKER_BYTES || self.speaker.chars().any(char::is_control) {
            let problem =
                format!("expected at most {MAX_SPEAKER_BYTES} bytes without control characters");
            violations.push(format!("{field}.speaker"), problem);
        }
    }

    /// The name under which it is said.
    fn name(&self) -> &str {
        if self.speaker.is_empty() { self.role.as_str() } else { &self.speaker }
    }

    /// What goes before the text in its document, so that it is found by who said it, too.
    fn heading(&self) -> String {
        match self.name() {
            "" => String::new(),
            name => format!("{name}: "),
        }
    }

    /// It as a document.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] for names that [`Address::check`] refuses.
    pub fn document(&self, user: &str, session: &str) -> Result<Document, Error> {
        let (number, session) = (self.number, session.to_owned());
        let address = Address { user: user.to_owned(), session: session.clone(), number };
        let mut attributes = Attributes::new();
        let values = [
            (USER, user.to_owned()),
            (SESSION, session),
            (ROLE, self.role.as_str().to_owned()),
            (SPEAKER, self.speaker.clone()),
        ];
        for (name, value) in values {
            attributes.insert(AttributeName::try_from(name.to_owned())?, value);
        }
        Ok(Document {
            id: address.document_id()?,
            text: format!("{}{}", self.heading(), self.text),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes,
            event_time: self.time,
        })
    }

    /// The turn that a document is, with where it stands, if it is one.
    pub fn of(document: &Document) -> Option<(Address, Self)> {
        let address = Address::of(&document.id)?;
        let value = |name: &str| {
            let name = AttributeName::try_from(name.to_owned()).ok()?;
            document.attributes.get(&name).cloned()
        };
        let mut turn = Self {
            number: address.number,
            role: Role::named(&value(ROLE)?),
            speaker: value(SPEAKER)?,
            text: String::new(),
            time: document.event_time,
        };
        turn.text = document.text.strip_prefix(&turn.heading())?.to_owned();
        Some((address, turn))
    }
}

/// The rounds of a session, as ranges of its turns, which are in order: what a user said with what an assistant
/// replied (LongMemEval, section 4). Whatever else is said is a round by itself.
pub fn rounds(turns: &[Turn]) -> Vec<Range<usize>> {
    let mut rounds: Vec<Range<usize>> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        match rounds.last_mut() {
            Some(round)
                if turn.role == Role::Assistant && turns[round.start].role != Role::Other =>
            {
                round.end = at + 1;
            }
            _ => rounds.push(at..at + 1),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turn(number: u32, role: Role, text: &str) -> Turn {
        Turn { number, role, text: text.to_owned(), ..Turn::default() }
    }

    #[test]
    fn a_round_is_a_users_turn_with_its_replies() {
        use Role::{Assistant, Other, User};
        let roles =
            [Assistant, User, Assistant, Assistant, User, User, Assistant, Other, Assistant];
        let turns: Vec<Turn> =
            (0..).zip(roles).map(|(number, role)| turn(number, role, "hm")).collect();
        assert_eq!(rounds(&turns), [0..1, 1..4, 4..5, 5..7, 7..8, 8..9]);
        assert!(rounds(&[]).is_empty());
    }

    #[test]
    fn names_that_would_be_others_are_refused() {
        for name in ["", "a/b", "a\n", &"x".repeat(201)] {
            let turn = turn(0, Role::User, "Hello");
            let fields: Vec<String> = [turn.document(name, "s"), turn.document("u", name)]
                .map(|refused| refused.unwrap_err().violations()[0].field.clone())
                .into();
            assert_eq!(fields, ["user", "session"], "{name:?}");
            assert!(user_filter(name).is_err());
        }
        let other: DocumentId = "ada/notes/1.txt".parse().unwrap();
        assert_eq!(Address::of(&other), None);
    }

    #[test]
    fn what_is_wrong_with_a_turn_is_told_by_name() {
        let mut violations = Violations::default();
        let wrong = Turn { speaker: "\n".to_owned(), ..turn(0, Role::User, " ") };
        wrong.check("turns[3]", &mut violations);
        let error = violations.into_result().unwrap_err();
        let fields: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["turns[3].text", "turns[3].speaker"]);
    }

    proptest! {
        #[test]
        fn a_turn_comes_back_from_its_document(
            number: u32,
            role in prop::sample::select(vec![Role::Other, Role::User, Role::Assistant]),
            speaker in "[^\\p{Cc}]{0,12}",
            text in ".{1,40}",
            user in "[^/\\p{Cc}]{1,9}",
            session in "[^/\\p{Cc}]{1,9}",
        ) {
            let turn = Turn { number, role, speaker, text, time: None };
            let document = turn.document(&user, &session).unwrap();
            let (address, back) = Turn::of(&document).unwrap();
            prop_assert_eq!(back, turn);
            prop_assert_eq!(address, Address { user, session, number });
        }

        #[test]
        fn ids_of_a_session_are_in_its_order(numbers in prop::collection::vec(any::<u32>(), 2..20)) {
            let id = |number: &u32| {
                let (user, session) = ("u".to_owned(), "s".to_owned());
                Address { user, session, number: *number }.document_id().unwrap()
            };
            let mut by_number = numbers.clone();
            by_number.sort_unstable();
            let mut by_id = numbers;
            by_id.sort_by_key(id);
            prop_assert_eq!(by_number, by_id);
        }
    }
}
