//! ROUGE-L: score by the longest sequence of words that a summary shares with a reference summary.

use std::collections::HashMap;

/// Returns ROUGE-L as F-measure (Lin, "ROUGE: A Package for Automatic Evaluation of Summaries",
/// 2004, section 3.1, with beta = 1). With the longest common subsequence L of the words, precision
/// is |L| / |answer| and recall |L| / |reference|. Of several references, the one with the best F
/// counts, as in `multi_rouge.py` of SQuALITY. The score is 0 without references and for texts
/// without words.
///
/// A word is a run of `a` to `z` and digits in lower case, without stemming, as in the package
/// `rouge_score` (`rougeL`), which the scripts of L-Eval and SQuALITY call without stemming too.
/// The text is one sequence; it is not cut into sentences (`rougeLsum`).
///
/// The time grows with the number of words of the answer times that of the references.
pub fn rouge_l(answer: &str, references: &[String]) -> f64 {
    let answer = words(answer);
    references.iter().map(|reference| f_measure(&answer, &words(reference))).fold(0.0, f64::max)
}

fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn f_measure(answer: &[String], reference: &[String]) -> f64 {
    if answer.is_empty() || reference.is_empty() {
        return 0.0;
    }
    // Numbers instead of words make the comparisons of the quadratic part cheap.
    let mut known = HashMap::new();
    let numbers: Vec<usize> = answer
        .iter()
        .chain(reference)
        .map(|word| {
            let next = known.len();
            *known.entry(word).or_insert(next)
        })
        .collect();
    let (one, other) = numbers.split_at(answer.len());
    let shared = longest_common_subsequence(one, other);
    2.0 * shared as f64 / (answer.len() + reference.len()) as f64
}

/// Returns the length of the longest common subsequence, with memory for one row of the table.
fn longest_common_subsequence(one: &[usize], other: &[usize]) -> usize {
    // `row[j]` is the length for the words of `one` so far and the first j of `other`.
    let mut row = vec![0; other.len() + 1];
    for word in one {
        let mut diagonal = 0;
        for (j, candidate) in other.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if word == candidate { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn score(answer: &str, references: &[&str]) -> f64 {
        rouge_l(answer, &references.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn scores_match_values_computed_by_hand() {
        let cases: [(&str, &[&str], f64); 7] = [
            // Lin's example: the shared sequences are `police the gunman` and `the gunman`, of 4
            // words each.
            ("police kill the gunman", &["police killed the gunman"], 0.75),
            ("the gunman kill police", &["police killed the gunman"], 0.5),
            ("a b c d", &["a c e"], 4.0 / 7.0),
            ("a b c d", &["x", "a c e", "d"], 4.0 / 7.0),
            ("Well-known: 3 cats.", &["well known 3 CATS"], 1.0),
            ("", &["x"], 0.0),
            ("x", &[], 0.0),
        ];
        for (answer, references, expected) in cases {
            let score = score(answer, references);
            // Tolerance for one division.
            assert!((score - expected).abs() < 1e-12, "{answer}: {score} and not {expected}");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec("[a-d]", 1..12).prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn it_is_symmetric_bounded_and_1_for_the_same_text(one in text(), other in text()) {
            let there = score(&one, &[&other]);
            prop_assert_eq!(there, score(&other, &[&one]));
            prop_assert!((0.0..=1.0).contains(&there));
            prop_assert_eq!(score(&one, &[&one]), 1.0);
            prop_assert!(score(&one, &[&other, &one]) == 1.0);
        }

        #[test]
        fn a_part_in_order_has_full_precision(words in prop::collection::vec("[a-d]", 1..12), from in 0usize..12) {
            let part = &words[from.min(words.len() - 1)..];
            let expected = 2.0 * part.len() as f64 / (part.len() + words.len()) as f64;
            let score = score(&part.join(" "), &[&words.join(" ")]);
            prop_assert!((score - expected).abs() < 1e-12);
        }
    }
}
