//! Keys and values of one memory.

use burn::prelude::*;
use burn::tensor::DType;

use super::layout::{End, Rows};
use super::snapshot::{LayerData, SlotData};
use crate::Error;
use crate::decoder::attention::{Far, Heads, HiddenKeys, Sight, attend_beyond};
use crate::decoder::layers::Layers;

/// Keys before rotation by their positions, and values, `[kv_heads, slots, head_width]` each.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    pub(super) keys: Tensor<3>,
    pub(super) values: Tensor<3>,
}

/// Memory of a text in one layer.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerMemory {
    /// Sink and memory.
    pub(super) front: Option<Slots>,
    /// Rotated keys of the front, kept while questions are answered, because every token of a
    /// question reads them.
    pub(super) turned: Option<Tensor<3>>,
    /// The open window.
    pub(super) open: Option<Slots>,
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
    sink: Option<Slots>,
}

impl Slots {
    fn with(self, more: Self) -> Self {
        Self {
            keys: Tensor::cat(vec![self.keys, more.keys], 1),
            values: Tensor::cat(vec![self.values, more.values], 1),
        }
    }

    fn first(&self, count: usize) -> Self {
        let [heads, _, width] = self.keys.dims();
        let first = |all: &Tensor<3>| all.clone().slice([0..heads, 0..count, 0..width]);
        Self { keys: first(&self.keys), values: first(&self.values) }
    }

    fn only(&self, kept: &[usize]) -> Self {
        let kept: Vec<i64> = kept.iter().map(|at| *at as i64).collect();
        let data = TensorData::new(kept.clone(), [kept.len()]);
        let kept = Tensor::<1, Int>::from_data(data, &self.keys.device());
        Self {
            keys: self.keys.clone().select(1, kept.clone()),
            values: self.values.clone().select(1, kept),
        }
    }
}

/// Appends `more` to the slots that exist.
fn joined(there: Option<Slots>, more: Slots) -> Slots {
    match there {
        None => more,
        Some(there) => there.with(more),
    }
}

impl LayerMemory {
    /// Copies the slots off the device.
    pub(super) fn data(&self) -> Result<LayerData, Error> {
        let data = |tensor: &Tensor<3>| {
            let data = tensor.clone().try_into_data();
            data.map_err(|error| Error::Device { reason: error.to_string() })
        };
        let slots = |slots: &Option<Slots>| -> Result<Option<SlotData>, Error> {
            let Some(Slots { keys, values }) = slots else { return Ok(None) };
            Ok(Some(SlotData { keys: data(keys)?, values: data(values)? }))
        };
        Ok(LayerData { front: slots(&self.front)?, open: slots(&self.open)? })
    }

    /// Copies the slots onto a device.
    pub(super) fn of(data: &LayerData, device: &Device, dtype: DType) -> Self {
        let tensor = |data: &TensorData| {
            Tensor::<3>::from_data(data.clone().convert_dtype(dtype), (device, dtype))
        };
        let slots = |slots: &Option<SlotData>| {
            let SlotData { keys, values } = slots.as_ref()?;
            Some(Slots { keys: tensor(keys), values: tensor(values) })
        };
        Self { front: slots(&data.front), turned: None, open: slots(&data.open) }
    }

    /// Stops gradients at this point.
    pub(super) fn detach(&mut self) {
        for slots in [&mut self.front, &mut self.open].into_iter().flatten() {
            slots.keys = slots.keys.clone().detach();
            slots.values = slots.values.clone().detach();
        }
        self.turned = self.turned.take().map(Tensor::detach);
    }

    /// Begins a pass.
    pub(super) fn begin(&self, layers: &Layers) -> Growing {
        let far = self.front.as_ref().map(|front| Far {
            keys: match &self.turned {
                Some(turned) => turned.clone(),
                None => layers.turned(front.keys.clone(), 0),
            },
            values: front.values.clone(),
        });
        Growing { far, grown: None, open: self.open.clone(), sink: None }
    }

    /// Stores the results of a pass.
    pub(super) fn end(&mut self, pass: Growing) {
        let Growing { grown, open, sink, .. } = pass;
        self.open = open;
        if let Some(sink) = sink {
            (self.front, self.turned) = (Some(sink), None);
        }
        if let Some((slots, turned)) = grown {
            if let Some(front) = self.turned.take() {
                self.turned = Some(Tensor::cat(vec![front, turned], 1));
            }
            self.front = Some(joined(self.front.take(), slots));
        }
    }

    /// Rotates the keys of the front once for all questions that follow.
    pub(super) fn turn(&mut self, layers: &Layers) {
        if let (Some(front), None) = (&self.front, &self.turned) {
            self.turned = Some(layers.turned(front.keys.clone(), 0));
        }
    }
}

impl Growing {
    /// Computes the attention of the next rows, `[rows, heads * width]`, and keeps the slots that
    /// stay.
    pub(super) fn attend(
        &mut self,
        layers: &Layers,
        rows: &Rows,
        hidden: &mut HiddenKeys,
        heads: Heads,
        plain_keys: Tensor<3>,
    ) -> Tensor<2> {
        let new = Slots { keys: plain_keys, values: heads.values.clone() };
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        if let Some((slots, turned)) = &self.grown {
            keys.push(turned.clone());
            values.push(slots.values.clone());
        }
        if let Some(open) = &self.open {
            keys.push(layers.turned(open.keys.clone(), rows.front));
            values.push(open.values.clone());
        }
        keys.push(heads.keys);
        values.push(heads.values);
        let near = Heads {
            queries: heads.queries,
            keys: Tensor::cat(keys, 1),
            values: Tensor::cat(values, 1),
        };
        let sight = match rows.hidden {
            Some(_) => Sight::All,
            None => Sight::Back { window: None },
        };
        let attended = attend_beyond(self.far.as_ref(), near, 0, sight, hidden);
        self.keep(layers, rows, new);
        attended
    }

    fn keep(&mut self, layers: &Layers, rows: &Rows, new: Slots) {
        let (kept, sink) = match &rows.end {
            End::Open => return self.open = Some(joined(self.open.take(), new)),
            End::OpenAfterSink(sink) => {
                self.sink = Some(new.first(*sink));
                return self.open = Some(joined(self.open.take(), new));
            }
            End::Sink => (new, 0),
            End::Complete { kept, sink } => {
                let first = new.first(*sink);
                let window = joined(self.open.take(), new);
                if *sink > 0 {
                    self.sink = Some(first);
                }
                (window.only(kept), *sink)
            }
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
