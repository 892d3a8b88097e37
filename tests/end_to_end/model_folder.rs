//! Model folders other than the one every test starts with.

use std::path::Path;

use clew_testkit::{TinyBert, TinyTensor, WeightFormat, write_tensors, write_tiny_bert};
use serde_json::Value;

/// Width of the model of `write_tiny_bert`, and of half of it.
const WIDE: usize = 64;
const NARROW: usize = 32;

/// Writes a model of half the width: its vectors have another dimension.
pub fn write_narrow_bert(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    write_tiny_bert(folder, 1).unwrap();
    edit(&folder.join("config.json"), |config| config["hidden_size"] = NARROW.into());
    edit(&folder.join("1_Pooling/config.json"), |pooling| {
        pooling["word_embedding_dimension"] = NARROW.into();
    });
    let tensors: Vec<TinyTensor> =
        TinyBert { seed: 1, ..TinyBert::default() }.tensors().into_iter().map(narrow).collect();
    write_tensors(&folder.join("model.safetensors"), &tensors, WeightFormat::Float32).unwrap();
}

fn narrow(tensor: TinyTensor) -> TinyTensor {
    let TinyTensor { name, mut shape, mut values } = tensor;
    for size in shape.iter_mut().filter(|size| **size == WIDE) {
        *size = NARROW;
    }
    values.truncate(shape.iter().product());
    TinyTensor { name, shape, values }
}

/// Changes a JSON file.
pub fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}
