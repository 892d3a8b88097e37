//! Decision of a retriever about each shard: open it, keep it, hand it over or close it.
//!
//! Each retriever decides for itself, repeatedly, from what it sees. There is no coordinator. All
//! retrievers reach the same result because placement is the same for all once their views agree.
//! The rules:
//!
//! - Only the node that a shard is placed on opens it.
//! - A holder hands a shard over when the shard is placed on another node that serves. Until then
//!   it keeps the shard, so that no shard is without an owner merely because of a change of
//!   placement.
//! - A node whose view may be out of date moves nothing.

use std::collections::BTreeMap;

use crate::lease::Standing;
use crate::member::{Member, NodeId, ShardKey};
use crate::placement::{self, Placed};

#[cfg(test)]
mod model;
#[cfg(test)]
mod modelled_redis;
#[cfg(test)]
mod simulation;

/// The knowledge of a retriever when it decides.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// This node.
    pub me: &'a NodeId,
    /// All members, including this node, see [`crate::Members::as_slice`].
    pub members: &'a [Member],
    /// Whether `members` may be out of date, see [`crate::Members::is_stale`].
    pub is_stale: bool,
    /// Placement of all shards of all corpora on this node, among `members`.
    pub placed: &'a Placed,
    /// The shards that this node has open or is opening.
    pub held: &'a BTreeMap<ShardKey, Holding>,
    /// Lease holders of the [`missing`] shards, see [`crate::Leases::owners`]. Empty if they are
    /// unknown.
    pub owners: &'a BTreeMap<ShardKey, NodeId>,
    /// Maximum number of open shards that this node hands over at the same time, so that a change
    /// of the cluster affects few requests at a time.
    pub hand_overs: usize,
    /// The same of shards at rest, which affect no request.
    pub hand_overs_at_rest: usize,
    /// Maximum number of shards that this node begins to open now.
    pub openings: usize,
}

/// A shard that this node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Standing of its lease.
    pub standing: Standing,
    /// Whether the hand-over has already begun.
    pub is_leaving: bool,
    /// Whether it rests: its tables are not open.
    pub is_at_rest: bool,
}

/// An action for one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Acquire its lease and open it.
    Open,
    /// Accept no more writes, finish what was accepted and give the lease back. Then the next owner
    /// takes it.
    HandOver {
        /// The node that opens it next.
        to: NodeId,
    },
    /// Close the shard and give its lease back. Another node has it, its corpus is gone, or the
    /// node that it was being handed over to is gone.
    Close,
    /// Continue as before.
    Keep,
}

/// Returns the shards that are placed on this node and that it does not have. Only their owners
/// matter to [`decide`].
pub fn missing(placed: &Placed, held: &BTreeMap<ShardKey, Holding>) -> Vec<ShardKey> {
    placed.here().filter(|shard| !held.contains_key(shard)).cloned().collect()
}

