//! Sink and memory of one layer, with room to grow.

use burn::prelude::*;

use super::slots::Slots;
use crate::decoder::attention::Far;
use crate::decoder::layers::Layers;

/// Slots that a front has room for when it grows, for each slot that it needs. Growing copies it,
/// so it must become rare as a front becomes long; what is not needed is wasted.
const ROOM: f64 = 1.25;
/// Divisor of the number of slots that a front has room for. A GPU reads a part of a tensor in
/// place only if the rest is a multiple of its alignment, which is at most 512 bytes; windows add
/// slots by the dozen.
const STEP: usize = 64;

/// Keys before and after rotation by their positions, and values, of the sink and the memory of a
/// text in one layer.
#[derive(Clone, Debug)]
pub(super) struct Front {
    /// Number of slots.
    slots: usize,
    /// `[kv_heads, room, head_width]` each, of which the first slots are filled.
    keys: Tensor<3>,
    values: Tensor<3>,
    /// The rotated keys, kept from pass to pass, because every token reads them.
    turned: Option<Tensor<3>>,
}

impl Front {
    /// Creates a front of these slots, without room for more.
    pub(super) fn new(Slots { keys, values }: Slots) -> Self {
        let [_, slots, _] = keys.dims();
        Self { slots, keys, values, turned: None }
    }

    /// Returns the slots.
    pub(super) fn slots(&self) -> Slots {
        Slots { keys: self.filled(&self.keys), values: self.filled(&self.values) }
    }

    /// Returns what tokens behind the front attend to.
    pub(super) fn far(&self, layers: &Layers) -> Far {
        let keys = match &self.turned {
            Some(turned) => self.filled(turned),
            None => layers.turned(self.filled(&self.keys), 0),
        };
        Far { keys, values: self.filled(&self.values) }
    }

    /// Keeps the rotated keys from now on.
    pub(super) fn turn(&mut self, layers: &Layers) {
        if self.turned.is_none() {
            let turned = layers.turned(self.filled(&self.keys), 0);
            let [_, room, _] = self.keys.dims();
            // As much room as the values have, so that both lie in the same way.
            self.turned = Some(if room == self.slots { turned } else { with_room(turned, room) });
        }
    }

    /// Gives up the room for more slots, for a front that is to be kept as it is.
    pub(super) fn fit(&mut self) {
        let slots = self.slots;
        let all = [&mut self.keys, &mut self.values].into_iter().chain(&mut self.turned);
        for tensor in all.filter(|tensor| tensor.dims()[1] > slots) {
            let [heads, _, width] = tensor.dims();
            let filled = tensor.clone().slice([0..heads, 0..slots, 0..width]);
            *tensor = with_room(filled, slots);
        }
    }

    /// Appends slots, whose rotated keys are `turned`. Copies the slots that are there only if
    /// there is no room for the new ones.
    pub(super) fn append(self, more: Slots, turned: Tensor<3>) -> Self {
        let [_, added, _] = turned.dims();
        let behind = |all, more| appended(all, self.slots, more);
        Self {
            slots: self.slots + added,
            keys: behind(self.keys, more.keys),
            values: behind(self.values, more.values),
            turned: self.turned.map(|all| behind(all, turned)),
        }
    }

    /// Appends slots of which the rotated keys are not known.
    pub(super) fn join(self, more: impl Iterator<Item = Slots>) -> Self {
        more.fold(self, |front, more| {
            let Self { slots, keys, values, .. } = front;
            let [_, added, _] = more.keys.dims();
            Self {
                slots: slots + added,
                keys: appended(keys, slots, more.keys),
                values: appended(values, slots, more.values),
                turned: None,
            }
        })
    }

    /// Stops gradients at this point.
    pub(super) fn detach(self) -> Self {
        let Self { slots, keys, values, turned } = self;
        let [keys, values] = [keys, values].map(Tensor::detach);
        Self { slots, keys, values, turned: turned.map(Tensor::detach) }
    }

    /// Returns the slots of one of the tensors that are filled, without copying them.
    fn filled(&self, all: &Tensor<3>) -> Tensor<3> {
        let [heads, room, width] = all.dims();
        match room == self.slots {
            true => all.clone(),
            false => all.clone().slice([0..heads, 0..self.slots, 0..width]),
        }
    }
}

/// Writes `more` behind the first `filled` slots of `all`, which grows if it has no room.
fn appended(all: Tensor<3>, filled: usize, more: Tensor<3>) -> Tensor<3> {
    let ([heads, room, width], [_, added, _]) = (all.dims(), more.dims());
    let end = filled + added;
    let all = match end <= room {
        true => all,
        false => {
            let there = all.slice([0..heads, 0..filled, 0..width]);
            // Gradients would flow through all that is written in place.
            if more.device().is_autodiff() {
                return Tensor::cat(vec![there, more], 1);
            }
            with_room(there, ((end as f64 * ROOM) as usize).next_multiple_of(STEP))
        }
    };
    all.slice_assign([0..heads, filled..end, 0..width], more)
}

/// Copies slots `[heads, slots, width]` to the beginning of `[heads, room, width]`.
fn with_room(slots: Tensor<3>, room: usize) -> Tensor<3> {
    let [heads, filled, width] = slots.dims();
    let larger = Tensor::zeros([heads, room, width], (&slots.device(), slots.dtype()));
    larger.slice_assign([0..heads, 0..filled, 0..width], slots)
}
