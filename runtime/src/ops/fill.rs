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

#[cfg(test)]
mod tests {
    use super::super::testing::{gaps, stream, tensor, values};
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn zeros_reach_all_elements_and_nothing_else() {
        for strides in [[3, 1], [1, 2], [7, 2], [1, 5]] {
            for dtype in DType::ALL {
                let t = tensor(dtype, &[2, 3], &strides, 1, &[1.0; 6]);
                let before = gaps(&t);
                let stream = stream();
                zero(&stream, &t).unwrap();
                stream.commit_and_wait().unwrap();
                assert_eq!(values(&t), [0.0; 6], "{dtype} {strides:?}");
                assert_eq!(gaps(&t), before, "{dtype} {strides:?}");
            }
        }
    }

    #[test]
    fn nothing_to_zero_is_ordinary() {
        let stream = stream();
        zero(&stream, &tensor(DType::F32, &[0, 3], &[3, 1], 0, &[])).unwrap();
        assert_eq!(stream.pending(), 0);
    }
}
