//! Documents of turns, which are also found by the day of the turn and by its facts.

use clew_core::{Document, Error, Limits, Turn};

use crate::facts;
use crate::key::day_and_facts;

/// Returns a turn as a document of a user's memory, which is also found by its day and its
/// [`facts`]. Both depend only on the turn itself, so that turns may arrive in any order. The turn
/// before is taken into account by smoothing at recall.
///
/// # Errors
/// Returns the errors of [`Turn::document`].
pub fn turn_document(turn: &Turn, user: &str) -> Result<Document, Error> {
    turn_document_with(turn, user, &facts(turn))
}

/// Does the same as [`turn_document`], with facts found elsewhere, for example by a language model.
///
/// # Errors
/// Returns the errors of [`Turn::document`].
pub fn turn_document_with(turn: &Turn, user: &str, facts: &[String]) -> Result<Document, Error> {
    turn.document(user, day_and_facts(turn, facts, Limits::default().title_bytes))
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, SpeakerRole, TurnId};
    use proptest::prelude::*;

    use super::*;

    fn turn(speaker: &str, role: SpeakerRole, text: &str) -> Turn {
        Turn {
            id: TurnId { session: "s".parse().unwrap(), number: 0 },
            speaker: speaker.to_owned(),
            role,
            text: text.to_owned(),
            time: "2024-05-20T10:00:00Z".parse().ok(),
            attributes: Attributes::new(),
        }
    }

    #[test]
    fn a_turn_is_found_by_its_day_and_by_what_its_speaker_states() {
        let utterance = turn("Ada", SpeakerRole::Other, "I keep bees.");
        let document = turn_document(&utterance, "u").unwrap();
        assert!(document.title.contains("20 May 2024"), "{}", document.title);
        assert!(document.title.contains("Ada"), "{}", document.title);
        assert_eq!(document.text, "Ada: I keep bees.");
    }

    proptest! {
        #[test]
        fn what_a_turn_is_found_by_is_a_title(
            speaker in "[^\\p{Cc}]{0,12}",
            text in ".{1,40}|(I keep [a-z]{4} bees\\. ){1,120}",
        ) {
            let utterance = turn(&speaker, SpeakerRole::Other, &text);
            let document = turn_document(&utterance, "u").unwrap();
            prop_assert!(document.title.len() <= Limits::default().title_bytes);
        }
    }
}
