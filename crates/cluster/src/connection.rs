//! Connections to Redis that are re-established after every failure, with a limit on every wait.
//!
//! The connection managers of the `redis` crate (for one server, Sentinels, or a cluster) are not
//! used. They hold commands back while they reconnect with growing delays, and they keep a
//! connection whose peer has gone silent. Here, a command finds the server that has its keys and
//! connects if necessary, all within one short time limit. After a failure, the next command looks
//! up the server anew. That is sufficient after a failover or a moved slot: nothing may rely on the
//! contents of Redis.

mod address;
mod link;
mod slots;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use redis::{FromRedisValue, Pipeline, RedisConnectionInfo, RedisError, ServerErrorKind, Value};

use self::address::Topology;
pub(crate) use self::address::{Place, RedisAddress};
use self::link::{Connector, Link};
use self::slots::{Slots, redirection, slot_of};
use crate::config::ClusterConfig;

/// Version of the data layout. It is part of every key, so that nodes of two versions never read
/// each other's keys.
const LAYOUT: &str = "v1";
/// Maximum number of servers that a command is sent to while it follows redirections.
const REDIRECTIONS: usize = 4;

/// A Redis that may be unreachable.
pub(crate) struct Redis {
    address: RedisAddress,
    connector: Connector,
    /// Prefix of every key.
    prefix: String,
    /// Prefix of keys that one command uses together. A Redis Cluster must hold them in one slot.
    prefix_together: String,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of connections made so far, so that the failure of an old connection does not close a
    /// newer one.
    generation: u64,
    links: BTreeMap<Place, (u64, Link)>,
    /// The master, as the Sentinels reported it.
    master: Option<Place>,
    /// The slot table, as a server of the cluster reported it.
    slots: Slots,
    /// Number of lookups so far, so that the next one starts with another server.
    looks: usize,
}

/// The server that a command currently uses, and the generation of the connection to it once there
/// is one. If the command fails, this connection is discarded.
#[derive(Default)]
struct Tracked(Mutex<Option<(Place, Option<u64>)>>);

impl Tracked {
    fn note(&self, place: &Place, generation: Option<u64>) {
        *self.lock() = Some((place.clone(), generation));
    }

