//! Checkpoint that is read tensor by tensor, so that at most its largest tensor is in memory twice.
//! That is also the fastest: memory for a copy of a file takes longer to get than the copy takes.
//!
//! Tensors are read at their offsets, not memory-mapped. If somebody truncates the file meanwhile,
//! the result is an error and not a crash of the process.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use burn::tensor::{DType, TensorData};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorInfo};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::folder::reader::FolderReader;
use crate::folder::weight_names;
use crate::weights::{Parameter, Weights, broken, check_format, check_names};

/// Maximum size of a safetensors header in bytes. The headers of the largest models take a few
/// megabytes.
const LARGEST_HEADER: u64 = 100 << 20;
/// Number of bytes that are read at once to be hashed or converted: few enough to stay in the
/// cache, and a multiple of the size of any number.
const READ_AT_ONCE: usize = 1 << 18;
/// Size in bytes of the prefix before the header: the header's length.
const PREFIX: u64 = 8;

/// Checkpoint in one file or several.
pub(crate) struct Checkpoint {
    files: Vec<(String, File)>,
    tensors: BTreeMap<String, Stored>,
}

/// Place and format of a stored tensor.
struct Stored {
    file: usize,
    format: Dtype,
    shape: Vec<usize>,
    start: u64,
    bytes: usize,
}

/// Header of a file.
#[derive(Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    _metadata: Option<serde_json::Value>,
    #[serde(flatten)]
    tensors: BTreeMap<String, TensorInfo>,
}

impl Checkpoint {
    /// Reads the headers of a model folder's weight files.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if a file cannot be opened. Returns [`Error::Broken`] if a
    /// file is cut short or not a safetensors file, or if a tensor is stored twice.
    pub(crate) fn open(folder: &FolderReader) -> Result<Self, Error> {
        let mut checkpoint = Self { files: Vec::new(), tensors: BTreeMap::new() };
        for name in weight_names(folder)? {
            let file = folder.open(&name, "the model's weights")?;
            checkpoint.add(folder.name(&name), file)?;
        }
        Ok(checkpoint)
    }

    /// Adds `root` before every name, unless some names have it already. Checkpoints of a larger
    /// model that contains this one name its tensors so.
    pub(crate) fn rooted(mut self, root: &str) -> Self {
        if !self.tensors.keys().any(|name| name.starts_with(root)) {
            let tensors = std::mem::take(&mut self.tensors).into_iter();
            self.tensors = tensors.map(|(name, at)| (format!("{root}{name}"), at)).collect();
        }
        self
    }

    /// Removes `root` from the beginning of names. Checkpoints of a larger model that contains this
    /// one have it.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if a tensor is stored with and without it.
    pub(crate) fn relative_to(mut self, root: &str) -> Result<Self, Error> {
        let mut tensors = BTreeMap::new();
        for (stored_name, stored) in std::mem::take(&mut self.tensors) {
            let name = stored_name.strip_prefix(root).unwrap_or(&stored_name).to_owned();
            let file = stored.file;
            if tensors.insert(name.clone(), stored).is_some() {
                let found = format!("`{name}` twice");
                return Err(broken(&self.files[file].0, "each tensor once", found));
            }
        }
        Ok(Self { tensors, ..self })
    }

    fn add(&mut self, name: String, file: File) -> Result<(), Error> {
        let cut = |found: String| broken(&name, "a complete safetensors file", found);
        let unreadable = |error: std::io::Error| cut(error.to_string());
        let length = file.metadata().map_err(unreadable)?.len();
        let mut prefix = [0; PREFIX as usize];
        file.read_exact_at(&mut prefix, 0).map_err(unreadable)?;
        let header = u64::from_le_bytes(prefix);
        if header > LARGEST_HEADER || header > length - PREFIX {
            return Err(cut(format!("a header of {header} bytes in {length}")));
        }
        let mut bytes = vec![0; header as usize];
        file.read_exact_at(&mut bytes, PREFIX).map_err(unreadable)?;
        let parsed: Header = serde_json::from_slice(&bytes)
            .map_err(|error| cut(format!("a header that is none ({error})")))?;
        let data = PREFIX + header;
        let place = self.files.len();
        let mut used = 0;
        for (tensor, info) in parsed.tensors {
            let (start, end) = info.data_offsets;
            let (size, room) = (info.dtype.bitsize() / 8, length - data);
            let wanted = info.shape.iter().try_fold(size, |all, side| all.checked_mul(*side));
            let is_there = start <= end && end as u64 <= room;
            if !is_there || wanted != Some(end - start) {
                let found = format!("`{tensor}` of {:?} at {start} to {end} of {room}", info.shape);
                return Err(cut(found));
            }
            used += (end - start) as u64;
            let stored = Stored {
                file: place,
                format: info.dtype,
                shape: info.shape,
                start: data + start as u64,
                bytes: end - start,
            };
            if self.tensors.insert(tensor.clone(), stored).is_some() {
                return Err(broken(&name, "each tensor once", format!("`{tensor}` twice")));
            }
        }
        if used != length - data {
            return Err(cut(format!("tensors of {used} bytes in {}", length - data)));
        }
        self.files.push((name, file));
        Ok(())
    }

