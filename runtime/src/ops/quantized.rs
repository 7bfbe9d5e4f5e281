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
use super::own_kernels::{self, QUANTIZED};
use crate::Result;
use crate::error::err;
use crate::kernel::Arguments;
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
        let groups = number_of_groups(activations.sizes()[1], group_size);
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

/// Rows up to which each is computed on its own; more are computed in tiles.
const FEW_ROWS: i64 = 8;

/// `Sizes` of `msl/quantized.metal`.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::NoUninit)]
struct KernelSizes {
    rows: u32,
    columns: u32,
    terms: u32,
    group_size: u32,
    groups: u32,
    row_bytes: u32,
    experts: u32,
}

impl Quantized {
    /// Encodes the kernel of one matrix of weights. `out` has elements.
    ///
    /// # Errors
    /// The kernel does not compile, or a size exceeds 32 bits.
    pub fn dispatch_linear(
        &self,
        stream: &Stream,
        out: &Tensor,
        bits: u8,
        group_size: i64,
    ) -> Result<()> {
        let (rows, columns) = (out.sizes()[0], out.sizes()[1] as u64);
        let dtype = out.dtype().msl_name();
        let (base, groups, group) = if rows <= FEW_ROWS {
            ("rows", [columns.div_ceil(8), rows as u64], [32, 2])
        } else {
            ("tiles", [columns.div_ceil(32), (rows as u64).div_ceil(32)], [128, 1])
        };
        let name = format!("quantized_{base}_{bits}_{dtype}");
        let kernel = own_kernels::kernel_named(stream, &QUANTIZED, &name)?;
        let arguments = self.arguments(out, group_size)?;
        stream.dispatch(&kernel, &arguments, kernel.grid_of_groups(&groups, &group)?)
    }

    /// Encodes the kernel of rows that have an expert each. `out` has elements.
    ///
    /// # Errors
    /// As for [`Quantized::dispatch_linear`].
    pub fn dispatch_gather(
        &self,
        stream: &Stream,
        out: &Tensor,
        experts: &Tensor,
        group_size: i64,
    ) -> Result<()> {
        let index = experts.dtype().msl_name();
        let base = format!("quantized_gather_{index}");
        let kernel = own_kernels::kernel(stream, &QUANTIZED, &base, out.dtype())?;
        let mut arguments = self.arguments(out, group_size)?;
        arguments.tensor(6, experts)?;
        let groups = [(out.sizes()[1] as u64).div_ceil(8), out.sizes()[0] as u64];
        stream.dispatch(&kernel, &arguments, kernel.grid_of_groups(&groups, &[32, 2])?)
    }

    /// What all kernels take.
    fn arguments(&self, out: &Tensor, group_size: i64) -> Result<Arguments> {
        let last = |tensor: &Tensor| tensor.sizes()[tensor.sizes().len() - 1];
        let experts = if self.weights.sizes().len() == 3 { self.weights.sizes()[0] } else { 1 };
        let terms = last(&self.activations);
        let sizes = KernelSizes {
            rows: size_32("rows", out.sizes()[0])?,
            columns: size_32("columns", out.sizes()[1])?,
            terms: size_32("terms", terms)?,
            // A group that is longer than a row is as one of its length.
            group_size: size_32("terms", group_size.min(terms.max(1)))?,
            groups: size_32("groups", last(&self.scales))?,
            row_bytes: size_32("bytes of a row", last(&self.weights))?,
            experts: size_32("experts", experts)?,
        };
        let mut arguments = Arguments::new();
        let tensors = [out, &self.activations, &self.weights, &self.scales, &self.zeros];
        for (index, tensor) in tensors.into_iter().enumerate() {
            arguments.tensor(index, tensor)?;
        }
        arguments.bytes(5, bytemuck::bytes_of(&sizes))?;
        Ok(arguments)
    }
}

/// A size as a kernel takes it.
///
/// # Errors
/// It exceeds what kernels count to, with room for a tile.
pub fn size_32(what: &str, size: i64) -> Result<u32> {
    u32::try_from(size).ok().filter(|&size| size <= u32::MAX - 256).ok_or_else(|| {
        err!(Unsupported, "{size} {what} exceed the 32 bits that kernels count with")
    })
}

