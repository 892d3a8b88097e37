//! Leases in Redis, which say which node has which shard.
//!
//! A lease only saves work. Correctness does not depend on it: the shard's tables are fenced in
//! storage, so two owners of one shard would refuse each other's commits. Leases can therefore be
//! simple: a key with a time to live, set if absent, renewed and deleted only by its holder, each
//! by one script. The numbers in leases come from a counter that restarts when Redis is emptied,
//! and are never compared for order.

mod registry;
mod renewal;
mod rhythm;
mod tenure;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::registry::{Registry, Slot};
#[cfg(test)]
pub(crate) use self::rhythm::Rhythm;
#[cfg(test)]
pub(crate) use self::tenure::Renewal;
pub(crate) use self::tenure::Tenure;
pub use self::tenure::{Lapse, Standing};
use crate::config::ClusterConfig;
use crate::connection::Redis;
use crate::member::{Member, Members, NodeId, Role, ShardKey};
use crate::membership::millis;
use crate::placement;

/// KEYS: lease, counter. ARGV: node, incarnation, time to live in ms. Returns whether the lease was
/// given, and the lease that exists now.
///
/// A node is given its own lease again. A lease of an earlier run, so that a node that restarts
/// does not wait for it to expire. A lease of this run, because the reply may have been lost. A
/// lease of a later run is refused, so that two processes with the same name by mistake do not take
/// turns.
const ACQUIRE: &str = r"
local held = redis.call('GET', KEYS[1])
if held then
    local node, incarnation = string.match(held, '^(%S+) (%d+) %d+$')
    if node ~= ARGV[1] or tonumber(incarnation) > tonumber(ARGV[2]) then
        return {0, held}
    end
end
local counter = redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], 604800000)
local given = ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. counter
redis.call('SET', KEYS[1], given, 'PX', ARGV[3])
return {1, given}
";

/// Number of leases that are read in one command.
const OWNERS_CHUNK: usize = 512;

/// The outcome of a request for a lease.
#[derive(Debug)]
pub enum Acquired {
    /// This node has the lease.
    Lease(Lease),
    /// Another node has the shard, or this node already has it.
    HeldBy(NodeId),
}

/// The leases of this node. Cheap to clone. Renewal stops when the last clone is dropped.
#[derive(Clone)]
pub struct Leases(Arc<Inner>);

struct Inner {
    me: NodeId,
    incarnation: u64,
    registry: Arc<Registry>,
    backing: Backing,
}

enum Backing {
    Redis {
        redis: Arc<Redis>,
        time_to_live: Duration,
        renewal: JoinHandle<()>,
    },
    /// Every shard stays where it is placed among all members.
    Placement(watch::Receiver<Arc<Members>>),
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Backing::Redis { renewal, .. } = &self.backing {
            renewal.abort();
        }
    }
}

impl Leases {
    /// Creates leases by placement alone, for a node without Redis. This node has a shard if the
    /// shard is placed on it among the retrievers of `members`, serving or not. Such a lease is
    /// never lost.
    pub fn by_placement(me: NodeId, members: watch::Receiver<Arc<Members>>) -> Self {
        let registry = Arc::new(Registry::new(false));
        let backing = Backing::Placement(members);
        Self(Arc::new(Inner { me, incarnation: 0, registry, backing }))
    }

    pub(crate) fn in_redis(redis: Arc<Redis>, config: &ClusterConfig, me: &Member) -> Self {
        let registry = Arc::new(Registry::new(true));
        let keeper = renewal::Keeper {
            redis: Arc::clone(&redis),
            registry: Arc::clone(&registry),
            time_to_live: config.lease_ttl(),
            interval: config.lease_renew(),
        };
        let time_to_live = config.lease_ttl();
        let renewal = tokio::spawn(keeper.run());
        let backing = Backing::Redis { redis, time_to_live, renewal };
        let (me, incarnation) = (me.id.clone(), me.incarnation);
        Self(Arc::new(Inner { me, incarnation, registry, backing }))
    }

