//! The shards that are placed on one node, kept up to date at little cost.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::preference;
use crate::member::{Member, NodeId, Role, ShardKey};

/// The shards that are placed on one node.
///
/// For each other shard it remembers one node that the shard rather belongs to. While that node
/// serves, the shard is not placed here, whatever else changes. A change of the members therefore
/// costs a few draws for each shard of the nodes that came or went, and a look at an unchanged
/// cluster costs none. With all draws at every look, a thousand retrievers of a hundred thousand
/// shards would make a hundred million each.
#[derive(Debug)]
pub struct Placed {
    me: NodeId,
    /// Whether this node takes new work.
    is_serving: bool,
    /// The other retrievers that serve, sorted.
    others: Vec<NodeId>,
    /// All shards, sorted.
    shards: Arc<[ShardKey]>,
    /// Position in `others` of a node that each of `shards` rather belongs to, if there is one.
    preferred: Vec<Option<u32>>,
    /// Shards without a preferred node, or none if this node does not serve.
    here: BTreeSet<ShardKey>,
}

impl Placed {
    /// Creates the placement on the node `me` of no shards.
    pub fn new(me: NodeId) -> Self {
        Self {
            me,
            is_serving: false,
            others: Vec::new(),
            shards: Arc::default(),
            preferred: Vec::new(),
            here: BTreeSet::new(),
        }
    }

    /// Places `shards`, which are sorted, on the serving retrievers of `members`.
    pub fn update(&mut self, members: &[Member], shards: &Arc<[ShardKey]>) {
        let serving = || members.iter().filter(|member| member.serves(Role::Retriever));
        let is_serving = serving().any(|member| member.id == self.me);
        let others = || serving().map(|member| &member.id).filter(|id| **id != self.me);
        let has_others_changed = !others().eq(&self.others);
        let has_shards_changed = !Arc::ptr_eq(shards, &self.shards) && *shards != self.shards;
        if has_others_changed {
            let mut others: Vec<NodeId> = others().cloned().collect();
            others.sort();
            self.set_others(others);
        }
        if has_shards_changed {
            self.set_shards(Arc::clone(shards));
        }
        if has_others_changed || has_shards_changed || is_serving != self.is_serving {
            self.is_serving = is_serving;
            let placed = self.shards.iter().zip(&self.preferred);
            let here = placed.filter(|(_, preferred)| is_serving && preferred.is_none());
            self.here = here.map(|(shard, _)| shard.clone()).collect();
        }
    }

    /// Returns the shards that are placed on this node, sorted.
    pub fn here(&self) -> impl Iterator<Item = &ShardKey> {
        self.here.iter()
    }

    /// Returns whether `shard` is placed on this node.
    pub fn is_here(&self, shard: &ShardKey) -> bool {
        self.here.contains(shard)
    }

    /// Returns whether `shard` is one of the shards, wherever it is placed.
    pub fn is_known(&self, shard: &ShardKey) -> bool {
        self.shards.binary_search(shard).is_ok()
    }

    fn set_others(&mut self, others: Vec<NodeId>) {
        let before = std::mem::replace(&mut self.others, others);
        let others = &self.others;
        let moved: Vec<Option<u32>> =
            before.iter().map(|id| others.binary_search(id).ok().map(position)).collect();
        let is_new = |at: &usize| before.binary_search(&others[*at]).is_err();
        let new: Vec<usize> = (0..others.len()).filter(is_new).collect();
        for (shard, preferred) in self.shards.iter().zip(&mut self.preferred) {
            *preferred = match *preferred {
                Some(at) => moved[at as usize].or_else(|| search(shard, &self.me, others)),
                None => {
                    let mine = preference(shard, &self.me);
                    let is_ahead = |at: &&usize| preference(shard, &others[**at]) > mine;
                    new.iter().find(is_ahead).copied().map(position)
                }
            };
        }
    }

    fn set_shards(&mut self, shards: Arc<[ShardKey]>) {
        let before = std::mem::replace(&mut self.shards, shards);
        let mut known = before.iter().zip(std::mem::take(&mut self.preferred)).peekable();
        for shard in &*self.shards {
            while known.next_if(|(other, _)| *other < shard).is_some() {}
            let known = known.next_if(|(other, _)| (*other).cmp(shard) == Ordering::Equal);
            let preferred = known
                .map_or_else(|| search(shard, &self.me, &self.others), |(_, preferred)| preferred);
            self.preferred.push(preferred);
        }
    }
}

/// Returns the position of one of `others` that `shard` rather belongs to than to `me`.
fn search(shard: &ShardKey, me: &NodeId, others: &[NodeId]) -> Option<u32> {
    let mine = preference(shard, me);
    let is_ahead = |at: &usize| preference(shard, &others[*at]) > mine;
    // Each shard begins elsewhere. Otherwise the first of the others would be remembered for half
    // of all shards, and all of them would be searched for again when it goes.
    let first = usize::try_from(mine.0 % others.len().max(1) as u64).unwrap_or(0);
    (first..others.len()).chain(0..first).find(is_ahead).map(position)
}

/// Nodes are counted in 32 bits, because there are many shards that each remember one.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use clew_core::ShardIndex;
    use proptest::prelude::*;

    use super::*;
    use crate::member::MemberState;
    use crate::placement;

    fn member(at: usize, state: MemberState) -> Member {
        let id = format!("retriever-{at}").parse().unwrap();
        let address = format!("http://10.0.0.{at}:7000").parse().unwrap();
        Member { state, ..Member::starting(id, address, [Role::Retriever]) }
    }

    fn state() -> impl Strategy<Value = Option<MemberState>> {
        prop_oneof![
            1 => Just(None),
            1 => Just(Some(MemberState::Draining)),
            3 => Just(Some(MemberState::Serving)),
        ]
    }

    proptest! {
        #[test]
        fn it_is_what_the_owners_are_whatever_came_and_went_before(
            changes in prop::collection::vec(
                (prop::collection::vec(state(), 6), prop::collection::btree_set(0u32..64, 0..64)),
                1..8,
            ),
        ) {
            let me = member(0, MemberState::Serving).id;
            let mut placed = Placed::new(me.clone());
            for (states, wanted) in changes {
                let members = states.into_iter().enumerate();
                let members: Vec<Member> =
                    members.filter_map(|(at, state)| Some(member(at, state?))).collect();
                let key = |shard| ShardKey { corpus: "c".parse().unwrap(), shard: ShardIndex(shard) };
                let shards: Arc<[ShardKey]> = wanted.into_iter().map(key).collect();
                placed.update(&members, &shards);
                let is_mine = |shard: &&ShardKey| {
                    placement::owner(shard, &members).is_some_and(|owner| owner.id == me)
                };
                let expected: Vec<&ShardKey> = shards.iter().filter(is_mine).collect();
                prop_assert_eq!(placed.here().collect::<Vec<_>>(), expected);
                for shard in (0..64).map(key) {
                    prop_assert_eq!(placed.is_known(&shard), shards.contains(&shard));
                }
            }
        }
    }
}
