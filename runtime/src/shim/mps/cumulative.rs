//! Operators that a model calls by name: `cumsum` and `cumprod`.

use crate::Result;
use crate::ops;
use crate::shim::abi::{In, Out, c_functions};
use crate::shim::context::lend;
use crate::shim::registry::tensor;
use crate::stream::Stream;
use crate::tensor::{DType, RawHandle};

c_functions! {
    /// The sums of all elements along a dimension up to each one; `dtype` may be null.
    fn aoti_torch_mps_cumsum(
        input: RawHandle,
        dim: i64,
        dtype: In<i32>,
        ret0: Out<RawHandle>,
    ) {
        ret0.check("ret0")?;
        let sums = ops::cumsum(&Stream::current()?, &*tensor(input)?, dim, known(dtype)?)?;
        ret0.set("ret0", lend(sums))
    }

    /// The products; `dtype` may be null.
    fn aoti_torch_mps_cumprod(
        input: RawHandle,
        dim: i64,
        dtype: In<i32>,
        ret0: Out<RawHandle>,
    ) {
        ret0.check("ret0")?;
        let products = ops::cumprod(&Stream::current()?, &*tensor(input)?, dim, known(dtype)?)?;
        ret0.set("ret0", lend(products))
    }
}

/// The dtype that is asked for, if one is.
fn known(dtype: In<i32>) -> Result<Option<DType>> {
    dtype.optional().map(DType::from_code).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::testing::{empty, get, model, read, write};

    #[test]
    fn sums_and_products_by_handle() {
        let (model, guard) = model();
        let input = empty(&[2, 3], &[3, 1], DType::I32.code(), DEVICE_MPS);
        write(input, &[1i32, 2, 3, 4, 5, 6]);
        let sums = get!(aoti_torch_mps_cumsum, input, -1, In::NULL).unwrap();
        assert_eq!(tensor(sums).unwrap().dtype(), DType::I64, "as PyTorch has it");
        assert_eq!(read::<i64>(sums, 6), [1, 3, 6, 4, 9, 15]);
        let float = [DType::F32.code()];
        let products = get!(aoti_torch_mps_cumprod, input, 0, In::of(&float)).unwrap();
        assert_eq!(read::<f32>(products, 6), [1.0, 2.0, 3.0, 4.0, 10.0, 18.0]);
        assert!(guard.take_error().is_none());
        assert_eq!(model.release(), 3);
    }

    #[test]
    fn refusals_lend_nothing() {
        let (model, guard) = model();
        let input = empty(&[2], &[1], DType::F32.code(), DEVICE_MPS);
        write(input, &[1f32, 2.0]);
        let text = get!(aoti_torch_mps_cumsum, input, 1, In::NULL).unwrap_err();
        assert!(text.starts_with("aoti_torch_mps_cumsum: cumsum: dimension 1"), "{text}");
        let double = [7];
        let text = get!(aoti_torch_mps_cumprod, input, 0, In::of(&double)).unwrap_err();
        assert!(text.contains("float64"), "{text}");
        assert!(guard.take_error().is_some());
        assert_eq!(model.release(), 1);
    }
}
