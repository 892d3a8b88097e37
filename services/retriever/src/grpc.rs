//! The gRPC services of a retriever of a cluster, for gateways.

pub(crate) mod catalogue_service;
pub(crate) mod shard_service;
