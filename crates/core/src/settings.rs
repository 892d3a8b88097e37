//! Settings of a corpus: what it derives from its documents, and by which models.

mod moves;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    ChatSettings, CorpusName, EncoderIdentity, Error, Limits, MemorySettings, Recipe, Recipes,
    Reembedding, StructureSettings, Timestamp, Violations,
};

/// Rule for cutting documents into chunks. Sizes are tokens of the corpus' encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Chunking {
    /// Windows of up to `max_tokens`, each beginning `overlap_tokens` before the end of the last.
    Tokens {
        /// Maximum number of tokens of a chunk.
        max_tokens: u32,
        /// Number of tokens that two neighbours share.
        overlap_tokens: u32,
    },
    /// Whole sentences, packed up to `max_tokens`.
    Sentences {
        /// Maximum number of tokens of a chunk.
        max_tokens: u32,
    },
    /// Paragraphs and Markdown sections, packed up to `max_tokens`, never across a heading. The key
    /// text of each chunk carries the headings above it.
    Sections {
        /// Maximum number of tokens of a chunk.
        max_tokens: u32,
    },
}

impl Chunking {
    /// Returns the maximum number of tokens of a chunk.
    pub fn max_tokens(&self) -> u32 {
        match *self {
            Self::Tokens { max_tokens, .. }
            | Self::Sentences { max_tokens }
            | Self::Sections { max_tokens } => max_tokens,
        }
    }
}

impl Chunking {
    /// Returns sections that leave a fifth of the encoder's window to title and headings and are no
    /// longer than 200 tokens: longer passages blur what their vector means.
    pub fn default_for(encoder: &EncoderIdentity) -> Self {
        Self::Sections { max_tokens: (encoder.max_tokens * 4 / 5).min(200) }
    }
}

/// Settings of a corpus. All but the embedding model are fixed when the corpus is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusSettings {
    /// Name of the corpus.
    pub name: CorpusName,
    /// Number of shards.
    pub shards: u32,
    /// Rule for cutting its documents.
    pub chunking: Chunking,
    /// Model that embeds questions about its documents. It changes only by
    /// [`CorpusSettings::after`].
    pub encoder: EncoderIdentity,
    /// Settings of its tree and graph; `None` if it has none.
    #[serde(default)]
    pub structure: Option<StructureSettings>,
    /// Number of days for which documents are kept, from their event time or, without one, from
    /// their acceptance. Then they are forgotten. `None` keeps them for ever.
    #[serde(default)]
    pub retention_days: Option<u32>,
    /// Settings of its compressed memories; `None` if it has none.
    #[serde(default)]
    pub memory: Option<MemorySettings>,
    /// Settings of its conversations; `None` for the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatSettings>,
    /// Last move to another model; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reembedding: Option<Reembedding>,
    /// Time when it was created.
    pub created_at: Timestamp,
}

impl CorpusSettings {
    /// Creates the settings of a corpus without trees, graphs and memories, whose documents are
    /// kept for ever.
    pub fn plain(
        name: CorpusName,
        shards: u32,
        chunking: Chunking,
        encoder: EncoderIdentity,
        created_at: Timestamp,
    ) -> Self {
        Self {
            name,
            shards,
            chunking,
            encoder,
            structure: None,
            retention_days: None,
            memory: None,
            chat: None,
            reembedding: None,
            created_at,
        }
    }

