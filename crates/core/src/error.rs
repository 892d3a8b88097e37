//! The error type of all crates, with kinds sorted by what the caller can do.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// Kind of failure. It decides the gRPC code and whether a retry can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong and stays wrong.
    InvalidInput,
    /// The thing that was named does not exist.
    NotFound,
    /// The thing to be created already exists.
    AlreadyExists,
    /// The caller has not said, or not proved, who they are.
    Unauthenticated,
    /// The caller may not do this.
    Denied,
    /// The request is right but the state does not allow it yet.
    WrongState,
    /// Another writer came first; read again and retry.
    LostRace,
    /// A queue, permit or quota is used up; retry after the delay.
    Exhausted,
    /// A peer or the store cannot be reached; retry with back-off.
    Unavailable,
    /// The deadline passed.
    DeadlineExceeded,
    /// Stored data cannot be read back.
    DataLoss,
    /// A bug.
    Internal,
}

impl ErrorKind {
    /// Returns whether the same call may succeed later without any change by the caller.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::LostRace | Self::Exhausted | Self::Unavailable | Self::DeadlineExceeded => true,
            Self::InvalidInput
            | Self::NotFound
            | Self::AlreadyExists
            | Self::Unauthenticated
            | Self::Denied
            | Self::WrongState
            | Self::DataLoss
            | Self::Internal => false,
        }
    }
}

/// Reason of the error for a piece of work whose budget is spent.
pub const BUDGET_SPENT: &str = "BUDGET_SPENT";

/// Refused field with the reason for the refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, such as `document.text`.
    pub field: String,
    /// Description of what was expected and what came.
    pub description: String,
}

/// Collector of violations, so that a request is refused with all of them at once.
#[derive(Debug, Default)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Adds a violation.
    pub fn push(&mut self, field: impl Into<String>, description: impl Into<String>) {
        self.0.push(Violation { field: field.into(), description: description.into() });
    }

    /// Returns the value of `result`, or adds its violations and returns `None`.
    pub fn take<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if error.violations.is_empty() {
                    self.push("request", error.message);
                } else {
                    self.0.extend(error.violations);
                }
                None
            }
        }
    }

    /// Fails if any violation was added.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] with every violation.
    pub fn into_result(self) -> Result<(), Error> {
        match self.0.first() {
            None => Ok(()),
            Some(first) => {
                let message = format!("`{}`: {}", first.field, first.description);
                let mut error = Error::new(ErrorKind::InvalidInput, "INVALID_INPUT", message);
                error.violations = self.0;
                Err(error)
            }
        }
    }
}

/// Error with a kind to branch on, a stable reason and a message for people.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    reason: Cow<'static, str>,
    message: String,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error of `kind` with a stable upper-case `reason` and a message that states what
    /// was expected, what came and what to do. The message is shown to callers: no paths, no user
    /// text.
    pub fn new(
        kind: ErrorKind,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            reason: reason.into(),
            message: message.into(),
            violations: Vec::new(),
            retry_after: None,
            source: None,
        }
    }

    /// Creates an error for one refused field.
    pub fn invalid(field: impl Into<String>, description: impl Into<String>) -> Self {
        let (field, description) = (field.into(), description.into());
        let mut error = Self::new(
            ErrorKind::InvalidInput,
            "INVALID_INPUT",
            format!("`{field}`: {description}"),
        );
        error.violations.push(Violation { field, description });
        error
    }

    /// Creates an error for something named that does not exist: `Error::not_found("corpus",
    /// "notes")`.
    pub fn not_found(what: &str, name: impl fmt::Display) -> Self {
        Self::new(ErrorKind::NotFound, "NOT_FOUND", format!("{what} `{name}` does not exist"))
    }

    /// Creates an error for a full queue; the caller may retry after `retry_after`.
    pub fn exhausted(what: &str, retry_after: Duration) -> Self {
        let message = format!("{what} is full; retry in {} ms", retry_after.as_millis());
        Self::new(ErrorKind::Exhausted, "RESOURCE_EXHAUSTED", message).with_retry_after(retry_after)
    }

    /// Creates an error for a deadline that passed while `what` was done.
    pub fn deadline(what: &str) -> Self {
        let message = format!("time ran out while {what}");
        Self::new(ErrorKind::DeadlineExceeded, "DEADLINE_EXCEEDED", message)
    }

    /// Creates an error for a bug: an invariant that does not hold.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, "INTERNAL", message)
    }

    /// Returns a copy for another caller, without the cause.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            kind: self.kind,
            reason: self.reason.clone(),
            message: self.message.clone(),
            violations: self.violations.clone(),
            retry_after: self.retry_after,
            source: None,
        }
    }

    /// Sets the delay after which a retry makes sense.
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Keeps the cause for the operator's log. It is never shown to callers.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind, which says what the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the stable upper-case reason for programs to branch on.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the message for callers.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the refused fields of an [`ErrorKind::InvalidInput`].
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns the paths of the refused fields.
    pub fn fields_at_fault(&self) -> Vec<&str> {
        self.violations.iter().map(|violation| violation.field.as_str()).collect()
    }

    /// Returns the delay after which a retry makes sense.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns whether the same call may succeed later. A spent budget stays spent.
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable() && self.reason != BUDGET_SPENT
    }

    /// Returns the whole chain of causes on one line, for logs.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_reported_all_at_once() {
        let mut violations = Violations::default();
        assert!(
            violations.take::<()>(Err(Error::invalid("k", "expected 1..=1000, got 0"))).is_none()
        );
        violations.push("text", "must not be empty");
        let error = violations.into_result().unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["k", "text"]);
    }

    #[test]
    fn the_cause_is_in_the_chain_but_not_in_the_message() {
        let error = Error::internal("cannot read table").with_source("secret path");
        assert_eq!(error.to_string(), "cannot read table");
        assert_eq!(error.chain(), "cannot read table: secret path");
    }
}
