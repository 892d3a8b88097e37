//! Selection of the model's questions about a passage that are worth reading it again for.

/// Minimum ROUGE-L at which two questions ask for the same (QRMeM, section 2.1, footnote 3: more
/// questions mean more noise, and 0.6 was chosen empirically).
const SAME_QUESTION: f64 = 0.6;

/// Returns the questions, in order, whose ROUGE-L with every question kept before is below 0.6.
///
/// Questions are compared within one passage only, since passages are read independently. A
/// question without words is dropped.
pub(super) fn diverse(questions: Vec<String>) -> Vec<String> {
    let mut kept: Vec<(Vec<String>, String)> = Vec::new();
    for question in questions {
        let words = words(&question);
        let is_new = kept.iter().all(|(known, _)| rouge_l(known, &words) < SAME_QUESTION);
        if is_new && !words.is_empty() {
            kept.push((words, question));
        }
    }
    kept.into_iter().map(|(_, question)| question).collect()
}

/// Returns the words of a text in lower case.
fn words(text: &str) -> Vec<String> {
    clew_text::words(text).filter_map(|span| span.of(text)).map(str::to_lowercase).collect()
}

/// Returns the ROUGE-L of two texts, 0 to 1 (Lin 2004, section 3.1): the harmonic mean of the
/// shares that their longest common subsequence of words has in each, `2 |LCS| / (|a| + |b|)`.
fn rouge_l(a: &[String], b: &[String]) -> f64 {
    let words = a.len() + b.len();
    if words == 0 {
        return 0.0;
    }
    2.0 * longest_common_subsequence(a, b) as f64 / words as f64
}

fn longest_common_subsequence(a: &[String], b: &[String]) -> usize {
    // Entry `i` is for the words of `a` so far and the first `i` words of `b`.
    let mut longest = vec![0; b.len() + 1];
    for word in a {
        let mut diagonal = 0;
        for (index, other) in b.iter().enumerate() {
            let above = longest[index + 1];
            longest[index + 1] =
                if word == other { diagonal + 1 } else { above.max(longest[index]) };
            diagonal = above;
        }
    }
    longest[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(questions: &[&str]) -> Vec<String> {
        diverse(questions.iter().map(|question| (*question).to_owned()).collect())
    }

    #[test]
    fn rouge_l_is_worked_out_by_hand() {
        for (a, b, expected) in [
            // "the cat … the mat": 5 of 6 words each, in order.
            ("The cat sat on the mat.", "the cat lay on the mat", 10.0 / 12.0),
            // Order counts: the common part is "a b", or "c" alone.
            ("a b c", "c a b", 4.0 / 6.0),
            ("a b c d e", "a x b y c", 0.6),
            ("a", "b", 0.0),
            ("", "", 0.0),
            ("", "b", 0.0),
        ] {
            assert_eq!(rouge_l(&words(a), &words(b)), expected, "{a} | {b}");
        }
    }

    #[test]
    fn a_question_is_kept_if_it_is_unlike_every_kept_one() {
        let asked = [
            "Who gave Theseus the thread?",
            // All five, among seven: 10 / 12.
            "Who gave Theseus the red thread then?",
            // "who gave … the", three of five each: 6 / 10, which is not below 0.6.
            "Who gave him the thing?",
            // "the thread", two of five and six: 4 / 11.
            "Why was the thread so red?",
            // Five of six words of the previous question, which was kept: 10 / 12.
            "Why was the thread so long?",
            // Four of seven and five words of the second question, which was not kept; two of those
            // kept.
            "And the red thread then?",
            "?!",
        ];
        assert_eq!(kept(&asked), [asked[0], asked[3], asked[5]]);
    }

    proptest! {
        #[test]
        fn rouge_l_is_a_similarity(
            a in prop::collection::vec("[ab c]", 0..12),
            b in prop::collection::vec("[abc]", 0..12),
        ) {
            let similarity = rouge_l(&a, &b);
            prop_assert!((0.0..=1.0).contains(&similarity));
            prop_assert_eq!(similarity, rouge_l(&b, &a));
            prop_assert_eq!(similarity == 1.0, a == b && !a.is_empty());
            // Appending words never makes the common part shorter.
            let mut longer = b.clone();
            longer.extend(a.clone());
            prop_assert_eq!(longest_common_subsequence(&a, &longer), a.len());
        }

        #[test]
        fn what_is_kept_is_diverse_and_what_is_dropped_is_like_something_kept(
            asked in prop::collection::vec("[a-d]( [a-d]){0,4}", 0..10)
        ) {
            let kept = diverse(asked.clone());
            let alike = |a: &String, b: &String| rouge_l(&words(a), &words(b)) >= SAME_QUESTION;
            for (index, question) in kept.iter().enumerate() {
                prop_assert!(!kept[..index].iter().any(|known| alike(known, question)));
            }
            prop_assert!(asked.iter().all(|asked| kept.iter().any(|kept| alike(kept, asked))));
            prop_assert_eq!(diverse(kept.clone()), kept);
        }
    }
}
