//! Matrix products.

use super::builder::Builder;
use crate::Result;
use crate::error::err;
use crate::graph::{GraphKey, GraphOp};
use crate::tensor::DType;

use objc2_metal_performance_shaders::MPSDataType;

/// Whether the dtype has products.
///
/// # Errors
/// It has none.
pub fn check(key: &GraphKey) -> Result<()> {
    match key.operands[0].dtype {
        dtype @ (DType::Bool | DType::U16 | DType::U32 | DType::U64) => {
            Err(err!(Unsupported, "it is not defined for {dtype}"))
        }
        _ => Ok(()),
    }
}

/// Whether it is a product that MPSGraph does not have: of integers, or of no terms.
pub fn wants_kernel(key: &GraphKey) -> bool {
    let terms = key.operands[key.operands.len() - 2].sizes.last();
    !key.operands[0].dtype.is_float() || terms == Some(&0)
}

/// Builds the graph of a floating point product.
///
/// # Errors
/// None; the signature is that of all lowerings.
pub fn build(builder: &mut Builder<'_>) -> Result<()> {
    let last = builder.key.operands.len() - 1;
    let (a, b) = (builder.input(last - 1), builder.input(last));
    let product = builder.matmul(&a, &b);
    let GraphOp::Addmm { beta, alpha } = builder.key.op else {
        builder.output(0, product);
        return Ok(());
    };
    let (beta, alpha) = (f64::from_bits(beta), f64::from_bits(alpha));
    // Sums of half types are rounded after the factors, not between.
    let wide = MPSDataType::Float32;
    let mut sum = builder.cast(&product, wide);
    if alpha != 1.0 {
        sum = builder.multiply(&sum, &builder.constant(alpha, wide));
    }
    // A beta of 0 ignores the input, NaN or not.
    if beta != 0.0 {
        let input = builder.input(1);
        let mut input = builder.cast(&input, wide);
        if beta != 1.0 {
            input = builder.multiply(&input, &builder.constant(beta, wide));
        }
        sum = builder.add(&sum, &input);
    }
    let narrow = super::binding::data_type(builder.key.operands[0].dtype);
    let out = builder.cast(&sum, narrow);
    builder.output(0, out);
    Ok(())
}
