//! The methods that clients may call, with the types of their messages.

use std::collections::HashMap;

use axum::http::StatusCode;
use axum::http::uri::PathAndQuery;
use clew_auth::METHODS;
use clew_core::Error;
use clew_proto::FILE_DESCRIPTOR_SET;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use tonic::Code;

use crate::Failure;

/// Prefix of the paths of Clew's own services.
const OURS: &str = "/clew.";

/// The methods that clients may call, by path.
pub(crate) struct Methods(HashMap<&'static str, Method>);

/// A method, with the types of its messages.
pub(crate) struct Method {
    /// Path of its calls.
    pub path: PathAndQuery,
    /// Type of its requests.
    pub input: MessageDescriptor,
    /// Type of its responses.
    pub output: MessageDescriptor,
    /// Whether a call sends a stream of requests.
    pub streams_requests: bool,
    /// Whether a call is answered with a stream of responses.
    pub streams_responses: bool,
}

impl Methods {
    /// Returns the methods that a key may open, and none of those for nodes.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Internal`] if the descriptors do not decode, which a test
    /// rules out.
    pub(crate) fn of_clients() -> Result<Self, Error> {
        let broken =
            |problem: &str| Error::internal(format!("descriptors do not decode: {problem}"));
        let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET)
            .map_err(|error| broken("the set").with_source(error))?;
        let mut methods = HashMap::new();
        for &(path, _) in METHODS.iter().filter(|(path, _)| path.starts_with(OURS)) {
            let (service, name) =
                path[1..].split_once('/').ok_or_else(|| broken("a path without service"))?;
            let service = pool.get_service_by_name(service).ok_or_else(|| broken(path))?;
            let found = service.methods().find(|method| method.name() == name);
            let found = found.ok_or_else(|| broken(path))?;
            let method = Method {
                path: PathAndQuery::from_static(path),
                input: found.input(),
                output: found.output(),
                streams_requests: found.is_client_streaming(),
                streams_responses: found.is_server_streaming(),
            };
            methods.insert(path, method);
        }
        Ok(Self(methods))
    }

    /// Returns the method at `path`, such as `/clew.query.v1.QueryService/Search`.
    ///
    /// # Errors
    /// Returns `UNIMPLEMENTED` if clients may call none at this path.
    pub(crate) fn get(&self, path: &str) -> Result<&Method, Failure> {
        self.0.get(path).ok_or_else(|| {
            let problem = "there is no such method; `/api/openapi.json` lists all";
            let code = Code::Unimplemented;
            Failure::new(StatusCode::NOT_FOUND, code, "UNKNOWN_METHOD", problem)
        })
    }
}

impl Method {
    /// Returns the name of the method with its service, such as `QueryService/Search`.
    pub(crate) fn name(&self) -> &str {
        let path = self.path.path();
        path.rsplit_once('.').map_or(path, |(_, name)| name)
    }

    /// Returns the refusal of a call that sends a stream of requests, which HTTP has no form for.
    pub(crate) fn needs_a_stream(&self) -> Failure {
        let problem = format!(
            "`{}` takes a stream of requests, which only gRPC can send; use `IngestService/IngestDocuments`, which takes \
             several documents at once",
            self.name()
        );
        Failure::new(StatusCode::NOT_IMPLEMENTED, Code::Unimplemented, "NEEDS_A_STREAM", problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_reach_their_methods_and_no_other() {
        let methods = Methods::of_clients().unwrap();
        let ours = METHODS.iter().filter(|(path, _)| path.starts_with(OURS)).count();
        assert_eq!(methods.0.len(), ours);
        let search = methods.get("/clew.query.v1.QueryService/Search").unwrap();
        assert_eq!(search.name(), "QueryService/Search");
        assert!(!search.streams_requests && !search.streams_responses);
        assert!(methods.get("/clew.query.v1.QueryService/Answer").unwrap().streams_responses);
        let ingest = methods.get("/clew.ingest.v1.IngestService/Ingest").unwrap();
        assert!(ingest.streams_requests);
        assert!(ingest.needs_a_stream().message.contains("`IngestService/IngestDocuments`"));
        for other in [
            "/clew.shard.v1.ShardService/Forget",
            "/clew.cluster.v1.NodeService/GetTree",
            "/grpc.health.v1.Health/Check",
            "/clew.query.v1.QueryService/search",
            "",
        ] {
            let failure = methods.get(other).err().unwrap();
            assert_eq!(failure.http, StatusCode::NOT_FOUND, "{other}");
        }
    }
}
