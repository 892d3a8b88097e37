//! Errors of calls, made of the statuses that calls end with.

use clew_core::{Error, ErrorKind};
use clew_proto::from_status;
use tonic::{Code, Status};

/// Returns the error of a call that ended with `status`. What a server of Clew said is kept. What
/// the transport said is put in words that say what to do. The status is the cause, for logs.
pub(crate) fn failed(status: Status) -> Error {
    let error = from_status(&status);
    let error = match problem(&status, &error) {
        Some(problem) => Error::new(error.kind(), error.reason().to_owned(), problem),
        None => error,
    };
    error.with_source(status)
}

/// Returns a message for a status that did not come from a server of Clew, if its own does not
/// help.
fn problem(status: &Status, error: &Error) -> Option<String> {
    if error.reason() != "TRANSPORT" {
        return None;
    }
    let mut cause = std::error::Error::source(status);
    let is_made_here = cause.is_some();
    while let Some(inner) = cause {
        // The connection could not be made anew, which says at which address and what to do.
        if let Some(unreachable) = inner.downcast_ref::<Error>() {
            return Some(unreachable.message().to_owned());
        }
        cause = inner.source();
    }
    let problem = match error.kind() {
        ErrorKind::Unavailable if is_made_here => {
            "the connection to the server broke before it answered; see that it runs, and try again"
        }
        ErrorKind::DeadlineExceeded => "the server did not answer in time; try again later",
        _ if status.code() == Code::Unimplemented => {
            "the server does not know this call; use a server of at least this program's release"
        }
        _ if status.message().is_empty() => {
            return Some(format!("the server gave no reason: {}", status.code().description()));
        }
        _ => return None,
    };
    Some(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_own_words_are_kept() {
        let absent = Error::not_found("corpus", "x");
        let error = failed(clew_proto::to_status(&absent));
        assert_eq!((error.message(), error.reason()), (absent.message(), "NOT_FOUND"));
        let refused = failed(Status::permission_denied("the proxy lets nobody in"));
        assert_eq!(refused.message(), "the proxy lets nobody in");
    }

    #[test]
    fn a_broken_connection_is_told_without_the_transports_words() {
        let broke = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let error = failed(Status::from_error(Box::new(broke)));
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "TRANSPORT"));
        assert_eq!(
            error.message(),
            "the connection to the server broke before it answered; see that it runs, and try again"
        );
        let late = failed(Status::cancelled("Timeout expired"));
        assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(late.message(), "the server did not answer in time; try again later");
    }

    #[test]
    fn a_server_that_is_gone_is_named_by_its_address() {
        let problem = "no server answers at `127.0.0.1:9`";
        let gone = Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem);
        let error = failed(Status::from_error(Box::new(gone)));
        assert_eq!((error.kind(), error.message()), (ErrorKind::Unavailable, problem));
    }

    #[test]
    fn a_status_without_words_gets_some() {
        let unknown = failed(Status::unimplemented(""));
        assert!(unknown.message().contains("does not know this call"), "{unknown}");
        let wordless = failed(Status::internal(""));
        assert!(wordless.message().starts_with("the server gave no reason"), "{wordless}");
    }
}
