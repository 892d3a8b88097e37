//! Measurements of new, replaced and forgotten documents. They leave the shard with the documents
//! that it had.

use std::ops::Range;

use anyhow::ensure;
use clew_core::DocumentId;

use crate::command::bench::growth::documents::id;
use crate::command::bench::growth::measured::Measured;
use crate::command::bench::growth::report::{
    FORGET_OLD, FORGET_SPREAD, SEARCH_BESIDE_OLD, SEARCH_BESIDE_SPREAD,
};

/// Number of documents in the measurements of many.
const MANY: u64 = 100;
/// Least number of documents of a shard that is measured: each kind of work takes others of them.
pub const FEWEST: u64 = 5 * MANY;
/// Number of the first document that is measured and forgotten again.
const MEASURED: u64 = 1 << 40;

impl Measured {
    /// Measures the ways of new documents, and forgets them again.
    pub async fn measure_new_documents(&mut self) -> anyhow::Result<()> {
        let numbers = |numbers: Range<u64>| numbers.map(|number| MEASURED + number);
        let one = self.some(numbers(0..1), 0)?;
        let cost = self.accept(one).await?;
        self.add("accept 1 document", cost);
        let cost = self.derive_all().await?;
        self.add("commit the chunks of 1 document", cost);
        let another = self.some(numbers(1..2), 0)?;
        self.accept(another).await?;
        self.derive_all().await?;
        let many = self.some(numbers(2..2 + MANY), 0)?;
        let cost = self.accept(many).await?;
        self.add("accept 100 documents", cost);
        let cost = self.derive_all().await?;
        self.add("commit the chunks of 100 documents", cost);
        let ids = |range| -> Vec<DocumentId> { numbers(range).map(id).collect() };
        let one = ids(0..1);
        let (forgotten, cost) = Box::pin(self.meter.measure_writer(self.shard.forget(&one))).await;
        forgotten?;
        self.add("forget 1 document, until nobody finds it", cost);
        for (work, ids) in [
            ("forget 1 new document, until it is erased", ids(1..2)),
            ("forget 100 new documents, until they are erased", ids(2..2 + MANY)),
        ] {
            let cost = self.forget(&ids).await?;
            self.add(work, cost);
        }
        Ok(())
    }

    /// Measures replacing documents that are in merged fragments. They get their old texts again
    /// afterwards.
    pub async fn measure_replacing(&mut self) -> anyhow::Result<()> {
        let first = self.filled / 5;
        let others = self.some(first..first + MANY, 1)?;
        let accepted = self.accept(others).await?;
        let derived = self.derive_all().await?;
        self.add("replace 100 old documents", accepted + derived);
        self.restore((first..first + MANY).collect()).await
    }

    /// Measures forgetting documents that are in merged fragments, beside searches. They are
    /// accepted anew afterwards.
    pub async fn measure_forgetting_old(&mut self) -> anyhow::Result<()> {
        let (filled, third, half) = (self.filled, self.filled / 3, self.filled / 2);
        for (work, numbers, beside) in [
            ("forget 1 old document, until it is erased", vec![third], None),
            (FORGET_OLD, (half..half + MANY).collect(), Some(SEARCH_BESIDE_OLD)),
            (
                FORGET_SPREAD,
                (0..MANY).map(|number| number * filled / MANY).collect(),
                Some(SEARCH_BESIDE_SPREAD),
            ),
        ] {
            let ids: Vec<DocumentId> = numbers.iter().copied().map(id).collect();
            let searches = beside.map(|_| self.search_beside()).transpose()?;
            let cost = self.forget(&ids).await?;
            let searched = match searches {
                Some(searches) => searches.end().await?,
                None => None,
            };
            self.add(work, cost);
            if let Some((beside, searched)) = beside.zip(searched) {
                self.add(beside, searched);
            }
            self.restore(numbers).await?;
        }
        Ok(())
    }

    /// Measures settings that change nothing.
    pub async fn measure_settling(&mut self) -> anyhow::Result<()> {
        let same = self.shard.settings().clone();
        let settled = self.meter.measure_writer(self.shard.settle(same));
        let (settled, cost) = Box::pin(settled).await;
        settled?;
        self.add("settle settings that want nothing else", cost);
        Ok(())
    }

    /// Lets the shard have these documents as it was filled with them.
    async fn restore(&mut self, numbers: Vec<u64>) -> anyhow::Result<()> {
        let documents = self.some(numbers, 0)?;
        self.accept(documents).await?;
        self.derive_all().await?;
        self.maintain_to_the_end().await?;
        let found = self.reader().counts().chunks;
        ensure!(found == self.chunks, "expected {} chunks again, got {found}", self.chunks);
        Ok(())
    }
}
