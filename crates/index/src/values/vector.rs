//! Vectors that can be compared.

/// Returns whether cosine similarity to `vector` is a number.
pub(crate) fn is_direction(vector: &[f32]) -> bool {
    vector.iter().all(|x| x.is_finite()) && vector.iter().any(|&x| x != 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_finite_and_not_zero() {
        assert!(is_direction(&[0.0, 1.0]));
        for bad in [&[0.0, 0.0][..], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &[]] {
            assert!(!is_direction(bad), "{bad:?}");
        }
    }
}
