//! Reads files of many formats into documents.
//!
//! It is a crate of its own because it carries the heavy parsers. [`discover`] turns arguments of
//! a command line into files, [`read`] turns a file into documents. Whatever a file holds, the
//! outcome is documents that passed [`clew_core::Document::check`], or an [`Unreadable`] that says
//! which file and row could not be read and why.
//!
//! A format is a file in `format/` and a line in the registry of `format.rs`.

mod discover;
mod encoding;
mod export;
mod format;
mod naming;
mod options;
mod read;
mod reader;
mod row;
mod source;
mod table;
mod unreadable;

pub use discover::{Discovery, Found, discover};
pub use export::{Export, ExportError, ExportFormat};
pub use format::Format;
pub use naming::Naming;
pub use options::{Columns, Options};
pub use read::{Documents, read};
pub use source::Source;
pub use unreadable::{Place, Problem, Unreadable};
