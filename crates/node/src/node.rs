//! This process as a node of a cluster.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use clew_auth::Guard;
use clew_cluster::{Cache, Cluster, Leases, Member, Members, NodeId, RedisHealth, Role};
use clew_core::Error;
use clew_runtime::peer::{PeerOptions, Reach};
use clew_runtime::pool::Pool;
use clew_runtime::tree::RunningPart;
use clew_telemetry::{Health, ProcessPhase, Severity, Trouble};
use clew_tls::Tls;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::{NodeConfig, SharedSeams, may_listen, peers, redis};

/// A function that describes the current parts of the node.
type Looking = Box<dyn Fn() -> Vec<RunningPart> + Send + Sync>;

/// The parts of a node that its tree shows.
#[derive(Clone, Default)]
pub struct Parts(Arc<Mutex<Vec<Looking>>>);

impl Parts {
    /// Adds a part. `part` is called each time the tree is built.
    pub fn add(&self, part: impl Fn() -> RunningPart + Send + Sync + 'static) {
        self.add_all(move || vec![part()]);
    }

    /// Adds parts whose number may change.
    pub fn add_all(&self, parts: impl Fn() -> Vec<RunningPart> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(parts));
    }

    fn nodes(&self) -> Vec<RunningPart> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().flat_map(|parts| parts()).collect()
    }
}

/// This process as a member of a cluster.
pub struct Node {
    cluster: Cluster,
    redis: watch::Sender<Option<RedisHealth>>,
    config: NodeConfig,
    parts: Parts,
    seams: SharedSeams,
    draining: watch::Sender<bool>,
    health: Health,
    followers: Mutex<JoinSet<()>>,
    tls: Option<Tls>,
    guard: Guard,
}

impl Node {
    /// Joins the cluster with `roles`. The other nodes reach this node at the configured address,
    /// or else at `listening`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid, and
    /// [`clew_core::ErrorKind::WrongState`] if Redis may evict leases. An unreachable Redis is not
    /// an error: the node joins when Redis can be reached.
    pub async fn join(
        config: NodeConfig,
        roles: impl IntoIterator<Item = Role>,
        listening: SocketAddr,
    ) -> Result<Self, Error> {
        config.validate()?;
        let roles: Vec<Role> = roles.into_iter().collect();
        let id = config.cluster.node_id.clone().unwrap_or_else(NodeId::generate);
        let address = match &config.cluster.advertise {
            Some(address) => address.clone(),
            None if config.tls.is_on() => format!("https://{listening}").parse()?,
            None => format!("http://{listening}").parse()?,
        };
        let tls = Tls::load(&config.tls, roles.iter().map(|role| role.as_str())).await?;
        let me = Member::starting(id, address, roles);
        // Redis is examined before other nodes can see this node.
        let redis = watch::Sender::new(redis::examine(&config.cluster).await?);
        let cluster = Box::pin(Cluster::join(&config.cluster, me)).await?;
        let quotas = cluster.quotas.clone();
        let guard = Guard::start(&config.auth, tls.is_some(), quotas).await?;
        let health = Health::default();
        let members = cluster.membership.members();
        health.watch(move || {
            let is_stale = members.borrow().is_stale();
            let problem = "Redis does not answer: the list of members stays as it was".to_owned();
            let trouble =
                Trouble { part: "redis".to_owned(), problem, severity: Severity::Degraded };
            is_stale.then_some(trouble).into_iter().collect()
        });
        let looked_at = redis.subscribe();
        health.watch(move || redis::troubles(looked_at.borrow().as_ref()));
        let mut followers = JoinSet::new();
        if config.cluster.redis.is_some() {
            followers.spawn(redis::look_after(config.cluster.clone(), redis.clone()));
        }
        Ok(Self {
            cluster,
            redis,
            config,
            parts: Parts::default(),
            seams: SharedSeams::default(),
            draining: watch::Sender::new(false),
            health,
            followers: Mutex::new(followers),
            tls,
            guard,
        })
    }

    /// Returns this node's name.
    pub fn me(&self) -> &NodeId {
        self.cluster.membership.me()
    }

    /// Returns the members as this node sees them.
    pub fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.cluster.membership.members()
    }

    /// Returns the leases of shards.
    pub fn leases(&self) -> &Leases {
        &self.cluster.leases
    }

    /// Returns the last reported health of Redis. Returns `None` if there is no Redis or it has not
    /// answered yet.
    pub fn redis(&self) -> Option<RedisHealth> {
        self.redis.borrow().clone()
    }

    /// Returns the cache that the nodes of the cluster share.
    pub fn cache(&self) -> &Cache {
        &self.cluster.cache
    }

    /// Returns the parts that the tree is built from.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Returns the seams that the roles of this node share.
    pub fn seams(&self) -> &SharedSeams {
        &self.seams
    }

    /// Returns how this node reaches other nodes that have `role`, or all nodes.
    pub fn reach(&self, role: Option<Role>) -> Reach {
        let role = role.map(Role::as_str);
        Reach { config: self.config.peers.clone(), tls: self.tls.clone(), role }
    }

    /// Rejects an address to listen on that other machines can reach, see [`may_listen`].
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming `key`, if the address is rejected.
    pub fn may_listen(&self, key: &str, address: SocketAddr) -> Result<(), Error> {
        may_listen(key, address, &self.config.tls, &self.config.auth)
    }

    /// Returns this node's certificate, if it has one.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns the guard that authenticates callers.
    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Runs a task until this value is dropped.
    pub fn keep(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }

    /// Creates a pool called `name` of the members that have `role`, or of all members, and updates
    /// it whenever the list of members changes. `service` is the full name of the gRPC service
    /// whose health decides whether a member serves. `credits` is the number of units of work that
    /// may be under way on each member.
    pub async fn pool(
        &self,
        role: Option<Role>,
        name: &'static str,
        service: &str,
        credits: u32,
    ) -> Result<Pool, Error> {
        let options = PeerOptions { service: service.to_owned(), credits, reach: self.reach(role) };
        let pool = Pool::new(name, options);
        let members = self.members();
        let now = Arc::clone(&members.borrow());
        peers::update(&pool, role, &now).await?;
        self.keep(peers::follow(pool.clone(), role, members));
        let drawn = pool.clone();
        self.parts.add(move || drawn.node());
        let seen = pool.clone();
        self.health.watch(move || peers::troubles(&seen, role));
        Ok(pool)
    }

    /// Returns the health of this node.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Returns a receiver that says whether this node is about to leave.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Tells the other nodes that this node is about to leave, and its own roles to hand over.
    pub async fn drain(&self) {
        if let Err(error) = self.cluster.membership.drain().await {
            tracing::warn!(
                error = error.chain(),
                "the others will notice later that this node drains"
            );
        }
        self.draining.send_replace(true);
        self.health.enter(ProcessPhase::Draining);
    }

    /// Leaves the cluster.
    pub async fn leave(&self) {
        if let Err(error) = self.cluster.membership.leave().await {
            tracing::warn!(
                error = error.chain(),
                "the others will notice later that this node left"
            );
        }
    }

    /// Returns the tree of the parts that run on this node.
    pub fn tree(&self) -> RunningPart {
        let state = if *self.draining.borrow() { "draining" } else { "serving" };
        let me = self.me();
        let members = self.members();
        let members = Arc::clone(&members.borrow());
        let roles = members.get(me).map(|member| &member.roles);
        let roles: Vec<_> = roles.into_iter().flatten().map(|role| role.as_str()).collect();
        RunningPart::new(format!("{me} [{}]", roles.join(", ")), "node", state)
            .with_children(self.parts.nodes())
    }
}
