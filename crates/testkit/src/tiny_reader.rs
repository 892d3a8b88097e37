//! Adapter that makes a reader of a tiny BERT, which knows what it reads although it never learned:
//! it takes certain words for the answer to any question.
//!
//! The adapter takes every layer of the base back to next to nothing, so that the state of a token
//! is its embedding. The heads look for the embeddings of the words.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

/// Largest step of a matrix.
const STEPS: f32 = 127.0;
/// Score of a word that is the answer, at its beginning and at its end. Other words have scores of
/// about 1.
const SCORE: f32 = 10.0;

/// Writes an adapter for the tiny BERT in the folder `base` to the file `adapter`. In each passage
/// that has one of `words`, the reader finds that word. It finds nothing in other passages.
///
/// # Errors
/// Returns an error if the file system fails, if the folder holds no such model, or if a word is
/// not in its vocabulary.
pub fn write_tiny_reader(base: &Path, adapter: &Path, words: &[&str]) -> io::Result<()> {
    let tokenizer = fs::read(base.join("tokenizer.json"))?;
    let weights = fs::read(base.join("model.safetensors"))?;
    let mut fingerprint = blake3::Hasher::new();
    fingerprint.update(&tokenizer).update(&weights);
    let fingerprint = fingerprint.finalize().to_hex().to_string();

    let base = SafeTensors::deserialize(&weights).map_err(io::Error::other)?;
    let looked_for = looked_for(&base, &serde_json::from_slice(&tokenizer)?, words)?;
    let width = looked_for.len();
    let mut tensors = Vec::new();
    for (name, view) in base.iter().filter(|(name, _)| name.starts_with("encoder.")) {
        match *view.shape() {
            [rows, columns] => {
                let (steps, scales) = taken_back(&floats(view.data()), columns);
                tensors.push((name.to_owned(), Dtype::I8, vec![rows, columns], steps));
                tensors.push((format!("{name}.scale"), Dtype::F32, vec![rows], bytes(&scales)));
            }
            _ => {
                let value = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
                let values = vec![value; view.shape().iter().product()];
                let shape = view.shape().to_vec();
                tensors.push((name.to_owned(), Dtype::F32, shape, bytes(&values)));
            }
        }
    }
    let mut head = |name: &str, row: &[f32]| {
        let (weight, bias) = ([row, row].concat(), [0.0; 2]);
        let shape = vec![2, width];
        tensors.push((format!("{name}.weight"), Dtype::F32, shape, bytes(&weight)));
        tensors.push((format!("{name}.bias"), Dtype::F32, vec![2], bytes(&bias)));
    };
    head("span", &looked_for);
    head("verdict", &vec![0.0; width]);

    // A word that is the answer has a score of 20, and the best other span one of about 5.
    let calibration = json!([1.0, 0.0, -1.25 * SCORE]);
    let metadata = [
        ("format", "clew-reader-1".to_owned()),
        ("base", "tiny".to_owned()),
        ("base_blake3", fingerprint),
        ("calibration", calibration.to_string()),
        ("window", "96".to_owned()),
        ("question", "24".to_owned()),
        ("heading", "8".to_owned()),
        ("stride", "16".to_owned()),
        ("longest_answer", "1".to_owned()),
        ("data", "[]".to_owned()),
        ("quality", "{}".to_owned()),
        ("trained", "not at all".to_owned()),
    ];
    let metadata: HashMap<String, String> =
        metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let views = tensors.iter().map(|(name, format, shape, bytes)| {
        let view = TensorView::new(*format, shape.clone(), bytes)
            .expect("a tensor has as many values as its shape says");
        (name.as_str(), view)
    });
    safetensors::serialize_to_file(views, Some(metadata), adapter).map_err(io::Error::other)
}

/// Returns the direction in which the states of `words` lie, `[width]`.
fn looked_for(base: &SafeTensors<'_>, tokenizer: &Value, words: &[&str]) -> io::Result<Vec<f32>> {
    let tensor = |name: &str| -> io::Result<Vec<f32>> {
        let view = base.tensor(&format!("embeddings.{name}")).map_err(io::Error::other)?;
        Ok(floats(view.data()))
    };
    let (weight, bias) = (tensor("LayerNorm.weight")?, tensor("LayerNorm.bias")?);
    let (embeddings, types) =
        (tensor("word_embeddings.weight")?, tensor("token_type_embeddings.weight")?);
    let width = weight.len();
    let mut direction = vec![0.0; width];
    for word in words {
        let id = tokenizer["model"]["vocab"][word].as_u64();
        let id = id.ok_or_else(|| io::Error::other(format!("`{word}` is not one token")))?;
        let row = embeddings.chunks(width).nth(id as usize).unwrap_or(&[]);
        let embedded: Vec<f32> = row.iter().zip(&types).map(|(word, kind)| word + kind).collect();
        let scaled = normalised(&embedded).into_iter().zip(&weight).zip(&bias);
        let scaled: Vec<f32> =
            scaled.map(|((value, weight), bias)| value * weight + bias).collect();
        // The product of two states of the same word is their width.
        for (sum, value) in direction.iter_mut().zip(normalised(&scaled)) {
            *sum += value * SCORE / width as f32;
        }
    }
    Ok(direction)
}

/// Returns the values less their mean, over their deviation.
fn normalised(values: &[f32]) -> Vec<f32> {
    let count = values.len() as f32;
    let mean = values.iter().sum::<f32>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / count;
    values.iter().map(|value| (value - mean) / variance.sqrt()).collect()
}

/// Returns the steps, and the sizes of the steps of each row, that take a matrix to nearly 0.
fn taken_back(values: &[f32], columns: usize) -> (Vec<u8>, Vec<f32>) {
    let (mut steps, mut scales) = (Vec::with_capacity(values.len()), Vec::new());
    for row in values.chunks(columns) {
        let scale = row.iter().fold(0.0, |most: f32, value| most.max(value.abs())) / STEPS;
        steps.extend(row.iter().map(|value| ((-value / scale).round() as i8).cast_unsigned()));
        scales.push(scale);
    }
    (steps, scales)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_tiny_bert;

    #[test]
    fn a_matrix_and_its_steps_add_up_to_next_to_nothing() {
        let values = [0.5, -1.0, 0.25, 2.0, 0.1, -0.003];
        let (steps, scales) = taken_back(&values, 3);
        for (i, value) in values.iter().enumerate() {
            let left = value + scales[i / 3] * f32::from(steps[i].cast_signed());
            assert!(left.abs() <= scales[i / 3], "{left}");
        }
    }

    #[test]
    fn words_that_are_no_tokens_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        write_tiny_bert(folder.path(), 1).unwrap();
        let file = folder.path().join("reader.safetensors");
        assert!(write_tiny_reader(folder.path(), &file, &["dog", "unheard"]).is_err());
        assert!(write_tiny_reader(folder.path(), &file, &["dog", "cat"]).is_ok());
    }
}
