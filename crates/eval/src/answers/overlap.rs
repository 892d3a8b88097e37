//! Scores by the words that an answer shares with a reference answer.
//!
//! With the multisets A and R of their words, precision is |A ∩ R| / |A|, recall |A ∩ R| / |R|, and
//! F1 their harmonic mean. If neither has words, F1 is 1, as in the script of SQuAD 2.0; if only
//! one has words, F1 is 0. Of several references, the best counts.

use std::collections::HashMap;

use super::porter::stem;

/// Returns 1 if the answer equals a reference answer except for case, punctuation and the articles
/// `a`, `an` and `the`, and 0 otherwise and without references (`evaluate-v2.0.py` of SQuAD,
/// Rajpurkar et al., 2018).
pub fn squad_exact_match(answer: &str, references: &[String]) -> f64 {
    let answer = squad_words(answer);
    f64::from(u8::from(references.iter().any(|reference| squad_words(reference) == answer)))
}

/// Returns the F1 of words in lower case, without punctuation and the articles `a`, `an` and `the`
/// (`evaluate-v2.0.py` of SQuAD, Rajpurkar et al., 2018); 0 without references.
pub fn squad_f1(answer: &str, references: &[String]) -> f64 {
    let answer = squad_words(answer);
    references.iter().map(|reference| f1(&answer, &squad_words(reference))).fold(0.0, f64::max)
}

/// Returns the F1 of Porter stems, without punctuation, articles and `and` (`f1_score` in
/// `task_eval/evaluation.py` of LoCoMo, Maharana et al., 2024).
pub fn locomo_f1(answer: &str, reference: &str) -> f64 {
    f1(&locomo_stems(answer), &locomo_stems(reference))
}

/// Returns LoCoMo's score of a multi-hop question (`f1` of the same script). Both texts are cut at
/// commas; each part of the reference scores the [`locomo_f1`] of the part of the answer that fits
/// it best, and the scores are averaged. The score is not symmetric: parts of the answer that fit
/// nothing cost nothing.
///
/// This differs from the script in that empty parts of the reference, as after a comma at the end,
/// are left out.
pub fn locomo_sub_answers_f1(answer: &str, reference: &str) -> f64 {
    let answers: Vec<_> = answer.split(',').map(locomo_stems).collect();
    let parts = reference.split(',').map(locomo_stems).filter(|part| !part.is_empty());
    let best: Vec<f64> = parts
        .map(|part| answers.iter().map(|answer| f1(answer, &part)).fold(0.0, f64::max))
        .collect();
    if best.is_empty() {
        return f64::from(u8::from(answers.iter().all(Vec::is_empty)));
    }
    best.iter().sum::<f64>() / best.len() as f64
}

pub(super) fn squad_words(text: &str) -> Vec<String> {
    words_without(text, &["a", "an", "the"])
}

fn locomo_stems(text: &str) -> Vec<String> {
    words_without(text, &["a", "an", "the", "and"]).iter().map(|word| stem(word)).collect()
}

/// Returns the words between blanks, in lower case. ASCII punctuation (`string.punctuation` of
/// Python) is removed before, then the words `left_out`, also beside a dash that is not ASCII.
fn words_without(text: &str, left_out: &[&str]) -> Vec<String> {
    let text: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_alphanumeric();
        let end = rest.find(|c: char| c.is_alphanumeric() != is_word).unwrap_or(rest.len());
        let piece = &rest[..end];
        kept.push_str(if left_out.contains(&piece) { " " } else { piece });
        rest = &rest[end..];
    }
    kept.split_whitespace().map(str::to_owned).collect()
}