    /// Refuses a checkpoint that does not hold exactly the `parameters`, except for tensors for
    /// which `is_ignored` holds.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if names differ, [`Error::Inconsistent`] if a shape differs,
    /// and [`Error::Unsupported`] if a number format is not 32-bit floats, 16-bit floats or
    /// bfloat16.
    pub(crate) fn check(
        &self,
        parameters: &[Parameter],
        is_ignored: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let stored = self.tensors.keys().map(String::as_str).filter(|name| !is_ignored(name));
        check_names(self.names(), stored, parameters)?;
        for parameter in parameters {
            let Stored { file, format, shape, .. } = &self.tensors[&parameter.name];
            check_format(&self.files[*file].0, shape, *format, parameter)?;
        }
        Ok(())
    }

    /// Reads tensors of one number format and one width, stacked by rows, in the format in which
    /// they are stored.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if a tensor does not exist, [`Error::Unreadable`] if a file
    /// cannot be read, [`Error::Broken`] if a number is not finite, and [`Error::Inconsistent`] if
    /// the tensors do not fit together.
    pub(crate) fn read(&self, names: &[String]) -> Result<TensorData, Error> {
        let mut all: Option<(Vec<u8>, Vec<usize>, Dtype)> = None;
        for name in names {
            let stored = self.stored(name)?;
            let (file, handle) = &self.files[stored.file];
            let (bytes, shape, format) =
                all.get_or_insert_with(|| (Vec::new(), Vec::new(), stored.format));
            match (shape.split_first_mut(), stored.shape.split_first()) {
                (None, _) => shape.clone_from(&stored.shape),
                (Some((rows, width)), Some((more, other)))
                    if width == other && *format == stored.format =>
                {
                    *rows += more;
                }
                _ => {
                    return Err(Error::Inconsistent {
                        file: file.clone(),
                        other: file.clone(),
                        expected: format!("`{name}` like `{}`", names[0]),
                        found: format!("{:?} in {:?}", stored.shape, stored.format),
                    });
                }
            }
            let start = bytes.len();
            bytes.resize(start + stored.bytes, 0);
            handle.read_exact_at(&mut bytes[start..], stored.start).map_err(|source| {
                Error::Unreadable { file: file.clone(), expected: format!("`{name}`"), source }
            })?;
            if !are_finite(&bytes[start..], stored.format) {
                let found = format!("a value in `{name}` that is not");
                return Err(broken(file, "finite numbers", found));
            }
        }
        let (bytes, shape, format) = all.unwrap_or((Vec::new(), vec![0], Dtype::F32));
        let format = match format {
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            // `check` admits only these three formats.
            _ => DType::F32,
        };
        Ok(TensorData::from_bytes_vec(bytes, shape, format))
    }

    /// Returns whether `is_of_kind` holds for the name of any tensor.
    pub(crate) fn has(&self, is_of_kind: impl Fn(&str) -> bool) -> bool {
        self.tensors.keys().any(|name| is_of_kind(name))
    }

    /// Returns a hash of `settings` and of every tensor's name, shape, format and bytes, in 32
    /// hexadecimal digits.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if a file cannot be read.
    pub(crate) fn fingerprint(&self, settings: &impl Serialize) -> Result<String, Error> {
        let mut hash = blake3::Hasher::new();
        // Settings were read from JSON, so they can be written as JSON.
        hash.update(&serde_json::to_vec(settings).unwrap_or_default());
        for (name, stored) in &self.tensors {
            hash.update(format!("{name} {:?} {:?}\n", stored.shape, stored.format).as_bytes());
            self.blocks(name, stored, |block| {
                hash.update(block);
                Ok(())
            })?;
        }
        Ok(hash.finalize().to_hex()[..32].to_owned())
    }

    /// Adds the length and the content of each file to `hash`.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if a file cannot be read.
    pub(crate) fn add_files_to(&self, hash: &mut blake3::Hasher) -> Result<(), Error> {
        for file in &self.files {
            let length = length_of(file)?;
            hash.update(&length.to_le_bytes());
            add_content(file, length, hash)?;
        }
        Ok(())
    }

