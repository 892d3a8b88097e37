//! A small shard for unit tests.

use std::path::Path;

use clew_core::{
    Attributes, Chunking, CorpusSettings, Document, EncoderIdentity, Labels, MediaType, Timestamp,
};

use crate::settings::{ShardSettings, Takeover, Tuning};
use crate::shard::ShardWriter;
use crate::storage::Storage;

/// Numbers in a vector.
pub(crate) const DIMENSION: usize = 8;

/// Opens the shard of a corpus in a folder.
pub(crate) async fn open(folder: &Path, tuning: Tuning) -> ShardWriter {
    let encoder = EncoderIdentity {
        model: "none".to_owned(),
        revision: "1".to_owned(),
        dimension: DIMENSION as u32,
        max_tokens: 64,
    };
    let (now, chunking) = (Timestamp::from_micros(1), Chunking::Sections { max_tokens: 32 });
    let corpus = CorpusSettings::plain("notes".parse().unwrap(), 1, chunking, encoder, now);
    let settings = ShardSettings { tuning, ..ShardSettings::of(&corpus) };
    ShardWriter::open(&Storage::from(folder), settings, Takeover::Uncontested).await.unwrap()
}

/// Returns a document with the text `text of {id}`.
pub(crate) fn document(id: &str) -> Document {
    Document {
        id: id.parse().unwrap(),
        text: format!("text of {id}"),
        media_type: MediaType::Plain,
        title: String::new(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::default(),
        source_version: None,
    }
}
