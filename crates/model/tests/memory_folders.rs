//! Folders of memory models: which are refused, and what a checkpoint may leave out.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::path::Path;

use clew_model::decoder::WantedLogits;
use clew_model::memory::{MemoryInput, MemoryModel, Mix, Placement, Ratios};
use clew_model::{DeviceChoice, Error, Precision};
use clew_testkit::{TinyTensor, WeightFormat, write_tensors};
use safetensors::SafeTensors;
use serde_json::{Value, json};

const WINDOW: usize = 8;
/// Id of the token that memory tokens begin as, and another.
const EOS: usize = 2;
const BOS: usize = 0;

fn own(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memory").join(name)
}

fn tensors(name: &str) -> Vec<TinyTensor> {
    let bytes = std::fs::read(own(name).join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = tensors.tensors().into_iter().map(|(name, view)| {
        let values = view.data().as_chunks::<4>().0.iter();
        let values = values.map(|value| f32::from_le_bytes(*value)).collect();
        TinyTensor { name, shape: view.shape().to_vec(), values }
    });
    tensors.collect()
}

/// Loads a model of the repository with some settings changed, and with these tensors. Null removes
/// a setting.
fn load(name: &str, settings: &Value, tensors: &[TinyTensor]) -> Result<MemoryModel, Error> {
    let config = std::fs::read(own(name).join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    config.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    write_tensors(&folder.path().join("model.safetensors"), tensors, WeightFormat::Float32)
        .unwrap();
    MemoryModel::load(folder.path(), DeviceChoice::Cpu, Precision::Float32, 1)
}

/// Returns the refusal of the settings.
fn refusal(settings: &Value) -> Error {
    match load("qwen2", settings, &tensors("qwen2")) {
        Ok(_) => panic!("{settings} was accepted"),
        Err(error) => error,
    }
}

#[test]
fn settings_that_contradict_each_other_are_broken() {
    for (settings, mentions) in [
        (json!({"beacon_window": 0, "beacon_stride": 0}), "`beacon_window` from 1"),
        (json!({"beacon_window": 1 << 30, "beacon_stride": 1 << 30}), "`beacon_window` from 1"),
        (json!({"beacon_window": -8}), "configuration of a memory model"),
        (json!({"beacon_ratio": [3]}), "`beacon_ratio` that divides the window"),
        (json!({"beacon_ratio": 3}), "`beacon_ratio` that divides the window"),
        (json!({"beacon_ratio": [16, 3]}), "`beacon_ratio` that divides the window"),
        (json!({"beacon_ratio": []}), "`beacon_ratio` that divides the window"),
        (json!({"beacon_ratio": ["all"]}), "configuration of a memory model"),
        (json!({"beacon_embed_init": "pad"}), "configuration of a memory model"),
        (json!({"beacon_sink_size": -1}), "configuration of a memory model"),
        (json!({"max_position_embeddings": null}), "configuration of a memory model"),
    ] {
        let error = refusal(&settings);
        assert!(matches!(error, Error::Broken { .. }), "{settings}: {error}");
        assert!(error.to_string().contains(mentions), "{settings}: {error}");
    }
}

#[test]
fn layouts_that_no_reference_computes_are_unsupported() {
    let by_step = "step-expansion";
    for (settings, mentions) in [
        (json!({"beacon_stride": 4}), "`beacon_stride` equal to `beacon_window`"),
        (json!({"beacon_attn": "segmentation"}), "interleave with segmentation"),
        (
            json!({"beacon_attn": "segmentation", "beacon_pos": "append"}),
            "append with segmentation",
        ),
        (json!({"beacon_attn": by_step}), "interleave with step-expansion"),
        (json!({"beacon_pos": "prepend"}), "prepend with full-coverage"),
        (json!({"beacon_param": ["q", "mlp"]}), "found mlp"),
        (json!({"beacon_ratio_mix": "by-mood"}), "found by-mood"),
        (json!({"beacon_ratio_mix": "adapt-x"}), "found adapt-x"),
        (json!({"rope_scaling": {"type": "yarn", "factor": 4.0}}), "`yarn`"),
        (json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}), "`yarn`"),
        (
            json!({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}}),
            "`yarn`",
        ),
        (json!({"rope_scaling": {"type": "dynamic", "factor": 4.0}}), "`dynamic`"),
    ] {
        let error = refusal(&settings);
        assert!(matches!(error, Error::Unsupported { .. }), "{settings}: {error}");
        assert!(error.to_string().contains(mentions), "{settings}: {error}");
    }
}

