//! Which files of a folder hold the weights.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::reader::{FolderReader, is_inner_path};
use crate::Error;

const WEIGHTS: &str = "model.safetensors";
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// What is read of `model.safetensors.index.json`: which file holds each tensor.
#[derive(Deserialize)]
struct RawIndex {
    weight_map: BTreeMap<String, String>,
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
