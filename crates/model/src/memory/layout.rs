//! Layout: which rows a step computes, their positions, and which of them stay.

use serde::{Deserialize, Serialize};

use super::schedule::{RatioSchedule, is_ratio};
use super::settings::{MemoryModelSettings, Placement};

/// Contents of a memory without the tensors: how far it has read, and what each slot is.
///
/// Slots are numbered from 0, and a slot's number is its position: first the sink, then the memory,
/// then the open window. When a window is complete, its slots that stay move down to the end of the
/// memory, and so get new positions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Number of tokens read.
    pub tokens: usize,
    /// Number of slots in the sink.
    pub sink: usize,
    /// Number of slots in the memory.
    pub memory: usize,
    /// Slots of the open window: whether each is a memory token.
    pub open: Vec<bool>,
    /// Ratios of the complete windows, in order.
    pub windows: Vec<usize>,
    /// Number of tokens in the open window.
    fill: usize,
    /// Ratio of the open window, once it has begun.
    ratio: Option<usize>,
    schedule: RatioSchedule,
    uncompressed: Uncompressed,
}

/// Parts of a text that are kept uncompressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncompressed {
    /// Number of the first tokens that become the sink.
    pub first: usize,
    /// Index of the token from which on everything is kept uncompressed.
    pub from: Option<usize>,
}

/// Rows of one window that one forward pass computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// Token ids; `memory_id` is that of memory tokens.
    pub(super) ids: Vec<u32>,
    /// Position of each row.
    pub(super) positions: Vec<usize>,
    /// Number of slots before the window.
    pub(super) front: usize,
    /// Mask of the open window's slots, including these rows, that a row does not attend to,
    /// `[rows, open + rows]`. `None` if each row attends to the slots up to its own.
    pub(super) hidden: Option<Vec<bool>>,
    /// State of the window after these rows.
    pub(super) end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The window stays open.
    Open,
    /// The window stays open, and this many of its first rows become the sink.
    OpenAfterSink(usize),
    /// The rows join the sink.
    Sink,
    /// The slots with the indices `kept`, counted over the window including these rows, join the
    /// memory. Before that, the first `sink` rows become the sink.
    Complete { kept: Vec<usize>, sink: usize },
}

impl Rows {
    /// Returns whether later rows have to wait for these, because the slots in front of them
    /// change.
    pub(super) fn ends_pass(&self) -> bool {
        matches!(self.end, End::OpenAfterSink(_) | End::Complete { sink: 1.., .. })
    }

    /// Places the memory tokens, which are the rows from `first` on, each behind the last of the
    /// `ratio` words that it stands for. Hides from each the words and memory tokens that come
    /// later and, unless `sees_earlier`, the memory tokens before it. `open` slots of the window
    /// were there before.
    fn stand_by_step(&mut self, first: usize, open: usize, ratio: usize, sees_earlier: bool) {
        for (at, position) in self.positions[first..].iter_mut().enumerate() {
            let last_word = self.front + (at + 1) * ratio - 1;
            *position = last_word + if sees_earlier { at + 1 } else { 1 };
        }
        let words = open + first;
        let slots = open + self.ids.len();
        let is_hidden = |row: usize, slot: usize| match row.checked_sub(words) {
            None => slot > row,
            Some(at) if slot < words => slot >= (at + 1) * ratio,
            Some(_) if sees_earlier => slot > row,
            Some(_) => slot != row,
        };
        let rows = open..slots;
        let hidden = rows.flat_map(|row| (0..slots).map(move |slot| is_hidden(row, slot)));
        self.hidden = Some(hidden.collect());
    }

    /// Returns the mask for rows that also attend to `before` more slots in front of the window's.
    pub(super) fn hidden_beside(&self, before: usize) -> Option<Vec<bool>> {
        let hidden = self.hidden.as_ref()?;
        let before = vec![false; before];
        let rows = hidden.chunks_exact(hidden.len() / self.ids.len());
        Some(rows.flat_map(|row| [before.as_slice(), row].concat()).collect())
    }
}

