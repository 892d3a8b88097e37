//! Processes of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use clew_client::Client;
use clew_testkit::RedisServer;

use crate::harness::{Home, PATIENCE, Ran, Server, eventually};
use crate::other_models::write_narrow_bert;

/// Short times, so that a test sees in seconds what takes a minute in production.
const TIMES: [(&str, &str); 7] = [
    ("CLEW_CLUSTER__HEARTBEAT_MS", "200"),
    ("CLEW_CLUSTER__MEMBER_TTL_MS", "1200"),
    ("CLEW_CLUSTER__LEASE_TTL_MS", "1800"),
    ("CLEW_CLUSTER__LEASE_RENEW_MS", "400"),
    ("CLEW_PEERS__KEEPALIVE_INTERVAL_MS", "300"),
    ("CLEW_PEERS__KEEPALIVE_TIMEOUT_MS", "700"),
    ("CLEW_PEERS__RECONNECT_MAX_MS", "300"),
];

/// Cluster with a gateway, a generator, a graph builder, an encoder, some retrievers and Redis.
pub struct Cluster {
    home: Home,
    pub redis: RedisServer,
    nodes: BTreeMap<String, Server>,
    /// Address of each node, so that it comes back at the same one.
    addresses: BTreeMap<String, String>,
    /// Additional settings of the nodes, in which `{role}` stands for the role of each node.
    settings: Vec<(&'static str, String)>,
    /// Folders of the encoder's model, and of a second one.
    pub models: (PathBuf, Option<PathBuf>),
    /// Nodes that run the next release from their next start on.
    pub of_next_release: BTreeSet<String>,
}

impl Cluster {
    pub async fn start(retrievers: usize) -> Self {
        Self::start_with(retrievers, Vec::new()).await
    }

    pub async fn start_with(retrievers: usize, settings: Vec<(&'static str, String)>) -> Self {
        let redis = RedisServer::start().unwrap();
        let (nodes, addresses) = (BTreeMap::new(), BTreeMap::new());
        let home = Home::new();
        let models = (home.model(), None);
        let of_next_release = BTreeSet::new();
        let mut cluster = Self { home, redis, nodes, addresses, settings, models, of_next_release };
        cluster.start_again("encoder-0").await;
        for retriever in 0..retrievers {
            cluster.start_again(&format!("retriever-{retriever}")).await;
        }
        cluster.start_again("generator-0").await;
        cluster.start_again("graph-builder-0").await;
        cluster.start_again("gateway-0").await;
        cluster
    }

    /// Starts a node that does not run.
    pub async fn start_again(&mut self, name: &str) {
        let command = self.command(name);
        let server = tokio::task::spawn_blocking(move || Server::start(command)).await.unwrap();
        let (_, address) = server.endpoint.split_once("://").unwrap();
        let address = address.to_owned();
        self.addresses.insert(name.to_owned(), address);
        self.nodes.insert(name.to_owned(), server);
    }

    /// Ends a node gracefully, so that it hands over its shards, and starts it again.
    pub async fn restart(&mut self, name: &str) {
        let node = self.nodes.remove(name).expect("a node that runs");
        let ended = tokio::task::spawn_blocking(move || node.terminate()).await.unwrap();
        assert!(ended.success(), "{name}");
        self.start_again(name).await;
    }

    /// Returns the command that starts a node.
    pub fn command(&self, name: &str) -> Command {
        let (role, _) = name.rsplit_once('-').unwrap();
        let listen = self.addresses.get(name).map_or("127.0.0.1:0", String::as_str);
        let mut command = self.home.clew();
        command.args(["serve", "--roles", role, "--listen", listen]);
        let (model, next_model) = &self.models;
        command.arg("--data-dir").arg(self.home.data_dir()).arg("--model").arg(model);
        command.envs(next_model.iter().map(|model| ("CLEW_ENCODER__NEXT_MODEL", model)));
        command.env("CLEW_CLUSTER__REDIS", self.redis.url());
        command.env("CLEW_CLUSTER__NODE_ID", name);
        command.env("CLEW_LOG", "info");
        if self.of_next_release.contains(name) {
            command.env("NEXT_RELEASE_OF_CLEW", "1");
        }
        command.envs(TIMES);
        command
            .envs(self.settings.iter().map(|(key, value)| (*key, value.replace("{role}", role))));
        command
    }

    /// Kills a node without warning.
    pub fn kill(&mut self, name: &str) {
        println!("kill {name}");
        let mut node = self.nodes.remove(name).expect("a node that runs");
        node.kill();
    }

    /// Returns all running nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.nodes.values()
    }

    pub fn gateway(&self) -> &Server {
        self.node("gateway-0")
    }

    /// Returns a running node.
    pub fn node(&self, name: &str) -> &Server {
        &self.nodes[name]
    }

    /// Returns the endpoint of a node.
    pub fn endpoint(&self, name: &str) -> String {
        format!("http://{}", self.addresses[name])
    }

    pub async fn client(&self) -> Client {
        let endpoint = self.endpoint("gateway-0");
        eventually("the gateway answers", async || Client::connect(&endpoint, PATIENCE).await.ok())
            .await
    }

    /// Returns the data directory that all nodes share.
    pub fn data_dir(&self) -> PathBuf {
        self.home.data_dir()
    }

    /// Writes the folder of a model whose vectors have another dimension.
    pub fn other_model(&self) -> PathBuf {
        let folder = self.home.path("other-model");
        write_narrow_bert(&folder);
        folder
    }

    /// Writes a file into the cluster's folder and returns its path.
    pub fn write(&self, name: &str, content: &str) -> String {
        self.home.write(name, content).to_string_lossy().into_owned()
    }

    /// Runs `clew` against the gateway.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.home.run_at(self.gateway(), arguments)
    }

    /// Ends all nodes. Each must end gracefully.
    pub fn stop(mut self) {
        let order = ["gateway-0", "generator-0", "graph-builder-0"];
        let mut names: Vec<String> = self.nodes.keys().cloned().collect();
        names.sort_by_key(|name| !order.contains(&name.as_str()));
        // The encoder ends last, because the others embed with it.
        names.sort_by_key(|name| name == "encoder-0");
        for name in names {
            let Some(node) = self.nodes.remove(&name) else { continue };
            let log = node.log();
            assert!(node.terminate().success(), "{name}:\n{log}");
        }
    }
}
