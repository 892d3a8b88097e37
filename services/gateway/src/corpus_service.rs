//! `CorpusService`: creating, describing, checking, copying, moving and deleting corpora.

use std::sync::Arc;
use std::time::Instant;

use clew_auth::Caller;
use clew_core::{CheckQuery, Corpus, CorpusEntry, Counts, DocumentId, Error, Partial, Unusable};
use clew_proto::convert::corpus::{breach_to_wire, unusable_to_wire};
use clew_proto::convert::query::shards_to_wire;
use clew_proto::convert::{Page, document_id};
use clew_proto::corpus::v1 as wire;
use clew_proto::corpus::v1::corpus_service_server::CorpusService;
use clew_proto::respond;
use describe::{counts_to_wire, described};
use futures::{StreamExt, stream};
use handler::Corpora;
use tonic::{Request, Response, Status};

use crate::reading::Responses;
use crate::shards::Shards;

pub(crate) mod describe;
mod export;
pub(crate) mod handler;
mod reembed;
mod snapshots;

/// Number of corpora of a listing that are counted at the same time: one that does not run does not
/// delay the others.
const COUNTED_AT_ONCE: usize = 16;

impl Corpora {
    async fn describe(
        &self,
        caller: &Caller,
        corpus: &Corpus,
        deadline: Instant,
    ) -> Result<wire::Corpus, Error> {
        let counts = corpus.counts(deadline).await?;
        Ok(described(caller, corpus, Some(counts_to_wire(&counts))))
    }

    async fn create(
        &self,
        request: Request<wire::CreateCorpusRequest>,
    ) -> Result<wire::CreateCorpusResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let settings = self.backends.settings_of(request.into_inner().try_into()?)?;
        self.backends.check_memories(&settings, deadline).await?;
        let corpus = self.backends.corpora.of(&caller).create(settings, deadline).await?;
        let corpus = Some(self.describe(&caller, &corpus, deadline).await?);
        Ok(wire::CreateCorpusResponse { corpus })
    }

    async fn get(
        &self,
        request: Request<wire::GetCorpusRequest>,
    ) -> Result<wire::GetCorpusResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let name = request.into_inner().name.parse()?;
        let corpus = self.backends.corpora.of(&caller).get(&name, deadline).await?;
        let corpus = Some(self.describe(&caller, &corpus, deadline).await?);
        Ok(wire::GetCorpusResponse { corpus })
    }

    async fn list(
        &self,
        request: Request<wire::ListCorporaRequest>,
    ) -> Result<wire::ListCorporaResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let page = Page::from_wire(request.page_size, &request.page_token)?;
        let found =
            self.backends.corpora.of(&caller).list(&page.after, page.size, deadline).await?;
        let next_page_token = match found.last() {
            Some(last) if found.len() == page.size => {
                Page::token_after(caller.name_of(last.name()))
            }
            _ => String::new(),
        };
        let listing = found.into_iter().map(|listed| self.listed(&caller, listed, deadline));
        let corpora = stream::iter(listing).buffered(COUNTED_AT_ONCE).collect().await;
        Ok(wire::ListCorporaResponse { corpora, next_page_token })
    }

    /// Describes a corpus with its counts. A corpus that cannot run is listed as well: without
    /// counts, which would be too low, with the shards that do not answer, and with the reason if
    /// no shard answers or its settings cannot be read.
    async fn listed(
        &self,
        caller: &Caller,
        listed: CorpusEntry,
        deadline: Instant,
    ) -> wire::Corpus {
        let corpus = match listed {
            CorpusEntry::Usable(corpus) => corpus,
            CorpusEntry::Unusable(unusable) => {
                let name = caller.name_of(&unusable.name).to_owned();
                return wire::Corpus { name, ..unusable_to_wire(unusable) };
            }
        };
        let mut fault = None;
        let shards = Shards::over(&self.backends, Arc::clone(&corpus));
        let deadline = shards.deadline(deadline);
        let counted = shards.ask_all(|shard| async move { shard.counts(deadline).await }).await;
        let (counts, shards_missing) = match counted {
            Ok(Partial { found, shards_missing }) if shards_missing.is_empty() => {
                let mut total = Counts::default();
                found.into_iter().for_each(|counts| total += counts);
                (Some(counts_to_wire(&total)), shards_missing)
            }
            Ok(Partial { shards_missing, .. }) => (None, shards_missing),
            Err(error) => {
                let name = &corpus.settings().name;
                tracing::warn!(corpus = %name, error = error.chain(), "a corpus does not run");
                fault = unusable_to_wire(Unusable::new(name.clone(), &error)).fault;
                (None, corpus.shards().iter().map(|shard| shard.index()).collect())
            }
        };
        let shards_missing = shards_to_wire(&shards_missing);
        wire::Corpus { shards_missing, fault, ..described(caller, &corpus, counts) }
    }

    async fn delete(
        &self,
        request: Request<wire::DeleteCorpusRequest>,
    ) -> Result<wire::DeleteCorpusResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let name = request.into_inner().name.parse()?;
        let documents = self.backends.corpora.of(&caller).delete(&name, deadline).await?;
        let snapshots = self.kept_snapshots(&caller, &name, deadline).await;
        Ok(wire::DeleteCorpusResponse { documents, snapshots })
    }

    /// Checks one page of documents. The shards come one after another, and a page is of one shard.
    async fn check(
        &self,
        request: Request<wire::CheckCorpusRequest>,
    ) -> Result<wire::CheckCorpusResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let corpus =
            self.backends.corpora.of(&caller).get(&request.name.parse()?, deadline).await?;
        let page = Page::from_wire(request.page_size, &request.page_token)?;
        let (number, after) = place_of(&page.after)?;
        let Some(shard) = corpus.shards().get(number) else {
            return Err(Error::invalid("page_token", "expected a shard of this corpus"));
        };
        let asked = CheckQuery { after, limit: page.size };
        let checked = shard.check(&asked, deadline).await?;
        let next = match &checked.last {
            Some(last) => Some(format!("{number}/{last}")),
            None => (number + 1 < corpus.shards().len()).then(|| format!("{}/", number + 1)),
        };
        Ok(wire::CheckCorpusResponse {
            documents: checked.documents,
            chunks: checked.chunks,
            breaches: checked.breaches.iter().map(breach_to_wire).collect(),
            next_page_token: next.as_deref().map(Page::token_after).unwrap_or_default(),
        })
    }
}