    /// Checks that the settings can work.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming every field at fault.
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        let mut violations = Violations::default();
        if !(1..=limits.shards).contains(&self.shards) {
            violations.push(
                "corpus.shards",
                format!("expected 1 to {}, got {}", limits.shards, self.shards),
            );
        }
        let max_tokens = self.chunking.max_tokens();
        if !(16..=self.encoder.max_tokens).contains(&max_tokens) {
            violations.push(
                "corpus.chunking.max_tokens",
                format!(
                    "expected 16 to {} (the encoder's window), got {max_tokens}",
                    self.encoder.max_tokens
                ),
            );
        }
        if let Chunking::Tokens { max_tokens, overlap_tokens } = self.chunking
            && overlap_tokens > max_tokens / 2
        {
            violations.push(
                "corpus.chunking.overlap_tokens",
                format!("expected at most half of max_tokens, got {overlap_tokens}"),
            );
        }
        if let Some(structure) = &self.structure {
            structure.check(&mut violations);
        }
        if let Some(memory) = &self.memory {
            memory.check(&mut violations);
        }
        if self.retention_days == Some(0) {
            violations.push("corpus.retention_days", "expected at least 1");
        }
        violations.into_result()
    }

    /// Returns how long documents are kept; `None` means for ever.
    pub fn retained(&self) -> Option<Duration> {
        Some(Duration::from_secs(u64::from(self.retention_days?) * 86_400))
    }

    /// Returns the keys by which turns of conversations are found, each by itself. If there are
    /// none, [`ChatSettings::keys`] says what is used.
    pub fn chat_keys(&self) -> &[String] {
        self.chat.as_ref().map(|chat| chat.keys.as_slice()).unwrap_or_default()
    }

    /// Returns the recipes of chunks: what decides a document's chunks besides its content. Chunks
    /// of any other recipe are due again.
    pub fn recipes(&self) -> Recipes {
        // Raise when the chunker's output changes for the same settings.
        const DERIVER_VERSION: u32 = 2;
        // Without keys this is as it was before keys existed, so that nothing is made again.
        let cutting = match self.chat_keys() {
            [] => serde_json::json!(self.chunking),
            keys => serde_json::json!([self.chunking, keys]),
        };
        let by_one = Recipe::of(&serde_json::json!([DERIVER_VERSION, cutting, self.encoder]));
        let Some(reembedding) = &self.reembedding else {
            return Recipes { wanted: by_one, as_good: None };
        };
        // The recipe is the same whichever of the two models is searched.
        let mut models = [&self.encoder, &reembedding.other];
        models.sort_by_key(|it| it.fingerprint());
        let number = reembedding.number;
        let by_both = Recipe::of(&serde_json::json!([DERIVER_VERSION, cutting, models, number]));
        match reembedding.is_on() {
            true => Recipes { wanted: by_both, as_good: None },
            false => Recipes { wanted: by_one, as_good: Some(by_both) },
        }
    }

    /// Returns the recipe of trees and graphs: what decides those of a document besides its
    /// content. Those made by another recipe are due again. `None` if the corpus has none.
    pub fn structure_recipe(&self) -> Option<Recipe> {
        // Raise when a segmentation, summary or extraction changes for the same settings.
        const DERIVER_VERSION: u32 = 1;
        let structure = self.structure?;
        // The tokens of an encoder decide where segments end. They do not get worse if another
        // encoder follows, so the first one counts.
        let encoder = self.first_encoder();
        Some(Recipe::of(&serde_json::json!(["structure", DERIVER_VERSION, structure, encoder])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> CorpusSettings {
        let encoder = EncoderIdentity {
            model: "m".to_owned(),
            revision: "r".to_owned(),
            dimension: 8,
            max_tokens: 256,
        };
        let (name, chunking) = ("notes".parse().unwrap(), Chunking::Sections { max_tokens: 200 });
        let made = Timestamp::from_micros(0);
        CorpusSettings {
            structure: Some(StructureSettings::default()),
            ..CorpusSettings::plain(name, 1, chunking, encoder, made)
        }
    }

    #[test]
    fn the_recipe_follows_what_decides_the_chunks_and_nothing_else() {
        let base = settings();
        let mut renamed = settings();
        renamed.name = "other".parse().unwrap();
        renamed.created_at = Timestamp::from_micros(1);
        assert_eq!(base.recipes(), renamed.recipes());
        let mut other_model = settings();
        other_model.encoder.revision = "s".to_owned();
        let mut other_chunks = settings();
        other_chunks.chunking = Chunking::Sentences { max_tokens: 200 };
        assert_ne!(base.recipes(), other_model.recipes());
        assert_ne!(base.recipes(), other_chunks.recipes());
        let with_chat = |chat| CorpusSettings { chat: Some(chat), ..settings() };
        let keys = vec!["value".to_owned(), "fact".to_owned()];
        let keyed = with_chat(ChatSettings { keys, ..ChatSettings::default() });
        assert_ne!(base.recipes(), keyed.recipes());
        assert_eq!(base.recipes(), with_chat(ChatSettings::default()).recipes());
        // The recipe of corpora that were stored before keys existed.
        assert_eq!(base.recipes().wanted.to_string(), "recipe-f9eeb336ff2574fc");
        let mut other_segments = settings();
        other_segments.structure =
            Some(StructureSettings { max_children: 3, ..Default::default() });
        assert_eq!(base.recipes(), other_segments.recipes());
        assert_ne!(base.structure_recipe(), other_segments.structure_recipe());
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let mut bad = settings();
        bad.shards = 0;
        bad.chunking = Chunking::Tokens { max_tokens: 300, overlap_tokens: 200 };
        bad.structure = Some(StructureSettings { max_children: 1, ..Default::default() });
        bad.retention_days = Some(0);
        bad.memory = Some(MemorySettings { ratio: 0, segment_tokens: 0 });
        let error = bad.check(&Limits::default()).unwrap_err();
        assert_eq!(error.violations().len(), 7);
    }
}
