//! Names of the files of a folder that hold the weights.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::reader::{FolderReader, is_inner_path};
use crate::Error;

const WEIGHTS: &str = "model.safetensors";
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// Field read from `model.safetensors.index.json`: the file that holds each tensor.
#[derive(Deserialize)]
struct RawIndex {
    weight_map: BTreeMap<String, String>,
}

/// Returns the files that hold the weights, relative to `folder`: one, or those that the index
/// names.
///
/// # Errors
/// Returns [`Error::Broken`] if the index is invalid, empty, or names files outside the folder.
/// Returns [`Error::Unreadable`] if the index cannot be read.
pub(crate) fn weight_names(folder: &FolderReader) -> Result<Vec<String>, Error> {
    let single = || Ok(vec![WEIGHTS.to_owned()]);
    if folder.has(WEIGHTS) {
        return single();
    }
    let expected = "the list of files that hold the weights";
    // If neither file exists, the error should name the single file.
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