/// Parses the position of a page: its shard, and the document that it begins after.
fn place_of(place: &str) -> Result<(usize, Option<DocumentId>), Error> {
    let malformed = || Error::invalid("page_token", "expected a next_page_token of CheckCorpus");
    if place.is_empty() {
        return Ok((0, None));
    }
    let (number, after) = place.split_once('/').ok_or_else(malformed)?;
    let number = number.parse().map_err(|_| malformed())?;
    let after = if after.is_empty() { None } else { Some(document_id("page_token", after)?) };
    Ok((number, after))
}

#[tonic::async_trait]
impl CorpusService for Corpora {
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

    async fn check_corpus(
        &self,
        request: Request<wire::CheckCorpusRequest>,
    ) -> Result<Response<wire::CheckCorpusResponse>, Status> {
        respond(self.check(request).await)
    }

    type SnapshotCorpusStream = Responses<wire::SnapshotCorpusResponse>;

    async fn snapshot_corpus(
        &self,
        request: Request<wire::SnapshotCorpusRequest>,
    ) -> Result<Response<Self::SnapshotCorpusStream>, Status> {
        respond(self.snapshot(request).await)
    }

    async fn list_snapshots(
        &self,
        request: Request<wire::ListSnapshotsRequest>,
    ) -> Result<Response<wire::ListSnapshotsResponse>, Status> {
        respond(self.snapshots(request).await)
    }

    async fn delete_snapshots(
        &self,
        request: Request<wire::DeleteSnapshotsRequest>,
    ) -> Result<Response<wire::DeleteSnapshotsResponse>, Status> {
        respond(self.delete_snapshots(request).await)
    }

    type ExportCorpusStream = Responses<wire::ExportCorpusResponse>;

    async fn export_corpus(
        &self,
        request: Request<wire::ExportCorpusRequest>,
    ) -> Result<Response<Self::ExportCorpusStream>, Status> {
        respond(self.export(request).await)
    }

    type RestoreCorpusStream = Responses<wire::RestoreCorpusResponse>;

    async fn restore_corpus(
        &self,
        request: Request<wire::RestoreCorpusRequest>,
    ) -> Result<Response<Self::RestoreCorpusStream>, Status> {
        respond(self.restore(request).await)
    }

    async fn reembed_corpus(
        &self,
        request: Request<wire::ReembedCorpusRequest>,
    ) -> Result<Response<wire::ReembedCorpusResponse>, Status> {
        respond(self.reembed(request).await)
    }

    async fn get_reembedding(
        &self,
        request: Request<wire::GetReembeddingRequest>,
    ) -> Result<Response<wire::GetReembeddingResponse>, Status> {
        respond(self.reembedding(request).await)
    }
}
