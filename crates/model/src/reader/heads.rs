//! The heads: from the states of a window's tokens to logits.

/// Number of sums that a product of two vectors is computed in, so that it takes several factors at
/// once.
const LANES: usize = 8;

/// Both heads of a reader.
pub(super) struct Heads {
    pub(super) span: Head,
    pub(super) verdict: Head,
}

/// Linear map of a token's state to two logits.
pub(super) struct Head {
    /// `[2, hidden]`.
    pub(super) weight: Vec<f32>,
    /// `[2]`.
    pub(super) bias: Vec<f32>,
}

/// What the heads make of a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Logits {
    /// `[tokens]`, how well an answer begins at each token; at the first one, that there is none.
    pub(super) starts: Vec<f32>,
    /// `[tokens]`, how well an answer ends at each token; at the first one, that there is none.
    pub(super) ends: Vec<f32>,
    /// That the passage answers, and that it is about the question.
    pub(super) verdict: [f32; 2],
}

impl Heads {
    /// Returns the logits for the states `[tokens, hidden]` of a window.
    pub(super) fn logits(&self, states: &[f32]) -> Logits {
        let hidden = self.span.weight.len() / 2;
        let spans = states.chunks_exact(hidden).map(|state| self.span.of(state));
        let (starts, ends) = spans.map(|[start, end]| (start, end)).unzip();
        Logits { starts, ends, verdict: self.verdict.of(&states[..hidden]) }
    }
}

impl Head {
    fn of(&self, state: &[f32]) -> [f32; 2] {
        let (first, second) = self.weight.split_at(state.len());
        [dot(first, state) + self.bias[0], dot(second, state) + self.bias[1]]
    }
}

impl Logits {
    pub(super) fn are_finite(&self) -> bool {
        let tokens = self.starts.iter().chain(&self.ends);
        tokens.chain(&self.verdict).all(|logit| logit.is_finite())
    }
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left, left_rest) = left.as_chunks::<LANES>();
    let (right, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (left, right) in left.iter().zip(right) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    let rest = left_rest.iter().zip(right_rest).map(|(left, right)| left * right);
    sums.iter().sum::<f32>() + rest.sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_products_with_the_states() {
        // A width that is no multiple of the lanes.
        let hidden = LANES + 1;
        let weight: Vec<f32> = (0..2 * hidden).map(|at| at as f32).collect();
        let head = || Head { weight: weight.clone(), bias: vec![0.5, -0.5] };
        let mut states = vec![0.0; 3 * hidden];
        (states[0], states[hidden + 1], states[3 * hidden - 1]) = (1.0, 1.0, 1.0);
        let logits = Heads { span: head(), verdict: head() }.logits(&states);
        assert_eq!(logits.starts, [0.5, 1.5, 8.5]);
        assert_eq!(logits.ends, [8.5, 9.5, 16.5]);
        assert_eq!(logits.verdict, [0.5, 8.5]);
        assert!(logits.are_finite());
        assert!(!Logits { verdict: [0.0, f32::NAN], ..logits }.are_finite());
    }
}
