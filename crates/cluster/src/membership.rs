//! Membership: each node repeatedly announces itself and reads which other nodes are there. Without
//! Redis, the members come from a list and from DNS.
//!
//! Two keys in Redis hold all members: a hash with a record of each, and a sorted set with the time
//! at which each record expires, by Redis' own clock. One script per heartbeat writes this node's
//! record, removes expired records and reads the rest, so that a heartbeat is one atomic round
//! trip. A key with its own time to live for each member would need a scan of all keys in a Redis
//! that may hold much else, or an index like this one.

mod observed;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clew_core::Error;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

pub(crate) use self::observed::{Observed, Record};
use crate::config::ClusterConfig;
use crate::connection::Redis;
use crate::discovery::keep_looking;
use crate::member::{Contact, Member, MemberState, Members, NodeId};

/// KEYS: records, expiry times. ARGV: id, incarnation, record, time to live in ms. Returns whether
/// this record was refused because a later run of the node has one, and all records.
const HEARTBEAT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
    redis.call('HDEL', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
end
local present = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local superseded = (tonumber(string.match(present, '^(%d+) ')) or 0) > tonumber(ARGV[2])
if not superseded then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
    redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[1])
    redis.call('PEXPIRE', KEYS[1], 2 * ARGV[4])
    redis.call('PEXPIRE', KEYS[2], 2 * ARGV[4])
end
return {superseded and 1 or 0, redis.call('HVALS', KEYS[1])}
";

/// Membership of this node. Dropping it ends the heartbeats; [`Self::leave`] tells the other nodes.
pub struct Membership {
    me: NodeId,
    members: watch::Sender<Arc<Members>>,
    heart: Option<Heart>,
    /// Lookups of service names. They end when this value is dropped.
    lookups: JoinSet<()>,
}

impl Membership {
    /// Creates the membership of a node that knows all `members` from the start, including itself.
    pub fn fixed(me: NodeId, members: Members) -> Self {
        let members = watch::Sender::new(Arc::new(members));
        Self { me, members, heart: None, lookups: JoinSet::new() }
    }

    /// Creates the membership of a node that knows some members, including itself, and finds the
    /// others by the DNS names of their services.
    pub(crate) fn found_by_name(me: NodeId, known: Vec<Member>, config: &ClusterConfig) -> Self {
        let mut membership = Self::fixed(me, Members::fixed(known.clone()));
        if !config.services.is_empty() {
            let (services, every) = (config.services.clone(), config.member_ttl());
            let shown = membership.members.clone();
            membership.lookups.spawn(keep_looking(services, known, every, shown));
        }
        membership
    }

    /// Joins the members in Redis as `me`. If Redis is unreachable, the node starts alone with a
    /// stale view and joins when Redis can be reached.
    pub(crate) async fn join(redis: Arc<Redis>, config: &ClusterConfig, me: Member) -> Self {
        let contact = Arc::new(Contact::never());
        let first = Members::observed([me.clone()], Arc::clone(&contact), config.member_ttl());
        let members = watch::Sender::new(Arc::new(first));
        let pulse = Arc::new(Pulse {
            redis,
            heartbeat: config.heartbeat(),
            member_ttl: config.member_ttl(),
            beats: AtomicU64::new(0),
            contact,
            is_reached: AtomicBool::new(true),
            is_superseded: AtomicBool::new(false),
            state: Mutex::new(State {
                observed: Observed::new(config.heartbeat(), config.member_ttl()),
                me: me.clone(),
                published_stale: true,
            }),
            members: members.clone(),
        });
        pulse.beat().await;
        let task = tokio::spawn(keep_beating(Arc::clone(&pulse)));
        let heart = Some(Heart { pulse, task });
        Self { me: me.id, members, heart, lookups: JoinSet::new() }
    }

    /// Returns this node's name.
    pub fn me(&self) -> &NodeId {
        &self.me
    }

