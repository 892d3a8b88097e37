//! Encoders and rerankers compute what the reference computes, on every path and in any batch.
//!
//! The models are random and tiny. Those in `fixtures/encoders` are always read. `CLEW_GOLDEN_DIR`
//! may name a folder of more models in the same layout, listed in `encoders/manifest.json`.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clew_core::TextKind;
use clew_model::{
    DeviceChoice, EmbeddingModel, EncodedPair, EncodedText, Error, ModelOptions, PathChoice,
    PrecisionChoice, RerankerModel, Scratch,
};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::device::{device, tolerance};

/// Maximum difference of a state, or of a component of a vector. Two correct computations in 32-bit
/// floats differ by up to 2.3e-6 in the states of these models, and by 2e-7 in vectors of length
/// one.
const TOLERANCE: f32 = 5e-6;
/// The same between batches of one model: sums of a few dozen numbers in another order.
const BETWEEN_BATCHES: f32 = 2e-6;

/// Model, and the reference's results for it.
struct Case {
    folder: PathBuf,
    config: Value,
    /// Tokens of each text.
    ids: Vec<Vec<u32>>,
    /// Index of the first token of type 1 of each text, if the reference has types.
    second_type_from: Vec<usize>,
    golden: BTreeMap<String, Golden>,
    is_reranker: bool,
}

/// Tensor of the reference.
struct Golden {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Golden {
    /// Returns one row for each text.
    fn rows(&self) -> Vec<Vec<f32>> {
        let width = self.values.len() / self.shape[0];
        self.values.chunks_exact(width).map(<[f32]>::to_vec).collect()
    }
}

/// Steps around a transformer.
#[derive(Clone, Copy)]
struct Steps {
    pooling: &'static str,
    is_causal: bool,
    has_dense: bool,
}

impl Steps {
    fn pooled_by(pooling: &'static str) -> Self {
        Self { pooling, is_causal: false, has_dense: false }
    }
}

impl Case {
    fn read(folder: PathBuf) -> Self {
        let file = fs::read(folder.join("golden.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let rows = |name: &str| -> Option<Vec<Vec<u32>>> {
            let tensor = tensors.tensor(name).ok()?;
            let size = tensor.dtype().bitsize() / 8;
            // Little-endian and not negative, of any size.
            let number = |bytes: &[u8]| -> u32 {
                bytes.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte))
            };
            let numbers: Vec<u32> = tensor.data().chunks_exact(size).map(number).collect();
            Some(numbers.chunks_exact(tensor.shape()[1]).map(<[u32]>::to_vec).collect())
        };
        let mut ids = rows("input_ids").unwrap();
        for (text, mask) in ids.iter_mut().zip(rows("attention_mask").unwrap()) {
            text.truncate(mask.iter().filter(|kept| **kept == 1).count());
        }
        let kinds = rows("token_type_ids");
        let second_type_from = ids.iter().enumerate().map(|(text, ids)| {
            let kinds = kinds.as_ref().map(|kinds| &kinds[text][..ids.len()]);
            kinds.and_then(|kinds| kinds.iter().position(|kind| *kind == 1)).unwrap_or(ids.len())
        });
        let floats = tensors.iter().filter(|(_, view)| view.dtype() == safetensors::Dtype::F32);
        let golden = floats.map(|(name, view)| {
            let values = view.data().as_chunks::<4>().0.iter();
            let values = values.map(|value| f32::from_le_bytes(*value)).collect();
            (name.to_owned(), Golden { shape: view.shape().to_vec(), values })
        });
        let config = fs::read(folder.join("config.json")).unwrap();
        let weights = fs::read(folder.join("model.safetensors")).unwrap();
        let weights = SafeTensors::deserialize(&weights).unwrap();
        let is_reranker = weights.names().iter().any(|name| name.starts_with("classifier."));
        Self {
            config: serde_json::from_slice(&config).unwrap(),
            second_type_from: second_type_from.collect(),
            golden: golden.collect(),
            is_reranker,
            folder,
            ids,
        }
    }

