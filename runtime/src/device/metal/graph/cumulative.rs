//! Cumulative sums and products.
//!
//! Half types accumulate in float32, as everywhere; integers of 8 and 16 bits in 32, of which the
//! lower bits are the wrapped result.

use objc2_metal_performance_shaders::MPSDataType;

use super::binding::data_type;
use super::builder::{Builder, Tensor};
use crate::Result;
use crate::error::err;
use crate::graph::{GraphOp, Scan};
use crate::tensor::DType;

/// Builds the graph.
///
/// # Errors
/// The dtype has no cumulative operators, as in PyTorch.
pub fn build(builder: &mut Builder<'_>) -> Result<()> {
    let GraphOp::Cumulative { scan, dim } = builder.key.op else {
        unreachable!("chosen by the op")
    };
    let dtype = builder.key.operands[0].dtype;
    let wide = match dtype {
        DType::F32 | DType::F16 | DType::Bf16 => MPSDataType::Float32,
        DType::I64 => MPSDataType::Int64,
        DType::U8 | DType::I8 | DType::I16 | DType::I32 => MPSDataType::Int32,
        DType::Bool | DType::U16 | DType::U32 | DType::U64 => {
            return Err(err!(Unsupported, "it is not defined for {dtype}"));
        }
    };
    let input = builder.input(1);
    let input = builder.cast(&input, wide);
    let axis = dim as isize;
    // SAFETY: a tensor of this graph; what does not fit throws, which is caught.
    let scanned = unsafe {
        let graph = builder.graph();
        match scan {
            Scan::Sum => graph.cumulativeSumWithTensor_axis_name(&input, axis, None),
            Scan::Product => graph.cumulativeProductWithTensor_axis_name(&input, axis, None),
        }
    };
    let out = builder.cast(&wrapped(builder, scanned, dtype), data_type(dtype));
    builder.output(0, out);
    Ok(())
}

/// Numbers of 32 bits as a smaller type wraps them, so that converting them changes nothing.
fn wrapped(builder: &Builder<'_>, numbers: Tensor, dtype: DType) -> Tensor {
    let number = |value: f64| builder.constant(value, MPSDataType::Int32);
    let (mask, sign) = match dtype {
        DType::U8 => return builder.and(&numbers, &number(255.0)),
        DType::I8 => (255.0, 128.0),
        DType::I16 => (65535.0, 32768.0),
        _ => return numbers,
    };
    let lower = builder.and(&numbers, &number(mask));
    let flipped = builder.xor(&lower, &number(sign));
    builder.add(&flipped, &number(-sign))
}