    /// Returns the members as this node sees them, always including itself. While Redis is
    /// unreachable, the last view stays and is marked as stale.
    pub fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.members.subscribe()
    }

    /// Tells the other nodes that this node is about to leave. On a node of a fixed list this has
    /// no effect: no other node may take its shards, and its view does not change.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Unavailable`] if Redis is unreachable. The next heartbeat
    /// that reaches it announces the draining all the same.
    pub async fn drain(&self) -> Result<(), Error> {
        let Some(heart) = &self.heart else { return Ok(()) };
        heart.pulse.lock().me.state = MemberState::Draining;
        heart.pulse.publish();
        heart.pulse.send(false).await
    }

    /// Leaves the cluster, so that the other nodes need not wait for the time to live.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Unavailable`] if Redis is unreachable. The other nodes then
    /// notice the missing heartbeats.
    pub async fn leave(&self) -> Result<(), Error> {
        let Some(heart) = &self.heart else { return Ok(()) };
        heart.task.abort();
        heart.pulse.send(true).await
    }
}

struct Heart {
    pulse: Arc<Pulse>,
    task: JoinHandle<()>,
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_beating(pulse: Arc<Pulse>) {
    let mut ticks = tokio::time::interval(pulse.heartbeat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        pulse.beat().await;
    }
}

/// State of the heartbeat.
struct Pulse {
    redis: Arc<Redis>,
    heartbeat: Duration,
    member_ttl: Duration,
    beats: AtomicU64,
    contact: Arc<Contact>,
    is_reached: AtomicBool,
    is_superseded: AtomicBool,
    state: Mutex<State>,
    members: watch::Sender<Arc<Members>>,
}

struct State {
    observed: Observed,
    me: Member,
    published_stale: bool,
}

impl Pulse {
    /// Sends one heartbeat and publishes the resulting view. Logs a failure.
    async fn beat(&self) {
        let sent = self.send(false).await;
        let was_reached = self.is_reached.swap(sent.is_ok(), Ordering::Relaxed);
        match sent {
            Err(error) if was_reached => tracing::warn!(
                error = error.chain(),
                "Redis is away; the list of members stays as it was"
            ),
            Ok(()) if !was_reached => tracing::info!("Redis is back"),
            Ok(()) | Err(_) => {}
        }
        self.publish();
    }

    /// Writes this node's record and reads the records of the others.
    async fn send(&self, left: bool) -> Result<(), Error> {
        let member = self.lock().me.clone();
        let (id, incarnation) = (member.id.clone(), member.incarnation);
        let beat = self.beats.fetch_add(1, Ordering::Relaxed) + 1;
        let record = serde_json::to_string(&Record { member, beat, left })
            .map_err(|error| Error::internal("a member has no JSON form").with_source(error))?;
        let mut heartbeat = redis::pipe();
        heartbeat
            .cmd("EVAL")
            .arg(HEARTBEAT)
            .arg(2)
            .arg(self.redis.key("members"))
            .arg(self.redis.key("members:ends"))
            .arg(id.as_str())
            .arg(incarnation)
            .arg(record)
            .arg(millis(self.member_ttl));
        let sent = Instant::now();
        let ((superseded, records),): ((u8, Vec<String>),) =
            self.redis.query("sending a sign of life", &heartbeat).await?;
        self.contact.note(sent);
        if superseded == 1 && !self.is_superseded.swap(true, Ordering::Relaxed) {
            tracing::error!(
                node = id.as_str(),
                "a node of the same name started later; give each its own `cluster.node_id`"
            );
        }
        // A record that cannot be parsed belongs to a node of a version that this one cannot use.
        let records = records.iter().filter_map(|text| {
            let (_incarnation, json) = text.split_once(' ')?;
            serde_json::from_str::<Record>(json).ok()
        });
        self.lock().observed.heard(Instant::now(), records.filter(|r| r.member.id != id));
        Ok(())
    }

    /// Publishes the current view if it has changed.
    fn publish(&self) {
        let mut state = self.lock();
        let others = state.observed.members().cloned();
        let all = others.chain([state.me.clone()]);
        let members = Members::observed(all, Arc::clone(&self.contact), self.member_ttl);
        let is_stale = members.is_stale();
        let was_stale = std::mem::replace(&mut state.published_stale, is_stale);
        self.members.send_if_modified(|published| {
            let is_news = was_stale != is_stale || published.as_slice() != members.as_slice();
            if is_news {
                *published = Arc::new(members);
            }
            is_news
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while the lock is held leaves no partial change, so poisoning can be ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
