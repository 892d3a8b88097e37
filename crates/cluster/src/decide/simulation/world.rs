//! Machines, the network, Redis and the storage, in simulated time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::ShardIndex;
use fastrand::Rng;

use super::node::{Corpora, HEARTBEAT, LOOK, Node, OPENINGS, PATIENCE, RENEW};
use super::node::{Reply, Request, Session, Stage, Timer, Wish};
use super::storage::Table;
use crate::decide::modelled_redis::{LEASE_TTL, MEMBER_TTL, Redis};
use crate::lease::Standing;
use crate::member::{Member, MemberState, NodeId, Role, ShardKey};
use crate::placement;

/// Shards of one corpus.
const SHARDS_PER_CORPUS: u32 = 16;
/// Interval between two looks of the simulation at all shards.
const SWEEP: Duration = Duration::from_millis(250);
/// Largest difference of a clock's speed from that of time.
const DRIFT: f64 = 0.05;
/// Largest number of messages of one kind that are lost one after another on their way between a
/// node and Redis. Without a limit there is no bound on anything.
const LOST_IN_A_ROW: u8 = 2;
/// Longest time that a message takes. The sender has given up by then.
const SLOWEST_MESSAGE: Duration = Duration::from_millis(1500);
const SLOWEST_READ: Duration = Duration::from_secs(2);
const SLOWEST_COMMIT: Duration = Duration::from_secs(1);

/// Longest time that a shard is without an owner while a node that should have it lives, apart from
/// the time that it waits for its turn to be opened:
///
/// - A message of the owner that is gone reaches Redis late. From then on the lease ends by Redis'
///   clock. Beside that, the others miss its heartbeats by their own clocks.
/// - They hear of it with their next heartbeat, and once more when the time to live is over. Time
///   without contact does not count.
/// - A look, two requests, and a confirmation of the takeover follow, of which each may be lost. So
///   does one give-back, which is repeated with the next renewal.
fn longest_absence() -> Duration {
    let drift = |time: Duration| time.mul_f64((1.0 + DRIFT) / (1.0 - DRIFT));
    let losses = PATIENCE * u32::from(LOST_IN_A_ROW);
    let noticed = drift(LEASE_TTL).max(drift(MEMBER_TTL) + (HEARTBEAT + losses) * 2 + losses);
    let opened = (LOOK + losses + LOOK * u32::from(LOST_IN_A_ROW)) * 2 + SLOWEST_READ;
    let confirmed = SLOWEST_COMMIT + PATIENCE * 2 + losses;
    let given_back = RENEW + losses;
    SLOWEST_MESSAGE + noticed + opened + confirmed + given_back + SWEEP
}

/// Longest time between the beginnings of two openings of which the second waits for the first.
const TURN: Duration = Duration::from_secs(5);

/// What a world consists of, and which of its rules are broken on purpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) seed: u64,
    /// Machines that run from the start.
    pub(super) nodes: usize,
    /// Machines that may join.
    pub(super) spare: usize,
    pub(super) shards: usize,
    /// Whether the storage refuses what does not follow its last version.
    pub(super) is_fenced: bool,
    /// How long nodes believe a lease to last.
    pub(super) believed_ttl: Duration,
}

impl Setting {
    pub(super) fn of(seed: u64, nodes: usize, spare: usize, shards: usize) -> Self {
        Self { seed, nodes, spare, shards, is_fenced: true, believed_ttl: LEASE_TTL }
    }
}

/// What can happen to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Crash(usize),
    /// A start, after a crash if the node runs.
    Start(usize),
    Pause(usize),
    Resume(usize),
    /// Cuts a node off from Redis.
    Cut(usize),
    Mend(usize),
    Drain(usize),
    RedisStops,
    RedisGoesOn,
    RedisIsEmptied,
    CorpusGoes(usize),
    CorpusComes(usize),
}

/// What nodes asked of Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) commands: u64,
    /// Leases that commands named.
    pub(super) leases: u64,
    /// Records of members that were sent to nodes.
    pub(super) records: u64,
}

impl Asked {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            leases: self.leases - before.leases,
            records: self.records - before.records,
        }
    }
}

enum Event {
    Wake(Timer),
    /// A request arrives. The flag says whether its reply arrives.
    Arrive(u64, Request, bool),
    Reply(u64, Option<Reply>),
    /// The sender gives up.
    GiveUp(u64),
}

