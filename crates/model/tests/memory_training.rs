//! The loss and the gradients of memory models are those of the reference.
//!
//! `CLEW_GOLDEN_DIR` may name a folder with the reference's results. Without it nothing is checked
//! here. `memory_trainer.rs` checks everything that needs no reference.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::path::{Path, PathBuf};

use clew_model::memory::RatioSchedule;
use clew_model::memory::training::{MemoryTokenLayout, Trained, Training, TrainingSequence};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::device::{device, tolerance};

/// Maximum difference of a loss. Two correct computations in 32-bit floats differ by about 1e-6 in
/// a loss near 10.
const LOSS: f32 = 1e-5;
/// Maximum difference of a gradient. The largest gradient is 0.16.
const GRADIENT: f32 = 2e-6;
/// Label of tokens that are not labels.
const IGNORED: i32 = -100;

fn folders() -> Vec<PathBuf> {
    let Some(golden) = std::env::var_os("CLEW_GOLDEN_DIR") else { return Vec::new() };
    let golden = Path::new(&golden).join("memorag");
    let folders = ["qwen2", "mistral"].map(|family| golden.join(family));
    folders.into_iter().collect()
}

fn integers(tensors: &SafeTensors<'_>, name: &str) -> Vec<i32> {
    let data = tensors.tensor(name).unwrap().data().to_vec();
    data.as_chunks::<4>().0.iter().map(|id| i32::from_le_bytes(*id)).collect()
}

fn numbers(tensors: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let data = tensors.tensor(name).unwrap().data().to_vec();
    data.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

#[test]
fn memorag_loss_and_gradients_are_the_references() {
    for folder in folders() {
        let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let bytes = std::fs::read(folder.join("cases/train_step.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let layout = MemoryTokenLayout::default();
        let mut training = Training::load(&folder, device(), Trained::Memory, &layout).unwrap();
        let window = training.settings().window;
        let sizes = manifest["train"]["beacon_sizes_per_window"].as_array().unwrap();
        let sizes = sizes.iter().map(|size| size.as_u64().unwrap() as usize);
        let ratios = sizes.map(|size| window.checked_div(size).unwrap_or(0)).collect();
        let tokens = integers(&tensors, "input_ids");
        let tokens = tokens.into_iter().map(|id| u32::try_from(id).unwrap()).collect();
        let labels = integers(&tensors, "labels");
        let counted = labels.into_iter().map(|label| label != IGNORED).collect();
        let sequence = TrainingSequence::masked(tokens, counted).unwrap();
        let found = training.gradients(&sequence, RatioSchedule::told(ratios), usize::MAX).unwrap();
        let expected = manifest["train"]["loss"].as_f64().unwrap();
        let off = (found.mean_loss() - expected).abs();
        assert!(
            off <= f64::from(tolerance(LOSS)),
            "{}: the loss is off by {off}",
            folder.display()
        );
        let trained = manifest["train"]["trainable"].as_array().unwrap();
        let mut names: Vec<&str> = trained.iter().map(|name| name.as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(found.names().collect::<Vec<_>>(), names);
        for name in names {
            let expected = numbers(&tensors, &format!("grad.{name}"));
            let found = found.of(name).unwrap();
            assert_eq!(found.len(), expected.len(), "{name}");
            let pairs = found.iter().zip(&expected);
            let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off <= tolerance(GRADIENT), "{}: {name} is off by {off}", folder.display());
        }
    }
}
