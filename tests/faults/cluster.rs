//! Processes of a cluster, each on a host of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use clew_client::Client;
use clew_cluster::ClusterConfig;
use clew_runtime::peer::PeerConfig;
use clew_testkit::{RedisServer, signal};

use crate::disk::Disk;
use crate::harness::{Home, Ran, Server, eventually};
use crate::hosts::{Network, run_name};
use crate::storage::{Storage, StorageKind};

/// Services with their numbers of processes, in the order in which they start.
pub const SERVICES: [(&str, usize); 5] =
    [("encoder", 2), ("retriever", 3), ("generator", 1), ("graph-builder", 1), ("gateway", 1)];

/// Retriever whose disk can be full while that of the others is not.
pub const ON_SMALL_DISK: &str = "retriever-2";

/// Maximum time of a request while faults are inflicted on the cluster.
pub const REQUEST_PATIENCE: Duration = Duration::from_secs(15);

/// Short times, so that a test sees in seconds what takes a minute in production, and long enough
/// for ten processes on two cores.
const SHORT_TIMES: [(&str, &str); 8] = [
    ("CLEW_CLUSTER__HEARTBEAT_MS", "300"),
    ("CLEW_CLUSTER__MEMBER_TTL_MS", "2000"),
    ("CLEW_CLUSTER__LEASE_TTL_MS", "3000"),
    ("CLEW_CLUSTER__LEASE_RENEW_MS", "600"),
    ("CLEW_PEERS__KEEPALIVE_INTERVAL_MS", "500"),
    ("CLEW_PEERS__KEEPALIVE_TIMEOUT_MS", "1000"),
    ("CLEW_PEERS__RECONNECT_MAX_MS", "300"),
    ("CLEW_GATEWAY__SHARD_PATIENCE_MS", "2000"),
];

/// Times by which a cluster notices that a node is gone.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    /// [`SHORT_TIMES`].
    Short,
    /// Default times of the configuration.
    Default,
}

impl Times {
    /// Returns the times that `CLEW_FAULT_TIMES` names: `short`, the default, or `default`.
    pub fn wanted() -> Self {
        match std::env::var("CLEW_FAULT_TIMES").as_deref() {
            Err(_) | Ok("short") => Self::Short,
            Ok("default") => Self::Default,
            Ok(other) => panic!("CLEW_FAULT_TIMES is `short` or `default`, not `{other}`"),
        }
    }

    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Short => &SHORT_TIMES,
            Self::Default => &[],
        }
    }

    /// Returns the duration of a lease.
    pub fn lease(self) -> Duration {
        match self {
            Self::Short => Duration::from_secs(3),
            Self::Default => Duration::from_millis(ClusterConfig::default().lease_ttl_ms),
        }
    }

    /// Returns the maximum time until a connection counts as lost.
    pub fn notice(self) -> Duration {
        match self {
            Self::Short => Duration::from_millis(1500),
            Self::Default => {
                let PeerConfig { keepalive_interval_ms, keepalive_timeout_ms, .. } =
                    PeerConfig::default();
                Duration::from_millis(keepalive_interval_ms + keepalive_timeout_ms)
            }
        }
    }
}

/// Host of Redis.
pub const REDIS_HOST: &str = "redis";

const PORT: u16 = 7421;
const REDIS_PORT: u16 = 6379;

/// Number of ended processes whose logs a failed test shows.
const ENDED: usize = 4;

/// Cluster of real processes. The order of the fields is the order in which they are dropped:
/// processes before storage and hosts.
pub struct Cluster {
    times: Times,
    nodes: BTreeMap<String, Server>,
    ended: Vec<Server>,
    redis: RedisServer,
    storage: Storage,
    network: Network,
    home: Home,
}

impl Cluster {
    pub async fn start(on: StorageKind) -> Self {
        let mut network = Network::new();
        let folder = tempfile::Builder::new().prefix(&format!("{}-", run_name())).tempdir();
        let home = Home::in_folder(folder.unwrap());
        for name in node_names() {
            network.add(&name);
        }
        let storage = Storage::new(on, &home, &mut network);
        let host = network.add(REDIS_HOST);
        let at = SocketAddr::from((host.address, REDIS_PORT));
        let redis = RedisServer::start_at(at, &host.through()).unwrap();
        let (nodes, ended) = (BTreeMap::new(), Vec::new());
        let times = Times::wanted();
        let mut cluster = Self { times, nodes, ended, redis, storage, network, home };
        for name in node_names() {
            cluster.start_again(&name).await;
        }
        cluster
    }

    /// Starts a node that does not run, and waits until it serves.
    pub async fn start_again(&mut self, name: &str) {
        let command = self.command(name);
        let server = tokio::task::spawn_blocking(move || Server::start(command)).await.unwrap();
        self.nodes.insert(name.to_owned(), server);
    }

