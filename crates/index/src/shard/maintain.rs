//! Maintains a shard: does the steps of a plan one by one.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::shard::ShardWriter;
use crate::shard::plan::{
    MaintenancePlan, MaintenanceReport, MaintenanceStep, ShardStatistics, plan,
};
use crate::table::kind::TableKind;
use crate::table::schema::IndexWanted;
use crate::table::vectors::VectorColumn;

impl ShardWriter {
    /// Returns how much maintenance the shard needs. Reads a few small files.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn statistics(&self) -> Result<ShardStatistics> {
        Ok(ShardStatistics {
            sources: self.sources.statistics().await?,
            chunks: self.chunks.statistics().await?,
            nodes: self.nodes.statistics().await?,
            failures: self.failures.statistics().await?,
            vector_indexes_missing: self.vector_indexes_missing().await?.len() as u64,
            idle_vectors: self.idle_vectors().await?.len() as u64,
            unswept_documents: self.catalogue.unswept().count() as u64,
            is_erasure_wanted: self.is_erasure_wanted(),
        })
    }

    /// Returns the plan for the shard as it is now.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn maintenance_plan(&self) -> Result<MaintenancePlan> {
        Ok(plan(&self.statistics().await?, &self.settings.tuning))
    }

    /// Does the steps of a plan. A step that removes files waits up to `patience` for searches that
    /// may read them, and is postponed if they go on.
    ///
    /// # Errors
    /// Returns a storage error. The steps before it were done.
    pub async fn maintain(
        &mut self,
        plan: &MaintenancePlan,
        patience: Duration,
    ) -> Result<MaintenanceReport> {
        let mut report = MaintenanceReport::default();
        for &step in &plan.steps {
            match self.take(step, patience).await {
                Ok(()) => report.done.push(step),
                Err(Error::ReadersActive) => report.postponed.push(step),
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    async fn take(&mut self, step: MaintenanceStep, patience: Duration) -> Result<()> {
        match step {
            // The next plan covers what one round leaves.
            MaintenanceStep::Sweep => self.sweep().await.map(drop),
            MaintenanceStep::Erase => self.erase(patience).await,
            MaintenanceStep::Prune(kind) => self.prune(kind, patience).await,
            MaintenanceStep::BuildIndexes(kind) => {
                self.begin_write().await?;
                self.table(kind).build_missing_indexes().await?;
                self.end_rewrite(kind).await
            }
            MaintenanceStep::BuildVectorIndex => {
                self.begin_write().await?;
                for wanted in self.vector_indexes_missing().await? {
                    self.chunks.build_index(&wanted).await?;
                }
                self.end_rewrite(TableKind::Chunks).await
            }
            MaintenanceStep::DropVectors => {
                self.begin_write().await?;
                let idle = self.idle_vectors().await?;
                self.chunks.drop_columns(&idle).await?;
                self.end_rewrite(TableKind::Chunks).await
            }
            MaintenanceStep::RefreshIndexes(kind) => {
                self.begin_write().await?;
                self.table(kind).refresh_indexes().await?;
                self.end_rewrite(kind).await
            }
            MaintenanceStep::Compact(kind) => {
                self.begin_write().await?;
                self.table(kind).compact(false).await?;
                self.end_rewrite(kind).await
            }
        }
    }

    /// Returns the indexes that vector columns lack. An index is trained on the vectors that exist
    /// when it is built. So the index for a model that the corpus moves to is built only once all
    /// chunks have vectors of that model.
    async fn vector_indexes_missing(&self) -> Result<Vec<IndexWanted>> {
        let is_filled = self.catalogue.reembedded().outdated == 0;
        let mut missing = Vec::new();
        for VectorColumn { encoder, name } in &self.settings.vectors {
            let wanted = IndexWanted::of_vectors(name.clone());
            let is_wanted = is_filled || encoder.fingerprint() == self.settings.searched;
            // The index packs dimensions by eight. Vectors of other dimensions are compared one by
            // one.
            let is_wanted = is_wanted && encoder.dimension.is_multiple_of(8);
            if is_wanted && !self.chunks.has_index(&wanted).await? {
                missing.push(wanted);
            }
        }
        Ok(missing)
    }

    /// Returns the vector columns that have not been wanted for a while.
    async fn idle_vectors(&self) -> Result<Vec<String>> {
        if self.settled_for() < self.settings.tuning.vectors_linger {
            return Ok(Vec::new());
        }
        let there = self.chunks.vectors(&self.settings.first).await?;
        let names = there.into_iter().map(|column| column.name);
        let is_wanted = |name: &String| self.settings.vectors.iter().any(|it| it.name == *name);
        Ok(names.filter(|name| !is_wanted(name)).collect())
    }

    /// Ends a write that changed how a table's rows are stored.
    async fn end_rewrite(&mut self, kind: TableKind) -> Result<()> {
        self.table(kind).sync().await?;
        self.publish().await?;
        self.end_write();
        Ok(())
    }
}
