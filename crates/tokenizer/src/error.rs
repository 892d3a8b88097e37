//! What can be wrong with a tokenizer file.

/// Why a tokenizer could not be read. Either way the file has to be another one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not what its name says, or was cut short.
    #[error("tokenizer `{file}` is broken: expected {expected}, found {found}")]
    Broken {
        /// What the file was called by the caller.
        file: String,
        /// What it should hold.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// The file is sound, but another kind of tokenizer.
    #[error("tokenizer `{file}` is not supported: expected {expected}, found {found}")]
    Unsupported {
        /// What the file was called by the caller.
        file: String,
        /// What is supported.
        expected: String,
        /// What the file asks for.
        found: String,
    },
}

impl From<Error> for clew_core::Error {
    fn from(error: Error) -> Self {
        let (Error::Broken { file, .. } | Error::Unsupported { file, .. }) = &error;
        Self::invalid(file, error.to_string()).with_source(error)
    }
}
