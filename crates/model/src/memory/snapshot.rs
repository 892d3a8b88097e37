//! A memory as bytes: a safetensors file of values, and of keys before rotation by positions.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use burn::tensor::{DType, TensorData};
use half::bf16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layout::Extent;
use super::settings::MemoryModelSettings;
use crate::Error;
use crate::checkpoint::are_finite;
use crate::decoder::config::{DecoderConfig, MOST_LAYERS};

/// Format version, raised whenever an older program could not read what this one writes.
const VERSION: u64 = 1;
/// Name of the header in the file's metadata.
const HEADER: &str = "clew.memory";
/// Text before the checksum, which occurs nowhere else in the file. Within a string of the header
/// each quotation mark would have more than one backslash before it.
const CHECKSUM: &[u8] = br#"\"checksum\":\""#;
/// Value in place of the checksum while it is computed.
const NO_CHECKSUM: [u8; 64] = [b'0'; 64];
/// Name of a snapshot in errors.
const FILE: &str = "memory snapshot";
/// Number of steps of an 8-bit number on each side of 0.
const STEPS: f32 = 127.0;

/// Number format in which a snapshot keeps keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotFormat {
    /// The format in which the model computed them.
    #[default]
    Exact,
    /// 16 bits.
    BFloat16,
    /// 8 bits, with a scale for each head of each slot.
    Int8,
}

/// Memory off the device.
#[derive(Clone, Debug)]
pub struct MemorySnapshot {
    /// Fingerprint of the model that read it.
    pub fingerprint: String,
    /// Number of tokens read, and what each slot is.
    pub extent: Extent,
    /// Slots of each layer.
    pub layers: Vec<LayerData>,
}

/// Slots of one layer.
#[derive(Clone, Debug)]
pub struct LayerData {
    /// Sink and memory.
    pub front: Option<SlotData>,
    /// The open window.
    pub open: Option<SlotData>,
}

/// Keys before rotation, and values, `[kv_heads, slots, head_width]` each.
#[derive(Clone, Debug)]
pub struct SlotData {
    /// The keys.
    pub keys: TensorData,
    /// The values.
    pub values: TensorData,
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: u64,
    format: SnapshotFormat,
    fingerprint: String,
    extent: Extent,
    layers: usize,
    /// Hash of the whole file, with zeros in place of the hash.
    checksum: String,
}

/// Tensor as it is written.
struct Written {
    format: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

pub(super) fn inconsistent(expected: String, found: String) -> Error {
    Error::Inconsistent { file: FILE.to_owned(), other: "the model".to_owned(), expected, found }
}

fn broken(expected: &str, found: impl ToString) -> Error {
    crate::weights::broken(FILE, expected, found.to_string())
}

impl SlotData {
    /// Returns the shapes of keys and values.
    fn shapes(&self) -> [Vec<usize>; 2] {
        [&self.keys, &self.values].map(|data| data.shape().to_vec())
    }
}

impl MemorySnapshot {
    /// Returns the bytes of a file, and the maximum error of a number in it.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if keys or values are not finite, or too large for the format.
    pub fn to_bytes(&self, format: SnapshotFormat) -> Result<(Vec<u8>, f32), Error> {
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
            layers: self.layers.len(),
            checksum: String::from_utf8_lossy(&NO_CHECKSUM).into_owned(),
        };
        let header = serde_json::to_string(&header).map_err(|e| broken("a header", e))?;
        let metadata = HashMap::from([(HEADER.to_owned(), header)]);
        let views = tensors.iter().map(|(name, tensor)| {
            let view = TensorView::new(tensor.format, tensor.shape.clone(), &tensor.bytes);
            view.map(|view| (name.as_str(), view))
        });
        let views = views.collect::<Result<Vec<_>, _>>().map_err(|e| broken("whole tensors", e))?;
        let bytes = safetensors::serialize(views, Some(metadata));
        let mut bytes = bytes.map_err(|e| broken("whole tensors", e))?;
        let place = checksum_place(&bytes)?;
        let checksum = checksum(&bytes, &place);
        bytes[place].copy_from_slice(checksum.as_bytes());
        Ok((bytes, off))
    }

