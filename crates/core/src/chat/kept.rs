//! Turns as documents of a corpus.

use crate::{
    AttributeName, AttributeValue, Document, DocumentId, Error, Filter, Labels, MediaType,
    SpeakerRole, Turn, TurnId, Violations,
};

/// Address of a turn: its user, session and number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnAddress {
    /// The user whose memory it is in.
    pub user: String,
    /// Session and number of the turn.
    pub turn: TurnId,
}

/// Maximum length of the name of a user or session in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Maximum length of the text of a turn in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum length of the name of a speaker in bytes.
const MAX_SPEAKER_BYTES: usize = 200;

const USER: &str = "chat.user";
const SESSION: &str = "chat.session";
const ROLE: &str = "chat.role";
const SPEAKER: &str = "chat.speaker";
/// Prefix of the attribute names that are reserved for chat memory.
const OURS: &str = "chat.";
/// Maximum number of attributes that a caller may give a turn, and maximum size of their names and
/// values in bytes.
const MAX_ATTRIBUTES: usize = 32;
const MAX_ATTRIBUTE_BYTES: usize = 8 << 10;

impl SpeakerRole {
    /// Returns the role's name in attributes and before the text of an unnamed speaker. Empty for
    /// [`SpeakerRole::Other`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Other => "",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    /// Returns the text before a turn in its document, so that the turn is also found by its
    /// speaker.
    pub fn heading(self, speaker: &str) -> String {
        let name = if speaker.is_empty() { self.as_str() } else { speaker };
        if name.is_empty() { String::new() } else { format!("{name}: ") }
    }

    fn named(name: &str) -> Self {
        match name {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            _ => Self::Other,
        }
    }
}

impl TurnAddress {
    /// Adds the problems of the name of a user or session to `violations`.
    pub fn check(field: &str, name: &str, violations: &mut Violations) {
        let fits = |c: char| c != '/' && !c.is_control();
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.chars().all(fits) {
            let problem =
                format!("expected 1 to {MAX_NAME_BYTES} bytes without `/` and control characters");
            violations.push(field, problem);
        }
    }

    /// Returns the prefix of the ids of a user's turns, or of the turns of one of the user's
    /// sessions.
    pub fn prefix(user: &str, session: Option<&str>) -> String {
        match session {
            Some(session) => format!("{user}/{session}/"),
            None => format!("{user}/"),
        }
    }

    /// Returns the id of the turn's document. The ids of a session are in the order of its turns.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if [`TurnAddress::check`] rejects a name.
    pub fn document_id(&self) -> Result<DocumentId, Error> {
        let Self { user, turn: TurnId { session, number } } = self;
        let mut violations = Violations::default();
        Self::check("user", user, &mut violations);
        Self::check("session", session.as_str(), &mut violations);
        violations.into_result()?;
        format!("{}{number:010}", Self::prefix(user, Some(session.as_str()))).parse()
    }

    /// Parses a document's id. Returns `None` if it is not the address of a turn.
    pub fn of(id: &DocumentId) -> Option<Self> {
        let mut parts = id.as_str().split('/');
        let (user, session, number) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none() && number.len() == 10;
        let number = number.parse().ok().filter(|_| is_whole)?;
        Some(Self {
            user: user.to_owned(),
            turn: TurnId { session: session.parse().ok()?, number },
        })
    }
}

/// Returns the filter for the turns of a user, or of one of the user's sessions.
///
/// # Errors
/// Returns [`crate::ErrorKind::InvalidInput`] if [`TurnAddress::check`] rejects a name.
pub fn turn_filter(user: &str, session: Option<&str>) -> Result<Filter, Error> {
    let mut violations = Violations::default();
    TurnAddress::check("user", user, &mut violations);
    if let Some(session) = session {
        TurnAddress::check("session", session, &mut violations);
    }
    violations.into_result()?;
    let mut attributes = vec![(AttributeName::try_from(USER.to_owned())?, user.to_owned())];
    if let Some(session) = session {
        attributes.push((AttributeName::try_from(SESSION.to_owned())?, session.to_owned()));
    }
    Ok(Filter { attributes, ..Filter::default() })
}

impl Turn {
    /// Adds the problems of the turn to `violations`. `field` is the name of the turn there.
    pub fn check(&self, field: &str, violations: &mut Violations) {
        if self.text.trim().is_empty() || self.text.len() > MAX_TEXT_BYTES {
            let problem = format!("expected 1 to {MAX_TEXT_BYTES} bytes, not all of them blank");
            violations.push(format!("{field}.text"), problem);
        }
        if self.speaker.len() > MAX_SPEAKER_BYTES || self.speaker.chars().any(char::is_control) {
            let problem =
                format!("expected at most {MAX_SPEAKER_BYTES} bytes without control characters");
            violations.push(format!("{field}.speaker"), problem);
        }
        if self.attributes.keys().any(|name| name.as_str().starts_with(OURS)) {
            let problem = format!("expected no name that begins with `{OURS}`");
            violations.push(format!("{field}.attributes"), problem);
        }
        let length =
            |(name, value): (&AttributeName, &AttributeValue)| name.as_str().len() + value.bytes();
        let bytes: usize = self.attributes.iter().map(length).sum();
        if self.attributes.len() > MAX_ATTRIBUTES || bytes > MAX_ATTRIBUTE_BYTES {
            let problem = format!(
                "expected at most {MAX_ATTRIBUTES} of {MAX_ATTRIBUTE_BYTES} bytes in all, got {} of \
                 {bytes}",
                self.attributes.len()
            );
            violations.push(format!("{field}.attributes"), problem);
        }
    }