    fn command(&self, name: &str) -> Command {
        let (role, _number) = name.rsplit_once('-').unwrap();
        let mut command = self.home.clew();
        command.args(["serve", "--roles", role, "--listen", &self.address(name)]);
        command.arg("--model").arg(self.home.model());
        self.storage.configure(&mut command, &self.home);
        command.env("CLEW_CLUSTER__REDIS", self.redis.url());
        command.env("CLEW_CLUSTER__NODE_ID", name);
        // Insecure, because only this test can reach the network.
        command.env("CLEW_AUTH__INSECURE", "true");
        command.env("CLEW_LOG", "info").env("NO_COLOR", "1");
        command.envs(self.times.settings().iter().copied());
        let check_interval = self.storage.kind().check_interval();
        command.env("CLEW_RETRIEVER__CHECK_INTERVAL_SECS", check_interval);
        let mut through = self.network.host(name).through();
        if name == ON_SMALL_DISK && self.storage.disk().is_some() {
            through.extend(Disk::ordinary_user());
        }
        run_through(&through, &command)
    }

    fn address(&self, name: &str) -> String {
        format!("{}:{PORT}", self.network.host(name).address)
    }

    pub fn times(&self) -> Times {
        self.times
    }

    pub fn redis(&mut self) -> &mut RedisServer {
        &mut self.redis
    }

    /// Kills a node without warning.
    pub fn kill(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).expect("a node that runs");
        node.kill();
        self.note_end(node);
    }

    /// Sends a signal to a node, to stop it where it is or let it continue.
    pub fn signal(&self, name: &str, what: &str) {
        signal(self.nodes[name].id(), what).unwrap();
    }

    /// Makes a node end gracefully and starts it again.
    pub async fn restart_gracefully(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).expect("a node that runs");
        let ended = tokio::task::spawn_blocking(move || {
            let status = node.end();
            (node, status)
        });
        let (node, status) = ended.await.unwrap();
        assert!(status.success(), "{name} ended with {status}:\n{}", node.log());
        self.note_end(node);
        self.start_again(name).await;
    }

    fn note_end(&mut self, node: Server) {
        if self.ended.len() == ENDED {
            self.ended.remove(0);
        }
        self.ended.push(node);
    }

    /// Returns the disk that holds the data.
    pub fn disk(&self) -> &Disk {
        self.storage.disk().expect("a cluster on a disk")
    }

    /// Returns every file or object of the cluster.
    pub async fn contents(&self) -> Vec<(String, Vec<u8>)> {
        self.storage.contents(&self.home).await
    }

    /// Drops all packets between two hosts.
    pub fn part(&self, one: &str, other: &str) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// Drops all packets from one host to another.
    pub fn cut(&self, from: &str, to: &str) {
        self.network.host(to).turn_deaf_to(self.network.host(from));
    }

    /// Undoes every cut.
    pub fn heal_network(&self) {
        self.network.heal();
    }

    /// Returns the address for clients, which stays the same while the gateway does not run.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address("gateway-0"))
    }

    pub async fn client(&self) -> Client {
        let endpoint = self.endpoint();
        let connect = async || Client::connect(&endpoint, REQUEST_PATIENCE).await.ok();
        eventually("the gateway answers", connect).await
    }

    /// Runs `clew` against the gateway.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.home.run_at(&self.nodes["gateway-0"], arguments)
    }

    /// Ends all nodes. Each must end gracefully. The content of the disk stays.
    pub fn stop(&mut self) {
        // In reverse order of starting, so that nodes that others depend on end last.
        for name in node_names().iter().rev() {
            let Some(mut node) = self.nodes.remove(name) else { continue };
            let status = node.end();
            assert!(status.success(), "{name} ended with {status}:\n{}", node.log());
        }
    }

    /// Returns the process id of a node.
    pub fn process(&self, name: &str) -> u32 {
        self.nodes[name].id()
    }
}

/// Returns the names of all nodes, in the order in which they start.
pub fn node_names() -> Vec<String> {
    let names = |(role, count)| (0..count).map(move |number| format!("{role}-{number}"));
    SERVICES.into_iter().flat_map(names).collect()
}

/// Returns the names of the processes of one service.
pub fn processes_of(service: &str) -> Vec<String> {
    node_names().into_iter().filter(|name| name.starts_with(service)).collect()
}

/// Returns a command that runs `command` through the wrapper `through`, which runs its remaining
/// arguments as a command.
fn run_through(through: &[String], command: &Command) -> Command {
    let mut whole = Command::new(&through[0]);
    whole.args(&through[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    whole.current_dir(command.get_current_dir().expect("the test's folder"));
    whole
}
