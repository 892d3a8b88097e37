//! The two ways to compute the vectors of a batch.

use burn::prelude::*;
use clew_packed_bert::{Kernel, PackedBert, Workspace};

use crate::bert::{Bert, BertConfig, BertInput};
use crate::pooling::Pooling;
use crate::route::{Route, unavailable};
use crate::weights::Weights;
use crate::{EncodedText, Error, device};

/// Buffers that one thread keeps between calls.
#[derive(Default)]
pub struct Scratch {
    workspace: Workspace,
    /// Token states `[tokens, hidden]` of the last packed batch.
    states: Vec<f32>,
}

/// A loaded model, ready to run on its route.
pub(crate) enum Engine {
    Packed { model: Box<PackedBert>, hidden: usize },
    Burn { model: Box<Bert>, device: Device },
}

impl Engine {
    /// Loads `weights` for `route`.
    ///
    /// # Errors
    /// [`Error::OptionUnavailable`] for a device or number format that is not there;
    /// [`Error::Broken`] for weights that are not finite.
    pub(crate) fn load(
        route: Route,
        config: &BertConfig,
        weights: &Weights<'_>,
    ) -> Result<Self, Error> {
        match route {
            Route::Packed(kernel) => load_packed(kernel, config, weights),
            Route::Burn(choice, precision) => {
                let device = device::open(choice)?;
                let dtype = precision.dtype();
                if !device.supports_dtype(dtype) {
                    let expected = "float32 on this device";
                    return Err(unavailable("precision", expected, &precision.to_string()));
                }
                let model = Box::new(config.init(&device).load(weights, &device, dtype)?);
                Ok(Self::Burn { model, device })
            }
        }
    }

    /// The pooled vectors of `texts`, in order, of any length.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub(crate) fn run(
        &self,
        texts: &[&EncodedText],
        pooling: Pooling,
        scratch: &mut Scratch,
    ) -> Result<Vec<Vec<f32>>, Error> {
        match self {
            Self::Packed { model, hidden } => run_packed(model, *hidden, texts, pooling, scratch),
            Self::Burn { model, device } => run_burn(model, device, texts, pooling),
        }
    }
}

fn load_packed(
    kernel: Kernel,
    config: &BertConfig,
    weights: &Weights<'_>,
) -> Result<Engine, Error> {
    let mut failure = None;
    let mut source = |name: &str| match weights.values(name) {
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

fn run_packed(
    model: &PackedBert,
    hidden: usize,
    texts: &[&EncodedText],
    pooling: Pooling,
    scratch: &mut Scratch,
) -> Result<Vec<Vec<f32>>, Error> {
    let sequences: Vec<&[u32]> = texts.iter().map(|text| text.ids.as_slice()).collect();
    model
        .forward(&sequences, &mut scratch.workspace, &mut scratch.states)
        .map_err(|error| Error::Device { reason: error.to_string() })?;
    let mut rest = scratch.states.as_slice();
    let mut vectors = Vec::with_capacity(texts.len());
    for sequence in sequences {
        let (states, after) = rest.split_at(sequence.len() * hidden);
        vectors.push(pooling.pool_text(states, hidden));
        rest = after;
    }
    Ok(vectors)
}

fn run_burn(
    model: &Bert,
    device: &Device,
    texts: &[&EncodedText],
    pooling: Pooling,
) -> Result<Vec<Vec<f32>>, Error> {
    let batch = texts.len();
    let tokens = texts.iter().map(|text| text.ids.len()).max().unwrap_or(0);
    let is_padded = texts.iter().any(|text| text.ids.len() != tokens);
    let mut ids = vec![0_i64; batch * tokens];
    let mut keep = vec![false; batch * tokens];
    for (row, text) in texts.iter().enumerate() {
        let start = row * tokens;
        for (column, &id) in text.ids.iter().enumerate() {
            ids[start + column] = i64::from(id);
            keep[start + column] = true;
        }
    }
    let ids = Tensor::from_data(TensorData::new(ids, [batch, tokens]), device);
    let keep = is_padded
        .then(|| Tensor::<2, Bool>::from_data(TensorData::new(keep, [batch, tokens]), device));
    let output = model.forward(BertInput { ids, keep: keep.clone() });
    let pooled = pooling.pool_batch(output.states, keep);
    let [_, hidden] = pooled.dims();
    let values = pooled
        .try_into_vec_as::<f32>()
        .map_err(|error| Error::Device { reason: error.to_string() })?;
    Ok(values.chunks_exact(hidden).map(<[f32]>::to_vec).collect())
}
