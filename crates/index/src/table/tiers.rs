//! Tiers of a table: which fragments are merged, and which segments its indexes have.
//!
//! A table grows as log-structured stores do. New rows come in small fragments, which no index
//! covers and searches read from memory. Once there are enough of them, they are merged with others
//! that are not much larger, and the merged fragment gets a segment of its own in every
//! index. A fragment of [`FULL_ROWS`] rows is merged no more. So a row is rewritten a number of
//! times that grows as the logarithm of the table, and what has to be rewritten to erase a row is
//! bounded: the fragment that holds it, and its segments.
//!
//! Everything here is a pure function of sizes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use roaring::RoaringBitmap;

/// Maximum number of rows of a merged fragment.
pub(crate) const MERGED_ROWS: u64 = 100_000;
/// Maximum bytes of the fragments that are merged into one. A larger fragment is rewritten alone.
const MERGED_BYTES: u64 = 512 << 20;
/// Number of rows from which a fragment is not merged with others any more.
const FULL_ROWS: u64 = MERGED_ROWS / 2;
/// Bytes from which a fragment is not merged with others any more.
const FULL_BYTES: u64 = MERGED_BYTES / 2;
/// A fragment is merged with those after it if it has at most as many times their rows.
const GROWTH: u64 = 4;
/// Number of rows from which a fragment has segments of its own. Smaller neighbours share one.
const SEGMENT_ROWS: u64 = 4_096;
/// Number of deleted rows from which a fragment is rewritten, if they are also one in
/// [`DELETED_SHARE`].
const DELETED_ROWS: u64 = 1_000;
const DELETED_SHARE: u64 = 10;

/// Size of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentSize {
    pub id: u32,
    /// Number of rows, including deleted ones.
    pub rows: u64,
    pub deleted: u64,
    pub bytes: u64,
}

impl FragmentSize {
    /// Returns the number of rows that are not deleted.
    pub(crate) fn live(&self) -> u64 {
        self.rows - self.deleted.min(self.rows)
    }

    fn is_full(&self) -> bool {
        self.live() >= FULL_ROWS || self.bytes >= FULL_BYTES
    }

    /// Returns whether so many rows are deleted that the fragment is rewritten.
    pub(crate) fn is_holey(&self) -> bool {
        self.deleted >= DELETED_ROWS && self.deleted * DELETED_SHARE > self.rows
    }
}

/// Part of the work on a table that is done at once: its size is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Runs of fragments, each of which becomes one fragment without its deleted rows.
    pub rewritten: Vec<Vec<u32>>,
    /// Fragments that stay as they are and that indexes should cover.
    pub covered: Vec<u32>,
}

impl Piece {
    /// Returns whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.rewritten.is_empty() && self.covered.is_empty()
    }
}

/// Returns the fragments from the largest to the smallest, and the newest last among equals. Their
/// order in the table says nothing: the engine keeps them by number, and a fragment that is
/// rewritten gets a new one.
fn by_size(fragments: &[FragmentSize]) -> Vec<FragmentSize> {
    let mut sorted = fragments.to_vec();
    sorted.sort_by_key(|fragment| (Reverse(fragment.live()), fragment.id));
    sorted
}

/// Returns how many of a table's fragments are small beside those that are smaller still, all of
/// them together: merging these keeps the number of fragments small.
pub(crate) fn mergeable(fragments: &[FragmentSize]) -> usize {
    let (mut count, mut rows) = (0, 0);
    for fragment in by_size(fragments).iter().rev() {
        if fragment.is_full() || !(count == 0 || fragment.live() <= GROWTH * rows) {
            break;
        }
        (count, rows) = (count + 1, rows + fragment.live());
    }
    count
}

