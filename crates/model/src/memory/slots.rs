//! Keys and values of some slots of a memory in one layer.

use burn::prelude::*;
use burn::tensor::DType;
use safetensors::tensor::Dtype;

use super::snapshot::SlotData;
use crate::Error;
use crate::checkpoint::are_finite;

/// Keys before rotation by their positions, and values, `[kv_heads, slots, head_width]` each.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    pub(super) keys: Tensor<3>,
    pub(super) values: Tensor<3>,
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

    /// Copies the slots off the device.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub(super) fn data(&self) -> Result<SlotData, Error> {
        Ok(SlotData { keys: off_device(&self.keys)?, values: off_device(&self.values)? })
    }

    /// Waits until the device has computed the slots.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub(super) fn wait(&self) -> Result<(), Error> {
        off_device(&self.values.clone().slice([0..1, 0..1, 0..1])).map(drop)
    }

    /// Returns these slots and `more` behind them.
    pub(super) fn with(self, more: Self) -> Self {
        Self {
            keys: Tensor::cat(vec![self.keys, more.keys], 1),
            values: Tensor::cat(vec![self.values, more.values], 1),
        }
    }

    /// Returns keys and values.
    pub(super) fn parts(self) -> (Tensor<3>, Tensor<3>) {
        (self.keys, self.values)
    }

    /// Stops gradients at this point.
    pub(super) fn detach(self) -> Self {
        Self { keys: self.keys.detach(), values: self.values.detach() }
    }

    /// Returns the first `count` slots.
    pub(super) fn first(&self, count: usize) -> Self {
        let [heads, _, width] = self.keys.dims();
        let first = |all: &Tensor<3>| all.clone().slice([0..heads, 0..count, 0..width]);
        Self { keys: first(&self.keys), values: first(&self.values) }
    }

    /// Returns the slots with the indices `kept`.
    pub(super) fn only(&self, kept: &[usize]) -> Self {
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