/// Decides what to do now. Returns an action for every shard that is held and for every shard to
/// open.
pub fn decide(situation: &Situation<'_>) -> BTreeMap<ShardKey, Action> {
    let Situation { me, members, is_stale, placed, held, owners, openings, .. } = *situation;
    let mut actions = BTreeMap::new();
    let free = |most: usize, is_at_rest: bool| {
        let leaving = held.values().filter(|of| of.is_leaving && of.is_at_rest == is_at_rest);
        most.saturating_sub(leaving.count())
    };
    let mut turns_of_open = free(situation.hand_overs, false);
    let mut turns_at_rest = free(situation.hand_overs_at_rest, true);
    for (shard, holding) in held {
        // One draw for each member: not for shards that stay.
        let next = || placement::owner(shard, members).filter(|owner| owner.id != *me);
        let turns = match holding.is_at_rest {
            true => &mut turns_at_rest,
            false => &mut turns_of_open,
        };
        let may_move = holding.standing == Standing::Held && !is_stale && *turns > 0;
        let action = match holding.standing {
            Standing::Lost => Action::Close,
            _ if !placed.is_known(shard) => Action::Close,
            // A hand-over that has begun continues, whichever node the shard goes to.
            _ if holding.is_leaving => {
                next().map_or(Action::Close, |next| Action::HandOver { to: next.id.clone() })
            }
            // Keep a shard whose lease cannot be given back, or that no other node should have.
            _ if !may_move || placed.is_here(shard) => Action::Keep,
            _ => match next() {
                Some(next) => {
                    *turns -= 1;
                    Action::HandOver { to: next.id.clone() }
                }
                None => Action::Keep,
            },
        };
        actions.insert(shard.clone(), action);
    }
    // Redis gives a node the lease of its own earlier run again.
    let is_free = |shard: &ShardKey| owners.get(shard).is_none_or(|owner| owner == me);
    let open = missing(placed, held).into_iter().filter(is_free).take(openings);
    actions.extend(open.map(|shard| (shard, Action::Open)));
    actions
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clew_core::ShardIndex;

    use super::*;
    use crate::member::{MemberState, Role};

    fn member(id: &str) -> Member {
        Member::starting(id.parse().unwrap(), "http://h:1".parse().unwrap(), [Role::Retriever])
    }

    fn shards(count: u32) -> BTreeSet<ShardKey> {
        let key = |shard| ShardKey { corpus: "c".parse().unwrap(), shard: ShardIndex(shard) };
        (0..count).map(key).collect()
    }

    /// A node `a` beside `b`, with 32 shards of which about half are placed on each.
    struct Scene {
        members: Vec<Member>,
        is_stale: bool,
        wanted: BTreeSet<ShardKey>,
        held: BTreeMap<ShardKey, Holding>,
        owners: BTreeMap<ShardKey, NodeId>,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                members: vec![member("a"), member("b")],
                is_stale: false,
                wanted: shards(32),
                held: BTreeMap::new(),
                owners: BTreeMap::new(),
            }
        }

        fn holding(mut self, standing: Standing) -> Self {
            let holding = Holding { standing, is_leaving: false, is_at_rest: false };
            self.held = self.wanted.iter().map(|shard| (shard.clone(), holding)).collect();
            self
        }

        fn placed(&self) -> Placed {
            let mut placed = Placed::new(self.members[0].id.clone());
            placed.update(&self.members, &self.wanted.iter().cloned().collect());
            placed
        }

        fn decide(&self) -> BTreeMap<ShardKey, Action> {
            self.decide_to_open(usize::MAX)
        }

        fn decide_to_open(&self, openings: usize) -> BTreeMap<ShardKey, Action> {
            decide(&Situation {
                me: &self.members[0].id,
                members: &self.members,
                is_stale: self.is_stale,
                placed: &self.placed(),
                held: &self.held,
                owners: &self.owners,
                hand_overs: 2,
                hand_overs_at_rest: 8,
                openings,
            })
        }

        fn count(&self, is_counted: impl Fn(&Action) -> bool) -> usize {
            self.decide().values().filter(|action| is_counted(action)).count()
        }

        fn placed_on(&self, at: usize) -> Vec<ShardKey> {
            let id = &self.members[at].id;
            let is_there =
                |shard: &&ShardKey| &placement::owner(shard, &self.members).unwrap().id == id;
            self.wanted.iter().filter(is_there).cloned().collect()
        }
    }

    fn is_hand_over(action: &Action) -> bool {
        matches!(action, Action::HandOver { .. })
    }

    #[test]
    fn what_is_placed_here_and_free_is_opened() {
        let mut scene = Scene::new();
        let mine = scene.placed_on(0);
        assert!((4..28).contains(&mine.len()));
        let opened: Vec<_> = scene.decide().into_keys().collect();
        assert_eq!(opened, mine);
        assert_eq!(scene.count(|action| *action == Action::Open), mine.len());
        scene.owners.insert(mine[0].clone(), scene.members[1].id.clone());
        scene.owners.insert(mine[1].clone(), scene.members[0].id.clone());
        assert!(!scene.decide().contains_key(&mine[0]), "another has it");
        assert_eq!(scene.decide()[&mine[1]], Action::Open, "an earlier run had it");
        let first: Vec<_> = scene.decide_to_open(3).into_keys().collect();
        assert_eq!(first, mine[1..4], "what another has takes no turn");
    }

    #[test]
    fn only_what_is_placed_here_and_not_held_is_asked_for() {
        let mut scene = Scene::new();
        let mine = scene.placed_on(0);
        assert_eq!(missing(&scene.placed(), &scene.held), mine);
        scene = scene.holding(Standing::Held);
        scene.held.remove(&mine[1]);
        scene.held.remove(&scene.placed_on(1)[1]);
        assert_eq!(missing(&scene.placed(), &scene.held), mine[1..2]);
    }

    #[test]
    fn what_is_placed_elsewhere_is_handed_over_two_at_a_time() {
        let mut scene = Scene::new().holding(Standing::Held);
        let first = scene.decide();
        assert_eq!(scene.count(is_hand_over), 2);
        for (shard, action) in first {
            if is_hand_over(&action) {
                scene.held.get_mut(&shard).unwrap().is_leaving = true;
            }
        }
        assert_eq!(scene.count(is_hand_over), 2, "no more while those are under way");
        // No node is left to take shards: those being handed over are closed, the rest stays.
        scene.members[1].state = MemberState::Draining;
        assert_eq!(scene.count(|action| *action == Action::Close), 2);
        assert_eq!(scene.count(|action| *action == Action::Keep), 30);
    }

    #[test]
    fn what_rests_is_handed_over_more_at_a_time_and_takes_no_turn_of_what_is_open() {
        let mut scene = Scene::new().holding(Standing::Held);
        let elsewhere = scene.placed_on(1);
        assert!(elsewhere.len() > 10);
        for shard in &elsewhere[..9] {
            scene.held.get_mut(shard).unwrap().is_at_rest = true;
        }
        assert_eq!(scene.count(is_hand_over), 8 + 2);
        for (shard, action) in scene.decide() {
            scene.held.get_mut(&shard).unwrap().is_leaving = is_hand_over(&action);
        }
        assert_eq!(scene.count(is_hand_over), 8 + 2, "no more while those are under way");
        scene.held.retain(|_, holding| !(holding.is_leaving && holding.is_at_rest));
        assert_eq!(scene.count(is_hand_over), 1 + 2, "the last that rests");
    }

    #[test]
    fn a_node_that_drains_hands_over_everything_and_opens_nothing() {
        let mut scene = Scene::new();
        scene.members[0].state = MemberState::Draining;
        assert!(scene.decide().is_empty());
        scene = scene.holding(Standing::Held);
        while !scene.held.is_empty() {
            let actions = scene.decide();
            assert!(scene.count(is_hand_over) > 0);
            scene.held.retain(|shard, _| !is_hand_over(&actions[shard]));
        }
    }

    #[test]
    fn who_may_see_the_wrong_picture_moves_nothing() {
        let mut scene = Scene::new().holding(Standing::Held);
        scene.is_stale = true;
        assert_eq!(scene.count(|action| *action == Action::Keep), 32);
        let unconfirmed = Scene::new().holding(Standing::Unconfirmed);
        assert_eq!(unconfirmed.count(|action| *action == Action::Keep), 32);
    }

    #[test]
    fn what_is_lost_or_not_wanted_is_closed() {
        let lost = Scene::new().holding(Standing::Lost);
        assert_eq!(lost.count(|action| *action == Action::Close), 32);
        let mut unwanted = Scene::new().holding(Standing::Held);
        unwanted.wanted.clear();
        assert_eq!(unwanted.count(|action| *action == Action::Close), 32);
    }
}
