//! Matrix products that MPSGraph does not have: of integers, which wrap, and of no terms at all.
//! One thread computes one element; any strides.

use bytemuck::NoUninit;
use smallvec::{SmallVec, smallvec};

use super::{Call, buffer, by_value, msl_type};
use crate::Result;
use crate::device::{Grid, Operand};
use crate::error::err;
use crate::graph::GraphOp;
use crate::tensor::DType;

/// The kernel's name.
pub const KERNEL: &str = "product";

/// Sides of a threadgroup.
const GROUP: [u32; 2] = [16, 16];

/// How a matrix, or a batch of them, lies in memory; strides in elements.
#[derive(Debug, Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct Matrices {
    batch: u64,
    row: u64,
    column: u64,
}

/// The parameters of a call.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
struct Product {
    out: Matrices,
    input: Matrices,
    a: Matrices,
    b: Matrices,
    terms: u64,
    /// Of integers: bits of the factors, sign-extended. Of floats: bits of a float32.
    alpha: u64,
    beta: u64,
    has_input: u64,
}

/// The source of the kernel for a dtype.
pub fn source(dtype: DType) -> String {
    let element = msl_type(dtype);
    // Unsigned arithmetic of 64 bits wraps, and so do its lower bits.
    let (wide, factor) =
        if dtype.is_float() { ("float", "as_type<float>(uint(bits))") } else { ("ulong", "bits") };
    format!(
        r"#include <metal_stdlib>
using namespace metal;

struct Matrices {{ ulong batch; ulong row; ulong column; }};
struct Product {{
    Matrices out; Matrices input; Matrices a; Matrices b;
    ulong terms; ulong alpha; ulong beta; ulong has_input;
}};

static inline {wide} factor(ulong bits) {{ return {factor}; }}
static inline ulong at(constant Matrices& m, uint3 i) {{
    return i.z * m.batch + i.y * m.row + i.x * m.column;
}}

kernel void {KERNEL}(device {element}* out [[buffer(0)]],
                     const device {element}* a [[buffer(1)]],
                     const device {element}* b [[buffer(2)]],
                     const device {element}* input [[buffer(3)]],
                     constant Product& p [[buffer(4)]],
                     uint3 i [[thread_position_in_grid]]) {{
    ulong left = at(p.a, uint3(0, i.y, i.z));
    ulong right = at(p.b, uint3(i.x, 0, i.z));
    {wide} sum = 0;
    for (ulong k = 0; k < p.terms; ++k) {{
        sum += {wide}(a[left + k * p.a.column]) * {wide}(b[right + k * p.b.row]);
    }}
    sum *= factor(p.alpha);
    if (p.has_input) sum += factor(p.beta) * {wide}(input[at(p.input, i)]);
    out[at(p.out, i)] = {element}(sum);
}}
"
    )
}

/// The call that computes a product with the operands of its op; `None` if the result has no
/// elements.
///
/// # Errors
/// A size has no 32 bit number.
pub fn call(op: &GraphOp, operands: &[Operand]) -> Result<Option<Call>> {
    let (beta, alpha) = match *op {
        GraphOp::Addmm { beta, alpha } => (f64::from_bits(beta), f64::from_bits(alpha)),
        _ => (0.0, 1.0),
    };
    let (out, [.., a, b]) = operands.split_first().expect("checked against the key") else {
        unreachable!("checked against the key")
    };
    // A beta of 0 ignores the input, NaN or not.
    let input = matches!(op, GraphOp::Addmm { .. }).then(|| &operands[1]).filter(|_| beta != 0.0);
    let size = |size: i64| {
        u32::try_from(size).map_err(|_| err!(Unsupported, "{op}: {size} rows or columns"))
    };
    let (lead, [rows, columns]) = out.sizes.split_last_chunk().expect("two dimensions");
    let threads = [size(*columns)?, size(*rows)?, size(lead.first().copied().unwrap_or(1))?];
    if threads.contains(&0) {
        return Ok(None);
    }
    let bits = |factor: f64| match out.dtype {
        dtype if dtype.is_float() => u64::from((factor as f32).to_bits()),
        _ => factor as i64 as u64,
    };
    let product = Product {
        out: Matrices::of(out),
        input: input.map(Matrices::of).unwrap_or_default(),
        a: Matrices::of(a),
        b: Matrices::of(b),
        terms: a.sizes[a.sizes.len() - 1] as u64,
        alpha: bits(alpha),
        beta: bits(beta),
        has_input: u64::from(input.is_some()),
    };
    let group = [GROUP[0].min(threads[0]), GROUP[1].min(threads[1]), 1];
    let arguments: SmallVec<_> = smallvec![
        buffer(out),
        buffer(a),
        buffer(b),
        buffer(input.unwrap_or(out)),
        by_value(&product)
    ];
    Ok(Some(Call { arguments, grid: Grid::Threads { threads, group } }))
}