/// Returns the next piece of merging a table's small fragments and of covering those that are not
/// `indexed`. Returns an empty piece once nothing is left.
pub(crate) fn next_merge(fragments: &[FragmentSize], indexed: &RoaringBitmap) -> Piece {
    let is_fresh = |fragment: &FragmentSize| !indexed.contains(fragment.id);
    if let Some(run) = chunks(fragments, FragmentSize::is_holey).into_iter().next() {
        return Piece { rewritten: vec![run], ..Piece::default() };
    }
    let fragments = by_size(fragments);
    let first_fresh = fragments.iter().position(is_fresh).unwrap_or(fragments.len());
    let start = (fragments.len() - mergeable(&fragments)).min(first_fresh);
    let (mut run, mut size) = (Vec::new(), (0, 0));
    let finish = |run: &[FragmentSize]| match run {
        [] => Piece::default(),
        [alone] if is_fresh(alone) => Piece { covered: vec![alone.id], ..Piece::default() },
        [_] => Piece::default(),
        many => {
            let ids = many.iter().map(|fragment| fragment.id).collect();
            Piece { rewritten: vec![ids], ..Piece::default() }
        }
    };
    for fragment in &fragments[start..] {
        let grown = (size.0 + fragment.live(), size.1 + fragment.bytes);
        if fragment.is_full() || grown.0 > MERGED_ROWS || grown.1 > MERGED_BYTES {
            let piece = finish(&run);
            if !piece.is_empty() {
                return piece;
            }
            (run, size) = (Vec::new(), (0, 0));
            if fragment.is_full() {
                let piece = finish(&[*fragment]);
                if !piece.is_empty() {
                    return piece;
                }
                continue;
            }
        }
        run.push(*fragment);
        size = (size.0 + fragment.live(), size.1 + fragment.bytes);
    }
    finish(&run)
}

/// Returns the next piece of rewriting those of the fragments `wanted` that still exist.
pub(crate) fn next_rewrite(fragments: &[FragmentSize], wanted: &BTreeSet<u32>) -> Piece {
    let runs = chunks(fragments, |fragment| wanted.contains(&fragment.id));
    let by_id: BTreeMap<u32, &FragmentSize> = fragments.iter().map(|of| (of.id, of)).collect();
    let mut piece = Piece::default();
    let (mut rows, mut bytes) = (0, 0);
    for run in runs {
        rows += run.iter().map(|id| by_id[id].live()).sum::<u64>();
        bytes += run.iter().map(|id| by_id[id].bytes).sum::<u64>();
        if !piece.is_empty() && (rows > MERGED_ROWS || bytes > MERGED_BYTES) {
            break;
        }
        piece.rewritten.push(run);
    }
    piece
}

/// Returns runs of neighbours that meet a condition, each of at most the size of a merged fragment,
/// or alone. A full fragment is always alone, so that its segments follow it.
fn chunks(fragments: &[FragmentSize], is_in: impl Fn(&FragmentSize) -> bool) -> Vec<Vec<u32>> {
    let mut runs: Vec<Vec<u32>> = Vec::new();
    // Live rows and bytes of the last run, if the fragment before belongs to it.
    let mut open: Option<(u64, u64)> = None;
    for fragment in fragments {
        if !is_in(fragment) {
            open = None;
            continue;
        }
        if fragment.is_full() {
            runs.push(vec![fragment.id]);
            open = None;
            continue;
        }
        let (rows, bytes) = open.unwrap_or_default();
        let grown = (rows + fragment.live(), bytes + fragment.bytes);
        let fits = grown.0 <= MERGED_ROWS && grown.1 <= MERGED_BYTES;
        match runs.last_mut().filter(|_| open.is_some() && fits) {
            Some(run) => {
                run.push(fragment.id);
                open = Some(grown);
            }
            None => {
                runs.push(vec![fragment.id]);
                open = Some((fragment.live(), fragment.bytes));
            }
        }
    }
    runs
}

