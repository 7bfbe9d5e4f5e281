//! Tiles without a matrix of input elements, for groups of few channels, depthwise convolutions
//! above all: an element would be used too rarely to be worth gathering.

use std::any::TypeId;
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::super::matmul::Real;
use super::Views;
use super::lattice::Run;
use super::tile::{Sums, Tile, gather};

/// Adds the products of a tile, whose sums lie by channels, to its sums.
///
/// # Safety
/// The views lie inside live buffers.
pub unsafe fn add<T: Real>(
    lines: &mut Vec<f32>,
    sums: &mut Sums,
    tile: &Tile<'_>,
    views: &Views<T>,
) {
    // Chooses the vector instructions of this processor.
    Arch::new().dispatch(ByChannel { lines, sums: &mut sums.values, tile, views });
}

/// See [`add`], whose promise it relies on.
struct ByChannel<'a, T> {
    lines: &'a mut Vec<f32>,
    sums: &'a mut [f32],
    tile: &'a Tile<'a>,
    views: &'a Views<T>,
}

/// What one tap of one input channel adds along a run of pixels. The same for all groups.
#[derive(Debug, Clone)]
struct Term {
    /// The input element for the first pixel inside, from the first of the group.
    input: isize,
    /// The same element among those that sums are made of: see [`Lines`].
    line: isize,
    /// Pixels of the run that the tap meets; not empty.
    inside: Range<usize>,
    /// The weight, from the first of a channel of the result.
    weight: isize,
}

impl<T: Real> WithSimd for ByChannel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ByChannel { lines, sums, tile, views } = self;
        let step = tile.lattice.in_step(&views.in_strides);
        let in_place = step == 1 && TypeId::of::<T>() == TypeId::of::<f32>();
        let mut weights = Vec::new();
        for run in &tile.runs {
            let terms = terms(tile, run, views, in_place);
            let start = terms.iter().map(|term| term.inside.start).max().unwrap_or(0);
            let end = terms.iter().map(|term| term.inside.end).min().unwrap_or(0);
            let common = start..end.max(start);
            let (mut base, mut group) = (std::ptr::null(), None);
            for (i, out) in tile.channels.clone().enumerate() {
                let of = out / views.out_channels;
                if group.replace(of) != Some(of) {
                    let input = views.input_of(of);
                    base = if in_place {
                        input.cast::<f32>()
                    } else {
                        // SAFETY: the terms are those of the run.
                        unsafe { gather_lines(lines, &terms, input, step) };
                        lines.as_ptr()
                    };
                }
                let first = views.weight_of(out);
                weights.clear();
                // SAFETY: taps and channels are those of the weight.
                let weight = |term: &Term| unsafe { first.offset(term.weight).read() }.to_f32();
                weights.extend(terms.iter().map(weight));
                let lines = Lines { base, terms: &terms, weights: &weights };
                let sums = &mut sums[i * tile.pixels + run.at..][..run.inner.len()];
                // SAFETY: the lines have an element for each pixel inside.
                unsafe {
                    add_common(simd, &mut sums[common.clone()], lines, common.start);
                    add_edges(simd, sums, lines, &common);
                }
            }
        }
    }
}

/// The terms along a run; their lines are the input itself, or lie one after the other.
fn terms<T: Real>(tile: &Tile<'_>, run: &Run, views: &Views<T>, in_place: bool) -> Vec<Term> {
    let mut terms = Vec::with_capacity(tile.lattice.taps.len() * views.in_channels);
    let mut gathered = 0;
    let offsets = tile.lattice.tap_offsets(&views.weight_taps);
    for (&tap, tap_weight) in tile.lattice.taps.iter().zip(offsets) {
        let segment = tile.lattice.segment(run, tap, &views.in_strides);
        if segment.inside.is_empty() {
            continue;
        }
        for channel in 0..views.in_channels as isize {
            let input = segment.offset + channel * views.in_channel;
            terms.push(Term {
                input,
                line: if in_place { input } else { gathered },
                inside: segment.inside.clone(),
                weight: tap_weight + channel * views.weight_in,
            });
            gathered += segment.inside.len() as isize;
        }
    }
    terms
}

