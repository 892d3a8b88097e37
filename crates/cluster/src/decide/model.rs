//! Model of a small cluster that tests the real code for membership, leases and decisions. Redis,
//! the storage and the machines are simulated.
//!
//! Requests take time: Redis executes a request when it is sent, and the sender reads the reply in
//! its next step, however long it was paused in between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use clew_core::ShardIndex;
use proptest::prelude::*;

use super::modelled_redis::{LEASE_TTL, MEMBER_TTL, Redis, Token};
use super::{Action, Holding, Situation, decide};
use crate::lease::{Lapse, Renewal, Standing, Tenure};
use crate::member::{Member, MemberState, NodeId, Role, ShardKey};
use crate::membership::{Observed, Record};
use crate::placement::{self, Placed};

const TICK: Duration = Duration::from_millis(250);
const HEARTBEAT: Duration = Duration::from_secs(1);
const RENEW: Duration = Duration::from_secs(3);
const HAND_OVERS: usize = 2;
const OPENINGS: usize = 4;
const NODES: usize = 4;
const SHARDS: u32 = 8;

/// An event that can happen to a cluster.
#[derive(Clone, Debug)]
enum Event {
    Crash(usize),
    /// A crash, if the node runs, and a start.
    Restart(usize),
    Pause(usize),
    Resume(usize),
    /// Cuts the connection between a node and Redis.
    Cut(usize),
    Mend(usize),
    Drain(usize),
    RedisStops,
    RedisGoesOn,
    RedisComesBackEmpty,
    CorpusComes,
    CorpusGoes,
    Wait(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let node = 0..NODES;
    let change = prop_oneof![
        node.clone().prop_map(Event::Crash),
        node.clone().prop_map(Event::Restart),
        node.clone().prop_map(Event::Pause),
        node.clone().prop_map(Event::Resume),
        node.clone().prop_map(Event::Cut),
        node.clone().prop_map(Event::Mend),
        node.prop_map(Event::Drain),
        Just(Event::RedisStops),
        Just(Event::RedisGoesOn),
        Just(Event::RedisComesBackEmpty),
        Just(Event::CorpusComes),
        Just(Event::CorpusGoes),
    ];
    // From one tick to enough time for every record and lease to expire.
    prop_oneof![2 => change, 1 => (1u32..80).prop_map(Event::Wait)]
}

type Storage = BTreeMap<ShardKey, Table>;

/// The result of renewing one lease.
type Renewed = (ShardKey, Token, Renewal);

/// A shard in the storage.
struct Table {
    /// The node that took it over last. Only this node can write.
    owner: Token,
    /// Number of writes.
    version: u64,
}

/// A shard that a node has open.
struct Session {
    token: Token,
    /// The version that this node reads.
    version: u64,
    tenure: Tenure,
    is_leaving: bool,
    /// A lapse and the storage's answer about it: whether no other node has opened the shard since.
    asked: Option<(Lapse, bool)>,
}

struct Node {
    me: Member,
    is_paused: bool,
    is_cut: bool,
    beat: u64,
    next_beat: Instant,
    next_renewal: Instant,
    observed: Observed,
    placed: Placed,
    last_contact: Option<Instant>,
    sessions: BTreeMap<ShardKey, Session>,
    /// Unread replies to renewals, with the time of sending.
    renewals: Option<(Instant, Vec<Renewed>)>,
    /// Unread replies to requests for leases, with the time of sending.
    acquired: Vec<(Instant, ShardKey, Token)>,
    /// Shards that were taken over in storage, and the reply of Redis to the renewal that followed,
    /// if Redis was reached.
    opened: BTreeMap<ShardKey, (Session, Option<(Instant, Renewal)>)>,
}

struct World {
    now: Instant,
    nodes: Vec<Option<Node>>,
    starts: u64,
    redis: Redis,
    emptied: Option<Instant>,
    storage: Storage,
    wanted: BTreeSet<ShardKey>,
}

fn node_name(at: usize) -> NodeId {
    format!("node-{at}").parse().unwrap()
}

fn shards(corpus: &str, count: u32) -> impl Iterator<Item = ShardKey> {
    let key = move |shard| ShardKey { corpus: corpus.parse().unwrap(), shard: ShardIndex(shard) };
    (0..count).map(key)
}

impl Node {
    fn start(at: usize, incarnation: u64, now: Instant) -> Self {
        let me = Member {
            id: node_name(at),
            address: "http://h:1".parse().unwrap(),
            roles: [Role::Retriever].into(),
            state: MemberState::Serving,
            incarnation,
        };
        let placed = Placed::new(me.id.clone());
        Self {
            me,
            is_paused: false,
            is_cut: false,
            beat: 0,
            next_beat: now,
            next_renewal: now + RENEW,
            observed: Observed::new(HEARTBEAT, MEMBER_TTL),
            placed,
            last_contact: None,
            sessions: BTreeMap::new(),
            renewals: None,
            acquired: Vec::new(),
            opened: BTreeMap::new(),
        }
    }

