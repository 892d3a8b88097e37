//! The access that each gRPC method requires of its caller.

use clew_cluster::Role;
use clew_tls::NodeRoles;

use crate::caller::Scope;

/// Access that a method requires of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAccess {
    /// No key.
    Nothing,
    /// Any valid key.
    AnyKey,
    /// A key with this scope.
    Key(Scope),
    /// A key with this scope and without a tenant.
    Operator(Scope),
    /// A node of the cluster.
    Node,
}

/// The services that nodes call, with the roles that call them. The list follows from the pools
/// that roles open to each other, and `tests/deploy/network.py` compares it with them. Services
/// without methods in [`METHODS`] are called by nodes only.
const CALLERS: &[(&str, &[Role])] = {
    use Role::{Encoder, Gateway, Generator, GraphBuilder, Retriever};
    &[
        ("clew.cluster.v1.NodeService", &[Gateway]),
        ("clew.encoder.v1.EncoderService", &[Gateway, Retriever, Encoder, Generator]),
        ("clew.generator.v1.GeneratorService", &[Gateway, GraphBuilder]),
        ("clew.graph_builder.v1.GraphBuilderService", &[Gateway, Retriever]),
        ("clew.shard.v1.CatalogueService", &[Gateway]),
        ("clew.shard.v1.ShardService", &[Gateway]),
    ]
};

/// The methods that clients call, by path, with the access they require. A method that is neither
/// in this list nor of a service for nodes only is refused. A node that calls a method of this list
/// counts as an ordinary client, unless its role is listed above as a caller of the service.
pub const METHODS: &[(&str, RequiredAccess)] = {
    use RequiredAccess::{AnyKey, Key, Nothing, Operator};
    use Scope::{Admin, Read, Write};
    &[
        ("/grpc.health.v1.Health/Check", Nothing),
        ("/grpc.health.v1.Health/List", Nothing),
        ("/grpc.health.v1.Health/Watch", Nothing),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", AnyKey),
        ("/clew.auth.v1.AccessService/WhoAmI", AnyKey),
        ("/clew.chat.v1.ChatService/Answer", Key(Read)),
        ("/clew.chat.v1.ChatService/AppendTurns", Key(Write)),
        ("/clew.chat.v1.ChatService/ForgetTurns", Key(Write)),
        ("/clew.chat.v1.ChatService/ListSessions", Key(Read)),
        ("/clew.chat.v1.ChatService/ListTurns", Key(Read)),
        ("/clew.chat.v1.ChatService/ListUsers", Key(Read)),
        ("/clew.chat.v1.ChatService/Recall", Key(Read)),
        ("/clew.cluster.v1.ClusterService/DrainNode", Operator(Admin)),
        ("/clew.cluster.v1.ClusterService/GetTopology", Operator(Read)),
        ("/clew.cluster.v1.ClusterService/GetTree", Operator(Read)),
        ("/clew.corpus.v1.CorpusService/CheckCorpus", Key(Admin)),
        ("/clew.corpus.v1.CorpusService/CreateCorpus", Key(Admin)),
        ("/clew.corpus.v1.CorpusService/DeleteCorpus", Key(Admin)),
        ("/clew.corpus.v1.CorpusService/DeleteSnapshots", Key(Admin)),
        ("/clew.corpus.v1.CorpusService/ExportCorpus", Key(Admin)),
        ("/clew.corpus.v1.CorpusService/GetCorpus", Key(Read)),
        ("/clew.corpus.v1.CorpusService/GetReembedding", Key(Read)),
        ("/clew.corpus.v1.CorpusService/ListCorpora", Key(Read)),
        ("/clew.corpus.v1.CorpusService/ListSnapshots", Key(Admin)),
        ("/clew.corpus.v1.CorpusService/ReembedCorpus", Key(Admin)),
        ("/clew.corpus.v1.CorpusService/RestoreCorpus", Key(Admin)),
        ("/clew.corpus.v1.CorpusService/SnapshotCorpus", Key(Admin)),
        ("/clew.graph_builder.v1.GraphBuilderService/Extract", Key(Read)),
        ("/clew.graph_builder.v1.GraphBuilderService/Summarise", Key(Read)),
        ("/clew.ingest.v1.IngestService/DeleteRun", Key(Write)),
        ("/clew.ingest.v1.IngestService/EstimateIngestion", Key(Read)),
        ("/clew.ingest.v1.IngestService/ForgetDocuments", Key(Write)),
        ("/clew.ingest.v1.IngestService/GetDocument", Key(Read)),
        ("/clew.ingest.v1.IngestService/GetRun", Key(Read)),
        ("/clew.ingest.v1.IngestService/Ingest", Key(Write)),
        ("/clew.ingest.v1.IngestService/IngestDocuments", Key(Write)),
        ("/clew.ingest.v1.IngestService/ListChunks", Key(Read)),
        ("/clew.ingest.v1.IngestService/ListDocuments", Key(Read)),
        ("/clew.ingest.v1.IngestService/ListRuns", Key(Read)),
        ("/clew.ingest.v1.IngestService/ReportRun", Key(Write)),
        ("/clew.ingest.v1.IngestService/WatchIngestion", Key(Read)),
        ("/clew.memory.v1.MemoryService/FindPaths", Key(Read)),
        ("/clew.memory.v1.MemoryService/ListMemories", Key(Read)),
        ("/clew.memory.v1.MemoryService/RankGraph", Key(Read)),
        ("/clew.memory.v1.MemoryService/ReadGraph", Key(Read)),
        ("/clew.memory.v1.MemoryService/ReadTree", Key(Read)),
        ("/clew.query.v1.QueryService/Answer", Key(Read)),
        ("/clew.query.v1.QueryService/Embed", Key(Read)),
        ("/clew.query.v1.QueryService/ListStrategies", Key(Read)),
        ("/clew.query.v1.QueryService/Search", Key(Read)),
        ("/clew.query.v1.QueryService/SearchBatch", Key(Read)),
    ]
};

