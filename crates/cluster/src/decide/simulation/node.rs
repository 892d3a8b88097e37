//! One retriever: what `services/retriever` and the tasks of this crate do, as a state machine.
//!
//! Whatever is decided is decided by the code that a cluster runs: [`decide`], [`Placed`],
//! [`Tenure`], [`Rhythm`], [`Observed`] and [`Members`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::storage::Commit;
use crate::decide::modelled_redis::{MEMBER_TTL, Token};
use crate::decide::{Action, Holding, Situation, decide, missing};
use crate::lease::{Lapse, Renewal, Rhythm, Standing, Tenure};
use crate::member::{Contact, Member, MemberState, Members, NodeId, Role, ShardKey};
use crate::membership::{Observed, Record};
use crate::placement::Placed;

pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
pub(super) const RENEW: Duration = Duration::from_secs(3);
/// Longest time that a node waits for Redis.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
// The constants of `services/retriever/src/cluster.rs`. There, a shard is opened when it is needed,
// here as soon as it is taken, so that each takes longer here.
pub(super) const LOOK: Duration = Duration::from_millis(500);
pub(super) const OPENINGS: usize = 64;
const HAND_OVERS: usize = 2;
const BRIDGE: Duration = Duration::from_secs(20);
const BRIDGE_LOOK: Duration = Duration::from_millis(100);
/// How long a takeover in storage waits for Redis to confirm it.
const CONFIRM_PATIENCE: Duration = Duration::from_secs(10);
/// How long a node that leaves hands its shards over before it closes them.
const DRAIN_PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    Beat,
    Look,
    Keep,
    Write,
    /// What was accepted for the shard at this place is written, and it is given back.
    Finished(usize),
    /// The storage is asked whether the next owner has opened the shard at this place.
    Bridge(usize),
    Stop,
}

/// A request to Redis or to the storage. Shards are named by their place among all shards.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Beat(Record),
    Owners(Vec<usize>),
    Acquire(usize, Member),
    Renew(Vec<(usize, Token)>),
    GiveBack(Vec<(usize, Token)>),
    Read(usize),
    Commit(usize, Commit),
}

impl Request {
    pub(super) fn is_for_storage(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Commit(..))
    }
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Beat(Vec<Record>),
    Owners(BTreeMap<ShardKey, NodeId>),
    Acquired(Option<Token>),
    Renewed(Vec<Renewal>),
    GivenBack,
    Read { version: u64, writes: u64, owner: Option<Token> },
    Committed(bool),
}

/// What a node wants of the world.
#[derive(Debug)]
pub(super) enum Wish {
    Wake(Duration, Timer),
    Send(u64, Request),
    Exit,
}

/// All shards, and the place of each.
pub(super) struct Corpora {
    pub(super) shards: Vec<ShardKey>,
    pub(super) places: BTreeMap<ShardKey, usize>,
    /// The shards of the corpora that there are now.
    pub(super) wanted: Arc<[ShardKey]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    /// It takes no more writes. Searches are answered until the next owner has it, if there is one.
    Leaving {
        is_handed_over: bool,
    },
    Bridging {
        until: Instant,
    },
}

/// A shard that a node has.
pub(super) struct Session {
    pub(super) token: Token,
    pub(super) tenure: Tenure,
    pub(super) stage: Stage,
    version: u64,
    pub(super) writes: u64,
    pub(super) is_writing: bool,
    /// Whether the storage is asked if the shard is still this node's, and why.
    asking: Option<Option<Lapse>>,
}

/// A shard that a node is opening.
struct Opening {
    token: Token,
    tenure: Tenure,
    /// Version and writes that the storage had.
    found: Option<(u64, u64)>,
    /// When Redis was asked to confirm the takeover.
    taken_over: Option<Instant>,
}

/// What a request was for.
enum Purpose {
    Beat,
    Farewell,
    Owners,
    Acquire(usize),
    Renew(Vec<(usize, Token)>, Instant),
    GiveBack(Vec<(usize, Token)>),
    Takeover(usize, Token),
    Write(usize, Token),
    Check(usize, Token),
    Bridge(usize, Token),
}

#[derive(Default)]
struct Keeper {
    is_busy: bool,
    /// Whether something changed while it was busy.
    is_woken: bool,
    is_awaited: bool,
    /// Whether giving back has failed in the pass under way.
    has_failed: bool,
    /// Whether it will be woken.
    is_waiting: bool,
}

