//! Tiles without a matrix of input elements, for groups of few channels, depthwise convolutions
//! above all: an element would be used too rarely to be worth gathering.

use std::any::TypeId;

use pulp::{Arch, Simd, WithSimd};

use super::super::matmul::Real;
use super::Views;
use super::tile::{Sums, Tile, gather};

/// Adds the products of a tile, whose channels are in one group and whose sums lie by channels,
/// to its sums.
///
/// # Safety
/// The views lie inside live buffers.
pub unsafe fn add<T: Real>(
    line: &mut Vec<f32>,
    sums: &mut Sums,
    tile: &Tile<'_>,
    views: &Views<T>,
) {
    line.resize(tile.pixels, 0.0);
    // Chooses the vector instructions of this processor.
    Arch::new().dispatch(ByChannel { line, sums: &mut sums.values, tile, views });
}

/// See [`add`], whose promise it relies on.
struct ByChannel<'a, T> {
    line: &'a mut [f32],
    sums: &'a mut [f32],
    tile: &'a Tile<'a>,
    views: &'a Views<T>,
}

impl<T: Real> WithSimd for ByChannel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ByChannel { line, sums, tile, views } = self;
        let lattice = tile.lattice;
        let input = views.input_of(tile.channels.start / views.out_channels);
        let step = lattice.in_step(&views.in_strides);
        let offsets = lattice.tap_offsets(&views.weight_taps);
        for (&tap, offset) in lattice.taps.iter().zip(offsets) {
            for run in &tile.runs {
                let segment = lattice.segment(run, tap, &views.in_strides);
                if segment.inside.is_empty() {
                    continue;
                }
                let line = &mut line[..segment.inside.len()];
                let first = run.at + segment.inside.start;
                for channel in 0..views.in_channels as isize {
                    let from = input.wrapping_offset(segment.offset + channel * views.in_channel);
                    // SAFETY: these pixels are inside.
                    let line = unsafe { elements(from, step, line) };
                    for (i, out) in tile.channels.clone().enumerate() {
                        let weight = views.weight_of(out);
                        let at = offset + channel * views.weight_in;
                        // SAFETY: tap and channels are those of the weight.
                        let weight = unsafe { weight.offset(at).read() }.to_f32();
                        let sums = &mut sums[i * tile.pixels + first..][..line.len()];
                        add_multiple(simd, sums, weight, line);
                    }
                }
            }
        }
    }
}

/// Elements that lie `step` apart, as float32: where they lie if they can be used there, else in
/// `line`.
///
/// # Safety
/// The elements lie inside a live buffer.
#[inline(always)]
unsafe fn elements<T: Real>(from: *const T, step: isize, line: &mut [f32]) -> &[f32] {
    if step == 1 && TypeId::of::<T>() == TypeId::of::<f32>() {
        // SAFETY: the elements are float32 and lie one after the other.
        return unsafe { std::slice::from_raw_parts(from.cast(), line.len()) };
    }
    // SAFETY: the caller's promise.
    unsafe { gather(from, step, line) };
    line
}

/// `sums += factor · line`.
#[inline(always)]
fn add_multiple<S: Simd>(simd: S, sums: &mut [f32], factor: f32, line: &[f32]) {
    let (sums, sums_rest) = S::as_mut_simd_f32s(sums);
    let (line, line_rest) = S::as_simd_f32s(line);
    let factors = simd.splat_f32s(factor);
    for (sum, value) in sums.iter_mut().zip(line) {
        *sum = simd.mul_add_f32s(factors, *value, *sum);
    }
    for (sum, value) in sums_rest.iter_mut().zip(line_rest) {
        *sum += factor * value;
    }
}

/// Adds the products of a tile of many groups, each of one channel in and one out, whose channels
/// lie together in the input and in the sums.
///
/// # Safety
/// The views lie inside live buffers.
pub unsafe fn add_depthwise<T: Real>(
    line: &mut Vec<f32>,
    sums: &mut Sums,
    tile: &Tile<'_>,
    views: &Views<T>,
) {
    line.resize(2 * tile.channels.len(), 0.0);
    Arch::new().dispatch(ByPixel { line, sums: &mut sums.values, tile, views });
}

/// See [`add_depthwise`], whose promise it relies on.
struct ByPixel<'a, T> {
    line: &'a mut [f32],
    sums: &'a mut [f32],
    tile: &'a Tile<'a>,
    views: &'a Views<T>,
}

impl<T: Real> WithSimd for ByPixel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ByPixel { line, sums, tile, views } = self;
        let lattice = tile.lattice;
        let channels = tile.channels.len();
        let (weights, line) = line.split_at_mut(channels);
        let input = views.input_of(tile.channels.start);
        let step = lattice.in_step(&views.in_strides);
        let offsets = lattice.tap_offsets(&views.weight_taps);
        for (&tap, offset) in lattice.taps.iter().zip(offsets) {
            let from = views.weight_of(tile.channels.start).wrapping_offset(offset);
            // SAFETY: tap and channels are those of the weight.
            unsafe { gather(from, views.weight_group, weights) };
            for run in &tile.runs {
                let segment = lattice.segment(run, tap, &views.in_strides);
                for (i, pixel) in segment.inside.clone().enumerate() {
                    let from = input.wrapping_offset(segment.offset + i as isize * step);
                    // SAFETY: the pixel is inside, and channels lie together.
                    let line = unsafe { elements(from, 1, line) };
                    let sums = &mut sums[(run.at + pixel) * channels..][..channels];
                    add_products(simd, sums, weights, line);
                }
            }
        }
    }
}

/// `sums += a · b`, each with each.
#[inline(always)]
fn add_products<S: Simd>(simd: S, sums: &mut [f32], a: &[f32], b: &[f32]) {
    let (sums, sums_rest) = S::as_mut_simd_f32s(sums);
    let (a, a_rest) = S::as_simd_f32s(a);
    let (b, b_rest) = S::as_simd_f32s(b);
    for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
        *sum = simd.mul_add_f32s(*a, *b, *sum);
    }
    for (sum, (a, b)) in sums_rest.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += a * b;
    }
}
