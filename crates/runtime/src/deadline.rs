//! Every wait is bounded by the deadline of the request it serves.

use std::future::Future;
use std::time::Instant;

use clew_core::Error;
use ractor::rpc::CallResult;
use ractor::{ActorRef, Message, RpcReplyPort};

/// The result of `future`, or an error that says what took too long.
///
/// # Errors
/// That of `future`; [`clew_core::ErrorKind::DeadlineExceeded`].
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
/// The actor's own; [`clew_core::ErrorKind::DeadlineExceeded`];
/// [`clew_core::ErrorKind::Unavailable`] if the actor is gone: its supervisor is restarting it.
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

/// The error for callers of an actor that is being restarted.
pub fn restarting(doing: &str) -> Error {
    Error::new(
        clew_core::ErrorKind::Unavailable,
        "SHARD_RESTARTING",
        format!("the shard is restarting while {doing}; retry"),
    )
}
