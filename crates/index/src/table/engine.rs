//! Calls of the storage engine, with our errors.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use arrow::record_batch::RecordBatch;
use futures::{FutureExt, TryFutureExt, TryStreamExt};
use lancedb::query::{ExecutableQuery, Query};

use crate::error::{Error, Operation, Result};
use crate::table::kind::TableKind;

/// Runs an operation of the storage engine on a table. The engine may panic on damaged files; a
/// panic becomes an error of the operation.
pub(crate) async fn run<T>(
    table: TableKind,
    operation: Operation,
    work: impl Future<Output = lancedb::Result<T>>,
) -> Result<T> {
    // A panic leaves only the engine's own state half-done, which is opened anew or read again.
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => result.map_err(failed(table, operation)),
        Err(_) => Err(Error::of_table(table, operation, "the storage engine panicked".into())),
    }
}

/// Returns the conversion of the storage engine's errors about a table.
pub(crate) fn failed(
    table: TableKind,
    operation: Operation,
) -> impl FnOnce(lancedb::Error) -> Error {
    move |error| Error::of_table(table, operation, error.into())
}

/// Calls `visit` with every batch that `query` returns.
pub(crate) async fn scan(
    table: TableKind,
    query: Query,
    mut visit: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut stream = run(table, Operation::Read, query.execute()).await?;
    while let Some(batch) =
        run(table, Operation::Read, stream.try_next().map_err(Into::into)).await?
    {
        visit(&batch)?;
    }
    Ok(())
}
