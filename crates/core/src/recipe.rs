//! What chunks were derived by, as one number.

use std::fmt;

/// Fingerprint of what chunks, or a tree and graph, are made with: settings, encoder and the
/// version of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe(pub u64);

/// Recipes by which existing chunks may have been made without having to be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipes {
    /// Recipe by which chunks are made.
    pub wanted: Recipe,
    /// Recipe of chunks that have everything wanted, and also vectors of a model that is no longer
    /// used.
    pub as_good: Option<Recipe>,
}

impl Recipes {
    /// Returns whether chunks of this recipe have everything that is wanted.
    pub fn are_met_by(&self, recipe: Recipe) -> bool {
        recipe == self.wanted || Some(recipe) == self.as_good
    }
}

impl Recipe {
    pub(crate) fn of(parts: &serde_json::Value) -> Self {
        let hash = blake3::hash(parts.to_string().as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        Self(u64::from_le_bytes(first))
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recipe-{:016x}", self.0)
    }
}
