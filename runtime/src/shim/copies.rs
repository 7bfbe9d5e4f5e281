//! Copies and clones.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::abi::{Out, c_functions};
use super::context::lend;
use super::registry::tensor;
use crate::Result;
use crate::ops;
use crate::stream::Stream;
use crate::tensor::{Layout, Placement, RawHandle, Tensor};

c_functions! {
    /// `dst = src`: broadcast, any strides, dtypes converted; both may overlap. A copy to or from
    /// the CPU has happened when the call returns, unless it is non-blocking.
    fn aoti_torch_copy_(dst: RawHandle, src: RawHandle, non_blocking: i32) {
        copy(&*tensor(dst)?, &*tensor(src)?, non_blocking != 0)
    }

    /// As `aoti_torch_copy_`, with the operands the other way round.
    fn aoti_torch_tensor_copy_(src: RawHandle, dst: RawHandle) {
        copy(&*tensor(dst)?, &*tensor(src)?, false)
    }

    /// A copy with storage of its own. Its strides are those of the source if that is dense,
    /// else dense in the order of the source's strides.
    fn aoti_torch_clone(source: RawHandle, ret: Out<RawHandle>) {
        ret.check("ret")?;
        let source = tensor(source)?;
        let layout = dense_like(source.layout())?;
        let clone = Tensor::empty(source.storage().device(), source.dtype(), layout)?
            .placed(source.placement());
        copy(&clone, &source, false)?;
        ret.set("ret", lend(clone))
    }

    /// A copy with storage of its own and the very strides of the source, gaps and repeated
    /// elements included.
    fn aoti_torch_clone_preserve_strides(source: RawHandle, ret: Out<RawHandle>) {
        ret.check("ret")?;
        let source = tensor(source)?;
        // All elements between the first and the last, as one dimension.
        let whole = Layout::contiguous(&[source.layout().extent() as i64])?;
        let from = source.view(source.offset(), source.dtype(), whole.clone())?;
        let to = Tensor::empty(source.storage().device(), source.dtype(), whole)?
            .placed(source.placement());
        copy(&to, &from, false)?;
        ret.set("ret", lend(to.view(0, source.dtype(), source.layout().clone())?))
    }

    /// Sets all elements to zero.
    fn aoti_torch_zero_(handle: RawHandle) {
        let tensor = tensor(handle)?;
        let stream = Stream::current()?;
        ops::zero(&stream, &tensor)?;
        if tensor.placement() == Placement::Cpu { stream.commit_and_wait() } else { Ok(()) }
    }
}

/// Copies, and waits if the CPU is on either side: it may read the result, or overwrite the
/// source, without looking at the stream.
fn copy(dst: &Tensor, src: &Tensor, non_blocking: bool) -> Result<()> {
    let stream = Stream::current()?;
    ops::copy(&stream, dst, src)?;
    let on_cpu = [dst, src].iter().any(|t| t.placement() == Placement::Cpu);
    if on_cpu && !non_blocking { stream.commit_and_wait() } else { Ok(()) }
}

/// The dense layout of the same sizes that a clone has (`c10::MemoryFormat::Preserve`).
fn dense_like(layout: &Layout) -> Result<Layout> {
    if layout.is_dense() {
        return Ok(layout.clone());
    }
    // From the dimension with the smallest stride outwards, sorted as PyTorch's
    // `infer_dense_strides` does: a repeated dimension (stride 0) compares as equal to all, so
    // the order is no total one and the very steps of the sort matter.
    let mut order: SmallVec<[usize; 6]> = (0..layout.dim()).rev().collect();
    for i in 1..order.len() {
        let mut moving = i;
        for other in (0..i).rev() {
            match compare_dimensions(layout, order[other], order[moving]) {
                Ordering::Greater => {
                    order.swap(other, moving);
                    moving = other;
                }
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    let mut strides = SmallVec::<[i64; 6]>::from_elem(1, layout.dim());
    let mut next = 1;
    for d in order {
        strides[d] = next;
        next *= layout.sizes[d].max(1);
    }
    Layout::new(&layout.sizes, &strides)
}

/// Which dimension lies further inside; `Equal` if there is no telling.
fn compare_dimensions(layout: &Layout, a: usize, b: usize) -> Ordering {
    let (stride_a, stride_b) = (layout.strides[a], layout.strides[b]);
    if stride_a == 0 || stride_b == 0 {
        return Ordering::Equal;
    }
    stride_a.cmp(&stride_b).then(if layout.sizes[a] > layout.sizes[b] {
        Ordering::Greater
    } else {
        Ordering::Equal
    })
}
