//! Products that are computed in float32 and rounded once: those of half types.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::Scales;
use super::float::gemm_f32;
use super::matrix::Matrix;
use super::skinny;

/// Terms that are packed at once.
const BLOCK_TERMS: usize = 256;

/// A type whose products are computed in float32.
pub(in super::super) trait Real:
    Copy + Send + Sync + std::fmt::Debug + 'static
{
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;
    /// Converts a line of numbers.
    fn unpack(from: &[Self], to: &mut [f32]);
    /// A line as float32: `from` itself, or what `to` then holds.
    fn as_f32s<'a>(from: &'a [Self], to: &'a mut [f32]) -> &'a [f32] {
        let to = &mut to[..from.len()];
        Self::unpack(from, to);
        to
    }
    /// Rounds a line of numbers.
    fn pack(from: &[f32], to: &mut [Self]);
    /// Rounds numbers to the type's precision.
    fn round(values: &mut [f32]);
}

impl Real for f32 {
    fn to_f32(self) -> f32 {
        self
    }
    fn from_f32(value: f32) -> Self {
        value
    }
    fn unpack(from: &[Self], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
    fn as_f32s<'a>(from: &'a [Self], _: &'a mut [f32]) -> &'a [f32] {
        from
    }
    fn pack(from: &[f32], to: &mut [Self]) {
        to.copy_from_slice(from);
    }
    fn round(_: &mut [f32]) {}
}

impl Real for f16 {
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
    fn unpack(from: &[Self], to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx") {
            // SAFETY: the processor has the features.
            return unsafe { unpack_f16c(from, to) };
        }
        from.convert_to_f32_slice(to);
    }
    fn pack(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
    fn round(values: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx") {
            // SAFETY: the processor has the features.
            return unsafe { round_f16c(values) };
        }
        for value in values {
            *value = f16::from_f32(*value).to_f32();
        }
    }
}

impl Real for bf16 {
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
    fn from_f32(value: f32) -> Self {
        bf16::from_f32(value)
    }
    #[inline(always)]
    fn unpack(from: &[Self], to: &mut [f32]) {
        for (from, to) in from.iter().zip(to) {
            *to = f32::from_bits(u32::from(from.to_bits()) << 16);
        }
    }
    fn pack(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
    #[inline(always)]
    fn round(values: &mut [f32]) {
        for value in values {
            // To nearest, ties to even, without a branch; a carry beyond the mantissa gives the
            // next exponent, or infinity.
            let bits = value.to_bits();
            let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000;
            *value = if value.is_nan() { f32::NAN } else { f32::from_bits(rounded) };
        }
    }
}

/// Eight conversions an instruction; the library's do not inline.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn unpack_f16c(from: &[f16], to: &mut [f32]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};

    let (from, from_rest) = from.as_chunks::<8>();
    let (to, to_rest) = to.as_chunks_mut::<8>();
    for (from, to) in from.iter().zip(to) {
        // SAFETY: both are arrays of eight.
        unsafe {
            _mm256_storeu_ps(
                to.as_mut_ptr(),
                _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())),
            );
        }
    }
    for (from, to) in from_rest.iter().zip(to_rest) {
        *to = from.to_f32();
    }
}

/// Eight numbers to half precision and back, an instruction each.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn round_f16c(values: &mut [f32]) {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_loadu_ps,
        _mm256_storeu_ps,
    };

    let (eights, rest) = values.as_chunks_mut::<8>();
    for eight in eights {
        // SAFETY: an array of eight.
        unsafe {
            let exact = _mm256_loadu_ps(eight.as_ptr());
            let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(exact);
            _mm256_storeu_ps(eight.as_mut_ptr(), _mm256_cvtph_ps(half));
        }
    }
    for value in rest {
        *value = f16::from_f32(*value).to_f32();
    }
}

/// Part of a matrix as float32, dense along its denser side.
pub(in super::super) struct Packed {
    /// Where it lies; may be used for the next.
    pub(in super::super) values: Vec<f32>,
    pub(in super::super) matrix: Matrix,
}

