//! Weights and limits of the ranking.

/// Weight of the cosine in H; BM25 has the rest. 0.6 to 0.8 are on the plateau, see
/// [`Linked`](super::Linked).
pub const COSINE_SHARE: f32 = 0.7;

/// Bonus of a passage whose document's title the question names. 0.3 to 1 are on the plateau.
pub const NAMED_BONUS: f32 = 0.5;

/// Weight of the best link to a passage. 0.4 to 0.8 are on the plateau.
pub const LINK_WEIGHT: f32 = 0.6;

/// Number of best passages that link to others. 2 to 5 are on the plateau.
pub const MOST_SOURCES: usize = 3;

/// Maximum number of segments that may mention a name that is followed; a name with more is a hub.
/// 10 and 20 are equally good.
pub const HUB_SEGMENTS: u64 = 20;
