//! The graph extracted in view of the question, which extends the stored graph.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{
    DocumentId, Error, Evidence, Extraction, ExtractionTask, GraphQuery, SegmentId, Subgraph,
};
use clew_graph::{Graph, GraphDocument, GraphSegment};

use crate::work::Work;

/// Maximum number of passages that are read for the question at once.
pub const MAX_READ: usize = 6;

/// Maximum number of bytes of each of them: about 2,000 tokens, a third of the window, since they
/// are read while the question waits.
pub const MAX_READ_BYTES: usize = 8 << 10;

/// Graph extracted from the passages read for one question: the query-oriented part of QRMeM's
/// memory (section 2.1, "query-oriented graph initialization").
///
/// Its segments have the ids of the stored graph. A passage that is not one of these gets an id of
/// its own, which the stored graph cannot know, and its text stays here.
#[derive(Debug, Default)]
pub(super) struct Extension {
    graph: Graph,
    documents: BTreeMap<DocumentId, GraphDocument>,
    /// Segments that were read, or tried.
    read: BTreeSet<SegmentId>,
    /// Passages that are no stored segments.
    own: BTreeMap<SegmentId, Evidence>,
}

impl Extension {
    /// Returns a new id for a passage that is no segment of the stored graph.
    ///
    /// Own ids count down from the greatest ordinal. Those of documents count up from 0, and no
    /// document has so many segments that both meet.
    pub(super) fn own_segment(&mut self, passage: &Evidence) -> SegmentId {
        let count = u32::try_from(self.own.len()).unwrap_or(u32::MAX);
        let id = SegmentId {
            document_id: passage.document_id.clone(),
            version: passage.version,
            ordinal: u32::MAX - count,
        };
        self.own.insert(id.clone(), passage.clone());
        id
    }

    /// Returns the texts of those segments that are kept here, and the ids of the others.
    pub(super) fn texts<'i>(
        &self,
        ids: impl IntoIterator<Item = &'i SegmentId>,
    ) -> (BTreeMap<SegmentId, Evidence>, Vec<SegmentId>) {
        let (mut texts, mut stored) = (BTreeMap::new(), Vec::new());
        for id in ids {
            match self.own.get(id) {
                Some(text) => {
                    texts.insert(id.clone(), text.clone());
                }
                None => stored.push(id.clone()),
            }
        }
        (texts, stored)
    }

    /// Reads the first [`MAX_READ`] of `passages` that were not read yet, in one call, and adds
    /// what is extracted.
    pub(super) async fn read(
        &mut self,
        work: &mut Work<'_>,
        passages: Vec<(SegmentId, Evidence)>,
    ) -> Result<(), Error> {
        let mut new: Vec<(SegmentId, Evidence)> = Vec::new();
        for (id, passage) in passages {
            if new.len() < MAX_READ && self.is_of_known_version(&id) && self.read.insert(id.clone())
            {
                new.push((id, passage));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let question = &work.question.text;
        let tasks = new.iter().map(|(_, passage)| task(passage, question)).collect();
        let found = work.extract(tasks).await?;
        let mut changed = BTreeSet::new();
        for ((id, passage), extraction) in new.into_iter().zip(found) {
            if !extraction.entities.is_empty() {
                changed.insert(id.document_id.clone());
                self.add(id, passage, extraction);
            }
        }
        for document in changed.iter().filter_map(|id| self.documents.get(id)) {
            self.graph.insert(document.clone());
        }
        Ok(())
    }

    /// Returns whether a segment belongs to the version of its document that was read first. A
    /// graph holds one version of a document.
    fn is_of_known_version(&self, id: &SegmentId) -> bool {
        let mut read = self.read.iter().filter(|read| read.document_id == id.document_id);
        read.all(|read| read.version == id.version)
    }

    fn add(&mut self, id: SegmentId, passage: Evidence, extraction: Extraction) {
        let Evidence { document_id, version, title, span, .. } = passage;
        let segment = GraphSegment { ordinal: id.ordinal, span, extraction };
        let none = GraphDocument {
            document_id: document_id.clone(),
            version,
            title,
            segments: Vec::new(),
        };
        self.documents.entry(document_id).or_insert(none).segments.push(segment);
    }

    /// Returns the extracted graph around what `query` names. Passages were read for the question's
    /// topics, so lower-case words in the texts of `query` count as names, too.
    pub(super) fn subgraph(&self, query: &GraphQuery) -> Subgraph {
        let small = query.texts.iter().map(|text| text.to_lowercase());
        let texts = query.texts.iter().cloned().chain(small).collect();
        self.graph.subgraph(&GraphQuery { texts, ..query.clone() })
    }
}

fn task(passage: &Evidence, question: &str) -> ExtractionTask {
    let end = passage.text.floor_char_boundary(MAX_READ_BYTES);
    ExtractionTask {
        text: passage.text[..end].to_owned(),
        background: passage.title.clone(),
        question: question.to_owned(),
        speaker: String::new(),
    }
}
