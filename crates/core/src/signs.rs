//! Vectors in the small form in which those of very many entities are kept.

use std::f32::consts::PI;

use serde::{Deserialize, Serialize};

use crate::{EncoderIdentity, Error};

/// Most bytes of a vector's signs: those of 16,384 components.
const MOST_BYTES: usize = 2048;

/// The signs of a vector's components, a bit each. The more two vectors turn away from each other, the more of their
/// signs differ: on average the share of their angle in half a turn.
///
/// A vector of 384 components takes 48 bytes instead of 1,536, and comparing two takes six instructions or so. It
/// tells which of many are worth comparing exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Signs(Box<[u64]>);

impl Signs {
    /// The signs of a vector `[dimension]`.
    pub fn of(vector: &[f32]) -> Self {
        let word = |some: &[f32]| {
            let bit = |(at, x): (u32, &f32)| u64::from(*x > 0.0) << at;
            (0..).zip(some).map(bit).fold(0, |word, bit| word | bit)
        };
        Self(vector.chunks(64).map(word).collect())
    }

    /// Signs as [`Self::to_bytes`] wrote them.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming `field`.
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

    /// Eight bytes for each 64 components.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Bits, the first 64 in the first word.
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

/// How many of their signs two vectors differ in; the fewer, the more alike. Vectors are of one dimension.
pub fn signs_apart(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// The cosine that two vectors of so many components have on average which differ in so many signs.
#[expect(clippy::cast_precision_loss, reason = "vectors have some thousand components")]
pub fn cosine_of_signs(apart: u32, dimension: usize) -> f32 {
    (PI * apart as f32 / dimension.max(1) as f32).cos()
}

/// Vectors of some of a segment's entities: each is of an entity's name and what the document says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityVectors {
    /// Fingerprint of the model that made them ([`EncoderIdentity::fingerprint`]).
    pub encoder: String,
    /// Components of each.
    pub dimension: u32,
    /// Indices of the extraction's entities, with their vectors.
    pub of: Vec<(u32, Signs)>,
}

/// What entities are to be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Like {
    /// Fingerprint of the model that made the vector.
    pub encoder: String,
    /// The vector.
    pub signs: Signs,
}

impl Like {
    /// What is like a vector of that model.
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
