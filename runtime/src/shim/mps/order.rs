//! Operators that a model calls by name: `topk` and `sort`.

use crate::Result;
use crate::ops;
use crate::shim::abi::{In, Out, c_functions};
use crate::shim::context::lend;
use crate::shim::registry::tensor;
use crate::stream::Stream;
use crate::tensor::{RawHandle, Tensor};

c_functions! {
    /// The `k` greatest or least elements along a dimension, and their indices. Unsorted results
    /// may have any order; they are sorted as well.
    fn aoti_torch_mps_topk(
        input: RawHandle,
        k: i64,
        dim: i64,
        largest: i32,
        sorted: i32,
        ret0: Out<RawHandle>,
        ret1: Out<RawHandle>,
    ) {
        let _ = sorted;
        lend_both(ret0, ret1, || {
            ops::topk(&Stream::current()?, &*tensor(input)?, k, dim, largest != 0)
        })
    }

    /// The elements along a dimension in order, and their indices.
    fn aoti_torch_mps_sort(
        input: RawHandle,
        dim: i64,
        descending: i32,
        ret0: Out<RawHandle>,
        ret1: Out<RawHandle>,
    ) {
        lend_both(ret0, ret1, || {
            ops::sort(&Stream::current()?, &*tensor(input)?, dim, descending != 0)
        })
    }

    /// As `aoti_torch_mps_sort`, which is stable as well, whatever `stable` asks for.
    fn aoti_torch_mps_sort_stable(
        input: RawHandle,
        stable: In<i32>,
        dim: i64,
        descending: i32,
        ret0: Out<RawHandle>,
        ret1: Out<RawHandle>,
    ) {
        let _ = stable;
        lend_both(ret0, ret1, || {
            ops::sort(&Stream::current()?, &*tensor(input)?, dim, descending != 0)
        })
    }
}

/// Lends the two results of an operator.
fn lend_both(
    ret0: Out<RawHandle>,
    ret1: Out<RawHandle>,
    results: impl FnOnce() -> Result<(Tensor, Tensor)>,
) -> Result<()> {
    ret0.check("ret0")?;
    ret1.check("ret1")?;
    let (values, indices) = results()?;
    ret0.set("ret0", lend(values))?;
    ret1.set("ret1", lend(indices))
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;
    use crate::shim::abi::Status;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::testing::{empty, model, outcome, read, write};
    use crate::tensor::DType;

    fn matrix(values: &[f32; 6]) -> RawHandle {
        let handle = empty(&[2, 3], &[3, 1], DType::F32.code(), DEVICE_MPS);
        write(handle, values);
        handle
    }

    /// The two results of a call, or the error's text.
    fn both(
        call: impl FnOnce(Out<RawHandle>, Out<RawHandle>) -> Status,
    ) -> Result<(RawHandle, RawHandle), String> {
        let (mut values, mut indices) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        outcome(call(Out::of(&mut values), Out::of(&mut indices)))?;
        // SAFETY: the call succeeded, so it has set the results.
        Ok(unsafe { (values.assume_init(), indices.assume_init()) })
    }

    fn topk(input: RawHandle, k: i64, dim: i64, largest: i32) -> Result<Vec<(f32, i64)>, String> {
        // SAFETY: handles, and places for the results.
        let (values, indices) =
            both(|v, i| unsafe { aoti_torch_mps_topk(input, k, dim, largest, 1, v, i) })?;
        let count = tensor(values).unwrap().numel();
        Ok(read::<f32>(values, count).into_iter().zip(read::<i64>(indices, count)).collect())
    }

    #[test]
    fn the_greatest_and_the_least() {
        let (_model, guard) = model();
        let input = matrix(&[3.0, 1.0, 2.0, 0.0, f32::NAN, 0.5]);
        let rows = topk(input, 2, -1, 1).unwrap();
        assert_eq!(rows[..2], [(3.0, 0), (2.0, 2)]);
        assert!(rows[2].0.is_nan() && rows[2].1 == 1);
        assert_eq!(rows[3], (0.5, 2));
        assert_eq!(topk(input, 1, 0, 0).unwrap(), [(0.0, 1), (1.0, 0), (0.5, 1)]);
        assert_eq!(topk(input, 0, 1, 0).unwrap(), []);
        assert!(guard.take_error().is_none());
    }

    #[test]
    fn sorts_keep_the_order_of_strides() {
        let (model, _guard) = model();
        let input = empty(&[2, 3], &[1, 2], DType::F32.code(), DEVICE_MPS);
        write(input, &[3f32, 4.0, 1.0, 4.0, 2.0, 0.0]);
        // SAFETY: handles, and places for the results.
        let plain = both(|v, i| unsafe { aoti_torch_mps_sort(input, 1, 1, v, i) }).unwrap();
        let stable = both(|v, i| unsafe {
            // SAFETY: as above; `stable` is null or points to a number.
            aoti_torch_mps_sort_stable(input, In::of(&[1]), -1, 1, v, i)
        })
        .unwrap();
        // SAFETY: as above.
        let unasked =
            both(|v, i| unsafe { aoti_torch_mps_sort_stable(input, In::NULL, -1, 1, v, i) });
        for (values, indices) in [plain, stable, unasked.unwrap()] {
            assert_eq!(tensor(values).unwrap().strides(), [1, 2]);
            assert_eq!(tensor(indices).unwrap().strides(), [1, 2]);
            assert_eq!(read::<f32>(values, 6), [3.0, 4.0, 2.0, 4.0, 1.0, 0.0]);
            assert_eq!(read::<i64>(indices, 6), [0, 0, 2, 1, 1, 2]);
        }
        assert_eq!(model.release(), 7);
    }

    #[test]
    fn refusals_lend_nothing() {
        let (model, guard) = model();
        let input = matrix(&[0.0; 6]);
        let text = topk(input, 4, 1, 1).unwrap_err();
        assert!(text.starts_with("aoti_torch_mps_topk: topk: k is 4"), "{text}");
        let text = topk(input, 1, 2, 1).unwrap_err();
        assert!(text.contains("dimension 2 is out of range"), "{text}");
        assert!(guard.take_error().unwrap().to_string().contains("k is 4"), "the first one");
        let mut place = MaybeUninit::uninit();
        // SAFETY: handles, a place for a result, and null.
        let status = unsafe { aoti_torch_mps_sort(input, 0, 0, Out::of(&mut place), Out::NULL) };
        assert!(outcome(status).unwrap_err().contains("ret1"));
        assert_eq!(model.release(), 1);
    }
}
