//! Collects the facts about every document from the rows of the tables.

use std::collections::HashMap;

use arrow::datatypes::{UInt32Type, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{CorpusTreeKey, DocumentId, Recipe, Version};

use crate::error::Result;
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::nodes::NodeOwner;
use crate::values::facts::{ChunkFacts, Facts, NodeFacts};

/// Facts that rows add up to, in whatever order the rows come.
#[derive(Default)]
pub(crate) struct Reading {
    facts: HashMap<DocumentId, Facts>,
    tallies: HashMap<(DocumentId, Version, Recipe), Tally>,
    nodes: HashMap<(DocumentId, Version, Recipe), NodeFacts>,
    upper: Vec<CorpusTreeKey>,
}

impl Reading {
    /// Returns the columns of a table that facts are made of. None of them holds text or vectors.
    pub(crate) fn columns(table: TableKind) -> &'static [&'static str] {
        use column::*;
        match table {
            TableKind::Sources => &[
                DOCUMENT_ID,
                VERSION,
                CONTENT_HASH,
                TEXT_BYTES,
                ACCEPTED_AT,
                LABELS,
                SOURCE_VERSION,
            ],
            TableKind::Chunks => &[DOCUMENT_ID, VERSION, RECIPE, ORDINAL, TOKENS, LABELS],
            TableKind::Nodes => &[DOCUMENT_ID, VERSION, RECIPE, NODES, KEY],
            TableKind::Failures => {
                &[DOCUMENT_ID, VERSION, RECIPE, STAGE, ATTEMPTS, KIND, MESSAGE, NEXT_TRY]
            }
        }
    }

    /// Adds rows of a table.
    pub(crate) fn add(&mut self, table: TableKind, batch: &RecordBatch) -> Result<()> {
        let rows = Rows::new(table, batch);
        match table {
            TableKind::Sources => {
                for (id, source) in rows.source_facts()? {
                    let versions = &mut self.facts.entry(id).or_default().sources;
                    // An accepted version is one row. Only a second writer could write another,
                    // which would say the same.
                    if versions.iter().all(|known| known.version != source.version) {
                        versions.push(source);
                    }
                }
            }
            TableKind::Chunks => {
                let tokens = rows.values::<UInt32Type>(column::TOKENS)?;
                for (key, tokens) in rows.chunk_keys()?.into_iter().zip(tokens) {
                    let of = (key.document_id, key.version, key.recipe);
                    self.tallies.entry(of).or_default().add(key.ordinal, tokens);
                }
            }
            TableKind::Nodes => {
                let totals = rows.values::<UInt64Type>(column::NODES)?;
                for (owner, nodes) in rows.node_owners()?.into_iter().zip(totals) {
                    match owner {
                        NodeOwner::Document { document_id, version, recipe } => {
                            let none = NodeFacts { version, recipe, rows: 0, nodes };
                            let of = (document_id, version, recipe);
                            self.nodes.entry(of).or_insert(none).rows += 1;
                        }
                        NodeOwner::Upper(key) => self.upper.push(key),
                    }
                }
            }
            TableKind::Failures => {
                for (id, failure) in rows.failure_facts()? {
                    self.facts.entry(id).or_default().failure = Some(failure);
                }
            }
        }
        Ok(())
    }

    /// Returns the facts of each document that has a row, and the nodes of the corpus tree.
    pub(crate) fn finish(mut self) -> (HashMap<DocumentId, Facts>, Vec<CorpusTreeKey>) {
        for ((id, version, recipe), tally) in self.tallies {
            self.facts.entry(id).or_default().chunks.push(tally.facts(version, recipe));
        }
        for ((id, ..), nodes) in self.nodes {
            self.facts.entry(id).or_default().nodes.push(nodes);
        }
        (self.facts, self.upper)
    }
}

/// Sums over the chunks of a document version.
#[derive(Default)]
struct Tally {
    rows: u64,
    highest_ordinal: u32,
    tokens: u64,
}

impl Tally {
    fn add(&mut self, ordinal: u32, tokens: u32) {
        self.rows += 1;
        self.highest_ordinal = self.highest_ordinal.max(ordinal);
        self.tokens += u64::from(tokens);
    }

    fn facts(&self, version: Version, recipe: Recipe) -> ChunkFacts {
        ChunkFacts {
            version,
            recipe,
            chunks: self.rows,
            tokens: self.tokens,
            is_whole: self.rows == u64::from(self.highest_ordinal) + 1,
        }
    }
}
