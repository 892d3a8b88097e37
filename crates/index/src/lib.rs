//! Stores the documents of a shard in LanceDB tables: writes, search, maintenance, erasure and
//! snapshots.
//!
//! # Tables
//!
//! A shard is a folder, or a part of a bucket on S3-compatible storage, with four tables: `sources`
//! (accepted document versions with their text), `chunks` (chunks with their vectors), `nodes`
//! (nodes of summary trees with the vectors of their summaries, and the entities and relations of
//! their segments) and `failures` (documents that could not be indexed). [`ShardWriter`] is the one
//! writer of a shard. [`ShardReader`]s are many and cheap and never wait for it. [`Registry`]
//! manages the corpora of a data directory.
//!
//! Any process that reaches a shard's place can take the shard over ([`Takeover`]). The tables
//! themselves refuse the writes of every earlier owner (`fence.rs`), so an owner's memory always
//! equals its tables.
//!
//! # Visible rows
//!
//! A chunk is visible only through a live row of `sources`:
//!
//! - `sources` may hold several versions of a document. The *live* version is the highest one that
//!   has chunks, by the wanted recipe or another one. The newest version is *due* if it has no
//!   chunks. All other versions are superseded and are swept.
//! - All chunks of a document version are appended in one commit. That commit makes the version
//!   live. The rows that it replaces are deleted later, which changes nothing that readers see.
//! - Forgetting deletes the rows of `sources` first. That alone makes a document invisible.
//! - Chunks without a live row of `sources`, left by a late writer or an interrupted forgetting,
//!   are never found and are swept.
//!
//! Visibility is a pure function of the tables (`record.rs`). It is kept in memory per document and
//! rebuilt from the tables when the shard is opened or a write failed. Readers see views: tables
//! pinned at a version together with the memory that belongs to them, published after each write.
//! So a reader sees a replaced document whole, old or new. Some views are kept after they were
//! replaced, for further pages of searches. In them, too, nobody finds what has been forgotten or
//! hidden from them since.
//!
//! # Access control
//!
//! A document requires labels, and so does everything that is derived from it. The shard's own work
//! reads everything ([`ShardReader`]). A caller reads through a [`ShardView`], which leaves out
//! documents that require a label that the caller does not hold. The records in memory decide which
//! documents these are. Chunks also carry their labels in a column, so that a search leaves them
//! out before it scores.
//!
//! # Searches
//!
//! A search asks the storage engine's indexes directly, by row numbers, and makes no query plan.
//! What it must know of a row is in memory by fragment (`read/resident.rs`): the document version
//! that the row belongs to, the directions of vectors as far as there is room ([`VectorMemory`]),
//! and the words of rows that the text index does not cover yet. What is read of indexes stays in
//! memory as well ([`IndexMemory`]), and so do texts that were shown lately ([`TextMemory`]).
//! Fragments never change, so views share what is known of them.
//!
//! # Modules
//!
//! A module imports only modules above it. `error` also knows the names of the tables.
//!
//! | module | what it has |
//! |---|---|
//! | `error` | errors, by what a caller can do about them |
//! | `values` | what callers hand to a shard and get back, and what it knows of its documents |
//! | `storage` | a place: files and objects, their durability, the files beside the tables |
//! | `table` | one table: columns, rows, indexes, the fence |
//! | `catalogue` | the documents of a shard in memory: what is visible and what is due |
//! | `settings` | what a shard is opened with |
//! | `read` | views and what reads them: searches, trees and graphs, exports, checks |
//! | `shard` | the writer, a file for each thing that it does |
//! | `registry` | the corpora of a data directory, and the runs of ingestion that each keeps |
//! | `backup` | snapshots of corpora |
//!
//! # Out of scope
//!
//! Fusion of rankings, embedding, actors, clocks and retries: callers bring them.

mod backup;
mod catalogue;
mod error;
#[cfg(test)]
mod fixture;
mod read;
mod registry;
mod settings;
mod shard;
mod storage;
mod table;
mod values;

// Callers see a pinned box. So what lance makes of a call is compiled here, and in no crate above
// this one, and that it may pass between threads is proved once.
use async_recursion::async_recursion as boxed;
pub use backup::snapshots::{Snapshots, WholeSnapshot};
pub use catalogue::groups::Totals;
pub use error::{Cause, Error, Result};
pub use read::reader::{ShardReader, ShardView};
pub use read::table_view::probing::IndexRecall;
pub use registry::Registry;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use registry::format::act_as_next_release;
pub use registry::format::{Listed, Registered};
pub use registry::runs::Reported;
pub use settings::{SearchMemory, ShardSettings, Takeover, Tuning};
pub use shard::ShardWriter;
pub use shard::maintain::{Done, Maintenance, Next, Work};
pub use shard::plan::{MaintenancePlan, MaintenanceReport, MaintenanceStep, ShardStatistics, plan};
pub use shard::scan::Traces;
pub use storage::Storage;
pub use storage::memories::StagedMemory;
pub use storage::probe::{Broken, Probed};
pub use storage::requests::StorageRequest;
pub use storage::s3::{ObjectStoreSettings, Secret};
pub use storage::session::IndexMemory;
pub use storage::url::StorageUrl;
pub use table::kind::TableKind;
pub use table::ownership::Left;
pub use table::statistics::TableStatistics;
pub use table::vectors::VectorColumn;
pub use values::derived::{Committed, DerivedDocument, DerivedPart, EmbeddedChunk};
pub use values::due::{DueDocument, Lag};
pub use values::failure::FailedAttempt;
pub use values::nodes::{
    CorpusTreeRow, DocumentNodes, DocumentSegments, MissingNode, NodeRow, SegmentNode,
    StructureChanges, StructuredDocument, SummaryVector,
};
pub use values::offer::{Offer, OfferResult};
pub use values::text_memory::TextMemory;
pub use values::vector_memory::VectorMemory;
