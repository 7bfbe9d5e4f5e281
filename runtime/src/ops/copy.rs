//! `copy_`: any strides, broadcast, dtype conversion, overlapping operands.

use super::overlap::{check_writable, may_overlap, same_view};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{Layout, Tensor};

/// `dst = src`, with `src` broadcast to the sizes of `dst` and converted to its dtype as
/// PyTorch does. The operands may overlap in any way.
///
/// # Errors
/// `src` does not broadcast to `dst`, elements of `dst` share memory, or out of memory.
pub fn copy(stream: &Stream, dst: &Tensor, src: &Tensor) -> Result<()> {
    let src = broadcast_to("copy_", src, dst.sizes())?;
    if dst.numel() == 0 || same_view(dst, &src) {
        return Ok(());
    }
    check_writable("copy_", dst)?;
    if may_overlap(dst, &src) {
        // Elements could be overwritten before they are read: go through a packed copy.
        let layout = Layout::contiguous(src.sizes())?;
        let packed = Tensor::empty(stream.device(), src.dtype(), layout)?;
        copy_apart(stream, &packed, &src)?;
        return copy_apart(stream, dst, &packed);
    }
    copy_apart(stream, dst, &src)
}

/// `dst = src` for operands of equal sizes that share no memory.
fn copy_apart(stream: &Stream, dst: &Tensor, src: &Tensor) -> Result<()> {
    let same_bytes = dst.dtype() == src.dtype()
        && dst.layout().is_dense()
        && src.layout().is_dense()
        && dst
            .sizes()
            .iter()
            .zip(dst.strides().iter().zip(src.strides()))
            .all(|(&size, (d, s))| size <= 1 || d == s);
    if same_bytes {
        return stream.copy(
            (src.storage().buffer(), src.buffer_offset()),
            (dst.storage().buffer(), dst.buffer_offset()),
            dst.numel() * dst.dtype().size(),
        );
    }
    graph::encode(stream, GraphOp::Copy, &[dst, src])
}

/// `tensor` as a view of these sizes: missing leading dimensions and dimensions of size 1 are
/// repeated.
///
/// # Errors
/// The sizes do not broadcast; the message begins with `op`.
pub fn broadcast_to(op: &str, tensor: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if tensor.sizes() == sizes {
        return Ok(tensor.clone());
    }
    let lead = sizes.len().checked_sub(tensor.sizes().len());
    let fits = lead.is_some_and(|lead| {
        tensor.sizes().iter().zip(&sizes[lead..]).all(|(&have, &want)| have == want || have == 1)
    });
    let (Some(lead), true) = (lead, fits) else {
        return Err(err!(
            InvalidArgument,
            "{op}: a tensor of sizes {:?} does not broadcast to {sizes:?}",
            tensor.sizes()
        ));
    };
    let mut strides = smallvec::SmallVec::<[i64; 6]>::from_elem(0, sizes.len());
    for (d, stride) in strides.iter_mut().enumerate().skip(lead) {
        if tensor.sizes()[d - lead] == sizes[d] {
            *stride = tensor.strides()[d - lead];
        }
    }
    tensor.view(tensor.offset(), tensor.dtype(), Layout::new(sizes, &strides)?)
}
