//! Records documents that could not be indexed.

use clew_core::{DocumentId, FailureStatus, Stage};

use crate::boxed;
use crate::error::Result;
use crate::shard::ShardWriter;
use crate::table::filter;
use crate::table::rows;
use crate::values::facts::FailureFacts;
use crate::values::failure::FailedAttempt;
use crate::values::ids::refuse_duplicates;

impl ShardWriter {
    /// Records that documents could not be indexed. Ignores a failure of a version that is no
    /// longer due.
    ///
    /// # Errors
    /// Returns [`crate::Error::Invalid`] if an id occurs twice, or a storage error.
    #[boxed]
    pub async fn record_failures(&mut self, failures: Vec<FailedAttempt>) -> Result<()> {
        refuse_duplicates(failures.iter().map(|failure| &failure.document_id))?;
        self.begin_write().await?;
        let recorded: Vec<_> =
            failures.into_iter().filter_map(|failure| self.failure_facts(failure)).collect();
        if !recorded.is_empty() {
            // A crash between deletion and append leaves the document due, as it was before.
            let replaced = vec![filter::documents(recorded.iter().map(|(id, _)| id))];
            let has_row =
                |id| self.catalogue.get(id).is_some_and(|record| record.facts.failure.is_some());
            if recorded.iter().any(|(id, _)| has_row(id)) {
                self.failures.delete_any(replaced).await?;
            }
            self.failures.append(vec![rows::failures::batch(&recorded)?]).await?;
            self.failures.sync().await?;
            for (id, facts) in recorded {
                self.catalogue.change(&id, |known| known.failure = Some(facts));
            }
            self.publish().await?;
        }
        self.end_write();
        Ok(())
    }

    fn failure_facts(&self, failure: FailedAttempt) -> Option<(DocumentId, FailureFacts)> {
        let record = self.catalogue.get(&failure.document_id)?;
        let (due, recipe) = match failure.stage {
            Stage::Structuring => (record.structure_due()?, self.settings.wanted().structure?),
            Stage::Chunking | Stage::Embedding | Stage::Storing => {
                (record.chunks_due()?, self.settings.recipes.wanted)
            }
        };
        if due.version != failure.version {
            return None;
        }
        let attempts = record.attempts(self.settings.wanted()) + 1;
        let next_try = failure.next_try.filter(|_| attempts < self.settings.tuning.attempts);
        let status = FailureStatus {
            stage: failure.stage,
            attempts,
            kind: failure.kind,
            message: failure.message,
            next_try,
        };
        let version = failure.version;
        Some((failure.document_id, FailureFacts { version, recipe, status }))
    }
}
