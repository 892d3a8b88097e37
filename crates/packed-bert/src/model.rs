//! The model that callers use: it checks their input and runs it group by group.

use std::fmt;

use crate::forward::{Encode, Workspace};
use crate::weights::TensorSource;
use crate::{Config, Error, Kernel};

/// Maximum number of tokens of a group of several sequences. A group is large enough to use each
/// weight panel many times while it is in the cache, and small enough that the activations stay
/// there too. The limit also bounds the workspace.
const GROUP_TOKENS: usize = 384;

/// BERT encoder packed for one kernel. Immutable: share it among threads and give each its own
/// [`Workspace`].
pub struct PackedBert {
    config: Config,
    kernel: Kernel,
    encoder: Box<dyn Encode>,
}

impl fmt::Debug for PackedBert {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, kernel, encoder: _ } = self;
        formatter
            .debug_struct("PackedBert")
            .field("config", config)
            .field("kernel", kernel)
            .finish_non_exhaustive()
    }
}

impl PackedBert {
    /// Reads the tensors that [`tensor_names`](crate::tensor_names) lists from `source`, each once,
    /// and packs them.
    ///
    /// `source` returns a tensor's values in row-major order, matrices as `[outputs, inputs]`.
    /// Besides the model, at most one layer's tensors are held at a time.
    ///
    /// # Errors
    ///
    /// Returns [`Error::UnsupportedShape`] or [`Error::UnsupportedKernel`] before anything is read,
    /// [`Error::MissingTensor`] if `source` returns `None`, and [`Error::TensorLength`] if a tensor
    /// does not fit `config`.
    pub fn try_new(
        config: Config,
        kernel: Kernel,
        source: &mut dyn FnMut(&str) -> Option<Vec<f32>>,
    ) -> Result<Self, Error> {
        config.check()?;
        Ok(Self { config, kernel, encoder: load(&config, kernel, source)? })
    }

    /// Returns the model's shape.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the kernel that the weights are packed for.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Computes the last hidden states of `sequences` and replaces the contents of `hidden_states`
    /// with them: `[tokens, hidden]` row by row without padding, starting with the tokens of the
    /// first sequence.
    ///
    /// A sequence's states depend, bit for bit, on that sequence alone. The batch may be of any
    /// size, as it is processed in groups. Sorting sequences by length is not necessary.
    ///
    /// # Errors
    ///
    /// Returns [`Error::EmptySequence`], [`Error::SequenceTooLong`] or [`Error::UnknownToken`] for
    /// the first invalid sequence. Nothing is computed then, and `hidden_states` stays unchanged.
    pub fn forward(
        &self,
        sequences: &[&[u32]],
        workspace: &mut Workspace,
        hidden_states: &mut Vec<f32>,
    ) -> Result<(), Error> {
        for (index, sequence) in sequences.iter().enumerate() {
            self.check(index, sequence)?;
        }
        let values: usize =
            sequences.iter().map(|sequence| sequence.len() * self.config.hidden).sum();
        hidden_states.clear();
        hidden_states.resize(values, 0.0);

        let (mut sequences, mut states) = (sequences, hidden_states.as_mut_slice());
        while !sequences.is_empty() {
            let (count, tokens) = leading_group(sequences);
            let (group, later_sequences) = sequences.split_at(count);
            let (group_states, later_states) = states.split_at_mut(tokens * self.config.hidden);
            self.encoder.encode(group, workspace, group_states);
            (sequences, states) = (later_sequences, later_states);
        }
        Ok(())
    }

    fn check(&self, index: usize, sequence: &[u32]) -> Result<(), Error> {
        let Config { vocabulary, positions, .. } = self.config;
        if sequence.is_empty() {
            return Err(Error::EmptySequence { sequence: index });
        }
        if sequence.len() > positions {
            return Err(Error::SequenceTooLong {
                sequence: index,
                length: sequence.len(),
                limit: positions,
            });
        }
        match sequence.iter().position(|&token| token as usize >= vocabulary) {
            None => Ok(()),
            Some(position) => Err(Error::UnknownToken {
                sequence: index,
                position,
                token: sequence[position],
                vocabulary,
            }),
        }
    }
}

/// Returns how many of the first sequences to run together, at least one, and their number of
/// tokens.
fn leading_group(sequences: &[&[u32]]) -> (usize, usize) {
    let mut tokens = 0;
    for (count, sequence) in sequences.iter().enumerate() {
        if count > 0 && tokens + sequence.len() > GROUP_TOKENS {
            return (count, tokens);
        }
        tokens += sequence.len();
    }
    (sequences.len(), tokens)
}

#[cfg(target_arch = "x86_64")]
fn load(
    config: &Config,
    kernel: Kernel,
    source: TensorSource<'_>,
) -> Result<Box<dyn Encode>, Error> {
    use crate::forward::Encoder;
    use crate::kernel::{amx_bf16::AmxBf16, avx2::Avx2, avx512::Avx512, avx512_bf16::Avx512Bf16};

    let unsupported = Error::UnsupportedKernel(kernel);
    Ok(match kernel {
        Kernel::AmxBf16 => {
            Box::new(Encoder::load(AmxBf16::detect().ok_or(unsupported)?, config, source)?)
        }
        Kernel::Avx512Bf16 => {
            Box::new(Encoder::load(Avx512Bf16::detect().ok_or(unsupported)?, config, source)?)
        }
        Kernel::Avx512 => {
            Box::new(Encoder::load(Avx512::detect().ok_or(unsupported)?, config, source)?)
        }
        Kernel::Avx2 => {
            Box::new(Encoder::load(Avx2::detect().ok_or(unsupported)?, config, source)?)
        }
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn load(_: &Config, kernel: Kernel, _: TensorSource<'_>) -> Result<Box<dyn Encode>, Error> {
    Err(Error::UnsupportedKernel(kernel))
}
