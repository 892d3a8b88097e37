//! Reembedding: moving a corpus from one embedding model to another while it is in use.
//!
//! While a move is under way, the vectors of both models are kept. Every question therefore finds
//! all documents, whichever model it was embedded with. The corpus can go back until somebody
//! confirms the move.

use serde::{Deserialize, Serialize};

use crate::{EncoderIdentity, Recipe};

/// Last move of a corpus to another model, under way or ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reembedding {
    /// Model that the corpus was first made with.
    pub first: EncoderIdentity,
    /// The one of the two models that questions are not embedded with.
    pub other: EncoderIdentity,
    /// Phase of the move.
    pub phase: ReembedPhase,
    /// Number of the move in the corpus, from 1. It keeps chunks made in an abandoned move from
    /// being taken for those of a later one.
    pub number: u32,
}

/// Phase of a move to another model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReembedPhase {
    /// The other model is the new one. Its vectors are being made, beside those that are searched.
    Filling,
    /// The other model is the previous one. Its vectors are kept, and made for new documents too,
    /// so that the corpus can go back.
    CutOver,
    /// Ended: the new model is searched, and the vectors of the other, previous one are removed.
    Confirmed,
    /// Ended before the cut-over: the vectors of the other, new model are removed.
    Abandoned,
}

/// Step of a move. Each may be requested again: what is done already is not done twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReembedStep {
    /// Begin to make vectors of this model.
    Start(EncoderIdentity),
    /// Search the vectors of the new model.
    CutOver,
    /// Search the vectors of the previous model again.
    Back,
    /// Keep only the vectors of the new model.
    Confirm,
    /// Keep only the vectors of the previous model. Not possible while the new one is searched.
    Abandon,
}

impl Reembedding {
    /// Returns whether the vectors of both models are kept.
    pub fn is_on(&self) -> bool {
        matches!(self.phase, ReembedPhase::Filling | ReembedPhase::CutOver)
    }
}

/// Progress of a shard with the vectors that its corpus wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reembedded {
    /// Recipe by which the shard makes chunks. It is that of the corpus' settings once the shard
    /// has learned of them.
    pub recipe: Recipe,
    /// Number of documents that can be found.
    pub documents: u64,
    /// Number of those documents that lack vectors, or other things that their chunks should have.
    pub outdated: u64,
    /// Number of outdated documents that failed too often and are set aside.
    pub set_aside: u64,
}
