//! What is derived from accepted documents behind their chunks, and when it runs.

pub(crate) mod batch_size;
pub(crate) mod deriver;
pub(crate) mod memory_builder;
pub(crate) mod structure_builder;
pub(crate) mod structure_schedule;
