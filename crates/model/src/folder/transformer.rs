//! The transformer's own files: its configuration and its weights.

use serde::{Deserialize, Serialize};

use super::reader::FolderReader;
use crate::Error;
use crate::bert::{BertConfig, Family};
use crate::decoder::config::DecoderConfig;
use crate::qwen2::{Attention, Qwen2Config};

const CONFIG: &str = "config.json";

/// Bounds far above any real encoder. A file with larger sizes is broken. Products of two sizes
/// stay far from overflow.
const LARGEST_WIDTH: usize = 1 << 16;
const MOST_LAYERS: usize = 1 << 10;
const LARGEST_VOCABULARY: usize = 1 << 24;

/// Shape of a transformer of any supported family.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum TransformerConfig {
    /// A BERT or an XLM-RoBERTa.
    Bert(BertConfig),
    /// A Qwen2 without its head.
    Qwen2(Qwen2Config),
}

impl TransformerConfig {
    /// Returns the number of token ids.
    pub(crate) fn vocabulary(&self) -> usize {
        match self {
            Self::Bert(config) => config.vocabulary,
            Self::Qwen2(config) => config.layers.vocabulary,
        }
    }

    /// Returns the width of the token states.
    pub(crate) fn hidden(&self) -> usize {
        match self {
            Self::Bert(config) => config.hidden,
            Self::Qwen2(config) => config.layers.hidden,
        }
    }

    /// Returns the maximum number of tokens in a text.
    pub(crate) fn positions(&self) -> usize {
        match self {
            Self::Bert(config) => config.positions,
            Self::Qwen2(config) => config.layers.positions,
        }
    }
}

/// Field that names the family.
#[derive(Deserialize)]
struct RawKind {
    model_type: String,
}

/// Fields read from a Qwen2's `config.json` beside the shape of the decoder.
#[derive(Deserialize)]
struct RawQwen2 {
    #[serde(default)]
    is_causal: Option<bool>,
    #[serde(default)]
    auto_map: Option<serde_json::Value>,
}

/// Fields read from the `config.json` of a BERT or an XLM-RoBERTa.
#[derive(Deserialize)]
struct RawBert {
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    max_position_embeddings: usize,
    #[serde(default)]
    type_vocab_size: Option<usize>,
    #[serde(default)]
    layer_norm_eps: Option<f64>,
    #[serde(default)]
    pad_token_id: Option<usize>,
}

/// Reads `config.json`, whose `model_type` names the family. Absent values have the defaults of the
/// `transformers` library.
///
/// # Errors
/// Returns [`Error::Unreadable`] if the file cannot be read, [`Error::Broken`] if its numbers do
/// not make a model, and [`Error::Unsupported`] for other families and for features that are not
/// implemented here.
pub(super) fn read_config(folder: &FolderReader) -> Result<TransformerConfig, Error> {
    let raw: RawKind = folder.json(CONFIG, "the configuration of a transformer")?;
    match raw.model_type.as_str() {
        "qwen2" => read_qwen2(folder).map(TransformerConfig::Qwen2),
        _ => read_bert(folder).map(TransformerConfig::Bert),
    }
}

/// Reads the `config.json` of a Qwen2.
///
/// Tokens attend to the tokens before them, as in the `transformers` library, unless `is_causal` is
/// false. A folder with code of its own (`auto_map`) must say which, because published code differs
/// from the library in exactly this.
fn read_qwen2(folder: &FolderReader) -> Result<Qwen2Config, Error> {
    let layers = DecoderConfig::read(folder)?;
    let raw: RawQwen2 = folder.json(CONFIG, "the configuration of a Qwen2")?;
    let attention = match (raw.is_causal, raw.auto_map) {
        (Some(true), _) | (None, None) => Attention::Causal,
        (Some(false), _) => Attention::Bidirectional,
        (None, Some(_)) => {
            let expected = "`is_causal` true or false beside the model's own code, `auto_map`";
            return Err(folder.unsupported(CONFIG, expected, "neither"));
        }
    };
    if attention == Attention::Bidirectional && layers.windows.iter().any(Option::is_some) {
        let expected = "`use_sliding_window` false where `is_causal` is false";
        return Err(folder.unsupported(CONFIG, expected, "true"));
    }
    Ok(Qwen2Config { layers, attention })
}