impl Extent {
    /// Creates the extent of an empty memory.
    pub(super) fn new(schedule: RatioSchedule, uncompressed: Uncompressed) -> Self {
        Self {
            tokens: 0,
            sink: 0,
            memory: 0,
            open: Vec::new(),
            windows: Vec::new(),
            fill: 0,
            ratio: None,
            schedule,
            uncompressed,
        }
    }

    /// Returns the number of all slots.
    pub fn slots(&self) -> usize {
        self.sink + self.memory + self.open.len()
    }

    /// Returns whether the schedule is valid for windows of `window` tokens.
    pub(super) fn fits(&self, window: usize) -> bool {
        self.schedule.fits(window)
    }

    /// Returns whether reading with `settings` could have led here. The contents of a file may be
    /// anything.
    pub(super) fn is_plausible(&self, settings: &MemoryModelSettings) -> bool {
        let Self { tokens, windows, fill, ratio, schedule, uncompressed, .. } = self;
        let window = settings.window;
        let first = uncompressed.first.min(*tokens);
        let raw = uncompressed.from.map_or(0, |from| tokens - from.max(first).min(*tokens));
        let ratios = || windows.iter().chain(ratio);
        if !schedule.fits(window)
            || schedule.chosen() != ratios().count()
            || !ratios().all(|ratio| is_ratio(*ratio, window))
            || *fill >= window
            || ratio.is_some() != (*fill > 0)
        {
            return false;
        }
        // Nothing overflows: `windows` has an entry for each window.
        let is_read = windows.len() * window + fill == tokens - first - raw;
        let slots = |ratio: &usize| window.checked_div(*ratio).unwrap_or(window);
        let is_remembered = windows.iter().map(slots).sum::<usize>() == self.memory;
        let sinks = if uncompressed.first > 0 { first..=first } else { 0..=settings.sink };
        let ratio =
            ratio.filter(|ratio| settings.placement == Placement::Interleaved && *ratio > 0);
        let of_word = |word: usize| {
            let is_followed = ratio.is_some_and(|ratio| word.is_multiple_of(ratio));
            std::iter::once(false).chain(is_followed.then_some(true))
        };
        let open = (1..=*fill).flat_map(of_word).chain(std::iter::repeat_n(false, raw));
        is_read && is_remembered && sinks.contains(&self.sink) && open.eq(self.open.iter().copied())
    }

    /// Returns whether the next token begins a window behind slots that do not change any more.
    pub(super) fn is_between_windows(&self, settings: &MemoryModelSettings) -> bool {
        let is_in_sink = self.tokens < self.uncompressed.first;
        // The first rows of each read replace the sink as long as there is no memory.
        let replaces_sink = settings.sink > 0 && self.uncompressed.first == 0 && self.memory == 0;
        self.open.is_empty() && !is_in_sink && !replaces_sink
    }

    /// Takes as many of `tokens`, at least one, as one window has room for, and returns the rows to
    /// compute for them. Counts the slots that stay, so that the next rows may be laid out at once.
    pub(super) fn read(
        &mut self,
        tokens: &mut &[u32],
        memory_id: u32,
        settings: &MemoryModelSettings,
    ) -> Rows {
        let known = self.tokens + tokens.len();
        let until_first = self.uncompressed.first.saturating_sub(self.tokens);
        if until_first > 0 {
            let ids = self.take(tokens, until_first.min(settings.window));
            let rows = self.rows(ids, End::Sink);
            self.sink += rows.ids.len();
            return rows;
        }
        let from = self.uncompressed.from.unwrap_or(usize::MAX);
        let until_raw = from.saturating_sub(self.tokens);
        if until_raw == 0 {
            let ids = self.take(tokens, settings.window);
            let rows = self.rows(ids, End::Open);
            self.open.resize(self.open.len() + rows.ids.len(), false);
            return rows;
        }
        let ratio = *self.ratio.get_or_insert_with(|| self.schedule.next(known));
        let is_interleaved = settings.placement == Placement::Interleaved;
        let mut ids = Vec::new();
        for id in self.take(tokens, until_raw.min(settings.window - self.fill)) {
            ids.push(id);
            self.fill += 1;
            if is_interleaved && ratio > 0 && self.fill.is_multiple_of(ratio) {
                ids.push(memory_id);
            }
        }
        let is_complete = self.fill == settings.window;
        let before_appended = ids.len();
        if is_complete && !is_interleaved && ratio > 0 {
            ids.extend(std::iter::repeat_n(memory_id, settings.window / ratio));
        }
        let mut rows = self.rows(ids, End::Open);
        if let Placement::AppendedByStep { sees_earlier } = settings.placement
            && before_appended < rows.ids.len()
        {
            rows.stand_by_step(before_appended, self.open.len(), ratio, sees_earlier);
        }
        // As long as there is no memory, the first rows of each read are the sink.
        let takes_sink = self.memory == 0 && self.uncompressed.first == 0;
        let sink = if takes_sink { settings.sink.min(rows.ids.len()) } else { 0 };
        if sink > 0 {
            self.sink = sink;
        }
        self.open.extend(rows.ids.iter().map(|id| *id == memory_id));
        rows.end = match (is_complete, sink) {
            (false, 0) => End::Open,
            (false, sink) => End::OpenAfterSink(sink),
            (true, sink) => End::Complete { kept: self.complete(ratio), sink },
        };
        rows
    }