    fn name(&self) -> String {
        self.folder.file_name().unwrap().to_string_lossy().into_owned()
    }

    fn is_qwen2(&self) -> bool {
        self.config["model_type"] == "qwen2"
    }

    fn rows(&self, name: &str) -> Vec<Vec<f32>> {
        self.golden[name].rows()
    }

    /// Returns the states of each text, `[tokens, hidden]`, without padding.
    fn states(&self, name: &str) -> Vec<Vec<f32>> {
        let hidden = self.golden[name].shape[2];
        let texts = self.rows(name).into_iter().zip(&self.ids);
        texts.map(|(states, ids)| states[..ids.len() * hidden].to_vec()).collect()
    }

    fn texts(&self) -> Vec<EncodedText> {
        let text = |ids: &Vec<u32>| EncodedText { ids: ids.clone(), truncated: false };
        self.ids.iter().map(text).collect()
    }

    /// Returns a folder with the model's weights and the files that embedding needs around them.
    fn with_steps(&self, steps: Steps) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join(file);
        let write = |file: &str, value: &Value| fs::write(at(file), value.to_string()).unwrap();
        fs::copy(self.folder.join("model.safetensors"), at("model.safetensors")).unwrap();
        let mut config = self.config.clone();
        if self.is_qwen2() {
            config["is_causal"] = json!(steps.is_causal);
        }
        write("config.json", &config);
        write("tokenizer.json", &tokenizer(&self.config));
        let mut modules = vec![("", "Transformer"), ("1_Pooling", "Pooling")];
        fs::create_dir(at("1_Pooling")).unwrap();
        let pooling = format!("pooling_mode_{}", steps.pooling);
        let hidden = &self.config["hidden_size"];
        write("1_Pooling/config.json", &json!({"word_embedding_dimension": hidden, pooling: true}));
        if steps.has_dense {
            let mut inner = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
            let dense = inner.find(|path| path.to_string_lossy().contains("2_Dense_"));
            fs::create_dir(at("2_Dense")).unwrap();
            for file in ["config.json", "model.safetensors"] {
                fs::copy(dense.as_ref().unwrap().join(file), at("2_Dense").join(file)).unwrap();
            }
            modules.push(("2_Dense", "Dense"));
        }
        let modules = modules.iter().map(|(path, kind)| json!({"path": path, "type": kind}));
        write("modules.json", &modules.collect());
        folder
    }

    fn load(&self, steps: Steps, options: &ModelOptions) -> Arc<EmbeddingModel> {
        let folder = self.with_steps(steps);
        EmbeddingModel::load(folder.path(), options)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    fn reranker(&self, options: &ModelOptions) -> Arc<RerankerModel> {
        let folder = tempfile::tempdir().unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(self.folder.join(file), folder.path().join(file)).unwrap();
        }
        let tokenizer = tokenizer(&self.config).to_string();
        fs::write(folder.path().join("tokenizer.json"), tokenizer).unwrap();
        RerankerModel::load(folder.path(), options)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    fn pairs(&self) -> Vec<EncodedPair> {
        let texts = self.ids.iter().zip(&self.second_type_from);
        let pair = |(ids, from): (&Vec<u32>, &usize)| EncodedPair {
            ids: ids.clone(),
            second_type_from: *from,
            truncated: false,
        };
        texts.map(pair).collect()
    }

    fn check(&self, what: &str, got: &[Vec<f32>], expected: &[Vec<f32>]) {
        let off = difference(got, expected);
        assert!(off <= tolerance(TOLERANCE), "{} {what}: off by {off}", self.name());
    }

    /// Checks scores as [`Self::check`] does, relative to the largest if that is above 1. Products
    /// of vectors that are not normalised are sums of larger numbers.
    fn check_scores(&self, got: &[Vec<f32>], expected: &[Vec<f32>]) {
        let largest = expected.iter().flatten().fold(1.0, |most: f32, score| most.max(score.abs()));
        let off = difference(got, expected) / largest;
        assert!(off <= tolerance(TOLERANCE), "{} scores: off by {off}", self.name());
    }
}

