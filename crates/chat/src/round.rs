//! Rounds that turns form.

use std::collections::BTreeMap;

use clew_core::{SpeakerRole, Turn, TurnId};

/// Turns that belong together: a user's turn with the replies up to the user's next one, or one
/// turn of several people. LongMemEval recommends this unit for storage (section 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The turns, in order. Never empty.
    pub turns: Vec<Turn>,
}

impl Round {
    /// Returns the id of the first turn, which identifies the round.
    pub fn id(&self) -> &TurnId {
        &self.turns[0].id
    }
}

/// Returns the rounds of `turns`, by session and in order.
///
/// They depend only on the set of turns, so turns may be delivered in any order and more than once.
/// Of two turns with the same id, the greater one counts. What an assistant says before the user
/// says anything is a round by itself, so that the rounds cover the conversation.
pub fn rounds(turns: impl IntoIterator<Item = Turn>) -> Vec<Round> {
    let mut said: BTreeMap<TurnId, Turn> = BTreeMap::new();
    for turn in turns {
        match said.get(&turn.id) {
            Some(known) if *known >= turn => {}
            _ => {
                said.insert(turn.id.clone(), turn);
            }
        }
    }
    let mut rounds: Vec<Round> = Vec::new();
    for turn in said.into_values() {
        match rounds.last_mut() {
            Some(round)
                if turn.role == SpeakerRole::Assistant
                    && round.turns[0].role != SpeakerRole::Other
                    && round.id().session == turn.id.session =>
            {
                round.turns.push(turn);
            }
            _ => rounds.push(Round { turns: vec![turn] }),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use clew_core::Attributes;
    use proptest::prelude::*;

    use super::*;

    fn turn(session: &str, number: u32, role: SpeakerRole, text: &str) -> Turn {
        Turn {
            id: TurnId { session: session.parse().unwrap(), number },
            speaker: String::new(),
            role,
            text: text.to_owned(),
            time: None,
            attributes: Attributes::new(),
        }
    }

    /// Returns a conversation: `u` is a user, `a` an assistant, `o` another speaker, `|` the next
    /// session.
    fn conversation(roles: &str) -> Vec<Turn> {
        let mut turns = Vec::new();
        for (session, roles) in roles.split('|').enumerate() {
            for (number, role) in (0..).zip(roles.chars()) {
                let part = match role {
                    'u' => SpeakerRole::User,
                    'a' => SpeakerRole::Assistant,
                    _ => SpeakerRole::Other,
                };
                turns.push(turn(&format!("s{session:02}"), number, part, &role.to_string()));
            }
        }
        turns
    }

    fn cut(turns: Vec<Turn>) -> String {
        let text = |round: &Round| round.turns.iter().map(|turn| &*turn.text).collect::<String>();
        rounds(turns).iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_round_is_a_user_turn_with_its_answers() {
        for (turns, expected) in [
            ("", ""),
            ("uaua", "ua ua"),
            ("uaa", "uaa"),
            ("uua", "u ua"),
            ("aua", "a ua"),
            ("ooo", "o o o"),
            ("oau", "o a u"),
            ("u|a|ua", "u a ua"),
        ] {
            assert_eq!(cut(conversation(turns)), expected, "{turns}");
        }
    }

    #[test]
    fn turns_are_in_the_order_of_their_numbers() {
        let turns =
            [10, 9, 2].map(|number| turn("s", number, SpeakerRole::Other, &number.to_string()));
        assert_eq!(cut(turns.to_vec()), "2 9 10");
    }

    proptest! {
        #[test]
        fn rounds_depend_on_the_set_of_turns_alone(
            (delivered, again) in "[uao|]{0,24}".prop_flat_map(|roles| {
                let turns = conversation(&roles);
                let often = [&turns[..], &turns[..turns.len() / 2]].concat();
                (Just(turns).prop_shuffle(), Just(often).prop_shuffle())
            })
        ) {
            prop_assert_eq!(rounds(delivered), rounds(again));
        }

        #[test]
        fn rounds_hold_every_turn_once_and_never_mix_sessions(
            turns in "[uao|]{0,24}".prop_map(|roles| conversation(&roles))
        ) {
            let rounds = rounds(turns.clone());
            let held: Vec<Turn> = rounds.iter().flat_map(|round| round.turns.clone()).collect();
            prop_assert_eq!(held, turns);
            for round in &rounds {
                let session = &round.id().session;
                prop_assert!(round.turns.iter().all(|turn| turn.id.session == *session));
                prop_assert!(round.turns[1..].iter().all(|turn| turn.role == SpeakerRole::Assistant));
            }
        }

        #[test]
        fn of_two_turns_with_one_id_one_counts_in_any_order(a in ".{0,4}", b in ".{0,4}") {
            let [a, b] = [a, b].map(|text| turn("s", 1, SpeakerRole::User, &text));
            let there = rounds([a.clone(), b.clone()]);
            prop_assert_eq!(there.len(), 1);
            prop_assert_eq!(there, rounds([b, a]));
        }
    }
}
