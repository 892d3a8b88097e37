//! The guard before every service.

use std::sync::Arc;
use std::task::{Context, Poll};

use clew_cluster::Quotas;
use clew_core::{Clock, Error, ErrorKind, SystemClock};
use clew_proto::to_status;
use clew_tls::{ConnectInfo, Followed, NODE_NAME, NodeRoles, Proof};
use futures::future::BoxFuture;
use tonic::body::Body;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::caller::Caller;
use crate::keys::Keys;
use crate::methods::{RequiredAccess, callers, may_call, needs};
use crate::{AuthConfig, Scope};

/// The guard before a service. It identifies the caller of each request and checks what they may
/// do, before any of the request's body is read. Cheap to clone.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    keys: Option<Followed<Keys>>,
    /// Whether callers without a key may call every method except those for nodes.
    open: bool,
    /// Whether callers without a certificate count as nodes. Set if connections are in plain text,
    /// where nodes cannot prove who they are, and clients need no key.
    nodes_open: bool,
    quotas: Quotas,
    clock: Arc<dyn Clock>,
}

impl Guard {
    /// Starts a guard as configured. `encrypted` says whether connections are encrypted, so that
    /// nodes prove who they are by certificate. `quotas` count what tenants use.
    ///
    /// Without keys, anybody who connects in plain text may do everything, since callers have no
    /// way to prove who they are. Over encrypted connections only nodes are let in then, unless
    /// `auth.insecure` is set. With keys but in plain text, nobody can call the methods for nodes:
    /// no key permits them, and no caller can prove to be a node.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the keys cannot be read, or would not protect
    /// anything.
    pub async fn start(
        config: &AuthConfig,
        encrypted: bool,
        quotas: Quotas,
    ) -> Result<Self, Error> {
        config.validate()?;
        let keys = match &config.keys_file {
            Some(file) => {
                let files = vec![("auth.keys_file", file.clone())];
                let parse = |contents: &[Vec<u8>]| match contents {
                    [text] => Keys::parse(text),
                    _ => Err(Error::internal("there is one file of keys")),
                };
                Some(Followed::start("keys", files, parse).await?)
            }
            None => None,
        };
        let open = keys.is_none() && (!encrypted || config.insecure);
        let nodes_open = keys.is_none() && !encrypted;
        let clock = Arc::new(SystemClock);
        Ok(Self(Arc::new(Inner { keys, open, nodes_open, quotas, clock })))
    }

    /// Creates a guard that lets everybody in, for services that only their own process can reach.
    pub fn open() -> Self {
        Self(Arc::new(Inner {
            keys: None,
            open: true,
            nodes_open: true,
            quotas: Quotas::local(),
            clock: Arc::new(SystemClock),
        }))
    }

    /// Returns the caller that presents `key` on a connection that proves `proof`, if they may call
    /// `path`.
    fn admit(&self, path: &str, proof: &Proof, key: Option<&[u8]>) -> Result<Caller, Error> {
        let needed = needs(path);
        let inner = &self.0;
        if let (Proof::Node(roles), None) = (proof, key) {
            if may_call(roles, path) {
                return Ok(Caller::operator("node"));
            }
            if needed == Some(RequiredAccess::Node) {
                return Err(not_of_its_role(roles, path));
            }
        }
        match needed {
            Some(RequiredAccess::Nothing) => return Ok(Caller::operator("nobody")),
            Some(RequiredAccess::Node) if !inner.nodes_open => {
                let problem = "only nodes of the cluster may call this; a node shows a certificate of the cluster's authority";
                return Err(Error::new(ErrorKind::Denied, "NODES_ONLY", problem));
            }
            Some(RequiredAccess::Node) => return Ok(Caller::operator("node")),
            _ if inner.open => return Ok(Caller::operator("anybody")),
            _ => {}
        }
        let refused = || {
            let problem =
                "expected `authorization: Bearer KEY` with a key that is known and has not ended";
            Error::new(ErrorKind::Unauthenticated, "KEY_REFUSED", problem)
        };
        let keys = inner.keys.as_ref().ok_or_else(refused)?.current();
        let key = key.ok_or_else(refused)?;
        let caller = keys.find(key, inner.clock.now(), &inner.quotas).ok_or_else(refused)?;
        let lacks = |what: String| {
            let problem = format!("the key `{}` does not open this: it needs {what}", caller.key());
            Err(Error::new(ErrorKind::Denied, "SCOPE_MISSING", problem))
        };
        let opens = |scope: Scope| caller.granted().scopes.contains(&scope);
        match needed {
            Some(RequiredAccess::Key(scope)) if !opens(scope) => {
                lacks(format!("the scope `{}`", scope.as_str()))
            }
            Some(RequiredAccess::Operator(scope)) if !opens(scope) || caller.tenant().is_some() => {
                lacks(format!("the scope `{}` of an operator, without a tenant", scope.as_str()))
            }
            _ => Ok(caller),
        }
    }
}

