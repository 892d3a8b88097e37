//! Values that callers hand to a shard and get back. They know no tables.

pub(crate) mod due;
