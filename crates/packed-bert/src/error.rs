//! The error of this crate.

use crate::Kernel;

/// Reason why a model could not be built or a batch could not be run.
///
/// The first two mean that this crate cannot run the model here: use another engine. The next two
/// mean that the weights are not those of the configured model, and the rest that the caller's
/// input is wrong. Retrying helps with none of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The kernels do not support this shape.
    #[error(
        "`{field}` is {value}, but the packed kernels need it to be {expected}; use a general engine"
    )]
    UnsupportedShape {
        /// The configuration field at fault.
        field: &'static str,
        /// Value of the field.
        value: String,
        /// Value that the kernels need.
        expected: &'static str,
    },
    /// This processor lacks the kernel's instructions.
    #[error("kernel `{0}` is not supported by this processor; choose one with `Kernel::detect`")]
    UnsupportedKernel(Kernel),
    /// The source has no tensor with this name.
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
        /// Length of the sequence in tokens.
        length: usize,
        /// Number of positions of the model.
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
        /// Token id.
        token: u32,
        /// Number of token ids of the model.
        vocabulary: usize,
    },
}
