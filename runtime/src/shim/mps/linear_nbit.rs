//! torchao's `_linear_fp_act_{1…7}bit_weight`, which the generated code declares itself.

use crate::Result;
use crate::ops::{self, LinearNbit};
use crate::shim::abi::{Out, c_functions};
use crate::shim::context::lend;
use crate::shim::registry::tensor;
use crate::stream::Stream;
use crate::tensor::RawHandle;

/// The functions for weights of each width.
macro_rules! linear_functions {
    ($($bits:literal $name:ident;)*) => {
        c_functions! {
            $(
                /// A linear layer with quantised weights: see [`ops::linear_nbit`].
                fn $name(
                    a: RawHandle,
                    b: RawHandle,
                    group_size: i64,
                    s: RawHandle,
                    z: RawHandle,
                    ret: Out<RawHandle>,
                ) {
                    linear($bits, a, b, group_size, s, z, ret)
                }
            )*
        }
    };
}

linear_functions! {
    1 aoti_torch_mps__linear_fp_act_1bit_weight;
    2 aoti_torch_mps__linear_fp_act_2bit_weight;
    3 aoti_torch_mps__linear_fp_act_3bit_weight;
    4 aoti_torch_mps__linear_fp_act_4bit_weight;
    5 aoti_torch_mps__linear_fp_act_5bit_weight;
    6 aoti_torch_mps__linear_fp_act_6bit_weight;
    7 aoti_torch_mps__linear_fp_act_7bit_weight;
}

fn linear(
    bits: u8,
    a: RawHandle,
    b: RawHandle,
    group_size: i64,
    s: RawHandle,
    z: RawHandle,
    ret: Out<RawHandle>,
) -> Result<()> {
    ret.check("ret")?;
    let (a, b, s, z) = (tensor(a)?, tensor(b)?, tensor(s)?, tensor(z)?);
    let linear = LinearNbit { a: &a, b: &b, s: &s, z: &z, bits, group_size };
    ret.set("ret", lend(ops::linear_nbit(&Stream::current()?, linear)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::testing::{empty, get, model, read, write};
    use crate::tensor::DType;

    const F32: i32 = DType::F32.code();

    fn matrix<T: Copy>(dtype: i32, sizes: [i64; 2], numbers: &[T]) -> RawHandle {
        let handle = empty(&sizes, &[sizes[1], 1], dtype, DEVICE_MPS);
        write(handle, numbers);
        handle
    }

    /// Calls the function of one width with weights `n % 2^bits` for n = 0, 1, … of two rows.
    macro_rules! check {
        ($($bits:literal $name:ident)*) => {$({
            let weights: Vec<u8> = (0..16).map(|n| n % (1 << $bits)).collect();
            let mut bytes = vec![0u8; 2 * $bits];
            for (i, weight) in weights.iter().enumerate() {
                for bit in 0..$bits {
                    let at = i * $bits + bit;
                    bytes[at / 8] |= (weight >> bit & 1) << (at % 8);
                }
            }
            let a = matrix(F32, [1, 8], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
            let b = matrix(DType::U8.code(), [2, $bits], &bytes);
            let s = matrix(F32, [2, 1], &[1f32, 2.0]);
            let z = matrix(F32, [2, 1], &[0.5f32, -1.0]);
            let out = get!($name, a, b, 32, s, z).unwrap();
            let row = |row: usize, scale: f32, zero: f32| -> f32 {
                let weights = weights[row * 8..].iter().map(|&w| f32::from(w) * scale + zero);
                weights.zip(1u8..=8).map(|(w, a)| w * f32::from(a)).sum()
            };
            assert_eq!(read::<f32>(out, 2), [row(0, 1.0, 0.5), row(1, 2.0, -1.0)], "{}", $bits);
            let text = get!($name, a, b, 4, s, z).unwrap_err();
            assert!(text.starts_with(concat!(stringify!($name), ": _linear_fp_act_")), "{text}");
            assert!(text.contains("S must have sizes [2, 2]"), "{text}");
        })*};
    }

    #[test]
    fn every_width_by_handle() {
        let (_model, _guard) = model();
        check!(
            1 aoti_torch_mps__linear_fp_act_1bit_weight
            2 aoti_torch_mps__linear_fp_act_2bit_weight
            3 aoti_torch_mps__linear_fp_act_3bit_weight
            4 aoti_torch_mps__linear_fp_act_4bit_weight
            5 aoti_torch_mps__linear_fp_act_5bit_weight
            6 aoti_torch_mps__linear_fp_act_6bit_weight
            7 aoti_torch_mps__linear_fp_act_7bit_weight
        );
    }

    #[test]
    fn dtypes_and_shapes_are_checked() {
        let (_model, guard) = model();
        let a = matrix(F32, [1, 8], &[0f32; 8]);
        let b = matrix(DType::U8.code(), [2, 4], &[0u8; 8]);
        let s = matrix(F32, [2, 1], &[0f32; 2]);
        let call =
            |a, b, s| get!(aoti_torch_mps__linear_fp_act_4bit_weight, a, b, 32, s, s).unwrap_err();
        assert!(call(b, b, s).contains("A must be float32, float16 or bfloat16, it is uint8"));
        assert!(call(a, a, s).contains("B must be uint8 bytes of packed weights, it is float32"));
        assert!(call(a, b, b).contains("S must have sizes [2, 1]"));
        let odd = matrix(DType::U8.code(), [2, 3], &[0u8; 6]);
        assert!(call(a, odd, s).contains("4 bytes, in each row of B, whose rows have 3 bytes"));
        assert!(guard.take_error().is_some());
    }
}
