//! Deadlines: every wait is bounded by the deadline of the request that it serves.

use std::future::Future;
use std::time::{Duration, Instant};

use clew_core::Error;
use ractor::rpc::CallResult;
use ractor::{ActorRef, Message, RpcReplyPort};

/// Returns the result of `future`, or an error that says what took too long.
///
/// # Errors
/// Returns the error of `future`, or [`clew_core::ErrorKind::DeadlineExceeded`] if it does not end
/// by the deadline.
pub async fn within<T>(
    deadline: Instant,
    doing: &str,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout_at(deadline.into(), future).await {
        Ok(result) => result,
        Err(_elapsed) => Err(Error::deadline(doing)),
    }
}

/// Asks an actor and waits for its reply until `deadline`.
///
/// # Errors
/// Returns the actor's own error, [`clew_core::ErrorKind::DeadlineExceeded`] if no reply comes in
/// time, and [`clew_core::ErrorKind::Unavailable`] if the actor is gone, because its supervisor
/// restarts it.
pub async fn ask<M: Message, T: Send + 'static>(
    actor: &ActorRef<M>,
    deadline: Instant,
    doing: &str,
    message: impl FnOnce(RpcReplyPort<Result<T, Error>>) -> M,
) -> Result<T, Error> {
    let patience = deadline.saturating_duration_since(Instant::now());
    match actor.call(message, Some(patience)).await {
        Ok(CallResult::Success(result)) => result,
        Ok(CallResult::Timeout) => Err(Error::deadline(doing)),
        Ok(CallResult::SenderError) | Err(_) => Err(restarting(doing)),
    }
}

/// Returns the error for callers of an actor that is being restarted.
pub fn restarting(doing: &str) -> Error {
    Error::new(
        clew_core::ErrorKind::Unavailable,
        "SHARD_RESTARTING",
        format!("the shard is restarting while {doing}; retry"),
    )
}

/// Returns the deadline of a request: the one that its caller sent (`grpc-timeout`), less a margin
/// for the way back, or else `default` from now on.
pub fn of_request<T>(request: &tonic::Request<T>, default: Duration) -> Instant {
    let said = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
    let patience = said
        .and_then(parse_grpc_timeout)
        .map_or(default, |said| said - (said / 20).min(Duration::from_millis(50)));
    Instant::now() + patience.min(MAX_PATIENCE)
}

/// Creates a request that carries its deadline, as [`of_request`] reads it.
pub fn request<T>(message: T, deadline: Instant) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    request
}

/// Longest deadline that is honoured. A request holds its permits no longer.
const MAX_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Parses the header `grpc-timeout`: up to eight digits and a unit. Returns `None` for anything
/// else.
pub fn parse_grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount * 3600)),
        "M" => Some(Duration::from_secs(amount * 60)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_parse() {
        assert_eq!(parse_grpc_timeout("2S"), Some(Duration::from_secs(2)));
        assert_eq!(parse_grpc_timeout("150m"), Some(Duration::from_millis(150)));
        for bad in ["", "S", "12", "123456789S", "-1S", "1é"] {
            assert_eq!(parse_grpc_timeout(bad), None, "{bad}");
        }
    }
}