/// The time of something, its number, and the run of the machine that it belongs to.
type Due = (Duration, u64, usize, u64);

struct Machine {
    node: Option<Node>,
    run: u64,
    /// How far its clock is ahead, and how fast it is.
    ahead: Duration,
    speed: f64,
    is_paused: bool,
    is_cut: bool,
    /// What happened to it while it was paused.
    missed: Vec<Event>,
    /// When the last request on its connection to Redis arrives.
    link: Duration,
    lost_in_a_row: HashMap<std::mem::Discriminant<Request>, u8>,
}

/// A shard that nobody has.
struct Absence {
    since: Duration,
    /// When the node that should have it last changed.
    counts_since: Duration,
    rightful: Option<NodeId>,
}

pub(super) struct World {
    setting: Setting,
    rng: Rng,
    /// What every clock showed at the beginning.
    origin: Instant,
    pub(super) now: Duration,
    numbers: u64,
    queue: BinaryHeap<Reverse<Due>>,
    events: BTreeMap<u64, Event>,
    faults: BTreeSet<(Duration, Fault)>,
    machines: Vec<Machine>,
    redis: Redis,
    redis_clock: (Duration, f64),
    emptied: Option<Duration>,
    corpora: Corpora,
    tables: Vec<Table>,
    healthy: Vec<Member>,
    absent: BTreeMap<usize, Absence>,
    was_owned: Vec<Duration>,
    next_sweep: Duration,
    pub(super) longest_absence: Duration,
    pub(super) asked: Asked,
    /// Number of times that a node took a shard over from another.
    pub(super) moves: usize,
    most_missing: usize,
}

pub(super) fn name(at: usize) -> NodeId {
    format!("retriever-{at:04}").parse().unwrap()
}

fn key(at: usize) -> ShardKey {
    let at = u32::try_from(at).unwrap();
    let corpus = format!("corpus-{:05}", at / SHARDS_PER_CORPUS).parse().unwrap();
    ShardKey { corpus, shard: ShardIndex(at % SHARDS_PER_CORPUS) }
}

impl World {
    pub(super) fn new(setting: Setting) -> Self {
        let mut rng = Rng::with_seed(setting.seed);
        let shards: Vec<ShardKey> = (0..setting.shards).map(key).collect();
        let corpora = Corpora {
            places: shards.iter().cloned().enumerate().map(|(at, shard)| (shard, at)).collect(),
            wanted: shards.iter().cloned().collect(),
            shards,
        };
        let mut clock = || {
            let ahead = Duration::from_secs_f64(3600.0 * rng.f64());
            (ahead, 1.0 + DRIFT * (2.0 * rng.f64() - 1.0))
        };
        let machine = |(ahead, speed)| Machine {
            node: None,
            run: 0,
            ahead,
            speed,
            is_paused: false,
            is_cut: false,
            missed: Vec::new(),
            link: Duration::ZERO,
            lost_in_a_row: HashMap::new(),
        };
        let machines = (0..setting.nodes + setting.spare).map(|_| machine(clock())).collect();
        let redis_clock = clock();
        Self {
            rng,
            origin: Instant::now(),
            now: Duration::ZERO,
            numbers: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            faults: BTreeSet::new(),
            machines,
            redis: Redis::default(),
            redis_clock,
            emptied: None,
            corpora,
            tables: (0..setting.shards).map(|_| Table::default()).collect(),
            healthy: Vec::new(),
            absent: BTreeMap::new(),
            was_owned: vec![Duration::ZERO; setting.shards],
            next_sweep: SWEEP,
            longest_absence: Duration::ZERO,
            asked: Asked::default(),
            moves: 0,
            most_missing: 0,
            setting,
        }
    }

    /// Starts the nodes one after another within a heartbeat.
    pub(super) fn start_all(&mut self) {
        for at in 0..self.setting.nodes {
            let when = self.now + HEARTBEAT.mul_f64(self.rng.f64());
            self.plan(when, Fault::Start(at));
        }
    }

