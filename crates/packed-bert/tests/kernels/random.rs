//! Creates small models and sequences from explicit seeds.

use std::collections::HashMap;

use clew_packed_bert::{Config, Kernel, PackedBert, tensor_names};

/// Tensors by name.
pub type Tensors = HashMap<String, Vec<f32>>;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", figure 16).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a uniformly distributed value with mean 0 and standard deviation 1.
    fn value(&mut self) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1 << 24) as f32;
        (unit - 0.5) * 12_f32.sqrt()
    }

    pub fn sequence(&mut self, config: &Config, length: usize) -> Vec<u32> {
        (0..length).map(|_| (self.next() % config.vocabulary as u64) as u32).collect()
    }
}

/// Creates the tensors of a model whose values have the scales of a trained one. Normalised states
/// are of order 1. Queries, keys and values are of order 1, so that attention is neither flat nor a
/// single peak. Residual parts have half the stream's size.
pub fn tensors(config: &Config, seed: u64) -> Tensors {
    let mut random = Random(seed);
    let mut tensors = Tensors::new();
    for name in tensor_names(config) {
        let (length, mean, deviation) = distribution(config, &name);
        tensors.insert(name, (0..length).map(|_| mean + deviation * random.value()).collect());
    }
    tensors
}

/// Returns the length, mean and standard deviation of a tensor.
fn distribution(config: &Config, name: &str) -> (usize, f32, f32) {
    let Config { vocabulary, hidden, intermediate, positions, token_types, .. } = *config;
    let (module, kind) = name.rsplit_once('.').expect("every name has a module and a kind");
    let of_hidden = (hidden as f32).sqrt().recip();
    let of_intermediate = (intermediate as f32).sqrt().recip();
    match (module, kind) {
        ("embeddings.word_embeddings", _) => (vocabulary * hidden, 0.0, 0.05),
        ("embeddings.position_embeddings", _) => (positions * hidden, 0.0, 0.02),
        ("embeddings.token_type_embeddings", _) => (token_types * hidden, 0.0, 0.02),
        (module, "weight") if module.ends_with("LayerNorm") => (hidden, 1.0, 0.2),
        (module, "bias") if module.ends_with("intermediate.dense") => (intermediate, 0.0, 0.1),
        (_, "bias") => (hidden, 0.0, 0.1),
        (module, _) if module.ends_with("intermediate.dense") => {
            (intermediate * hidden, 0.0, of_hidden)
        }
        (module, _) if module.contains("attention") => (hidden * hidden, 0.0, of_hidden),
        _ => (hidden * intermediate, 0.0, of_intermediate),
    }
}

pub fn model(config: &Config, kernel: Kernel, tensors: &Tensors) -> PackedBert {
    PackedBert::try_new(*config, kernel, &mut |name| tensors.get(name).cloned())
        .expect("the tensors are complete")
}

/// Returns the kernels that this machine can run. Names the others on standard error.
pub fn supported_kernels() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| {
        let is_supported = kernel.is_supported();
        if !is_supported {
            eprintln!("kernel {kernel} is not supported by this processor and was not tested");
        }
        is_supported
    })
}