impl Packed {
    /// Packs into `values`.
    ///
    /// # Safety
    /// `from` lies inside a live buffer.
    pub(in super::super) unsafe fn new<T: Real>(mut values: Vec<f32>, from: &Matrix) -> Packed {
        // Lines are what is dense in memory: rows, or columns of a transposed matrix.
        let by_rows = from.column_stride <= from.row_stride;
        let (lines, len) =
            if by_rows { (from.rows, from.columns) } else { (from.columns, from.rows) };
        let step = if by_rows { from.column_stride } else { from.row_stride };
        values.resize(lines * len, 0.0);
        for (line, to) in values.chunks_exact_mut(len.max(1)).enumerate() {
            let start = if by_rows { from.at::<T>(line, 0) } else { from.at::<T>(0, line) };
            if step == 1 {
                // SAFETY: the line's `len` elements lie one after the other.
                T::unpack(unsafe { std::slice::from_raw_parts(start, len) }, to);
            } else {
                for (i, to) in to.iter_mut().enumerate() {
                    // SAFETY: the element lies inside the matrix.
                    *to = unsafe { start.offset(i as isize * step).read() }.to_f32();
                }
            }
        }
        let (row_stride, column_stride) =
            if by_rows { (len as isize, 1) } else { (1, len as isize) };
        let matrix = Matrix {
            start: values.as_mut_ptr().cast(),
            element: size_of::<f32>(),
            row_stride,
            column_stride,
            ..*from
        };
        Packed { values, matrix }
    }
}

/// `out` of a product of `T`, computed in float32.
///
/// # Safety
/// As for [`tile_f32`](super::float::tile_f32).
pub(super) unsafe fn tile_widened<T: Real>(
    out: &Matrix,
    input: Option<&Matrix>,
    a: &Matrix,
    b: &Matrix,
    scales: Scales,
) {
    let mut sums = vec![0f32; out.rows * out.columns];
    let target = Matrix {
        start: sums.as_mut_ptr().cast(),
        element: size_of::<f32>(),
        row_stride: out.columns as isize,
        column_stride: 1,
        ..*out
    };
    if let Some(input) = input {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the element lies inside the input, which has the tile's size.
            let value = unsafe { input.at::<T>(i / out.columns, i % out.columns).read() };
            *sum = scales.beta as f32 * value.to_f32();
        }
    }
    let alpha = scales.alpha as f32;
    // SAFETY: as for the function; `sums` has the tile's size.
    unsafe {
        if skinny::suits(out.rows, b) {
            skinny::multiply::<T>(&mut sums, a, b, alpha);
        } else {
            multiply::<T>(&target, a, b, alpha);
        }
    }
    for (i, &sum) in sums.iter().enumerate() {
        // SAFETY: the element lies inside the tile, which this call alone writes.
        unsafe { out.at::<T>(i / out.columns, i % out.columns).write(T::from_f32(sum)) };
    }
}

/// `target += alpha · a @ b`, with the operands packed block by block.
///
/// # Safety
/// As for [`tile_widened`]; `target` is float32.
unsafe fn multiply<T: Real>(target: &Matrix, a: &Matrix, b: &Matrix, alpha: f32) {
    let (mut a_values, mut b_values) = (Vec::new(), Vec::new());
    for first in (0..a.columns).step_by(BLOCK_TERMS) {
        let terms = first..(first + BLOCK_TERMS).min(a.columns);
        // SAFETY: the parts lie inside the operands.
        unsafe {
            let a = Packed::new::<T>(a_values, &a.columns_part(terms.clone()));
            let b = Packed::new::<T>(b_values, &b.rows_part(terms));
            gemm_f32(target, true, &a.matrix, &b.matrix, alpha);
            (a_values, b_values) = (a.values, b.values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_a_conversion() {
        let numbers: Vec<f32> = (0..1u32 << 16)
            .flat_map(|high| {
                [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF].map(|low| f32::from_bits(high << 16 | low))
            })
            // The same with the bits that half precision drops.
            .flat_map(|n| [n, f32::from_bits(n.to_bits() & !0x1FFF | 0x1000)])
            .collect();
        fn check<T: Real>(numbers: &[f32]) {
            let mut rounded = numbers.to_vec();
            T::round(&mut rounded);
            for (&number, &rounded) in numbers.iter().zip(&rounded) {
                let expected = T::from_f32(number).to_f32();
                let same = rounded.to_bits() == expected.to_bits();
                assert!(same || rounded.is_nan() && expected.is_nan(), "{number}: {rounded}");
            }
        }
        check::<f16>(&numbers);
        check::<bf16>(&numbers);
        check::<f32>(&numbers);
    }
}
