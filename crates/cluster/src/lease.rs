//! Which node has which shard: leases in Redis.
//!
//! A lease saves work, nothing else: two owners of one shard would refuse each other's commits, since the
//! shard's tables are fenced in storage. So the leases may be as simple as they are: a key with a time to
//! live, set if absent, renewed and deleted only by its holder, each by one script. Their numbers come
//! from a counter that starts over when Redis is emptied, and nobody compares them.

mod registry;
mod renewal;
mod tenure;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::registry::{Registry, Slot};
pub(crate) use self::tenure::Tenure;
pub use self::tenure::{Lapse, Standing};
use crate::config::ClusterConfig;
use crate::connection::Redis;
use crate::member::{Member, Members, NodeId, Role, ShardKey};
use crate::membership::millis;
use crate::placement;

/// KEYS: lease, counter. ARGV: node, incarnation, time to live in ms. Returns whether it was given, and
/// the lease that is there now.
///
/// A node's own lease is given again: of an earlier run, which a node that restarts need not wait out,
/// and of this run, whose reply may have been lost. A later run's is not, so that two processes that were
/// given one name by mistake do not take turns.
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

/// Leases that are asked about in one command.
const OWNERS_CHUNK: usize = 512;

/// The outcome of asking for a lease.
#[derive(Debug)]
pub enum Acquired {
    /// It is this node's.
    Lease(Lease),
    /// Another has the shard, or this node has it already.
    HeldBy(NodeId),
}

/// The leases of this node. Cheap to clone; when the last clone is dropped they are renewed no more.
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
    /// Every shard is where it is placed among all members, for good.
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
    /// Leases by placement alone, for a node without Redis: a shard is this node's if it is placed on it
    /// among the retrievers of `members`, serving or not, and its lease is never lost.
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

    /// Asks for the lease of `shard`.
    ///
    /// Right before the shard is taken over in storage, its standing has to be [`Standing::Held`] still:
    /// a process that was stopped in between would end the ownership of whoever was given it since. Right after it,
    /// the lease has to be asked about once more, see [`Lease::confirm`].
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis is away. The lease may have been given all the same; asking
    /// again gives it to this node, and to another after its time to live.
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
        // Of two requests at once, Redis counts the later one, which the earlier finds out by renewing.
        let slot = Slot::new(shard.clone(), token, tenure);
        registry.insert(&slot);
        Ok(Acquired::Lease(Lease { slot, registry: Arc::clone(registry) }))
    }

    /// Whether shards are where they are placed, for good, so that there is nothing to ask Redis for.
    pub fn are_by_placement(&self) -> bool {
        matches!(self.0.backing, Backing::Placement(_))
    }

    /// Who has the lease of each of `shards`; a shard that nobody has is left out.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis is away.
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

/// A shard that is this node's until it is given back, lost or dropped.
///
/// Dropping it gives it back, too, without waiting for Redis to know.
#[derive(Debug)]
pub struct Lease {
    slot: Arc<Slot>,
    registry: Arc<Registry>,
}

impl Lease {
    /// The shard.
    pub fn shard(&self) -> &ShardKey {
        &self.slot.shard
    }

    /// Names this tenure: node, incarnation and a number. Tokens of one shard differ as long as Redis is
    /// not emptied, and have no order.
    pub fn token(&self) -> &str {
        &self.slot.token
    }

    /// What the lease is worth now, by this machine's monotonic clock. That clock stands still while
    /// some hosts suspend a virtual machine: then the lease is overrated until the next renewal, and the
    /// fence has to hold.
    pub fn standing(&self) -> Standing {
        self.slot.standing(Instant::now())
    }

    /// Tells of changes of the standing. It may be late by as long as one command to Redis takes: before
    /// acting, ask [`Self::standing`].
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.slot.published.subscribe()
    }

    /// Why the standing is [`Standing::Unconfirmed`] although Redis answers: another may have had the
    /// shard in between. If the storage says that nobody else has written, [`Self::settle`] it.
    pub fn lapse(&self) -> Option<Lapse> {
        self.slot.with_tenure(|tenure| tenure.lapse())
    }

    /// Notes that nobody else has written to the shard, as the storage said when it was asked *after*
    /// [`Self::lapse`] was.
    pub fn settle(&self, lapse: Lapse) {
        self.slot.with_tenure(|tenure| tenure.settle(lapse));
        self.slot.publish(Instant::now());
    }

    /// Asks Redis once more, after the shard was taken over in storage and before anything is written.
    ///
    /// Redis may have been emptied since it gave the lease, and may have given the shard to another who opened it
    /// before this node did: they believe their own lease, and would not see what was written here.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if another has the shard, or if Redis did not reply until `deadline`.
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
    /// [`ErrorKind::Unavailable`] if Redis did not confirm it until `deadline`: the others may have to
    /// wait for the time to live.
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

/// The node that a lease names.
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