    fn take(&self) -> Option<(Place, Option<u64>)> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Place, Option<u64>)>> {
        // A panic while the lock is held leaves no partial change, so poisoning can be ignored.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Redis {
    /// Creates a client without connecting, so that a node also starts while Redis is unreachable.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`], naming the offending key, if the address is invalid or
    /// a certificate file cannot be used.
    pub(crate) async fn new(config: &ClusterConfig) -> Result<Option<Self>, Error> {
        let Some(url) = &config.redis else { return Ok(None) };
        let address = RedisAddress::parse(url.reveal());
        let address = address.map_err(|problem| Error::invalid("cluster.redis", problem))?;
        let connector = Connector::new(address.is_encrypted, &config.redis_tls).await?;
        let prefix = format!("{}:{LAYOUT}", config.redis_prefix);
        let prefix_together =
            if address.is_cluster() { format!("{{{prefix}}}") } else { prefix.clone() };
        let patience = config.redis_patience();
        let state = Mutex::default();
        Ok(Some(Self { address, connector, prefix, prefix_together, patience, state }))
    }

    /// Returns the full name of a key that is used together with others.
    pub(crate) fn key(&self, name: impl std::fmt::Display) -> String {
        format!("{}:{name}", self.prefix_together)
    }

    /// Returns the full name of a key that is used alone and may lie in any slot, see
    /// [`Self::query_alone`].
    pub(crate) fn key_alone(&self, name: impl std::fmt::Display) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Sends commands on keys made by [`Self::key`] and reads their replies, within the configured
    /// patience.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if Redis does not answer in time or refuses the commands.
    /// It is then unknown whether the commands were executed.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        doing: &str,
        commands: &Pipeline,
    ) -> Result<T, Error> {
        self.query_alone(doing, &self.prefix_together, commands).await
    }

    /// Does the same as [`Self::query`] for one `key` made by [`Self::key_alone`].
    ///
    /// # Errors
    /// Returns the same errors as [`Self::query`].
    pub(crate) async fn query_alone<T: FromRedisValue>(
        &self,
        doing: &str,
        key: &str,
        commands: &Pipeline,
    ) -> Result<T, Error> {
        let used = Tracked::default();
        self.within_patience(doing, &used, self.send(slot_of(key), commands, &used)).await
    }

    /// Returns the reply of [`Self::query_alone`] if it comes within `soon`, or `None`. The query
    /// itself continues to its own time limit, so that the connection to a server that went silent
    /// is discarded: there may be no other caller that would notice.
    pub(crate) async fn query_soon<T: FromRedisValue + Send + 'static>(
        self: &Arc<Self>,
        doing: &'static str,
        key: String,
        commands: Pipeline,
        soon: Duration,
    ) -> Option<T> {
        let redis = Arc::clone(self);
        let asked = tokio::spawn(async move { redis.query_alone(doing, &key, &commands).await });
        tokio::time::timeout(soon, asked).await.ok()?.ok()?.ok()
    }

    /// Does the same as [`Self::query`] on one of the [`Self::masters`].
    ///
    /// # Errors
    /// Returns the same errors as [`Self::query`].
    pub(crate) async fn query_at<T: FromRedisValue>(
        &self,
        doing: &str,
        master: &Place,
        commands: &Pipeline,
    ) -> Result<T, Error> {
        let used = Tracked::default();
        let asking = async {
            let mut link = self.link(master, &used).await?;
            commands.query_async(&mut link.connection).await
        };
        self.within_patience(doing, &used, asking).await
    }

    /// Returns all servers that hold keys.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::query`].
    pub(crate) async fn masters(&self) -> Result<Vec<Place>, Error> {
        let used = Tracked::default();
        let locating = self.locate(slot_of(&self.prefix_together), &used);
        let place = self.within_patience("asking which servers there are", &used, locating).await?;
        Ok(match &self.address.topology {
            Topology::One(_) | Topology::Sentinels { .. } => vec![place],
            Topology::Cluster { .. } => self.lock().slots.masters(),
        })
    }

    async fn within_patience<T>(
        &self,
        doing: &str,
        used: &Tracked,
        work: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, Error> {
        let done = tokio::time::timeout(self.patience, work).await;
        let unavailable = Error::new(
            ErrorKind::Unavailable,
            "REDIS_UNAVAILABLE",
            format!("Redis did not answer while {doing}; retry"),
        );
        let error = match done {
            Ok(Ok(reply)) => return Ok(reply),
            // The server works and would give the same answer again, so its connection is kept.
            Ok(Err(error)) if is_refusal(&error) => return Err(unavailable.with_source(error)),
            Ok(Err(error)) => unavailable.with_source(error),
            Err(elapsed) => unavailable.with_source(elapsed),
        };
        // The connection is discarded after any other error of the server, too: if the server
        // became a replica, the next command has to look up its master anew.
        self.give_up(used);
        Err(error)
    }

    /// Discards a connection and the topology that led to it.
    fn give_up(&self, used: &Tracked) {
        let Some((place, generation)) = used.take() else { return };
        let mut state = self.lock();
        let current = state.links.get(&place).map(|(generation, _)| *generation);
        // If the generations differ, another command has reconnected since.
        if current == generation {
            state.links.remove(&place);
            state.master = None;
            state.slots = Slots::default();
        }
    }

    async fn send<T: FromRedisValue>(
        &self,
        slot: u16,
        commands: &Pipeline,
        used: &Tracked,
    ) -> Result<T, RedisError> {
        let mut place = self.locate(slot, used).await?;
        let mut asking = None;
        for _ in 0..REDIRECTIONS {
            let mut link = self.link(&place, used).await?;
            let sent = asking.as_ref().unwrap_or(commands);
            let error = match sent.query_async(&mut link.connection).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let Some((kind, told)) = redirected(&error) else { return Err(error) };
            let Some((slot, to)) = redirection(&told, &place) else { return Err(error) };
            asking = match kind {
                // The slot is being moved: only this command is redirected.
                ServerErrorKind::Ask => Some(asked_for(commands)),
                _ => {
                    self.lock().slots.moved(slot, to.clone());
                    None
                }
            };
            place = to;
        }
        Err(refusal("the keys are moved on and on"))
    }

    /// Returns the server that has the keys of a slot.
    async fn locate(&self, slot: u16, used: &Tracked) -> Result<Place, RedisError> {
        match &self.address.topology {
            Topology::One(place) => Ok(place.clone()),
            Topology::Sentinels { sentinels, .. } => {
                if let Some(place) = self.lock().master.clone() {
                    return Ok(place);
                }
                self.first_to_tell(sentinels.clone(), slot, used).await
            }
            Topology::Cluster { seeds } => {
                let servers = {
                    let state = self.lock();
                    if let Some(place) = state.slots.owner(slot) {
                        return Ok(place.clone());
                    }
                    // Servers that were connected earlier may have outlived the seeds.
                    let known = state.links.keys().filter(|place| !seeds.contains(place));
                    seeds.iter().chain(known).cloned().collect()
                };
                self.first_to_tell(servers, slot, used).await
            }
        }
    }

    /// Asks the servers one after the other, each for a part of the patience. Each call starts with
    /// another server.
    async fn first_to_tell(
        &self,
        mut servers: Vec<Place>,
        slot: u16,
        used: &Tracked,
    ) -> Result<Place, RedisError> {
        let first = {
            let mut state = self.lock();
            state.looks = state.looks.wrapping_add(1);
            state.looks % servers.len().max(1)
        };
        servers.rotate_left(first);
        let mut failure = refusal("no server is named");
        for server in servers {
            let told = tokio::time::timeout(self.patience / 3, self.ask(&server, slot, used)).await;
            failure = match told {
                Ok(Ok(place)) => return Ok(place),
                Ok(Err(error)) => error,
                Err(elapsed) => std::io::Error::from(elapsed).into(),
            };
            self.give_up(used);
        }
        Err(failure)
    }

    /// Asks one server where the keys of a slot are, and remembers the answer.
    async fn ask(&self, server: &Place, slot: u16, used: &Tracked) -> Result<Place, RedisError> {
        match &self.address.topology {
            Topology::One(_) => Ok(server.clone()),
            Topology::Sentinels { login, master, .. } => {
                let place = self.ask_sentinel(server, login, master).await?;
                self.lock().master = Some(place.clone());
                Ok(place)
            }
            Topology::Cluster { .. } => self.ask_server(server, slot, used).await,
        }
    }

    /// Asks one Sentinel which server is the master.
    async fn ask_sentinel(
        &self,
        sentinel: &Place,
        login: &RedisConnectionInfo,
        master: &str,
    ) -> Result<Place, RedisError> {
        let mut link = Box::pin(self.connector.connect(sentinel, login)).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
        let told: Option<(String, u16)> = ask.query_async(&mut link.connection).await?;
        let (host, port) =
            told.ok_or_else(|| refusal("the Sentinel knows no master of that name"))?;
        Ok(Place::Tcp(host, port))
    }

    /// Asks one server of the cluster which server has the slot.
    async fn ask_server(
        &self,
        server: &Place,
        slot: u16,
        used: &Tracked,
    ) -> Result<Place, RedisError> {
        let mut link = self.link(server, used).await?;
        let told: Value =
            redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut link.connection).await?;
        let slots = Slots::read(&told, server);
        let owner = slots.owner(slot).cloned();
        let owner = owner.ok_or_else(|| refusal("no server of the cluster has the keys"))?;
        self.lock().slots = slots;
        Ok(owner)
    }

    /// Returns the connection to a server, and connects if there is none.
    async fn link(&self, place: &Place, used: &Tracked) -> Result<Link, RedisError> {
        {
            let state = self.lock();
            if let Some((generation, link)) = state.links.get(place) {
                used.note(place, Some(*generation));
                return Ok(link.clone());
            }
        }
        used.note(place, None);
        // Boxed because the handshake is a large future and commands rarely wait for one.
        let mut link = Box::pin(self.connector.connect(place, &self.address.login)).await?;
        if matches!(self.address.topology, Topology::Sentinels { .. }) {
            is_master(&mut link).await?;
        }
        let mut state = self.lock();
        state.generation += 1;
        let generation = state.generation;
        // Several commands may have connected at once. Later commands use the last connection.
        state.links.insert(place.clone(), (generation, link.clone()));
        used.note(place, Some(generation));
        Ok(link)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held leaves no partial change, so poisoning can be ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rejects a server that is not a master: the answer of a Sentinel may be outdated.
async fn is_master(link: &mut Link) -> Result<(), RedisError> {
    let role: Result<Value, RedisError> =
        redis::cmd("ROLE").query_async(&mut link.connection).await;
    match role {
        Ok(Value::Array(parts))
            if parts.first() == Some(&Value::BulkString(b"master".to_vec())) =>
        {
            Ok(())
        }
        Ok(_) => Err(refusal("the server that a Sentinel named is no master")),
        // The login may lack the permission for `ROLE`. In that case a failing write reveals a
        // replica.
        Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoPerm) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the kind and the target of a redirection, if the error is one.
fn redirected(error: &RedisError) -> Option<(ServerErrorKind, String)> {
    let errors = error.clone().into_server_errors()?;
    let (_, error) = errors.first()?;
    let kind = error.kind()?;
    let is_redirection = matches!(kind, ServerErrorKind::Moved | ServerErrorKind::Ask);
    if !is_redirection {
        return None;
    }
    Some((kind, error.details()?.to_owned()))
}

/// Returns the commands with `ASKING` before each, for a server that is taking over the slot.
fn asked_for(commands: &Pipeline) -> Pipeline {
    let mut asking = redis::pipe();
    for command in commands.cmd_iter() {
        asking.add_command(redis::cmd("ASKING")).ignore();
        asking.add_command(command.clone());
    }
    asking
}

fn refusal(why: &'static str) -> RedisError {
    RedisError::from((redis::ErrorKind::Client, why))
}

/// Returns whether the server answered that it does not permit or does not know the command.
pub(crate) fn is_refusal(error: &RedisError) -> bool {
    use redis::{ErrorKind, ServerErrorKind};
    let kinds = [ServerErrorKind::NoPerm, ServerErrorKind::ResponseError];
    kinds.iter().any(|kind| error.kind() == ErrorKind::Server(*kind))
}
