//! `CatalogueService`: the corpora in shared storage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{CorpusName, Error, Limits};
use clew_proto::convert::corpus::{corpus_to_wire, settings_from_wire};
use clew_proto::shard::v1 as wire;
use clew_proto::shard::v1::catalogue_service_server::CatalogueService;
use clew_proto::to_status;
use clew_runtime::deadline::{of_request, within};
use tonic::{Request, Response, Status};

use crate::shared::Inner;

/// Time of a call that names no deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// The handler.
pub(crate) struct CatalogueRpc {
    pub retriever: Arc<Inner>,
}

/// What storage says within the deadline.
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
        let following =
            listed.into_iter().filter(|settings| *settings.name.as_str() > *request.after);
        let corpora = following
            .take(request.limit as usize)
            .map(|settings| corpus_to_wire(settings, None))
            .collect();
        Ok(wire::ListCorporaResponse { corpora })
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
}

#[tonic::async_trait]
impl CatalogueService for CatalogueRpc {
    async fn create_corpus(
        &self,
        request: Request<wire::CreateCorpusRequest>,
    ) -> Result<Response<wire::CreateCorpusResponse>, Status> {
        self.create(request).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn get_corpus(
        &self,
        request: Request<wire::GetCorpusRequest>,
    ) -> Result<Response<wire::GetCorpusResponse>, Status> {
        self.get(request).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn list_corpora(
        &self,
        request: Request<wire::ListCorporaRequest>,
    ) -> Result<Response<wire::ListCorporaResponse>, Status> {
        self.list(request).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn delete_corpus(
        &self,
        request: Request<wire::DeleteCorpusRequest>,
    ) -> Result<Response<wire::DeleteCorpusResponse>, Status> {
        self.delete(request).await.map(Response::new).map_err(|error| to_status(&error))
    }
}