    /// Starts the nodes as they are in a cluster that has been at rest.
    pub(super) fn start_settled(&mut self) {
        for at in 0..self.setting.nodes {
            self.start(at);
        }
        let members: Vec<Member> = self.nodes().map(|node| node.me.clone()).collect();
        let redis_now = self.redis_now();
        for at in 0..self.setting.nodes {
            let now = self.local(at);
            let Self { machines, redis, corpora, tables, .. } = self;
            let Some(node) = &mut machines[at].node else { continue };
            let me = node.me.clone();
            let lease = |shard: &ShardKey| redis.acquire(redis_now, shard, &me).unwrap();
            for (shard, token) in node.settle(now, &members, corpora, lease) {
                tables[shard] = Table { version: 1, writes: 0, owner: Some(token) };
            }
            self.grant(at);
        }
        for member in members {
            let record = crate::membership::Record { member, beat: 0, left: false };
            self.redis.heartbeat(redis_now, record);
        }
    }

    pub(super) fn plan(&mut self, when: Duration, fault: Fault) {
        self.faults.insert((when, fault));
    }

    /// Lets the world go on for some time.
    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let event = self.queue.peek().map_or(Duration::MAX, |Reverse((when, ..))| *when);
            let fault = self.faults.first().map_or(Duration::MAX, |(when, _)| *when);
            let next = event.min(fault).min(self.next_sweep);
            if next > until {
                break;
            }
            self.now = next;
            if next == self.next_sweep {
                self.sweep();
                self.next_sweep += SWEEP;
            } else if next == fault {
                if let Some((_, fault)) = self.faults.pop_first() {
                    self.happen(fault);
                }
            } else if let Some(Reverse((_, number, at, run))) = self.queue.pop() {
                let event = self.events.remove(&number).unwrap();
                self.handle(at, run, event);
            }
        }
        self.now = until;
    }

    /// Returns what tells two runs apart.
    pub(super) fn digest(&self) -> (u64, Asked, Duration, Vec<(u64, Option<NodeId>)>) {
        let node = |table: &Table| Some(table.owner.as_ref()?.0.clone());
        let tables = self.tables.iter().map(|table| (table.version, node(table))).collect();
        (self.numbers, self.asked, self.longest_absence, tables)
    }

    pub(super) fn healthy(&self) -> &[Member] {
        &self.healthy
    }

    pub(super) fn wanted(&self) -> &Arc<[ShardKey]> {
        &self.corpora.wanted
    }

    /// Returns whether every shard is open where it is placed, and nowhere else.
    pub(super) fn is_at_rest(&self) -> bool {
        let held: usize = self.nodes().map(|node| node.sessions.len()).sum();
        held == self.corpora.wanted.len()
            && (0..self.machines.len()).all(|at| {
                let Some(node) = &self.machines[at].node else { return true };
                node.sessions.iter().all(|(shard, session)| {
                    let shard = &self.corpora.shards[*shard];
                    let owner = placement::owner(shard, &self.healthy);
                    owner.is_some_and(|owner| owner.id == node.me.id)
                        && session.stage == Stage::Open
                        && session.tenure.standing(self.local(at)) == Standing::Held
                })
            })
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.machines.iter().filter_map(|machine| machine.node.as_ref())
    }

    fn local(&self, at: usize) -> Instant {
        let Machine { ahead, speed, .. } = &self.machines[at];
        self.origin + *ahead + self.now.mul_f64(*speed)
    }

    fn redis_now(&self) -> Instant {
        let (ahead, speed) = self.redis_clock;
        self.origin + ahead + self.now.mul_f64(speed)
    }

    fn schedule(&mut self, when: Duration, at: usize, run: u64, event: Event) {
        self.numbers += 1;
        self.queue.push(Reverse((when, self.numbers, at, run)));
        self.events.insert(self.numbers, event);
    }

    fn handle(&mut self, at: usize, run: u64, event: Event) {
        let event = match event {
            // Requests are on their way, whatever became of their sender.
            Event::Arrive(id, request, is_answered) => {
                return self.arrive(at, run, id, request, is_answered);
            }
            event => event,
        };
        let now = self.local(at);
        let Self { machines, corpora, .. } = self;
        let machine = &mut machines[at];
        if machine.run != run {
            return;
        }
        if machine.is_paused {
            machine.missed.push(event);
            return;
        }
        let Some(node) = &mut machine.node else { return };
        match event {
            Event::Wake(timer) => node.wake_up(now, timer, corpora),
            Event::Reply(id, reply) => node.hear(now, id, reply, corpora),
            Event::GiveUp(id) => {
                // A connection that did not answer is not used again.
                machine.link = Duration::ZERO;
                node.hear(now, id, None, corpora);
            }
            Event::Arrive(..) => {}
        }
        self.grant(at);
    }

    /// Does what a node wants.
    fn grant(&mut self, at: usize) {
        let Machine { node: Some(node), run, speed, .. } = &mut self.machines[at] else { return };
        let (run, speed) = (*run, *speed);
        self.most_missing = self.most_missing.max(node.most_missing);
        for wish in std::mem::take(&mut node.wishes) {
            match wish {
                Wish::Wake(after, timer) => {
                    self.schedule(self.now + after.div_f64(speed), at, run, Event::Wake(timer));
                }
                Wish::Send(id, request) if request.is_for_storage() => {
                    let time = self.storage_time(&request);
                    self.schedule(self.now + time, at, run, Event::Arrive(id, request, true));
                }
                Wish::Send(id, request) => self.send(at, run, id, request),
                Wish::Exit => {
                    self.machines[at].node = None;
                    self.look_at_health();
                }
            }
        }
    }

    fn storage_time(&mut self, request: &Request) -> Duration {
        let is_slow = self.rng.u8(..) < 4;
        let (usual, slowest) = match request {
            Request::Read(_) => (Duration::from_millis(300), SLOWEST_READ),
            _ => (Duration::from_millis(40), SLOWEST_COMMIT),
        };
        let most = if is_slow { slowest } else { usual };
        most.mul_f64(self.rng.f64()) / 2
    }

    /// Sends a request to Redis. It may be late, lost, or arrive twice, and so may its reply.
    fn send(&mut self, at: usize, run: u64, id: u64, request: Request) {
        self.count(&request);
        let patience = PATIENCE.div_f64(self.machines[at].speed);
        self.schedule(self.now + patience, at, run, Event::GiveUp(id));
        let (is_lost, is_unanswered) = (self.rng.u8(..) < 2, self.rng.u8(..) < 2);
        let time = self.message_time();
        let machine = &mut self.machines[at];
        let lost = machine.lost_in_a_row.entry(std::mem::discriminant(&request)).or_default();
        let may_be_lost = *lost < LOST_IN_A_ROW;
        *lost = if may_be_lost && (is_lost || is_unanswered) { *lost + 1 } else { 0 };
        if machine.is_cut || is_lost && may_be_lost {
            return;
        }
        // A connection keeps the order.
        machine.link = machine.link.max(self.now + time);
        let when = machine.link;
        if self.rng.u16(..) < 64 {
            let again = when + self.message_time();
            self.schedule(again, at, run, Event::Arrive(id, request.clone(), false));
        }
        let is_answered = !(is_unanswered && may_be_lost);
        self.schedule(when, at, run, Event::Arrive(id, request, is_answered));
    }

    fn message_time(&mut self) -> Duration {
        let is_slow = self.rng.u16(..) < 256;
        let most = if is_slow { SLOWEST_MESSAGE } else { Duration::from_millis(4) };
        most.mul_f64(self.rng.f64())
    }

    fn count(&mut self, request: &Request) {
        // As `crates/cluster/src/lease.rs` and `lease/renewal.rs` divide them.
        let (leases, in_one) = match request {
            Request::Owners(shards) => (shards.len(), 512),
            Request::Renew(leases) | Request::GiveBack(leases) => (leases.len(), 128),
            _ => (1, 1),
        };
        self.asked.commands += leases.div_ceil(in_one) as u64;
        if !matches!(request, Request::Beat(_)) {
            self.asked.leases += leases as u64;
        }
    }

    fn arrive(&mut self, at: usize, run: u64, id: u64, request: Request, is_answered: bool) {
        let is_for_storage = request.is_for_storage();
        if !is_for_storage && (self.redis.is_away || self.machines[at].is_cut) {
            return;
        }
        let reply = self.execute(request);
        if is_answered {
            let time = if is_for_storage { Duration::ZERO } else { self.message_time() };
            self.schedule(self.now + time, at, run, Event::Reply(id, Some(reply)));
        }
    }

    fn execute(&mut self, request: Request) -> Reply {
        let now = self.redis_now();
        let Self { redis, corpora, tables, .. } = self;
        let shards = &corpora.shards;
        match request {
            Request::Beat(record) => {
                let records = redis.heartbeat(now, record);
                self.asked.records += records.len() as u64;
                Reply::Beat(records)
            }
            Request::Owners(places) => {
                let owner = |at: usize| {
                    let shard = &shards[at];
                    Some((shard.clone(), redis.lease(now, shard)?.0.clone()))
                };
                Reply::Owners(places.into_iter().filter_map(owner).collect())
            }
            Request::Acquire(at, me) => Reply::Acquired(redis.acquire(now, &shards[at], &me)),
            Request::Renew(leases) => {
                let renew = |(at, token): &(usize, _)| redis.renew(now, &shards[*at], token);
                Reply::Renewed(leases.iter().map(renew).collect())
            }
            Request::GiveBack(leases) => {
                for (at, token) in &leases {
                    redis.give_back(now, &shards[*at], token);
                }
                Reply::GivenBack
            }
            Request::Read(at) => {
                let Table { version, writes, owner } = &tables[at];
                Reply::Read { version: *version, writes: *writes, owner: owner.clone() }
            }
            Request::Commit(at, commit) => {
                let before = tables[at].owner.as_ref().map(|(node, ..)| node.clone());
                let is_done = tables[at].commit(&commit, self.setting.is_fenced);
                let is_move = commit.is_takeover && before.is_some_and(|node| node != commit.by.0);
                self.moves += usize::from(is_done && is_move);
                Reply::Committed(is_done)
            }
        }
    }

    fn start(&mut self, at: usize) {
        let seed = self.rng.u64(..);
        let now = self.local(at);
        self.numbers += 1;
        let machine = &mut self.machines[at];
        machine.run = self.numbers;
        (machine.is_paused, machine.is_cut) = (false, false);
        machine.missed.clear();
        let me = Member {
            id: name(at),
            address: format!("http://10.0.0.1:{}", 1 + at).parse().unwrap(),
            roles: [Role::Retriever].into(),
            state: MemberState::Serving,
            incarnation: machine.run,
        };
        machine.node = Some(Node::start(me, now, self.setting.believed_ttl, seed));
        self.grant(at);
        self.look_at_health();
    }

    fn happen(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(at) => self.machines[at].node = None,
            Fault::Start(at) => self.start(at),
            Fault::Pause(at) => self.machines[at].is_paused = true,
            Fault::Resume(at) => {
                let machine = &mut self.machines[at];
                machine.is_paused = false;
                let run = machine.run;
                for event in std::mem::take(&mut machine.missed) {
                    self.schedule(self.now, at, run, event);
                }
            }
            Fault::Cut(at) => self.machines[at].is_cut = true,
            Fault::Mend(at) => self.machines[at].is_cut = false,
            Fault::Drain(at) => {
                let now = self.local(at);
                let Self { machines, corpora, .. } = self;
                if let Machine { node: Some(node), is_paused: false, .. } = &mut machines[at]
                    && node.me.state == MemberState::Serving
                {
                    node.drain(now, corpora);
                    self.grant(at);
                }
            }
            Fault::RedisStops => self.redis.is_away = true,
            Fault::RedisGoesOn => {
                self.redis.is_away = false;
                self.count_anew();
            }
            Fault::RedisIsEmptied => {
                let is_away = self.redis.is_away;
                self.redis = Redis::default();
                self.redis.is_away = is_away;
                self.emptied = Some(self.now);
                self.count_anew();
            }
            Fault::CorpusGoes(number) => self.change_corpora(number, false),
            Fault::CorpusComes(number) => self.change_corpora(number, true),
        }
        self.look_at_health();
    }

    /// Ends all faults. Starts a node if none serves.
    pub(super) fn mend(&mut self) {
        self.faults.clear();
        for at in 0..self.machines.len() {
            self.happen(Fault::Resume(at));
            self.happen(Fault::Mend(at));
        }
        self.happen(Fault::RedisGoesOn);
        if self.healthy.is_empty() {
            self.happen(Fault::Start(0));
        }
    }

    fn change_corpora(&mut self, number: usize, comes: bool) {
        let corpus = key(number * SHARDS_PER_CORPUS as usize).corpus;
        let mut wanted: BTreeSet<ShardKey> = self.corpora.wanted.iter().cloned().collect();
        for (at, shard) in self.corpora.shards.iter().enumerate() {
            if shard.corpus != corpus {
                continue;
            }
            self.was_owned[at] = self.now;
            if comes {
                wanted.insert(shard.clone());
            } else {
                wanted.remove(shard);
                self.absent.remove(&at);
            }
        }
        self.corpora.wanted = wanted.into_iter().collect();
    }

    fn count_anew(&mut self) {
        for absence in self.absent.values_mut() {
            absence.counts_since = self.now;
        }
    }

    /// Finds out who lives, and so which node should have each shard that nobody has.
    fn look_at_health(&mut self) {
        let is_healthy = |machine: &&Machine| !machine.is_paused && !machine.is_cut;
        let nodes = self.machines.iter().filter(is_healthy);
        let nodes = nodes.filter_map(|machine| machine.node.as_ref());
        let serving = nodes.filter(|node| node.me.serves(Role::Retriever));
        self.healthy = serving.map(|node| node.me.clone()).collect();
        for (at, absence) in &mut self.absent {
            let rightful = placement::owner(&self.corpora.shards[*at], &self.healthy);
            let rightful = rightful.map(|member| member.id.clone());
            if rightful != absence.rightful {
                (absence.rightful, absence.counts_since) = (rightful, self.now);
            }
        }
    }

    /// Checks every shard.
    fn sweep(&mut self) {
        let mut holders: Vec<Option<&NodeId>> = vec![None; self.tables.len()];
        let mut is_owned = vec![false; self.tables.len()];
        // After Redis was emptied, leases may contradict each other: an earlier one is still
        // trusted.
        let is_troubled = self.emptied.is_some_and(|emptied| self.now < emptied + LEASE_TTL * 2);
        for (at, machine) in self.machines.iter().enumerate() {
            let Some(node) = &machine.node else { continue };
            let now = self.local(at);
            for (shard, session) in &node.sessions {
                let standing = session.tenure.standing(now);
                let table = &self.tables[*shard];
                if standing == Standing::Held && !is_troubled {
                    let other = holders[*shard].replace(&node.me.id);
                    let shard = &self.corpora.shards[*shard];
                    assert_eq!(other, None, "{shard} is held by {} as well", node.me.id);
                    Self::check_read(shard, session, table);
                }
                let is_open = session.stage == Stage::Open && standing != Standing::Lost;
                let is_here = is_open && !machine.is_paused;
                is_owned[*shard] |= is_here && table.owner.as_ref() == Some(&session.token);
            }
        }
        let wanted = Arc::clone(&self.corpora.wanted);
        for shard in &*wanted {
            let at = self.corpora.places[shard];
            if is_owned[at] {
                self.was_owned[at] = self.now;
                self.absent.remove(&at);
            } else {
                self.check_absence(at, shard);
            }
        }
    }

    /// Checks that a read under a held lease sees the last write.
    fn check_read(shard: &ShardKey, session: &Session, table: &Table) {
        let unseen = table.writes - session.writes.min(table.writes);
        let own = u64::from(session.is_writing);
        assert!(unseen <= own, "{shard} is read without its last {unseen} writes");
    }

    fn check_absence(&mut self, at: usize, shard: &ShardKey) {
        let (since, now) = (self.was_owned[at], self.now);
        let healthy = &self.healthy;
        let absence = self.absent.entry(at).or_insert_with(|| {
            let rightful = placement::owner(shard, healthy).map(|member| member.id.clone());
            Absence { since, counts_since: since, rightful }
        });
        if absence.rightful.is_none() || self.redis.is_away {
            absence.counts_since = now;
        }
        let counted = now - absence.counts_since;
        let turns = u32::try_from(self.most_missing.div_ceil(OPENINGS)).unwrap_or(u32::MAX);
        let bound = longest_absence() + TURN * turns;
        assert!(
            counted <= bound,
            "{shard} has had no owner since {:?} (now {now:?}); {:?} should have it; the bound is \
             {bound:?}",
            absence.since,
            absence.rightful,
        );
        self.longest_absence = self.longest_absence.max(counted);
    }
}
