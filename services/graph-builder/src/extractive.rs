//! A graph builder without a language model, which takes its results literally from the texts.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Account, Error, Extraction, ExtractionTask, GraphBuilder, GraphBuilders, Limits, Summary,
    SummaryTask,
};
use clew_runtime::deadline::within;
use tokio::sync::{Semaphore, oneshot};

use crate::GraphBuilderConfig;

/// Graph builder that summarises and extracts by rules, on blocking threads.
///
/// The same texts always give the same results. The number of waiting calls is not bounded here:
/// the caller's admission bounds it.
#[derive(Clone, Debug)]
pub struct ExtractiveGraphBuilder {
    threads: Arc<Semaphore>,
    limits: Limits,
}

impl ExtractiveGraphBuilder {
    /// Creates a builder that reads as many texts at once as configured.
    pub fn new(config: &GraphBuilderConfig) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = match config.threads {
            0 => cores(),
            threads => threads as usize,
        };
        Self { threads: Arc::new(Semaphore::new(threads)), limits: Limits::default() }
    }

    /// Applies `read` to each task on a blocking thread. Stops between two tasks if the deadline
    /// has passed or the caller has left.
    async fn read<T: Send + 'static, R: Send + 'static>(
        &self,
        tasks: Vec<T>,
        deadline: Instant,
        read: fn(&T) -> R,
    ) -> Result<Vec<R>, Error> {
        let closed = |error| Error::internal("the threads are gone").with_source(error);
        let turn = async { Arc::clone(&self.threads).acquire_owned().await.map_err(closed) };
        let permit = within(deadline, "waiting for a thread", turn).await?;
        let (done, result) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut results = Vec::with_capacity(tasks.len());
            for task in &tasks {
                if done.is_closed() || Instant::now() >= deadline {
                    return;
                }
                results.push(read(task));
            }
            // The caller may have left in the meantime.
            drop(done.send(results));
        });
        let result = async {
            match result.await {
                Ok(results) => Ok(results),
                Err(_cut) if Instant::now() >= deadline => Err(Error::deadline("reading texts")),
                Err(_panic) => Err(Error::internal("reading a text panicked")),
            }
        };
        within(deadline, "reading texts", result).await
    }
}

/// Rules spend nothing, so all accounts share one builder, which also serves as the rehearsal.
impl GraphBuilders for ExtractiveGraphBuilder {
    fn on(&self, _account: &Account) -> Arc<dyn GraphBuilder> {
        Arc::new(self.clone())
    }

    fn rehearsal(&self) -> Arc<dyn GraphBuilder> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl GraphBuilder for ExtractiveGraphBuilder {
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        tasks.iter().try_for_each(|task| task.check(&self.limits))?;
        self.read(tasks, deadline, clew_text::summarise).await
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        tasks.iter().try_for_each(|task| task.check(&self.limits))?;
        self.read(tasks, deadline, clew_graph::extract).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clew_core::{ErrorKind, SummaryLevel};

    use super::*;

    fn builder() -> ExtractiveGraphBuilder {
        ExtractiveGraphBuilder::new(&GraphBuilderConfig {
            threads: 1,
            ..GraphBuilderConfig::default()
        })
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[tokio::test]
    async fn answers_come_in_the_order_of_the_tasks() {
        let texts = ["Ada met Bob.", "", "Carl met Dora."];
        let tasks =
            texts.map(|text| ExtractionTask { text: text.to_owned(), ..Default::default() });
        let found = builder().extract(tasks.to_vec(), soon()).await.unwrap();
        let names = |extraction: &Extraction| -> Vec<String> {
            extraction.entities.iter().map(|entity| entity.name.clone()).collect()
        };
        let names: Vec<Vec<String>> = found.iter().map(names).collect();
        assert_eq!(names, [vec!["Ada", "Bob"], vec![], vec!["Carl", "Dora"]]);
        let tasks = texts.map(|text| SummaryTask {
            level: SummaryLevel::Leaf,
            parts: vec![text.to_owned()],
            max_bytes: 100,
        });
        let summaries = builder().summarise(tasks.to_vec(), soon()).await.unwrap();
        let said: Vec<&str> = summaries.iter().map(|summary| summary.text.as_str()).collect();
        assert_eq!(said, texts);
    }

    #[tokio::test]
    async fn time_that_is_up_ends_a_call_and_frees_its_thread() {
        let builder = builder();
        let tasks = vec![ExtractionTask::default(); 3];
        let late = builder.extract(tasks.clone(), Instant::now()).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(builder.extract(tasks, soon()).await.unwrap().len(), 3);
    }
}
