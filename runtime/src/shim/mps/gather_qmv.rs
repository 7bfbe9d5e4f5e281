//! ExecuTorch's `metal::gather_qmv`, which the generated code declares itself.

use crate::ops::{self, GatherQmv};
use crate::shim::abi::{Out, c_functions};
use crate::shim::context::lend;
use crate::shim::registry::tensor;
use crate::stream::Stream;
use crate::tensor::RawHandle;

c_functions! {
    /// Rows times the quantised weights of an expert each: see [`ops::gather_qmv`].
    fn aoti_torch_mps_gather_qmv(
        x: RawHandle,
        w: RawHandle,
        s: RawHandle,
        z: RawHandle,
        expert_indices: RawHandle,
        group_size: i64,
        ret: Out<RawHandle>,
    ) {
        ret.check("ret")?;
        let (x, w, s, z) = (tensor(x)?, tensor(w)?, tensor(s)?, tensor(z)?);
        let experts = tensor(expert_indices)?;
        let gather = GatherQmv { x: &x, w: &w, s: &s, z: &z, experts: &experts, group_size };
        ret.set("ret", lend(ops::gather_qmv(&Stream::current()?, gather)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::testing::{empty, get, model, read, write};
    use crate::tensor::DType;

    const F32: i32 = DType::F32.code();

    fn filled<T: Copy>(dtype: i32, sizes: &[i64], strides: &[i64], numbers: &[T]) -> RawHandle {
        let handle = empty(sizes, strides, dtype, DEVICE_MPS);
        write(handle, numbers);
        handle
    }

    #[test]
    fn each_row_meets_its_expert() {
        let (_model, guard) = model();
        let x = filled(F32, &[3, 2], &[2, 1], &[1f32, 10.0, 2.0, 20.0, 3.0, 30.0]);
        // One row of weights each: (1, 2) and (3, 4).
        let w = filled(DType::U8.code(), &[2, 1, 1], &[1, 1, 1], &[0x21u8, 0x43]);
        let s = filled(F32, &[2, 1, 1], &[1, 1, 1], &[1f32, 2.0]);
        let z = filled(F32, &[2, 1, 1], &[1, 1, 1], &[0f32, 1.0]);
        let experts = filled(DType::I32.code(), &[3], &[1], &[1i32, 0, 1]);
        let out = get!(aoti_torch_mps_gather_qmv, x, w, s, z, experts, 32).unwrap();
        assert_eq!(read::<f32>(out, 3), [97.0, 42.0, 291.0]);
        let text = get!(aoti_torch_mps_gather_qmv, x, w, s, z, x, 32).unwrap_err();
        assert!(text.starts_with("aoti_torch_mps_gather_qmv: gather_qmv:"), "{text}");
        assert!(text.contains("expert_indices must have 1 dimensions"), "{text}");
        let text = get!(aoti_torch_mps_gather_qmv, x, w, s, z, experts, 1).unwrap_err();
        assert!(text.contains("scales must have sizes [2, 1, 2]"), "{text}");
        assert!(guard.take_error().is_some());
    }
}
