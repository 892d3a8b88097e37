//! Calls of the storage engine, with our errors.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use arrow::record_batch::RecordBatch;
use futures::{FutureExt, TryFutureExt, TryStreamExt};
use lance::Dataset;
use lance_core::utils::tokio::spawn_cpu;
use lance_table::format::Fragment;
use lancedb::datafusion::prelude::Expr;
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

/// Runs work that takes longer than a step of a task may beside the asynchronous threads. It must
/// not wait for anything.
pub(crate) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let done = spawn_cpu(move || Ok::<_, Infallible>(work())).await;
    done.unwrap_or_else(|never| match never {})
}

/// Calls `visit` with the rows of some fragments that meet a condition: the given columns and, in
/// `_rowid`, the rows' numbers. Rows come in any order.
pub(crate) async fn scan_fragments(
    table: TableKind,
    operation: Operation,
    dataset: &Dataset,
    fragments: &[u32],
    columns: &[&str],
    condition: Option<Expr>,
    mut visit: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let is_wanted = |of: &&Fragment| fragments.iter().any(|&wanted| u64::from(wanted) == of.id);
    let wanted: Vec<Fragment> = dataset.fragments().iter().filter(is_wanted).cloned().collect();
    let open = async {
        let mut scanner = dataset.scan();
        scanner.with_fragments(wanted).project(columns)?.with_row_id().scan_in_order(false);
        if let Some(condition) = condition {
            scanner.filter_expr(condition);
        }
        Ok(scanner.try_into_stream().await?)
    };
    let mut stream = run(table, operation, open).await?;
    while let Some(batch) = run(table, operation, stream.try_next().map_err(Into::into)).await? {
        visit(&batch)?;
    }
    Ok(())
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
