//! Small shards for unit tests.

use std::path::Path;

use clew_core::{
    Attributes, Chunk, Chunking, CorpusSettings, Document, EncoderIdentity, Labels, MediaType,
    Span, Timestamp,
};

use crate::settings::{ShardSettings, Takeover, Tuning};
use crate::shard::ShardWriter;
use crate::storage::Storage;
use crate::values::derived::{DerivedDocument, EmbeddedChunk};

/// Opens the shard of a corpus in a folder.
pub(crate) async fn open(folder: &Path, tuning: Tuning) -> ShardWriter {
    let encoder = EncoderIdentity {
        model: "none".to_owned(),
        revision: "1".to_owned(),
        dimension: 8,
        max_tokens: 64,
    };
    let (now, chunking) = (Timestamp::from_micros(1), Chunking::Sections { max_tokens: 32 });
    let corpus = CorpusSettings::plain("notes".parse().unwrap(), 1, chunking, encoder, now);
    let settings = ShardSettings { tuning, ..ShardSettings::of(&corpus) };
    ShardWriter::open(&Storage::from(folder), settings, Takeover::Uncontested).await.unwrap()
}

/// Returns a document with nothing but its text.
pub(crate) fn document(id: &str, text: &str) -> Document {
    Document {
        id: id.parse().unwrap(),
        text: text.to_owned(),
        media_type: MediaType::Plain,
        title: String::new(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::default(),
        source_version: None,
    }
}

/// Accepts a document and commits one chunk of it.
pub(crate) async fn ingest(shard: &mut ShardWriter, id: &str, text: &str) {
    let (document, now) = (document(id, text), Timestamp::from_micros(1));
    let version = shard.accept(vec![document.clone()], now).await.unwrap()[0].version;
    let (span, key_text, attributes) =
        (Span::new(0, text.len()), text.to_owned(), Attributes::new());
    let chunk = Chunk { ordinal: 0, span, key_text, tokens: 9, attributes };
    let vector = |column: &crate::VectorColumn| vec![1.0; column.encoder.dimension as usize];
    let vectors = shard.settings().vectors.iter().map(vector).collect();
    let recipe = shard.settings().recipes.wanted;
    let chunks = vec![EmbeddedChunk { chunk, vectors }];
    let derived = DerivedDocument { document, version, recipe, chunks };
    shard.commit_derived(vec![derived]).await.unwrap();
}
