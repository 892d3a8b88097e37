//! The tables of one shard on LanceDB: writes, search, maintenance and erasure.
//!
//! # What is stored
//!
//! A shard is a folder, or a part of a bucket on S3-compatible storage, with four tables: `sources`
//! (accepted document versions with their text), `chunks` (passages with their vectors), `nodes` (summary
//! trees, with the entities and relations of their segments) and `failures` (documents that could not be
//! indexed).
//! [`Shard`] is the one writer of a shard; [`ShardReader`]s are many, cheap, and never wait for it.
//! [`Registry`] knows the corpora of a data directory.
//!
//! Any process that reaches a shard's place can take it over ([`Takeover`]); the tables themselves
//! refuse the writes of every earlier owner (`fence.rs`), so that an owner's memory always equals its
//! tables.
//!
//! # What counts
//!
//! A chunk counts only through a live row of `sources`:
//!
//! - `sources` may hold several versions of a document. The *live* version is the highest one that
//!   has chunks, by the wanted recipe or an older one. A higher version without chunks is
//!   *pending*. Others are superseded and are swept.
//! - All chunks of a document version are appended in one commit. That commit makes the version
//!   live; deleting what it replaced comes after and changes nothing that is seen.
//! - Forgetting deletes the rows of `sources` first; that alone makes a document invisible.
//! - Chunks without a live row of `sources`, of a late writer or an interrupted forgetting, are
//!   never found and are swept.
//!
//! What counts is a pure function of the tables (`record.rs`), kept in memory per document and
//! rebuilt from the tables when the shard is opened or a write failed. Readers see snapshots:
//! tables pinned at a version with the memory that belongs to them, published after each write, so
//! a replaced document is seen whole, old or new.
//!
//! # Who sees it
//!
//! A document needs labels, and so does all that is made of it. The shard's own work reads everything
//! ([`ShardReader`]); a caller reads through a [`ShardView`], which leaves out what needs a label that the caller does
//! not hold. Which that is follows from the records of documents in memory; chunks carry their labels in a column,
//! too, so that a search leaves them out before it scores.
//!
//! # What is deliberately absent
//!
//! Fusion of rankings, embedding, actors, clocks and retries: callers bring them.

mod attainable;
mod catalogue;
mod check;
mod copies;
mod corpus_snapshot;
mod durable;
mod erase;
mod error;
mod export;
mod facts;
mod fence;
mod filter;
mod holding;
mod location;
mod maintain;
mod memories;
mod named;
mod nodes;
mod objects;
mod place;
mod probe;
mod reader;
mod record;
mod registry;
mod restore;
mod rows;
mod s3;
mod scan;
mod schema;
mod search;
mod shard;
mod snapshot;
mod snapshot_deletion;
mod status;
mod table;
mod transfer;
mod write;

pub use corpus_snapshot::{Snapshots, WholeSnapshot};
pub use error::{Cause, Error, Result};
pub use location::Location;
pub use maintain::{MaintenancePlan, MaintenanceReport, ShardStatistics, Step, plan};
pub use nodes::{
    DocumentNodes, DocumentSegments, NodeRow, SegmentNode, StructuredDocument, UpperGap, UpperRow,
};
pub use place::Place;
pub use probe::{Broken, Probed};
pub use reader::{ShardReader, ShardView};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use registry::act_as_next_release;
pub use registry::{Registered, Registry};
pub use s3::{ObjectStoreSettings, Secret};
pub use schema::{TableKind, VectorColumn};
pub use shard::{Shard, ShardSettings, Takeover, Tuning};
pub use status::{DueDocument, Lag};
pub use table::TableStatistics;
pub use write::{Committed, DerivedDocument, EmbeddedChunk, Failure, Offer, Outcome};
