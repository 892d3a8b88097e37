//! The transformer's own files: its configuration and its weights.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::reader::{FolderReader, is_inner_path};
use crate::Error;
use crate::bert::BertConfig;
use crate::weights::WeightFile;

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// Bounds far above any real encoder: sizes beyond them are a broken file, and products of two stay
/// far from overflow.
const LARGEST_WIDTH: usize = 1 << 16;
const MOST_LAYERS: usize = 1 << 10;
const LARGEST_VOCABULARY: usize = 1 << 24;

/// What is read of `config.json`.
#[derive(Deserialize)]
struct RawConfig {
    model_type: String,
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
}

/// What is read of `model.safetensors.index.json`: which file holds each tensor.
#[derive(Deserialize)]
struct RawIndex {
    weight_map: BTreeMap<String, String>,
}

/// Reads `config.json`; absent values are those of the `transformers` library.
///
/// # Errors
/// [`Error::Unreadable`]; [`Error::Broken`] for numbers that make no model; [`Error::Unsupported`]
/// for anything but an encoding BERT with exact GELU and absolute positions.
pub(super) fn read_config(folder: &FolderReader) -> Result<BertConfig, Error> {
    let raw: RawConfig = folder.json(CONFIG, "the configuration of a BERT")?;
    let refuse = |expected: &str, found: &str| Err(folder.unsupported(CONFIG, expected, found));
    if raw.model_type != "bert" {
        return refuse("`model_type` bert", &raw.model_type);
    }
    if let Some(other) = raw.hidden_act.as_deref().filter(|&name| name != "gelu") {
        return refuse("`hidden_act` gelu, by the error function", other);
    }
    if let Some(other) = raw.position_embedding_type.filter(|name| name != "absolute") {
        return refuse("`position_embedding_type` absolute", &other);
    }
    if raw.is_decoder {
        return refuse("an encoder, `is_decoder` false", "true");
    }
    let config = BertConfig {
        vocabulary: raw.vocab_size,
        hidden: raw.hidden_size,
        intermediate: raw.intermediate_size,
        layers: raw.num_hidden_layers,
        heads: raw.num_attention_heads,
        positions: raw.max_position_embeddings,
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

/// Reads the weights: `model.safetensors`, or the parts that an index names.
///
/// # Errors
/// [`Error::Unreadable`]; [`Error::Broken`] for an index that is not JSON or leads out of the folder.
pub(super) fn read_weights(folder: &FolderReader) -> Result<Vec<WeightFile>, Error> {
    let read = |name: String| {
        let bytes = folder.read(&name, "the model's weights")?;
        Ok(WeightFile { name: folder.name(&name), bytes })
    };
    weight_names(folder)?.into_iter().map(read).collect()
}

/// The files that hold the weights, relative to `folder`: one, or those that the index names.
///
/// # Errors
/// [`Error::Broken`] for an index that is none, or names files outside the folder.
pub(crate) fn weight_names(folder: &FolderReader) -> Result<Vec<String>, Error> {
    let single = || Ok(vec![WEIGHTS.to_owned()]);
    if folder.has(WEIGHTS) {
        return single();
    }
    let expected = "the list of files that hold the weights";
    // Without either, the one file is the one to be missed.
    let Some(index) = folder.json_if_present::<RawIndex>(WEIGHTS_INDEX, expected)? else {
        return single();
    };
    let parts: BTreeSet<String> = index.weight_map.into_values().collect();
    if parts.is_empty() {
        return Err(folder.broken(
            WEIGHTS_INDEX,
            "the list of files that hold the weights",
            "none",
        ));
    }
    if let Some(outside) = parts.iter().find(|part| !is_inner_path(part)) {
        return Err(folder.broken(WEIGHTS_INDEX, "files of the model folder", outside));
    }
    Ok(parts.into_iter().collect())
}
