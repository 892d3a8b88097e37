//! Directions of vectors in memory, in 16 bits per component, and their cosines.
//!
//! A vector that is searched by cosine similarity counts by its direction alone. So it is scaled to
//! length 32,767 and rounded to whole numbers, which takes half the memory of 32-bit floats. The
//! cosine of two such directions differs from the exact one by 0.00001 as a rule, and at most by
//! the square root of the dimension, divided by 32,767 (0.0006 with 384 dimensions). Products are
//! summed in integers, so a cosine is the same on every machine.
//!
//! This crate is compiled with optimisation in every profile: its loops are nothing but arithmetic,
//! which the compiler turns into vector instructions.

/// Length that each direction is scaled to. By the inequality of Cauchy and Schwarz, no sum of
/// products of two directions exceeds its square by more than rounding adds. That fits 32 bits, and
/// so does any part of such a sum.
const LENGTH: f32 = 32_767.0;

/// Direction of one vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    codes: Vec<i16>,
    inverse_length: f32,
}

impl Direction {
    /// Returns the direction of a vector, or `None` if it has none: if it is empty or all zeros, or
    /// holds a number that is not finite.
    pub fn of(vector: &[f32]) -> Option<Self> {
        let mut codes = vec![0; vector.len()];
        let inverse_length = encode(vector, &mut codes)?;
        Some(Self { codes, inverse_length })
    }

    /// Returns the number of dimensions.
    pub fn dimension(&self) -> usize {
        self.codes.len()
    }
}

/// Directions of vectors of one dimension, by row. A row may lack one.
#[derive(Clone, Debug, PartialEq)]
pub struct Directions {
    dimension: usize,
    codes: Vec<i16>,
    /// Inverse of each row's length after rounding; 0 for a row without a direction.
    inverse_lengths: Vec<f32>,
}

impl Directions {
    /// Creates `rows` rows without directions.
    ///
    /// # Panics
    /// Panics if `dimension` is zero.
    pub fn new(dimension: usize, rows: usize) -> Self {
        assert!(dimension > 0, "vectors have at least one dimension");
        let (codes, inverse_lengths) = (vec![0; dimension * rows], vec![0.0; rows]);
        Self { dimension, codes, inverse_lengths }
    }

    /// Returns the bytes that `rows` rows of a dimension take.
    pub fn bytes(dimension: usize, rows: usize) -> u64 {
        let row = (dimension as u64).saturating_mul(size_of::<i16>() as u64);
        row.saturating_add(size_of::<f32>() as u64).saturating_mul(rows as u64)
    }

    /// Returns the number of dimensions.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.inverse_lengths.len()
    }

    /// Sets the direction of a row. Returns whether there were such a row and a direction.
    pub fn set(&mut self, row: usize, vector: &[f32]) -> bool {
        if row >= self.rows() || vector.len() != self.dimension {
            return false;
        }
        let codes = &mut self.codes[row * self.dimension..][..self.dimension];
        let length = encode(vector, codes);
        self.inverse_lengths[row] = length.unwrap_or(0.0);
        length.is_some()
    }

    /// Returns the cosine between the direction of a row and `other`, or `None` if there is no such
    /// row, it has no direction, or the dimensions differ.
    pub fn cosine(&self, row: usize, other: &Direction) -> Option<f32> {
        let &inverse_length = self.inverse_lengths.get(row)?;
        if inverse_length == 0.0 || self.dimension != other.dimension() {
            return None;
        }
        let codes = &self.codes[row * self.dimension..][..self.dimension];
        Some(cosine(codes, inverse_length, other))
    }

    /// Returns the cosine between each direction and `other`, in order of the rows. A row that has
    /// no direction is left out, and all are if the dimensions differ.
    pub fn cosines(&self, other: &Direction) -> Vec<(u32, f32)> {
        if self.dimension != other.dimension() {
            return Vec::new();
        }
        let rows = self.codes.chunks_exact(self.dimension).zip(&self.inverse_lengths).zip(0..);
        rows.filter(|((_, inverse_length), _)| **inverse_length != 0.0)
            .map(|((codes, &inverse_length), row)| (row, cosine(codes, inverse_length, other)))
            .collect()
    }
}

