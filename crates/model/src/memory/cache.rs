//! Keys and values of one memory.

use burn::prelude::*;
use burn::tensor::DType;
use safetensors::tensor::Dtype;

use super::layout::{End, Rows};
use super::snapshot::{LayerData, SlotData};
use crate::Error;
use crate::checkpoint::are_finite;
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

impl Slots {
    /// Reads the bytes that [`Slots::to_bytes`] returned for slots of this shape.
    ///
    /// # Errors
    /// Returns [`Error::Exchange`] if the bytes do not have this shape or a number is not finite,
    /// because they come from another node.
    pub(super) fn of_bytes(
        mut keys: Vec<u8>,
        shape: [usize; 3],
        device: &Device,
        dtype: DType,
    ) -> Result<Self, Error> {
        let unlike = |expected: String, found: String| Error::Exchange { expected, found };
        let half = shape.iter().product::<usize>() * dtype.size();
        if keys.len() != 2 * half {
            let expected = format!("{} bytes of slots", 2 * half);
            return Err(unlike(expected, keys.len().to_string()));
        }
        let format = match dtype {
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            // Decoders compute in these formats alone.
            _ => Dtype::F32,
        };
        if !are_finite(&keys, format) {
            return Err(unlike("finite numbers in slots".to_owned(), "others".to_owned()));
        }
        let values = keys.split_off(half);
        let tensor = |bytes| {
            Tensor::from_data(TensorData::from_bytes_vec(bytes, shape, dtype), (device, dtype))
        };
        Ok(Self { keys: tensor(keys), values: tensor(values) })
    }

    /// Copies the slots off the device: the keys, then the values, in the format `dtype`.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub(super) fn to_bytes(&self, dtype: DType) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        for tensor in [&self.keys, &self.values] {
            let data = off_device(tensor)?.convert_dtype(dtype);
            bytes.extend_from_slice(data.as_bytes());
        }
        Ok(bytes)
    }

    fn with(self, more: Self) -> Self {
        Self {
            keys: Tensor::cat(vec![self.keys, more.keys], 1),
            values: Tensor::cat(vec![self.values, more.values], 1),
        }
    }

    fn parts(self) -> (Tensor<3>, Tensor<3>) {
        (self.keys, self.values)
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

fn off_device(tensor: &Tensor<3>) -> Result<TensorData, Error> {
    let data = tensor.clone().try_into_data();
    data.map_err(|error| Error::Device { reason: error.to_string() })
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
        let slots = |slots: &Option<Slots>| -> Result<Option<SlotData>, Error> {
            let Some(Slots { keys, values }) = slots else { return Ok(None) };
            Ok(Some(SlotData { keys: off_device(keys)?, values: off_device(values)? }))
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
        Self { front: slots(&data.front), open: slots(&data.open), ..Self::default() }
    }

    /// Stops gradients at this point.
    pub(super) fn detach(&mut self) {
        for slots in [&mut self.front, &mut self.open].into_iter().flatten() {
            slots.keys = slots.keys.clone().detach();
            slots.values = slots.values.clone().detach();
        }
        for turned in [&mut self.turned, &mut self.open_turned] {
            *turned = turned.take().map(Tensor::detach);
        }
    }

    /// Waits until the device has computed the slots.
    pub(super) fn wait(&self) -> Result<(), Error> {
        let Some(slots) = self.open.as_ref().or(self.front.as_ref()) else { return Ok(()) };
        off_device(&slots.values.clone().slice([0..1, 0..1, 0..1])).map(drop)
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
        let (open, open_turned) = (self.open.clone(), self.open_turned.clone());
        Growing { far, grown: None, open, open_turned, sink: None }
    }

    /// Stores the results of a pass.
    pub(super) fn end(&mut self, pass: Growing) {
        let Growing { grown, open, open_turned, sink, .. } = pass;
        (self.open, self.open_turned) = (open, open_turned);
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

    /// Appends slots of other nodes to the front.
    pub(super) fn join(&mut self, more: Vec<Slots>) {
        if more.is_empty() {
            return;
        }
        let (keys, values) = self.front.take().into_iter().chain(more).map(Slots::parts).unzip();
        // With the keys of the front grows what is kept rotated of them.
        self.turned = None;
        self.front = Some(Slots { keys: Tensor::cat(keys, 1), values: Tensor::cat(values, 1) });
    }

    /// Rotates the keys of the front once for all questions that follow.
    pub(super) fn turn(&mut self, layers: &Layers) {
        if let (Some(front), None) = (&self.front, &self.turned) {
            self.turned = Some(layers.turned(front.keys.clone(), 0));
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
