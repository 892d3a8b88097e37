//! Engines: the ways to compute the token states and the vectors of a batch.

use std::num::NonZeroUsize;

use burn::prelude::*;
use burn::tensor::DType;
use clew_packed_bert::{Kernel, PackedBert, Workspace};

use crate::batch::{BatchBudget, BatchLayout, plan};
use crate::bert::{self, Bert, BertConfig, BertInput, BertOutput};
use crate::dense::Dense;
use crate::folder::{ModelFolder, Transformer};
use crate::pooling::Pooling;
use crate::qwen2::Qwen2;
use crate::route::{Route, Widths, unavailable};
use crate::weights::Weights;
use crate::{Error, device};

/// Buffers that one thread keeps between calls.
#[derive(Default)]
pub struct Scratch {
    workspace: Workspace,
    /// Token states `[tokens, hidden]` of the last packed batch.
    states: Vec<f32>,
}

/// Tokens of one text or of a pair of texts.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    /// Token ids, at least one.
    pub(crate) ids: &'a [u32],
    /// Index of the first token of type 1, or the number of tokens if there is none.
    pub(crate) second_type_from: usize,
}

impl<'a> Tokens<'a> {
    /// Returns the tokens of one text, all of type 0.
    pub(crate) fn of_one(ids: &'a [u32]) -> Self {
        Self { ids, second_type_from: ids.len() }
    }
}

/// Loaded model, ready to run on its route.
pub(crate) enum Engine {
    /// For texts whose tokens are all of type 0.
    Packed {
        model: Box<PackedBert>,
        hidden: usize,
    },
    Bert {
        model: Box<Bert>,
        device: Device,
    },
    /// For texts whose tokens are all of type 0, as a Qwen2 has no token types.
    Qwen2 {
        model: Box<Qwen2>,
        dense: Option<Box<Dense>>,
    },
}

impl Engine {
    /// Loads the model of `folder` for `route`.
    ///
    /// # Errors
    /// Returns [`Error::OptionUnavailable`] if the device or the number format is not available,
    /// and the variants of [`Error`] about files if the weights are not those of the model.
    pub(crate) fn load(route: Route, folder: &ModelFolder) -> Result<Self, Error> {
        match &folder.transformer {
            Transformer::Bert { config, checkpoint } => {
                checkpoint.check(&config.parameters(), bert::is_ignored)?;
                Self::load_bert(route, config, checkpoint)
            }
            Transformer::Qwen2 { config, checkpoint } => {
                let (device, dtype) = open_burn(route)?;
                let model = Box::new(Qwen2::load(config, checkpoint, &device, dtype)?);
                let dense = match &folder.dense {
                    None => None,
                    Some((config, checkpoint)) => {
                        Some(Box::new(Dense::load(config, checkpoint, &device)?))
                    }
                };
                Ok(Self::Qwen2 { model, dense })
            }
        }
    }

    /// Loads the encoder's part of `weights` for `route`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::load`].
    pub(crate) fn load_bert(
        route: Route,
        config: &BertConfig,
        weights: &dyn Weights,
    ) -> Result<Self, Error> {
        match route {
            Route::Packed(kernel) => load_packed(kernel, config, weights),
            Route::Burn(choice, precision) => {
                let (device, dtype) = device::open_for(choice, precision)?;
                let model = config.init(&device).load(config, weights, &device, dtype)?;
                Ok(Self::Bert { model: Box::new(model), device })
            }
        }
    }

    /// Returns the budget of a step. By default it leaves room for other work on a GPU; `wanted`
    /// overrides the number of tokens.
    pub(crate) fn budget(&self, route: Route, wanted: Option<NonZeroUsize>) -> BatchBudget {
        let small = Widths { of_token: 1, of_pair: 1 };
        let (layout, widths, room) = match self {
            // Its caller's memory bounds the few tokens of a step.
            Self::Packed { .. } => (BatchLayout::Packed, small, usize::MAX),
            Self::Qwen2 { model, .. } => {
                (BatchLayout::Packed, model.widths(), device::largest_tensor(model.device()))
            }
            Self::Bert { model, device } => {
                (BatchLayout::Padded, model.widths(), device::largest_tensor(device))
            }
        };
        route.budget(layout, wanted, widths, room)
    }

    /// Returns the pooled vectors of `texts`, in order, not normalised.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub(crate) fn pooled(
        &self,
        texts: &[Tokens<'_>],
        pooling: Pooling,
        scratch: &mut Scratch,
    ) -> Result<Vec<Vec<f32>>, Error> {
        match self {
            Self::Packed { model, hidden } => {
                let states = packed_states(model, *hidden, texts, scratch)?;
                Ok(states.map(|states| pooling.pool_text(states, *hidden)).collect())
            }
            Self::Bert { model, device } => {
                let (states, keep) = bert_states(model, device, texts);
                rows(pooling.pool_batch(states, keep))
            }
            Self::Qwen2 { model, dense } => {
                let pooled = model.pooled(&ids(texts), pooling);
                rows(match dense {
                    None => pooled,
                    Some(dense) => dense.forward(pooled),
                })
            }
        }
    }

    /// Returns the token states of `texts`, in order, `[tokens, hidden]` each.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub(crate) fn states(
        &self,
        texts: &[Tokens<'_>],
        scratch: &mut Scratch,
    ) -> Result<Vec<Vec<f32>>, Error> {
        self.read_states(texts, scratch, <[f32]>::to_vec)
    }

