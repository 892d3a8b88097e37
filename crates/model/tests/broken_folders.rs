//! Every broken model folder is refused with an error that names the file and what was expected.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::fs;
use std::path::Path;

use clew_core::ErrorKind;
use clew_model::{EmbeddingModel, Error, ModelOptions};
use clew_testkit::{TinyBert, TinyTensor, WeightFormat, write_tensors, write_tiny_bert};
use serde_json::{Value, json};

const CONFIG: &str = "config.json";
const MODULES: &str = "modules.json";
const POOLING: &str = "1_Pooling/config.json";
const PROMPTS: &str = "config_sentence_transformers.json";
const TOKENIZER: &str = "tokenizer.json";
const WEIGHTS: &str = "model.safetensors";
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";
const WINDOW: &str = "sentence_bert_config.json";

/// Returns the refusal of a folder after `damage`.
fn refusal(damage: impl FnOnce(&Path)) -> Error {
    let folder = tempfile::tempdir().unwrap();
    write_tiny_bert(folder.path(), 1).unwrap();
    damage(folder.path());
    match EmbeddingModel::load(folder.path(), &ModelOptions::default()) {
        Ok(_) => panic!("the folder was accepted"),
        Err(error) => error,
    }
}

/// Returns the variant of an error, and the file or option that it names.
fn parts(error: &Error) -> (&'static str, &str) {
    match error {
        Error::Unreadable { file, .. } => ("unreadable", file),
        Error::Broken { file, .. } => ("broken", file),
        Error::Unsupported { file, .. } => ("unsupported", file),
        Error::Inconsistent { file, .. } => ("inconsistent", file),
        Error::TensorNames { file, .. } => ("tensor names", file),
        Error::OptionUnavailable { option, .. } => ("option", option),
        Error::ForeignTokens { .. } => ("foreign tokens", ""),
        Error::Template { .. }
        | Error::Constraint { .. }
        | Error::TooLong { .. }
        | Error::Full { .. }
        | Error::Untrainable { .. }
        | Error::Unwritable { .. }
        | Error::Exchange { .. }
        | Error::Device { .. } => ("computation", ""),
    }
}