/// Returns the error for a node that calls a method that its roles do not use.
fn not_of_its_role(roles: &NodeRoles, path: &str) -> Error {
    let callers: Vec<&str> = callers(path).iter().map(|role| role.as_str()).collect();
    let problem = format!(
        "expected a certificate for `ROLE.{NODE_NAME}` of a role that calls this ({}), got one for: {roles}",
        callers.join(", ")
    );
    Error::new(ErrorKind::Denied, "ROLE_MISSING", problem)
}

/// Returns the key in `authorization: Bearer KEY`.
fn bearer(request: &Request<Body>) -> Option<&[u8]> {
    let value = request.headers().get(AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { guard: self.clone(), inner }
    }
}

/// A service behind a guard.
#[derive(Clone)]
pub struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if needs(path).is_none() {
            let response = Status::new(Code::Unimplemented, "there is no such method").into_http();
            return Box::pin(async { Ok(response) });
        }
        let connection = request.extensions().get::<ConnectInfo>();
        let proof = connection.map_or(&Proof::Plain, |connection| &connection.proof);
        let admitted = self.guard.admit(path, proof, bearer(&request));
        if let Err(error) = &admitted {
            let address = connection.and_then(|connection| connection.address);
            tracing::info!(path, ?address, reason = error.reason(), "a request was refused");
        }
        // `poll_ready` was called on this instance, so the call must not go to the fresh clone.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        Box::pin(async move {
            let caller = match admitted {
                Ok(caller) => caller,
                Err(error) => return Ok(to_status(&error).into_http()),
            };
            if let Err(error) = caller.take_request().await {
                return Ok(to_status(&error).into_http());
            }
            // No handler needs the key, and it might end up in a log.
            request.headers_mut().remove(AUTHORIZATION);
            request.extensions_mut().insert(caller);
            inner.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ApiKey;

    const SEARCH: &str = "/clew.query.v1.QueryService/Search";
    const INGEST: &str = "/clew.ingest.v1.IngestService/Ingest";
    const DRAIN: &str = "/clew.cluster.v1.ClusterService/DrainNode";
    const SHARD: &str = "/clew.shard.v1.ShardService/Forget";
    const SUMMARISE: &str = "/clew.graph_builder.v1.GraphBuilderService/Summarise";
    const HEALTH: &str = "/grpc.health.v1.Health/Check";

    async fn guard(text: Option<&str>, encrypted: bool) -> Guard {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.toml");
        let keys_file = text.map(|text| {
            std::fs::write(&file, text).unwrap();
            file
        });
        let config = AuthConfig { keys_file, insecure: false };
        Guard::start(&config, encrypted, Quotas::local()).await.unwrap()
    }

    fn node(role: &str) -> Proof {
        Proof::Node(NodeRoles::named([role]))
    }

    fn reason(guard: &Guard, path: &str, proof: Proof, key: Option<&ApiKey>) -> String {
        match guard.admit(path, &proof, key.map(|key| key.reveal().as_bytes())) {
            Ok(_) => "let in".to_owned(),
            Err(error) => error.reason().to_owned(),
        }
    }

    #[tokio::test]
    async fn a_key_opens_what_its_scopes_say() {
        let (reader, writer, operator) =
            (ApiKey::generate().unwrap(), ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        let entry = |name: &str, key: &ApiKey, rest: &str| {
            format!("[[key]]\nname = '{name}'\nhash = '{}'\n{rest}\n", key.hash())
        };
        let text = entry("reader", &reader, "tenant = 'a'\nscopes = ['read']")
            + &entry("writer", &writer, "tenant = 'a'\nscopes = ['write', 'admin']")
            + &entry("operator", &operator, "scopes = ['read', 'write', 'admin']");
        let guard = guard(Some(&text), true).await;
        let key = |path, key| reason(&guard, path, Proof::Encrypted, Some(key));
        assert_eq!([key(SEARCH, &reader), key(INGEST, &reader)], ["let in", "SCOPE_MISSING"]);
        assert_eq!([key(SEARCH, &writer), key(INGEST, &writer)], ["SCOPE_MISSING", "let in"]);
        assert_eq!([key(DRAIN, &writer), key(DRAIN, &operator)], ["SCOPE_MISSING", "let in"]);
        assert_eq!(key(SHARD, &operator), "NODES_ONLY");
        assert_eq!(key(SEARCH, &ApiKey::generate().unwrap()), "KEY_REFUSED");
        assert_eq!(reason(&guard, SEARCH, Proof::Client, None), "KEY_REFUSED");
        assert_eq!(reason(&guard, HEALTH, Proof::Encrypted, None), "let in");
        assert_eq!(reason(&guard, SHARD, node("gateway"), None), "let in");
        // A node counts as an ordinary client unless its role calls the service.
        assert_eq!(reason(&guard, SEARCH, node("gateway"), None), "KEY_REFUSED");
        assert_eq!(reason(&guard, SEARCH, node("gateway"), Some(&reader)), "let in");
        assert_eq!(reason(&guard, SUMMARISE, node("retriever"), None), "let in");
        assert_eq!(reason(&guard, SUMMARISE, node("encoder"), None), "KEY_REFUSED");
    }

    #[tokio::test]
    async fn a_node_of_another_role_is_refused_with_the_roles_that_call() {
        let guard = guard(None, true).await;
        for role in ["retriever", "encoder", "graph-builder", "generator"] {
            let refused = guard.admit(SHARD, &node(role), None).unwrap_err();
            assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Denied, "ROLE_MISSING"));
            assert!(refused.message().contains("(gateway)"), "{}", refused.message());
            assert!(refused.message().ends_with(role), "{}", refused.message());
            assert_eq!(reason(&guard, HEALTH, node(role), None), "let in");
        }
        // A certificate issued before roles were named.
        assert_eq!(reason(&guard, SHARD, Proof::Node(NodeRoles::default()), None), "let in");
    }

    #[tokio::test]
    async fn without_keys_only_plain_text_lets_everybody_in() {
        let plain = guard(None, false).await;
        for path in [SEARCH, INGEST, DRAIN, SHARD, HEALTH] {
            assert_eq!(reason(&plain, path, Proof::Plain, None), "let in", "{path}");
        }
        let encrypted = guard(None, true).await;
        assert_eq!(reason(&encrypted, SEARCH, Proof::Encrypted, None), "KEY_REFUSED");
        assert_eq!(reason(&encrypted, SHARD, Proof::Client, None), "NODES_ONLY");
        assert_eq!(reason(&encrypted, SHARD, node("gateway"), None), "let in");
    }

    #[tokio::test]
    async fn with_keys_in_plain_text_nobody_is_a_node() {
        let operator = ApiKey::generate().unwrap();
        let text =
            format!("[[key]]\nname = 'o'\nhash = '{}'\nscopes = ['read']\n", operator.hash());
        let guard = guard(Some(&text), false).await;
        assert_eq!(reason(&guard, SHARD, Proof::Plain, None), "NODES_ONLY");
        assert_eq!(reason(&guard, SHARD, Proof::Plain, Some(&operator)), "NODES_ONLY");
        assert_eq!(reason(&guard, SEARCH, Proof::Plain, None), "KEY_REFUSED");
        assert_eq!(reason(&guard, SEARCH, Proof::Plain, Some(&operator)), "let in");
    }

    #[test]
    fn a_key_is_what_follows_the_word_bearer() {
        let request = |value: &str| {
            Request::builder().header("authorization", value).body(Body::empty()).unwrap()
        };
        assert_eq!(bearer(&request("Bearer k")), Some(&b"k"[..]));
        assert_eq!(bearer(&request("bearer  k ")), Some(&b"k"[..]));
        for other in ["k", "Basic k", "Beare", ""] {
            assert_eq!(bearer(&request(other)), None, "{other}");
        }
    }
}
