//! Keys and values of one memory.

use burn::prelude::*;
use burn::tensor::DType;

use super::front::Front;
use super::layout::{End, Rows};
use super::slots::Slots;
use super::snapshot::{LayerData, SlotData};
use crate::Error;
use crate::decoder::attention::{Far, Heads, HiddenKeys, Sight, attend_beyond};
use crate::decoder::layers::Layers;

/// Memory of a text in one layer.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerMemory {
    /// Sink and memory.
    front: Option<Front>,
    /// The open window.
    open: Option<Slots>,
    /// Rotated keys of the open window, kept from pass to pass while its slots keep their
    /// positions, because every token of a draft reads them.
    open_turned: Option<Tensor<3>>,
}

/// Part of one layer in a forward pass over consecutive rows of one memory.
///
/// The windows of a text are computed side by side, layer by layer. In each layer a window needs
/// only the memory tokens of earlier windows in that same layer. So the result is that of
/// sequential reading.
pub(super) struct Growing {
    far: Option<Far>,
    /// Slots that this pass added to the front, with their rotated keys.
    grown: Option<(Slots, Tensor<3>)>,
    open: Option<Slots>,
    open_turned: Option<Tensor<3>>,
    sink: Option<Slots>,
}

/// Rows of one window in one layer, for which attention is computed.
pub(super) struct Window<'a> {
    pub(super) rows: &'a Rows,
    pub(super) hidden: &'a mut HiddenKeys,
    pub(super) heads: Heads,
    /// Keys before rotation, `[kv_heads, rows, head_width]`.
    pub(super) plain_keys: Tensor<3>,
}

impl Window<'_> {
    /// Returns the shape of the result of attention, `[rows, heads * width]`.
    pub(super) fn shape(&self) -> [usize; 2] {
        let [heads, rows, width] = self.heads.queries.dims();
        [rows, heads * width]
    }
}

impl LayerMemory {
    /// Copies the slots off the device.
    pub(super) fn data(&self) -> Result<LayerData, Error> {
        let front = self.front.as_ref().map(Front::slots);
        let data = |slots: Option<&Slots>| slots.map(Slots::data).transpose();
        Ok(LayerData { front: data(front.as_ref())?, open: data(self.open.as_ref())? })
    }

    /// Moves the slots onto a device.
    pub(super) fn of(LayerData { front, open }: LayerData, device: &Device, dtype: DType) -> Self {
        let tensor =
            |data: TensorData| Tensor::from_data(data.convert_dtype(dtype), (device, dtype));
        let slots =
            |SlotData { keys, values }| Slots { keys: tensor(keys), values: tensor(values) };
        Self { front: front.map(slots).map(Front::new), open: open.map(slots), open_turned: None }
    }

    /// Stops gradients at this point.
    pub(super) fn detach(&mut self) {
        self.front = self.front.take().map(Front::detach);
        self.open = self.open.take().map(Slots::detach);
        self.open_turned = self.open_turned.take().map(Tensor::detach);
    }

    /// Waits until the device has computed the slots.
    pub(super) fn wait(&self) -> Result<(), Error> {
        let slots = self.open.clone().or_else(|| self.front.as_ref().map(Front::slots));
        slots.map_or(Ok(()), |slots| slots.wait())
    }

    /// Begins a pass.
    pub(super) fn begin(&self, layers: &Layers) -> Growing {
        let far = self.front.as_ref().map(|front| front.far(layers));
        let (open, open_turned) = (self.open.clone(), self.open_turned.clone());
        Growing { far, grown: None, open, open_turned, sink: None }
    }

    /// Stores the results of a pass.
    pub(super) fn end(&mut self, pass: Growing) {
        let Growing { far, grown, open, open_turned, sink } = pass;
        // What nobody else reads is written in place.
        drop(far);
        (self.open, self.open_turned) = (open, open_turned);
        if let Some(sink) = sink {
            self.front = Some(Front::new(sink));
        }
        if let Some((slots, turned)) = grown {
            self.front = Some(match self.front.take() {
                None => Front::new(slots),
                Some(front) => front.append(slots, turned),
            });
        }
    }