fn check(error: &Error, variant: &str, file: &str, mentions: &str) {
    assert_eq!(parts(error), (variant, file), "{error}");
    let message = error.to_string();
    assert!(message.contains(mentions), "`{message}` does not mention `{mentions}`");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_missing_file_is_named() {
    for (file, named) in [
        (CONFIG, CONFIG),
        (MODULES, MODULES),
        (POOLING, POOLING),
        (TOKENIZER, TOKENIZER),
        (WEIGHTS, WEIGHTS),
    ] {
        let error = refusal(|folder| fs::remove_file(folder.join(file)).unwrap());
        check(&error, "unreadable", named, "expected");
    }
}

#[test]
fn a_folder_that_does_not_exist_is_refused() {
    let error = EmbeddingModel::load(Path::new("/no/such/folder"), &ModelOptions::default());
    check(&error.err().unwrap(), "unreadable", MODULES, "expected");
}

#[test]
fn a_file_that_is_cut_short_or_empty_or_garbage_is_broken() {
    for file in [CONFIG, MODULES, POOLING, TOKENIZER, WEIGHTS, WINDOW] {
        let damages: [fn(Vec<u8>) -> Vec<u8>; 4] = [
            |content| content[..content.len() / 2].to_vec(),
            |content| content[..content.len() - 1].to_vec(),
            |_| Vec::new(),
            |_| b"\xFF\x00 not at all".to_vec(),
        ];
        for damage in damages {
            let error = refusal(|folder| {
                let path = folder.join(file);
                let content = fs::read(&path).unwrap();
                fs::write(&path, damage(content)).unwrap();
            });
            check(&error, "broken", file, "expected");
        }
    }
}

#[test]
fn weights_with_bytes_that_belong_to_no_tensor_are_broken() {
    let error = refusal(|folder| {
        let path = folder.join(WEIGHTS);
        let mut content = fs::read(&path).unwrap();
        content.extend([0; 8]);
        fs::write(&path, content).unwrap();
    });
    check(&error, "broken", WEIGHTS, "tensors of");
}

#[test]
fn a_value_that_does_not_fit_is_named() {
    for (file, key, value, variant, mentions) in [
        (CONFIG, "model_type", json!("roberta"), "unsupported", "roberta"),
        (CONFIG, "hidden_act", json!("gelu_new"), "unsupported", "gelu_new"),
        (CONFIG, "position_embedding_type", json!("relative_key"), "unsupported", "relative_key"),
        (CONFIG, "is_decoder", json!(true), "unsupported", "is_decoder"),
        (CONFIG, "hidden_size", json!("wide"), "broken", "wide"),
        (CONFIG, "hidden_size", Value::Null, "broken", "null"),
        (CONFIG, "hidden_size", json!(0), "broken", "hidden_size"),
        (CONFIG, "vocab_size", json!(u64::MAX), "broken", "vocab_size"),
        (CONFIG, "num_hidden_layers", json!(1_000_000_000), "broken", "num_hidden_layers"),
        (CONFIG, "num_hidden_layers", json!(-1), "broken", "-1"),
        (CONFIG, "num_attention_heads", json!(7), "broken", "7 attention heads"),
        (CONFIG, "layer_norm_eps", json!(0.0), "broken", "layer_norm_eps"),
        (POOLING, "word_embedding_dimension", json!(65), "inconsistent", "65"),
        (POOLING, "pooling_mode_mean_tokens", json!(false), "broken", "pooling mode"),
        (POOLING, "pooling_mode_max_tokens", json!(true), "unsupported", "max_tokens"),
        (POOLING, "pooling_mode", json!("lasttoken"), "unsupported", "lasttoken"),
        (POOLING, "include_prompt", json!(false), "unsupported", "include_prompt"),
        (WINDOW, "max_seq_length", json!(129), "inconsistent", "129"),
        (WINDOW, "max_seq_length", json!(2), "inconsistent", "special tokens"),
        (WINDOW, "max_seq_length", json!(-1), "broken", "-1"),
        (WINDOW, "do_lower_case", json!(true), "unsupported", "do_lower_case"),
        (TOKENIZER, "normalizer", Value::Null, "unsupported", "BertNormalizer"),
        (TOKENIZER, "pre_tokenizer", json!({"type": "Whitespace"}), "unsupported", "PreTokenizer"),
        (TOKENIZER, "post_processor", Value::Null, "unsupported", "special tokens"),
        (
            TOKENIZER,
            "model",
            json!({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}),
            "unsupported",
            "WordPiece",
        ),
    ] {
        let error = refusal(|folder| edit(&folder.join(file), |json| json[key] = value));
        check(&error, variant, file, mentions);
    }
}

#[test]
fn steps_other_than_transformer_pooling_normalize_are_refused() {
    let step = |path: &str, kind: &str| json!({"path": path, "type": kind});
    for (modules, variant, mentions) in [
        (json!([]), "unsupported", "Transformer"),
        (json!([step("", "x.Transformer")]), "unsupported", "Pooling"),
        (
            json!([step("", "x.Transformer"), step("1", "x.Pooling"), step("2", "x.Dense")]),
            "unsupported",
            "Dense",
        ),
        (json!([step("", "x.Transformer"), step("../1_Pooling", "x.Pooling")]), "broken", ".."),
        (json!({"path": ""}), "broken", "expected"),
    ] {
        let error = refusal(|folder| edit(&folder.join(MODULES), |json| *json = modules));
        check(&error, variant, MODULES, mentions);
    }
}

#[test]
fn a_tokenizer_of_a_larger_vocabulary_is_refused() {
    let error = refusal(|folder| {
        edit(&folder.join(TOKENIZER), |json| json["model"]["vocab"]["extra"] = json!(5_000));
    });
    check(&error, "inconsistent", TOKENIZER, "5000");
}

#[test]
fn a_tokenizer_without_its_unknown_token_is_refused() {
    let error = refusal(|folder| {
        edit(&folder.join(TOKENIZER), |json| json["model"]["unk_token"] = json!("[OTHER]"));
    });
    check(&error, "unsupported", TOKENIZER, "[OTHER]");
}

#[test]
fn a_default_prompt_that_is_not_there_is_refused() {
    let error = refusal(|folder| {
        let prompts = json!({"prompts": {}, "default_prompt_name": "search"}).to_string();
        fs::write(folder.join(PROMPTS), prompts).unwrap();
    });
    check(&error, "broken", PROMPTS, "search");
}

#[test]
fn missing_and_unknown_tensors_are_named_together() {
    let error = refusal(|folder| {
        edit_tensors(folder, |tensors| {
            tensors.retain(|tensor| tensor.name != "encoder.layer.1.output.dense.bias");
            tensors.push(tensor("encoder.layer.2.extra", &[1], 0.0));
        });
    });
    let Error::TensorNames { missing, unused, .. } = &error else { panic!("{error:?}") };
    assert_eq!(missing, &["encoder.layer.1.output.dense.bias"]);
    assert_eq!(unused, &["encoder.layer.2.extra"]);
}

#[test]
fn the_pooler_and_the_list_of_positions_are_not_needed() {
    let folder = tempfile::tempdir().unwrap();
    write_tiny_bert(folder.path(), 1).unwrap();
    edit_tensors(folder.path(), |tensors| {
        tensors.push(tensor("pooler.dense.bias", &[64], 0.0));
        tensors.push(tensor("embeddings.position_ids", &[1, 128], 0.0));
    });
    EmbeddingModel::load(folder.path(), &ModelOptions::default()).unwrap();
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let name = "embeddings.LayerNorm.bias";
    for (replacement, variant, mentions) in [
        (tensor(name, &[63], 0.0), "inconsistent", name),
        (tensor(name, &[8, 8], 0.0), "inconsistent", "[8, 8]"),
        (tensor(name, &[64], f32::NAN), "broken", name),
        (tensor(name, &[64], f32::INFINITY), "broken", name),
    ] {
        let error = refusal(|folder| {
            edit_tensors(folder, |tensors| {
                tensors.retain(|tensor| tensor.name != name);
                tensors.push(replacement);
            });
        });
        check(&error, variant, WEIGHTS, mentions);
    }
}

#[test]
fn a_tensor_with_and_without_the_prefix_is_refused() {
    let error = refusal(|folder| {
        edit_tensors(folder, |tensors| {
            tensors.push(tensor("bert.embeddings.LayerNorm.bias", &[64], 0.0));
        });
    });
    check(&error, "broken", WEIGHTS, "twice");
}

#[test]
fn an_index_of_parts_that_are_not_there_is_refused() {
    for (weight_map, variant, file) in [
        (json!({"a": "part.safetensors"}), "unreadable", "part.safetensors"),
        (json!({"a": "../part.safetensors"}), "broken", WEIGHTS_INDEX),
        (json!({}), "broken", WEIGHTS_INDEX),
        (json!(7), "broken", WEIGHTS_INDEX),
    ] {
        let error = refusal(|folder| {
            fs::remove_file(folder.join(WEIGHTS)).unwrap();
            let index = json!({ "weight_map": weight_map }).to_string();
            fs::write(folder.join(WEIGHTS_INDEX), index).unwrap();
        });
        check(&error, variant, file, "expected");
    }
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

fn edit_tensors(folder: &Path, change: impl FnOnce(&mut Vec<TinyTensor>)) {
    let mut tensors = TinyBert { seed: 1, ..TinyBert::default() }.tensors();
    change(&mut tensors);
    write_tensors(&folder.join(WEIGHTS), &tensors, WeightFormat::Float32).unwrap();
}

fn tensor(name: &str, shape: &[usize], value: f32) -> TinyTensor {
    let values = vec![value; shape.iter().product()];
    TinyTensor { name: name.to_owned(), shape: shape.to_vec(), values }
}
