//! Taking, deleting and restoring snapshots, in repeatable steps with progress reports.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clew_auth::Caller;
use clew_core::{
    Copied, Corpus, CorpusName, Error, ErrorKind, Restoration, Shard, SnapshotDeletion,
    SnapshotName, SnapshotSummary,
};
use clew_proto::convert::snapshot::{self as convert, Doomed};
use clew_proto::corpus::v1 as wire;
use clew_proto::to_status;
use clew_runtime::deadline::{of_request, within};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tonic::Request;

use super::describe::{counts_to_wire, described};
use super::handler::Corpora;
use crate::Backends;
use crate::reading::{Responder, Responses, responses};

/// Number of messages that are buffered for a client.
const EVENTS: usize = 4;
/// Number of shards that are copied at the same time.
const SHARDS_AT_ONCE: usize = 4;
/// Longest time that one step may take: some seconds, plus the time for its largest file.
const STEP_PATIENCE: Duration = Duration::from_secs(600);
/// Time for which a step is retried that fails for a reason that may pass.
const RETRY_PATIENCE: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Time limit of a call without a deadline: large corpora take hours.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(24 * 3600);

impl Corpora {
    pub(super) async fn snapshot(
        &self,
        request: Request<wire::SnapshotCorpusRequest>,
    ) -> Result<Responses<wire::SnapshotCorpusResponse>, Error> {
        use wire::snapshot_corpus_response::Event;
        let caller = Caller::of(&request)?;
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let wire::SnapshotCorpusRequest { name, snapshot } = request.into_inner();
        let (name, snapshot): (_, SnapshotName) = (name.parse()?, snapshot.parse()?);
        let corpus = self.backends.corpora.of(&caller).newest(&name, deadline).await?;
        let backends = Arc::clone(&self.backends);
        let message = |event| wire::SnapshotCorpusResponse { event: Some(event) };
        let (mut events, read) = responses(EVENTS, self.backends.config.reader_patience());
        tokio::spawn(async move {
            // A client that reads slowly gets fewer progress reports.
            let tell = |copied| {
                let progress = Event::Progress(convert::copied_to_wire(copied));
                events.send_if_room(message(progress));
            };
            let taken = take(&backends, &caller, &corpus, &snapshot, deadline, &tell);
            let taken = unless_left(&events, within(deadline, "taking the snapshot", taken)).await;
            let taken = taken.map(|snapshot| Event::Snapshot(convert::summary_to_wire(snapshot)));
            end(&mut events, taken.map(message)).await;
        });
        Ok(read)
    }

    pub(super) async fn snapshots(
        &self,
        request: Request<wire::ListSnapshotsRequest>,
    ) -> Result<wire::ListSnapshotsResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let name = request.into_inner().name.parse()?;
        let listed = self.backends.corpora.of(&caller).snapshots(&name, deadline).await?;
        let snapshots = listed.into_iter().map(convert::summary_to_wire).collect();
        Ok(wire::ListSnapshotsResponse { snapshots })
    }

    pub(super) async fn delete_snapshots(
        &self,
        request: Request<wire::DeleteSnapshotsRequest>,
    ) -> Result<wire::DeleteSnapshotsResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let is_dry_run = request.get_ref().dry_run;
        let (corpus, doomed) = convert::doomed_from_wire(request.get_ref())?;
        let listed = self.backends.corpora.of(&caller).snapshots(&corpus, deadline).await?;
        let names = match doomed {
            Doomed::Named(names) => names,
            Doomed::Expired(retention) => retention.expired(&listed, self.backends.clock.now()),
        };
        let mut snapshots = Vec::with_capacity(names.len());
        for snapshot in names {
            let description = listed.iter().find(|listed| listed.name == snapshot).cloned();
            let corpus = corpus.clone();
            let deletion = SnapshotDeletion { corpus, snapshot, is_dry_run };
            let deleted = delete(&self.backends, &caller, &deletion, deadline).await;
            snapshots.push(convert::deletion_to_wire(&deletion.snapshot, description, deleted));
        }
        Ok(wire::DeleteSnapshotsResponse { snapshots })
    }

    /// Returns the number of complete snapshots that are kept of a deleted corpus, or `None` if it
    /// cannot be found out.
    pub(super) async fn kept_snapshots(
        &self,
        caller: &Caller,
        corpus: &CorpusName,
        deadline: Instant,
    ) -> Option<u32> {
        match self.backends.corpora.of(caller).snapshots(corpus, deadline).await {
            Ok(kept) => u32::try_from(kept.len()).ok(),
            // Without a configured place there are no snapshots.
            Err(error) if error.kind() == ErrorKind::WrongState => Some(0),
            Err(error) => {
                tracing::warn!(
                    error = error.chain(),
                    "snapshots of a deleted corpus are not counted"
                );
                None
            }
        }
    }

    pub(super) async fn restore(
        &self,
        request: Request<wire::RestoreCorpusRequest>,
    ) -> Result<Responses<wire::RestoreCorpusResponse>, Error> {
        use wire::restore_corpus_response::Event;
        let caller = Caller::of(&request)?;
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let asked = convert::restoration_of_client(request.into_inner())?;
        let backends = Arc::clone(&self.backends);
        let message = |event| wire::RestoreCorpusResponse { event: Some(event) };
        let (mut events, read) = responses(EVENTS, self.backends.config.reader_patience());
        tokio::spawn(async move {
            let tell = |copied| {
                let progress = Event::Progress(convert::copied_to_wire(copied));
                events.send_if_room(message(progress));
            };
            let restored = restore(&backends, &caller, asked, deadline, &tell);
            let restored = within(deadline, "restoring the corpus", restored);
            let restored = unless_left(&events, restored).await;
            end(&mut events, restored.map(Event::Restored).map(message)).await;
        });
        Ok(read)
    }
}

