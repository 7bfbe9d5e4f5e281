//! Matrices of weights of a few bits.
//!
//! The format is that of torchao's experimental MPS kernels
//! (`torchao/experimental/kernels/mps/src/packing.h`): the weights of a row lie one after the
//! other from the lowest bit of the first byte on, so the first of two 4 bit weights is the low
//! nibble, and eight weights fill as many bytes as they have bits. Each group of weights along a
//! row has a scale and a zero, and a weight stands for `packed · scale + zero`.

use smallvec::SmallVec;

use super::copy::copy;
use super::matmul::check_dim;
use crate::Result;
use crate::error::err;
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// The names of an operator's operands, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// The operator.
    pub op: &'static str,
    /// Activations, weights, scales, zeros.
    pub operands: [&'static str; 4],
}

/// Activations and quantised weights that fit each other, contiguous.
#[derive(Debug)]
pub struct Quantized {
    /// `[M, K]`.
    pub activations: Tensor,
    /// `[…, N, K · bits / 8]` bytes.
    pub weights: Tensor,
    /// `[…, N, ⌈K / group_size⌉]`.
    pub scales: Tensor,
    /// As `scales`.
    pub zeros: Tensor,
}

impl Quantized {
    /// Checks that the operands fit, and packs those that are not contiguous. The weights have
    /// `dim` dimensions.
    ///
    /// # Errors
    /// They do not fit; a dtype is not supported.
    pub fn new(
        stream: &Stream,
        names: Names,
        [activations, weights, scales, zeros]: [&Tensor; 4],
        dim: usize,
        bits: u8,
        group_size: i64,
    ) -> Result<Quantized> {
        let Names { op, operands } = names;
        check_dim(op, operands[0], activations, 2)?;
        check_dim(op, operands[1], weights, dim)?;
        check_float(op, operands[0], activations)?;
        if weights.dtype() != DType::U8 {
            let dtype = weights.dtype();
            let name = operands[1];
            return Err(err!(
                InvalidArgument,
                "{op}: {name} must be uint8 bytes of packed weights, it is {dtype}"
            ));
        }
        if group_size < 1 {
            return Err(err!(
                InvalidArgument,
                "{op}: the group size must be positive, it is {group_size}"
            ));
        }
        check_bytes(names, activations, weights, bits)?;
        let groups = activations.sizes()[1].div_ceil(group_size);
        let mut sizes = SmallVec::<[i64; 6]>::from_slice(&weights.sizes()[..dim - 1]);
        sizes.push(groups);
        for (name, tensor) in [(operands[2], scales), (operands[3], zeros)] {
            if tensor.sizes() != sizes.as_slice() {
                return Err(err!(
                    InvalidArgument,
                    "{op}: {name} must have sizes {sizes:?} ({groups} groups of {group_size} \
                     weights in each row), it has {:?}",
                    tensor.sizes()
                ));
            }
            if tensor.dtype() != activations.dtype() {
                return Err(err!(
                    InvalidArgument,
                    "{op}: {name} is {}, {} is {}; they must agree",
                    tensor.dtype(),
                    operands[0],
                    activations.dtype()
                ));
            }
        }
        Ok(Quantized {
            activations: contiguous(stream, activations)?,
            weights: contiguous(stream, weights)?,
            scales: contiguous(stream, scales)?,
            zeros: contiguous(stream, zeros)?,
        })
    }
}

fn check_bytes(names: Names, activations: &Tensor, weights: &Tensor, bits: u8) -> Result<()> {
    let Names { op, operands: [a, w, ..] } = names;
    let (k, bits) = (activations.sizes()[1], i64::from(bits));
    let [.., bytes] = weights.sizes() else { unreachable!("it has dimensions") };
    if bytes.checked_mul(8) == k.checked_mul(bits) {
        return Ok(());
    }
    if k.checked_mul(bits).is_none_or(|bits| bits % 8 != 0) {
        return Err(err!(
            InvalidArgument,
            "{op}: {k} columns of {a} need {k} weights of {bits} bits in each row of {w}, which \
             do not fill whole bytes"
        ));
    }
    Err(err!(
        InvalidArgument,
        "{op}: {k} columns of {a} need {k} weights of {bits} bits, {} bytes, in each row of {w}, \
         whose rows have {bytes} bytes",
        k * bits / 8
    ))
}

/// Checks that `tensor` is of a floating point dtype.
///
/// # Errors
/// It is not.
pub fn check_float(op: &str, what: &str, tensor: &Tensor) -> Result<()> {
    if matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::Bf16) {
        return Ok(());
    }
    Err(err!(
        Unsupported,
        "{op}: {what} must be float32, float16 or bfloat16, it is {}",
        tensor.dtype()
    ))
}

/// The tensor, or a contiguous copy of it.
///
/// # Errors
/// Out of memory.
pub fn contiguous(stream: &Stream, tensor: &Tensor) -> Result<Tensor> {
    if tensor.layout().is_contiguous() {
        return Ok(tensor.clone());
    }
    converted(stream, tensor, tensor.dtype())
}

/// A contiguous copy of `tensor`, converted to `dtype`.
///
/// # Errors
/// Out of memory.
pub fn converted(stream: &Stream, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    let packed = Tensor::empty(stream.device(), dtype, Layout::contiguous(tensor.sizes())?)?;
    copy(stream, &packed, tensor)?;
    Ok(packed)
}