impl Matrices {
    fn of(operand: &Operand) -> Matrices {
        let (lead, [row, column]) = operand.strides.split_last_chunk().expect("two dimensions");
        Matrices {
            batch: lead.first().map_or(0, |&stride| stride as u64),
            row: *row as u64,
            column: *column as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bytes, run, run_native};
    use super::*;
    use crate::ops::testing::{ARITHMETIC, contiguous, tensor, values};
    use crate::tensor::Tensor;

    fn numbers(count: i64, seed: i64) -> Vec<f64> {
        (0..count).map(|i| ((i * 37 + seed * 11) % 101) as f64).collect()
    }

    /// The op by the kernel and by the host, on results that begin equal.
    fn check(op: &GraphOp, dtype: DType, outs: &[Tensor; 2], operands: &[&Tensor]) {
        let all = |out| std::iter::once(out).chain(operands.iter().copied()).collect::<Vec<_>>();
        let ours: Vec<Operand> = all(&outs[0]).iter().map(|tensor| tensor.operand()).collect();
        run(&source(dtype), &call(op, &ours).unwrap().unwrap());
        run_native(op.clone(), &all(&outs[1]));
        assert_eq!(values(&outs[0]), values(&outs[1]), "{op} of {dtype}");
        assert_eq!(bytes(&outs[0]), bytes(&outs[1]), "{op} of {dtype}, between elements");
    }

    #[test]
    fn integers_wrap_as_on_the_host() {
        for dtype in ARITHMETIC.into_iter().filter(|dtype| !dtype.is_float()) {
            let (m, k, n) = (5, 19, 7);
            let a = tensor(dtype, &[m, k], &[1, m + 1], 1, &numbers(m * k, 1));
            let b = tensor(dtype, &[k, n], &[2 * n, 2], 0, &numbers(k * n, 2));
            let input = tensor(dtype, &[m, n], &[0, 1], 2, &numbers(m * n, 3));
            let outs = || [(); 2].map(|()| tensor(dtype, &[m, n], &[1, m + 2], 3, &[]));
            check(&GraphOp::Mm, dtype, &outs(), &[&a, &b]);
            let scales = |beta: f64, alpha: f64| GraphOp::Addmm {
                beta: beta.to_bits(),
                alpha: alpha.to_bits(),
            };
            check(&scales(3.0, -2.0), dtype, &outs(), &[&input, &a, &b]);
            check(&scales(0.0, 1.0), dtype, &outs(), &[&input, &a, &b]);
        }
    }

    #[test]
    fn batches_are_apart() {
        let (batch, m, k, n) = (3, 2, 4, 33);
        let a = contiguous(DType::I64, &[batch, m, k], &numbers(batch * m * k, 4));
        let b = contiguous(DType::I64, &[batch, k, n], &numbers(batch * k * n, 5));
        let outs = [(); 2].map(|()| tensor(DType::I64, &[batch, m, n], &[m * n, n, 1], 0, &[]));
        check(&GraphOp::Bmm, DType::I64, &outs, &[&a, &b]);
    }

    #[test]
    fn a_product_of_no_terms_is_its_input_scaled() {
        for dtype in ARITHMETIC {
            let a = contiguous(dtype, &[3, 0], &[]);
            let b = contiguous(dtype, &[0, 2], &[]);
            let input = contiguous(dtype, &[3, 2], &numbers(6, 6));
            let outs = || [(); 2].map(|()| tensor(dtype, &[3, 2], &[2, 1], 0, &[]));
            check(&GraphOp::Mm, dtype, &outs(), &[&a, &b]);
            let op = GraphOp::Addmm { beta: 2f64.to_bits(), alpha: 1f64.to_bits() };
            check(&op, dtype, &outs(), &[&input, &a, &b]);
        }
    }
}
