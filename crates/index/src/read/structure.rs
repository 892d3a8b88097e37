//! Reads summary trees and the extractions of their segments.
//!
//! Nodes of a document's tree are visible once all of them exist, and only while they belong to the
//! version that searches find. Nodes of the corpus tree are visible while they are part of the tree
//! that the documents with trees call for ([`clew_core::CorpusTree`]).

mod due;
mod graph;
mod nodes;
mod tree;
