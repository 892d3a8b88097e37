//! Signs of vectors: a small form for storing the vectors of very many entities.

use std::f32::consts::PI;

use serde::{Deserialize, Serialize};

use crate::{EncoderIdentity, Error};

/// Maximum size of a vector's signs, in bytes: those of 16,384 components.
const MOST_BYTES: usize = 2048;

/// Signs of a vector's components, one bit each. The more two vectors turn away from each other,
/// the more of their signs differ: on average the share that their angle has of half a turn.
///
/// A vector of 384 components takes 48 bytes instead of 1,536, and two of them are compared word by
/// word in six steps. The result tells which of many vectors are worth comparing exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Signs(Box<[u64]>);

impl Signs {
    /// Computes the signs of a vector `[dimension]`.
    pub fn of(vector: &[f32]) -> Self {
        let word = |some: &[f32]| {
            let bit = |(at, x): (u32, &f32)| u64::from(*x > 0.0) << at;
            (0..).zip(some).map(bit).fold(0, |word, bit| word | bit)
        };
        Self(vector.chunks(64).map(word).collect())
    }

    /// Reads signs that [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming `field` if the number of bytes does not
    /// fit.
    pub fn from_bytes(field: &str, bytes: &[u8]) -> Result<Self, Error> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || bytes.len() > MOST_BYTES {
            let problem = format!(
                "expected a multiple of 8 bytes, at most {MOST_BYTES}, got {}",
                bytes.len()
            );
            return Err(Error::invalid(field, problem));
        }
        Ok(Self(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
    }

    /// Returns eight bytes for each 64 components.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Returns the bits, those of the first 64 components in the first word.
    pub fn words(&self) -> &[u64] {
        &self.0
    }
}

impl From<Signs> for String {
    fn from(signs: Signs) -> Self {
        signs.0.iter().map(|word| format!("{word:016x}")).collect()
    }
}

impl TryFrom<String> for Signs {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let unfit = || format!("expected 16 hexadecimal digits a word, got `{text}`");
        if !text.is_ascii() || !text.len().is_multiple_of(16) || text.len() > 2 * MOST_BYTES {
            return Err(unfit());
        }
        let words = text.as_bytes().chunks(16).map(|digits| {
            let digits = str::from_utf8(digits).map_err(|_| unfit())?;
            u64::from_str_radix(digits, 16).map_err(|_| unfit())
        });
        words.collect::<Result<_, String>>().map(Self)
    }
}

/// Returns in how many signs two vectors of the same dimension differ. The fewer, the more similar
/// the vectors are.
pub fn signs_apart(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// Returns the average cosine of two vectors of `dimension` components that differ in `apart`
/// signs.
#[expect(clippy::cast_precision_loss, reason = "vectors have some thousand components")]
pub fn cosine_of_signs(apart: u32, dimension: usize) -> f32 {
    (PI * apart as f32 / dimension.max(1) as f32).cos()
}

/// Vectors of some of a segment's entities, each made from an entity's name and what the document
/// says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityVectors {
    /// Fingerprint of the model that made them ([`EncoderIdentity::fingerprint`]).
    pub encoder: String,
    /// Number of components of each vector.
    pub dimension: u32,
    /// Indices of entities in the extraction, with their vectors.
    pub of: Vec<(u32, Signs)>,
}

/// Vector to which entities are to be similar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Like {
    /// Fingerprint of the model that made the vector.
    pub encoder: String,
    /// Signs of the vector.
    pub signs: Signs,
}

impl Like {
    /// Creates it from a vector of that model.
    pub fn vector(encoder: &EncoderIdentity, vector: &[f32]) -> Self {
        Self { encoder: encoder.fingerprint(), signs: Signs::of(vector) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_kept_and_sent_as_they_are() {
        let vector: Vec<f32> = (0..100_u8).map(|at| f32::from(at % 3) - 1.0).collect();
        let signs = Signs::of(&vector);
        assert_eq!(signs.words().len(), 2);
        assert_eq!(signs.words()[0] & 0b111, 0b100);
        assert_eq!(Signs::from_bytes("signs", &signs.to_bytes()).unwrap(), signs);
        let text = serde_json::to_string(&signs).unwrap();
        assert_eq!(text.len(), 2 + 32);
        assert_eq!(serde_json::from_str::<Signs>(&text).unwrap(), signs);
        for bad in ["\"0\"", "\"000000000000000g\"", "\"é00000000000000\"", "7"] {
            assert!(serde_json::from_str::<Signs>(bad).is_err(), "{bad}");
        }
        for bad in [&[0; 7][..], &[0; MOST_BYTES + 8]] {
            let error = Signs::from_bytes("query.like.signs", bad).unwrap_err();
            assert_eq!(error.violations()[0].field, "query.like.signs");
        }
    }

    #[test]
    fn vectors_that_turn_away_differ_in_more_signs() {
        let of = |vector: &[f32]| Signs::of(vector);
        let one = [1.0, 1.0, -1.0, 1.0];
        let apart = |other: &[f32]| signs_apart(of(&one).words(), of(other).words());
        assert_eq!(apart(&one), 0);
        assert_eq!(apart(&[1.0, -1.0, -1.0, 1.0]), 1);
        assert_eq!(apart(&one.map(|x| -x)), 4);
        assert!((cosine_of_signs(0, 4) - 1.0).abs() < 1e-6);
        assert!(cosine_of_signs(2, 4).abs() < 1e-6);
        assert!((cosine_of_signs(4, 4) + 1.0).abs() < 1e-6);
    }
}
