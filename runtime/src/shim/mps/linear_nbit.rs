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
