//! The walk over the best nodes of each level and then the segments among them.

use clew_core::Error;

use super::best_first::{Seen, see, sort};
use super::end::End;
use super::limits::{BEAM_WIDTH, MAX_EXPANDED};
use super::walk::{Walk, is_leaf};

pub(super) async fn walk(walk: &mut Walk<'_>) -> Result<End, Error> {
    let tops = walk.tops().await?;
    if tops.is_empty() {
        return Ok(End::no_answer("there is nothing to walk"));
    }
    let level = see(walk, "", tops).await?;
    let mut leaves = descend(walk, level).await?;
    sort(&mut leaves);
    for leaf in leaves {
        if let Some(end) = walk.spent() {
            return Ok(end);
        }
        if let Some(answer) = walk.read(leaf.entry()).await? {
            return Ok(End::Answer(answer));
        }
    }
    Ok(End::no_answer("no segment of the beam answers"))
}

/// Returns the segments that the beam meets on its way down. Documents have trees of different
/// depth, so it meets segments on several levels.
async fn descend(walk: &mut Walk<'_>, mut level: Vec<Seen>) -> Result<Vec<Seen>, Error> {
    let mut leaves = Vec::new();
    let mut expanded = 0;
    while !level.is_empty() {
        sort(&mut level);
        level.truncate(BEAM_WIDTH);
        let mut next = Vec::new();
        for seen in level {
            if is_leaf(&seen.node) {
                leaves.push(seen);
            } else if expanded < MAX_EXPANDED {
                expanded += 1;
                let children = walk.enter(seen.entry()).await?;
                next.extend(see(walk, &seen.node.id.to_string(), children).await?);
            }
        }
        level = next;
    }
    Ok(leaves)
}