/// Reads the `config.json` of a BERT or an XLM-RoBERTa.
///
/// # Errors
/// Returns the errors of [`read_config`], and [`Error::Unsupported`] for anything but an encoder
/// with exact GELU and absolute positions.
pub(crate) fn read_bert(folder: &FolderReader) -> Result<BertConfig, Error> {
    let raw: RawKind = folder.json(CONFIG, "the configuration of a transformer")?;
    let refuse = |expected: &str, found: &str| Err(folder.unsupported(CONFIG, expected, found));
    let family = match raw.model_type.as_str() {
        "bert" => Family::Bert,
        "xlm-roberta" => Family::XlmRoberta,
        other => return refuse("`model_type` bert, xlm-roberta or, to embed, qwen2", other),
    };
    let raw: RawBert = folder.json(CONFIG, "the configuration of a BERT")?;
    if let Some(other) = raw.hidden_act.as_deref().filter(|&name| name != "gelu") {
        return refuse("`hidden_act` gelu, by the error function", other);
    }
    if let Some(other) = raw.position_embedding_type.filter(|name| name != "absolute") {
        return refuse("`position_embedding_type` absolute", &other);
    }
    if raw.is_decoder {
        return refuse("an encoder, `is_decoder` false", "true");
    }
    let first_position = match family {
        Family::Bert => 0,
        Family::XlmRoberta => raw.pad_token_id.unwrap_or(1).saturating_add(1),
    };
    let config = BertConfig {
        family,
        first_position,
        vocabulary: raw.vocab_size,
        hidden: raw.hidden_size,
        intermediate: raw.intermediate_size,
        layers: raw.num_hidden_layers,
        heads: raw.num_attention_heads,
        positions: raw.max_position_embeddings.saturating_sub(first_position),
        token_types: raw.type_vocab_size.unwrap_or(2),
        layer_norm_epsilon: raw.layer_norm_eps.unwrap_or(1e-12),
    };
    check_sizes(folder, &config)?;
    Ok(config)
}

fn check_sizes(folder: &FolderReader, config: &BertConfig) -> Result<(), Error> {
    for (key, value, largest) in [
        ("vocab_size", config.vocabulary, LARGEST_VOCABULARY),
        ("hidden_size", config.hidden, LARGEST_WIDTH),
        ("intermediate_size", config.intermediate, LARGEST_WIDTH),
        ("num_hidden_layers", config.layers, MOST_LAYERS),
        ("num_attention_heads", config.heads, LARGEST_WIDTH),
        ("max_position_embeddings", config.positions, LARGEST_WIDTH),
        ("type_vocab_size", config.token_types, LARGEST_WIDTH),
    ] {
        if !(1..=largest).contains(&value) {
            return Err(folder.broken(CONFIG, &format!("`{key}` from 1 to {largest}"), value));
        }
    }
    if !config.hidden.is_multiple_of(config.heads) {
        let expected = format!("`hidden_size` a multiple of {} attention heads", config.heads);
        return Err(folder.broken(CONFIG, &expected, config.hidden));
    }
    let epsilon = config.layer_norm_epsilon;
    if !(epsilon > 0.0 && epsilon < 1.0) {
        return Err(folder.broken(CONFIG, "`layer_norm_eps` between 0 and 1", epsilon));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(family: Family, first_position: usize) -> TransformerConfig {
        TransformerConfig::Bert(BertConfig {
            family,
            vocabulary: 1,
            hidden: 2,
            intermediate: 3,
            layers: 4,
            heads: 5,
            positions: 6,
            first_position,
            token_types: 7,
            layer_norm_epsilon: 0.5,
        })
    }

    /// Checks the text that the fingerprints of stored vectors were computed from.
    #[test]
    fn what_is_fingerprinted_of_a_bert_stays() {
        let text = |config| serde_json::to_string(&config).unwrap();
        assert_eq!(
            text(config(Family::Bert, 0)),
            r#"{"vocabulary":1,"hidden":2,"intermediate":3,"layers":4,"heads":5,"positions":6,"token_types":7,"layer_norm_epsilon":0.5}"#
        );
        assert!(text(config(Family::XlmRoberta, 2)).contains(r#""first_position":2"#));
    }
}