    fn members(&self) -> Vec<Member> {
        let others = self.observed.members().filter(|member| member.id != self.me.id);
        others.cloned().chain([self.me.clone()]).collect()
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.last_contact.is_none_or(|last| now - last > MEMBER_TTL)
    }

    fn step(
        &mut self,
        now: Instant,
        redis: &mut Redis,
        storage: &mut Storage,
        wanted: &BTreeSet<ShardKey>,
    ) {
        self.read_replies(now, redis, storage);
        self.check_lapses(storage);
        self.write(now, storage);
        let is_reached = !self.is_cut && !redis.is_away;
        if is_reached && now >= self.next_beat {
            self.beat += 1;
            let record = Record { member: self.me.clone(), beat: self.beat, left: false };
            self.observed.heard(now, redis.heartbeat(now, record));
            self.last_contact = Some(now);
            self.next_beat = now + HEARTBEAT;
        }
        if is_reached && now >= self.next_renewal {
            let results = self.sessions.iter().map(|(shard, session)| {
                let renewal = redis.renew(now, shard, &session.token);
                (shard.clone(), session.token.clone(), renewal)
            });
            self.renewals = Some((now, results.collect()));
            self.next_renewal = now + RENEW;
        }
        self.act(now, redis, is_reached, wanted);
    }

    fn read_replies(&mut self, now: Instant, redis: &mut Redis, storage: &mut Storage) {
        if let Some((sent, results)) = self.renewals.take() {
            for (shard, token, renewal) in results {
                let session = self.sessions.get_mut(&shard);
                let Some(session) = session.filter(|session| session.token == token) else {
                    continue;
                };
                session.tenure.answered(sent, renewal);
            }
        }
        let is_reached = !self.is_cut && !redis.is_away;
        for (shard, (mut session, confirmed)) in std::mem::take(&mut self.opened) {
            match confirmed {
                Some((_, Renewal::Anothers)) => continue,
                Some((sent, renewal)) => session.tenure.answered(sent, renewal),
                None => {
                    if is_reached {
                        redis.give_back(now, &shard, &session.token);
                    }
                    continue;
                }
            }
            self.sessions.insert(shard, session);
        }
        for (sent, shard, token) in self.acquired.drain(..) {
            let tenure = Tenure::begun(sent, LEASE_TTL);
            // Without this check, the takeover in storage would end the ownership of a node that
            // was given the shard since.
            if tenure.standing(now) == Standing::Held {
                let version = storage.get(&shard).map_or(0, |table| table.version);
                storage.insert(shard.clone(), Table { owner: token.clone(), version });
                let confirmed = is_reached.then(|| (now, redis.renew(now, &shard, &token)));
                let session = Session { token, version, tenure, is_leaving: false, asked: None };
                self.opened.insert(shard, (session, confirmed));
            } else if is_reached {
                redis.give_back(now, &shard, &token);
            }
        }
    }

    /// Writes wherever the storage permits it, even if the lease is unconfirmed.
    fn write(&mut self, now: Instant, storage: &mut Storage) {
        for (shard, session) in &mut self.sessions {
            let table = storage.get_mut(shard).unwrap();
            if session.tenure.standing(now) != Standing::Lost && table.owner == session.token {
                table.version += 1;
                session.version = table.version;
            }
        }
    }

    /// Handles a lapse as an owner must. The question to the storage is answered in the next step.
    fn check_lapses(&mut self, storage: &Storage) {
        for (shard, session) in &mut self.sessions {
            match session.asked.take() {
                Some((lapse, true)) => session.tenure.settle(lapse),
                Some((_, false)) => session.tenure.end(),
                None => {}
            }
            if let Some(lapse) = session.tenure.lapse() {
                let is_mine = storage[shard].owner == session.token;
                session.asked = Some((lapse, is_mine));
            }
        }
    }

