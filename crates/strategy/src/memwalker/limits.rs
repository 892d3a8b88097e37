//! Limits of a walk.

/// Maximum number of navigator calls in a walk. Three levels of eight children reach a segment in
/// four calls, so a walk may turn back several times.
pub const MAX_STEPS: usize = 24;

/// Maximum number of children that are shown at a node. Of more, those with the best scores are
/// shown.
pub const MAX_SHOWN: usize = 16;

/// Maximum number of bytes of working memory: about 2,000 tokens, half of the window of the paper's
/// model.
pub const MEMORY_BYTES: usize = 8000;

/// Number of nodes of a level that a beam keeps.
pub const BEAM_WIDTH: usize = 3;

/// Maximum number of nodes whose children a walk by scores looks at. Such a walk asks the navigator
/// only at segments.
pub const MAX_EXPANDED: usize = 64;

/// Number of passages that a search finds before the walk, as hints where to go.
pub(super) const HINTS: usize = 64;
