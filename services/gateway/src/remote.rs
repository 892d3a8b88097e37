//! Corpora whose shards run on retrievers elsewhere.
//!
//! [`routes`] knows which retriever to ask and asks another if the shard has moved;
//! [`shard`] is the seam `Shard` over `ShardService`, [`corpora`] the seam `Corpora` over
//! `CatalogueService`.

mod corpora;
mod routes;
mod shard;

pub use corpora::RemoteCorpora;
