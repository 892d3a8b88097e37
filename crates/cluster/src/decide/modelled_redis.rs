//! The scripts of leases and membership, without a Redis. Tests of the crate run the real ones.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::lease::Renewal;
use crate::member::{Member, NodeId, ShardKey};
use crate::membership::Record;

pub(super) const MEMBER_TTL: Duration = Duration::from_secs(5);
pub(super) const LEASE_TTL: Duration = Duration::from_secs(10);

/// A simulation of the Redis scripts, with Redis' clock.
#[derive(Default)]
pub(super) struct Redis {
    pub(super) is_away: bool,
    records: BTreeMap<NodeId, (Record, Instant)>,
    leases: BTreeMap<ShardKey, (Token, Instant)>,
    counter: u64,
}

/// Node, incarnation, number.
pub(super) type Token = (NodeId, u64, u64);

impl Redis {
    pub(super) fn heartbeat(&mut self, now: Instant, record: Record) -> Vec<Record> {
        self.records.retain(|_, (_, ends)| *ends > now);
        let id = record.member.id.clone();
        let later = self.records.get(&id).map(|(present, _)| present.member.incarnation);
        if later.is_none_or(|later| later <= record.member.incarnation) {
            self.records.insert(id, (record, now + MEMBER_TTL));
        }
        self.records.values().map(|(record, _)| record.clone()).collect()
    }

    pub(super) fn lease(&self, now: Instant, shard: &ShardKey) -> Option<&Token> {
        self.leases.get(shard).filter(|(_, ends)| *ends > now).map(|(token, _)| token)
    }

    pub(super) fn acquire(&mut self, now: Instant, shard: &ShardKey, me: &Member) -> Option<Token> {
        if self.lease(now, shard).is_some_and(|(id, run, _)| *id != me.id || *run > me.incarnation)
        {
            return None;
        }
        self.counter += 1;
        let token = (me.id.clone(), me.incarnation, self.counter);
        self.leases.insert(shard.clone(), (token.clone(), now + LEASE_TTL));
        Some(token)
    }

    pub(super) fn renew(&mut self, now: Instant, shard: &ShardKey, token: &Token) -> Renewal {
        let renewal = match self.lease(now, shard) {
            Some(held) if held != token => return Renewal::Anothers,
            Some(_) => Renewal::Renewed,
            None => Renewal::TakenAnew,
        };
        self.leases.insert(shard.clone(), (token.clone(), now + LEASE_TTL));
        renewal
    }

    pub(super) fn give_back(&mut self, now: Instant, shard: &ShardKey, token: &Token) {
        if self.lease(now, shard) == Some(token) {
            self.leases.remove(shard);
        }
    }
}
