//! Exchange of graphs with other tools, as files.
//!
//! GraphML with the fields of LightRAG ("LightRAG: Simple and Fast Retrieval-Augmented Generation")
//! is written and read; tools such as Gephi draw it. The triples that HippoRAG keeps of its open
//! information extraction are read only. JSON for programs is written only.

mod graphml;
mod json;
mod openie;

use std::collections::HashMap;

use clew_core::{Entity, EntityKind, Error, Extraction, Relation, Span, Version};

pub use graphml::{from_graphml, to_graphml};
pub use json::to_json;
pub use openie::from_openie;

use crate::memory::{Graph, GraphDocument, GraphSegment};

/// Contents of a passage in a file. The file does not have the passage's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportedPassage {
    /// Name of the passage in the file: LightRAG's id of a chunk, HippoRAG's number of a passage.
    pub name: String,
    /// Title of the passage; empty if the file has none.
    pub title: String,
    /// Entities and relations of the passage. Files do not say where in the passage they are, so
    /// there are no mentions, and evidence is empty.
    pub extraction: Extraction,
}

/// Contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// Passages in the order in which the file first names them.
    pub passages: Vec<ImportedPassage>,
    /// Number of relations without two ends and words between them, as a model sometimes writes.
    pub left_out: usize,
}

impl Imported {
    /// Returns the graph of the passages, each of which is a document of one segment.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the name of a passage cannot be the id of
    /// a document.
    pub fn into_graph(self) -> Result<Graph, Error> {
        let mut graph = Graph::default();
        for ImportedPassage { name, title, extraction } in self.passages {
            let document_id = name.parse()?;
            let segments = vec![GraphSegment { ordinal: 0, span: Span::new(0, 0), extraction }];
            graph.insert(GraphDocument { document_id, version: Version(1), title, segments });
        }
        Ok(graph)
    }
}

/// Reads a file of either kind: GraphML ([`from_graphml`]) or lines of JSON ([`from_openie`]).
///
/// # Errors
/// Returns the errors of these two functions.
pub fn import(text: &str) -> Result<Imported, Error> {
    match text.trim_start().starts_with('<') {
        true => from_graphml(text),
        false => from_openie(text),
    }
}

/// Passages by name, while a file is read.
#[derive(Default)]
struct Passages {
    imported: Imported,
    by_name: HashMap<String, usize>,
    /// Entities of each passage by name.
    entities: Vec<HashMap<String, usize>>,
}

impl Passages {
    /// Returns the index of the passage with that name, and adds the passage if it does not exist.
    fn passage(&mut self, name: &str) -> usize {
        if let Some(passage) = self.by_name.get(name) {
            return *passage;
        }
        let passage = self.imported.passages.len();
        self.imported
            .passages
            .push(ImportedPassage { name: name.to_owned(), ..ImportedPassage::default() });
        self.entities.push(HashMap::new());
        self.by_name.insert(name.to_owned(), passage);
        passage
    }

    /// Returns the index of the entity with that name in a passage, and adds the entity if it does
    /// not exist.
    fn entity(&mut self, passage: usize, name: &str, kind: EntityKind) -> usize {
        let entities = &mut self.imported.passages[passage].extraction.entities;
        if let Some(entity) = self.entities[passage].get(name) {
            return *entity;
        }
        self.entities[passage].insert(name.to_owned(), entities.len());
        entities.push(Entity { name: name.to_owned(), kind, mentions: Vec::new() });
        entities.len() - 1
    }

    fn relate(&mut self, passage: usize, head: usize, text: &str, tail: usize) {
        let (text, evidence) = (text.to_owned(), Span::new(0, 0));
        let relations = &mut self.imported.passages[passage].extraction.relations;
        relations.push(Relation { head, text, tail, evidence });
    }
}

#[cfg(test)]
mod tests;
