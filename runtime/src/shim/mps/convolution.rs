//! `aoti_torch_mps_convolution`.

use std::sync::Arc;

use crate::Result;
use crate::ops::{self, Convolution};
use crate::shim::abi::{In, Out, c_functions};
use crate::shim::context::lend;
use crate::shim::registry::{maybe_tensor, tensor};
use crate::stream::Stream;
use crate::tensor::{RawHandle, Tensor};

/// The tensor of an optional parameter, which C leaves out by a null pointer, a null handle, or
/// the handle of an undefined tensor.
fn optional(handle: In<RawHandle>) -> Result<Option<Arc<Tensor>>> {
    match handle.optional() {
        Some(handle) if !handle.is_null() => maybe_tensor(handle),
        _ => Ok(None),
    }
}

c_functions! {
    /// A convolution or transposed convolution, into a new tensor.
    fn aoti_torch_mps_convolution(
        input: RawHandle,
        weight: RawHandle,
        bias: In<RawHandle>,
        stride: In<i64>,
        stride_len: i64,
        padding: In<i64>,
        padding_len: i64,
        dilation: In<i64>,
        dilation_len: i64,
        transposed: i32,
        output_padding: In<i64>,
        output_padding_len: i64,
        groups: i64,
        ret0: Out<RawHandle>,
    ) {
        ret0.check("ret0")?;
        let (input, weight, bias) = (tensor(input)?, tensor(weight)?, optional(bias)?);
        let parameters = Convolution {
            stride: stride.slice("stride", stride_len)?,
            padding: padding.slice("padding", padding_len)?,
            dilation: dilation.slice("dilation", dilation_len)?,
            output_padding: output_padding.slice("output_padding", output_padding_len)?,
            transposed: transposed != 0,
            groups,
        };
        let stream = Stream::current()?;
        let out = ops::convolution(&stream, &input, &weight, bias.as_deref(), parameters)?;
        ret0.set("ret0", lend(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::attributes::aoti_torch_get_strides;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::create::aoti_torch_new_uninitialized_tensor;
    use crate::shim::testing::{empty, get, model, read, write};
    use crate::tensor::DType;

    const F32: i32 = DType::F32.code();

    fn new(sizes: &[i64], strides: &[i64], values: &[f32]) -> RawHandle {
        let handle = empty(sizes, strides, F32, DEVICE_MPS);
        write(handle, values);
        handle
    }

    /// A convolution with these operands, a stride of 1 and a padding of 1 in two dimensions.
    fn convolve(
        input: RawHandle,
        weight: RawHandle,
        bias: In<RawHandle>,
        groups: i64,
    ) -> Result<RawHandle, String> {
        let (one, zero) = (In::of(&[1, 1]), In::of(&[0, 0]));
        get!(
            aoti_torch_mps_convolution,
            input,
            weight,
            bias,
            one,
            2,
            one,
            2,
            one,
            2,
            0,
            zero,
            2,
            groups
        )
    }

    #[test]
    fn convolutions_by_handle() {
        let (model, guard) = model();
        let input = new(&[1, 1, 2, 2], &[4, 4, 2, 1], &[1.0, 2.0, 3.0, 4.0]);
        let weight = new(&[1, 1, 3, 3], &[9, 9, 3, 1], &[0., 0., 0., 0., 1., 10., 0., 0., 0.]);
        let null: RawHandle = get!(aoti_torch_new_uninitialized_tensor).unwrap();
        let none = RawHandle::NULL;
        for bias in [In::NULL, In::of(&[none]), In::of(&[null])] {
            let out = convolve(input, weight, bias, 1).unwrap();
            assert_eq!(read::<f32>(out, 4), [21.0, 2.0, 43.0, 4.0]);
        }
        let bias = [new(&[1], &[1], &[0.5])];
        let out = convolve(input, weight, In::of(&bias), 1).unwrap();
        assert_eq!(read::<f32>(out, 4), [21.5, 2.5, 43.5, 4.5]);
        assert!(guard.take_error().is_none());
        assert_eq!(model.release(), 8);
    }

    #[test]
    fn channels_last_results_and_no_results() {
        let (_model, guard) = model();
        let input = new(&[1, 2, 1, 2], &[4, 1, 4, 2], &[1.0, 2.0, 3.0, 4.0]);
        let weight = new(&[2, 1, 1, 1], &[1, 1, 1, 1], &[10.0, 100.0]);
        let out = convolve(input, weight, In::NULL, 2).unwrap();
        let strides = get!(aoti_torch_get_strides, out).unwrap();
        // SAFETY: the strides of a tensor of four dimensions.
        let strides = unsafe { std::slice::from_raw_parts(strides, 4) };
        assert_eq!(strides, [24, 1, 8, 2]);
        let mut expected = [0.0; 24];
        expected[10..14].copy_from_slice(&[10.0, 200.0, 30.0, 400.0]);
        assert_eq!(read::<f32>(out, 24), expected);
        let none = empty(&[0, 2, 1, 2], &[4, 1, 4, 2], F32, DEVICE_MPS);
        convolve(none, weight, In::NULL, 2).unwrap();
        assert!(guard.take_error().is_none());
    }

    #[test]
    fn what_is_wrong_is_told() {
        let (_model, guard) = model();
        let input = new(&[1, 2, 1, 2], &[4, 2, 2, 1], &[0.0; 4]);
        let weight = new(&[2, 1, 1, 1], &[1, 1, 1, 1], &[0.0; 2]);
        let text = convolve(input, weight, In::NULL, 1).unwrap_err();
        assert!(text.starts_with("aoti_torch_mps_convolution: convolution:"), "{text}");
        assert!(text.contains("[1, 2, 1, 2]") && text.contains("[2, 1, 1, 1]"), "{text}");
        assert!(guard.take_error().is_some());
        let text = convolve(RawHandle::NULL, weight, In::NULL, 1).unwrap_err();
        assert!(text.contains("null"), "{text}");
        let zero = In::of(&[0, 0]);
        let null = In::NULL;
        let text = get!(
            aoti_torch_mps_convolution,
            input,
            weight,
            In::NULL,
            null,
            2,
            zero,
            2,
            zero,
            2,
            0,
            zero,
            2,
            2
        );
        assert!(text.unwrap_err().contains("stride is null"));
    }
}
