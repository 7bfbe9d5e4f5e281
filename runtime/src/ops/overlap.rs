//! Whether tensors share memory.

use crate::Result;
use crate::error::err;
use crate::tensor::Tensor;

/// The CPU addresses that a tensor touches, first to one past last; empty for no elements.
fn span(tensor: &Tensor) -> std::ops::Range<usize> {
    let start = tensor.as_ptr() as usize;
    start..start + tensor.layout().extent() * tensor.dtype().size()
}

/// Whether both may touch a common byte. Compares addresses, not buffers: two buffers may borrow
/// overlapping ranges of one mapping.
pub fn may_overlap(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (span(a), span(b));
    a.start < b.end && b.start < a.end
}

/// Whether both are the same view: element `i` of one is element `i` of the other, and nothing
/// else.
pub fn same_view(a: &Tensor, b: &Tensor) -> bool {
    a.as_ptr() == b.as_ptr()
        && a.dtype() == b.dtype()
        && a.sizes() == b.sizes()
        && a.sizes()
            .iter()
            .zip(a.strides().iter().zip(b.strides()))
            .all(|(&size, (x, y))| size <= 1 || x == y)
}

/// Checks that no two elements of `out` share memory, as a result must not be written twice.
///
/// # Errors
/// A dimension is broadcast, or dimensions overlap.
pub fn check_writable(op: &str, out: &Tensor) -> Result<()> {
    let mut dims: smallvec::SmallVec<[(i64, i64); 6]> = out
        .sizes()
        .iter()
        .zip(out.strides())
        .filter(|&(&size, _)| size > 1)
        .map(|(&size, &stride)| (stride, size))
        .collect();
    dims.sort_unstable();
    // Sorted by stride, each dimension must step over all that the inner ones reach.
    let mut reach = 0;
    for &(stride, size) in &dims {
        if out.numel() != 0 && stride <= reach {
            return Err(err!(
                InvalidArgument,
                "{op}: elements of the result (sizes {:?}, strides {:?}) share memory; write to a \
                 contiguous tensor instead",
                out.sizes(),
                out.strides()
            ));
        }
        reach += stride * (size - 1);
    }
    Ok(())
}