    /// Returns the text of the turn's document: what is said, after the name of its speaker.
    pub fn document_text(&self) -> String {
        format!("{}{}", self.role.heading(&self.speaker), self.text)
    }

    /// Returns the turn as a document of a user's memory, with a `title` by which it is also found.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if [`TurnAddress::check`] rejects a name.
    pub fn document(&self, user: &str, title: String) -> Result<Document, Error> {
        let address = TurnAddress { user: user.to_owned(), turn: self.id.clone() };
        let values = [
            (USER, user),
            (SESSION, self.id.session.as_str()),
            (ROLE, self.role.as_str()),
            (SPEAKER, &self.speaker),
        ];
        let mut attributes = self.attributes.clone();
        for (name, value) in values {
            attributes.insert(AttributeName::try_from(name.to_owned())?, value.into());
        }
        Ok(Document {
            id: address.document_id()?,
            text: self.document_text(),
            media_type: MediaType::Plain,
            title,
            attributes,
            event_time: self.time,
            labels: Labels::default(),
            source_version: None,
        })
    }

    /// Returns the turn that a document holds and the user whose memory it is in. Returns `None` if
    /// it is not a turn.
    pub fn of(document: &Document) -> Option<(String, Self)> {
        let TurnAddress { user, turn: id } = TurnAddress::of(&document.id)?;
        let value = |name: &str| {
            let name = AttributeName::try_from(name.to_owned()).ok()?;
            document.attributes.get(&name)?.as_text().map(ToOwned::to_owned)
        };
        let own = |(name, _): &(&AttributeName, &AttributeValue)| !name.as_str().starts_with(OURS);
        let own = document.attributes.iter().filter(own);
        let mut turn = Self {
            id,
            role: SpeakerRole::named(&value(ROLE)?),
            speaker: value(SPEAKER)?,
            text: String::new(),
            time: document.event_time,
            attributes: own.map(|(name, value)| (name.clone(), value.clone())).collect(),
        };
        turn.text = document.text.strip_prefix(&turn.role.heading(&turn.speaker))?.to_owned();
        Some((user, turn))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Attributes;

    fn turn(session: &str, number: u32, text: &str) -> Turn {
        Turn {
            id: TurnId { session: session.parse().unwrap(), number },
            speaker: String::new(),
            role: SpeakerRole::User,
            text: text.to_owned(),
            time: None,
            attributes: Attributes::new(),
        }
    }

    #[test]
    fn names_that_would_be_others_are_refused() {
        for name in ["a/b", &"x".repeat(201)] {
            let error = turn("s", 0, "Hello").document(name, String::new()).unwrap_err();
            assert_eq!(error.violations()[0].field, "user");
            let error = turn(name, 0, "Hello").document("u", String::new()).unwrap_err();
            assert_eq!(error.violations()[0].field, "session");
        }
        for name in ["", "a/b", "a\n"] {
            assert!(turn_filter(name, None).is_err(), "{name:?}");
            assert!(turn_filter("u", Some(name)).is_err(), "{name:?}");
        }
        let other: DocumentId = "ada/notes/1.txt".parse().unwrap();
        assert_eq!(TurnAddress::of(&other), None);
    }

    #[test]
    fn what_is_wrong_with_a_turn_is_told_by_name() {
        let mut violations = Violations::default();
        let ours = ("chat.user".to_owned().try_into().unwrap(), "bohumil".into());
        let attributes = Attributes::from([ours]);
        let wrong = Turn { speaker: "\n".to_owned(), attributes, ..turn("s", 0, " ") };
        wrong.check("turns[3]", &mut violations);
        let error = violations.into_result().unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["turns[3].text", "turns[3].speaker", "turns[3].attributes"]);
    }

    proptest! {
        #[test]
        fn a_turn_comes_back_from_its_document(
            number: u32,
            role in prop::sample::select(vec![SpeakerRole::Other, SpeakerRole::User, SpeakerRole::Assistant]),
            speaker in "[^\\p{Cc}]{0,12}",
            text in ".{1,40}",
            user in "[^/\\p{Cc}]{1,9}",
            session in "[^/\\p{Cc}]{1,9}",
            attributes in prop::collection::vec("[a-z.]{1,3}", 0..3),
        ) {
            let attributes = attributes.into_iter().map(|name| (name.try_into().unwrap(), text.clone().into()));
            let attributes = attributes.collect();
            let turn = Turn { role, speaker, attributes, ..turn(&session, number, &text) };
            let document = turn.document(&user, text).unwrap();
            prop_assert_eq!(Turn::of(&document), Some((user.clone(), turn.clone())));
            prop_assert_eq!(TurnAddress::of(&document.id), Some(TurnAddress { user, turn: turn.id }));
        }

        #[test]
        fn ids_of_a_session_are_in_its_order(numbers in prop::collection::vec(any::<u32>(), 2..20)) {
            let id = |number: &u32| turn("s", *number, "hm").document("u", String::new()).unwrap().id;
            let mut by_number = numbers.clone();
            by_number.sort_unstable();
            let mut by_id = numbers;
            by_id.sort_by_key(id);
            prop_assert_eq!(by_number, by_id);
        }
    }
}