/// Writes the codes of a vector. Returns the inverse of their length, or `None` if the vector has
/// no direction.
fn encode(vector: &[f32], codes: &mut [i16]) -> Option<f32> {
    // In 64 bits, because the squares of large components overflow 32.
    let squares: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    if !squares.is_finite() || squares <= 0.0 {
        return None;
    }
    let scale = f64::from(LENGTH) / squares.sqrt();
    for (code, &x) in codes.iter_mut().zip(vector) {
        *code = (f64::from(x) * scale).round() as i16;
    }
    // Not zero: the largest component is at least LENGTH / sqrt(dimension). The length after
    // rounding, so that equal vectors have a cosine of 1.
    let rounded: f64 = codes.iter().map(|&code| f64::from(code) * f64::from(code)).sum();
    Some(rounded.sqrt().recip() as f32)
}

fn cosine(codes: &[i16], inverse_length: f32, other: &Direction) -> f32 {
    let cosine = product(codes, &other.codes) as f32 * inverse_length * other.inverse_length;
    cosine.clamp(-1.0, 1.0)
}

fn product(a: &[i16], b: &[i16]) -> i32 {
    a.iter().zip(b).map(|(&x, &y)| i32::from(x) * i32::from(y)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(a: &[f32], b: &[f32]) -> f64 {
        let sum = |f: &dyn Fn(usize) -> f64| (0..a.len()).map(f).sum::<f64>();
        let product = sum(&|i| f64::from(a[i]) * f64::from(b[i]));
        let squares = |v: &[f32]| v.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
        product / (squares(a) * squares(b)).sqrt()
    }

    #[test]
    fn what_has_no_direction_is_never_compared() {
        for bad in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
            assert_eq!(Direction::of(bad), None, "{bad:?}");
        }
        let mut rows = Directions::new(2, 3);
        assert!(rows.set(1, &[3.0, 4.0]));
        assert!(!rows.set(0, &[0.0, 0.0]) && !rows.set(3, &[1.0, 0.0]) && !rows.set(0, &[1.0]));
        let query = Direction::of(&[4.0, -3.0]).unwrap();
        // At right angles, but there.
        assert_eq!(rows.cosine(1, &query), Some(0.0));
        assert_eq!((rows.cosine(0, &query), rows.cosine(9, &query)), (None, None));
        assert_eq!(rows.cosine(1, &Direction::of(&[1.0]).unwrap()), None);
        assert_eq!(rows.cosines(&query), [(1, 0.0)]);
    }

    #[test]
    fn no_product_of_the_longest_directions_overflows() {
        for dimension in [1, 2, 384, 65_536] {
            let vector = vec![f32::MAX; dimension];
            let direction = Direction::of(&vector).unwrap();
            let mut rows = Directions::new(dimension, 1);
            assert!(rows.set(0, &vector));
            let cosine = rows.cosine(0, &direction).unwrap();
            assert!((cosine - 1.0).abs() < 1e-6, "{dimension}: {cosine}");
        }
    }

    proptest! {
        #[test]
        fn cosines_are_close_to_the_exact_ones(
            pairs in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..800),
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            if let (Some(direction), true) = (Direction::of(&b), a.iter().any(|&x| x != 0.0)) {
                let mut rows = Directions::new(a.len(), 1);
                prop_assert!(rows.set(0, &a));
                let cosine = f64::from(rows.cosine(0, &direction).unwrap());
                // Half a unit of rounding in each component of either, against a direction of
                // length one.
                let rounding = (a.len() as f64).sqrt() / f64::from(LENGTH);
                let difference = (cosine - exact(&a, &b)).abs();
                prop_assert!(difference <= rounding + 1e-6, "{cosine} {}", exact(&a, &b));
            }
        }
    }
}