    /// Reads the bytes that [`MemorySnapshot::to_bytes`] returned.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if the bytes are cut short, changed or something else, and
    /// [`Error::Unsupported`] if the snapshot has another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let whole = "a whole file";
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| broken(whole, e))?;
        let header = metadata.metadata().as_ref().and_then(|metadata| metadata.get(HEADER));
        let header = header.ok_or_else(|| broken("a snapshot's header", "none"))?;
        let header: Header = parse_header(header)?;
        let found = checksum(bytes, &checksum_place(bytes)?);
        if found != header.checksum {
            return Err(broken(&format!("the checksum {}", header.checksum), found));
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| broken(whole, e))?;
        let mut tensors: BTreeMap<String, TensorView<'_>> = tensors.tensors().into_iter().collect();
        let Header { fingerprint, extent, layers, .. } = header;
        if !(1..=MOST_LAYERS).contains(&layers) {
            return Err(broken(&format!("1 to {MOST_LAYERS} layers"), layers));
        }
        let layers = (0..layers).map(|layer| {
            let mut part = |part: &str| -> Result<Option<SlotData>, Error> {
                let mut one =
                    |what: &str| read(&mut tensors, &format!("layers.{layer}.{part}.{what}"));
                match (one("keys")?, one("values")?) {
                    (Some(keys), Some(values)) => Ok(Some(SlotData { keys, values })),
                    (None, None) => Ok(None),
                    _ => Err(broken("keys with values", format!("one of them in layer {layer}"))),
                }
            };
            Ok(LayerData { front: part("front")?, open: part("open")? })
        });
        let layers = layers.collect::<Result<Vec<_>, Error>>()?;
        if let Some(name) = tensors.keys().next() {
            return Err(broken("keys and values of the layers alone", format!("`{name}`")));
        }
        let snapshot = Self { fingerprint, extent, layers };
        let mut all =
            snapshot.layers.iter().flat_map(|layer| layer.front.iter().chain(&layer.open));
        // All layers must agree with the first. Only `restore` can compare them with the model.
        let [heads, width] = all.next().map_or([0; 2], |data| {
            let shape = data.keys.shape();
            [shape[0], shape[2]]
        });
        snapshot
            .check_layers(heads, width)
            .map_err(|(expected, found)| broken(&expected, found))?;
        Ok(snapshot)
    }

    /// Refuses a snapshot that a model of this shape cannot have read with `settings`, because a
    /// file may contain anything.
    ///
    /// # Errors
    /// Returns [`Error::Inconsistent`] with the difference.
    pub(super) fn check(
        &self,
        config: &DecoderConfig,
        settings: &MemoryModelSettings,
    ) -> Result<(), Error> {
        if !self.extent.is_plausible(settings) {
            let expected = "an extent that reading can lead to".to_owned();
            return Err(inconsistent(
                expected,
                format!("another of {} tokens", self.extent.tokens),
            ));
        }
        if self.layers.len() != config.layers {
            let found = self.layers.len().to_string();
            return Err(inconsistent(format!("{} layers", config.layers), found));
        }
        self.check_layers(config.kv_heads, config.head_width)
            .map_err(|(expected, found)| inconsistent(expected, found))
    }

    /// Refuses layers whose slots do not match the extent, or that do not have `heads` heads of
    /// `width` numbers.
    ///
    /// # Errors
    /// Returns what was expected, and what was found.
    fn check_layers(&self, heads: usize, width: usize) -> Result<(), (String, String)> {
        let Extent { sink, memory, open, .. } = &self.extent;
        for layer in &self.layers {
            let front = sink.saturating_add(*memory);
            for (data, slots) in [(&layer.front, front), (&layer.open, open.len())] {
                let shape = vec![heads, slots, width];
                let expected = if slots == 0 { vec![] } else { vec![shape.clone(), shape] };
                let found: Vec<_> = data.iter().flat_map(SlotData::shapes).collect();
                if found != expected {
                    let expected = format!("keys and values of {expected:?}");
                    return Err((expected, format!("{found:?}")));
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

fn parse_header(header: &str) -> Result<Header, Error> {
    let not_one = |error: serde_json::Error| broken("a snapshot's header", error);
    let header: serde_json::Value = serde_json::from_str(header).map_err(not_one)?;
    // The version is checked first, because the rest of a later version may be anything.
    match header.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version != VERSION => Err(Error::Unsupported {
            file: FILE.to_owned(),
            expected: format!("version {VERSION}"),
            found: format!("version {version}"),
        }),
        _ => serde_json::from_value(header).map_err(not_one),
    }
}

/// Returns the place of the checksum in a file.
fn checksum_place(bytes: &[u8]) -> Result<Range<usize>, Error> {
    let place = bytes.windows(CHECKSUM.len()).position(|window| window == CHECKSUM);
    let place = place.map(|at| at + CHECKSUM.len()..at + CHECKSUM.len() + NO_CHECKSUM.len());
    place
        .filter(|place| place.end <= bytes.len())
        .ok_or_else(|| broken("a checksum in the header", "none"))
}

fn checksum(bytes: &[u8], place: &Range<usize>) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(&bytes[..place.start]).update(&NO_CHECKSUM).update(&bytes[place.end..]);
    hash.finalize().to_hex().to_string()
}

fn write(
    name: &str,
    data: &TensorData,
    format: SnapshotFormat,
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
        (SnapshotFormat::Exact, DType::BF16) | (SnapshotFormat::BFloat16, _) => {
            let bytes = halves().flat_map(|half| half.to_le_bytes()).collect();
            put(name.to_owned(), Dtype::BF16, shape, bytes);
            let off = halves().zip(&values).map(|(half, value)| (half.to_f32() - value).abs());
            let off = off.fold(0.0, f32::max);
            match off.is_finite() {
                true => Ok(off),
                false => {
                    Err(broken("numbers that 16 bits can hold", format!("others in `{name}`")))
                }
            }
        }
        (SnapshotFormat::Exact, _) => {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            put(name.to_owned(), Dtype::F32, shape, bytes);
            Ok(0.0)
        }
        (SnapshotFormat::Int8, _) => {
            let width = shape.last().copied().unwrap_or(1).max(1);
            let (mut steps, mut scales, mut off) = (Vec::new(), Vec::new(), 0.0_f32);
            for row in values.chunks(width) {
                let scale = row.iter().fold(0.0, |most: f32, value| most.max(value.abs())) / STEPS;
                for value in row {
                    let step = if scale > 0.0 { (value / scale).round() } else { 0.0 };
                    // If a scale is hardly more than 0, its rounding can push a step beyond the
                    // limits.
                    let step = step.clamp(-STEPS, STEPS);
                    off = off.max((step * scale - value).abs());
                    steps.push(step as i8 as u8);
                }
                scales.extend(scale.to_le_bytes());
            }
            let rows = shape[..shape.len().saturating_sub(1)].to_vec();
            put(format!("{name}.scales"), Dtype::F32, rows, scales);
            put(name.to_owned(), Dtype::I8, shape, steps);
            Ok(off)
        }
    }
}

/// Takes a tensor out of those of a file. Returns `None` if there is no such tensor.
fn read(
    tensors: &mut BTreeMap<String, TensorView<'_>>,
    name: &str,
) -> Result<Option<TensorData>, Error> {
    let Some(view) = tensors.remove(name) else { return Ok(None) };
    let shape = view.shape().to_vec();
    let &[_, _, width] = shape.as_slice() else {
        return Err(broken("heads, slots and width", format!("{shape:?} in `{name}`")));
    };
    if shape.contains(&0) {
        return Err(broken("slots", format!("none in `{name}`")));
    }
    let bytes = view.data().to_vec();
    let infinite = || broken("finite numbers", format!("one in `{name}` that is not"));
    if matches!(view.dtype(), Dtype::F32 | Dtype::BF16) && !are_finite(&bytes, view.dtype()) {
        return Err(infinite());
    }
    let data = match view.dtype() {
        Dtype::F32 => TensorData::from_bytes_vec(bytes, shape, DType::F32),
        Dtype::BF16 => TensorData::from_bytes_vec(bytes, shape, DType::BF16),
        Dtype::I8 => {
            let scales = tensors.remove(&format!("{name}.scales"));
            let scales = scales.filter(|scales| scales.dtype() == Dtype::F32);
            let scales = scales.as_ref().map_or(&[][..], TensorView::data);
            if !are_finite(scales, Dtype::F32) {
                return Err(infinite());
            }
            let scales = scales.as_chunks::<4>().0;
            if scales.len() * width != bytes.len() {
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