/// Returns testkit's tokenizer with six words, so that it suits any vocabulary. Pairs have as many
/// types as the model. A Qwen2's tokenizer puts nothing around a text.
fn tokenizer(config: &Value) -> Value {
    let mut json = clew_testkit::tiny_tokenizer();
    json["model"]["vocab"] = json!({
        "[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "dog": 5,
    });
    if config["type_vocab_size"] == 1 {
        for part in json["post_processor"]["pair"].as_array_mut().unwrap() {
            for kind in part.as_object_mut().unwrap().values_mut() {
                kind["type_id"] = json!(0);
            }
        }
    }
    if config["model_type"] == "qwen2" {
        json["post_processor"] = Value::Null;
        json["normalizer"] = Value::Null;
        json["pre_tokenizer"] = Value::Null;
        json["added_tokens"] = json!([]);
        json["model"] =
            json!({"type": "BPE", "vocab": {"a": 3, "b": 4, "ab": 5}, "merges": ["a b"]});
    }
    json
}

fn own(name: &str) -> Case {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoders");
    Case::read(folder.join(name))
}

/// Returns the models of the repository, and those of `CLEW_GOLDEN_DIR` if it is set.
fn cases() -> Vec<Case> {
    let names = ["bert", "xlm-roberta", "qwen2", "reranker-bert", "reranker-xlm-roberta"];
    let mut cases: Vec<Case> = names.into_iter().map(own).collect();
    if let Some(folder) = std::env::var_os("CLEW_GOLDEN_DIR").map(PathBuf::from) {
        let folder = folder.join("encoders");
        let manifest = fs::read(folder.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let names = manifest["encoders"].as_array().unwrap().iter();
        cases.extend(names.map(|case| Case::read(folder.join(case["name"].as_str().unwrap()))));
    }
    cases
}

fn encoders() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|case| !case.is_reranker)
}

fn rerankers() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|case| case.is_reranker)
}

fn options(path: PathChoice, batch_tokens: usize) -> ModelOptions {
    // The packed path is the processor's.
    let device = if path == PathChoice::Burn { device() } else { DeviceChoice::Cpu };
    ModelOptions {
        device,
        path,
        precision: PrecisionChoice::Float32,
        batch_tokens: NonZeroUsize::new(batch_tokens),
        ..ModelOptions::default()
    }
}

/// Returns the maximum difference.
fn difference(left: &[Vec<f32>], right: &[Vec<f32>]) -> f32 {
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.len(), right.len());
    }
    let pairs = left.iter().flatten().zip(right.iter().flatten());
    pairs.map(|(left, right)| (left - right).abs()).fold(0.0, f32::max)
}

fn embedded(model: &EmbeddingModel, texts: &[EncodedText]) -> Vec<Vec<f32>> {
    let embeddings = model.embed(texts, &mut Scratch::default()).unwrap();
    embeddings.into_iter().map(|embedding| embedding.vector).collect()
}

fn products(vectors: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let dot = |left: &[f32], right: &[f32]| left.iter().zip(right).map(|(l, r)| l * r).sum();
    vectors.iter().map(|left| vectors.iter().map(|right| dot(left, right)).collect()).collect()
}

#[test]
fn golden_states_vectors_and_scores_of_berts_are_the_references() {
    for case in encoders().filter(|case| !case.is_qwen2()) {
        for path in [PathChoice::Burn, PathChoice::Auto] {
            for (mode, pooled, unit) in
                [("cls_token", "cls", "cls_norm"), ("mean_tokens", "mean", "mean_norm")]
            {
                let model = case.load(Steps::pooled_by(mode), &options(path, 100));
                let (texts, mut scratch) = (case.texts(), Scratch::default());
                let states = model.token_states(&texts, &mut scratch).unwrap();
                case.check("states", &states, &case.states("last_hidden"));
                let vectors = model.pooled(&texts, &mut scratch).unwrap();
                case.check(pooled, &vectors, &case.rows(pooled));
                let units = embedded(&model, &texts);
                case.check(unit, &units, &case.rows(unit));
                // The reference's own choice is one of these.
                for (name, vectors) in [(pooled, vectors), (unit, units)] {
                    if difference(&case.rows("embedding"), &case.rows(name)) == 0.0 {
                        case.check_scores(&products(&vectors), &case.rows("scores"));
                    }
                }
            }
        }
    }
}

