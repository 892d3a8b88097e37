//! A random model has the same results on every path and from every layout of its files.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use clew_core::{Embedding, TextKind};
use clew_model::{
    DeviceChoice, EmbeddingModel, EncodedText, Error, ModelOptions, PathChoice, PrecisionChoice,
    Scratch,
};
use clew_packed_bert::{Kernel, KernelPrecision};
use clew_testkit::{TinyBert, WeightFormat, write_tensors, write_tiny_bert};
use serde_json::json;
use tempfile::TempDir;

const TEXTS: [&str; 7] = [
    "where did the dog go?",
    "the dog went to the river",
    "",
    "A letter from her mother came in the morning; she read it by the window, twice.",
    "x",
    "tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea \
     tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea \
     tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea tea",
    "茶と本 — née Zoë 🍵",
];

fn tiny() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_tiny_bert(folder.path(), 1).unwrap();
    folder
}

fn burn() -> ModelOptions {
    ModelOptions { path: PathChoice::Burn, ..ModelOptions::default() }
}

fn embed(folder: &Path, options: &ModelOptions) -> Vec<Embedding> {
    embed_with(&EmbeddingModel::load(folder, options).unwrap())
}

fn embed_with(model: &Arc<EmbeddingModel>) -> Vec<Embedding> {
    model.embed_texts(&TEXTS, TextKind::Passage, &mut Scratch::default()).unwrap()
}

fn assert_close(left: &[Embedding], right: &[Embedding], tolerance: f32) {
    assert_eq!(left.len(), right.len());
    for (index, (left, right)) in left.iter().zip(right).enumerate() {
        assert_eq!((left.tokens, left.truncated), (right.tokens, right.truncated));
        let pairs = left.vector.iter().zip(&right.vector);
        let worst = pairs.map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
        assert!(worst <= tolerance, "text {index} differs by {worst}");
    }
}

#[test]
fn vectors_have_length_one_and_cuts_are_reported() {
    let embeddings = embed(tiny().path(), &ModelOptions::default());
    for embedding in &embeddings {
        let length: f32 = embedding.vector.iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }
    let truncated: Vec<bool> = embeddings.iter().map(|embedding| embedding.truncated).collect();
    assert_eq!(truncated, [false, false, false, false, false, true, false]);
    assert_eq!(embeddings[5].tokens, 64);
}

#[test]
fn the_packed_path_agrees_with_burn() {
    let folder = tiny();
    let expected = embed(folder.path(), &burn());
    for (precision, least, tolerance) in [
        // Two layers of sums in another order.
        (PrecisionChoice::Float32, KernelPrecision::Float32, 2e-6),
        // Factors of 8 significant bits, in vectors whose components are about 1/8.
        (PrecisionChoice::BFloat16, KernelPrecision::BFloat16, 1e-2),
    ] {
        if Kernel::detect(least).is_some_and(|kernel| kernel.precision() == least) {
            let path = PathChoice::Packed;
            let options = ModelOptions { path, precision, ..ModelOptions::default() };
            assert_close(&embed(folder.path(), &options), &expected, tolerance);
        }
    }
}

#[test]
fn a_text_gets_the_same_vector_alone_and_in_a_padded_or_packed_batch() {
    let folder = tiny();
    for path in [PathChoice::Burn, PathChoice::Auto] {
        let with_budget = |tokens| {
            let precision = PrecisionChoice::Float32;
            let batch_tokens = NonZeroUsize::new(tokens);
            let options = ModelOptions { path, precision, batch_tokens, ..ModelOptions::default() };
            embed(folder.path(), &options)
        };
        let alone = with_budget(1);
        for budget in [40, 150, 10_000] {
            assert_close(&with_budget(budget), &alone, 2e-6);
        }
    }
}

#[test]
fn texts_that_share_words_are_more_alike() {
    let folder = tiny();
    let model = EmbeddingModel::load(folder.path(), &ModelOptions::default()).unwrap();
    let texts = ["the dog went to the river", "where did the dog go?", "winter tea and a book"];
    let embeddings = model.embed_texts(&texts, TextKind::Passage, &mut Scratch::default()).unwrap();
    let score = |index: usize| -> f32 {
        let pairs = embeddings[0].vector.iter().zip(&embeddings[index].vector);
        pairs.map(|(left, right)| left * right).sum()
    };
    assert!(score(1) > score(2), "{} and {}", score(1), score(2));
}

#[test]
fn names_with_the_prefix_of_a_larger_model_load_the_same() {
    let expected = embed(tiny().path(), &burn());
    let folder = tempfile::tempdir().unwrap();
    TinyBert { seed: 1, root: "bert.", ..TinyBert::default() }.write(folder.path()).unwrap();
    assert_close(&embed(folder.path(), &burn()), &expected, 0.0);
}

#[test]
fn sixteen_bit_weights_are_converted() {
    let expected = embed(tiny().path(), &burn());
    // Weights of 11 and of 8 significant bits.
    for (format, tolerance) in [(WeightFormat::Float16, 2e-3), (WeightFormat::BFloat16, 1e-2)] {
        let folder = tempfile::tempdir().unwrap();
        TinyBert { seed: 1, format, ..TinyBert::default() }.write(folder.path()).unwrap();
        assert_close(&embed(folder.path(), &burn()), &expected, tolerance);
    }
}

