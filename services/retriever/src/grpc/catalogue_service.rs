//! `CatalogueService`: the corpora in shared storage, for gateways.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{CorpusName, Error, Limits, RunName, RunPlace, Unusable};
use clew_proto::convert::corpus::{corpus_to_wire, settings_from_wire, unusable_to_wire};
use clew_proto::convert::run::{
    RunReport, entry_to_wire, part_to_wire, report_from_wire, run_to_wire,
};
use clew_proto::convert::{snapshot as convert, timestamp_from_wire};
use clew_proto::ingest::v1 as ingest;
use clew_proto::respond;
use clew_proto::shard::v1 as wire;
use clew_proto::shard::v1::catalogue_service_server::CatalogueService;
use clew_runtime::deadline::{of_request, within};
use tonic::{Request, Response, Status};

use crate::cluster::ClusterShards;
use crate::{runs, snapshots};

/// Time limit of a call without a deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// Handler of `CatalogueService`.
pub(crate) struct CatalogueRpc {
    pub retriever: Arc<ClusterShards>,
}

/// Awaits an answer of the storage, within the deadline.
async fn ask<T>(
    deadline: Instant,
    doing: &str,
    answer: impl Future<Output = clew_index::Result<T>>,
) -> Result<T, Error> {
    within(deadline, doing, async { Ok(answer.await?) }).await
}

