//! The documents that a question's filter admits, for data that is not filtered itself: the nodes
//! of a tree and the segments of a graph.

use std::collections::BTreeSet;

use clew_core::{DocumentId, EntityNode, Error, Grouping, TreeNode, TreeNodeId};

use crate::work::Work;

/// Maximum number of documents that a filter by attributes or time admits.
const MOST_DOCUMENTS: usize = 200;

/// Documents that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// All documents.
    All,
    /// Only these.
    Only(BTreeSet<DocumentId>),
}

impl Admitted {
    /// Finds the documents that the question's filter admits.
    ///
    /// A filter that only names documents needs no search. Only the retriever knows attributes and
    /// event times. For these, the admitted documents are the 200 best that a search with the
    /// filter finds. Documents beyond them are left out, and a document that the filter excludes is
    /// never admitted.
    pub(crate) async fn find(work: &mut Work<'_>) -> Result<Self, Error> {
        let filter = &work.question.filter;
        if filter.is_empty() {
            return Ok(Self::All);
        }
        if filter.names_documents_only() {
            return Ok(Self::Only(filter.documents.iter().cloned().collect()));
        }
        let mut query = work.query(work.question.text.clone(), MOST_DOCUMENTS);
        query.grouping = Grouping::Documents;
        let found = work.search(query).await?;
        Ok(Self::Only(found.into_iter().map(|item| item.document_id).collect()))
    }

    pub(crate) fn has(&self, document: &DocumentId) -> bool {
        match self {
            Self::All => true,
            Self::Only(documents) => documents.contains(document),
        }
    }

    /// Returns whether an admitted document mentions `entity`. If not all of its segments are
    /// known, assumes so.
    pub(crate) fn knows(&self, entity: &EntityNode) -> bool {
        let are_all_known = entity.mentioned_in <= entity.segments.len() as u64;
        !are_all_known || entity.segments.iter().any(|id| self.has(&id.document_id))
    }

    /// Returns whether a node may cover an admitted document. For a node above documents, its range
    /// of documents decides.
    pub(crate) fn may_be_under(&self, node: &TreeNode) -> bool {
        let Self::Only(documents) = self else { return true };
        match &node.id {
            TreeNodeId::Document { document_id, .. } => documents.contains(document_id),
            TreeNodeId::Upper { .. } => {
                let (first, last) = &node.documents;
                first <= last && documents.range(first..=last).next().is_some()
            }
        }
    }
}