pub(super) struct Node {
    pub(super) me: Member,
    rng: Rng,
    /// How long this node believes leases to last. Other than what Redis does only in a test that
    /// expects a violation.
    lease_ttl: Duration,
    requests: u64,
    pending: BTreeMap<u64, (Instant, Purpose)>,
    beats: u64,
    is_beat_due: bool,
    observed: Observed,
    contact: Arc<Contact>,
    members: Arc<Members>,
    placed: Placed,
    pub(super) sessions: BTreeMap<usize, Session>,
    /// Shards that are being opened, `None` until Redis has given the lease.
    opening: BTreeMap<usize, Option<Opening>>,
    returning: Vec<(Instant, usize, Token)>,
    keeper: Keeper,
    rhythm: Rhythm,
    is_looking: bool,
    is_look_due: bool,
    /// When a node that leaves stops at the latest.
    stops_at: Option<Instant>,
    has_stopped: bool,
    has_left: bool,
    /// Whether the first heartbeat was answered or given up. Nothing else happens before.
    has_begun: bool,
    pub(super) wishes: Vec<Wish>,
}

impl Node {
    pub(super) fn start(me: Member, now: Instant, lease_ttl: Duration, seed: u64) -> Self {
        let contact = Arc::new(Contact::none_since(now));
        let members = Members::observed([me.clone()], Arc::clone(&contact), MEMBER_TTL);
        let placed = Placed::new(me.id.clone());
        let mut node = Self {
            me,
            rng: Rng::with_seed(seed),
            lease_ttl,
            requests: 0,
            pending: BTreeMap::new(),
            beats: 0,
            is_beat_due: false,
            observed: Observed::new(HEARTBEAT, MEMBER_TTL),
            contact,
            members: Arc::new(members),
            placed,
            sessions: BTreeMap::new(),
            opening: BTreeMap::new(),
            returning: Vec::new(),
            keeper: Keeper::default(),
            rhythm: Rhythm::new(now, RENEW),
            is_looking: false,
            is_look_due: false,
            stops_at: None,
            has_stopped: false,
            has_left: false,
            has_begun: false,
            wishes: Vec::new(),
        };
        node.wake_within(HEARTBEAT, Timer::Beat);
        node.wake_within(RENEW, Timer::Keep);
        node.keeper.is_waiting = true;
        node.wake_within(HEARTBEAT, Timer::Write);
        node
    }

