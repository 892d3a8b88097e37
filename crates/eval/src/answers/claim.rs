//! Scores of claims that are true or false and come in pairs.

use std::collections::BTreeMap;

const TAG: &str = "<answer>";
const END_OF_TAG: &str = "</answer>";

/// Returns whether `answer` calls a claim true; `None` if it says neither true nor false, or both.
///
/// If there are `<answer>` tags, which the prompt of NoCha (Karpinska et al., EMNLP 2024) asks for,
/// only the text in them counts. The first word decides if it is `true` or `false`, in upper or
/// lower case; otherwise all such words must agree.
pub fn verdict(answer: &str) -> Option<bool> {
    let answer = answer.to_lowercase();
    let tagged = answer.split_once(TAG).map(|(_, rest)| rest.split(END_OF_TAG).next());
    let answer = tagged.flatten().unwrap_or(&answer);
    let mut words = answer.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.next().and_then(read);
    if first.is_some() {
        return first;
    }
    let mut verdicts = words.filter_map(read);
    let verdict = verdicts.next()?;
    verdicts.all(|other| other == verdict).then_some(verdict)
}

fn read(word: &str) -> Option<bool> {
    match word {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Returns the scores of pairs, in the order of their names. `claims` are the name of the pair and
/// the score of each claim. A pair scores 1 if both claims are right, that is have a score of 1,
/// and 0 otherwise. A name that occurs once, as in an unfinished run, is left out. Chance is 0.25
/// (NoCha, Karpinska et al., EMNLP 2024, "pair accuracy").
pub fn pair_accuracy<'a>(claims: impl IntoIterator<Item = (&'a str, f64)>) -> Vec<f64> {
    let mut pairs: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for (pair, score) in claims {
        let (count, least) = pairs.entry(pair).or_insert((0, 1.0));
        *count += 1;
        *least = least.min(score);
    }
    let whole = pairs.into_values().filter(|(count, _)| *count > 1);
    whole.map(|(_, least)| f64::from(u8::from(least >= 1.0))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_verdict_is_read_from_its_tags_its_first_word_or_all_words() {
        let cases = [
            ("TRUE", Some(true)),
            ("False.", Some(false)),
            ("**True**, though it is false that ...", Some(true)),
            ("The claim is false.", Some(false)),
            ("I first thought it true, but it is false.", None),
            ("It is true? No. <answer> FALSE </answer> true", Some(false)),
            ("<answer>unsure</answer> true", None),
            ("<answer>true", Some(true)),
            ("untrue", None),
            ("", None),
        ];
        for (answer, expected) in cases {
            assert_eq!(verdict(answer), expected, "{answer}");
        }
    }

    #[test]
    fn a_pair_is_right_if_both_of_its_claims_are() {
        let claims =
            [("b", 1.0), ("a", 1.0), ("c", 0.0), ("b", 1.0), ("a", 0.0), ("c", 0.0), ("d", 1.0)];
        assert_eq!(pair_accuracy(claims), [0.0, 1.0, 0.0]);
        assert_eq!(pair_accuracy([]), Vec::<f64>::new());
    }

    proptest! {
        #[test]
        fn pairs_are_never_better_than_their_claims(rights in prop::collection::vec(any::<[bool; 2]>(), 1..20)) {
            let names: Vec<_> = (0..rights.len()).map(|pair| pair.to_string()).collect();
            let claims = names.iter().zip(&rights).flat_map(|(name, rights)| {
                rights.map(|is_right| (name.as_str(), f64::from(u8::from(is_right))))
            });
            let claims: Vec<_> = claims.collect();
            let mean = |scores: &[f64]| scores.iter().sum::<f64>() / scores.len() as f64;
            let single: Vec<_> = claims.iter().map(|(_, score)| *score).collect();
            let pairs = pair_accuracy(claims);
            prop_assert_eq!(pairs.len(), rights.len());
            prop_assert!(mean(&pairs) <= mean(&single));
        }
    }
}