/// Returns the outcome of `work`, which is cancelled when the client leaves. Finished steps remain.
async fn unless_left<T, E>(
    events: &Responder<E>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        done = work => done,
        () = events.closed() => Err(Error::deadline("telling the client, which left")),
    }
}

async fn end<T>(events: &mut Responder<T>, last: Result<T, Error>) {
    events.send(last.map_err(|error| to_status(&error))).await;
}

/// Takes a snapshot of a corpus, and reports progress.
async fn take(
    backends: &Backends,
    caller: &Caller,
    corpus: &Corpus,
    snapshot: &SnapshotName,
    deadline: Instant,
    tell: &(impl Fn(Copied) + Sync),
) -> Result<SnapshotSummary, Error> {
    let parts = Mutex::new(vec![Copied::default(); corpus.shards().len()]);
    let told = |place: usize, copied: Copied| {
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts[place] = copied;
        let mut all = Copied::default();
        parts.iter().for_each(|part| all += *part);
        tell(all);
    };
    let mut copies: Vec<BoxFuture<'_, Result<String, Error>>> = Vec::new();
    for (place, shard) in corpus.shards().iter().enumerate() {
        let told = &told;
        let copy = async move { copy(shard.as_ref(), snapshot, |part| told(place, part)).await };
        copies.push(copy.boxed());
    }
    // Buffered in order, because digests are in the order of the shards.
    let digests: Vec<String> =
        futures::stream::iter(copies).buffered(SHARDS_AT_ONCE).try_collect().await?;
    let corpora = backends.corpora.of(caller);
    corpora.finish_snapshot(corpus.settings(), snapshot, digests, deadline).await
}

/// Copies a shard until the snapshot holds all of it. Returns the copy's digest.
async fn copy(
    shard: &dyn Shard,
    snapshot: &SnapshotName,
    told: impl Fn(Copied),
) -> Result<String, Error> {
    let mut patience = Patience::default();
    loop {
        match shard.copy_to_snapshot(snapshot, Instant::now() + STEP_PATIENCE).await {
            Ok(copy) => {
                patience = Patience::default();
                told(copy.copied);
                if let Some(digest) = copy.digest {
                    return Ok(digest);
                }
            }
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// Deletes a snapshot. Returns the number of removed files.
async fn delete(
    backends: &Backends,
    caller: &Caller,
    deletion: &SnapshotDeletion,
    deadline: Instant,
) -> Result<u64, Error> {
    let (mut patience, mut files, mut is_begun) = (Patience::default(), 0, false);
    loop {
        let until = deadline.min(Instant::now() + STEP_PATIENCE);
        match backends.corpora.of(caller).delete_snapshot(deletion, until).await {
            Ok(step) => {
                patience = Patience::default();
                (files, is_begun) = (files + step.files, true);
                if step.is_done || deletion.is_dry_run {
                    return Ok(files);
                }
            }
            // The response that reported the end was lost.
            Err(error) if is_begun && error.kind() == ErrorKind::NotFound => return Ok(files),
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// Restores a corpus, and reports progress.
async fn restore(
    backends: &Backends,
    caller: &Caller,
    mut asked: Restoration,
    deadline: Instant,
    tell: &(impl Fn(Copied) + Sync),
) -> Result<wire::RestoredCorpus, Error> {
    let mut patience = Patience::default();
    loop {
        match backends.corpora.of(caller).restore(&asked, Instant::now() + STEP_PATIENCE).await {
            Ok(step) => {
                patience = Patience::default();
                asked.begun = Some(step.begun);
                tell(step.copied);
                if step.is_done {
                    let corpus = backends.corpora.of(caller).get(&asked.corpus, deadline).await?;
                    let counts = corpus.counts(deadline).await?;
                    let counts = Some(counts_to_wire(&counts));
                    let corpus = Some(described(caller, &corpus, counts));
                    return Ok(wire::RestoredCorpus { corpus, left_out: step.left_out });
                }
            }
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// Time limit for consecutive failures.
#[derive(Default)]
pub(super) struct Patience(Option<Instant>);

impl Patience {
    /// Waits a while after a failure that may pass.
    ///
    /// # Errors
    /// Returns the failure if it cannot pass, or has not passed in time.
    pub(super) async fn bear(&mut self, error: Error) -> Result<(), Error> {
        let until = *self.0.get_or_insert_with(|| Instant::now() + RETRY_PATIENCE);
        let may_pass = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::LostRace => true,
            // A step that was given up, for example by a gateway that stopped, is still running.
            ErrorKind::Exhausted => error.reason() == "RESOURCE_EXHAUSTED",
            _ => false,
        };
        if !may_pass || Instant::now() > until {
            return Err(error);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
        Ok(())
    }
}