/// Groups in a row of `terms` weights; the last may be shorter.
fn number_of_groups(terms: i64, group_size: i64) -> i64 {
    terms / group_size + i64::from(terms % group_size != 0)
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

#[cfg(test)]
pub(super) mod testing {
    use super::super::testing::{tensor, values};
    use super::*;
    use proptest::prelude::*;

    pub use crate::diagnosis::selftest::data::noise;

    /// The floating point dtypes.
    pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

    /// Half of the distance between neighbours, relative to a number.
    pub fn rounding(dtype: DType) -> f64 {
        match dtype {
            DType::F16 => 2f64.powi(-11),
            DType::Bf16 => 2f64.powi(-8),
            _ => 2f64.powi(-24),
        }
    }

    /// The number of `dtype` nearest to `value`.
    fn rounded(dtype: DType, value: f32) -> f64 {
        match dtype {
            DType::F16 => half::f16::from_f32(value).to_f64(),
            DType::Bf16 => half::bf16::from_f32(value).to_f64(),
            _ => value.into(),
        }
    }

    /// Terms that fill whole bytes come in multiples of this.
    pub fn unit(bits: u8) -> i64 {
        match bits {
            4 => 2,
            2 | 6 => 4,
            _ => 8,
        }
    }

    /// Group sizes: those of torchao, and any.
    pub fn group_size() -> impl Strategy<Value = i64> {
        prop_oneof![prop::sample::select(vec![32, 64, 128, 256, i64::MAX]), 1i64..50]
    }

    /// Quantised weights as an operator takes them, and what they stand for.
    pub struct Weights {
        pub packed: Tensor,
        pub scales: Tensor,
        pub zeros: Tensor,
        sizes: Vec<i64>,
        numbers: Vec<u8>,
        group_size: i64,
    }

    impl Weights {
        /// Weights of these sizes; `strides` for bytes, scales and zeros.
        pub fn new(
            dtype: DType,
            bits: u8,
            sizes: &[i64],
            group_size: i64,
            strides: Option<&[Vec<i64>; 3]>,
            seed: u64,
        ) -> Weights {
            let (lead, terms) = (&sizes[..sizes.len() - 1], sizes[sizes.len() - 1]);
            let rows: i64 = lead.iter().product();
            let numbers: Vec<u8> = noise((rows * terms) as usize, seed)
                .iter()
                .map(|n| ((n + 1.0) / 2.0 * f64::from(1u32 << bits)) as u8)
                .collect();
            let row_bytes = terms * i64::from(bits) / 8;
            let mut bytes = vec![0u8; (rows * row_bytes) as usize];
            for (i, number) in numbers.iter().enumerate() {
                let (row, term) = (i as i64 / terms, i as i64 % terms);
                for bit in 0..i64::from(bits) {
                    let at = term * i64::from(bits) + bit;
                    bytes[(row * row_bytes + at / 8) as usize] |=
                        (number >> bit & 1) << (at % 8) as u8;
                }
            }
            let with = |last: i64| [lead, &[last]].concat();
            let contiguous = |sizes: &[i64]| Layout::contiguous(sizes).unwrap().strides.to_vec();
            let groups = with(number_of_groups(terms, group_size));
            let [of_bytes, of_scales, of_zeros] = strides.cloned().unwrap_or_else(|| {
                [contiguous(&with(row_bytes)), contiguous(&groups), contiguous(&groups)]
            });
            let count = groups.iter().product::<i64>() as usize;
            let scales: Vec<f64> = noise(count, seed + 1).iter().map(|n| n * 0.1).collect();
            let bytes: Vec<f64> = bytes.into_iter().map(f64::from).collect();
            Weights {
                packed: tensor(DType::U8, &with(row_bytes), &of_bytes, 3, &bytes),
                scales: tensor(dtype, &groups, &of_scales, 1, &scales),
                zeros: tensor(dtype, &groups, &of_zeros, 2, &noise(count, seed + 2)),
                sizes: sizes.to_vec(),
                numbers,
                group_size,
            }
        }

        /// Sizes of bytes, of scales and of zeros.
        pub fn operand_sizes(sizes: &[i64], bits: u8, group_size: i64) -> [Vec<i64>; 3] {
            let (lead, terms) = (&sizes[..sizes.len() - 1], sizes[sizes.len() - 1]);
            let groups = [lead, &[number_of_groups(terms, group_size)]].concat();
            [[lead, &[terms * i64::from(bits) / 8]].concat(), groups.clone(), groups]
        }

        /// Checks each row of `out`, the product of the row of `activations` and the matrix of
        /// weights that `expert` says, against one computed in float64.
        pub fn check(
            &self,
            activations: &Tensor,
            out: &Tensor,
            expert: impl Fn(usize) -> usize,
        ) -> Result<(), TestCaseError> {
            let [.., columns, terms] = self.sizes[..] else { unreachable!() };
            let (columns, terms) = (columns as usize, terms as usize);
            let groups = number_of_groups(terms as i64, self.group_size) as usize;
            let (scales, zeros) = (values(&self.scales), values(&self.zeros));
            let (activations, rows) = (values(activations), activations.sizes()[0] as usize);
            prop_assert_eq!(out.sizes(), [rows as i64, columns as i64]);
            for (i, got) in values(out).into_iter().enumerate() {
                let (row, column) = (i / columns, expert(i / columns) * columns + i % columns);
                let (mut sum, mut magnitude) = (0.0, 0.0);
                for term in 0..terms {
                    let group = column * groups + (term as i64 / self.group_size) as usize;
                    let number = f64::from(self.numbers[column * terms + term]);
                    let a = activations[row * terms + term];
                    let mut weight = number * scales[group] + zeros[group];
                    if self.sizes.len() == 3 {
                        // The weights of experts are rounded, from float32, to their dtype.
                        let (scale, zero) = (scales[group] as f32, zeros[group] as f32);
                        weight = rounded(self.scales.dtype(), number as f32 * scale + zero);
                    }
                    sum += a * weight;
                    magnitude += (a * number * scales[group]).abs() + (a * zeros[group]).abs();
                }
                // Sums in float32, in any order, and one rounding to the dtype.
                let slack = magnitude * (terms + 8) as f64 * rounding(DType::F32)
                    + sum.abs() * rounding(out.dtype()) * 1.01
                    + 2f64.powi(-25);
                prop_assert!((got - sum).abs() <= slack, "{row}, {column}: {got} for {sum}");
            }
            Ok(())
        }
    }
}
