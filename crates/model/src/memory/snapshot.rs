//! A memory as bytes: a safetensors file of keys, before they are turned by positions, and values.

use std::collections::{BTreeMap, HashMap};

use burn::tensor::{DType, TensorData};
use clew_core::{DocumentId, Version};
use half::bf16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use super::layout::Extent;
use crate::Error;

/// Raised whenever an older program could not read what this one writes.
const VERSION: u32 = 1;
/// Where the header lies in the file's metadata.
const HEADER: &str = "clew.memory";
/// What 8-bit numbers count to.
const STEPS: f32 = 127.0;

/// In which numbers a snapshot keeps keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// As the model computed them.
    #[default]
    Exact,
    /// In 16 bits.
    BFloat16,
    /// In 8 bits, with a scale for each head of each slot.
    Int8,
}

/// A document that was read into a memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// The document.
    pub document_id: DocumentId,
    /// The version that was read.
    pub version: Version,
}

/// A memory off the device.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Of the model that has read it.
    pub fingerprint: String,
    /// How far it has read.
    pub extent: Extent,
    /// The documents that it has read.
    pub covered: Vec<Covered>,
    /// Of each layer what it keeps.
    pub layers: Vec<LayerData>,
}

/// What a layer keeps.
#[derive(Clone, Debug)]
pub struct LayerData {
    /// Sink and memory.
    pub front: Option<SlotData>,
    /// The open window.
    pub open: Option<SlotData>,
}

/// Keys, before they are turned, and values, `[kv_heads, slots, head_width]` each.
#[derive(Clone, Debug)]
pub struct SlotData {
    /// The keys.
    pub keys: TensorData,
    /// The values.
    pub values: TensorData,
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    format: Format,
    fingerprint: String,
    extent: Extent,
    covered: Vec<Covered>,
    layers: usize,
    /// Of all tensors' bytes, in the order of their names.
    checksum: String,
}

/// A tensor as it is written.
struct Written {
    format: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

pub(super) fn inconsistent(expected: String, found: String) -> Error {
    Error::Inconsistent {
        file: "memory snapshot".to_owned(),
        other: "the model".to_owned(),
        expected,
        found,
    }
}

fn broken(expected: &str, found: impl ToString) -> Error {
    crate::weights::broken("memory snapshot", expected, found.to_string())
}

impl Snapshot {
    /// The bytes of a file, and by how much a number in it is off at most.
    ///
    /// # Errors
    /// [`Error::Broken`] for keys and values that are not finite.
    pub fn to_bytes(&self, format: Format) -> Result<(Vec<u8>, f32), Error> {
        let mut tensors: BTreeMap<String, Written> = BTreeMap::new();
        let mut off: f32 = 0.0;
        for (name, data) in self.tensors() {
            off = off.max(write(&name, data, format, &mut tensors)?);
        }
        let header = Header {
            version: VERSION,
            format,
            fingerprint: self.fingerprint.clone(),
            extent: self.extent.clone(),
            covered: self.covered.clone(),
            layers: self.layers.len(),
            checksum: checksum(tensors.iter().map(|(name, tensor)| (&**name, &*tensor.bytes))),
        };
        let header = serde_json::to_string(&header).map_err(|e| broken("a header", e))?;
        let metadata = HashMap::from([(HEADER.to_owned(), header)]);
        let views = tensors.iter().map(|(name, tensor)| {
            let view = TensorView::new(tensor.format, tensor.shape.clone(), &tensor.bytes);
            view.map(|view| (name.as_str(), view))
        });
        let views = views.collect::<Result<Vec<_>, _>>().map_err(|e| broken("whole tensors", e))?;
        let bytes = safetensors::serialize(views, Some(metadata));
        Ok((bytes.map_err(|e| broken("whole tensors", e))?, off))
    }

    /// Reads what [`Snapshot::to_bytes`] made.
    ///
    /// # Errors
    /// [`Error::Broken`] for bytes that are cut short, changed or something else; [`Error::Unsupported`] for a
    /// snapshot of a later program.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let whole = "a whole file";
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| broken(whole, e))?;
        let header = metadata.metadata().as_ref().and_then(|metadata| metadata.get(HEADER));
        let header = header.ok_or_else(|| broken("a snapshot's header", "none"))?;
        let header: Header =
            serde_json::from_str(header).map_err(|e| broken("a snapshot's header", e))?;
        if header.version != VERSION {
            return Err(Error::Unsupported {
                file: "memory snapshot".to_owned(),
                expected: format!("version {VERSION}"),
                found: format!("version {}", header.version),
            });
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| broken(whole, e))?;
        let mut names = tensors.names();
        names.sort_unstable();
        let mut all = BTreeMap::new();
        for name in names {
            let view = tensors.tensor(name).map_err(|e| broken(whole, e))?;
            all.insert(name.to_owned(), view);
        }
        let found = checksum(all.iter().map(|(name, view)| (&**name, view.data())));
        if found != header.checksum {
            return Err(broken(&format!("the checksum {}", header.checksum), found));
        }
        let layer = |at: usize| -> Result<LayerData, Error> {
            let part = |part: &str| -> Result<Option<SlotData>, Error> {
                let one = |what: &str| read(&all, &format!("layers.{at}.{part}.{what}"));
                match (one("keys")?, one("values")?) {
                    (Some(keys), Some(values)) => Ok(Some(SlotData { keys, values })),
                    (None, None) => Ok(None),
                    _ => Err(broken("keys with values", format!("one of them in layer {at}"))),
                }
            };
            Ok(LayerData { front: part("front")?, open: part("open")? })
        };
        let Header { fingerprint, extent, covered, layers, .. } = header;
        let layers = (0..layers).map(layer).collect::<Result<Vec<_>, Error>>()?;
        let snapshot = Self { fingerprint, extent, covered, layers };
        snapshot.check()?;
        Ok(snapshot)
    }

    /// Refuses slots that are not those of the extent.
    fn check(&self) -> Result<(), Error> {
        let (front, open) = (self.extent.sink + self.extent.memory, self.extent.open.len());
        for layer in &self.layers {
            for (data, slots) in [(&layer.front, front), (&layer.open, open)] {
                let found: Vec<usize> = match data {
                    None => vec![0],
                    Some(data) => [&data.keys, &data.values].map(|data| data.shape()[1]).into(),
                };
                if found.iter().any(|found| *found != slots) {
                    return Err(broken(&format!("{slots} slots"), format!("{found:?}")));
                }
            }
        }
        Ok(())
    }

    fn tensors(&self) -> impl Iterator<Item = (String, &TensorData)> {
        self.layers.iter().enumerate().flat_map(|(at, layer)| {
            let parts = [("front", &layer.front), ("open", &layer.open)];
            parts.into_iter().flat_map(move |(part, data)| {
                data.iter().flat_map(move |data| {
                    let both = [("keys", &data.keys), ("values", &data.values)];
                    both.map(|(what, data)| (format!("layers.{at}.{part}.{what}"), data))
                })
            })
        })
    }
}