/// Returns the service of the method at `path`.
fn service(path: &str) -> Option<&str> {
    path.strip_prefix('/')?.split_once('/').map(|(service, _)| service)
}

/// Returns the roles whose nodes call the service of the method at `path`.
pub(crate) fn callers(path: &str) -> &'static [Role] {
    let found = CALLERS.iter().find(|(called, _)| service(path) == Some(called));
    found.map_or(&[], |(_, roles)| roles)
}

/// Returns whether a node with these roles may call the method at `path` as a node.
pub(crate) fn may_call(roles: &NodeRoles, path: &str) -> bool {
    callers(path).iter().any(|role| roles.have(role.as_str()))
}

/// Returns whether the method at `path` belongs to a service that only nodes call.
pub fn is_for_nodes(path: &str) -> bool {
    let is_for_clients = || METHODS.iter().any(|(known, _)| service(known) == service(path));
    !callers(path).is_empty() && !is_for_clients()
}

/// Returns the access that the method at `path` requires. Returns `None` if there is no such
/// method.
pub(crate) fn needs(path: &str) -> Option<RequiredAccess> {
    if is_for_nodes(path) {
        return Some(RequiredAccess::Node);
    }
    METHODS.iter().find(|(known, _)| *known == path).map(|(_, needs)| *needs)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_method_is_decided_on_and_no_other() {
        let set = FileDescriptorSet::decode(clew_proto::FILE_DESCRIPTOR_SET).unwrap();
        let mut there = BTreeSet::new();
        for file in &set.file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                for method in &service.method {
                    let path = format!("/{name}/{}", method.name());
                    assert!(needs(&path).is_some(), "say what {path} needs");
                    there.insert(path);
                }
            }
        }
        for (path, _) in METHODS.iter().filter(|(path, _)| path.starts_with("/clew.")) {
            assert!(there.contains(*path), "there is no {path}");
        }
        for (service, roles) in CALLERS {
            assert!(there.iter().any(|path| path.contains(service)), "there is no {service}");
            assert!(!roles.is_empty(), "nobody calls {service}");
        }
        assert_eq!(needs("/clew.query.v1.QueryService/Other"), None);
        assert_eq!(needs("nonsense"), None);
        assert_eq!(needs("/clew.graph_builder.v1.GraphBuilderService/Other"), None);
    }

    #[test]
    fn a_node_calls_what_its_roles_need() {
        let may = |roles: &[&str], path: &str| may_call(&NodeRoles::named(roles.to_vec()), path);
        let (shard, encoder) =
            ("/clew.shard.v1.ShardService/FindCandidates", "/clew.encoder.v1.EncoderService/Embed");
        assert!(may(&["gateway"], shard) && may(&["gateway"], encoder));
        assert!(may(&["retriever"], encoder) && !may(&["retriever"], shard));
        assert!(may(&["encoder"], "/clew.encoder.v1.EncoderService/ReadTogether"));
        for role in ["encoder", "graph-builder", "generator"] {
            assert!(!may(&[role], shard), "{role}");
        }
        // A node with several roles, and a certificate issued before roles were named.
        assert!(may(&["encoder", "gateway"], shard) && may(&[], shard));
        // A method that a node may not call as a node, it may still call as a client.
        assert!(!may(&["gateway"], "/clew.query.v1.QueryService/Search"));
        assert!(!may(&["nobody-knows"], encoder));
    }
}