    /// Takes the first of `tokens`, at most `most`, and counts them as read.
    fn take(&mut self, tokens: &mut &[u32], most: usize) -> Vec<u32> {
        let (taken, rest) = tokens.split_at(most.min(tokens.len()));
        *tokens = rest;
        self.tokens += taken.len();
        taken.to_vec()
    }

    /// Returns rows behind all slots, each of which attends to the slots up to its own.
    fn rows(&self, ids: Vec<u32>, end: End) -> Rows {
        let begin = self.slots();
        let positions = (begin..begin + ids.len()).collect();
        Rows { ids, positions, front: self.sink + self.memory, hidden: None, end }
    }

    /// Ends the open window, and returns which of its slots join the memory.
    fn complete(&mut self, ratio: usize) -> Vec<usize> {
        let slots = self.open.drain(..).enumerate();
        let kept = slots.filter_map(|(at, is_memory)| (ratio == 0 || is_memory).then_some(at));
        let kept: Vec<usize> = kept.collect();
        self.memory += kept.len();
        self.windows.push(ratio);
        (self.fill, self.ratio) = (0, None);
        kept
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::schedule::Ratios;
    use super::super::settings::BeginsAs;
    use super::*;

    const MEMORY: u32 = 1000;

    fn settings(window: usize, placement: Placement) -> MemoryModelSettings {
        let ratios = Ratios::one(window, window).unwrap();
        let projections = vec!['k', 'q', 'v'];
        MemoryModelSettings {
            window,
            placement,
            sink: 0,
            ratios,
            projections,
            begins_as: BeginsAs::Eos,
        }
    }

    fn read_all(
        extent: &mut Extent,
        mut tokens: &[u32],
        settings: &MemoryModelSettings,
    ) -> Vec<Rows> {
        let mut all = Vec::new();
        while !tokens.is_empty() {
            all.push(extent.read(&mut tokens, MEMORY, settings));
        }
        all
    }

    #[test]
    fn memory_tokens_follow_every_so_many_and_stay() {
        let mut extent = Extent::new(RatioSchedule::told(vec![2, 4]), Uncompressed::default());
        let settings = settings(4, Placement::Interleaved);
        let rows = read_all(&mut extent, &[1, 2, 3, 4, 5, 6, 7, 8, 9], &settings);
        assert_eq!(rows[0].ids, [1, 2, MEMORY, 3, 4, MEMORY]);
        assert_eq!(rows[0].positions, [0, 1, 2, 3, 4, 5]);
        assert_eq!(rows[0].end, End::Complete { kept: vec![2, 5], sink: 0 });
        assert_eq!(rows[1].ids, [5, 6, 7, 8, MEMORY]);
        assert_eq!(rows[1].positions, [2, 3, 4, 5, 6]);
        assert_eq!(rows[2].positions, [3]);
        assert_eq!((extent.memory, extent.open.len(), extent.tokens), (3, 1, 9));
        assert_eq!(extent.windows, [2, 4]);
    }

    #[test]
    fn appended_memory_tokens_stand_and_see_by_step() {
        for (sees_earlier, positions) in [(true, [2, 5]), (false, [2, 4])] {
            let settings = settings(4, Placement::AppendedByStep { sees_earlier });
            let mut extent = Extent::new(RatioSchedule::told(vec![2]), Uncompressed::default());
            let rows = read_all(&mut extent, &[1, 2, 3, 4], &settings);
            assert_eq!(rows[0].ids, [1, 2, 3, 4, MEMORY, MEMORY]);
            assert_eq!(rows[0].positions[4..], positions);
            let hidden = rows[0].hidden.as_ref().unwrap();
            let seen = |row: usize| -> Vec<usize> {
                (0..6).filter(|slot| !hidden[row * 6 + slot]).collect()
            };
            assert_eq!(seen(1), [0, 1]);
            assert_eq!(seen(4), [0, 1, 4]);
            let last: &[usize] = if sees_earlier { &[0, 1, 2, 3, 4, 5] } else { &[0, 1, 2, 3, 5] };
            assert_eq!(seen(5), last);
        }
    }

    #[test]
    fn parts_of_a_text_stay_uncompressed() {
        let settings = settings(4, Placement::Interleaved);
        let uncompressed = Uncompressed { first: 2, from: Some(7) };
        let mut extent = Extent::new(RatioSchedule::told(vec![4]), uncompressed);
        let tokens: Vec<u32> = (0..12).collect();
        let rows = read_all(&mut extent, &tokens, &settings);
        let lengths: Vec<usize> = rows.iter().map(|rows| rows.ids.len()).collect();
        assert_eq!(lengths, [2, 5, 1, 4, 1]);
        assert_eq!((extent.sink, extent.memory, extent.open.len()), (2, 1, 6));
        assert!(!extent.open.contains(&true));
    }

    proptest! {
        #[test]
        fn reading_in_pieces_ends_where_reading_at_once_does(
            tokens in 0_usize..120,
            cuts in prop::collection::vec(1_usize..30, 0..12),
            ratios in prop::collection::vec(prop::sample::select(vec![0, 1, 2, 4, 8]), 1..6),
            placement in prop::sample::select(vec![Placement::Interleaved, Placement::Appended]),
            first in 0_usize..10,
            from in prop::option::of(0_usize..140),
        ) {
            let settings = settings(8, placement);
            let tokens: Vec<u32> = (0..tokens as u32).collect();
            let uncompressed = Uncompressed { first, from };
            let mut at_once = Extent::new(RatioSchedule::told(ratios), uncompressed);
            let mut in_pieces = at_once.clone();
            let whole = read_all(&mut at_once, &tokens, &settings);
            let (mut rest, mut parts) = (tokens.as_slice(), Vec::new());
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                parts.extend(read_all(&mut in_pieces, piece, &settings));
                rest = more;
            }
            parts.extend(read_all(&mut in_pieces, rest, &settings));
            prop_assert_eq!(&at_once, &in_pieces);
            prop_assert!(at_once.is_plausible(&settings));
            // Any change makes the extent implausible.
            for change in [
                |extent: &mut Extent| extent.tokens += 1,
                |extent: &mut Extent| extent.memory += 1,
                |extent: &mut Extent| extent.fill += 1,
                |extent: &mut Extent| extent.open.push(false),
                |extent: &mut Extent| extent.windows.push(3),
                |extent: &mut Extent| extent.sink += 1,
                |extent: &mut Extent| extent.ratio = extent.ratio.xor(Some(1)),
                |extent: &mut Extent| _ = extent.schedule.next(0),
            ] {
                let mut changed = at_once.clone();
                change(&mut changed);
                prop_assert!(!changed.is_plausible(&settings), "{:?}", changed);
            }
            let rows = |all: &[Rows]| -> Vec<(u32, usize)> {
                let each = |rows: &Rows| {
                    let places = rows.positions.iter().copied();
                    rows.ids.iter().copied().zip(places).collect::<Vec<_>>()
                };
                all.iter().flat_map(each).collect()
            };
            prop_assert_eq!(rows(&whole), rows(&parts));
            // Nothing is lost: every token is a row once, in order.
            let read: Vec<u32> = rows(&whole).iter().map(|row| row.0).filter(|id| *id != MEMORY).collect();
            prop_assert_eq!(read, tokens);
        }
    }
}
