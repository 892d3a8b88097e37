//! Reading of one text on several nodes, which compute its passes in rotation and exchange the
//! slots that each pass adds.
//!
//! In each layer a pass needs only the slots that earlier passes added in that same layer. So the
//! nodes form a pipeline, in which each is about a layer behind the one before it:
//!
//! ```text
//! node 0   ─► pass 0: layer 0, 1, 2, 3 …                ─► pass 2: layer 0, 1 …
//!                           └ slots of layer 0               ▲
//! node 1          ─► pass 1:└► layer 0, 1, 2 …          └────┘ slots of pass 1, layer by layer
//! ```
//!
//! Every node lays out all passes, which computes nothing, and computes its own. Slots travel in
//! the model's number format, so on a processor the memory equals that of one node bit by bit.
//!
//! A node cannot run ahead of the others: pass `p` needs the slots of pass `p - 1`. So at any time
//! at most `(nodes - 1) * layers` slots are on their way to a node or wait there
//! ([`Share::most_waiting`]). Queues of that length never make anybody wait.

use std::collections::HashMap;

use burn::prelude::*;

use super::cache::{Growing, LayerMemory};
use super::slots::Slots;
use super::{GoOn, MemoryInput, MemoryModel, MemoryState, Pass, Window};
use crate::Error;
use crate::decoder::WantedLogits;

/// Share of one node in reading a text: every `nodes`-th pass, from pass `own` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of the node, from 0. Node 0 is the one that the memory is for.
    pub own: usize,
    /// Number of nodes, at least 1.
    pub nodes: usize,
    /// Number of rows that a pass computes at once. It is the same on all nodes, because the
    /// layout of the passes depends on it.
    pub pass_rows: usize,
}

impl Share {
    /// Returns whether the node computes a pass.
    pub fn has(&self, pass: usize) -> bool {
        pass % self.nodes == self.own
    }

    /// Returns whether the node needs the slots of another node's pass, of `passes` in all. Node 0
    /// needs all, and the others need those before their last pass.
    pub fn needs(&self, pass: usize, passes: usize) -> bool {
        let comes_later = (pass + 1..passes).take(self.nodes).any(|later| self.has(later));
        !self.has(pass) && (self.own == 0 || comes_later)
    }

    /// Returns the maximum number of [`PassSlots`] that are on their way to a node or wait there,
    /// for a model of `layers` layers.
    pub fn most_waiting(&self, layers: usize) -> usize {
        (self.nodes - 1) * layers
    }
}

/// Slots that one pass added to a memory in one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassSlots {
    /// Number of the pass, from 0.
    pub pass: usize,
    /// Number of the layer, from 0.
    pub layer: usize,
    /// Keys before rotation, then values, `[kv_heads, slots, head_width]` each, in the model's
    /// number format, little-endian.
    pub bytes: Vec<u8>,
}

/// Connection of one node to the others.
///
/// A loss is reported as [`Error::Exchange`]. After it the connection is not used any more.
pub trait Exchange {
    /// Hands slots to the nodes that need them ([`Share::needs`]). Does not wait.
    ///
    /// # Errors
    /// Returns [`Error::Exchange`] if a node is lost.
    fn give(&mut self, slots: PassSlots) -> Result<(), Error>;

    /// Waits for the next slots of other nodes. Slots of one layer may come in any order.
    ///
    /// # Errors
    /// Returns [`Error::Exchange`] if a node is lost or late.
    fn take(&mut self) -> Result<PassSlots, Error>;
}

/// Returns the error of nodes that do not work together.
fn unlike(expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::Exchange { expected: expected.into(), found: found.into() }
}

impl MemoryModel {
    /// Returns the number of passes in which [`MemoryModel::read_together`] reads `tokens`.
    pub fn passes(&self, memory: &MemoryState, tokens: &[u32], pass_rows: usize) -> usize {
        let (mut extent, mut rest, mut passes) = (memory.extent.clone(), tokens, 0);
        while !rest.is_empty() {
            self.next_pass(&mut extent, &mut rest, pass_rows);
            passes += 1;
        }
        passes
    }

    /// Reads the own share of `tokens`, which are whole windows
    /// ([`MemoryModel::whole_windows`]), while other nodes read theirs behind the same memory.
    /// Returns the memory of all tokens at node 0, and `None` at the others, which do not need it.
    ///
    /// Calls `go_on` after each pass of any node with its number of tokens. If it returns false,
    /// reading ends with an error.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryModel::read`], and [`Error::Exchange`] if the tokens are not
    /// whole windows, if another node is lost, or if it sends what does not fit. `memory` stays as
    /// it was.
    pub fn read_together(
        &self,
        memory: &MemoryState,
        tokens: &[u32],
        share: Share,
        exchange: &mut dyn Exchange,
        go_on: &mut GoOn<'_>,
    ) -> Result<Option<MemoryState>, Error> {
        let Share { own, nodes, pass_rows } = share;
        if own >= nodes {
            return Err(unlike(format!("a node below {nodes}"), own.to_string()));
        }
        let mut memory = memory.clone();
        let wanted = WantedLogits::Nothing;
        self.check(&MemoryInput { memory: &mut memory, tokens, wanted })?;
        if self.whole_windows(&memory, tokens) != (0..tokens.len()) {
            return Err(unlike("whole windows", format!("{} tokens", tokens.len())));
        }
        let MemoryState { mut extent, layers } = memory;
        let mut reading = Reading {
            model: self,
            share,
            exchange,
            joined: vec![0; layers.len()],
            layers,
            added: Vec::new(),
            waiting: HashMap::new(),
        };
        let mut rest = tokens;
        while !rest.is_empty() {
            let (slots, unread) = (extent.slots(), rest.len());
            let rows = self.next_pass(&mut extent, &mut rest, pass_rows);
            reading.added.push(extent.slots() - slots);
            if share.has(reading.added.len() - 1) {
                reading.compute(Pass { of: 0, begin: slots, rows, wanted })?;
            }
            if !go_on(unread - rest.len()) {
                return Err(unlike("to read on", "that nobody waits for the memory"));
            }
        }
        if own > 0 {
            return Ok(None);
        }
        (0..reading.layers.len()).try_for_each(|layer| reading.join(layer))?;
        Ok(Some(MemoryState { extent, layers: reading.layers }))
    }
}

