//! `MemoryService`: the trees, graphs and compressed memories of a corpus, for people and programs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use clew_auth::Caller;
use clew_core::{
    Account, Budget, DocumentId, DocumentState, DocumentStatus, Error, ErrorKind, GraphMemory,
    ListQuery, ListedMemories, MemoryRecord, Partial, Shard, Tree, Version,
};
use clew_graph::PathLimits;
use clew_proto::convert::corpus_name;
use clew_proto::convert::memory::{self as convert, AskedNodes};
use clew_proto::convert::query::shards_to_wire;
use clew_proto::memory::v1 as wire;
use clew_proto::memory::v1::memory_service_server::MemoryService;
use clew_proto::respond;
use tonic::{Request, Response, Status};

use crate::Backends;
use crate::shards::Shards;
use crate::structure::CorpusStructure;

/// Default and maximum number of edges of a path.
const PATH_HOPS: (u32, u32) = (4, 8);
/// Default and maximum number of paths in a response.
const PATHS: (u32, u32) = (10, 100);
/// Default and maximum number of items of a ranking.
const RANKED: (u32, u32) = (10, 1000);

/// Number of documents in one page of a listing.
const PAGE: usize = 1000;

/// Handler of `MemoryService`.
pub(crate) struct Memories {
    pub backends: Arc<Backends>,
}

impl Memories {
    async fn memory(
        &self,
        caller: &Caller,
        corpus: &str,
        deadline: Instant,
    ) -> Result<CorpusStructure, Error> {
        let corpus = corpus_name(corpus)?;
        let corpus = self.backends.corpora.of(caller).get(&corpus, deadline).await?;
        // Nothing here asks a model, so the budget does not matter.
        let account = Account::open(caller.owner(), Budget::default());
        Ok(CorpusStructure::over(&self.backends, corpus, &account))
    }

    async fn read_tree(
        &self,
        request: Request<wire::ReadTreeRequest>,
    ) -> Result<wire::ReadTreeResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let (corpus, nodes) = convert::read_tree_from_wire(request.into_inner())?;
        let memory = self.memory(&caller, corpus.as_str(), deadline).await?;
        let nodes = match nodes {
            AskedNodes::Tops => memory.all_tops(&[], None, deadline).await?,
            AskedNodes::Root(document) => memory.roots(vec![document], None, deadline).await?,
            AskedNodes::Children(parent) => memory.children(&parent, None, deadline).await?,
        };
        Ok(convert::tree_nodes_to_wire(nodes))
    }

    async fn read_graph(
        &self,
        request: Request<wire::ReadGraphRequest>,
    ) -> Result<wire::ReadGraphResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let asked = convert::asked_graph_from_wire(request.into_inner(), &self.backends.limits)?;
        let (corpus, query, with_quotes) = asked;
        let memory = self.memory(&caller, corpus.as_str(), deadline).await?;
        let graph = memory.subgraph(&query, deadline).await?;
        let quotes = match with_quotes {
            true => memory.quotes(&graph.found.relations, deadline).await?,
            false => Partial::default(),
        };
        let graph = graph.missing(quotes.shards_missing);
        Ok(convert::read_graph_to_wire(graph, quotes.found))
    }

    async fn find_paths(
        &self,
        request: Request<wire::FindPathsRequest>,
    ) -> Result<wire::FindPathsResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let most_hops = within("most_hops", request.most_hops, PATH_HOPS)?;
        let most_paths = within("most", request.most, PATHS)?;
        let memory = self.memory(&caller, &request.corpus, deadline).await?;
        let part = async |name: &str| {
            memory.subgraph(&clew_graph::half_way(name, most_hops), deadline).await
        };
        let (start, end) = (part(&request.from).await?, part(&request.to).await?);
        let both = Partial::whole((start.found, end.found));
        let Partial { found: (start, end), shards_missing } =
            both.missing(start.shards_missing).missing(end.shards_missing);
        let limits = PathLimits { most_hops: most_hops as usize, most_paths: most_paths as usize };
        let connect =
            move || clew_graph::connect((&request.from, start), (&request.to, end), limits);
        let found = tokio::task::spawn_blocking(connect).await.map_err(panicked)??;
        let mut paths = convert::paths_to_wire(found.paths, found.entities);
        paths.shards_missing = shards_to_wire(&shards_missing);
        Ok(paths)
    }

    async fn rank_graph(
        &self,
        request: Request<wire::RankGraphRequest>,
    ) -> Result<wire::RankGraphResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let k = within("k", request.k, RANKED)? as usize;
        if request.text.len() > self.backends.limits.query_bytes {
            let most = self.backends.limits.query_bytes;
            let problem = format!("expected at most {most} bytes, got {}", request.text.len());
            return Err(Error::invalid("text", problem));
        }
        let memory = self.memory(&caller, &request.corpus, deadline).await?;
        let reached = memory.subgraph(&clew_graph::reach(&request.text), deadline).await?;
        let Partial { found: graph, shards_missing } = reached;
        let seeds = graph.seeds.clone();
        let rank = move || clew_graph::rank(&graph);
        let ranking = tokio::task::spawn_blocking(rank).await.map_err(panicked)?;
        let mut ranks = convert::ranking_to_wire(&seeds, ranking.entities, ranking.segments, k);
        ranks.shards_missing = shards_to_wire(&shards_missing);
        Ok(ranks)
    }

    async fn list_memories(
        &self,
        request: Request<wire::ListMemoriesRequest>,
    ) -> Result<wire::ListMemoriesResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let memory = self.memory(&caller, &request.into_inner().corpus, deadline).await?;
        let settings = memory.corpus.settings();
        if settings.memory.is_none() {
            return Err(Error::new(
                ErrorKind::WrongState,
                "NO_COMPRESSED_MEMORY",
                format!(
                    "corpus `{}` was made without compressed memories; make one with \
                     `--memory-ratio`",
                    caller.name_of(&settings.name)
                ),
            ));
        }
        let Partial { found, shards_missing } = kept(&memory.shards, deadline).await?;
        let model = self.backends.memory_encoder.memory_model(deadline).await?;
        let documents = found.iter().map(|kept| kept.documents).sum();
        let covered_documents = found.iter().map(|kept| kept.covered).sum();
        let (mut memories, mut failures) = (Vec::new(), Vec::new());
        for Kept { listed, .. } in found {
            memories.extend(listed.records.into_iter().map(convert::record_to_wire));
            failures.extend(listed.failures.into_iter().map(convert::failure_to_wire));
        }
        Ok(wire::ListMemoriesResponse {
            memories,
            documents,
            covered_documents,
            model: model.map(convert::model_to_wire),
            shards_missing: shards_to_wire(&shards_missing),
            failures,
        })
    }
}

