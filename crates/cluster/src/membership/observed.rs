//! Members as derived from the answers of Redis. Pure functions: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::member::{Member, NodeId};

/// The record that a node writes about itself into Redis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) member: Member,
    /// Number of heartbeats so far.
    pub(crate) beat: u64,
    /// Whether the node has left. A record says so explicitly, because a missing record may also
    /// mean that Redis was emptied.
    pub(crate) left: bool,
}

/// The members that one node sees.
///
/// A record in Redis expires when its node sends no heartbeat for the time to live. But a missing
/// record does not prove that the node is gone: Redis may have been emptied, or its clock may have
/// advanced while it was stopped. A member is therefore dropped only if its record is missing *and*
/// this node has seen no heartbeat of it for the time to live by its own clock. Time without
/// contact to Redis does not count.
#[derive(Debug)]
pub(crate) struct Observed {
    member_ttl: Duration,
    heartbeat: Duration,
    seen: BTreeMap<NodeId, Seen>,
    last_contact: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    record: Record,
    /// Time at which its latest heartbeat was seen.
    changed: Instant,
}

impl Observed {
    pub(crate) fn new(heartbeat: Duration, member_ttl: Duration) -> Self {
        Self { member_ttl, heartbeat, seen: BTreeMap::new(), last_contact: None }
    }

    /// Takes in all records that Redis holds, read at `now`.
    pub(crate) fn heard(&mut self, now: Instant, records: impl IntoIterator<Item = Record>) {
        let silence = self.last_contact.map_or(Duration::ZERO, |last| {
            now.saturating_duration_since(last).saturating_sub(self.heartbeat)
        });
        self.last_contact = Some(now);
        for seen in self.seen.values_mut() {
            seen.changed = now.min(seen.changed + silence);
        }
        let mut present = BTreeSet::new();
        for record in records {
            let id = record.member.id.clone();
            let known = self.seen.get(&id).map(|seen| &seen.record);
            if known.is_some_and(|known| known.member.incarnation > record.member.incarnation) {
                continue;
            }
            if record.left {
                self.seen.remove(&id);
                continue;
            }
            if known != Some(&record) {
                self.seen.insert(id.clone(), Seen { record, changed: now });
            }
            present.insert(id);
        }
        let member_ttl = self.member_ttl;
        self.seen.retain(|id, seen| {
            present.contains(id) || now.saturating_duration_since(seen.changed) < member_ttl
        });
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.seen.values().map(|seen| &seen.record.member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{MemberState, Role};

    const HEARTBEAT: Duration = Duration::from_secs(1);
    const TTL: Duration = Duration::from_secs(5);

    fn record(id: &str, beat: u64) -> Record {
        let member = Member {
            id: id.parse().unwrap(),
            address: "http://host:1".parse().unwrap(),
            roles: [Role::Retriever].into(),
            state: MemberState::Serving,
            incarnation: 1,
        };
        Record { member, beat, left: false }
    }

    fn names(observed: &Observed) -> Vec<&str> {
        observed.members().map(|member| member.id.as_str()).collect()
    }

    fn observed() -> (Observed, Instant) {
        (Observed::new(HEARTBEAT, TTL), Instant::now())
    }

    #[test]
    fn a_silent_member_is_dropped_after_its_time_to_live() {
        let (mut observed, start) = observed();
        for second in 0..=10 {
            let now = start + HEARTBEAT * second;
            // `b` sends heartbeats until second 2. Redis drops its record five seconds later.
            let mut records = vec![record("a", second.into())];
            if second < 7 {
                records.push(record("b", second.min(2).into()));
            }
            observed.heard(now, records);
            let expected: &[&str] = if second < 7 { &["a", "b"] } else { &["a"] };
            assert_eq!(names(&observed), expected, "second {second}");
        }
    }

    #[test]
    fn an_emptied_redis_drops_nobody_who_comes_back_in_time() {
        let (mut observed, start) = observed();
        observed.heard(start, [record("a", 1), record("b", 1)]);
        observed.heard(start + HEARTBEAT, []);
        assert_eq!(names(&observed), ["a", "b"]);
        for second in 2..=8 {
            observed.heard(start + HEARTBEAT * second, [record("a", second.into())]);
        }
        assert_eq!(names(&observed), ["a"]);
    }

    #[test]
    fn time_without_contact_does_not_count() {
        let (mut observed, start) = observed();
        observed.heard(start, [record("a", 1), record("b", 1)]);
        // An hour later Redis is back and empty.
        let back = start + Duration::from_secs(3600);
        observed.heard(back, []);
        assert_eq!(names(&observed), ["a", "b"]);
        observed.heard(back + HEARTBEAT, [record("a", 2)]);
        assert_eq!(names(&observed), ["a", "b"]);
        for second in 2..=6 {
            observed.heard(back + HEARTBEAT * second, [record("a", second.into())]);
        }
        assert_eq!(names(&observed), ["a"]);
    }

    #[test]
    fn who_leaves_is_gone_at_once_and_may_come_back() {
        let (mut observed, start) = observed();
        observed.heard(start, [record("a", 1)]);
        let mut leaving = record("a", 2);
        leaving.left = true;
        observed.heard(start + HEARTBEAT, [leaving]);
        assert!(names(&observed).is_empty());
        let mut again = record("a", 1);
        again.member.incarnation = 2;
        observed.heard(start + HEARTBEAT * 2, [again]);
        // A late record of the earlier run says nothing about this one.
        let mut late = record("a", 3);
        late.left = true;
        observed.heard(start + HEARTBEAT * 3, [late]);
        assert_eq!(names(&observed), ["a"]);
    }

    #[test]
    fn records_survive_their_encoding() {
        let record = record("a", 7);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            text,
            "{\"id\":\"a\",\"address\":\"http://host:1\",\"roles\":[\"retriever\"],\
             \"state\":\"serving\",\"incarnation\":1,\"beat\":7,\"left\":false}"
        );
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
}
