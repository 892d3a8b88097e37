//! `MemoryService`: what was derived of a corpus, for people and other programs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use clew_core::{
    EntityKey, EntityNode, Error, GraphMemory, GraphQuery, RelationEdge, Subgraph, Tree,
};
use clew_graph::{PathLimits, Seed};
use clew_proto::convert::corpus_name;
use clew_proto::convert::memory as convert;
use clew_proto::memory::v1 as wire;
use clew_proto::memory::v1::memory_service_server::MemoryService;
use clew_proto::to_status;
use tonic::{Request, Response, Status};

use crate::Backends;
use crate::memory::CorpusMemory;
use crate::scatter::Scatter;

/// Edges of a path, and the most there may be.
const PATH_HOPS: (u32, u32) = (4, 8);
/// Paths that are told, and the most there may be.
const PATHS: (u32, u32) = (10, 100);
/// Items of a ranking, and the most there may be.
const RANKED: (u32, u32) = (10, 1000);
/// Entities and relations around the seeds that paths and rankings are computed on.
const AROUND: usize = 10_000;
/// Edges between the seeds of a ranking and what it ranks, at most.
const RANKED_HOPS: u32 = 3;
/// Probability with which the walk of a ranking begins anew (HippoRAG).
const RESET: f64 = 0.5;

/// The handler.
pub(crate) struct Memories {
    pub backends: Arc<Backends>,
}

impl Memories {
    async fn memory(&self, corpus: &str, deadline: Instant) -> Result<CorpusMemory, Error> {
        let corpus = self.backends.corpora.get(&corpus_name(corpus)?, deadline).await?;
        let search = Scatter::over(&self.backends, Arc::clone(&corpus));
        Ok(CorpusMemory { corpus, search, patience: self.backends.config.shard_patience() })
    }

    async fn read_tree(
        &self,
        request: Request<wire::ReadTreeRequest>,
    ) -> Result<wire::ReadTreeResponse, Error> {
        let deadline = self.backends.config.deadline(&request);
        let (corpus, parent) = convert::read_tree_from_wire(request.into_inner())?;
        let memory = self.memory(corpus.as_str(), deadline).await?;
        let nodes = match parent {
            Some(parent) => memory.children(&parent, deadline).await?,
            None => memory.all_tops(&[], deadline).await?,
        };
        let nodes = nodes.into_iter().map(convert::tree_node_to_wire).collect();
        Ok(wire::ReadTreeResponse { nodes })
    }

    async fn read_graph(
        &self,
        request: Request<wire::ReadGraphRequest>,
    ) -> Result<wire::ReadGraphResponse, Error> {
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let query = request.query.unwrap_or_default();
        let query = convert::graph_query_from_wire(query, &self.backends.limits)?;
        let memory = self.memory(&request.corpus, deadline).await?;
        let graph = memory.subgraph(&query, deadline).await?;
        Ok(wire::ReadGraphResponse { graph: Some(convert::subgraph_to_wire(graph)) })
    }

    async fn find_paths(
        &self,
        request: Request<wire::FindPathsRequest>,
    ) -> Result<wire::FindPathsResponse, Error> {
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let most_hops = within("most_hops", request.most_hops, PATH_HOPS)?;
        let most_paths = within("most", request.most, PATHS)?;
        let memory = self.memory(&request.corpus, deadline).await?;
        // From both ends half of the way.
        let around = async |name: &str| {
            let query = GraphQuery {
                entities: clew_graph::entity_key(name).into_iter().collect(),
                texts: vec![name.to_owned()],
                hops: most_hops.div_ceil(2),
                most_entities: AROUND,
                most_relations: AROUND,
                ..GraphQuery::default()
            };
            memory.subgraph(&query, deadline).await
        };
        let (from, to) = (around(&request.from).await?, around(&request.to).await?);
        let (start, end) = (seed(&from, "from", &request.from)?, seed(&to, "to", &request.to)?);
        let graph = clew_graph::union([from, to]);
        let limits = PathLimits { most_hops: most_hops as usize, most_paths: most_paths as usize };
        let paths = tokio::task::spawn_blocking(move || {
            let paths = clew_graph::paths(&graph, &start, &end, limits);
            let entities = on_paths(&graph, &paths);
            (paths, entities)
        });
        let (paths, entities) = paths.await.map_err(panicked)?;
        let path = |edges: Vec<RelationEdge>| wire::Path {
            relations: edges.into_iter().map(convert::relation_to_wire).collect(),
        };
        Ok(wire::FindPathsResponse {
            paths: paths.into_iter().map(path).collect(),
            entities: entities.into_iter().map(convert::entity_to_wire).collect(),
        })
    }