    fn act(
        &mut self,
        now: Instant,
        redis: &mut Redis,
        is_reached: bool,
        wanted: &BTreeSet<ShardKey>,
    ) {
        let held = self.sessions.iter().map(|(shard, session)| {
            let standing = session.tenure.standing(now);
            (shard.clone(), Holding { standing, is_leaving: session.is_leaving, is_at_rest: false })
        });
        let opening = Holding { standing: Standing::Held, is_leaving: false, is_at_rest: false };
        let held = held.chain(self.opened.keys().map(|shard| (shard.clone(), opening)));
        let seen = |shard: &ShardKey| Some((shard.clone(), redis.lease(now, shard)?.0.clone()));
        let owners =
            if is_reached { wanted.iter().filter_map(seen).collect() } else { BTreeMap::new() };
        let members = self.members();
        self.placed.update(&members, &wanted.iter().cloned().collect());
        let actions = decide(&Situation {
            me: &self.me.id,
            members: &members,
            is_stale: self.is_stale(now),
            placed: &self.placed,
            held: &held.collect(),
            owners: &owners,
            hand_overs: HAND_OVERS,
            hand_overs_at_rest: 0,
            openings: OPENINGS,
        });
        let hand_overs = actions.values().filter(|a| matches!(a, Action::HandOver { .. }));
        assert!(hand_overs.count() <= HAND_OVERS, "gently");
        let openings = actions.values().filter(|action| **action == Action::Open);
        assert!(openings.count() <= OPENINGS, "gently");
        for (shard, action) in actions {
            // A shard that is being opened is handled once it is open.
            if self.opened.contains_key(&shard) {
                continue;
            }
            match action {
                Action::Open if is_reached => {
                    if let Some(token) = redis.acquire(now, &shard, &self.me) {
                        self.acquired.push((now, shard, token));
                    }
                }
                Action::HandOver { to } => {
                    assert_ne!(to, self.me.id);
                    let session = self.sessions.get_mut(&shard).unwrap();
                    // Draining takes until the next step.
                    if std::mem::replace(&mut session.is_leaving, true) {
                        self.close(now, redis, is_reached, &shard);
                    }
                }
                Action::Close => self.close(now, redis, is_reached, &shard),
                Action::Keep | Action::Open => {}
            }
        }
    }

    fn close(&mut self, now: Instant, redis: &mut Redis, is_reached: bool, shard: &ShardKey) {
        let session = self.sessions.remove(shard).unwrap();
        if is_reached {
            redis.give_back(now, shard, &session.token);
        }
    }
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let mut world = Self {
            now,
            nodes: (0..NODES).map(|_| None).collect(),
            starts: 0,
            redis: Redis::default(),
            emptied: None,
            storage: BTreeMap::new(),
            wanted: shards("a", SHARDS).collect(),
        };
        // The last node joins only when an event starts it.
        for at in 0..NODES - 1 {
            world.start(at);
        }
        world
    }

    fn start(&mut self, at: usize) {
        self.starts += 1;
        self.nodes[at] = Some(Node::start(at, self.starts, self.now));
    }

    fn tick(&mut self) {
        self.now += TICK;
        for node in self.nodes.iter_mut().flatten().filter(|node| !node.is_paused) {
            node.step(self.now, &mut self.redis, &mut self.storage, &self.wanted);
            Self::check(self.now, self.emptied, node, &self.storage);
        }
        self.check_single_holders();
    }

    /// Returns whether leases may contradict each other because Redis was emptied: an earlier lease
    /// is still trusted for some time.
    fn is_troubled(now: Instant, emptied: Option<Instant>) -> bool {
        emptied.is_some_and(|emptied| now - emptied < LEASE_TTL)
    }

    /// Checks that a read under a held lease sees the latest write.
    fn check(now: Instant, emptied: Option<Instant>, node: &Node, storage: &Storage) {
        for (shard, session) in &node.sessions {
            if session.tenure.standing(now) == Standing::Held && !Self::is_troubled(now, emptied) {
                assert_eq!(session.version, storage[shard].version, "{shard} is read stale");
            }
        }
    }

    /// Checks that no shard has two holders. Paused nodes count, because they may act on what they
    /// knew.
    fn check_single_holders(&self) {
        if Self::is_troubled(self.now, self.emptied) {
            return;
        }
        let mut holders: BTreeMap<&ShardKey, &NodeId> = BTreeMap::new();
        for node in self.nodes.iter().flatten() {
            for (shard, session) in &node.sessions {
                if session.tenure.standing(self.now) == Standing::Held {
                    let other = holders.insert(shard, &node.me.id);
                    assert_eq!(other, None, "{shard} is held by {} as well", node.me.id);
                }
            }
        }
    }

    fn happens(&mut self, event: &Event) {
        match *event {
            Event::Crash(at) => self.nodes[at] = None,
            Event::Restart(at) => self.start(at),
            Event::Pause(at) => self.with_node(at, |node| node.is_paused = true),
            Event::Resume(at) => self.with_node(at, |node| node.is_paused = false),
            Event::Cut(at) => self.with_node(at, |node| node.is_cut = true),
            Event::Mend(at) => self.with_node(at, |node| node.is_cut = false),
            Event::Drain(at) => {
                self.with_node(at, |node| node.me.state = MemberState::Draining);
            }
            Event::RedisStops => self.redis.is_away = true,
            Event::RedisGoesOn => self.redis.is_away = false,
            Event::RedisComesBackEmpty => {
                self.redis = Redis::default();
                self.emptied = Some(self.now);
            }
            Event::CorpusComes => self.wanted.extend(shards("b", SHARDS)),
            Event::CorpusGoes => self.wanted.retain(|shard| shard.corpus.as_str() == "a"),
            Event::Wait(ticks) => (0..ticks).for_each(|_| self.tick()),
        }
    }