/// Reading of one node's share.
struct Reading<'a> {
    model: &'a MemoryModel,
    share: Share,
    exchange: &'a mut dyn Exchange,
    layers: Vec<LayerMemory>,
    /// For each layer the number of passes whose slots have joined the memory.
    joined: Vec<usize>,
    /// Number of slots that each pass adds, for the passes that are laid out.
    added: Vec<usize>,
    /// Slots of other nodes by pass and layer, which nobody needed yet.
    waiting: HashMap<(usize, usize), Vec<u8>>,
}

impl Reading<'_> {
    /// Computes the pass that was laid out last.
    fn compute(&mut self, pass: Pass) -> Result<(), Error> {
        let (model, windows) = (self.model, pass.rows.len());
        let mut part = None;
        let mut outcome = Ok(());
        // Layers cannot fail. After an error the rest of them is computed over zeros, which takes
        // at most as long as the pass, and is dropped.
        model.forward(&[pass], &mut |_, layer, window| {
            let shape = window.shape();
            let nothing = || Tensor::zeros(shape, (&model.layers.device, model.layers.dtype));
            if outcome.is_err() {
                return nothing();
            }
            match self.attend(layer, window, windows, &mut part) {
                Ok(attended) => attended,
                Err(error) => {
                    outcome = Err(error);
                    nothing()
                }
            }
        });
        outcome
    }

    /// Computes the attention of one of the `windows` windows of the pass. With the first it waits
    /// for the slots of earlier passes, and with the last it hands out those of this pass.
    fn attend(
        &mut self,
        layer: usize,
        window: Window<'_>,
        windows: usize,
        part: &mut Option<(Growing, usize)>,
    ) -> Result<Tensor<2>, Error> {
        let (mut growing, read) = match part.take() {
            Some(part) => part,
            None => {
                self.join(layer)?;
                (self.layers[layer].begin(&self.model.layers), 0)
            }
        };
        let attended = growing.attend(&self.model.layers, window);
        if read + 1 < windows {
            *part = Some((growing, read + 1));
            return Ok(attended);
        }
        let pass = self.added.len() - 1;
        if let Some(slots) = growing.grown() {
            let bytes = slots.to_bytes(self.model.layers.dtype)?;
            self.exchange.give(PassSlots { pass, layer, bytes })?;
        }
        self.layers[layer].end(growing);
        self.joined[layer] = pass + 1;
        Ok(attended)
    }

    /// Adds to a layer the slots of all passes that are laid out and not computed here. Waits for
    /// those that did not come yet.
    fn join(&mut self, layer: usize) -> Result<(), Error> {
        let mut more = Vec::new();
        for pass in self.joined[layer]..self.added.len() {
            if self.share.has(pass) {
                // It is the one that is being computed.
                break;
            }
            let bytes = loop {
                match self.waiting.remove(&(pass, layer)) {
                    Some(bytes) => break bytes,
                    None => self.receive()?,
                }
            };
            more.push(self.slots(bytes, pass)?);
            self.joined[layer] = pass + 1;
        }
        self.layers[layer].join(more);
        Ok(())
    }

    /// Receives slots that come next, of any pass and layer.
    fn receive(&mut self) -> Result<(), Error> {
        let PassSlots { pass, layer, bytes } = self.exchange.take()?;
        let most = self.share.most_waiting(self.layers.len());
        let is_next = self.joined.get(layer).is_some_and(|joined| pass >= *joined);
        let is_expected = is_next
            && !self.share.has(pass)
            && pass < self.added.len() + self.share.nodes
            && self.waiting.len() < most;
        if !is_expected || self.waiting.insert((pass, layer), bytes).is_some() {
            let found = format!("those of pass {pass} in layer {layer}");
            return Err(unlike("the next slots of another node, once", found));
        }
        Ok(())
    }

    /// Reads the slots of another node's pass in one layer.
    fn slots(&self, bytes: Vec<u8>, pass: usize) -> Result<Slots, Error> {
        let layers = &self.model.layers;
        let shape = [layers.config.kv_heads, self.added[pass], layers.config.head_width];
        Slots::of_bytes(bytes, shape, &layers.device, layers.dtype)
    }
}
