//! A corpus as its users reach it: its settings and its shards, wherever they are.

use std::sync::Arc;
use std::time::Instant;

use crate::{CorpusName, CorpusSettings, Counts, DocumentId, Error, Shard, ShardIndex, placement};

/// A corpus and its shards, as far as one caller sees them.
#[derive(Clone)]
pub struct Corpus {
    settings: Arc<CorpusSettings>,
    shards: Vec<Arc<dyn Shard>>,
}

/// A corpus of a list.
#[derive(Clone)]
pub enum Listed {
    /// It can be used, as far as is known.
    Usable(Arc<Corpus>),
    /// It cannot.
    Unusable(Unusable),
}

/// A corpus that cannot be used, since its settings cannot be read. That is no matter of other corpora.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Its name.
    pub name: CorpusName,
    /// Stable upper-case word for programs, as calls about it fail with: DATA_LOSS, NEWER_FORMAT.
    pub reason: String,
    /// What was expected, what came and what to do.
    pub message: String,
}

impl Unusable {
    /// One about which calls fail with `error`.
    pub fn new(name: CorpusName, error: &Error) -> Self {
        Self { name, reason: error.reason().to_owned(), message: error.message().to_owned() }
    }
}

impl Listed {
    /// Its name.
    pub fn name(&self) -> &CorpusName {
        match self {
            Self::Usable(corpus) => &corpus.settings.name,
            Self::Unusable(unusable) => &unusable.name,
        }
    }
}

impl Corpus {
    /// A corpus of `settings`, with its shards by index.
    pub fn new(settings: Arc<CorpusSettings>, shards: Vec<Arc<dyn Shard>>) -> Self {
        debug_assert_eq!(shards.len(), settings.shards as usize, "each shard once");
        Self { settings, shards }
    }

    /// Its settings.
    pub fn settings(&self) -> &CorpusSettings {
        &self.settings
    }

    /// Its shards, by index.
    pub fn shards(&self) -> &[Arc<dyn Shard>] {
        &self.shards
    }

    /// The shard a document belongs to.
    pub fn shard_of(&self, document: &DocumentId) -> &Arc<dyn Shard> {
        let ShardIndex(index) = placement::shard_of(document, self.settings.shards);
        &self.shards[index as usize]
    }

    /// What it holds, over all shards.
    ///
    /// # Errors
    /// The first of a shard that cannot tell.
    pub async fn counts(&self, deadline: Instant) -> Result<Counts, Error> {
        let mut total = Counts::default();
        // One after the other: this is asked seldom, and a few milliseconds a shard.
        for shard in &self.shards {
            total += shard.counts(deadline).await?;
        }
        Ok(total)
    }
}
