//! Places of a history in a session that is kept.
//!
//! Hosts send the whole conversation with every question, often without its beginning. Turns are
//! numbered by their places in the session, so that what is kept already changes nothing.

use std::hash::{DefaultHasher, Hash, Hasher};

use clew_proto::chat::v1::Role;

/// What two copies of a turn have in common: who said what. White space around a text does not
/// count, because hosts trim it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// Returns the mark of a turn.
    pub fn of(role: Role, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (role as i32, text.trim()).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Turn of a session that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Its number.
    pub number: u32,
    /// Its mark.
    pub mark: Mark,
}

/// Place of a turn that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its number in the session.
    pub number: u32,
    /// Whether the session does not have it, or has another text there.
    pub is_new: bool,
}

/// Returns the places of the turns that were sent, the last of which is the question, and then the
/// place of the reply. `kept` has the turns of the session by number. Returns `None` if what was
/// sent before the question contradicts what is kept.
///
/// 1. If what was sent agrees with what is kept from some turn on, until one of them ends, it
///    continues the session there. The longest agreement counts, and of equal ones the latest: the
///    host may have left out the beginning.
/// 2. A question by itself continues the session at its end.
/// 3. If it agrees with the first turns that are kept, the turn after them was edited.
/// 4. Anything else is another conversation.
///
/// A beginning that was left out is looked for where the histories can end together, so that the
/// work does not grow with the session.
pub(crate) fn places(kept: &[Kept], sent: &[Mark]) -> Option<Vec<Place>> {
    let agreed = |from: usize| {
        kept[from..].iter().zip(sent).take_while(|(kept, sent)| kept.mark == **sent).count()
    };
    let continues = |from: &usize| agreed(*from) == sent.len().min(kept.len() - from);
    // If the question is asked anew, its former reply comes after it.
    let earliest = kept.len().saturating_sub(sent.len() + 1);
    let beginnings = std::iter::once(0).chain(earliest..kept.len());
    let followed = beginnings.filter(continues).max_by_key(|from| (agreed(*from), *from));
    let from = followed
        .or_else(|| (sent.len() == 1).then_some(kept.len()))
        .or_else(|| (agreed(0) > 0).then_some(0))?;
    let next = kept.last().map_or(0, |last| last.number.saturating_add(1));
    let place = |offset: usize| {
        let at = from + offset;
        let (number, there) = match kept.get(at) {
            Some(kept) => (kept.number, Some(kept.mark)),
            // Requests are smaller than this.
            None => (next.saturating_add((at - kept.len()) as u32), None),
        };
        Place { number, is_new: there.is_none() || there != sent.get(offset).copied() }
    };
    Some((0..=sent.len()).map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of a user and an assistant in turn, one letter each.
    fn marks(said: &str) -> Vec<Mark> {
        let role = |letter: char| match letter.is_lowercase() {
            true => Role::User,
            false => Role::Assistant,
        };
        said.chars().map(|letter| Mark::of(role(letter), &letter.to_string())).collect()
    }

    /// Returns the numbers of what was sent and of the reply, those that are new with a star.
    fn check(kept: &str, sent: &str) -> Option<String> {
        let kept: Vec<Kept> =
            (0..).zip(marks(kept)).map(|(number, mark)| Kept { number, mark }).collect();
        let shown =
            |place: Place| format!("{}{}", place.number, if place.is_new { "*" } else { "" });
        Some(places(&kept, &marks(sent))?.into_iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_session_begins_with_whatever_history_it_has() {
        assert_eq!(check("", "a").unwrap(), "0* 1*");
        assert_eq!(check("", "aBc").unwrap(), "0* 1* 2* 3*");
    }

    #[test]
    fn a_history_that_is_sent_again_changes_nothing() {
        assert_eq!(check("aB", "aBc").unwrap(), "0 1 2* 3*");
        assert_eq!(check("aBcD", "aBcDe").unwrap(), "0 1 2 3 4* 5*");
    }

    #[test]
    fn a_question_that_is_asked_again_replaces_the_reply_alone() {
        assert_eq!(check("aB", "a").unwrap(), "0 1*");
        assert_eq!(check("aBcD", "aBc").unwrap(), "0 1 2 3*");
        assert_eq!(check("a", "a").unwrap(), "0 1*", "its reply was not kept");
    }

    #[test]
    fn a_history_without_its_beginning_is_found_at_the_end() {
        assert_eq!(check("aBcDeF", "eFg").unwrap(), "4 5 6* 7*");
        assert_eq!(check("aBcDeF", "DeFg").unwrap(), "3 4 5 6* 7*");
        assert_eq!(check("aBcDeF", "cDe").unwrap(), "2 3 4 5*", "asked again");
        assert_eq!(check("aBaBaB", "aBc").unwrap(), "4 5 6* 7*", "the latest of equal places");
    }

    #[test]
    fn a_question_without_a_history_continues_the_session() {
        assert_eq!(check("aBcD", "e").unwrap(), "4* 5*");
        assert_eq!(check("aBaB", "a").unwrap(), "2 3*", "the last question, asked again");
    }

    #[test]
    fn an_edited_turn_corrects_the_one_at_its_place() {
        assert_eq!(check("aBcD", "aBx").unwrap(), "0 1 2* 3*");
        assert_eq!(check("aBcD", "aXcDe").unwrap(), "0 1* 2 3 4* 5*");
    }

    #[test]
    fn another_conversation_is_no_continuation() {
        assert_eq!(check("aBcD", "xYz"), None);
        assert_eq!(check("aB", "bBc"), None);
        assert_eq!(check("aBcDeF", "aZ").unwrap(), "0 1* 2*");
    }

    #[test]
    fn numbers_that_the_session_lacks_stay_free() {
        let kept: Vec<Kept> = [2, 7]
            .into_iter()
            .zip(marks("aB"))
            .map(|(number, mark)| Kept { number, mark })
            .collect();
        let numbers: Vec<u32> =
            places(&kept, &marks("aBc")).unwrap().iter().map(|place| place.number).collect();
        assert_eq!(numbers, [2, 7, 8, 9]);
    }

    #[test]
    fn white_space_around_a_text_does_not_count() {
        assert_eq!(Mark::of(Role::User, " a\n"), Mark::of(Role::User, "a"));
        assert_ne!(Mark::of(Role::User, "a"), Mark::of(Role::Assistant, "a"));
    }
}