#[test]
fn settings_that_are_not_there_are_those_of_the_reference() {
    let mut settings = json!({});
    for name in ["window", "stride", "attn", "attend_prev", "ratio", "ratio_mix", "embed_init"] {
        settings[format!("beacon_{name}")] = Value::Null;
    }
    for name in ["sink_size", "pos"] {
        settings[format!("beacon_{name}")] = Value::Null;
    }
    let model = load("qwen2", &settings, &tensors("qwen2")).unwrap();
    let found = model.settings();
    assert_eq!((found.window, found.sink, found.placement), (1024, 0, Placement::Interleaved));
    let ratios = Ratios::try_new(&[2, 4, 8, 16, 32], Mix::EachByChance, 1024).unwrap();
    assert_eq!(found.ratios, ratios);
}

#[test]
fn several_ratios_are_those_that_divide_the_window() {
    let settings = json!({"beacon_ratio": [2, 3, 16, 0], "beacon_ratio_mix": "sequence"});
    let model = load("qwen2", &settings, &tensors("qwen2")).unwrap();
    assert_eq!(model.settings().ratios.all(), [2, 0]);
}

#[test]
fn scaled_positions_are_room_for_more() {
    let mix = "adapt-9";
    let scaling = json!({"type": "linear", "factor": 2.0});
    for (scaling, positions) in [(Value::Null, 256), (scaling, 512)] {
        let settings = json!({"beacon_ratio_mix": mix, "rope_scaling": scaling});
        let model = load("qwen2", &settings, &tensors("qwen2")).unwrap();
        let mix = Mix::Fitting { more: 9, positions };
        assert_eq!(model.settings().ratios, Ratios::try_new(&[2, 4, 8], mix, WINDOW).unwrap());
    }
}

/// Returns the logits after each token of a text of several windows.
fn logits(model: &MemoryModel) -> Vec<Vec<f32>> {
    let mut memory = model.memory(Ratios::one(4, WINDOW).unwrap().schedule(0));
    let tokens: Vec<u32> = (0..20).collect();
    let (memory, wanted) = (&mut memory, WantedLogits::All);
    model.read(&mut [MemoryInput { memory, tokens: &tokens, wanted }]).unwrap()
}

fn is_of_memory(tensor: &TinyTensor) -> bool {
    tensor.name.contains("beacon_")
}

#[test]
fn memory_tokens_of_a_plain_checkpoint_begin_as_copies() {
    for name in ["qwen2", "mistral"] {
        let trained = tensors(name);
        let base: Vec<TinyTensor> =
            tensors(name).into_iter().filter(|tensor| !is_of_memory(tensor)).collect();
        for (begins_as, id) in [("eos", EOS), ("bos", BOS)] {
            let settings = json!({"beacon_embed_init": begins_as});
            let copies = trained.iter().map(|tensor| {
                let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
                let of = match name.as_str() {
                    "model.beacon_embed_tokens.weight" => "model.embed_tokens.weight".to_owned(),
                    other => other.replace("beacon_", ""),
                };
                let values = &base.iter().find(|tensor| tensor.name == of).unwrap().values;
                let values = match of.as_str() {
                    "model.embed_tokens.weight" if is_of_memory(tensor) => {
                        values[id * shape[1]..(id + 1) * shape[1]].to_vec()
                    }
                    _ => values.clone(),
                };
                TinyTensor { name, shape, values }
            });
            let copies: Vec<TinyTensor> = copies.collect();
            let began = logits(&load(name, &settings, &base).unwrap());
            assert_eq!(began, logits(&load(name, &settings, &copies).unwrap()), "{name}");
            assert_ne!(began, logits(&load(name, &settings, &trained).unwrap()), "{name}");
        }
        let nobody = json!({"eos_token_id": null});
        let beyond = json!({"eos_token_id": 52});
        for settings in [nobody, beyond] {
            let error = load(name, &settings, &base).err().unwrap();
            assert!(error.to_string().contains("memory tokens begin as"), "{settings}: {error}");
            assert!(load(name, &settings, &trained).is_ok(), "they are what the checkpoint says");
        }
    }
}

#[test]
fn checkpoints_with_some_parameters_of_memory_tokens_are_refused() {
    for name in ["qwen2", "mistral"] {
        let names = tensors(name);
        let of_memory = names.iter().filter(|tensor| is_of_memory(tensor));
        for missing in of_memory {
            let mut some = tensors(name);
            some.retain(|tensor| tensor.name != missing.name);
            match load(name, &json!({}), &some).err().unwrap() {
                Error::TensorNames { missing: found, .. } => {
                    assert_eq!(found, [missing.name.as_str()])
                }
                other => panic!("{}: {other}", missing.name),
            }
        }
    }
    // A checkpoint with more memory parameters than are configured is refused as well.
    let error = load("qwen2", &json!({"beacon_param": ["q"]}), &tensors("qwen2")).err().unwrap();
    assert!(matches!(error, Error::TensorNames { .. }), "{error}");
}
