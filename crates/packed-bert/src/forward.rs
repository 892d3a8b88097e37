//! The forward pass over one group of packed sequences, written once for all kernels.

use half::bf16;

use crate::Config;
use crate::Error;
use crate::aligned::Aligned;
use crate::attention::{AttentionBuffers, attend};
use crate::kernel::Instructions;
use crate::layer_norm::{LayerNorm, Normalise};
use crate::product::{AddBias, AddBiasAndActivate, AddBiasToResidual, multiply};
use crate::rows::RowsMut;
use crate::weights::{Embeddings, Linear, TensorSource, Weights};

/// Scratch memory of a forward pass. Keep it and use it again; one per thread.
///
/// It grows to the size that the largest group of sequences needs and carries no state between
/// calls. For MiniLM (384 hidden, 1536 intermediate, 512 positions) that is at most about 8 MB in
/// 32-bit floats and half as much in bfloat16.
#[derive(Debug, Default)]
pub struct Workspace {
    float32: Buffers<f32>,
    bfloat16: Buffers<bf16>,
}

/// Activations that the products read; each matrix has one row per token.
#[derive(Debug, Default)]
pub(crate) struct Buffers<E> {
    /// Normalised hidden states.
    normalised: Aligned<E>,
    /// Queries, keys and values side by side.
    fused: Aligned<E>,
    /// Output of attention.
    context: Aligned<E>,
    /// Output of the first product of the feed-forward part.
    intermediate: Aligned<E>,
    attention: AttentionBuffers<E>,
}

/// Element type that a workspace has buffers for.
pub(crate) trait Buffered: Sized {
    fn buffers(workspace: &mut Workspace) -> &mut Buffers<Self>;
}

impl Buffered for f32 {
    fn buffers(workspace: &mut Workspace) -> &mut Buffers<Self> {
        &mut workspace.float32
    }
}

impl Buffered for bf16 {
    fn buffers(workspace: &mut Workspace) -> &mut Buffers<Self> {
        &mut workspace.bfloat16
    }
}

/// Encoder with any kernel.
pub(crate) trait Encode: Send + Sync {
    /// Writes the last hidden states `[tokens, hidden]` of sequences that the caller has checked.
    /// The sequences must not be empty.
    fn encode(&self, sequences: &[&[u32]], workspace: &mut Workspace, hidden_states: &mut [f32]);
}

/// Model whose weights are packed for the kernel `I`.
pub(crate) struct Encoder<I: Instructions> {
    instructions: I,
    config: Config,
    weights: Weights<I::Element>,
}

impl<I: Instructions> Encoder<I> {
    pub(crate) fn load(
        instructions: I,
        config: &Config,
        source: TensorSource<'_>,
    ) -> Result<Self, Error> {
        Ok(Self {
            instructions,
            config: *config,
            weights: Weights::load(instructions, config, source)?,
        })
    }

    fn normalise(
        &self,
        parameters: &LayerNorm,
        rows: &mut [f32],
        rounded: &mut RowsMut<'_, I::Element>,
    ) {
        self.instructions.enter(Normalise { parameters, rows, rounded });
    }
}

impl<I: Instructions<Element: Buffered>> Encode for Encoder<I> {
    fn encode(&self, sequences: &[&[u32]], workspace: &mut Workspace, hidden_states: &mut [f32]) {
        let Config { hidden, intermediate, .. } = self.config;
        let instructions = self.instructions;
        let tokens: usize = sequences.iter().map(|sequence| sequence.len()).sum();

        let buffers = I::Element::buffers(workspace);
        let mut normalised = buffers.normalised.rows(tokens, hidden);
        let mut fused = buffers.fused.rows(tokens, 3 * hidden);
        let mut context = buffers.context.rows(tokens, hidden);
        let mut activations = buffers.intermediate.rows(tokens, intermediate);

        embed(&self.weights.embeddings, sequences, hidden_states);
        self.normalise(&self.weights.embeddings.norm, hidden_states, &mut normalised);
        for layer in &self.weights.layers {
            let Linear { panels, bias } = &layer.query_key_value;
            multiply(
                instructions,
                normalised.as_rows(),
                panels,
                AddBias { bias, output: &mut fused },
            );

            let mut first = 0;
            for sequence in sequences {
                let rows = fused.as_rows().rows(first, sequence.len());
                let context = context.block(first..first + sequence.len(), 0..hidden);
                attend(
                    instructions,
                    rows,
                    self.config.head_width(),
                    &mut buffers.attention,
                    context,
                );
                first += sequence.len();
            }

            let Linear { panels, bias } = &layer.attention_output;
            let residual = AddBiasToResidual { bias, residual: hidden_states };
            multiply(instructions, context.as_rows(), panels, residual);
            self.normalise(&layer.attention_norm, hidden_states, &mut normalised);

            let Linear { panels, bias } = &layer.intermediate;
            let activate = AddBiasAndActivate { bias, output: &mut activations };
            multiply(instructions, normalised.as_rows(), panels, activate);

            let Linear { panels, bias } = &layer.output;
            let residual = AddBiasToResidual { bias, residual: hidden_states };
            multiply(instructions, activations.as_rows(), panels, residual);
            self.normalise(&layer.output_norm, hidden_states, &mut normalised);
        }
    }
}

/// Writes the sums of word, position and token-type embeddings to `hidden_states`.
fn embed(embeddings: &Embeddings, sequences: &[&[u32]], hidden_states: &mut [f32]) {
    let hidden = embeddings.norm.gain.len();
    let mut states = hidden_states.chunks_exact_mut(hidden);
    for sequence in sequences {
        let positions = embeddings.positions.chunks_exact(hidden);
        for ((&token, position), state) in sequence.iter().zip(positions).zip(&mut states) {
            let word = &embeddings.words[token as usize * hidden..][..hidden];
            for ((state, word), position) in state.iter_mut().zip(word).zip(position) {
                *state = word + position;
            }
        }
    }
}