/// In the order of names, which is that of both who writes and who reads.
fn checksum<'a>(tensors: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = blake3::Hasher::new();
    for (name, bytes) in tensors {
        hash.update(format!("{name} {}\n", bytes.len()).as_bytes()).update(bytes);
    }
    hash.finalize().to_hex().to_string()
}

fn write(
    name: &str,
    data: &TensorData,
    format: Format,
    tensors: &mut BTreeMap<String, Written>,
) -> Result<f32, Error> {
    let shape = data.shape().to_vec();
    let values: Vec<f32> = data
        .clone()
        .convert_dtype(DType::F32)
        .try_into_vec()
        .map_err(|error| broken("numbers", format!("{error:?}")))?;
    if !values.iter().all(|value| value.is_finite()) {
        return Err(broken("finite numbers", format!("one in `{name}` that is not")));
    }
    let mut put = |name: String, format, shape, bytes| {
        tensors.insert(name, Written { format, shape, bytes });
    };
    let halves = || values.iter().map(|value| bf16::from_f32(*value));
    match (format, data.dtype()) {
        (Format::Exact, DType::BF16) | (Format::BFloat16, _) => {
            let bytes = halves().flat_map(|half| half.to_le_bytes()).collect();
            put(name.to_owned(), Dtype::BF16, shape, bytes);
            let off = halves().zip(&values).map(|(half, value)| (half.to_f32() - value).abs());
            Ok(off.fold(0.0, f32::max))
        }
        (Format::Exact, _) => {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            put(name.to_owned(), Dtype::F32, shape, bytes);
            Ok(0.0)
        }
        (Format::Int8, _) => {
            let width = shape.last().copied().unwrap_or(1).max(1);
            let (mut steps, mut scales, mut off) = (Vec::new(), Vec::new(), 0.0_f32);
            for row in values.chunks(width) {
                let scale = row.iter().fold(0.0, |most: f32, value| most.max(value.abs())) / STEPS;
                for value in row {
                    let step = if scale > 0.0 { (value / scale).round() } else { 0.0 };
                    off = off.max((step * scale - value).abs());
                    steps.push(step as i8 as u8);
                }
                scales.extend(scale.to_le_bytes());
            }
            put(format!("{name}.scales"), Dtype::F32, shape[..2].to_vec(), scales);
            put(name.to_owned(), Dtype::I8, shape, steps);
            Ok(off)
        }
    }
}

/// `None` where there is no such tensor.
fn read(
    tensors: &BTreeMap<String, TensorView<'_>>,
    name: &str,
) -> Result<Option<TensorData>, Error> {
    let Some(view) = tensors.get(name) else { return Ok(None) };
    let shape = view.shape().to_vec();
    let &[_, _, width] = shape.as_slice() else {
        return Err(broken("heads, slots and width", format!("{shape:?} in `{name}`")));
    };
    let bytes = view.data().to_vec();
    let data = match view.dtype() {
        Dtype::F32 => TensorData::from_bytes_vec(bytes, shape, DType::F32),
        Dtype::BF16 => TensorData::from_bytes_vec(bytes, shape, DType::BF16),
        Dtype::I8 => {
            let scales = tensors.get(&format!("{name}.scales"));
            let scales = scales.map_or(&[][..], TensorView::data).as_chunks::<4>().0;
            if scales.len() * width != bytes.len() || width == 0 {
                let found = format!("{} for {} numbers in `{name}`", scales.len(), bytes.len());
                return Err(broken("a scale for each head of each slot", found));
            }
            let scales = scales.iter().map(|scale| f32::from_le_bytes(*scale));
            let rows = bytes.chunks_exact(width).zip(scales);
            let values = rows.flat_map(|(row, scale)| {
                row.iter().map(move |step| f32::from(*step as i8) * scale)
            });
            TensorData::new(values.collect::<Vec<f32>>(), shape)
        }
        other => return Err(broken("32-, 16- or 8-bit numbers", format!("{other:?} in `{name}`"))),
    };
    Ok(Some(data))
}
