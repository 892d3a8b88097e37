//! Parameters in training, by their names in checkpoints.

use std::collections::BTreeMap;

use burn::prelude::*;
use burn::tensor::DType;

use super::Trained;
use crate::Error;
use crate::decoder::config::DecoderConfig;
use crate::decoder::config::MemoryParts;
use crate::decoder::layers::stacks::{Stack, Stacked, head_stack};
use crate::memory::MemoryModel;

/// Parameter of a checkpoint.
pub(super) struct Parameter {
    pub(super) name: String,
    /// Shape in the checkpoint.
    pub(super) shape: Vec<usize>,
    /// All its numbers, in the checkpoint's order.
    pub(super) leaf: Tensor<1>,
    is_trained: bool,
}

/// Trained parameters, and others that share a tensor of the model with them.
pub(super) struct Parameters(BTreeMap<String, Parameter>);

impl Parameter {
    /// Returns how many numbers the parameter has.
    pub(super) fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Replaces the numbers. `numbers` are on the leaf's device and do not track gradients.
    pub(super) fn set(&mut self, numbers: Tensor<1>) {
        self.leaf = numbers.autodiff().require_grad();
    }
}

impl Parameters {
    /// Takes the parameters out of a model.
    pub(super) fn of(model: &mut MemoryModel, trained: Trained) -> Self {
        let shapes: BTreeMap<String, Vec<usize>> = full_config(&model.layers.config)
            .parameters()
            .into_iter()
            .map(|parameter| (parameter.name, parameter.shape))
            .collect();
        let mut all = BTreeMap::new();
        for Stack { parts, tensor } in stacks(model) {
            if !parts.iter().any(|name| trained.includes(name)) {
                continue;
            }
            let numbers = match &tensor {
                Stacked::Matrix(matrix) => {
                    let [rows, width] = matrix.dims();
                    (**matrix).clone().reshape([rows * width])
                }
                Stacked::Vector(vector) => (**vector).clone(),
            };
            let numbers: Tensor<1> = numbers.inner().cast(DType::F32);
            let mut start = 0;
            for name in parts {
                // Every part of a stack is a parameter of the configuration.
                let shape = shapes.get(&name).cloned().unwrap_or_default();
                let size = shape.iter().product::<usize>();
                let part = numbers.clone().narrow(0, start, size).autodiff();
                start += size;
                let is_trained = trained.includes(&name);
                let leaf = if is_trained { part.require_grad() } else { part };
                all.insert(name.clone(), Parameter { name, shape, leaf, is_trained });
            }
        }
        Self(all)
    }

    /// Replaces the model's tensors by these parameters.
    pub(super) fn put_into(&self, model: &mut MemoryModel) {
        let dtype = model.layers.dtype;
        for Stack { parts, tensor } in stacks(model) {
            let parts = parts.iter().map(|name| Some(self.0.get(name)?.leaf.clone()));
            let Some(parts) = parts.collect::<Option<Vec<Tensor<1>>>>() else { continue };
            let numbers = Tensor::cat(parts, 0).cast(dtype);
            match tensor {
                Stacked::Matrix(matrix) => *matrix = numbers.reshape(matrix.dims()),
                Stacked::Vector(vector) => *vector = numbers,
            }
        }
    }

    /// Returns the trained parameters in the order of names.
    pub(super) fn trained(&self) -> impl Iterator<Item = &Parameter> {
        self.0.values().filter(|parameter| parameter.is_trained)
    }

    /// Returns the trained parameters in the order of names.
    pub(super) fn trained_mut(&mut self) -> impl Iterator<Item = &mut Parameter> {
        self.0.values_mut().filter(|parameter| parameter.is_trained)
    }
}

/// Returns the configuration of a checkpoint in which memory tokens have parameters of their own.
pub(super) fn full_config(config: &DecoderConfig) -> DecoderConfig {
    let memory = config.memory.as_ref().map(grown_up);
    DecoderConfig { memory, ..config.clone() }
}

fn stacks(model: &mut MemoryModel) -> Vec<Stack<'_>> {
    let is_tied = model.layers.config.is_tied;
    let mut stacks = model.layers.stacks();
    stacks.push(head_stack(&mut model.head, is_tied));
    stacks
}

/// Returns the numbers of a tensor.
///
/// # Errors
/// Returns [`Error::Device`] if the device fails.
pub(super) fn values(tensor: &Tensor<1>) -> Result<Vec<f32>, Error> {
    let values = tensor.clone().try_into_vec_as::<f32>();
    values.map_err(|error| Error::Device { reason: error.to_string() })
}

pub(super) fn unknown(name: &str) -> Error {
    Error::TensorNames {
        file: "the training's parameters".to_owned(),
        missing: vec![name.to_owned()],
        unused: Vec::new(),
    }
}

/// Returns the parts of memory tokens that have parameters of their own.
fn grown_up(memory: &MemoryParts) -> MemoryParts {
    MemoryParts { copied_from: None, ..memory.clone() }
}