    async fn rank_graph(
        &self,
        request: Request<wire::RankGraphRequest>,
    ) -> Result<wire::RankGraphResponse, Error> {
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let k = within("k", request.k, RANKED)? as usize;
        if request.text.len() > self.backends.limits.query_bytes {
            let most = self.backends.limits.query_bytes;
            let problem = format!("expected at most {most} bytes, got {}", request.text.len());
            return Err(Error::invalid("text", problem));
        }
        let memory = self.memory(&request.corpus, deadline).await?;
        let query = GraphQuery {
            texts: vec![request.text],
            hops: RANKED_HOPS,
            most_entities: AROUND,
            most_relations: AROUND,
            ..GraphQuery::default()
        };
        let graph = memory.subgraph(&query, deadline).await?;
        let seeds: Vec<String> = graph.seeds.iter().map(ToString::to_string).collect();
        let ranking = tokio::task::spawn_blocking(move || {
            clew_graph::pagerank(&graph, &weighted_seeds(&graph), RESET)
        });
        let ranking = ranking.await.map_err(panicked)?;
        let ranked = |item, score: f64| wire::Ranked { item: Some(item), score: score as f32 };
        use wire::ranked::Item;
        let entities = ranking.entities.into_iter().take(k);
        let segments = ranking.segments.into_iter().take(k);
        Ok(wire::RankGraphResponse {
            entities: entities.map(|(key, score)| ranked(Item::Entity(key.0), score)).collect(),
            segments: segments
                .map(|(id, score)| ranked(Item::Segment(convert::segment_id_to_wire(&id)), score))
                .collect(),
            seeds,
        })
    }
}

/// The seeds of a ranking: what few segments mention tells more (HippoRAG, node specificity).
fn weighted_seeds(graph: &Subgraph) -> Vec<(Seed, f64)> {
    let is_seed = |node: &&EntityNode| graph.seeds.contains(&node.key);
    let seeds = graph.entities.iter().filter(is_seed);
    seeds
        .map(|node| (Seed::Entity(node.key.clone()), 1.0 / node.mentioned_in.max(1) as f64))
        .collect()
}

fn on_paths(graph: &Subgraph, paths: &[Vec<RelationEdge>]) -> Vec<EntityNode> {
    let edges = paths.iter().flatten();
    let keys: BTreeSet<&EntityKey> = edges.flat_map(|edge| [&edge.head, &edge.tail]).collect();
    graph.entities.iter().filter(|node| keys.contains(&node.key)).cloned().collect()
}

/// The entity that a name means: the one of that key, or else the first that the name names.
fn seed(graph: &Subgraph, field: &str, name: &str) -> Result<EntityKey, Error> {
    let own = clew_graph::entity_key(name).filter(|key| graph.seeds.contains(key));
    own.or_else(|| graph.seeds.first().cloned()).ok_or_else(|| {
        Error::invalid(field, format!("expected the name of an entity of the graph, got `{name}`"))
    })
}

/// A number of a request; 0 means the default.
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
        self.read_tree(request).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn read_graph(
        &self,
        request: Request<wire::ReadGraphRequest>,
    ) -> Result<Response<wire::ReadGraphResponse>, Status> {
        self.read_graph(request).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn find_paths(
        &self,
        request: Request<wire::FindPathsRequest>,
    ) -> Result<Response<wire::FindPathsResponse>, Status> {
        self.find_paths(request).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn rank_graph(
        &self,
        request: Request<wire::RankGraphRequest>,
    ) -> Result<Response<wire::RankGraphResponse>, Status> {
        self.rank_graph(request).await.map(Response::new).map_err(|error| to_status(&error))
    }
}
