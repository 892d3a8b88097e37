//! The error for a tokenizer file that cannot be used.

/// Reason why a tokenizer could not be read. In both cases the file has to be replaced.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The content of the file is no tokenizer, or is cut short.
    #[error("tokenizer `{file}` is broken: expected {expected}, found {found}")]
    Broken {
        /// Name that the caller gave to the file.
        file: String,
        /// Content that was expected.
        expected: String,
        /// Content that was found.
        found: String,
    },
    /// The file is sound but holds another kind of tokenizer.
    #[error("tokenizer `{file}` is not supported: expected {expected}, found {found}")]
    Unsupported {
        /// Name that the caller gave to the file.
        file: String,
        /// Feature that is supported.
        expected: String,
        /// Feature that the file asks for.
        found: String,
    },
}

impl From<Error> for clew_core::Error {
    fn from(error: Error) -> Self {
        let (Error::Broken { file, .. } | Error::Unsupported { file, .. }) = &error;
        Self::invalid(file, error.to_string()).with_source(error)
    }
}