impl CatalogueRpc {
    async fn create(
        &self,
        request: Request<wire::CreateCorpusRequest>,
    ) -> Result<wire::CreateCorpusResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let settings = settings_from_wire(request.into_inner().corpus.unwrap_or_default())?;
        settings.check(&Limits::default())?;
        ask(deadline, "making the corpus", self.retriever.registry.create(&settings)).await?;
        Ok(wire::CreateCorpusResponse {})
    }

    async fn get(
        &self,
        request: Request<wire::GetCorpusRequest>,
    ) -> Result<wire::GetCorpusResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let name: CorpusName = request.into_inner().name.parse()?;
        let settings =
            ask(deadline, "reading the corpus", self.retriever.registry.get(&name)).await?;
        Ok(wire::GetCorpusResponse { corpus: Some(corpus_to_wire(settings, None)) })
    }

    async fn list(
        &self,
        request: Request<wire::ListCorporaRequest>,
    ) -> Result<wire::ListCorporaResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let request = request.into_inner();
        let listed = ask(deadline, "listing corpora", self.retriever.registry.list()).await?;
        let following = listed.into_iter().filter(|(name, _)| *name.as_str() > *request.after);
        let mut response = wire::ListCorporaResponse::default();
        for (name, settings) in following.take(request.limit as usize) {
            match settings {
                Ok(settings) => response.corpora.push(corpus_to_wire(settings, None)),
                Err(error) => {
                    let unusable = Unusable::new(name, &error.into());
                    response.unusable.push(unusable_to_wire(unusable));
                }
            }
        }
        Ok(response)
    }

    async fn delete(
        &self,
        request: Request<wire::DeleteCorpusRequest>,
    ) -> Result<wire::DeleteCorpusResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let name: CorpusName = request.into_inner().name.parse()?;
        self.retriever.delete(&name, deadline).await?;
        Ok(wire::DeleteCorpusResponse {})
    }

    async fn change(
        &self,
        request: Request<wire::ChangeCorpusRequest>,
    ) -> Result<wire::ChangeCorpusResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let wire::ChangeCorpusRequest { from, to } = request.into_inner();
        let from = settings_from_wire(from.unwrap_or_default())?;
        let to = settings_from_wire(to.unwrap_or_default())?;
        to.check(&Limits::default())?;
        self.retriever.change(&from, &to, deadline).await?;
        Ok(wire::ChangeCorpusResponse {})
    }

    async fn notice(
        &self,
        request: Request<wire::NoticeCorpusRequest>,
    ) -> Result<wire::NoticeCorpusResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let name: CorpusName = request.into_inner().name.parse()?;
        self.retriever.notice(&name, deadline).await?;
        Ok(wire::NoticeCorpusResponse {})
    }

    async fn finish_snapshot(
        &self,
        request: Request<wire::FinishSnapshotRequest>,
    ) -> Result<wire::FinishSnapshotResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let request = request.into_inner();
        let settings = settings_from_wire(request.corpus.unwrap_or_default())?;
        let (name, digests) = (request.snapshot.parse()?, request.digests);
        let ClusterShards { registry, sharing, .. } = &*self.retriever;
        let finishing =
            snapshots::finish(registry, &sharing.seams, &settings, &name, &digests, deadline);
        let snapshot = finishing.await?;
        let snapshot = Some(convert::summary_to_wire(snapshot));
        Ok(wire::FinishSnapshotResponse { snapshot })
    }

    async fn list_snapshots(
        &self,
        request: Request<wire::ListSnapshotsRequest>,
    ) -> Result<wire::ListSnapshotsResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let name: CorpusName = request.into_inner().name.parse()?;
        let listed = snapshots::list(&self.retriever.sharing.seams, &name, deadline).await?;
        let snapshots = listed.into_iter().map(convert::summary_to_wire).collect();
        Ok(wire::ListSnapshotsResponse { snapshots })
    }

    async fn delete_snapshot(
        &self,
        request: Request<wire::DeleteSnapshotRequest>,
    ) -> Result<wire::DeleteSnapshotResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let deletion = convert::snapshot_deletion_from_wire(request.get_ref())?;
        let step = snapshots::delete(&self.retriever.sharing.seams, &deletion, deadline).await?;
        Ok(wire::DeleteSnapshotResponse { files: step.files, done: step.is_done })
    }

    async fn restore(
        &self,
        request: Request<wire::RestoreCorpusRequest>,
    ) -> Result<wire::RestoreCorpusResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let asked = convert::restoration_from_wire(request.into_inner())?;
        let ClusterShards { registry, sharing, restoring, .. } = &*self.retriever;
        let _one_at_a_time = restoring.lock().await;
        let step = snapshots::restore(registry, &sharing.seams, &asked, deadline).await?;
        Ok(convert::restore_step_to_wire(step))
    }

    async fn report_run(
        &self,
        request: Request<wire::ReportRunRequest>,
    ) -> Result<wire::ReportRunResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let wire::ReportRunRequest { name, run, parts, part } = request.into_inner();
        let reported = ingest::ReportRunRequest { corpus: name, run, parts, part };
        let RunReport { corpus, run, parts, report } = report_from_wire(reported)?;
        let ClusterShards { registry, sharing, .. } = &*self.retriever;
        let reporting =
            runs::report(registry, &sharing.seams, &corpus, &run, parts, &report, deadline);
        let part = Some(part_to_wire(&reporting.await?));
        Ok(wire::ReportRunResponse { part })
    }

    async fn get_run(
        &self,
        request: Request<wire::GetRunRequest>,
    ) -> Result<wire::GetRunResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let wire::GetRunRequest { name, run } = request.into_inner();
        let (corpus, run): (CorpusName, RunName) = (name.parse()?, run.parse()?);
        let run = runs::get(&self.retriever.registry, &corpus, &run, deadline).await?;
        Ok(wire::GetRunResponse { run: Some(run_to_wire(&run, None)) })
    }

    async fn list_runs(
        &self,
        request: Request<wire::ListRunsRequest>,
    ) -> Result<wire::ListRunsResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let wire::ListRunsRequest { name, after_started_at, after_run, limit } =
            request.into_inner();
        let corpus: CorpusName = name.parse()?;
        let after = match after_started_at {
            None => None,
            Some(time) => {
                let started_at = timestamp_from_wire("after_started_at", &time)?;
                Some(RunPlace { started_at, name: after_run.parse()? })
            }
        };
        let registry = &self.retriever.registry;
        let page = runs::list(registry, &corpus, after.as_ref(), limit as usize, deadline).await?;
        let runs = page.runs.into_iter().map(entry_to_wire).collect();
        Ok(wire::ListRunsResponse { runs, more: page.has_more })
    }

    async fn delete_run(
        &self,
        request: Request<wire::DeleteRunRequest>,
    ) -> Result<wire::DeleteRunResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let wire::DeleteRunRequest { name, run } = request.into_inner();
        let (corpus, run): (CorpusName, RunName) = (name.parse()?, run.parse()?);
        runs::delete(&self.retriever.registry, &corpus, &run, deadline).await?;
        Ok(wire::DeleteRunResponse {})
    }
}

