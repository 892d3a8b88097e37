//! Cutting a dialogue of a user and an assistant into rounds.

use std::ops::Range;

/// The rounds of a dialogue: each begins with a user's turn and ends before the next one. Turns
/// before the first user's turn are a round of their own, so that the rounds cover the dialogue.
pub(super) fn rounds<T>(turns: &[T], is_user: impl Fn(&T) -> bool) -> Vec<Range<usize>> {
    let mut rounds: Vec<Range<usize>> = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        match rounds.last_mut() {
            Some(round) if !is_user(turn) => round.end = index + 1,
            _ => rounds.push(index..index + 1),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_a_user_turn_with_its_answers() {
        let cases = [("", ""), ("uaua", "ua ua"), ("uaa", "uaa"), ("uua", "u ua"), ("aua", "a ua")];
        for (turns, expected) in cases {
            let rounds = rounds(turns.as_bytes(), |turn| *turn == b'u');
            let cut: Vec<_> = rounds.into_iter().map(|round| &turns[round]).collect();
            assert_eq!(cut.join(" "), expected, "{turns}");
        }
    }
}
