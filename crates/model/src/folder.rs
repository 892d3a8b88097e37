//! Reads a sentence-transformers model folder, as published on the Hugging Face hub.
//!
//! | file                        | content that is read                                           |
//! |-----------------------------|----------------------------------------------------------------|
//! | `modules.json`              | steps from text to vector: transformer, pooling, normalising   |
//! | `config.json`               | family and shape of the transformer: BERT, XLM-RoBERTa, Qwen2  |
//! | `sentence_bert_config.json` | maximum tokens of a text; by default all positions             |
//! | `tokenizer.json`            | the tokenizer                                                  |
//! | `model.safetensors`         | the weights, or `model.safetensors.index.json` and its parts   |
//! | `1_Pooling/config.json`     | how token states become one vector                             |
//! | `2_Dense_…/`                | a matrix that gives the vector another width, if any           |
//! | `tokenizer_config.json`     | whether a text has to end with a special token                 |
//! | `config_sentence_transformers.json` | prompts before queries and passages, if any            |
//!
//! Vectors always have length one, as `clew-core` expects of an encoder, whether or not
//! `modules.json` ends with a Normalize step. Without that step only the length is lost, which
//! cosine similarity ignores. Some models, such as Contriever, compare vectors by their dot
//! product. For these, passages of different length may be ordered slightly differently.

pub(crate) mod reader;
mod sentence;
mod transformer;
mod weight_files;

use std::path::Path;
use std::sync::Arc;

use clew_tokenizer::EncoderTokenizer;
use serde::Deserialize;

use crate::Error;
use crate::bert::BertConfig;
use crate::checkpoint::Checkpoint;
use crate::dense::DenseConfig;
use crate::pooling::Pooling;
use crate::qwen2::{self, Qwen2Config};
use reader::FolderReader;
pub(crate) use sentence::Prompts;
pub(crate) use transformer::{TransformerConfig, read_bert};
pub(crate) use weight_files::weight_names;

pub(crate) const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// Transformer and its weights, which are read when an engine is loaded.
pub(crate) enum Transformer {
    Bert { config: BertConfig, checkpoint: Checkpoint },
    Qwen2 { config: Qwen2Config, checkpoint: Checkpoint },
}

/// Model folder whose small files are read and consistent. The large ones are read by
/// [`Self::read_tokenizer`], [`Self::revision`] and the engine, which may run at the same time.
pub(crate) struct ModelFolder {
    /// The folder's name.
    pub(crate) name: String,
    pub(crate) transformer: Transformer,
    /// Step after the pooling.
    pub(crate) dense: Option<(DenseConfig, Checkpoint)>,
    /// Number of token ids.
    pub(crate) vocabulary: usize,
    /// Dimension of the model's vectors.
    pub(crate) dimension: usize,
    pub(crate) pooling: Pooling,
    pub(crate) prompts: Prompts,
    /// Maximum number of tokens in a text, special tokens included.
    pub(crate) max_tokens: usize,
    /// Token id that stands for a text without tokens.
    pub(crate) blank: u32,
    /// Content of the file that the tokenizer is read from.
    pub(crate) tokenizer_json: Arc<[u8]>,
    /// Folder of the transformer and the tokenizer.
    reader: FolderReader,
    /// Text of the settings that affect a vector, which is fingerprinted.
    settings: String,
}

