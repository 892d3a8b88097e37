//! A sentence-transformers model folder as published on the Hugging Face hub.
//!
//! | file                        | what is read from it                                             |
//! |-----------------------------|------------------------------------------------------------------|
//! | `modules.json`              | the steps from text to vector: transformer, pooling, normalising |
//! | `config.json`               | shape of the BERT                                                |
//! | `sentence_bert_config.json` | most tokens of a text; by default all positions of the model     |
//! | `tokenizer.json`            | the tokenizer                                                    |
//! | `model.safetensors`         | the weights, or `model.safetensors.index.json` and its parts     |
//! | `1_Pooling/config.json`     | how token states become one vector                               |
//! | `config_sentence_transformers.json` | texts put before questions and passages, if any          |
//!
//! Vectors always have length one, as the encoder's seam wants them, whether or not `modules.json`
//! ends with a Normalize step: without one only their length is lost, which cosine never reads.

pub(crate) mod reader;
mod sentence;
mod transformer;

use std::path::Path;
use std::sync::Arc;

use clew_tokenizer::WordPieceTokenizer;

use crate::Error;
use crate::bert::{self, BertConfig};
use crate::pooling::Pooling;
use crate::weights::{WeightFile, Weights};
use reader::FolderReader;
pub(crate) use sentence::Prompts;
pub(crate) use transformer::weight_names;

/// A complete and consistent model folder, read into memory.
pub(crate) struct ModelFolder {
    /// The folder's name.
    pub(crate) name: String,
    pub(crate) config: BertConfig,
    pub(crate) pooling: Pooling,
    pub(crate) prompts: Prompts,
    /// Most tokens of a text, special tokens included.
    pub(crate) max_tokens: usize,
    pub(crate) tokenizer: WordPieceTokenizer,
    /// The file that the tokenizer was read from.
    pub(crate) tokenizer_json: Arc<[u8]>,
    /// Fingerprint of everything that decides a vector.
    pub(crate) revision: String,
    weight_files: Vec<WeightFile>,
}

impl ModelFolder {
    /// Reads `folder`.
    ///
    /// # Errors
    /// Any of the variants of [`Error`] about files.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let reader = FolderReader::new(folder);
        let modules = sentence::read_modules(&reader)?;
        let transformer = reader.within(&modules.transformer);
        let config = transformer::read_config(&transformer)?;
        let max_tokens = sentence::read_max_tokens(&transformer, &config)?;
        let pooling = sentence::read_pooling(&reader.within(&modules.pooling), &config)?;
        let prompts = sentence::read_prompts(&reader)?;
        let tokenizer_file = transformer.read("tokenizer.json", "the model's tokenizer")?;
        let tokenizer =
            WordPieceTokenizer::try_new(&transformer.name("tokenizer.json"), &tokenizer_file)?;
        check_tokenizer(&transformer, &tokenizer, &config, max_tokens)?;
        let weight_files = transformer::read_weights(&transformer)?;

        let mut fingerprint = Fingerprint::default();
        let settings = serde_json::json!([config, max_tokens, pooling, prompts]);
        fingerprint.add(settings.to_string().as_bytes());
        fingerprint.add(&tokenizer_file);
        for file in &weight_files {
            fingerprint.add(&file.bytes);
        }
        Ok(Self {
            name: folder_name(folder),
            config,
            pooling,
            prompts,
            max_tokens,
            tokenizer,
            tokenizer_json: tokenizer_file.into(),
            revision: fingerprint.finish(),
            weight_files,
        })
    }

    /// The model's tensors, checked against its configuration.
    ///
    /// # Errors
    /// Those of [`Weights::find`].
    pub(crate) fn weights(&self) -> Result<Weights<'_>, Error> {
        Weights::find(&self.weight_files, bert::ROOT, &self.config.parameters(), bert::is_ignored)
    }
}

fn check_tokenizer(
    folder: &FolderReader,
    tokenizer: &WordPieceTokenizer,
    config: &BertConfig,
    max_tokens: usize,
) -> Result<(), Error> {
    if tokenizer.largest_id() as usize >= config.vocabulary {
        return Err(Error::Inconsistent {
            file: folder.name("tokenizer.json"),
            other: folder.name("config.json"),
            expected: format!("token ids below `vocab_size`, {}", config.vocabulary),
            found: format!("id {}", tokenizer.largest_id()),
        });
    }
    if tokenizer.special_tokens() >= max_tokens {
        return Err(Error::Inconsistent {
            file: folder.name("sentence_bert_config.json"),
            other: folder.name("tokenizer.json"),
            expected: format!("room for more than {} special tokens", tokenizer.special_tokens()),
            found: format!("a window of {max_tokens} tokens"),
        });
    }
    Ok(())
}

/// The last part of the folder's path, after resolving `.`, `..` and links.
pub(crate) fn folder_name(folder: &Path) -> String {
    let resolved = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    resolved
        .file_name()
        .map_or_else(|| "unnamed".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Hashes parts so that no other division into parts gives the same result.
#[derive(Default)]
struct Fingerprint(blake3::Hasher);

impl Fingerprint {
    fn add(&mut self, part: &[u8]) {
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// The first 128 bits in hexadecimal: plenty to tell models apart, and short enough to read.
    fn finish(self) -> String {
        self.0.finalize().to_hex()[..32].to_owned()
    }
}
