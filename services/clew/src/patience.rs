//! Patience with a server that is away for a while.

use std::time::Duration;

use clew_core::Error;

/// Number of retries of a request to a server that is away, and the pause between them.
const INTERRUPTIONS: usize = 60;
const INTERRUPTION: Duration = Duration::from_millis(500);

/// Retries a request until the server answers, within bounds, to wait for a server that restarts.
pub async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..INTERRUPTIONS {
        match ask().await {
            Err(error) if error.is_retryable() => {
                tracing::info!(error = error.chain(), "asked again");
                tokio::time::sleep(INTERRUPTION).await;
            }
            answered => return answered,
        }
    }
    ask().await
}
