//! Turns: who says what, and when.

use crate::{Attributes, DocumentId, Timestamp};

/// Role of a speaker, as far as it matters for cutting and reading a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpeakerRole {
    /// The user whose memory it is and who asks later: "I" in a question is "I" in these turns.
    User,
    /// A model that answers the user.
    Assistant,
    /// One of several people, whom questions call by name.
    Other,
}

/// Identity of a turn. Ids of a session are ordered like its conversation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId {
    /// The session.
    pub session: DocumentId,
    /// Position in the session, ascending. Positions may be left out.
    pub number: u32,
}

/// One utterance of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Identity, unique in the memory.
    pub id: TurnId,
    /// Name of the speaker. May be empty.
    pub speaker: String,
    /// Role of the speaker.
    pub role: SpeakerRole,
    /// Text that is said, and nothing else.
    pub text: String,
    /// Time at which it is said.
    pub time: Option<Timestamp>,
    /// Attributes for filters.
    pub attributes: Attributes,
}

impl Turn {
    /// Returns the text, after the speaker's name if there are several people.
    pub fn line(&self) -> String {
        match self.role {
            SpeakerRole::Other if !self.speaker.is_empty() => {
                format!("{}: {}", self.speaker, self.text)
            }
            SpeakerRole::User | SpeakerRole::Assistant | SpeakerRole::Other => self.text.clone(),
        }
    }
}