impl ModelFolder {
    /// Reads the small files of `folder`, and finds its tensors.
    ///
    /// # Errors
    /// Returns any of the variants of [`Error`] that are about files.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let reader = FolderReader::new(folder);
        let modules = sentence::read_modules(&reader)?;
        let transformer = reader.within(&modules.transformer);
        let config = transformer::read_config(&transformer)?;
        if modules.dense.is_some() && matches!(config, TransformerConfig::Bert(_)) {
            let expected = "Transformer, Pooling and perhaps Normalize around a BERT";
            return Err(reader.unsupported(sentence::MODULES, expected, "Dense"));
        }
        let max_tokens = sentence::read_max_tokens(&transformer, config.positions())?;
        let pooling = sentence::read_pooling(&reader.within(&modules.pooling), &config)?;
        let dense = match &modules.dense {
            None => None,
            Some(inner) => {
                let folder = reader.within(inner);
                Some((DenseConfig::read(&folder, config.hidden())?, folder))
            }
        };
        let prompts = sentence::read_prompts(&reader)?;
        let tokenizer_json = transformer.read(TOKENIZER, "the model's tokenizer")?.into();
        let settings = serde_json::json!([config, max_tokens, pooling, prompts]).to_string();
        let (vocabulary, hidden) = (config.vocabulary(), config.hidden());
        let dimension = dense.as_ref().map_or(hidden, |(config, _)| config.output);
        let checkpoint = Checkpoint::open(&transformer)?;
        let mut blank = 0;
        let weights = match config {
            TransformerConfig::Bert(config) => {
                let checkpoint = checkpoint.relative_to(config.family.root())?;
                Transformer::Bert { config, checkpoint }
            }
            TransformerConfig::Qwen2(config) => {
                let mut ends = config.layers.ends.iter().copied();
                blank = ends.find(|end| (*end as usize) < vocabulary).unwrap_or(0);
                Transformer::Qwen2 { config, checkpoint: checkpoint.rooted(qwen2::ROOT) }
            }
        };
        let dense = match dense {
            None => None,
            Some((config, folder)) => Some((config, Checkpoint::open(&folder)?)),
        };
        Ok(Self {
            name: folder_name(folder),
            transformer: weights,
            dense,
            vocabulary,
            dimension,
            pooling,
            prompts,
            max_tokens,
            blank,
            tokenizer_json,
            reader: transformer,
            settings,
        })
    }

    /// Reads the tokenizer.
    ///
    /// # Errors
    /// Returns the errors of [`EncoderTokenizer::try_new`], and those of a tokenizer that does not
    /// fit the model.
    pub(crate) fn read_tokenizer(&self) -> Result<EncoderTokenizer, Error> {
        let file = self.reader.name(TOKENIZER);
        let tokenizer = EncoderTokenizer::try_new(&file, &self.tokenizer_json)?;
        check_vocabulary(&self.reader, tokenizer.largest_id(), self.vocabulary)?;
        if tokenizer.special_tokens() >= self.max_tokens {
            return Err(Error::Inconsistent {
                file: self.reader.name("sentence_bert_config.json"),
                other: file,
                expected: format!(
                    "room for more than {} special tokens",
                    tokenizer.special_tokens()
                ),
                found: format!("a window of {} tokens", self.max_tokens),
            });
        }
        check_special_tokens(&self.reader, &tokenizer, &self.transformer)?;
        Ok(tokenizer)
    }

    /// Returns the fingerprint of everything that affects a vector. Reads all weights.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if a file cannot be read.
    pub(crate) fn revision(&self) -> Result<String, Error> {
        let mut fingerprint = Fingerprint::default();
        fingerprint.add(self.settings.as_bytes());
        fingerprint.add(&self.tokenizer_json);
        let (Transformer::Bert { checkpoint, .. } | Transformer::Qwen2 { checkpoint, .. }) =
            &self.transformer;
        checkpoint.add_files_to(&mut fingerprint.0)?;
        if let Some((config, checkpoint)) = &self.dense {
            fingerprint.add(serde_json::json!(config).to_string().as_bytes());
            checkpoint.add_files_to(&mut fingerprint.0)?;
        }
        Ok(fingerprint.finish())
    }
}

/// Fields read from `tokenizer_config.json`.
#[derive(Deserialize)]
struct RawTokenizerConfig {
    #[serde(default)]
    add_eos_token: Option<bool>,
}

fn check_special_tokens(
    folder: &FolderReader,
    tokenizer: &EncoderTokenizer,
    transformer: &Transformer,
) -> Result<(), Error> {
    match transformer {
        Transformer::Bert { .. } if tokenizer.special_tokens() == 0 => {
            Err(folder.unsupported(TOKENIZER, "special tokens around a text", "none"))
        }
        Transformer::Qwen2 { .. } if tokenizer.special_tokens_after() == 0 => {
            // Some tokenizers append the end token in code, which `tokenizer.json` does not show.
            let expected = "the tokenizer's settings";
            let raw: Option<RawTokenizerConfig> =
                folder.json_if_present(TOKENIZER_CONFIG, expected)?;
            match raw.and_then(|raw| raw.add_eos_token) {
                Some(true) => Err(Error::Inconsistent {
                    file: folder.name(TOKENIZER),
                    other: folder.name(TOKENIZER_CONFIG),
                    expected: "a special token after a text, `add_eos_token`".to_owned(),
                    found: "none".to_owned(),
                }),
                Some(false) | None => Ok(()),
            }
        }
        Transformer::Bert { .. } | Transformer::Qwen2 { .. } => Ok(()),
    }
}

/// Refuses a tokenizer with ids that have no row in the model's embedding table.
///
/// # Errors
/// Returns [`Error::Inconsistent`] if there is such an id.
pub(crate) fn check_vocabulary(
    folder: &FolderReader,
    largest_id: u32,
    vocabulary: usize,
) -> Result<(), Error> {
    if (largest_id as usize) < vocabulary {
        return Ok(());
    }
    Err(Error::Inconsistent {
        file: folder.name(TOKENIZER),
        other: folder.name("config.json"),
        expected: format!("token ids below `vocab_size`, {vocabulary}"),
        found: format!("id {largest_id}"),
    })
}

/// Returns the last part of the folder's path, after resolving `.`, `..` and links.
pub(crate) fn folder_name(folder: &Path) -> String {
    let resolved = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    resolved
        .file_name()
        .map_or_else(|| "unnamed".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Hash of a list of parts. No other division into parts has the same hash.
#[derive(Default)]
struct Fingerprint(blake3::Hasher);

impl Fingerprint {
    fn add(&mut self, part: &[u8]) {
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Returns the first 128 bits in hexadecimal: enough to tell models apart, and short enough to
    /// read.
    fn finish(self) -> String {
        self.0.finalize().to_hex()[..32].to_owned()
    }
}
