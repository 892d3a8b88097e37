//! Values of a shard: what callers hand to it and get back, and what it knows of its documents.
//! They know no tables.

pub(crate) mod derived;
pub(crate) mod due;
pub(crate) mod facts;
pub(crate) mod failure;
pub(crate) mod ids;
pub(crate) mod nodes;
pub(crate) mod offer;
pub(crate) mod text_memory;
pub(crate) mod vector;
pub(crate) mod vector_memory;
