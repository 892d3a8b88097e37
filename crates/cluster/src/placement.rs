//! Placement of shards on nodes by rendezvous hashing.
//!
//! Each node draws a number for the shard, and the highest number wins (Thaler and Ravishankar,
//! 1998). A draw does not depend on the other nodes. A node that joins takes only its own shards,
//! about one in n, and a node that leaves gives away only its own.

mod placed;

use std::cmp::Reverse;

pub use self::placed::Placed;
use crate::member::{Member, NodeId, Role, ShardKey};

/// Returns `members` in the order of preference for `shard`, its owner first.
pub fn order<'a>(
    shard: &ShardKey,
    members: impl IntoIterator<Item = &'a Member>,
) -> Vec<&'a Member> {
    let mut drawn: Vec<_> =
        members.into_iter().map(|member| (preference(shard, &member.id), member)).collect();
    drawn.sort_by(|(a, _), (b, _)| b.cmp(a));
    drawn.into_iter().map(|(_, member)| member).collect()
}

/// Returns the member that `shard` belongs to: the first in order among the serving retrievers.
pub fn owner<'a>(
    shard: &ShardKey,
    members: impl IntoIterator<Item = &'a Member>,
) -> Option<&'a Member> {
    let serving = members.into_iter().filter(|member| member.serves(Role::Retriever));
    serving.max_by_key(|member| preference(shard, &member.id))
}

/// Returns a value that is greater for the node that `shard` rather belongs to.
fn preference<'a>(shard: &ShardKey, node: &'a NodeId) -> (u64, Reverse<&'a NodeId>) {
    (draw(shard, node), Reverse(node))
}

fn draw(shard: &ShardKey, node: &NodeId) -> u64 {
    let mut hasher = blake3::Hasher::new();
    // Neither name can contain a zero byte, so no two pairs hash the same text.
    hasher.update(node.as_str().as_bytes()).update(&[0]);
    hasher.update(shard.corpus.as_str().as_bytes()).update(&[0]);
    hasher.update(&shard.shard.0.to_le_bytes());
    let mut number = [0; 8];
    hasher.finalize_xof().fill(&mut number);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use clew_core::{CorpusName, ShardIndex};
    use proptest::prelude::*;

    use super::*;

    fn nodes(count: usize) -> Vec<Member> {
        (0..count)
            .map(|i| {
                let id = format!("retriever-{i}").parse().unwrap();
                let address = format!("http://10.0.0.{i}:7000").parse().unwrap();
                Member::starting(id, address, [Role::Retriever])
            })
            .collect()
    }

    fn shards(corpus: &str, count: u32) -> Vec<ShardKey> {
        let corpus: CorpusName = corpus.parse().unwrap();
        let key = |shard| ShardKey { corpus: corpus.clone(), shard: ShardIndex(shard) };
        (0..count).map(key).collect()
    }

    proptest! {
        #[test]
        fn a_node_that_comes_or_goes_moves_shards_only_to_or_from_itself(
            corpus in "[a-z]{1,12}",
            count in 1usize..12,
            changed in 0usize..12,
        ) {
            let all = nodes(count + 1);
            let changed = &all[changed % all.len()];
            let fewer: Vec<&Member> = all.iter().filter(|node| node.id != changed.id).collect();
            let shards = shards(&corpus, 256);
            let mut moved = 0;
            for shard in &shards {
                let with = owner(shard, &all).unwrap();
                let without = owner(shard, fewer.iter().copied()).unwrap();
                if with.id == changed.id {
                    moved += 1;
                } else {
                    prop_assert_eq!(&with.id, &without.id);
                }
                // The next in order is the owner that the shard would have without the first.
                let order = order(shard, &all);
                let next = owner(shard, order[1..].iter().copied()).unwrap();
                prop_assert_eq!(&order[1].id, &next.id);
            }
            // Binomial with p = 1/(n+1): six standard deviations, plus two for the smallest cases.
            let share = 1.0 / all.len() as f64;
            let (mean, spread) = (256.0 * share, (256.0 * share * (1.0 - share)).sqrt());
            prop_assert!(
                (f64::from(moved) - mean).abs() <= 6.0 * spread + 2.0,
                "{moved} of 256 moved among {} nodes", all.len()
            );
        }
    }

    #[test]
    fn a_node_that_drains_or_is_no_retriever_owns_nothing() {
        let mut all = nodes(3);
        all[0].state = crate::MemberState::Draining;
        all[1].roles = [Role::Gateway].into();
        for shard in shards("notes", 32) {
            assert_eq!(owner(&shard, &all).unwrap().id, all[2].id);
            assert_eq!(order(&shard, &all).len(), 3);
        }
        assert!(owner(&shards("notes", 1)[0], &all[..2]).is_none());
    }

    #[test]
    fn the_order_is_the_same_on_every_machine_and_in_every_version() {
        let all = nodes(4);
        let shard = &shards("notes", 1)[0];
        let ids: Vec<_> = order(shard, &all).iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["retriever-3", "retriever-1", "retriever-0", "retriever-2"]);
    }
}
