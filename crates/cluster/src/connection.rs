//! Connections to Redis, made anew after every failure, and no wait without an end.
//!
//! The client's own managers of connections (to one server, through Sentinels, to a cluster) are not used: they hold
//! commands back while they reconnect with growing delays, and keep a connection whose peer has gone silent. Here a
//! command finds the server that has its keys and connects if need be, and all of it happens within one short limit.
//! Whatever fails has its server looked for anew by the next command, which is all that a failover or a slot that
//! moved needs: nobody may rely on what Redis holds.

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

/// Version of what the keys hold; part of every key, so that nodes of two versions never read each
/// other's.
const LAYOUT: &str = "v1";
/// Servers that a command follows its keys to at most.
const REDIRECTIONS: usize = 4;

/// A Redis that may be away.
pub(crate) struct Redis {
    address: RedisAddress,
    connector: Connector,
    /// Begins every key.
    prefix: String,
    /// Begins the keys that are used together, which a cluster has to hold at one place.
    prefix_together: String,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts connections, so that the failure of an old one does not end a newer one.
    generation: u64,
    links: BTreeMap<Place, (u64, Link)>,
    /// As the Sentinels told.
    master: Option<Place>,
    /// As a server of the cluster told.
    slots: Slots,
    /// Counts questions where keys are, so that the next one begins with another server.
    looks: usize,
}

/// The server that a command is at, and the generation of the connection to it once it is made: what is given up if
/// the command fails.
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
        // Nothing is left half done by a panic in here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Redis {
    /// Connects nowhere yet: a node starts without Redis, too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] naming the key at fault.
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

    /// The full name of a key that is used together with others.
    pub(crate) fn key(&self, name: impl std::fmt::Display) -> String {
        format!("{}:{name}", self.prefix_together)
    }

    /// The full name of a key that is used alone, and may lie anywhere; see [`Self::query_alone`].
    pub(crate) fn key_alone(&self, name: impl std::fmt::Display) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Sends commands about keys of [`Self::key`] and reads their replies, within the patience that is configured.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; whether the commands were executed is then unknown.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        doing: &str,
        commands: &Pipeline,
    ) -> Result<T, Error> {
        self.query_alone(doing, &self.prefix_together, commands).await
    }

    /// As [`Self::query`], about one `key` of [`Self::key_alone`].
    ///
    /// # Errors
    /// As [`Self::query`].
    pub(crate) async fn query_alone<T: FromRedisValue>(
        &self,
        doing: &str,
        key: &str,
        commands: &Pipeline,
    ) -> Result<T, Error> {
        let used = Tracked::default();
        self.within_patience(doing, &used, self.send(slot_of(key), commands, &used)).await
    }

    /// What [`Self::query_alone`] answers, if it does so soon; `None` otherwise. It is asked to its own end all the same,
    /// so that a server that went silent is given up: nobody else may ask it anything.
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

    /// As [`Self::query`], of one of [`Self::masters`].
    ///
    /// # Errors
    /// As [`Self::query`].
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

    /// All servers that hold keys.
    ///
    /// # Errors
    /// As [`Self::query`].
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
            // The server is there, and would say the same again.
            Ok(Err(error)) if is_refusal(&error) => return Err(unavailable.with_source(error)),
            Ok(Err(error)) => unavailable.with_source(error),
            Err(elapsed) => unavailable.with_source(elapsed),
        };
        // Also after another error of the server: one that became a replica is left by looking for its master anew.
        self.give_up(used);
        Err(error)
    }

    /// Forgets a connection and what led to it.
    fn give_up(&self, used: &Tracked) {
        let Some((place, generation)) = used.take() else { return };
        let mut state = self.lock();
        let current = state.links.get(&place).map(|(generation, _)| *generation);
        // Otherwise another has made it anew since.
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
                // It is being moved, and for this time only there.
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

    /// Where the keys of a slot are.
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
                    // What was connected to may have outlived the seeds.
                    let known = state.links.keys().filter(|place| !seeds.contains(place));
                    seeds.iter().chain(known).cloned().collect()
                };
                self.first_to_tell(servers, slot, used).await
            }
        }
    }

    /// Asks one after the other, each for a part of the patience, beginning with another each time.
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

    /// Asks one server where the keys of a slot are, and remembers it.
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

    /// Which server is the master, as one Sentinel knows.
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

    /// Which server has the slot, as one server of the cluster knows.
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

    /// The connection to a server.
    async fn link(&self, place: &Place, used: &Tracked) -> Result<Link, RedisError> {
        {
            let state = self.lock();
            if let Some((generation, link)) = state.links.get(place) {
                used.note(place, Some(*generation));
                return Ok(link.clone());
            }
        }
        used.note(place, None);
        // Boxed: a handshake is a large future, and commands hardly ever wait for one.
        let mut link = Box::pin(self.connector.connect(place, &self.address.login)).await?;
        if matches!(self.address.topology, Topology::Sentinels { .. }) {
            is_master(&mut link).await?;
        }
        let mut state = self.lock();
        state.generation += 1;
        let generation = state.generation;
        // Several may have connected at once; the last one's is kept for those who come.
        state.links.insert(place.clone(), (generation, link.clone()));
        used.note(place, Some(generation));
        Ok(link)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done by a panic in here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a server that is no master: what a Sentinel tells may be over.
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
        // It may be asked by few; then a write tells.
        Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoPerm) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Where the server says that the keys are, if that is why it refused.
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

/// The commands for a server that is being given the keys.
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

/// Whether the server answered that it does not do it for us, or does not know it.
pub(crate) fn is_refusal(error: &RedisError) -> bool {
    use redis::{ErrorKind, ServerErrorKind};
    let kinds = [ServerErrorKind::NoPerm, ServerErrorKind::ResponseError];
    kinds.iter().any(|kind| error.kind() == ErrorKind::Server(*kind))
}
