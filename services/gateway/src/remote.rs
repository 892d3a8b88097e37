//! Corpora whose shards run on retrievers of other nodes.
//!
//! [`routes`] finds the retriever to ask and asks another one if the shard has moved. [`shard`]
//! implements the trait `Shard` over `ShardService`, and [`corpora`] the trait `Corpora` over
//! `CatalogueService`.

mod corpora;
mod routes;
mod shard;

pub use corpora::RemoteCorpora;