    /// Adds the content of each file to `hash`, without lengths.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if a file cannot be read.
    pub(crate) fn add_contents_to(&self, hash: &mut blake3::Hasher) -> Result<(), Error> {
        self.files.iter().try_for_each(|file| add_content(file, length_of(file)?, hash))
    }

    /// Returns the number format of a tensor.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if the tensor does not exist.
    pub(crate) fn format(&self, name: &str) -> Result<Dtype, Error> {
        Ok(self.stored(name)?.format)
    }

    /// Reads a tensor block by block, and hands each to `take`.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if the file cannot be read, and the errors of `take`.
    fn blocks(
        &self,
        name: &str,
        stored: &Stored,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (file, handle) = &self.files[stored.file];
        let mut block = vec![0; READ_AT_ONCE.min(stored.bytes)];
        for start in (0..stored.bytes).step_by(READ_AT_ONCE) {
            let block = &mut block[..READ_AT_ONCE.min(stored.bytes - start)];
            handle.read_exact_at(block, stored.start + start as u64).map_err(|source| {
                Error::Unreadable { file: file.clone(), expected: format!("`{name}`"), source }
            })?;
            take(block)?;
        }
        Ok(())
    }

    fn stored(&self, name: &str) -> Result<&Stored, Error> {
        self.tensors.get(name).ok_or_else(|| Error::TensorNames {
            file: self.names().collect::<Vec<_>>().join(", "),
            missing: vec![name.to_owned()],
            unused: Vec::new(),
        })
    }

    /// Returns the names of the checkpoint's files.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }
}

impl Weights for Checkpoint {
    /// Reads a tensor without holding its bytes in memory as well.
    fn values(&self, name: &str) -> Result<Vec<f32>, Error> {
        let stored = self.stored(name)?;
        let mut values = Vec::with_capacity(stored.shape.iter().product());
        self.blocks(name, stored, |block| {
            if !are_finite(block, stored.format) {
                let found = format!("a value in `{name}` that is not");
                return Err(broken(&self.files[stored.file].0, "finite numbers", found));
            }
            let pairs = || block.as_chunks::<2>().0.iter().copied();
            match stored.format {
                Dtype::F16 => values.extend(pairs().map(|pair| f16::from_le_bytes(pair).to_f32())),
                Dtype::BF16 => {
                    values.extend(pairs().map(|pair| bf16::from_le_bytes(pair).to_f32()));
                }
                // `check` admits only these three formats.
                _ => {
                    values.extend(block.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes))
                }
            }
            Ok(())
        })?;
        Ok(values)
    }
}

/// Returns the number of bytes of a checkpoint's file.
fn length_of((name, file): &(String, File)) -> Result<u64, Error> {
    Ok(file.metadata().map_err(|source| unreadable_weights(name, source))?.len())
}

/// Adds the first `length` bytes of a checkpoint's file to `hash`.
fn add_content(
    (name, file): &(String, File),
    length: u64,
    hash: &mut blake3::Hasher,
) -> Result<(), Error> {
    let mut block = vec![0; READ_AT_ONCE];
    for start in (0..length).step_by(READ_AT_ONCE) {
        let bytes =
            usize::try_from(length - start).map_or(READ_AT_ONCE, |rest| rest.min(READ_AT_ONCE));
        let block = &mut block[..bytes];
        file.read_exact_at(block, start).map_err(|source| unreadable_weights(name, source))?;
        hash.update(block);
    }
    Ok(())
}

fn unreadable_weights(file: &str, source: std::io::Error) -> Error {
    let expected = "the model's weights".to_owned();
    Error::Unreadable { file: file.to_owned(), expected, source }
}

/// Returns whether all numbers, 32-bit floats, 16-bit floats or bfloat16, are finite.
pub(crate) fn are_finite(bytes: &[u8], format: Dtype) -> bool {
    match format {
        Dtype::F16 => are_all(bytes, |pair| f16::from_le_bytes(pair).is_finite()),
        Dtype::BF16 => are_all(bytes, |pair| bf16::from_le_bytes(pair).is_finite()),
        _ => are_all(bytes, |quad| f32::from_le_bytes(quad).is_finite()),
    }
}

/// Returns whether all numbers of `SIZE` bytes have a property. Looks at whole blocks without a
/// branch in between, which is five times as fast as one by one.
fn are_all<const SIZE: usize>(bytes: &[u8], is_so: impl Fn([u8; SIZE]) -> bool) -> bool {
    let mut blocks = bytes.as_chunks::<SIZE>().0.chunks(4096);
    blocks.all(|block| block.iter().fold(true, |all, number| all & is_so(*number)))
}
