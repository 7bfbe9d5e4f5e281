//! Copies and clones.

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
        let layout = source.layout().dense_like()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::abi::In;
    use crate::shim::attributes::*;
    use crate::shim::constants::{DEVICE_CPU, DEVICE_MPS};
    use crate::shim::create::aoti_torch__reinterpret_tensor;
    use crate::shim::testing::{call, empty, get, model, read, write};
    use crate::tensor::DType;

    const F32: i32 = 6;

    fn layout_of(handle: RawHandle) -> (Vec<i64>, Vec<i64>) {
        let tensor = tensor(handle).unwrap();
        (tensor.sizes().to_vec(), tensor.strides().to_vec())
    }

    #[test]
    fn clones_are_copies() {
        let (model, _guard) = model();
        let base = empty(&[3, 4], &[4, 1], F32, DEVICE_MPS);
        write(base, &(0..12).map(|i| i as f32).collect::<Vec<_>>());
        let (sizes, strides) = (In::of(&[2, 3]), In::of(&[1, 4]));
        let view = get!(aoti_torch__reinterpret_tensor, base, 2, sizes, strides, 1).unwrap();
        let dense = get!(aoti_torch_clone, view).unwrap();
        assert_eq!(layout_of(dense), (vec![2, 3], vec![1, 2]));
        assert_eq!(read::<f32>(dense, 6), [1.0, 2.0, 5.0, 6.0, 9.0, 10.0]);
        let same = get!(aoti_torch_clone_preserve_strides, view).unwrap();
        assert_eq!(layout_of(same), (vec![2, 3], vec![1, 4]));
        assert_eq!(read::<f32>(same, 10), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_eq!(get!(aoti_torch_get_storage_offset, same).unwrap(), 0);
        // The copies are on the stream, in its order: the source may change right after them.
        call!(aoti_torch_zero_, base).unwrap();
        assert_eq!(read::<f32>(dense, 2), [1.0, 2.0]);
        assert_eq!(read::<f32>(base, 12), [0.0; 12]);
        let scalar = empty(&[], &[], F32, DEVICE_CPU);
        write(scalar, &[4f32]);
        let clone = get!(aoti_torch_clone_preserve_strides, scalar).unwrap();
        assert_eq!(get!(aoti_torch_get_device_type, clone).unwrap(), DEVICE_CPU);
        assert_eq!(read::<f32>(clone, 1), [4.0]);
        assert_eq!(model.release(), 6);
    }

    #[test]
    fn copies_to_the_cpu_have_happened_when_they_return() {
        let (model, guard) = model();
        let source = empty(&[3], &[1], DType::I32.code(), DEVICE_MPS);
        write(source, &[1i32, 2, 3]);
        let target = empty(&[2, 3], &[3, 1], F32, DEVICE_CPU);
        call!(aoti_torch_copy_, target, source, 0).unwrap();
        assert!(guard.stream().is_idle());
        assert_eq!(read::<f32>(target, 6), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        let device = empty(&[3], &[1], DType::I32.code(), DEVICE_MPS);
        call!(aoti_torch_copy_, device, source, 0).unwrap();
        assert!(!guard.stream().is_idle(), "copies on the device do not wait");
        call!(aoti_torch_tensor_copy_, device, target).unwrap();
        assert_eq!(read::<f32>(target, 3), [1.0, 2.0, 3.0]);
        let wrong = empty(&[2], &[1], F32, DEVICE_MPS);
        let text = call!(aoti_torch_copy_, wrong, source, 0).unwrap_err();
        assert!(text.contains("[3]") && text.contains("[2]"), "{text}");
        assert_eq!(model.release(), 4);
    }
}
