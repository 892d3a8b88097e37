//! Encoder made from a Qwen2 decoder: its layers without the head, over whole texts and without a
//! cache.
//!
//! Zhang et al., "Jasper and Stella: distillation of SOTA embedding models", and Li et al.,
//! "Towards General Text Embeddings with Multi-stage Contrastive Learning", let every token attend
//! to the whole text. Other models leave the decoder as it is and read its last token.
//!
//! Texts of a batch are not padded; see [`crate::decoder`].

use burn::prelude::*;
use burn::tensor::DType;
use serde::Serialize;

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::decoder::attention::{HiddenKeys, Sight, attend};
use crate::decoder::config::DecoderConfig;
use crate::decoder::cores::Cores;
use crate::decoder::layers::{Layers, Loader, Piece};
use crate::pooling::Pooling;
use crate::route::Widths;

/// Prefix of parameter names in checkpoints of a decoder around the encoder.
pub(crate) const ROOT: &str = "model.";

/// Part of its text that a token attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Attention {
    /// Itself and the tokens before it, as in the decoder.
    Causal,
    /// The whole text.
    Bidirectional,
}

/// Shape of the encoder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Qwen2Config {
    pub(crate) layers: DecoderConfig,
    pub(crate) attention: Attention,
}

/// Encoder on one device.
pub(crate) struct Qwen2 {
    layers: Layers,
    attention: Attention,
}

impl Qwen2 {
    /// Returns the device that computes.
    pub(crate) fn device(&self) -> &Device {
        &self.layers.device
    }

    /// Returns the sizes of the largest tensors. Attention itself bounds how many pairs it holds.
    pub(crate) fn widths(&self) -> Widths {
        Widths { of_token: 2 * self.layers.config.intermediate, of_pair: 1 }
    }

    /// Loads the encoder that `config` describes from `checkpoint`, tensor by tensor.
    ///
    /// # Errors
    /// Returns the errors of [`Checkpoint::check`] and [`Checkpoint::read`].
    pub(crate) fn load(
        config: &Qwen2Config,
        checkpoint: &Checkpoint,
        device: &Device,
        dtype: DType,
    ) -> Result<Self, Error> {
        let is_ignored =
            |name: &str| name.ends_with("rotary_emb.inv_freq") || name.ends_with("lm_head.weight");
        checkpoint.check(&config.layers.headless_parameters(), is_ignored)?;
        // Embedding runs one batch per thread, so a product does not need several cores.
        let loader = Loader { checkpoint, device, dtype, cores: &Cores::one() };
        let layers = Layers::load(config.layers.clone(), &loader)?;
        Ok(Self { layers, attention: config.attention })
    }

    /// Returns the token states of all `texts`, one below the other, `[tokens, hidden]`. A text has
    /// at least one token. Its states do not depend on the other texts.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> Tensor<2> {
        let longest = texts.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        let positions: Vec<usize> = (0..longest).collect();
        let pieces: Vec<Piece<'_>> = texts
            .iter()
            .map(|tokens| Piece { tokens, positions: &positions[..tokens.len()] })
            .collect();
        let mut hidden: Vec<HiddenKeys> = pieces.iter().map(|_| HiddenKeys::default()).collect();
        let states = self.layers.forward(&pieces, &mut |place, heads| {
            let sight = match self.attention {
                Attention::Causal => Sight::Back { window: place.window },
                Attention::Bidirectional => Sight::All,
            };
            attend(heads, 0, sight, &mut hidden[place.piece])
        });
        self.layers.normalised(states)
    }

    /// Returns the pooled vectors of `texts`, not normalised, `[texts, hidden]` in 32-bit floats.
    pub(crate) fn pooled(&self, texts: &[&[u32]], pooling: Pooling) -> Tensor<2> {
        let states = self.forward(texts);
        let [_, hidden] = states.dims();
        let mut row = 0;
        let mut pooled = Vec::with_capacity(texts.len());
        for tokens in texts.iter().map(|text| text.len()) {
            let text = states.clone().slice([row..row + tokens, 0..hidden]);
            pooled.push(pooling.pool_batch(text.reshape([1, tokens, hidden]), None));
            row += tokens;
        }
        Tensor::cat(pooled, 0)
    }
}
