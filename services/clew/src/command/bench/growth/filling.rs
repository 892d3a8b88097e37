//! Filling a shard.

use anyhow::ensure;

use crate::command::bench::growth::cost::WorkCost;
use crate::command::bench::growth::documents::cut;
use crate::command::bench::growth::measured::{BATCH, BATCH_BYTES, Measured};
use crate::command::bench::growth::writing::FEWEST;
use crate::progress::Progress;

/// Amount of new chunks whose maintenance is reported.
const NEW_CHUNKS: u64 = 10_000;

impl Measured {
    /// Fills the shard to `size` chunks, or a few more, as documents have several. All new
    /// documents wait before the first of them is cut, as when a corpus is ingested faster than it
    /// is embedded. Measures recall on the way, at the sizes of `stops`.
    pub async fn grow(&mut self, size: u64, stops: &[u64]) -> anyhow::Result<()> {
        let (before, mut wanted) = (self.chunks, self.chunks);
        let mut maintained = WorkCost::default();
        let mut progress = Progress::new("accepted");
        while wanted < size {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while wanted < size && batch.len() < BATCH && bytes < BATCH_BYTES {
                let document = self.supply.document(self.filled, 0)?;
                self.filled += 1;
                wanted += cut(&document).len() as u64;
                bytes += document.text.len() as u64;
                batch.push(document);
            }
            self.accept(batch).await?;
            maintained += self.maintain().await?;
            progress.set(wanted, size, "chunks");
        }
        progress.finish();
        ensure!(
            self.filled >= FEWEST,
            "expected at least {FEWEST} documents, got {} of {wanted} chunks; choose larger sizes \
             or smaller documents",
            self.filled,
        );
        let waiting = self.reader().lag().waiting;
        let accepted = self.reader().counts().accepted;
        ensure!(waiting > 0 && accepted == self.filled, "expected all new documents to wait");
        let listed = self.list_due();
        let mut stops = stops.iter().filter(|stop| (before + 1..wanted).contains(stop)).peekable();
        let mut progress = Progress::new("indexed");
        let mut chunks = before;
        loop {
            let derived = self.derive_due().await?;
            if derived.is_empty() {
                break;
            }
            chunks += self.shard.commit_derived(derived).await?.chunks;
            maintained += self.maintain().await?;
            let is_passed = stops.next_if(|stop| **stop <= chunks).is_some();
            if is_passed && chunks < wanted {
                self.measure_recall(chunks).await?;
            }
            progress.set(chunks, wanted, "chunks");
        }
        progress.finish();
        maintained += self.maintain_to_the_end().await?;
        self.chunks = self.reader().counts().chunks;
        ensure!(self.chunks == wanted, "expected {wanted} chunks, got {}", self.chunks);
        self.add(
            "maintenance for 10,000 new chunks, on average since the last size",
            maintained * (NEW_CHUNKS as f64 / (wanted - before) as f64),
        );
        self.add("list due work while all new documents wait", listed);
        Ok(())
    }
}
