//! Traits between crates: corpora and shards, retrievers, generators and graph builders.

pub(crate) mod corpora;
pub(crate) mod generator;
pub(crate) mod retriever;
pub(crate) mod shard;