/// Gathers the elements of a group that cannot be used where they lie.
///
/// # Safety
/// The terms are those of a run, and `input` is the group's first element in a live buffer.
unsafe fn gather_lines<T: Real>(
    lines: &mut Vec<f32>,
    terms: &[Term],
    input: *const T,
    step: isize,
) {
    lines.resize(terms.iter().map(|term| term.inside.len()).sum(), 0.0);
    let mut rest = lines.as_mut_slice();
    for term in terms {
        let (line, others) = rest.split_at_mut(term.inside.len());
        rest = others;
        // SAFETY: these pixels are inside.
        unsafe { gather(input.offset(term.input), step, line) };
    }
}

/// What is added to the sums of a channel along a run: for each term its weight times its
/// elements, which begin at `line` from `base`.
#[derive(Clone, Copy)]
struct Lines<'a> {
    base: *const f32,
    terms: &'a [Term],
    weights: &'a [f32],
}

impl<'a> Lines<'a> {
    /// The weight of each term, and its elements for `len` pixels of the run from `first` on.
    ///
    /// # Safety
    /// All terms have elements there.
    #[inline(always)]
    unsafe fn at(self, first: usize, len: usize) -> impl Iterator<Item = (f32, &'a [f32])> {
        self.terms.iter().zip(self.weights).map(move |(term, &weight)| {
            // SAFETY: the caller's promise.
            let line = unsafe {
                let start = self.base.offset(term.line).add(first - term.inside.start);
                std::slice::from_raw_parts(start, len)
            };
            (weight, line)
        })
    }
}

/// Adds all terms to the sums of pixels that all of them meet, `first` being the first.
///
/// # Safety
/// Every line has an element for each of the pixels.
#[inline(always)]
unsafe fn add_common<S: Simd>(simd: S, sums: &mut [f32], lines: Lines<'_>, first: usize) {
    /// Vectors that are summed up at once: enough to keep the arithmetic units busy.
    const VECTORS: usize = 4;

    let lanes = size_of::<S::f32s>() / size_of::<f32>();
    let mut at = 0;
    while at + VECTORS * lanes <= sums.len() {
        let (part, _) = S::as_mut_simd_f32s(&mut sums[at..at + VECTORS * lanes]);
        let mut held: [S::f32s; VECTORS] = std::array::from_fn(|i| part[i]);
        // SAFETY: the caller's promise.
        for (weight, line) in unsafe { lines.at(first + at, VECTORS * lanes) } {
            let weight = simd.splat_f32s(weight);
            let (values, _) = S::as_simd_f32s(line);
            for (sum, value) in held.iter_mut().zip(values) {
                *sum = simd.mul_add_f32s(weight, *value, *sum);
            }
        }
        part.copy_from_slice(&held);
        at += VECTORS * lanes;
    }
    while at < sums.len() {
        let len = lanes.min(sums.len() - at);
        let part = &mut sums[at..at + len];
        let mut sum = simd.partial_load_f32s(part);
        // SAFETY: the caller's promise.
        for (weight, line) in unsafe { lines.at(first + at, len) } {
            let value = simd.partial_load_f32s(line);
            sum = simd.mul_add_f32s(simd.splat_f32s(weight), value, sum);
        }
        simd.partial_store_f32s(part, sum);
        at += len;
    }
}

/// Adds each term to the sums of the pixels beside `common` that it meets.
///
/// # Safety
/// Every line has an element for each pixel inside.
#[inline(always)]
unsafe fn add_edges<S: Simd>(simd: S, sums: &mut [f32], lines: Lines<'_>, common: &Range<usize>) {
    for (term, &weight) in lines.terms.iter().zip(lines.weights) {
        let Range { start, end } = term.inside;
        for edge in [start..end.min(common.start), start.max(common.end)..end] {
            if !edge.is_empty() {
                // SAFETY: the pixels are inside.
                let line = unsafe {
                    let first = lines.base.offset(term.line).add(edge.start - start);
                    std::slice::from_raw_parts(first, edge.len())
                };
                add_multiple(simd, &mut sums[edge], weight, line);
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
