//! Corpora whose shards run on retrievers of other nodes.
//!
//! [`routes`] finds the retriever to ask and asks another one if the shard has moved. [`shard`]
//! implements the trait `Shard` over `ShardService`, and [`RemoteCorpora`] the trait `Corpora` over
//! `CatalogueService`.

mod routes;
mod shard;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Role;
use clew_core::{
    Access, Corpora, Corpus, CorpusEntry, CorpusName, CorpusSettings, DeletionStep, Error,
    IngestRun, Limits, PartReport, Restoration, RestoreStep, RunName, RunPage, RunPart, RunPlace,
    Shard, ShardIndex, SnapshotDeletion, SnapshotName, SnapshotSummary, Unusable,
};
use clew_node::Node;
use clew_proto::convert::corpus::{corpus_to_wire, settings_from_wire, unusable_from_wire};
use clew_proto::convert::run::{
    entry_from_wire, part_from_wire, part_report_to_wire, run_from_wire,
};
use clew_proto::convert::shard::{ShardRef, ShardRefWithAccess};
use clew_proto::convert::{snapshot as convert, timestamp_to_wire};
use clew_proto::shard::v1 as wire;
use clew_proto::shard::v1::catalogue_service_client::CatalogueServiceClient;
use clew_runtime::admission::Gate;
use clew_runtime::deadline::request;
use clew_runtime::peer::Channel;
use tonic::{Request, Response, Status};

use self::routes::Routes;
use self::shard::RemoteShard;
use crate::failed::failed;

/// Service whose health status shows whether a retriever accepts work.
const SERVICE: &str = "clew.shard.v1.ShardService";
/// Maximum number of requests in flight on one retriever. Shard ownership decides where a request
/// goes, so this is only a bound and does not balance load.
const CREDITS: u32 = 4096;
/// Time for which a corpus' settings are used before they are looked up again. Two changes are
/// noticed late: a deletion, which the shards report themselves, and a switch to the other
/// embedding model, while both models' vectors are kept for longer than this.
const KNOWN_FOR: Duration = Duration::from_secs(2);

/// Time for which a retriever is waited for that is told of a change.
const TELL_PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which owners of a corpus that is being deleted are told again: they are waited for,
/// and may be others by then.
const TELL_INTERVAL: Duration = Duration::from_millis(500);

type Client = CatalogueServiceClient<Channel>;

/// Corpora of a cluster.
pub struct RemoteCorpora {
    routes: Arc<Routes>,
    accepting: Gate,
    limits: Limits,
    known: Mutex<HashMap<CorpusName, (Instant, Arc<CorpusSettings>)>>,
}