    fn with_node(&mut self, at: usize, change: impl FnOnce(&mut Node)) {
        if let Some(node) = &mut self.nodes[at] {
            change(node);
        }
    }

    /// Ends all faults. Crashed nodes stay down unless no node could own shards otherwise.
    fn mend(&mut self) {
        self.redis.is_away = false;
        for node in self.nodes.iter_mut().flatten() {
            (node.is_paused, node.is_cut) = (false, false);
        }
        if self.serving().next().is_none() {
            self.start(0);
        }
    }

    fn serving(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flatten().filter(|node| node.me.state == MemberState::Serving)
    }

    /// Returns the node that took over each shard last.
    fn owners(&self) -> BTreeMap<ShardKey, Token> {
        self.storage.iter().map(|(shard, table)| (shard.clone(), table.owner.clone())).collect()
    }

    fn check_quiet(&self) {
        let serving: Vec<Member> = self.serving().map(|node| node.me.clone()).collect();
        for node in self.nodes.iter().flatten() {
            let mine = |shard: &&ShardKey| {
                placement::owner(shard, &serving).is_some_and(|owner| owner.id == node.me.id)
            };
            let expected: Vec<&ShardKey> = self.wanted.iter().filter(mine).collect();
            let held: Vec<&ShardKey> = node.sessions.keys().collect();
            assert_eq!(held, expected, "{}", node.me.id);
            for (shard, session) in &node.sessions {
                assert_eq!(session.tenure.standing(self.now), Standing::Held, "{shard}");
            }
        }
    }
}

/// Number of ticks in which every record and lease expires and all shards are handed over, two at a
/// time.
const TIME_TO_HEAL: u32 = 160;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_each_shard_ends_up_with_its_one_owner(
        events in prop::collection::vec(event(), 0..40),
    ) {
        let mut world = World::new();
        for event in &events {
            world.happens(event);
            world.tick();
        }
        world.mend();
        world.happens(&Event::Wait(TIME_TO_HEAL));
        world.check_quiet();
    }
}

#[test]
fn a_node_that_comes_takes_over_only_what_is_placed_on_it_and_nothing_else_moves() {
    let mut world = World::new();
    world.happens(&Event::Wait(TIME_TO_HEAL));
    world.check_quiet();
    let before = world.owners();
    world.start(NODES - 1);
    world.happens(&Event::Wait(TIME_TO_HEAL));
    world.check_quiet();
    let moved = before.iter().filter(|(shard, token)| world.storage[*shard].owner != **token);
    for (shard, _) in moved {
        assert_eq!(world.storage[shard].owner.0, node_name(NODES - 1));
    }
}

#[test]
fn an_owner_that_slept_through_anothers_time_believes_nothing_of_what_it_knew() {
    let mut world = World::new();
    world.happens(&Event::Wait(TIME_TO_HEAL));
    world.happens(&Event::Pause(0));
    world.happens(&Event::Wait(TIME_TO_HEAL));
    assert!(world.owners().values().all(|(owner, ..)| *owner != node_name(0)), "others took over");
    // The others are gone and their leases have expired when node 0 resumes.
    world.happens(&Event::Crash(1));
    world.happens(&Event::Crash(2));
    world.happens(&Event::Wait(TIME_TO_HEAL));
    world.happens(&Event::Resume(0));
    // Every tick checks what it reads.
    world.happens(&Event::Wait(TIME_TO_HEAL));
    world.check_quiet();
}

#[test]
fn an_opener_that_slept_while_redis_was_emptied_writes_nothing_beside_its_new_owner() {
    let mut world = World::new();
    world.happens(&Event::Wait(1));
    assert!(!world.nodes[0].as_ref().unwrap().acquired.is_empty(), "it was given shards");
    world.happens(&Event::Pause(0));
    world.happens(&Event::RedisComesBackEmpty);
    world.happens(&Event::Wait(3));
    assert!(world.owners().values().any(|(owner, ..)| *owner != node_name(0)), "others open them");
    world.happens(&Event::Resume(0));
    // Every tick checks what is read.
    world.happens(&Event::Wait(TIME_TO_HEAL));
    world.check_quiet();
}

#[test]
fn an_emptied_redis_moves_nothing() {
    let mut world = World::new();
    world.happens(&Event::Wait(TIME_TO_HEAL));
    let before = world.owners();
    world.happens(&Event::RedisStops);
    world.happens(&Event::Wait(300));
    world.happens(&Event::RedisComesBackEmpty);
    world.happens(&Event::Wait(TIME_TO_HEAL));
    world.check_quiet();
    assert_eq!(world.owners(), before);
}