    /// Appends slots of other nodes to the front.
    pub(super) fn join(&mut self, more: Vec<Slots>) {
        let mut more = more.into_iter();
        let Some(front) = self.front.take().or_else(|| more.next().map(Front::new)) else { return };
        self.front = Some(front.join(more));
    }

    /// Prepares the front for all questions that follow.
    pub(super) fn prepare(&mut self, layers: &Layers) {
        self.turn(layers);
        self.front.iter_mut().for_each(Front::fit);
    }

    /// Rotates the keys of the front once for all passes that follow.
    pub(super) fn turn(&mut self, layers: &Layers) {
        if let Some(front) = &mut self.front {
            front.turn(layers);
        }
    }
}

impl Growing {
    /// Returns the slots that this pass added to the front so far.
    pub(super) fn grown(&self) -> Option<&Slots> {
        self.grown.as_ref().map(|(slots, _turned)| slots)
    }

    /// Computes the attention of the next rows, `[rows, heads * width]`, and keeps the slots that
    /// stay.
    pub(super) fn attend(&mut self, layers: &Layers, window: Window<'_>) -> Tensor<2> {
        let Window { rows, hidden, heads, plain_keys } = window;
        let first = |count: usize| {
            let new = Slots { keys: plain_keys.clone(), values: heads.values.clone() };
            new.first(count)
        };
        let sink = match rows.end {
            End::OpenAfterSink(sink) | End::Complete { sink: sink @ 1.., .. } => Some(first(sink)),
            _ => None,
        };
        let behind = |there: Option<Tensor<3>>, new: Tensor<3>| match there {
            None => new,
            Some(there) => Tensor::cat(vec![there, new], 1),
        };
        let (open, turned) = (self.open.take(), self.open_turned.take());
        let turned = open.as_ref().map(|open| match turned {
            Some(turned) => turned,
            None => layers.turned(open.keys.clone(), rows.front),
        });
        // The keys of the whole window, rotated and plain, and its values.
        let keys = behind(turned, heads.keys);
        let (open_keys, open_values) = open.map(Slots::parts).unzip();
        let all = Slots {
            keys: behind(open_keys, plain_keys),
            values: behind(open_values, heads.values),
        };
        let (grown_keys, grown_values) = match &self.grown {
            None => (None, None),
            Some((slots, turned)) => (Some(turned.clone()), Some(slots.values.clone())),
        };
        let near = Heads {
            queries: heads.queries,
            keys: behind(grown_keys, keys.clone()),
            values: behind(grown_values, all.values.clone()),
        };
        let sight = match rows.hidden {
            Some(_) => Sight::All,
            None => Sight::Back { window: None },
        };
        let attended = attend_beyond(self.far.as_ref(), near, 0, sight, hidden);
        if sink.is_some() {
            self.sink = sink;
        }
        // Other rows stand elsewhere than their slots, or the slots before the window change.
        if rows.end == End::Open && rows.hidden.is_none() {
            self.open_turned = Some(keys);
        }
        self.keep(layers, rows, all);
        attended
    }

    /// Keeps of the slots of the window what stays of them.
    fn keep(&mut self, layers: &Layers, rows: &Rows, window: Slots) {
        let (kept, sink) = match &rows.end {
            End::Open | End::OpenAfterSink(_) => return self.open = Some(window),
            End::Sink => (window, 0),
            End::Complete { kept, sink } => (window.only(kept), *sink),
        };
        // The sink is replaced as long as there is no memory behind it.
        let start = if sink > 0 { sink } else { rows.front };
        let turned = layers.turned(kept.keys.clone(), start);
        self.grown = Some(match self.grown.take() {
            None => (kept, turned),
            Some((slots, before)) => (slots.with(kept), Tensor::cat(vec![before, turned], 1)),
        });
    }
}