    /// Requests the lease of `shard`.
    ///
    /// Check [`Lease::is_confirmed`] immediately before taking the shard over in storage: if this
    /// process was paused in between, the takeover would end the ownership of a node that was given
    /// the shard since. Call [`Lease::confirm`] immediately after the takeover.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if Redis is unreachable. The lease may have been given
    /// all the same. Then this node gets it by asking again, and another node after the time to
    /// live. Returns [`ErrorKind::WrongState`] if the key in Redis holds something else, or if no
    /// member is a retriever.
    pub async fn acquire(&self, shard: &ShardKey) -> Result<Acquired, Error> {
        let Inner { me, incarnation, registry, backing } = &*self.0;
        if registry.holds(shard) {
            return Ok(Acquired::HeldBy(me.clone()));
        }
        let (token, tenure) = match backing {
            Backing::Placement(members) => match placed(shard, &members.borrow()) {
                Some(owner) if owner.id != *me => {
                    return Ok(Acquired::HeldBy(owner.id.clone()));
                }
                Some(_) => {
                    let token = format!("{me} {incarnation} {}", registry.next_number());
                    (token, Tenure::begun(Instant::now(), Duration::MAX))
                }
                None => return Err(no_retriever(shard)),
            },
            Backing::Redis { redis, time_to_live, .. } => {
                let mut acquire = redis::pipe();
                acquire
                    .cmd("EVAL")
                    .arg(ACQUIRE)
                    .arg(2)
                    .arg(lease_key(redis, shard))
                    .arg(redis.key("lease-counter"))
                    .arg(me.as_str())
                    .arg(incarnation)
                    .arg(millis(*time_to_live));
                let sent = Instant::now();
                let ((given, lease),): ((u8, String),) =
                    redis.query("asking for a lease", &acquire).await?;
                if given == 0 {
                    return holder(&lease).map(Acquired::HeldBy).ok_or_else(|| foreign(shard));
                }
                (lease, Tenure::begun(sent, *time_to_live))
            }
        };
        // Of two concurrent requests, Redis keeps the later lease. The earlier one learns it when
        // it renews.
        let slot = Slot::new(shard.clone(), token, tenure);
        registry.insert(&slot);
        Ok(Acquired::Lease(Lease { slot, registry: Arc::clone(registry) }))
    }

    /// Returns whether shards stay where they are placed, so that there is no Redis to ask.
    pub fn are_by_placement(&self) -> bool {
        matches!(self.0.backing, Backing::Placement(_))
    }

    /// Returns the holder of the lease of each of `shards`. Shards without a holder are left out.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if Redis is unreachable.
    pub async fn owners(&self, shards: &[ShardKey]) -> Result<BTreeMap<ShardKey, NodeId>, Error> {
        let mut owners = BTreeMap::new();
        match &self.0.backing {
            Backing::Placement(members) => {
                let members = members.borrow();
                for shard in shards {
                    if let Some(owner) = placed(shard, &members) {
                        owners.insert(shard.clone(), owner.id.clone());
                    }
                }
            }
            Backing::Redis { redis, .. } => {
                for shards in shards.chunks(OWNERS_CHUNK) {
                    let mut read = redis::pipe();
                    read.cmd("MGET");
                    for shard in shards {
                        read.arg(lease_key(redis, shard));
                    }
                    let (leases,): (Vec<Option<String>>,) =
                        redis.query("asking who has which shard", &read).await?;
                    for (shard, lease) in shards.iter().zip(leases) {
                        if let Some(owner) = lease.as_deref().and_then(holder) {
                            owners.insert(shard.clone(), owner);
                        }
                    }
                }
            }
        }
        Ok(owners)
    }
}

/// The right to own a shard until it is given back, lost or dropped.
///
/// Dropping it also gives it back, without waiting for Redis.
#[derive(Debug)]
pub struct Lease {
    slot: Arc<Slot>,
    registry: Arc<Registry>,
}

impl Lease {
    /// Returns the shard.
    pub fn shard(&self) -> &ShardKey {
        &self.slot.shard
    }

    /// Returns the name of this tenure: node, incarnation and a number. Tokens of one shard are
    /// distinct as long as Redis is not emptied. They have no order.
    pub fn token(&self) -> &str {
        &self.slot.token
    }

    /// Returns the standing of the lease now, by this machine's monotonic clock. On some hosts that
    /// clock stops while a virtual machine is suspended. The lease is then overrated until the next
    /// renewal, and only the fence protects the shard.
    pub fn standing(&self) -> Standing {
        self.slot.standing(Instant::now())
    }

