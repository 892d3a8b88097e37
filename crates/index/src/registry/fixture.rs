//! What the registries' tests share.

use clew_core::{Chunking, CorpusSettings, EncoderIdentity, Timestamp};

/// Settings of a corpus, told from others of its name by when it was made.
pub(super) fn settings(name: &str, created_at: i64) -> CorpusSettings {
    CorpusSettings {
        name: name.parse().unwrap(),
        shards: 2,
        chunking: Chunking::Sentences { max_tokens: 100 },
        encoder: EncoderIdentity {
            model: "m".to_owned(),
            revision: "r".to_owned(),
            dimension: 8,
            max_tokens: 256,
        },
        structure: None,
        retention_days: None,
        memory: None,
        created_at: Timestamp::from_micros(created_at),
    }
}
