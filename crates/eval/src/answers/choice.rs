//! Multiple choice: reading the chosen option from an answer.

use super::overlap::{squad_f1, squad_words};

/// Option of a multiple-choice question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceOption {
    /// Letter of the option, in upper case.
    pub letter: char,
    /// Text of the option.
    pub text: String,
}

/// Words after which a bare letter names an option.
const ANNOUNCEMENTS: [&str; 6] = ["answer", "is", "option", "choice", "letter", "choose"];

/// Returns the letter of the option that `answer` names, or `None` if it names none or several.
///
/// An answer that repeats an option's text names it. Otherwise the letter of an option must stand
/// alone: in brackets or with punctuation (`(B)`, `B.`, `**B**`), or in upper case after a word
/// such as `answer` or `is`, or as the first or last word. A letter at the beginning of the answer
/// wins; elsewhere all letters must agree. `A` without punctuation is taken for the article unless
/// it is the last word.
///
/// This differs from `process_output_mc` of L-Eval's `auto_eval.py`, which takes the first capital
/// A to D anywhere, also within a word, and guesses A if there is none. Nothing is guessed here.
pub fn chosen_letter(answer: &str, options: &[ChoiceOption]) -> Option<char> {
    let words = squad_words(answer);
    let mut said = options.iter().filter(|option| squad_words(&option.text) == words);
    if let (false, Some(option), None) = (words.is_empty(), said.next(), said.next()) {
        return Some(option.letter);
    }
    let words: Vec<&str> = answer.split_whitespace().collect();
    let named = |place: usize| letter_at(&words, place, options);
    if let Some(letter) = named(0) {
        return Some(letter);
    }
    let mut letters: Vec<char> = (0..words.len()).filter_map(named).collect();
    letters.dedup();
    match letters[..] {
        [letter] => Some(letter),
        _ => None,
    }
}

/// Returns the options whose text shares most words with `answer`, by [`squad_f1`]: several if they
/// share as much, and all if none shares any.
pub fn most_alike<'o>(answer: &str, options: &'o [ChoiceOption]) -> Vec<&'o ChoiceOption> {
    let score = |option: &ChoiceOption| squad_f1(answer, std::slice::from_ref(&option.text));
    let best = options.iter().map(score).fold(0.0, f64::max);
    options.iter().filter(|option| score(option) >= best).collect()
}

/// Returns the option that the word at `place` names.
fn letter_at(words: &[&str], place: usize, options: &[ChoiceOption]) -> Option<char> {
    let word = *words.get(place)?;
    let is_mark = |c: char| c.is_ascii_punctuation();
    let mut bare = word.trim_matches(is_mark).chars();
    let (Some(letter), None) = (bare.next(), bare.next()) else { return None };
    let is_option = |option: &&ChoiceOption| option.letter.eq_ignore_ascii_case(&letter);
    let option = options.iter().find(is_option)?.letter;
    let (is_only, is_last) = (words.len() == 1, place + 1 == words.len());
    let is_marked = word.chars().count() > 1 && (!is_last || word.starts_with(is_mark));
    if is_only || is_marked && (letter == option || word.starts_with('(')) {
        return Some(option);
    }
    if letter != option || (letter == 'A' && !is_last) {
        return None;
    }
    let before = place.checked_sub(1).map(|before| words[before].trim_matches(is_mark));
    let is_announced = before.is_none_or(|before| {
        ANNOUNCEMENTS.iter().any(|announcement| announcement.eq_ignore_ascii_case(before))
    });
    (is_announced || is_last).then_some(option)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_option_that_is_named_is_found_and_nothing_is_guessed() {
        let options: Vec<_> =
            [('A', "Unknown"), ('B', "A red boat"), ('C', "Two boats"), ('D', "")]
                .map(|(letter, text)| ChoiceOption { letter, text: text.to_owned() })
                .to_vec();
        let cases = [
            ("B", Some('B')),
            ("b", Some('B')),
            ("(B)", Some('B')),
            ("(b) a boat", Some('B')),
            ("B. A red boat", Some('B')),
            ("**C**", Some('C')),
            ("(A) Unknown", Some('A')),
            ("A", Some('A')),
            ("a red boat!", Some('B')),
            ("The red boat", Some('B')),
            ("The answer is C", Some('C')),
            ("The answer is A.", Some('A')),
            ("The answer is: (C), for (C) holds.", Some('C')),
            ("Answer: B because of the boat", Some('B')),
            ("C, since (B) does not hold", Some('C')),
            ("It must be B", Some('B')),
            ("A man rowed it", None),
            ("a man rowed it", None),
            ("either (B) or (C)", None),
            ("(E)", None),
            ("I do not know", None),
            ("Bad Dogs", None),
        ];
        for (answer, expected) in cases {
            assert_eq!(chosen_letter(answer, &options), expected, "{answer}");
        }
        assert_eq!(chosen_letter("B", &[]), None);
        assert_eq!(chosen_letter(" ", &options), None);
    }

    #[test]
    fn the_options_that_share_most_words_are_the_most_alike() {
        let options = ['A', 'B', 'C'].map(|letter| ChoiceOption {
            letter,
            text: ["a red boat", "the red, red house", "two boats"][letter as usize - 65]
                .to_owned(),
        });
        let letters = |answer: &str| {
            most_alike(answer, &options).iter().map(|option| option.letter).collect::<String>()
        };
        assert_eq!(letters("They saw two boats."), "C");
        assert_eq!(letters("red"), "A");
        assert_eq!(letters("boats in red"), "AC");
        assert_eq!(letters("nothing of the kind"), "ABC");
        assert_eq!(letters(""), "ABC");
        assert!(most_alike("red", &[]).is_empty());
    }

    proptest! {
        #[test]
        fn an_option_and_its_letter_name_it(texts in prop::collection::btree_set("[b-z]{2,6}", 2..6), right in 0usize..6) {
            let options: Vec<_> = ('A'..).zip(texts).map(|(letter, text)| ChoiceOption { letter, text }).collect();
            let ChoiceOption { letter, text } = &options[right % options.len()];
            for answer in [format!("({letter})"), letter.to_string(), text.clone(), format!("({letter}) {text}")] {
                prop_assert_eq!(chosen_letter(&answer, &options), Some(*letter), "{}", answer);
            }
        }

        #[test]
        fn whatever_is_answered_names_an_option_or_none(answer in "[A-Ca-c(). é\n]{0,12}") {
            let option = |letter| ChoiceOption { letter, text: letter.to_string() };
            let letter = chosen_letter(&answer, &[option('A'), option('B')]);
            prop_assert!(letter.is_none_or(|letter| ['A', 'B'].contains(&letter)));
        }
    }
}
