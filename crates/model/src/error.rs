//! Errors of a model folder, its options or a computation.

use std::io;
use std::time::Duration;

use clew_core::ErrorKind;

/// Typical time until a reply ends and makes room for another.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of tensor names that a message lists; the rest are counted.
const NAMES_SHOWN: usize = 6;

/// Error of loading or running a model.
///
/// Files are named relative to the model folder, so that messages may be shown to any caller. The
/// variants about files mean "use another folder or fetch it again". [`Self::OptionUnavailable`]
/// means "choose another value". [`Self::ForeignTokens`] is a bug of the caller. Worth a retry are
/// only [`Self::Full`], later, [`Self::Device`], on another device, and [`Self::Exchange`], without
/// the other nodes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the folder is missing or cannot be read.
    #[error("model file `{file}` cannot be read: expected {expected}")]
    Unreadable {
        /// The file, relative to the folder.
        file: String,
        /// Content that was expected.
        expected: String,
        /// Error of the file system.
        #[source]
        source: io::Error,
    },
    /// A file is not what its name says, or was cut short.
    #[error("model file `{file}` is broken: expected {expected}, found {found}")]
    Broken {
        /// The file, relative to the folder.
        file: String,
        /// Content that was expected.
        expected: String,
        /// Content that was found.
        found: String,
    },
    /// A file is valid, but asks for a feature that is not implemented here.
    #[error(
        "model file `{file}` describes an unsupported model: expected {expected}, found {found}"
    )]
    Unsupported {
        /// The file, relative to the folder.
        file: String,
        /// Supported values.
        expected: String,
        /// Value in the file.
        found: String,
    },
    /// Two files contradict each other.
    #[error("model files `{file}` and `{other}` disagree: expected {expected}, found {found}")]
    Inconsistent {
        /// The file at fault, relative to the folder.
        file: String,
        /// The file it was compared with.
        other: String,
        /// Value that the other file implies.
        expected: String,
        /// Value in this file.
        found: String,
    },
    /// The tensors in the weight files are not those of the configured model.
    #[error(
        "model file `{file}` does not hold the tensors of the configured model: {}",
        describe_names(missing, unused)
    )]
    TensorNames {
        /// The file, relative to the folder.
        file: String,
        /// Tensors that the model needs and the file lacks, sorted.
        missing: Vec<String>,
        /// Tensors that the file has and the model does not know, sorted.
        unused: Vec<String>,
    },
    /// An option asks for something that this machine, build or model does not have.
    #[error("option `{option}` cannot be honoured: expected {expected}, found {found}")]
    OptionUnavailable {
        /// Name of the option, such as a field of [`crate::ModelOptions`].
        option: &'static str,
        /// Values that would work.
        expected: String,
        /// Value that was requested, or that is available.
        found: String,
    },
    /// Token ids that this model's tokenizer does not produce.
    #[error(
        "the text was not encoded by this model's tokenizer: expected {expected}, found {found}"
    )]
    ForeignTokens {
        /// Tokens that this model reads.
        expected: String,
        /// Tokens that were given.
        found: String,
    },
    /// A conversation that the model's chat template cannot render.
    #[error("the model's chat template cannot write the conversation: {reason}")]
    Template {
        /// Error of the template.
        reason: String,
    },
    /// A reply format that cannot be enforced.
    #[error("the reply cannot be given the form that is asked for: {reason}")]
    Constraint {
        /// Reason why it cannot be enforced.
        reason: String,
    },
    /// A sequence of more tokens than there is room for.
    #[error("a sequence of {tokens} tokens is too long: expected at most {most}")]
    TooLong {
        /// Number of tokens in the sequence.
        tokens: usize,
        /// Maximum number of tokens.
        most: usize,
    },
    /// A reply that does not fit into memory beside the others.
    #[error("there is no memory for a reply of {tokens} tokens beside the others, only for {left}")]
    Full {
        /// Number of tokens that the reply needs.
        tokens: usize,
        /// Number of tokens that the others leave.
        left: usize,
    },
    /// Data, options or a model that cannot be used for training.
    #[error("a model cannot be trained so: expected {expected}, found {found}")]
    Untrainable {
        /// Input that would work.
        expected: String,
        /// Input that was found.
        found: String,
    },
    /// A file of a training cannot be written.
    #[error("file `{file}` of a training cannot be written")]
    Unwritable {
        /// The file, without its folder.
        file: String,
        /// Error of the file system.
        #[source]
        source: io::Error,
    },
    /// Nodes that read a text together did not work together.
    #[error("nodes that read a text together do not agree: expected {expected}, found {found}")]
    Exchange {
        /// What the others were expected to do or to send.
        expected: String,
        /// What came instead.
        found: String,
    },
    /// The device did not return a usable result.
    #[error("the device failed to compute a batch: {reason}")]
    Device {
        /// Reason, without any text of the batch.
        reason: String,
    },
}

