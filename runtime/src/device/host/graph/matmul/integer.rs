//! Products of integers.

use super::Scales;
use super::matrix::Matrix;

/// An integer type that wraps.
pub(super) trait Integer: Copy {
    const ZERO: Self;
    /// The number that a float scalar stands for, wrapped.
    fn from_scalar(value: f64) -> Self;
    fn mul(self, other: Self) -> Self;
    fn add(self, other: Self) -> Self;
}

macro_rules! integer_type {
    ($($type:ty)*) => {$(
        impl Integer for $type {
            const ZERO: Self = 0;
            fn from_scalar(value: f64) -> Self {
                value as i64 as $type
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
integer_type!(u8 i8 i16 i32 i64);

/// `out` of an integer product.
///
/// # Safety
/// As for [`tile_f32`].
pub(super) unsafe fn tile_integer<T: Integer>(
    out: &Matrix,
    input: Option<&Matrix>,
    a: &Matrix,
    b: &Matrix,
    scales: Scales,
) {
    let (alpha, beta) = (T::from_scalar(scales.alpha), T::from_scalar(scales.beta));
    let mut sums = vec![T::ZERO; out.rows * out.columns];
    let mut line = vec![T::ZERO; out.columns];
    for term in 0..a.columns {
        for (column, value) in line.iter_mut().enumerate() {
            // SAFETY: the element lies inside b.
            *value = unsafe { b.at::<T>(term, column).read() };
        }
        for (row, sums) in sums.chunks_exact_mut(out.columns).enumerate() {
            // SAFETY: the element lies inside a.
            let factor = unsafe { a.at::<T>(row, term).read() };
            for (sum, &value) in sums.iter_mut().zip(&line) {
                *sum = sum.add(factor.mul(value));
            }
        }
    }
    for (i, &sum) in sums.iter().enumerate() {
        let (row, column) = (i / out.columns, i % out.columns);
        let mut value = alpha.mul(sum);
        // SAFETY: row and column lie inside both; this call alone writes the tile.
        unsafe {
            if let Some(input) = input {
                value = value.add(beta.mul(input.at::<T>(row, column).read()));
            }
            out.at::<T>(row, column).write(value);
        }
    }
}