impl RemoteCorpora {
    /// Connects to the retrievers of the node's cluster. `accept_bytes` bounds the bytes of
    /// documents that this gateway holds while they wait for their shards.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn of(node: &Node, accept_bytes: u32, limits: Limits) -> Result<Self, Error> {
        let retrievers = node.pool(Some(Role::Retriever), "retrievers", SERVICE, CREDITS).await?;
        let retry_after = Duration::from_millis(200);
        let accepting = Gate::new("the gateway's queue of documents", accept_bytes, retry_after)
            .seen_as("gateway_accept", "bytes");
        let routes = Arc::new(Routes::new(retrievers, node.members()));
        Ok(Self { routes, accepting, limits, known: Mutex::default() })
    }

    /// Returns the gate in which documents wait for their shards.
    pub fn gate(&self) -> &Gate {
        &self.accepting
    }

    /// Asks any retriever by a call with one message and one answer.
    async fn unary<Q: Clone, A, F: Future<Output = Result<Response<A>, Status>>>(
        &self,
        doing: &str,
        message: Q,
        deadline: Instant,
        call: impl Fn(Client, Request<Q>) -> F,
    ) -> Result<A, Error> {
        let on_channel = |channel| {
            let request = request(message.clone(), deadline);
            // Boxed, because a client's futures are large and nested.
            let answer = Box::pin(call(Client::new(channel), request));
            async move { answer.await.map(Response::into_inner).map_err(failed) }
        };
        self.routes.on_any(deadline, doing, on_channel).await
    }

    /// Tells all retrievers that a corpus was created, changed or deleted.
    async fn tell(&self, name: &CorpusName) {
        let deadline = Instant::now() + TELL_PATIENCE;
        let notice = |channel| {
            let message = wire::NoticeCorpusRequest { name: name.to_string() };
            let request = request(message, deadline);
            // Boxed for the reason that `unary` gives.
            let mut client = Client::new(channel);
            let told = Box::pin(async move { client.notice_corpus(request).await });
            async move { told.await.map(drop).map_err(failed) }
        };
        self.routes.tell_all(deadline, "telling of the corpus", notice).await;
    }

    /// Looks up to `limit` corpora whose names come after `after`.
    async fn look_up(
        &self,
        after: &str,
        limit: usize,
        deadline: Instant,
    ) -> Result<wire::ListCorporaResponse, Error> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let message = wire::ListCorporaRequest { after: after.to_owned(), limit };
        let list = async |mut client: Client, request| client.list_corpora(request).await;
        self.unary("listing corpora", message, deadline, list).await
    }

    /// Converts a corpus of a listing. If a retriever of a newer release describes one in terms
    /// that this release does not know, only that corpus is unusable.
    fn listed(
        &self,
        corpus: clew_proto::corpus::v1::Corpus,
        access: &Access,
    ) -> Result<CorpusEntry, Error> {
        let name: CorpusName = corpus.name.parse()?;
        let settings = settings_from_wire(corpus).and_then(|settings| self.checked(settings));
        Ok(match settings {
            Ok(settings) => CorpusEntry::Usable(self.reach(settings, access)),
            Err(error) => CorpusEntry::Unusable(Unusable::new(name, &error)),
        })
    }

    fn checked(&self, settings: CorpusSettings) -> Result<Arc<CorpusSettings>, Error> {
        settings.check(&self.limits)?;
        Ok(Arc::new(settings))
    }

    /// Builds the corpus as the caller's access shows it.
    fn reach(&self, settings: Arc<CorpusSettings>, access: &Access) -> Arc<Corpus> {
        let shard = |index| {
            let shard = ShardRef {
                corpus: settings.name.clone(),
                corpus_created_at: settings.created_at,
                shard: ShardIndex(index),
            };
            Arc::new(RemoteShard {
                seen: ShardRefWithAccess { shard, access: access.clone() },
                routes: Arc::clone(&self.routes),
                accepting: self.accepting.clone(),
                limits: self.limits,
            }) as Arc<dyn Shard>
        };
        let shards = (0..settings.shards).map(shard).collect();
        Arc::new(Corpus::new(settings, shards))
    }

    fn known(&self, name: &CorpusName) -> Option<Arc<CorpusSettings>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, settings) = known.get(name)?;
        (since.elapsed() < KNOWN_FOR).then(|| Arc::clone(settings))
    }

    fn remember(&self, name: &CorpusName, settings: Option<&Arc<CorpusSettings>>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match settings {
            Some(settings) => {
                known.insert(name.clone(), (Instant::now(), Arc::clone(settings)));
            }
            None => {
                known.remove(name);
            }
        }
    }
}

#[async_trait]
impl Corpora for RemoteCorpora {
    async fn create(
        &self,
        settings: CorpusSettings,
        access: &Access,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        let settings = self.checked(settings)?;
        let corpus = corpus_to_wire(CorpusSettings::clone(&settings), None);
        let message = wire::CreateCorpusRequest { corpus: Some(corpus) };
        let create = async |mut client: Client, request| client.create_corpus(request).await;
        self.unary("making the corpus", message, deadline, create).await?;
        self.remember(&settings.name, Some(&settings));
        self.tell(&settings.name).await;
        Ok(self.reach(settings, access))
    }

    async fn get(
        &self,
        name: &CorpusName,
        access: &Access,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        if let Some(known) = self.known(name) {
            return Ok(self.reach(known, access));
        }
        let message = wire::GetCorpusRequest { name: name.to_string() };
        let get = async |mut client: Client, request| client.get_corpus(request).await;
        let found = match self.unary("looking up the corpus", message, deadline, get).await {
            Ok(found) => found.corpus,
            Err(error) => {
                self.remember(name, None);
                return Err(error);
            }
        };
        let found =
            found.ok_or_else(|| Error::internal("a retriever's response has no `corpus`"))?;
        let settings = self.checked(settings_from_wire(found)?)?;
        self.remember(name, Some(&settings));
        Ok(self.reach(settings, access))
    }

    async fn list(
        &self,
        after: &str,
        limit: usize,
        access: &Access,
        deadline: Instant,
    ) -> Result<Vec<CorpusEntry>, Error> {
        let wire::ListCorporaResponse { corpora, unusable } =
            self.look_up(after, limit, deadline).await?;
        let usable = corpora.into_iter().map(|corpus| self.listed(corpus, access));
        let unusable =
            unusable.into_iter().map(|it| Ok(CorpusEntry::Unusable(unusable_from_wire(it)?)));
        let mut listed = usable.chain(unusable).collect::<Result<Vec<CorpusEntry>, Error>>()?;
        listed.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(listed)
    }

    async fn change(
        &self,
        from: &CorpusSettings,
        to: &CorpusSettings,
        deadline: Instant,
    ) -> Result<(), Error> {
        let settings = self.checked(to.clone())?;
        let [from, to] = [from, to].map(|settings| Some(corpus_to_wire(settings.clone(), None)));
        let message = wire::ChangeCorpusRequest { from, to };
        let change = async |mut client: Client, request| client.change_corpus(request).await;
        let changed = self.unary("changing the corpus", message, deadline, change).await.map(drop);
        // After an error the current settings are not known here.
        self.remember(&settings.name, changed.is_ok().then_some(&settings));
        self.tell(&settings.name).await;
        changed
    }