fn f1(answer: &[String], reference: &[String]) -> f64 {
    if answer.is_empty() || reference.is_empty() {
        return f64::from(u8::from(answer.is_empty() && reference.is_empty()));
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in reference {
        *left.entry(word).or_default() += 1;
    }
    let mut shared = 0;
    for word in answer {
        if let Some(count) = left.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    // 2PR / (P + R) with P = shared / |A| and R = shared / |R|.
    2.0 * f64::from(shared) / (answer.len() + reference.len()) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(score: f64, expected: f64) {
        // Tolerance for a few additions and divisions of small numbers.
        assert!((score - expected).abs() < 1e-12, "{score} and not {expected}");
    }

    fn references(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn squad_scores_match_values_computed_by_hand() {
        // Each case: answer, references, exact match, F1.
        let cases: [(&str, &[&str], f64, f64); 8] = [
            ("The U.S. Army!", &["us army"], 1.0, 1.0),
            ("a cat", &["the dog", "An old cat"], 0.0, 2.0 / 3.0),
            ("in the old harbour of Genoa", &["Genoa harbour"], 0.0, 4.0 / 7.0),
            ("yes yes", &["yes"], 0.0, 2.0 / 3.0),
            ("the", &["a"], 1.0, 1.0),
            ("", &["Genoa"], 0.0, 0.0),
            ("Genoa", &[], 0.0, 0.0),
            ("well-known", &["wellknown"], 1.0, 1.0),
        ];
        for (answer, given, exact, f1) in cases {
            close(squad_exact_match(answer, &references(given)), exact);
            close(squad_f1(answer, &references(given)), f1);
        }
    }

    #[test]
    fn articles_go_where_they_are_words_and_stay_inside_of_words() {
        assert_eq!(squad_words("The theatre — a thesis"), ["theatre", "—", "thesis"]);
        assert_eq!(squad_words("cats—the dogs"), ["cats—", "dogs"]);
        assert_eq!(squad_words("bread and butter"), ["bread", "and", "butter"]);
        assert_eq!(locomo_stems("Painting, and the puppies"), ["paint", "puppi"]);
    }

    #[test]
    fn locomo_scores_match_values_computed_by_hand() {
        close(locomo_f1("She paints and hikes", "painting and hiking"), 0.8);
        close(locomo_f1("7 May 2023", "7 May, 2023"), 1.0);
        close(locomo_f1("", "May"), 0.0);
        // Of three parts, one is found, one is found half (one of two words, and one too many), one
        // is not.
        let answer = "swimming, big pots, dancing";
        close(locomo_sub_answers_f1(answer, "pottery pots, swims, camping"), (0.5 + 1.0) / 3.0);
        close(locomo_sub_answers_f1("swimming", "swimming, "), 1.0);
        close(locomo_sub_answers_f1("", ","), 1.0);
        close(locomo_sub_answers_f1("swimming", ""), 0.0);
    }

    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec("[a-c]|the|and|Ü|x,|—|[!. ]", 0..8).prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn f1_is_symmetric_bounded_and_1_for_the_same_text(one in text(), other in text()) {
            let to = |text: &String| vec![text.clone()];
            let scores = [
                (squad_f1(&one, &to(&other)), squad_f1(&other, &to(&one)), squad_f1(&one, &to(&one))),
                (locomo_f1(&one, &other), locomo_f1(&other, &one), locomo_f1(&one, &one)),
            ];
            for (score, turned, same) in scores {
                prop_assert_eq!(score, turned);
                prop_assert!((0.0..=1.0).contains(&score));
                prop_assert_eq!(same, 1.0);
            }
        }

        #[test]
        fn exact_match_means_an_f1_of_1_and_more_references_never_hurt(
            answer in text(), one in text(), other in text(),
        ) {
            let (few, many) = (vec![one.clone()], vec![one, other]);
            prop_assert!(squad_exact_match(&answer, &few) <= squad_f1(&answer, &few));
            prop_assert!(squad_f1(&answer, &few) <= squad_f1(&answer, &many));
            prop_assert!(squad_exact_match(&answer, &few) <= squad_exact_match(&answer, &many));
        }

        #[test]
        fn sub_answers_are_bounded_and_their_order_does_not_matter(
            parts in prop::collection::vec("[a-d ]{0,5}", 1..5), answer in text(),
        ) {
            let score = locomo_sub_answers_f1(&answer, &parts.join(","));
            prop_assert!((0.0..=1.0).contains(&score));
            let mut turned = parts.clone();
            turned.reverse();
            prop_assert!((score - locomo_sub_answers_f1(&answer, &turned.join(","))).abs() < 1e-12);
            let same = locomo_sub_answers_f1(&turned.join(","), &parts.join(","));
            prop_assert!((same - 1.0).abs() < 1e-12, "{same}");
        }
    }
}