/// Compressed memories of a shard, the number of its searchable documents, and the number of those
/// that memories cover completely.
struct Kept {
    listed: ListedMemories,
    documents: u64,
    covered: u64,
}

/// Lists the compressed memories of each shard. Each page of documents has the time limit of one
/// shard request.
async fn kept(shards: &Shards, deadline: Instant) -> Result<Partial<Vec<Kept>>, Error> {
    shards
        .ask_all(|shard| async move {
            let listed = shard.memories(shards.deadline(deadline)).await?;
            let (documents, covered) = covered(shards, shard, &listed.records, deadline).await?;
            Ok(Kept { listed, documents, covered })
        })
        .await
}

async fn covered(
    shards: &Shards,
    shard: Arc<dyn Shard>,
    records: &[MemoryRecord],
    deadline: Instant,
) -> Result<(u64, u64), Error> {
    let mut ends: HashMap<&DocumentId, (Version, usize)> = HashMap::new();
    for part in records.iter().flat_map(|record| &record.parts) {
        let known = ends.entry(&part.document_id).or_insert((part.version, 0));
        known.1 = known.1.max(part.span.end);
    }
    let (mut documents, mut covered) = (0, 0);
    let mut query = ListQuery { after: None, limit: PAGE, state: Some(DocumentState::Indexed) };
    loop {
        let page = shard.list(&query, shards.deadline(deadline)).await?;
        let is_covered = |status: &&DocumentStatus| {
            let end = ends.get(&status.document_id);
            end.is_some_and(|(version, end)| {
                *version == status.version && *end as u64 >= status.bytes
            })
        };
        documents += page.len() as u64;
        covered += page.iter().filter(is_covered).count() as u64;
        match page.last() {
            Some(last) if page.len() == PAGE => query.after = Some(last.document_id.clone()),
            _ => return Ok((documents, covered)),
        }
    }
}

/// Checks a number of a request; 0 stands for the default.
fn within(field: &str, value: u32, (default, most): (u32, u32)) -> Result<u32, Error> {
    match value {
        0 => Ok(default),
        value if value <= most => Ok(value),
        value => Err(Error::invalid(field, format!("expected at most {most}, got {value}"))),
    }
}

fn panicked(panic: tokio::task::JoinError) -> Error {
    Error::internal("reading the graph panicked").with_source(panic)
}

#[tonic::async_trait]
impl MemoryService for Memories {
    async fn read_tree(
        &self,
        request: Request<wire::ReadTreeRequest>,
    ) -> Result<Response<wire::ReadTreeResponse>, Status> {
        respond(self.read_tree(request).await)
    }

    async fn read_graph(
        &self,
        request: Request<wire::ReadGraphRequest>,
    ) -> Result<Response<wire::ReadGraphResponse>, Status> {
        respond(self.read_graph(request).await)
    }

    async fn find_paths(
        &self,
        request: Request<wire::FindPathsRequest>,
    ) -> Result<Response<wire::FindPathsResponse>, Status> {
        respond(self.find_paths(request).await)
    }

    async fn list_memories(
        &self,
        request: Request<wire::ListMemoriesRequest>,
    ) -> Result<Response<wire::ListMemoriesResponse>, Status> {
        respond(self.list_memories(request).await)
    }

    async fn rank_graph(
        &self,
        request: Request<wire::RankGraphRequest>,
    ) -> Result<Response<wire::RankGraphResponse>, Status> {
        respond(self.rank_graph(request).await)
    }
}