#[tonic::async_trait]
impl CatalogueService for CatalogueRpc {
    async fn create_corpus(
        &self,
        request: Request<wire::CreateCorpusRequest>,
    ) -> Result<Response<wire::CreateCorpusResponse>, Status> {
        respond(self.create(request).await)
    }

    async fn get_corpus(
        &self,
        request: Request<wire::GetCorpusRequest>,
    ) -> Result<Response<wire::GetCorpusResponse>, Status> {
        respond(self.get(request).await)
    }

    async fn list_corpora(
        &self,
        request: Request<wire::ListCorporaRequest>,
    ) -> Result<Response<wire::ListCorporaResponse>, Status> {
        respond(self.list(request).await)
    }

    async fn delete_corpus(
        &self,
        request: Request<wire::DeleteCorpusRequest>,
    ) -> Result<Response<wire::DeleteCorpusResponse>, Status> {
        respond(self.delete(request).await)
    }

    async fn change_corpus(
        &self,
        request: Request<wire::ChangeCorpusRequest>,
    ) -> Result<Response<wire::ChangeCorpusResponse>, Status> {
        respond(self.change(request).await)
    }

    async fn notice_corpus(
        &self,
        request: Request<wire::NoticeCorpusRequest>,
    ) -> Result<Response<wire::NoticeCorpusResponse>, Status> {
        respond(self.notice(request).await)
    }

    async fn finish_snapshot(
        &self,
        request: Request<wire::FinishSnapshotRequest>,
    ) -> Result<Response<wire::FinishSnapshotResponse>, Status> {
        respond(self.finish_snapshot(request).await)
    }

    async fn list_snapshots(
        &self,
        request: Request<wire::ListSnapshotsRequest>,
    ) -> Result<Response<wire::ListSnapshotsResponse>, Status> {
        respond(self.list_snapshots(request).await)
    }

    async fn delete_snapshot(
        &self,
        request: Request<wire::DeleteSnapshotRequest>,
    ) -> Result<Response<wire::DeleteSnapshotResponse>, Status> {
        respond(self.delete_snapshot(request).await)
    }

    async fn restore_corpus(
        &self,
        request: Request<wire::RestoreCorpusRequest>,
    ) -> Result<Response<wire::RestoreCorpusResponse>, Status> {
        respond(self.restore(request).await)
    }

    async fn report_run(
        &self,
        request: Request<wire::ReportRunRequest>,
    ) -> Result<Response<wire::ReportRunResponse>, Status> {
        respond(self.report_run(request).await)
    }

    async fn get_run(
        &self,
        request: Request<wire::GetRunRequest>,
    ) -> Result<Response<wire::GetRunResponse>, Status> {
        respond(self.get_run(request).await)
    }

    async fn list_runs(
        &self,
        request: Request<wire::ListRunsRequest>,
    ) -> Result<Response<wire::ListRunsResponse>, Status> {
        respond(self.list_runs(request).await)
    }

    async fn delete_run(
        &self,
        request: Request<wire::DeleteRunRequest>,
    ) -> Result<Response<wire::DeleteRunResponse>, Status> {
        respond(self.delete_run(request).await)
    }
}