    /// Returns whether Redis confirmed recently that no other node has the shard. Unlike with
    /// [`Standing::Held`], another node may have had it before, see [`Self::lapse`].
    pub fn is_confirmed(&self) -> bool {
        self.slot.with_tenure(|tenure| tenure.is_confirmed(Instant::now()))
    }

    /// Returns a receiver of changes of the standing. A change may arrive late by the duration of
    /// one Redis command: ask [`Self::standing`] before acting.
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.slot.published.subscribe()
    }

    /// Returns why the standing is [`Standing::Unconfirmed`] although Redis answers: another node
    /// may have had the shard in between. Call [`Self::settle`] if the storage says that no other
    /// node has written, or once the shard was opened anew.
    pub fn lapse(&self) -> Option<Lapse> {
        self.slot.with_tenure(|tenure| tenure.lapse())
    }

    /// Records that nothing that another node wrote to the shard is missed. The storage must have
    /// been asked, or the shard opened, *after* [`Self::lapse`] was called.
    pub fn settle(&self, lapse: Lapse) {
        self.slot.with_tenure(|tenure| tenure.settle(lapse));
        self.slot.publish(Instant::now());
    }

    /// Asks Redis once more, after the shard was taken over in storage and before anything is
    /// written.
    ///
    /// Redis may have been emptied since it gave the lease, and may have given the shard to another
    /// node that opened it before this one. That node trusts its own lease and would not see what
    /// this node writes.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if another node has the shard, or if Redis does not reply
    /// before `deadline`.
    pub fn confirm(
        &self,
        deadline: Instant,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (slot, registry) = (Arc::clone(&self.slot), Arc::clone(&self.registry));
        async move {
            if !registry.is_told() {
                return Ok(());
            }
            let mut answered = slot.answered.subscribe();
            let asked = Instant::now();
            registry.renew_now();
            let answer = answered.wait_for(|latest| latest.is_some_and(|sent| sent >= asked));
            if !matches!(tokio::time::timeout_at(deadline.into(), answer).await, Ok(Ok(_))) {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "REDIS_UNAVAILABLE",
                    "Redis did not confirm in time that the shard is this node's; it is opened anew later",
                ));
            }
            if slot.standing(Instant::now()) == Standing::Lost {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "NOT_OWNER",
                    "another node was given the shard meanwhile; ask that one",
                ));
            }
            Ok(())
        }
    }

    /// Gives the shard back. The standing is [`Standing::Lost`] from the start of this call.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if Redis does not confirm it before `deadline`. Other
    /// nodes may then have to wait for the time to live.
    pub async fn give_back(self, deadline: Instant) -> Result<(), Error> {
        let mut returned = self.slot.returned.subscribe();
        self.registry.take_back(&self.slot);
        let confirmed = returned.wait_for(|returned| *returned);
        match tokio::time::timeout_at(deadline.into(), confirmed).await {
            Ok(Ok(_returned)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::new(
                ErrorKind::Unavailable,
                "REDIS_UNAVAILABLE",
                "Redis did not confirm in time that a shard was given back; it ends by itself",
            )),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.registry.take_back(&self.slot);
    }
}

fn lease_key(redis: &Redis, shard: &ShardKey) -> String {
    redis.key(format_args!("lease:{}:{}", shard.corpus, shard.shard.0))
}

/// Returns the node that a lease names.
fn holder(lease: &str) -> Option<NodeId> {
    lease.split(' ').next()?.parse().ok()
}

fn placed<'a>(shard: &ShardKey, members: &'a Members) -> Option<&'a Member> {
    placement::order(shard, members.with_role(Role::Retriever)).first().copied()
}

fn no_retriever(shard: &ShardKey) -> Error {
    Error::new(
        ErrorKind::WrongState,
        "NO_RETRIEVER",
        format!("expected a retriever among the members for `{shard}`, found none"),
    )
}

fn foreign(shard: &ShardKey) -> Error {
    Error::new(
        ErrorKind::WrongState,
        "FOREIGN_LEASE",
        format!(
            "expected the lease of `{shard}` to name a node; something else writes to the same keys \
             of Redis: give each its own `cluster.redis_prefix`"
        ),
    )
}
