//! What can be wrong with a model or an input.

use crate::Kernel;

/// Why a model could not be built or a batch not be run.
///
/// The first two say that this crate cannot run the model here and that another engine should; the next two that the
/// weights are not those of the configured model; the rest that the caller's input is wrong. None is worth a retry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The kernels do not handle this shape.
    #[error(
        "`{field}` is {value}, but the packed kernels need it to be {expected}; use a general engine"
    )]
    UnsupportedShape {
        /// The configuration field at fault.
        field: &'static str,
        /// Its value.
        value: String,
        /// What the kernels need.
        expected: &'static str,
    },
    /// This processor lacks the kernel's instructions.
    #[error("kernel `{0}` is not supported by this processor; choose one with `Kernel::detect`")]
    UnsupportedKernel(Kernel),
    /// The source has no tensor of this name.
    #[error("tensor `{name}` is missing from the weights")]
    MissingTensor {
        /// Name relative to the BERT root.
        name: String,
    },
    /// The source's tensor has the wrong number of values.
    #[error("tensor `{name}` has {actual} values, but the configuration asks for {expected}")]
    TensorLength {
        /// Name relative to the BERT root.
        name: String,
        /// Number of values that the configuration implies.
        expected: usize,
        /// Number of values found.
        actual: usize,
    },
    /// A sequence has no tokens.
    #[error("sequence {sequence} is empty; leave empty texts out of the batch")]
    EmptySequence {
        /// Position in the batch, from 0.
        sequence: usize,
    },
    /// A sequence has more tokens than the model has positions.
    #[error(
        "sequence {sequence} has {length} tokens, but the model reads at most {limit}; shorten it"
    )]
    SequenceTooLong {
        /// Position in the batch, from 0.
        sequence: usize,
        /// Its length in tokens.
        length: usize,
        /// The model's number of positions.
        limit: usize,
    },
    /// A token id is not in the vocabulary.
    #[error(
        "token {token} at position {position} of sequence {sequence} is outside the vocabulary of {vocabulary}; \
         check that tokenizer and model belong together"
    )]
    UnknownToken {
        /// Position in the batch, from 0.
        sequence: usize,
        /// Position in the sequence, from 0.
        position: usize,
        /// The id.
        token: u32,
        /// The model's number of token ids.
        vocabulary: usize,
    },
}