/// Returns what a segment covers once runs of fragments, old and new, have taken place, if its
/// entries tell all that a segment over the new fragments has. Returns `None` if nothing changes
/// for it, if it covers a run only in part, or if a fragment is gone that no run has.
pub(crate) fn followed(
    segment: &RoaringBitmap,
    runs: &[(RoaringBitmap, RoaringBitmap)],
    there: &RoaringBitmap,
) -> Option<RoaringBitmap> {
    let mut covered = segment.clone();
    for (old, new) in runs.iter().filter(|(old, _)| !old.is_disjoint(segment)) {
        if !old.is_subset(segment) {
            return None;
        }
        covered -= old;
        covered |= new;
    }
    let is_whole = !covered.is_empty() && covered.is_subset(there);
    (covered != *segment && is_whole).then_some(covered)
}

/// Segments of one index that are replaced, by their places in the given list, and the fragments of
/// each new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resegmented {
    pub removed: Vec<usize>,
    pub built: Vec<Vec<u32>>,
}

/// Decides on the segments of an index after a piece. `segments` are the fragments that each covers
/// now, `fragments` those of the table afterwards, with their live rows, and `wanted` those that
/// should be covered. A segment that covers a fragment which is there no more is replaced: it may
/// hold rows that are gone. `min_rows` is the minimum of a segment; fewer rows stay uncovered if it
/// is given.
pub(crate) fn resegmented(
    segments: &[RoaringBitmap],
    fragments: &[(u32, u64)],
    wanted: &RoaringBitmap,
    min_rows: Option<u64>,
) -> Resegmented {
    let there: RoaringBitmap = fragments.iter().map(|(id, _)| *id).collect();
    let is_stale = |segment: &&RoaringBitmap| !segment.is_subset(&there);
    let mut covered: RoaringBitmap = segments
        .iter()
        .filter(is_stale)
        .fold(RoaringBitmap::new(), |all, segment| all | (segment & &there));
    covered |= wanted & &there;
    for kept in segments.iter().filter(|segment| segment.is_subset(&there)) {
        covered -= kept;
    }
    let mut built: Vec<Vec<u32>> = Vec::new();
    let mut open: Option<(Vec<u32>, u64)> = None;
    for &(id, rows) in fragments.iter().filter(|(id, _)| covered.contains(*id)) {
        if rows >= SEGMENT_ROWS {
            built.push(vec![id]);
            continue;
        }
        let (ids, sum) = open.get_or_insert_with(Default::default);
        ids.push(id);
        *sum += rows;
        if *sum >= SEGMENT_ROWS {
            built.extend(open.take().map(|(ids, _)| ids));
        }
    }
    built.extend(open.filter(|(_, rows)| *rows >= min_rows.unwrap_or(0)).map(|(ids, _)| ids));
    // The segment of an empty table has no more use once there is another.
    let has_others = !built.is_empty()
        || segments.iter().any(|segment| !segment.is_empty() && segment.is_subset(&there));
    let is_removed = |segment: &RoaringBitmap| {
        if segment.is_empty() { has_others } else { !segment.is_subset(&there) }
    };
    let removed = (0..segments.len()).filter(|&place| is_removed(&segments[place])).collect();
    Resegmented { removed, built }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(rows: &[u64]) -> Vec<FragmentSize> {
        let size = |(id, &rows): (usize, &u64)| {
            let bytes = rows * 1_000;
            FragmentSize { id: id as u32, rows, deleted: 0, bytes }
        };
        rows.iter().enumerate().map(size).collect()
    }

    /// Merges until nothing is left to merge. Returns the rows of the fragments, and how many rows
    /// were rewritten.
    fn merged(rows: &[u64]) -> (Vec<u64>, u64) {
        let mut fragments = sizes(rows);
        let (mut next_id, mut rewritten) = (rows.len() as u32, 0);
        let mut indexed: RoaringBitmap = fragments.iter().map(|of| of.id).collect();
        for _ in 0..1_000 {
            let piece = next_merge(&fragments, &indexed);
            if piece.is_empty() {
                return (fragments.iter().map(|of| of.rows).collect(), rewritten);
            }
            for run in piece.rewritten {
                let (mut sum, mut bytes) = (0, 0);
                for old in fragments.extract_if(.., |of| run.contains(&of.id)) {
                    (sum, bytes) = (sum + old.live(), bytes + old.bytes);
                }
                assert!(sum <= MERGED_ROWS && run.len() > 1, "{run:?}: {sum}");
                rewritten += sum;
                fragments.push(FragmentSize { id: next_id, rows: sum, deleted: 0, bytes });
                indexed.insert(next_id);
                next_id += 1;
            }
        }
        panic!("merging does not end: {fragments:?}");
    }

    #[test]
    fn small_fragments_are_merged_with_those_that_are_not_much_larger() {
        assert_eq!(merged(&[4_000, 4, 4, 4]), (vec![4_000, 12], 12));
        assert_eq!(merged(&[40, 4, 4, 4]), (vec![52], 52));
        assert_eq!(merged(&[60_000, 20_000, 9_000]), (vec![60_000, 29_000], 29_000));
        assert_eq!(merged(&[100_000]), (vec![100_000], 0));
        assert_eq!(merged(&[]), (vec![], 0));
    }

    #[test]
    fn a_million_rows_take_few_fragments_and_few_rewrites() {
        let (mut fragments, mut rewritten): (Vec<u64>, u64) = (Vec::new(), 0);
        for _ in 0..1_000 {
            fragments.extend([250; 4]);
            let (after, rows) = merged(&fragments);
            (fragments, rewritten) = (after, rewritten + rows);
        }
        assert_eq!(fragments.iter().sum::<u64>(), 1_000_000);
        assert!(fragments.len() <= 26, "{fragments:?}");
        assert!(rewritten <= 12_000_000, "{rewritten}");
    }

    #[test]
    fn fresh_fragments_are_covered_whatever_their_size() {
        let fragments = sizes(&[70_000, 5_000, 3]);
        let piece = next_merge(&fragments, &RoaringBitmap::new());
        assert_eq!(piece, Piece { covered: vec![0], ..Piece::default() });
        let piece = next_merge(&fragments, &RoaringBitmap::from([0]));
        assert_eq!(piece, Piece { rewritten: vec![vec![1, 2]], ..Piece::default() });
        let piece = next_merge(&sizes(&[70_000, 5_000]), &RoaringBitmap::from([0]));
        assert_eq!(piece, Piece { covered: vec![1], ..Piece::default() });
    }

    #[test]
    fn fragments_with_many_deleted_rows_are_rewritten_first() {
        let mut fragments = sizes(&[70_000, 60_000, 5]);
        fragments[1].deleted = 6_001;
        let piece = next_merge(&fragments, &RoaringBitmap::from([0, 1, 2]));
        assert_eq!(piece, Piece { rewritten: vec![vec![1]], ..Piece::default() });
    }

    #[test]
    fn a_piece_of_a_rewrite_is_bounded() {
        let fragments = sizes(&[60_000, 30_000, 30_000, 7, 90_000]);
        let piece = next_rewrite(&fragments, &[0, 2, 3, 4].into());
        assert_eq!(piece.rewritten, [vec![0], vec![2, 3]]);
        let piece = next_rewrite(&fragments, &[4, 9].into());
        assert_eq!(piece.rewritten, [vec![4]]);
        assert!(next_rewrite(&fragments, &[9].into()).is_empty());
    }

    #[test]
    fn a_segment_follows_whole_runs_of_its_fragments() {
        let of = |ids: &[u32]| ids.iter().copied().collect::<RoaringBitmap>();
        let runs = [(of(&[1]), of(&[5])), (of(&[2, 3]), of(&[6])), (of(&[4]), of(&[]))];
        let there = of(&[0, 5, 6]);
        let check = |segment: &[u32]| followed(&of(segment), &runs, &there);
        assert_eq!(check(&[1]), Some(of(&[5])));
        assert_eq!(check(&[0, 1, 2, 3]), Some(of(&[0, 5, 6])));
        assert_eq!(check(&[1, 4]), Some(of(&[5])));
        // Nothing changes, nothing is left, a part of a run, and a fragment that no run has.
        for segment in [&[0][..], &[4], &[2], &[1, 9]] {
            assert_eq!(check(segment), None, "{segment:?}");
        }
    }

    #[test]
    fn full_fragments_are_rewritten_alone() {
        let fragments = sizes(&[50_000, 50_000, 20_000, 20_000]);
        let piece = next_rewrite(&fragments, &[0, 1, 2, 3].into());
        assert_eq!(piece.rewritten, [vec![0], vec![1]]);
        assert_eq!(next_rewrite(&fragments, &[2, 3].into()).rewritten, [vec![2, 3]]);
    }

    #[test]
    fn only_segments_that_lost_a_fragment_are_replaced() {
        let of = |ids: &[u32]| ids.iter().copied().collect::<RoaringBitmap>();
        let check = |segments: &[&[u32]], fragments: &[(u32, u64)], wanted: &[u32], min_rows| {
            let segments: Vec<RoaringBitmap> = segments.iter().map(|ids| of(ids)).collect();
            let Resegmented { removed, built } =
                resegmented(&segments, fragments, &of(wanted), min_rows);
            (removed, built)
        };
        let table = [(0, 80_000), (5, 70_000), (6, 10), (7, 20)];
        // Fragment 1 became 5.
        assert_eq!(check(&[&[0], &[1]], &table, &[5], None), (vec![1], vec![vec![5]]));
        // One large segment of before is divided.
        assert_eq!(check(&[&[0, 1]], &table, &[5], None), (vec![0], vec![vec![0], vec![5]]));
        // Small ones share a segment, and a vector index does without it.
        let both = check(&[&[0], &[5]], &table, &[6, 7], None);
        assert_eq!(both, (vec![], vec![vec![6, 7]]));
        assert_eq!(check(&[&[0], &[5]], &table, &[6, 7], Some(SEGMENT_ROWS)), (vec![], vec![]));
        // The empty segment of a new table goes with the first other one.
        assert_eq!(check(&[&[]], &table, &[6], None), (vec![0], vec![vec![6]]));
        assert_eq!(check(&[&[]], &[], &[], None), (vec![], vec![]));
        // A segment all of whose fragments are gone.
        assert_eq!(check(&[&[0], &[1]], &table[..1], &[], None), (vec![1], vec![]));
        assert_eq!(check(&[&[1]], &[], &[], None), (vec![0], vec![]));
    }

    proptest! {
        #[test]
        fn merging_ends_and_keeps_every_row(rows in prop::collection::vec(1_u64..120_000, 0..40)) {
            let (after, _) = merged(&rows);
            prop_assert_eq!(after.iter().sum::<u64>(), rows.iter().sum::<u64>());
        }

        #[test]
        fn every_fragment_is_covered_once_at_most(
            rows in prop::collection::vec(1_u64..20_000, 1..12),
            of in prop::collection::vec(0_usize..5, 1..16),
            wanted in prop::collection::btree_set(0_u32..12, 0..12),
        ) {
            // Fragment `i` of some version belongs to segment `of[i]`, or to none.
            let mut segments = vec![RoaringBitmap::new(); 4];
            for (fragment, &segment) in of.iter().enumerate() {
                if let Some(segment) = segments.get_mut(segment) {
                    segment.insert(fragment as u32);
                }
            }
            let fragments: Vec<(u32, u64)> = (0..).zip(rows).collect();
            let wanted: RoaringBitmap = wanted.into_iter().collect();
            let after = resegmented(&segments, &fragments, &wanted, None);
            let mut count = BTreeMap::new();
            let kept = (0..segments.len()).filter(|place| !after.removed.contains(place));
            for id in kept.flat_map(|place| &segments[place]).chain(after.built.concat()) {
                *count.entry(id).or_insert(0) += 1;
            }
            let before: RoaringBitmap = segments.iter().flatten().collect();
            for (id, _) in &fragments {
                let is_wanted = before.contains(*id) || wanted.contains(*id);
                prop_assert_eq!(count.remove(id).unwrap_or(0), u32::from(is_wanted), "{}", id);
            }
            prop_assert!(count.is_empty(), "covers what is not there: {count:?}");
        }
    }
}