impl Error {
    /// Returns the kind of the error, which says what the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { .. }
            | Self::Broken { .. }
            | Self::Unsupported { .. }
            | Self::Inconsistent { .. }
            | Self::TensorNames { .. }
            | Self::OptionUnavailable { .. }
            | Self::Template { .. }
            | Self::Constraint { .. }
            | Self::Untrainable { .. }
            | Self::Unwritable { .. }
            | Self::TooLong { .. } => ErrorKind::InvalidInput,
            Self::Full { .. } => ErrorKind::Exhausted,
            Self::ForeignTokens { .. } => ErrorKind::Internal,
            Self::Exchange { .. } | Self::Device { .. } => ErrorKind::Unavailable,
        }
    }

    /// Returns the name of the input at fault, such as a file or an option, for errors of kind
    /// invalid input.
    fn field(&self) -> Option<String> {
        match self {
            Self::Unreadable { file, .. }
            | Self::Broken { file, .. }
            | Self::Unsupported { file, .. }
            | Self::Inconsistent { file, .. }
            | Self::TensorNames { file, .. } => Some(format!("model folder, {file}")),
            Self::OptionUnavailable { option, .. } => Some(format!("model.{option}")),
            Self::Template { .. } => Some("messages".to_owned()),
            Self::Constraint { .. } => Some("format".to_owned()),
            Self::TooLong { .. } => Some("max_tokens".to_owned()),
            Self::Untrainable { .. } | Self::Unwritable { .. } => Some("training".to_owned()),
            Self::Full { .. }
            | Self::ForeignTokens { .. }
            | Self::Exchange { .. }
            | Self::Device { .. } => None,
        }
    }
}

impl From<clew_tokenizer::Error> for Error {
    fn from(error: clew_tokenizer::Error) -> Self {
        match error {
            clew_tokenizer::Error::Broken { file, expected, found } => {
                Self::Broken { file, expected, found }
            }
            clew_tokenizer::Error::Unsupported { file, expected, found } => {
                Self::Unsupported { file, expected, found }
            }
        }
    }
}

impl From<Error> for clew_core::Error {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let outward = match (error.kind(), error.field()) {
            (ErrorKind::InvalidInput, Some(field)) => Self::invalid(field, message),
            (ErrorKind::Exhausted, _) => {
                Self::exhausted("the language model's memory", RETRY_AFTER)
            }
            (ErrorKind::Unavailable, _) => {
                let is_of_device = matches!(error, Error::Device { .. });
                let reason = if is_of_device { "DEVICE_FAILED" } else { "PEER_LOST" };
                Self::new(ErrorKind::Unavailable, reason, message)
            }
            _ => Self::internal(message),
        };
        outward.with_source(error)
    }
}

fn describe_names(missing: &[String], unused: &[String]) -> String {
    let mut parts = Vec::new();
    for (label, names) in [("missing", missing), ("not known to it", unused)] {
        if names.is_empty() {
            continue;
        }
        let mut part = format!("{label} {}", names[..names.len().min(NAMES_SHOWN)].join(", "));
        if names.len() > NAMES_SHOWN {
            part.push_str(&format!(" and {} more", names.len() - NAMES_SHOWN));
        }
        parts.push(part);
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_tensors_are_counted_and_not_printed() {
        let missing = (0..10).map(|index| format!("t{index}")).collect();
        let error = Error::TensorNames {
            file: "model.safetensors".to_owned(),
            missing,
            unused: vec!["extra".to_owned()],
        };
        let message = error.to_string();
        assert!(
            message.ends_with("missing t0, t1, t2, t3, t4, t5 and 4 more; not known to it extra")
        );
    }

    #[test]
    fn a_broken_file_reaches_the_caller_as_a_refused_field() {
        let error = Error::Broken {
            file: "config.json".to_owned(),
            expected: "JSON".to_owned(),
            found: "nothing".to_owned(),
        };
        let outward = clew_core::Error::from(error);
        assert_eq!(outward.kind(), ErrorKind::InvalidInput);
        assert_eq!(outward.violations()[0].field, "model folder, config.json");
    }
}
