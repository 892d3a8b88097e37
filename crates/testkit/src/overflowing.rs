//! Models that compute no numbers, as a device whose memory is damaged does.

use std::fs;
use std::io;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

/// Raises the weights `tensor` of the model in `folder` to the largest number there is, so that
/// what the model computes with them overflows. They must be 32-bit floats.
///
/// # Errors
/// Returns an error if the file system fails, or if the model has no such tensor.
pub fn overflow(folder: &Path, tensor: &str) -> io::Result<()> {
    let path = folder.join("model.safetensors");
    let bytes = fs::read(&path)?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(io::Error::other)?;
    let size = tensors.tensor(tensor).map_err(io::Error::other)?.data().len();
    let largest = f32::MAX.to_le_bytes().repeat(size / size_of::<f32>());
    let mut views = Vec::new();
    for (name, mut view) in tensors.tensors() {
        if name == tensor {
            view = TensorView::new(Dtype::F32, view.shape().to_vec(), &largest)
                .map_err(io::Error::other)?;
        }
        views.push((name, view));
    }
    safetensors::serialize_to_file(views, None, &path).map_err(io::Error::other)
}
