//! Passages that a search finds, as other shapes have them.

use clew_proto::query::v1::Evidence;

/// Returns the score of a passage: the cosine of passage and query, 0 to 1, so that it means the
/// same for every query. A passage that was found by its words alone has the score 0: nothing is
/// known of its cosine but that others have a greater one.
pub(crate) fn score(passage: &Evidence) -> f32 {
    passage.dense_score.unwrap_or_default().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_a_cosine_from_0_to_1() {
        let scored =
            |cosine| score(&Evidence { score: 9.0, dense_score: cosine, ..Default::default() });
        let scores = [Some(0.75), Some(-0.5), Some(1.25), None].map(scored);
        assert_eq!(scores, [0.75, 0.0, 1.0, 0.0]);
    }
}