    /// Calls `read` with the token states of each of `texts`, `[tokens, hidden]`, and returns the
    /// results in order.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub(crate) fn read_states<T>(
        &self,
        texts: &[Tokens<'_>],
        scratch: &mut Scratch,
        read: impl Fn(&[f32]) -> T,
    ) -> Result<Vec<T>, Error> {
        match self {
            Self::Packed { model, hidden } => {
                Ok(packed_states(model, *hidden, texts, scratch)?.map(read).collect())
            }
            Self::Bert { model, device } => {
                let (states, _) = bert_states(model, device, texts);
                let [_, _, hidden] = states.dims();
                let padded = rows(states.flatten(1, 2))?;
                let of_text = |(states, text): (&Vec<f32>, &Tokens<'_>)| {
                    read(&states[..text.ids.len() * hidden])
                };
                Ok(padded.iter().zip(texts).map(of_text).collect())
            }
            Self::Qwen2 { model, .. } => {
                let mut states = rows(model.forward(&ids(texts)))?.into_iter();
                let of_text = |text: &Tokens<'_>| {
                    read(&states.by_ref().take(text.ids.len()).flatten().collect::<Vec<f32>>())
                };
                Ok(texts.iter().map(of_text).collect())
            }
        }
    }
}

/// Calls `compute` on batches of `texts` within `budget`, and returns the results in the order of
/// `texts`.
///
/// # Errors
/// Returns the errors of `compute`.
pub(crate) fn in_batches<T>(
    texts: &[Tokens<'_>],
    budget: BatchBudget,
    mut compute: impl FnMut(&[Tokens<'_>]) -> Result<Vec<T>, Error>,
) -> Result<Vec<T>, Error> {
    let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
    let mut results: Vec<Option<T>> = texts.iter().map(|_| None).collect();
    for batch in plan(&lengths, budget) {
        let batch_texts: Vec<Tokens<'_>> = batch.iter().map(|&index| texts[index]).collect();
        for (index, result) in batch.into_iter().zip(compute(&batch_texts)?) {
            results[index] = Some(result);
        }
    }
    let results = results.into_iter();
    Ok(results.map(|result| result.expect("the plan holds every text once")).collect())
}

fn open_burn(route: Route) -> Result<(Device, DType), Error> {
    match route {
        Route::Packed(_) => Err(unavailable("path", "burn for this model", "packed")),
        Route::Burn(choice, precision) => device::open_for(choice, precision),
    }
}

fn ids<'a>(texts: &[Tokens<'a>]) -> Vec<&'a [u32]> {
    texts.iter().map(|text| text.ids).collect()
}

/// Returns the rows of a matrix `[rows, width]`.
fn rows(values: Tensor<2>) -> Result<Vec<Vec<f32>>, Error> {
    let [_, width] = values.dims();
    let values = values
        .try_into_vec_as::<f32>()
        .map_err(|error| Error::Device { reason: error.to_string() })?;
    Ok(values.chunks_exact(width).map(<[f32]>::to_vec).collect())
}

fn load_packed(
    kernel: Kernel,
    config: &BertConfig,
    weights: &dyn Weights,
) -> Result<Engine, Error> {
    let mut failure = None;
    let mut source = |name: &str| match config.values(weights, name) {
        Ok(values) => Some(values),
        Err(error) => {
            failure = Some(error);
            None
        }
    };
    let loaded = PackedBert::try_new(config.packed(), kernel, &mut source);
    match (loaded, failure) {
        (Ok(model), _) => Ok(Engine::Packed { model: Box::new(model), hidden: config.hidden }),
        (Err(_), Some(failure)) => Err(failure),
        (Err(error), None) => Err(unavailable("path", "burn for this model", &error.to_string())),
    }
}

/// Returns the states of each text, `[tokens, hidden]`.
fn packed_states<'a>(
    model: &PackedBert,
    hidden: usize,
    texts: &'a [Tokens<'_>],
    scratch: &'a mut Scratch,
) -> Result<impl Iterator<Item = &'a [f32]>, Error> {
    model
        .forward(&ids(texts), &mut scratch.workspace, &mut scratch.states)
        .map_err(|error| Error::Device { reason: error.to_string() })?;
    let mut rest = scratch.states.as_slice();
    Ok(texts.iter().map(move |text| {
        let (states, after) = rest.split_at(text.ids.len() * hidden);
        rest = after;
        states
    }))
}

/// Returns the states `[batch, tokens, hidden]`, and a mask `[batch, tokens]` that is false for
/// padding, if there is padding.
fn bert_states(
    model: &Bert,
    device: &Device,
    texts: &[Tokens<'_>],
) -> (Tensor<3>, Option<Tensor<2, Bool>>) {
    let batch = texts.len();
    let tokens = texts.iter().map(|text| text.ids.len()).max().unwrap_or(0);
    let is_padded = texts.iter().any(|text| text.ids.len() != tokens);
    let has_types = texts.iter().any(|text| text.second_type_from < text.ids.len());
    let mut ids = vec![0_i64; batch * tokens];
    let mut keep = vec![false; batch * tokens];
    let mut kinds = vec![0_i64; batch * tokens];
    for (row, text) in texts.iter().enumerate() {
        let start = row * tokens;
        for (column, &id) in text.ids.iter().enumerate() {
            ids[start + column] = i64::from(id);
            keep[start + column] = true;
            kinds[start + column] = i64::from(column >= text.second_type_from);
        }
    }
    let of_tokens =
        |values| Tensor::<2, Int>::from_data(TensorData::new(values, [batch, tokens]), device);
    let keep = is_padded
        .then(|| Tensor::<2, Bool>::from_data(TensorData::new(keep, [batch, tokens]), device));
    let kinds = has_types.then(|| of_tokens(kinds));
    let input = BertInput { ids: of_tokens(ids), keep: keep.clone(), kinds };
    let BertOutput { states } = model.forward(input);
    (states, keep)
}
