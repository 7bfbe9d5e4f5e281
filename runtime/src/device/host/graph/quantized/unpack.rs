//! Dequantising weights.

use crate::device::host::graph::floats::Address;
use crate::device::host::graph::matmul::half::Real;

/// The quantised weights of a product: of each expert a matrix, of each of its rows the packed
/// bytes and of each group of the row a scale and a zero.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    pub bytes: Address,
    pub scales: Address,
    pub zeros: Address,
    /// Rows of an expert's matrix.
    pub rows: usize,
    pub row_bytes: usize,
    pub row_groups: usize,
    pub group_size: usize,
    /// Whether each weight is rounded to the type of scales and zeros, as where an operator is
    /// defined over dequantised weights of that type.
    pub rounded: bool,
}

impl Weights {
    /// A row of an expert's matrix.
    ///
    /// # Safety
    /// There is such a row, the buffers are alive, and `T` is the type of scales and zeros.
    #[inline(always)]
    pub unsafe fn row<'run, T>(&self, expert: usize, row: usize) -> Row<'run, T> {
        let row = expert * self.rows + row;
        // SAFETY: the caller's promise.
        unsafe {
            Row {
                bytes: self.bytes.slice(row * self.row_bytes, self.row_bytes),
                scales: self.scales.slice(row * self.row_groups, self.row_groups),
                zeros: self.zeros.slice(row * self.row_groups, self.row_groups),
                group_size: self.group_size,
                rounded: self.rounded,
            }
        }
    }
}

/// The weights of one row.
#[derive(Debug, Clone, Copy)]
pub struct Row<'run, T> {
    bytes: &'run [u8],
    scales: &'run [T],
    zeros: &'run [T],
    group_size: usize,
    rounded: bool,
}

impl<T: Real> Row<'_, T> {
    /// The weights from `first` on: `to[i] = packed · scale + zero`.
    #[inline(always)]
    pub fn dequantize<const BITS: usize>(&self, first: usize, to: &mut [f32]) {
        self.exactly::<BITS>(first, to);
        if self.rounded {
            for weight in to {
                *weight = T::from_f32(*weight).to_f32();
            }
        }
    }

    #[inline(always)]
    fn exactly<const BITS: usize>(&self, first: usize, mut to: &mut [f32]) {
        let mut at = first;
        let mut group = first / self.group_size;
        // Weights of the first group that lie in this line; the others begin in it.
        let mut len = self.group_size - first % self.group_size;
        while !to.is_empty() {
            let (part, rest) = to.split_at_mut(len.min(to.len()));
            let (scale, zero) = (self.scales[group].to_f32(), self.zeros[group].to_f32());
            dequantize::<BITS>(self.bytes, at, scale, zero, part);
            at += part.len();
            group += 1;
            len = self.group_size;
            to = rest;
        }
    }
}

/// Weights of one group, the first of them weight `first` of `bytes`.
#[inline(always)]
fn dequantize<const BITS: usize>(
    bytes: &[u8],
    first: usize,
    scale: f32,
    zero: f32,
    to: &mut [f32],
) {
    // Eight weights fill whole bytes: those at multiples of eight are unpacked together.
    let head = (first.next_multiple_of(8) - first).min(to.len());
    let (head, rest) = to.split_at_mut(head);
    for (i, to) in head.iter_mut().enumerate() {
        *to = one::<BITS>(bytes, first + i) * scale + zero;
    }
    let first = first + head.len();
    let (eights, tail) = rest.as_chunks_mut::<8>();
    let packed = bytes[first * BITS / 8..].as_chunks::<BITS>().0;
    for (packed, to) in packed.iter().zip(eights.iter_mut()) {
        let weights = eight::<BITS>(packed);
        for (to, weight) in to.iter_mut().zip(weights) {
            *to = weight * scale + zero;
        }
    }
    let first = first + eights.len() * 8;
    for (i, to) in tail.iter_mut().enumerate() {
        *to = one::<BITS>(bytes, first + i) * scale + zero;
    }
}

/// Weight `index` of a row.
#[inline(always)]
fn one<const BITS: usize>(bytes: &[u8], index: usize) -> f32 {
    let (byte, shift) = (index * BITS / 8, index * BITS % 8);
    let mut word = u16::from(bytes[byte]);
    if shift + BITS > 8 {
        word |= u16::from(bytes[byte + 1]) << 8;
    }
    f32::from(word >> shift & ((1 << BITS) - 1))
}

/// Eight weights, which fill `BITS` bytes. Written so that the compiler shifts, masks and
/// converts all eight with one instruction each.
#[inline(always)]
fn eight<const BITS: usize>(packed: &[u8; BITS]) -> [f32; 8] {
    let mut word = [0u8; 8];
    word[..BITS].copy_from_slice(packed);
    let word = u64::from_le_bytes(word);
    // Four weights of at most 7 bits fit into 32.
    let halves = [word as u32, (word >> (4 * BITS)) as u32];
    let mask = (1u32 << BITS) - 1;
    std::array::from_fn(|i| (halves[i / 4] >> (BITS * (i % 4)) & mask) as i32 as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// torchao's packing: weights one after the other from the lowest bit on.
    fn pack<const BITS: usize>(weights: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; (weights.len() * BITS).div_ceil(8)];
        for (i, weight) in weights.iter().enumerate() {
            for bit in 0..BITS {
                let at = i * BITS + bit;
                bytes[at / 8] |= (weight >> bit & 1) << (at % 8);
            }
        }
        bytes
    }

    fn all_ways<const BITS: usize>() {
        let weights: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37) & ((1 << BITS) - 1)).collect();
        let bytes = pack::<BITS>(&weights);
        for first in 0..64 {
            for len in 0..=64 - first {
                let mut to = vec![f32::NAN; len];
                dequantize::<BITS>(&bytes, first, 0.5, -3.0, &mut to);
                let expected: Vec<f32> =
                    weights[first..][..len].iter().map(|&w| f32::from(w) * 0.5 - 3.0).collect();
                assert_eq!(to, expected, "{BITS} bits, {len} from {first}");
            }
        }
    }

    #[test]
    fn every_width_from_every_start() {
        all_ways::<1>();
        all_ways::<2>();
        all_ways::<3>();
        all_ways::<4>();
        all_ways::<5>();
        all_ways::<6>();
        all_ways::<7>();
    }

    #[test]
    fn known_bytes() {
        // torchao: the first weight of a pair is the low nibble.
        assert_eq!(eight::<4>(&[0x21, 0x43, 0x65, 0x87]), [1., 2., 3., 4., 5., 6., 7., 8.]);
        assert_eq!(eight::<3>(&[0x88, 0xC6, 0xFA]), [0., 1., 2., 3., 4., 5., 6., 7.]);
        assert_eq!(eight::<1>(&[0b1000_0101]), [1., 0., 1., 0., 0., 0., 0., 1.]);
    }
}