    async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error> {
        let corpus = self.get(name, &Access::all(), deadline).await?;
        let documents = corpus.counts(deadline).await.map_or(0, |counts| counts.accepted);
        let message = wire::DeleteCorpusRequest { name: name.to_string() };
        let delete = async |mut client: Client, request| client.delete_corpus(request).await;
        let deleting = self.unary("deleting the corpus", message, deadline, delete);
        // The retriever waits until all owners have closed the corpus' shards.
        let telling = async {
            loop {
                tokio::time::sleep(TELL_INTERVAL).await;
                self.tell(name).await;
            }
        };
        tokio::select! {
            deleted = deleting => drop(deleted?),
            () = telling => {}
        }
        self.remember(name, None);
        self.tell(name).await;
        Ok(documents)
    }

    async fn finish_snapshot(
        &self,
        corpus: &CorpusSettings,
        snapshot: &SnapshotName,
        digests: Vec<String>,
        deadline: Instant,
    ) -> Result<SnapshotSummary, Error> {
        let message = wire::FinishSnapshotRequest {
            corpus: Some(corpus_to_wire(corpus.clone(), None)),
            snapshot: snapshot.to_string(),
            digests,
        };
        let finish = async |mut client: Client, request| client.finish_snapshot(request).await;
        let finished = self.unary("finishing the snapshot", message, deadline, finish).await?;
        convert::summary_from_wire(finished.snapshot.unwrap_or_default())
    }

    async fn snapshots(
        &self,
        corpus: &CorpusName,
        deadline: Instant,
    ) -> Result<Vec<SnapshotSummary>, Error> {
        let message = wire::ListSnapshotsRequest { name: corpus.to_string() };
        let list = async |mut client: Client, request| client.list_snapshots(request).await;
        let listed = self.unary("listing snapshots", message, deadline, list).await?;
        listed.snapshots.into_iter().map(convert::summary_from_wire).collect()
    }

    async fn delete_snapshot(
        &self,
        deletion: &SnapshotDeletion,
        deadline: Instant,
    ) -> Result<DeletionStep, Error> {
        let message = convert::snapshot_deletion_to_wire(deletion);
        let delete = async |mut client: Client, request| client.delete_snapshot(request).await;
        let step = self.unary("deleting the snapshot", message, deadline, delete).await?;
        Ok(DeletionStep { files: step.files, is_done: step.done })
    }

    async fn restore(&self, asked: &Restoration, deadline: Instant) -> Result<RestoreStep, Error> {
        let message = convert::restoration_to_wire(asked);
        let restore = async |mut client: Client, request| client.restore_corpus(request).await;
        let step = self.unary("restoring the corpus", message, deadline, restore).await?;
        let step = convert::restore_step_from_wire(step)?;
        if step.is_done {
            self.tell(&asked.corpus).await;
        }
        Ok(step)
    }

    async fn report_run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        parts: u32,
        report: &PartReport,
        deadline: Instant,
    ) -> Result<RunPart, Error> {
        let (name, run) = (corpus.to_string(), run.to_string());
        let part = Some(part_report_to_wire(report));
        let message = wire::ReportRunRequest { name, run, parts, part };
        let report = async |mut client: Client, request| client.report_run(request).await;
        let kept = self.unary("reporting the run", message, deadline, report).await?;
        part_from_wire(kept.part.unwrap_or_default())
    }

    async fn run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        deadline: Instant,
    ) -> Result<IngestRun, Error> {
        let message = wire::GetRunRequest { name: corpus.to_string(), run: run.to_string() };
        let get = async |mut client: Client, request| client.get_run(request).await;
        let found = self.unary("reading the run", message, deadline, get).await?;
        run_from_wire(found.run.unwrap_or_default())
    }

    async fn runs(
        &self,
        corpus: &CorpusName,
        after: Option<&RunPlace>,
        limit: usize,
        deadline: Instant,
    ) -> Result<RunPage, Error> {
        let message = wire::ListRunsRequest {
            name: corpus.to_string(),
            after_started_at: after.map(|after| timestamp_to_wire(after.started_at)),
            after_run: after.map(|after| after.name.to_string()).unwrap_or_default(),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
        };
        let list = async |mut client: Client, request| client.list_runs(request).await;
        let listed = self.unary("listing the runs", message, deadline, list).await?;
        let runs = listed.runs.into_iter().map(entry_from_wire).collect::<Result<_, _>>()?;
        Ok(RunPage { runs, has_more: listed.more })
    }

    async fn delete_run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        deadline: Instant,
    ) -> Result<(), Error> {
        let message = wire::DeleteRunRequest { name: corpus.to_string(), run: run.to_string() };
        let delete = async |mut client: Client, request| client.delete_run(request).await;
        self.unary("deleting the run", message, deadline, delete).await.map(drop)
    }
}