    /// Gives the node what it would have in a cluster that has been at rest.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        members: &[Member],
        corpora: &Corpora,
        mut lease: impl FnMut(&ShardKey) -> Token,
    ) -> Vec<(usize, Token)> {
        let record = |member: &Member| Record { member: member.clone(), beat: 0, left: false };
        let others = members.iter().filter(|member| member.id != self.me.id);
        self.observed.heard(now, others.map(record));
        self.contact.note(now);
        self.publish();
        self.placed.update(self.members.as_slice(), &corpora.wanted);
        let mut taken = Vec::new();
        for shard in self.placed.here() {
            let (at, token) = (corpora.places[shard], lease(shard));
            taken.push((at, token.clone()));
            let tenure = Tenure::begun(now, self.lease_ttl);
            self.sessions.insert(at, Session::new(token, tenure, (1, 0)));
        }
        self.has_begun = true;
        self.wake_within(LOOK, Timer::Look);
        taken
    }

    pub(super) fn drain(&mut self, now: Instant, corpora: &Corpora) {
        self.me.state = MemberState::Draining;
        self.stops_at = Some(now + DRAIN_PATIENCE);
        self.publish();
        self.beat(now);
        self.look(now, corpora);
        self.wake(LOOK, Timer::Stop);
    }

    pub(super) fn wake_up(&mut self, now: Instant, timer: Timer, corpora: &Corpora) {
        match timer {
            Timer::Beat if self.has_left => {}
            Timer::Beat if self.pending.values().any(|(_, why)| matches!(why, Purpose::Beat)) => {
                self.is_beat_due = true;
            }
            Timer::Beat => {
                self.wake(HEARTBEAT, Timer::Beat);
                self.beat(now);
            }
            Timer::Look => {
                self.wake(LOOK, Timer::Look);
                self.look(now, corpora);
            }
            Timer::Keep => {
                self.keeper.is_waiting = false;
                self.keep(now);
            }
            Timer::Write => {
                self.write(now);
                self.wake(HEARTBEAT, Timer::Write);
            }
            Timer::Finished(at) => self.finish(now, at),
            Timer::Bridge(at) => self.bridge(now, at),
            Timer::Stop => self.stop(now),
        }
    }

    /// Takes a reply, or that none came in time.
    pub(super) fn hear(&mut self, now: Instant, id: u64, reply: Option<Reply>, corpora: &Corpora) {
        let Some((sent, purpose)) = self.pending.remove(&id) else { return };
        match purpose {
            Purpose::Beat => {
                if let Some(Reply::Beat(records)) = reply {
                    self.contact.note(sent);
                    let others = records.into_iter().filter(|r| r.member.id != self.me.id);
                    self.observed.heard(now, others);
                }
                let is_first = !std::mem::replace(&mut self.has_begun, true);
                if self.publish() || is_first {
                    self.look(now, corpora);
                }
                if is_first {
                    self.wake(LOOK, Timer::Look);
                }
                if std::mem::take(&mut self.is_beat_due) {
                    self.wake(HEARTBEAT, Timer::Beat);
                    self.beat(now);
                }
            }
            Purpose::Farewell => self.wishes.push(Wish::Exit),
            Purpose::Owners => {
                self.is_looking = false;
                let owners = match reply {
                    Some(Reply::Owners(owners)) => owners,
                    _ => BTreeMap::new(),
                };
                self.act(now, &owners, corpora);
                if std::mem::take(&mut self.is_look_due) {
                    self.look(now, corpora);
                }
            }
            Purpose::Acquire(at) => self.acquired(now, sent, at, reply),
            Purpose::Renew(leases, began) => self.renewed(now, sent, leases, began, reply),
            Purpose::GiveBack(leases) => {
                match reply {
                    Some(_) => self.returning.retain(|(_, at, token)| {
                        !leases.iter().any(|(other, returned)| other == at && returned == token)
                    }),
                    None => self.keeper.has_failed = true,
                }
                self.renew(now);
            }
            Purpose::Takeover(at, token) => self.take_over(now, at, &token, reply),
            Purpose::Write(at, token) => {
                let Some(session) = self.session(at, &token) else { return };
                session.is_writing = false;
                if let Some(Reply::Committed(true)) = reply {
                    (session.version, session.writes) = (session.version + 1, session.writes + 1);
                } else {
                    session.tenure.end();
                }
            }
            Purpose::Check(at, token) => {
                let Some(session) = self.session(at, &token) else { return };
                let lapse = session.asking.take().flatten();
                match (reply, lapse) {
                    (Some(Reply::Read { owner, .. }), _) if owner.as_ref() != Some(&token) => {
                        session.tenure.end();
                    }
                    (_, Some(lapse)) => session.tenure.settle(lapse),
                    (_, None) => {}
                }
            }
            Purpose::Bridge(at, token) => {
                let is_taken = matches!(&reply, Some(Reply::Read { owner, .. })
                    if owner.as_ref() != Some(&token));
                if is_taken && self.session(at, &token).is_some() {
                    self.sessions.remove(&at);
                } else {
                    self.wake(BRIDGE_LOOK, Timer::Bridge(at));
                }
            }
        }
    }

    /// Returns whether the members that this node sees as serving are `healthy`.
    pub(super) fn sees(&self, healthy: &[Member]) -> bool {
        let serving = self.members.as_slice().iter().filter(|m| m.serves(Role::Retriever));
        serving.map(|member| &member.id).eq(healthy.iter().map(|member| &member.id))
    }

    pub(super) fn is_placed_here(&self, shard: &ShardKey) -> bool {
        self.placed.is_here(shard)
    }

    fn session(&mut self, at: usize, token: &Token) -> Option<&mut Session> {
        self.sessions.get_mut(&at).filter(|session| session.token == *token)
    }

    fn wake(&mut self, after: Duration, timer: Timer) {
        self.wishes.push(Wish::Wake(after, timer));
    }

    fn wake_within(&mut self, longest: Duration, timer: Timer) {
        let after = longest.mul_f64(self.rng.f64());
        self.wake(after, timer);
    }

    fn send(&mut self, now: Instant, request: Request, purpose: Purpose) {
        self.requests += 1;
        self.pending.insert(self.requests, (now, purpose));
        self.wishes.push(Wish::Send(self.requests, request));
    }

    fn beat(&mut self, now: Instant) {
        let record = self.record();
        self.send(now, Request::Beat(record), Purpose::Beat);
    }

    fn record(&mut self) -> Record {
        self.beats += 1;
        Record { member: self.me.clone(), beat: self.beats, left: self.has_left }
    }

    /// Returns whether the members have changed.
    fn publish(&mut self) -> bool {
        let all = self.observed.members().cloned().chain([self.me.clone()]);
        let members = Members::observed(all, Arc::clone(&self.contact), MEMBER_TTL);
        let is_news = members.as_slice() != self.members.as_slice();
        if is_news {
            self.members = Arc::new(members);
        }
        is_news
    }

    fn holdings(&self, now: Instant, corpora: &Corpora) -> BTreeMap<ShardKey, Holding> {
        let is_at_rest = false;
        let opening = Holding { standing: Standing::Held, is_leaving: false, is_at_rest };
        let held = self.sessions.iter().map(|(at, session)| {
            let is_leaving = session.stage != Stage::Open;
            (*at, Holding { standing: session.tenure.standing(now), is_leaving, is_at_rest })
        });
        let opening = self.opening.keys().map(|at| (*at, opening));
        held.chain(opening).map(|(at, holding)| (corpora.shards[at].clone(), holding)).collect()
    }

    fn look(&mut self, now: Instant, corpora: &Corpora) {
        if self.has_stopped {
            return;
        }
        if self.is_looking {
            self.is_look_due = true;
            return;
        }
        self.check(now);
        self.placed.update(self.members.as_slice(), &corpora.wanted);
        let missing = missing(&self.placed, &self.holdings(now, corpora));
        if missing.is_empty() {
            self.act(now, &BTreeMap::new(), corpora);
        } else {
            self.is_looking = true;
            let missing = missing.iter().map(|shard| corpora.places[shard]).collect();
            self.send(now, Request::Owners(missing), Purpose::Owners);
        }
    }

    /// Asks the storage about every shard that the lease does not confirm.
    fn check(&mut self, now: Instant) {
        let is_unsure = |session: &Session| {
            session.stage == Stage::Open
                && session.asking.is_none()
                && session.tenure.standing(now) == Standing::Unconfirmed
        };
        let mut checks = Vec::new();
        for (at, session) in self.sessions.iter_mut().filter(|(_, session)| is_unsure(session)) {
            session.asking = Some(session.tenure.lapse());
            checks.push((*at, session.token.clone()));
        }
        for (at, token) in checks {
            self.send(now, Request::Read(at), Purpose::Check(at, token));
        }
    }

    fn act(&mut self, now: Instant, owners: &BTreeMap<ShardKey, NodeId>, corpora: &Corpora) {
        let actions = decide(&Situation {
            me: &self.me.id,
            members: self.members.as_slice(),
            is_stale: self.members.is_stale_at(now),
            placed: &self.placed,
            held: &self.holdings(now, corpora),
            owners,
            hand_overs: HAND_OVERS,
            hand_overs_at_rest: 0,
            openings: OPENINGS.saturating_sub(self.opening.len()),
        });
        for (shard, action) in actions {
            let at = corpora.places[&shard];
            match action {
                Action::Open => {
                    self.opening.insert(at, None);
                    self.send(now, Request::Acquire(at, self.me.clone()), Purpose::Acquire(at));
                }
                Action::HandOver { .. } => self.leave(at, true),
                Action::Close => self.leave(at, false),
                Action::Keep => {}
            }
        }
    }

    /// Begins to hand over or close a shard. Finishing what was accepted takes a moment.
    fn leave(&mut self, at: usize, is_handed_over: bool) {
        let session = self.sessions.get_mut(&at).filter(|session| session.stage == Stage::Open);
        if let Some(session) = session {
            session.stage = Stage::Leaving { is_handed_over };
            let finishing = Duration::from_millis(self.rng.u64(5..300));
            self.wake(finishing, Timer::Finished(at));
        }
    }

    fn finish(&mut self, now: Instant, at: usize) {
        let Some(session) = self.sessions.get_mut(&at) else { return };
        let Stage::Leaving { is_handed_over } = session.stage else { return };
        session.tenure.end();
        let token = session.token.clone();
        if is_handed_over {
            session.stage = Stage::Bridging { until: now + BRIDGE };
            self.wake(BRIDGE_LOOK, Timer::Bridge(at));
        } else {
            self.sessions.remove(&at);
        }
        self.give_back(now, at, token);
    }

    fn bridge(&mut self, now: Instant, at: usize) {
        let Some(session) = self.sessions.get(&at) else { return };
        let Stage::Bridging { until } = session.stage else { return };
        if now < until {
            let token = session.token.clone();
            self.send(now, Request::Read(at), Purpose::Bridge(at, token));
        } else {
            self.sessions.remove(&at);
        }
    }

    fn acquired(&mut self, now: Instant, sent: Instant, at: usize, reply: Option<Reply>) {
        let Some(Reply::Acquired(Some(token))) = reply else {
            self.opening.remove(&at);
            return;
        };
        let tenure = Tenure::begun(sent, self.lease_ttl);
        // Otherwise the takeover would end the ownership of a node that was given the shard since.
        if tenure.standing(now) == Standing::Held && !self.has_stopped {
            let opening = Opening { token: token.clone(), tenure, found: None, taken_over: None };
            self.opening.insert(at, Some(opening));
            self.send(now, Request::Read(at), Purpose::Takeover(at, token));
        } else {
            self.opening.remove(&at);
            self.give_back(now, at, token);
        }
    }

    fn take_over(&mut self, now: Instant, at: usize, token: &Token, reply: Option<Reply>) {
        let opening = self.opening.get_mut(&at).and_then(Option::as_mut);
        let Some(opening) = opening.filter(|opening| opening.token == *token) else { return };
        let token = token.clone();
        match reply {
            Some(Reply::Read { version, writes, .. }) => {
                opening.found = Some((version + 1, writes));
                let by = token.clone();
                let commit = Commit { version: version + 1, by, is_takeover: true };
                self.send(now, Request::Commit(at, commit), Purpose::Takeover(at, token));
            }
            Some(Reply::Committed(true)) => {
                opening.taken_over = Some(now);
                self.keeper.is_awaited = true;
                self.keep(now);
            }
            _ => {
                self.opening.remove(&at);
                self.give_back(now, at, token);
            }
        }
    }

    fn give_back(&mut self, now: Instant, at: usize, token: Token) {
        self.returning.push((now, at, token));
        self.keep(now);
    }

    /// One pass of the task that gives back and renews leases.
    fn keep(&mut self, now: Instant) {
        if self.keeper.is_busy {
            self.keeper.is_woken = true;
            return;
        }
        (self.keeper.is_busy, self.keeper.is_woken) = (true, false);
        self.keeper.has_failed = false;
        let lease_ttl = self.lease_ttl;
        self.returning.retain(|(since, ..)| now - *since < lease_ttl);
        if self.returning.is_empty() {
            self.renew(now);
        } else {
            let leases: Vec<_> =
                self.returning.iter().map(|(_, at, token)| (*at, token.clone())).collect();
            self.send(now, Request::GiveBack(leases.clone()), Purpose::GiveBack(leases));
        }
    }

    fn renew(&mut self, now: Instant) {
        if now < self.rhythm.next() && !std::mem::take(&mut self.keeper.is_awaited) {
            return self.rest(now);
        }
        self.keeper.is_awaited = false;
        let held = self.sessions.iter().filter(|(_, session)| !session.is_given_back());
        let held = held.map(|(at, session)| (*at, session.token.clone()));
        let opening = self.opening.iter();
        let opening =
            opening.filter_map(|(at, opening)| Some((*at, opening.as_ref()?.token.clone())));
        let leases: Vec<_> = held.chain(opening).collect();
        if leases.is_empty() {
            self.rhythm.attempted(now, !self.keeper.has_failed);
            return self.rest(now);
        }
        self.send(now, Request::Renew(leases.clone()), Purpose::Renew(leases, now));
    }

    fn renewed(
        &mut self,
        now: Instant,
        sent: Instant,
        leases: Vec<(usize, Token)>,
        began: Instant,
        reply: Option<Reply>,
    ) {
        let renewals = match reply {
            Some(Reply::Renewed(renewals)) => renewals,
            _ => Vec::new(),
        };
        let has_succeeded = !renewals.is_empty() && !self.keeper.has_failed;
        self.rhythm.attempted(began, has_succeeded);
        for ((at, token), renewal) in leases.into_iter().zip(renewals) {
            if let Some(session) = self.session(at, &token) {
                session.tenure.answered(sent, renewal);
                continue;
            }
            let opening = self.opening.get_mut(&at).and_then(Option::as_mut);
            let Some(opening) = opening.filter(|opening| opening.token == token) else { continue };
            opening.tenure.answered(sent, renewal);
            if opening.taken_over.is_some_and(|asked| sent >= asked) {
                self.open(at);
            }
        }
        self.give_up_openings(now);
        self.rest(now);
    }

    /// Opens a shard whose takeover Redis has confirmed, unless another node has it.
    fn open(&mut self, at: usize) {
        let Some(Some(Opening { token, tenure, found: Some(found), .. })) =
            self.opening.remove(&at)
        else {
            return;
        };
        self.sessions.insert(at, Session::new(token, tenure, found));
    }

    fn give_up_openings(&mut self, now: Instant) {
        let is_late = |opening: &Opening| {
            opening.taken_over.is_some_and(|asked| now - asked > CONFIRM_PATIENCE)
        };
        let late = self.opening.iter().filter(|(_, opening)| opening.as_ref().is_some_and(is_late));
        for at in late.map(|(at, _)| *at).collect::<Vec<_>>() {
            if let Some(Some(opening)) = self.opening.remove(&at) {
                self.returning.push((now, at, opening.token));
                self.keeper.is_woken = true;
            }
        }
    }

    /// Ends a pass of the keeper.
    fn rest(&mut self, now: Instant) {
        self.keeper.is_busy = false;
        if std::mem::take(&mut self.keeper.is_woken) || self.keeper.is_awaited {
            return self.keep(now);
        }
        if !std::mem::replace(&mut self.keeper.is_waiting, true) {
            self.wake(self.rhythm.next().saturating_duration_since(now), Timer::Keep);
        }
    }

    /// Writes to some of the shards that this node has, also while the lease is unconfirmed.
    fn write(&mut self, now: Instant) {
        let mut writes = Vec::new();
        for (at, session) in &mut self.sessions {
            let may = session.stage == Stage::Open && !session.is_writing;
            if may && session.tenure.standing(now) != Standing::Lost && self.rng.u8(..) < 64 {
                session.is_writing = true;
                let (version, by) = (session.version + 1, session.token.clone());
                writes.push((*at, Commit { version, by, is_takeover: false }));
            }
        }
        for (at, commit) in writes {
            let purpose = Purpose::Write(at, commit.by.clone());
            self.send(now, Request::Commit(at, commit), purpose);
        }
    }

    /// Leaves when all shards are handed over, nobody is there to take them, or time is up.
    fn stop(&mut self, now: Instant) {
        self.wake(LOOK, Timer::Stop);
        if self.has_stopped {
            self.has_left = true;
            let record = self.record();
            return self.send(now, Request::Beat(record), Purpose::Farewell);
        }
        let is_other = |member: &Member| member.id != self.me.id && member.serves(Role::Retriever);
        let may_hand_over = self.members.as_slice().iter().any(is_other)
            && !(self.sessions.is_empty() && self.opening.is_empty());
        if may_hand_over && self.stops_at.is_some_and(|deadline| now < deadline) {
            return;
        }
        self.has_stopped = true;
        for (at, session) in std::mem::take(&mut self.sessions) {
            self.returning.push((now, at, session.token));
        }
        for (at, opening) in std::mem::take(&mut self.opening) {
            self.returning.extend(opening.map(|opening| (now, at, opening.token)));
        }
        self.keep(now);
    }
}

impl Session {
    fn new(token: Token, tenure: Tenure, (version, writes): (u64, u64)) -> Self {
        let stage = Stage::Open;
        Self { token, tenure, stage, version, writes, is_writing: false, asking: None }
    }

    fn is_given_back(&self) -> bool {
        matches!(self.stage, Stage::Bridging { .. })
    }
}