#[test]
fn golden_states_vectors_and_scores_of_qwen2_are_the_references() {
    for case in encoders().filter(Case::is_qwen2) {
        let (texts, mut scratch) = (case.texts(), Scratch::default());
        for (is_causal, attention) in [(false, "bidirectional"), (true, "causal")] {
            for (pooling, named) in [("lasttoken", "last_token"), ("mean_tokens", "mean")] {
                let steps = Steps { pooling, is_causal, has_dense: false };
                let model = case.load(steps, &options(PathChoice::Auto, 100));
                let states = model.token_states(&texts, &mut scratch).unwrap();
                let expected = case.states(&format!("last_hidden_{attention}"));
                case.check(attention, &states, &expected);
                let name = format!("{named}_{attention}");
                if case.golden.contains_key(&name) {
                    let vectors = model.pooled(&texts, &mut scratch).unwrap();
                    case.check(&name, &vectors, &case.rows(&name));
                }
                let name = format!("{name}_norm");
                if case.golden.contains_key(&name) {
                    case.check(&name, &embedded(&model, &texts), &case.rows(&name));
                }
            }
        }
        let steps = Steps { pooling: "mean_tokens", is_causal: false, has_dense: true };
        let model = case.load(steps, &options(PathChoice::Auto, 100));
        let dense = model.pooled(&texts, &mut scratch).unwrap();
        case.check("dense", &dense, &case.rows("dense"));
        let vectors = embedded(&model, &texts);
        case.check("embedding", &vectors, &case.rows("embedding"));
        case.check_scores(&products(&vectors), &case.rows("scores"));
        assert_eq!(model.identity().dimension as usize, vectors[0].len());
    }
}

#[test]
fn golden_scores_of_rerankers_are_the_references() {
    for case in rerankers() {
        for path in [PathChoice::Burn, PathChoice::Auto] {
            let reranker = case.reranker(&options(path, 100));
            let scores = reranker.score_pairs(&case.pairs(), &mut Scratch::default()).unwrap();
            case.check_scores(&[scores], &[case.golden["scores"].values.clone()]);
        }
    }
}

#[test]
fn a_text_is_the_same_alone_and_in_company() {
    for case in encoders() {
        for path in [PathChoice::Burn, PathChoice::Auto] {
            let vectors = |batch_tokens| {
                let steps = Steps::pooled_by("mean_tokens");
                embedded(&case.load(steps, &options(path, batch_tokens)), &case.texts())
            };
            let alone = vectors(1);
            for batch_tokens in [45, 10_000] {
                let off = difference(&vectors(batch_tokens), &alone);
                assert!(off <= tolerance(BETWEEN_BATCHES), "{}: off by {off}", case.name());
            }
        }
    }
    for case in rerankers() {
        let scores = |batch_tokens| {
            let reranker = case.reranker(&options(PathChoice::Auto, batch_tokens));
            vec![reranker.score_pairs(&case.pairs(), &mut Scratch::default()).unwrap()]
        };
        let off = difference(&scores(10_000), &scores(1));
        assert!(off <= tolerance(BETWEEN_BATCHES), "{}: off by {off}", case.name());
    }
}

