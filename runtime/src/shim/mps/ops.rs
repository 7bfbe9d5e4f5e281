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
