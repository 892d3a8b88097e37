//! Readers that turn files of many formats into documents, from folders and buckets, and a writer
//! for exports.
//!
//! It is a separate crate because of its heavy parsers. [`discover`] turns command-line arguments
//! into files, and [`read`] turns a file into documents. Whatever a file contains, the result is
//! documents that passed [`clew_core::Document::check`], or an [`Unreadable`] that names the file
//! and row that could not be read, and why.
//!
//! A format is one file in `format/` and an entry in the registry in `format.rs`: a `mod` line, a
//! variant, a place in `ALL` and an arm of `entry`.

mod bucket;
mod discover;
mod encoding;
mod export;
mod format;
mod naming;
mod object;
mod options;
mod part;
mod read;
mod reader;
mod row;
mod source;
mod table;
mod unreadable;

pub use bucket::BucketPlace;
pub use discover::{Discovery, FoundFile, discover};
pub use export::{Export, ExportError, ExportFormat};
pub use format::FileFormat;
pub use naming::Naming;
pub use options::{Columns, Options};
pub use part::SourcePart;
pub use read::{FileDocuments, read};
pub use source::Source;
pub use unreadable::{FileLocation, Problem, Unreadable};
