//! `zero_`: zeros of any dtype, any strides.

use super::copy::copy;
use crate::Result;
use crate::stream::Stream;
use crate::tensor::{Layout, Tensor};

/// Sets every element of `tensor` to zero, and no byte between them.
///
/// # Errors
/// Elements share memory, or out of memory.
pub fn zero(stream: &Stream, tensor: &Tensor) -> Result<()> {
    let size = tensor.dtype().size();
    if tensor.layout().is_dense() {
        let at = (tensor.storage().buffer(), tensor.buffer_offset());
        return stream.fill(at, tensor.numel() * size, 0);
    }
    let one = Tensor::empty(stream.device(), tensor.dtype(), Layout::contiguous(&[])?)?;
    stream.fill((one.storage().buffer(), one.buffer_offset()), size, 0)?;
    copy(stream, tensor, &one)
}
