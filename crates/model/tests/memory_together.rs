//! Nodes that read a text together form the memory that one of them forms alone, or none.
//!
//! The models are those of `fixtures/memory`. The nodes are threads, and their connections are
//! queues of the length that [`Share::most_waiting`] promises to be enough.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod tiny_memories;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clew_model::Error;
use clew_model::decoder::WantedLogits;
use clew_model::memory::{
    Exchange, MemoryInput, MemoryModel, MemoryState, PassSlots, RatioSchedule, Share,
    SnapshotFormat, Uncompressed,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::tiny_memories::MODELS;

/// Maximum time that a node waits for another.
const PATIENCE: Duration = Duration::from_secs(60);
const WINDOW: usize = 8;
const VOCABULARY: u32 = 52;
/// Slots of a pass of [`Begun::some`]: of two windows of 8 words and 2 memory tokens, at 24 rows.
const PASS_SLOTS: usize = 4;

/// Memory between two windows, and whole windows that follow.
struct Begun {
    model: &'static MemoryModel,
    memory: MemoryState,
    windows: Vec<u32>,
}

impl Begun {
    fn new(model: usize, ratios: Vec<usize>, first: usize, text: &[u32]) -> Self {
        let model = &MODELS[model];
        let uncompressed = Uncompressed { first, from: None };
        let mut memory = model.memory_beside(RatioSchedule::told(ratios), uncompressed);
        let whole = model.whole_windows(&memory, text);
        read(model, &mut memory, &text[..whole.start], usize::MAX);
        Self { model, memory, windows: text[whole].to_vec() }
    }

    fn some() -> Self {
        let text: Vec<u32> = (0..12 * WINDOW as u32 + 5).map(|at| at * 7 % VOCABULARY).collect();
        Self::new(0, vec![4], 3, &text)
    }

    fn share(&self, own: usize, nodes: usize) -> Share {
        Share { own, nodes, pass_rows: 24 }
    }

    /// Reads the share of one node.
    fn read(
        &self,
        share: Share,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<MemoryState>, Error> {
        self.model.read_together(&self.memory, &self.windows, share, exchange, &mut |_| true)
    }

    fn bytes(&self, memory: &MemoryState) -> Vec<u8> {
        self.model.save(memory).unwrap().to_bytes(SnapshotFormat::Exact).unwrap().0
    }

    /// Returns the memory of the windows that one node forms alone.
    fn alone(&self, pass_rows: usize) -> Vec<u8> {
        let mut memory = self.memory.clone();
        read(self.model, &mut memory, &self.windows, pass_rows);
        self.bytes(&memory)
    }
}

fn read(model: &MemoryModel, memory: &mut MemoryState, tokens: &[u32], pass_rows: usize) {
    if tokens.is_empty() {
        return;
    }
    let wanted = WantedLogits::Nothing;
    model.read_side_by_side(&mut [MemoryInput { memory, tokens, wanted }], pass_rows).unwrap();
}

/// Connection of one node to all others.
struct Mesh {
    inbox: Receiver<PassSlots>,
    others: Vec<(Share, SyncSender<PassSlots>)>,
    passes: usize,
    /// Number of slots that it hands out before it is lost.
    until_lost: usize,
    /// Whether a node of the mesh is lost.
    is_lost: Arc<AtomicBool>,
}

impl Mesh {
    /// Connects nodes with these shares.
    fn connect(shares: &[Share], begun: &Begun) -> Vec<Self> {
        let layers = begun.model.layers();
        let queues = shares.iter().map(|share| sync_channel(share.most_waiting(layers)));
        let (senders, inboxes): (Vec<_>, Vec<_>) = queues.unzip();
        let passes = begun.model.passes(&begun.memory, &begun.windows, shares[0].pass_rows);
        let is_lost = Arc::new(AtomicBool::new(false));
        let mesh = |(own, inbox)| {
            let others = shares.iter().copied().zip(senders.clone());
            let others = others.filter(|(share, _)| share.own != own).collect();
            let is_lost = Arc::clone(&is_lost);
            Self { inbox, others, passes, until_lost: usize::MAX, is_lost }
        };
        inboxes.into_iter().enumerate().map(mesh).collect()
    }
}

fn lost() -> Error {
    Error::Exchange { expected: "slots".to_owned(), found: "a node that is lost".to_owned() }
}

impl Exchange for Mesh {
    fn give(&mut self, slots: PassSlots) -> Result<(), Error> {
        let Some(until_lost) = self.until_lost.checked_sub(1) else {
            self.is_lost.store(true, Ordering::Release);
            return Err(lost());
        };
        self.until_lost = until_lost;
        for (_, sender) in
            self.others.iter().filter(|(share, _)| share.needs(slots.pass, self.passes))
        {
            // Full would be more than was promised.
            sender.try_send(slots.clone()).map_err(|_| lost())?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<PassSlots, Error> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.inbox.recv_timeout(Duration::from_millis(1)) {
                Err(RecvTimeoutError::Timeout) if !self.is_lost.load(Ordering::Acquire) => {}
                received => return received.map_err(|_| lost()),
            }
        }
        Err(lost())
    }
}

/// Has all nodes read, and returns their results.
fn together(begun: &Begun, shares: &[Share]) -> Vec<Result<Option<MemoryState>, Error>> {
    together_over(begun, shares, Mesh::connect(shares, begun))
}

fn together_over(
    begun: &Begun,
    shares: &[Share],
    meshes: Vec<Mesh>,
) -> Vec<Result<Option<MemoryState>, Error>> {
    thread::scope(|scope| {
        let nodes = shares.iter().zip(meshes);
        let nodes = nodes
            .map(|(share, mut mesh)| scope.spawn(move || begun.read(*share, &mut mesh)))
            .collect::<Vec<_>>();
        nodes.into_iter().map(|node| node.join().unwrap()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 120,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn several_nodes_form_the_memory_of_one_bit_by_bit(
        model in 0..10_usize,
        ratios in prop::collection::vec(prop::sample::select(vec![0, 1, 2, 4, 8]), 1..8),
        first in prop::sample::select(vec![0, 0, 5]),
        text in prop::collection::vec(0..VOCABULARY, 30..200),
        nodes in 1..5_usize,
        pass_rows in prop::sample::select(vec![1, 24, 40, 4096]),
    ) {
        let begun = Begun::new(model, ratios, first, &text);
        let shares: Vec<Share> =
            (0..nodes).map(|own| Share { own, nodes, pass_rows }).collect();
        let mut results = together(&begun, &shares).into_iter();
        let memory = results.next().unwrap().unwrap().unwrap();
        prop_assert!(begun.bytes(&memory) == begun.alone(pass_rows));
        for other in results {
            prop_assert!(other.unwrap().is_none());
        }
    }
}

#[test]
fn a_node_that_is_lost_is_an_error_and_leaves_the_memory_as_it_was() {
    let begun = Begun::some();
    let before = begun.bytes(&begun.memory);
    let shares: Vec<Share> = (0..3).map(|own| begun.share(own, 3)).collect();
    let layers = begun.model.layers();
    for (node, until_lost) in [(1, 0), (1, layers - 1), (2, layers + 1), (0, 1)] {
        let mut meshes = Mesh::connect(&shares, &begun);
        meshes[node].until_lost = until_lost;
        let results = together_over(&begun, &shares, meshes);
        // Another node may have done its share before.
        for failed in [0, node] {
            let is_failed = matches!(results[failed], Err(Error::Exchange { .. }));
            assert!(is_failed, "{failed} of {node} {until_lost}");
        }
        assert!(begun.bytes(&begun.memory) == before);
    }
}

/// Connection over which certain slots come.
struct Told(Vec<PassSlots>);

impl Exchange for Told {
    fn give(&mut self, _slots: PassSlots) -> Result<(), Error> {
        Ok(())
    }

    fn take(&mut self) -> Result<PassSlots, Error> {
        self.0.pop().ok_or_else(lost)
    }
}

#[test]
fn slots_that_do_not_fit_are_refused() {
    let begun = Begun::some();
    let (layers, share) = (begun.model.layers(), begun.share(0, 2));
    let slots = begun.model.slot_bytes(PASS_SLOTS) / layers;
    let fitting = |pass, layer| PassSlots { pass, layer, bytes: vec![0; slots] };
    let infinite = {
        let mut bytes = vec![0; slots];
        bytes[slots - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        PassSlots { pass: 1, layer: 0, bytes }
    };
    for (told, expected) in [
        (vec![], "slots"),
        (vec![PassSlots { bytes: vec![0; slots - 4], ..fitting(1, 0) }], "bytes of slots"),
        (vec![PassSlots { bytes: Vec::new(), ..fitting(1, 0) }], "bytes of slots"),
        (vec![infinite], "finite"),
        (vec![fitting(0, 0)], "another node"),
        (vec![fitting(2, 0)], "another node"),
        (vec![fitting(1, layers)], "another node"),
        (vec![fitting(99, 0)], "another node"),
        (vec![fitting(1, 1), fitting(1, 1)], "another node"),
        (vec![fitting(1, 0), fitting(1, 0)], "another node"),
    ] {
        let error = begun.read(share, &mut Told(told)).unwrap_err();
        let Error::Exchange { expected: told, .. } = &error else { panic!("{error}") };
        assert!(told.contains(expected), "{error} instead of {expected}");
    }
}

#[test]
fn what_is_not_shared_is_refused() {
    let begun = Begun::some();
    let refused = |memory: &MemoryState, tokens: &[u32], share: Share| {
        let mut nobody = Told(Vec::new());
        let read = begun.model.read_together(memory, tokens, share, &mut nobody, &mut |_| true);
        read.unwrap_err()
    };
    let is_exchange = |error: Error| matches!(error, Error::Exchange { .. });
    let Begun { memory, windows, .. } = &begun;
    assert!(is_exchange(refused(memory, windows, begun.share(2, 2))));
    assert!(is_exchange(refused(memory, &windows[1..], begun.share(0, 1))));
    let mut open = memory.clone();
    read(begun.model, &mut open, &windows[..3], 24);
    assert!(is_exchange(refused(&open, windows, begun.share(0, 1))));
    let foreign = vec![VOCABULARY + 1; WINDOW];
    let error = refused(memory, &foreign, begun.share(0, 1));
    assert!(matches!(error, Error::ForeignTokens { .. }), "{error}");
    let mut passes = 0;
    let mut go_on = |_: usize| {
        passes += 1;
        passes < 2
    };
    let share = begun.share(0, 1);
    let stopped =
        begun.model.read_together(memory, windows, share, &mut Told(Vec::new()), &mut go_on);
    assert!(is_exchange(stopped.unwrap_err()));
    assert_eq!(passes, 2);
}

#[test]
fn slots_go_to_those_who_need_them() {
    let share = |own| Share { own, nodes: 3, pass_rows: 1 };
    // Of eight passes node 1 computes 1, 4 and 7, and node 2 computes 2 and 5.
    let needed = |own| (0..8).filter(|pass| share(own).needs(*pass, 8)).collect::<Vec<_>>();
    assert_eq!(needed(0), [1, 2, 4, 5, 7]);
    assert_eq!(needed(1), [0, 2, 3, 5, 6]);
    assert_eq!(needed(2), [0, 1, 3, 4]);
    assert_eq!(share(1).most_waiting(4), 8);
}
