//! Operators that a model calls by name: matrix products.

use crate::ops;
use crate::shim::abi::c_functions;
use crate::shim::registry::tensor;
use crate::stream::Stream;
use crate::tensor::RawHandle;

c_functions! {
    /// `out = a @ b` for matrices.
    fn aoti_torch_mps_mm_out(out: RawHandle, a: RawHandle, b: RawHandle) {
        ops::mm(&Stream::current()?, &*tensor(out)?, &*tensor(a)?, &*tensor(b)?)
    }

    /// `out[i] = a[i] @ b[i]` for batches of matrices.
    fn aoti_torch_mps_bmm_out(out: RawHandle, a: RawHandle, b: RawHandle) {
        ops::bmm(&Stream::current()?, &*tensor(out)?, &*tensor(a)?, &*tensor(b)?)
    }

    /// `out = beta · input + alpha · a @ b`.
    fn aoti_torch_mps_addmm_out(
        out: RawHandle,
        input: RawHandle,
        a: RawHandle,
        b: RawHandle,
        beta: f64,
        alpha: f64,
    ) {
        let (out, input, a, b) = (tensor(out)?, tensor(input)?, tensor(a)?, tensor(b)?);
        ops::addmm(&Stream::current()?, &out, &input, &a, &b, beta, alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::testing::{call, empty, model, read, write};
    use crate::tensor::DType;

    const F32: i32 = DType::F32.code();

    fn matrix(sizes: &[i64], strides: &[i64], values: &[f32]) -> RawHandle {
        let handle = empty(sizes, strides, F32, DEVICE_MPS);
        write(handle, values);
        handle
    }

    #[test]
    fn products_by_handle() {
        let (model, guard) = model();
        let a = matrix(&[2, 2], &[2, 1], &[1.0, 2.0, 3.0, 4.0]);
        let b = matrix(&[2, 2], &[1, 2], &[1.0, 0.0, 1.0, 1.0]);
        let out = empty(&[2, 2], &[2, 1], F32, DEVICE_MPS);
        call!(aoti_torch_mps_mm_out, out, a, b).unwrap();
        assert_eq!(read::<f32>(out, 4), [1.0, 3.0, 3.0, 7.0]);
        let bias = matrix(&[2], &[1], &[10.0, 20.0]);
        call!(aoti_torch_mps_addmm_out, out, bias, a, b, 1.0, 2.0).unwrap();
        assert_eq!(read::<f32>(out, 4), [12.0, 26.0, 16.0, 34.0]);
        let (a3, out3) = (
            matrix(&[1, 1, 2], &[2, 2, 1], &[1.0, 2.0]),
            empty(&[1, 1, 1], &[1; 3], F32, DEVICE_MPS),
        );
        let b3 = matrix(&[1, 2, 1], &[2, 1, 1], &[3.0, 4.0]);
        call!(aoti_torch_mps_bmm_out, out3, a3, b3).unwrap();
        assert_eq!(read::<f32>(out3, 1), [11.0]);
        let text = call!(aoti_torch_mps_mm_out, out, a, bias).unwrap_err();
        assert!(text.starts_with("aoti_torch_mps_mm_out: mm:"), "{text}");
        assert!(guard.take_error().is_some());
        assert_eq!(model.release(), 7);
    }
}
