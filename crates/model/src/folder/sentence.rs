//! Files that sentence-transformers puts around a transformer.

use std::collections::BTreeMap;

use clew_core::TextKind;
use serde::{Deserialize, Serialize};

use super::reader::{FolderReader, is_inner_path};
use super::transformer::TransformerConfig;
use crate::Error;
use crate::pooling::Pooling;

pub(super) const MODULES: &str = "modules.json";
const POOLING: &str = "config.json";
const WINDOW: &str = "sentence_bert_config.json";
const PROMPTS: &str = "config_sentence_transformers.json";

/// Folders of the steps from text to vector, relative to the model folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Modules {
    pub(super) transformer: String,
    pub(super) pooling: String,
    pub(super) dense: Option<String>,
}

/// Texts that the model was trained to see before queries and passages; empty for most models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Prompts {
    query: String,
    passage: String,
}

impl Prompts {
    /// Returns the prompt before a text of `kind`.
    pub(crate) fn of(&self, kind: TextKind) -> &str {
        match kind {
            TextKind::Query => &self.query,
            TextKind::Passage => &self.passage,
        }
    }
}

#[derive(Deserialize)]
struct RawModule {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct RawPooling {
    #[serde(alias = "embedding_dimension")]
    word_embedding_dimension: usize,
    /// Newer form of the pooling mode: its name.
    #[serde(default)]
    pooling_mode: Option<String>,
    #[serde(default = "yes")]
    include_prompt: bool,
    /// Older form of the pooling mode: one flag `pooling_mode_…` per mode.
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct RawWindow {
    #[serde(default)]
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

#[derive(Deserialize)]
struct RawPrompts {
    #[serde(default)]
    prompts: BTreeMap<String, String>,
    #[serde(default)]
    default_prompt_name: Option<String>,
}

/// Reads `modules.json`: a Transformer, a Pooling, and at most a Dense and a Normalize after them.
///
/// The file is required. Without it nothing says how token states become one vector, and a wrong
/// guess would give wrong answers without an error.
///
/// # Errors
/// Returns [`Error::Unreadable`] or [`Error::Broken`] if the file cannot be read or is invalid, and
/// [`Error::Unsupported`] if there are other steps.
pub(super) fn read_modules(folder: &FolderReader) -> Result<Modules, Error> {
    let raw: Vec<RawModule> = folder.json(MODULES, "the steps of a sentence-transformers model")?;
    if let Some(outside) = raw.iter().find(|module| !is_inner_path(&module.path)) {
        return Err(folder.broken(MODULES, "paths within the model folder", &outside.path));
    }
    // The type is a Python path, whose first parts have changed over the years.
    let kinds: Vec<&str> =
        raw.iter().map(|module| module.kind.rsplit('.').next().unwrap_or_default()).collect();
    let steps = kinds.strip_suffix(&["Normalize"]).unwrap_or(&kinds);
    let path = |index: usize| raw[index].path.clone();
    match steps {
        ["Transformer", "Pooling"] => {
            Ok(Modules { transformer: path(0), pooling: path(1), dense: None })
        }
        ["Transformer", "Pooling", "Dense"] => {
            Ok(Modules { transformer: path(0), pooling: path(1), dense: Some(path(2)) })
        }
        _ => {
            let expected = "Transformer, Pooling, and perhaps Dense and Normalize";
            Err(folder.unsupported(MODULES, expected, kinds.join(", ")))
        }
    }
}

/// Reads the pooling step's `config.json`.
///
/// # Errors
/// Returns [`Error::Unreadable`] or [`Error::Broken`] if the file cannot be read or is invalid.
/// Returns [`Error::Unsupported`] if prompts are left out, or if the mode is not mean, cls or, for
/// a Qwen2, the last token. Returns [`Error::Inconsistent`] if the dimension is not the
/// transformer's.
pub(super) fn read_pooling(
    folder: &FolderReader,
    config: &TransformerConfig,
) -> Result<Pooling, Error> {
    let raw: RawPooling = folder.json(POOLING, "how token states are pooled")?;
    if raw.word_embedding_dimension != config.hidden() {
        return Err(Error::Inconsistent {
            file: folder.name(POOLING),
            other: "config.json".to_owned(),
            expected: format!("dimension {}, `hidden_size`", config.hidden()),
            found: raw.word_embedding_dimension.to_string(),
        });
    }
    if !raw.include_prompt {
        return Err(folder.unsupported(POOLING, "`include_prompt` true", "false"));
    }
    let modes: Vec<&str> = match &raw.pooling_mode {
        Some(mode) => vec![mode.as_str()],
        None => raw.others.iter().filter_map(|(key, value)| enabled_mode(key, value)).collect(),
    };
    match (modes.as_slice(), config) {
        (["mean" | "mean_tokens"], _) => Ok(Pooling::Mean),
        (["cls" | "cls_token"], _) => Ok(Pooling::Cls),
        (["lasttoken"], TransformerConfig::Qwen2(_)) => Ok(Pooling::LastToken),
        ([], _) => Err(folder.broken(POOLING, "one pooling mode", "none")),
        (other, TransformerConfig::Bert(_)) => {
            Err(folder.unsupported(POOLING, "pooling mode mean or cls", other.join(", ")))
        }
        (other, TransformerConfig::Qwen2(_)) => {
            let expected = "pooling mode mean, cls or lasttoken";
            Err(folder.unsupported(POOLING, expected, other.join(", ")))
        }
    }
}

/// Returns the mode that the flag `pooling_mode_…` switches on.
fn enabled_mode<'a>(key: &'a str, value: &serde_json::Value) -> Option<&'a str> {
    key.strip_prefix("pooling_mode_").filter(|_| value.as_bool() == Some(true))
}

/// Reads the maximum number of tokens in a text from `sentence_bert_config.json`. Without the file
/// or the number it is the number of positions of the model.
///
/// # Errors
/// Returns [`Error::Unreadable`] or [`Error::Broken`] if the file cannot be read or is invalid,
/// [`Error::Unsupported`] if texts are lower-cased outside the tokenizer, and
/// [`Error::Inconsistent`] if there are more tokens than the model has positions.
pub(super) fn read_max_tokens(folder: &FolderReader, positions: usize) -> Result<usize, Error> {
    let Some(raw): Option<RawWindow> = folder.json_if_present(WINDOW, "the model's window")? else {
        return Ok(positions);
    };
    if raw.do_lower_case {
        return Err(folder.unsupported(WINDOW, "`do_lower_case` false", "true"));
    }
    let max_tokens = raw.max_seq_length.unwrap_or(positions);
    if max_tokens > positions {
        return Err(Error::Inconsistent {
            file: folder.name(WINDOW),
            other: folder.name("config.json"),
            expected: format!("`max_seq_length` up to {} positions", positions),
            found: max_tokens.to_string(),
        });
    }
    Ok(max_tokens)
}

/// Reads the prompts of `config_sentence_transformers.json`, an optional file.
///
/// As in sentence-transformers, queries take the prompt named `query`, or `s2p_query` (Stella's
/// name for retrieval). Passages take the first prompt named `document`, `passage` or `corpus`.
/// Either takes the default prompt if it has none of its own.
///
/// # Errors
/// Returns [`Error::Unreadable`] or [`Error::Broken`] if the file cannot be read or is invalid.
pub(super) fn read_prompts(folder: &FolderReader) -> Result<Prompts, Error> {
    let Some(raw): Option<RawPrompts> = folder.json_if_present(PROMPTS, "the model's prompts")?
    else {
        return Ok(Prompts::default());
    };
    if let Some(name) = raw.default_prompt_name.as_ref().filter(|n| !raw.prompts.contains_key(*n)) {
        return Err(folder.broken(PROMPTS, "a default prompt that is among the prompts", name));
    }
    let find = |names: &[&str]| {
        let names = names.iter().copied().chain(raw.default_prompt_name.as_deref());
        names.filter_map(|name| raw.prompts.get(name)).next().cloned().unwrap_or_default()
    };
    Ok(Prompts {
        query: find(&["query", "s2p_query"]),
        passage: find(&["document", "passage", "corpus"]),
    })
}