#[test]
fn a_question_and_its_passages_are_scored_in_order() {
    for name in ["reranker-bert", "reranker-xlm-roberta"] {
        let reranker = own(name).reranker(&ModelOptions::default());
        let long = "dog ".repeat(100);
        let passages = ["dog", "dog dog", &long];
        let scores = reranker.score("dog", &passages, &mut Scratch::default()).unwrap();
        assert_eq!(scores.len(), 3);
        let encoded = passages.map(|passage| reranker.encode("dog", passage).unwrap());
        assert_eq!(encoded[2].ids.len(), reranker.max_tokens());
        assert_eq!(encoded.each_ref().map(|pair| pair.truncated), [false, false, true]);
        let alone = reranker.score("dog", &passages[1..2], &mut Scratch::default()).unwrap();
        assert!((scores[1] - alone[0]).abs() <= 1e-2, "in whatever precision is the fastest");
        let refused = reranker.score(&long, &passages, &mut Scratch::default());
        assert!(matches!(refused, Err(Error::TooLong { .. })), "{refused:?}");
        let foreign = EncodedPair { ids: vec![9999], second_type_from: 1, truncated: false };
        let refused = reranker.score_pairs(&[foreign], &mut Scratch::default());
        assert!(matches!(refused, Err(Error::ForeignTokens { .. })), "{refused:?}");
    }
}

#[test]
fn a_classifier_of_several_labels_is_no_reranker() {
    let folder = tempfile::tempdir().unwrap();
    let case = own("bert");
    fs::copy(case.folder.join("config.json"), folder.path().join("config.json")).unwrap();
    let weights = case.folder.join("model.safetensors");
    fs::copy(weights, folder.path().join("model.safetensors")).unwrap();
    let tokenizer = tokenizer(&case.config).to_string();
    fs::write(folder.path().join("tokenizer.json"), tokenizer).unwrap();
    match RerankerModel::load(folder.path(), &ModelOptions::default()).map(|_| ()) {
        Err(Error::TensorNames { missing, .. }) => {
            assert!(missing.contains(&"classifier.weight".to_owned()), "{missing:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_text_without_tokens_has_a_vector_too() {
    let model = own("qwen2").load(Steps::pooled_by("mean_tokens"), &ModelOptions::default());
    let empty = model.encode("", TextKind::Passage);
    assert_eq!((empty.ids.as_slice(), empty.truncated), (&[2][..], false));
    assert_eq!(embedded(&model, &[empty]).len(), 1);
    assert_eq!(model.encode("ab", TextKind::Passage).ids, [5]);
    assert_eq!(model.token_spans("abab").len(), 2);
}

/// Returns the refusal of a Qwen2's folder after `change`.
fn refusal(change: impl FnOnce(&Path)) -> Error {
    let steps = Steps { pooling: "mean_tokens", is_causal: false, has_dense: true };
    let folder = own("qwen2").with_steps(steps);
    change(folder.path());
    match EmbeddingModel::load(folder.path(), &ModelOptions::default()) {
        Ok(_) => panic!("the folder was accepted"),
        Err(error) => error,
    }
}

#[test]
fn what_is_not_said_of_an_encoder_is_not_guessed() {
    for (file, key, value, mentions) in [
        ("config.json", "auto_map", json!({"AutoModel": "modeling.Model"}), "is_causal"),
        ("config.json", "model_type", json!("roberta"), "roberta"),
        ("config.json", "model_type", json!("llama"), "llama"),
        ("2_Dense/config.json", "activation_function", json!("torch.nn.Tanh"), "torch.nn.Tanh"),
        ("2_Dense/config.json", "in_features", json!(33), "33"),
        ("1_Pooling/config.json", "pooling_mode_max_tokens", json!(true), "max_tokens"),
    ] {
        let error = refusal(|folder| {
            let path = folder.join(file);
            let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            if key == "auto_map" {
                json.as_object_mut().unwrap().remove("is_causal");
            }
            json[key] = value;
            fs::write(&path, json.to_string()).unwrap();
        });
        let message = error.to_string();
        assert!(message.contains(mentions), "`{message}` does not mention `{mentions}`");
        assert!(message.contains(file), "`{message}` does not name `{file}`");
    }
    let error = refusal(|folder| {
        let settings = json!({"add_eos_token": true}).to_string();
        fs::write(folder.join("tokenizer_config.json"), settings).unwrap();
    });
    assert!(error.to_string().contains("add_eos_token"), "{error}");
    let error =
        refusal(|folder| fs::remove_file(folder.join("2_Dense/model.safetensors")).unwrap());
    assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
}
