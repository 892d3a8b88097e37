//! Tiny memory models in every layout of memory tokens.

use std::path::Path;
use std::sync::LazyLock;

use clew_model::memory::MemoryModel;
use clew_model::{DeviceChoice, Precision};
use serde_json::{Value, json};

/// Models of `fixtures/memory`, in every layout.
pub static MODELS: LazyLock<Vec<MemoryModel>> = LazyLock::new(|| {
    let layouts = [
        json!({}),
        json!({"beacon_sink_size": 3}),
        json!({"beacon_pos": "append"}),
        json!({"beacon_pos": "append", "beacon_attn": "step-expansion"}),
        json!({"beacon_pos": "append", "beacon_attn": "step-expansion", "beacon_attend_prev": false}),
    ];
    let models = ["qwen2", "mistral"].into_iter();
    models.flat_map(|name| layouts.clone().map(|layout| model(name, &layout))).collect()
});

/// Returns a model of the repository with some settings changed.
pub fn model(name: &str, settings: &Value) -> MemoryModel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memory").join(name);
    let config = std::fs::read(folder.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let changed = tempfile::tempdir().unwrap();
    let file = "model.safetensors";
    std::fs::copy(folder.join(file), changed.path().join(file)).unwrap();
    std::fs::write(changed.path().join("config.json"), config.to_string()).unwrap();
    MemoryModel::load(changed.path(), DeviceChoice::Cpu, Precision::Float32, 1).unwrap()
}