#[test]
fn weights_in_several_files_load_the_same() {
    let folder = tiny();
    let expected = embed(folder.path(), &burn());
    let tensors = TinyBert { seed: 1, ..TinyBert::default() }.tensors();
    let (first, second) = tensors.split_at(9);
    let mut weight_map = serde_json::Map::new();
    for (file, part) in [("a.safetensors", first), ("b.safetensors", second)] {
        write_tensors(&folder.path().join(file), part, WeightFormat::Float32).unwrap();
        weight_map.extend(part.iter().map(|tensor| (tensor.name.clone(), json!(file))));
    }
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let index = json!({ "weight_map": weight_map }).to_string();
    fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    assert_close(&embed(folder.path(), &burn()), &expected, 0.0);
}

#[test]
fn a_model_without_a_window_of_its_own_reads_all_its_positions() {
    let folder = tiny();
    fs::remove_file(folder.path().join("sentence_bert_config.json")).unwrap();
    let model = EmbeddingModel::load(folder.path(), &burn()).unwrap();
    assert_eq!(model.identity().max_tokens, 128);
}

#[test]
fn cls_pooling_is_another_model_than_mean_pooling() {
    let folder = tiny();
    let mean = EmbeddingModel::load(folder.path(), &burn()).unwrap();
    let cls = json!({"word_embedding_dimension": 64, "pooling_mode": "cls"}).to_string();
    fs::write(folder.path().join("1_Pooling/config.json"), cls).unwrap();
    let cls = EmbeddingModel::load(folder.path(), &burn()).unwrap();
    assert_ne!(cls.identity().revision, mean.identity().revision);
    assert_ne!(embed_with(&cls)[0], embed_with(&mean)[0]);
    let packed = embed(
        folder.path(),
        &ModelOptions { precision: PrecisionChoice::Float32, ..ModelOptions::default() },
    );
    assert_close(&packed, &embed_with(&cls), 2e-6);
}

#[test]
fn prompts_go_before_the_texts_that_they_are_for() {
    let folder = tiny();
    let prompts = json!({"prompts": {"query": "question ", "document": ""}}).to_string();
    fs::write(folder.path().join("config_sentence_transformers.json"), prompts).unwrap();
    let model = EmbeddingModel::load(folder.path(), &burn()).unwrap();
    assert_eq!(
        model.encode("dog", TextKind::Query),
        model.encode("question dog", TextKind::Passage)
    );
    assert_ne!(model.encode("dog", TextKind::Query), model.encode("dog", TextKind::Passage));
}

#[test]
fn the_revision_follows_the_weights_and_not_the_place() {
    let revision =
        |folder: &Path| EmbeddingModel::load(folder, &burn()).unwrap().identity().revision.clone();
    let (first, second, other) = (tiny(), tiny(), tempfile::tempdir().unwrap());
    write_tiny_bert(other.path(), 2).unwrap();
    assert_eq!(revision(first.path()), revision(second.path()));
    assert_ne!(revision(first.path()), revision(other.path()));
}

#[test]
fn the_name_is_the_folders_unless_it_is_given() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("tiny-model");
    fs::create_dir(&folder).unwrap();
    write_tiny_bert(&folder, 1).unwrap();
    assert_eq!(EmbeddingModel::load(&folder, &burn()).unwrap().identity().model, "tiny-model");
    let named = ModelOptions { name: Some("mine".to_owned()), ..burn() };
    assert_eq!(EmbeddingModel::load(&folder, &named).unwrap().identity().model, "mine");
}

#[test]
fn texts_of_another_models_tokenizer_are_refused() {
    let wide = tempfile::tempdir().unwrap();
    write_tiny_bert(wide.path(), 1).unwrap();
    fs::remove_file(wide.path().join("sentence_bert_config.json")).unwrap();
    let wide = EmbeddingModel::load(wide.path(), &burn()).unwrap();
    let narrow = EmbeddingModel::load(tiny().path(), &burn()).unwrap();
    let encoded = wide.encode(TEXTS[5], TextKind::Passage);
    let made_up = |ids: &[u32]| EncodedText { ids: ids.to_vec(), truncated: false };
    for foreign in [encoded, made_up(&[]), made_up(&[2, 100_000, 3])] {
        let refused = narrow.embed(&[foreign], &mut Scratch::default());
        assert!(matches!(refused, Err(Error::ForeignTokens { .. })), "{refused:?}");
    }
}

#[test]
fn a_gpu_that_is_not_there_is_refused() {
    let device = DeviceChoice::Cuda { index: 4096 };
    let options = ModelOptions { device, ..ModelOptions::default() };
    match EmbeddingModel::load(tiny().path(), &options).map(|_| ()) {
        Err(Error::OptionUnavailable { option, .. }) => assert_eq!(option, "device"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_model_serves_many_threads() {
    let folder = tiny();
    for options in [burn(), ModelOptions::default()] {
        let model = EmbeddingModel::load(folder.path(), &options).unwrap();
        let expected = embed_with(&model);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_close(&embed_with(&model), &expected, 0.0));
            }
        });
    }
}
