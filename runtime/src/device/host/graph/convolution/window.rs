//! Tiles from a window of the input, for convolutions that move by single elements along rows
//! that lie together.
//!
//! The rows that a tile needs are copied once, with zeros around them. In the copy, which has one
//! width for all rows, each tap meets all pixels of the tile at one distance: the pixels are a
//! single run, whose values at the ends of rows are computed for nothing. No matrix with an
//! element for each pixel and tap need be made, and sums stay in registers for all terms of a
//! chunk.

use pulp::{Arch, Simd, WithSimd};

use super::super::matmul::Real;
use super::lattice::{Lattice, Run};
use super::tile::{Tile, scatter};
use super::{Geometry, Views};

/// Channels and vectors of pixels whose sums are held at once: with a vector for each of the
/// pixels and one for a weight one register less than AVX2 has, which compilers need to move
/// values about without memory.
pub const CHANNELS: usize = 6;
const VECTORS: usize = 2;

/// Vectors of pixels whose sums are held at once where a group has one channel.
const VECTORS_OF_LONE: usize = 8;

/// Lanes of a vector, and pixels of a strip, at most.
const MOST_LANES: usize = 16;
const MOST_STRIP: usize = VECTORS_OF_LONE * MOST_LANES;

/// Numbers of a window, at most: with the sums they stay in the second level cache.
const MOST_WINDOW: usize = 48 << 10;

/// Terms that are added at once, about: what a strip needs of the window and of the weights stays
/// in the first level cache.
const TERMS_AT_ONCE: usize = 288;

/// Whether a lattice can be computed from a window.
pub fn suits<T>(lattice: &Lattice, views: &Views<T>) -> bool {
    let [_, _, height, width] = &lattice.axes;
    height.in_step == 1
        && width.in_step == 1
        && height.taps.len() * width.taps.len() > 1
        && lattice.in_step(&views.in_strides) == 1
}

/// Channels of the result that are computed at once, of a group with so many.
fn channels_of_block(channels: usize) -> usize {
    if channels == 1 { 1 } else { CHANNELS }
}

/// The weights of every lattice in the order of their use: for each group, each block of
/// channels of the result, each tap in depth, each input channel, each tap in height and width,
/// the weights of those channels.
#[derive(Debug)]
pub struct Weights(Vec<Vec<f32>>);

impl Weights {
    /// Gathers the weights.
    ///
    /// # Safety
    /// The views lie inside live buffers.
    pub unsafe fn gather<T: Real>(geometry: &Geometry, views: &Views<T>) -> Weights {
        // SAFETY: the caller's promise.
        let of = |lattice| unsafe { gather_lattice(lattice, geometry.groups, views) };
        Weights(geometry.lattices.iter().map(of).collect())
    }

    /// Those of a lattice.
    pub fn of(&self, lattice: usize) -> &[f32] {
        &self.0[lattice]
    }
}

/// Taps of a lattice in height and width.
fn plane_taps(lattice: &Lattice) -> usize {
    lattice.axes[2].taps.len() * lattice.axes[3].taps.len()
}

/// Terms of a sum.
fn terms<T>(lattice: &Lattice, views: &Views<T>) -> usize {
    lattice.taps.len() * views.in_channels
}

/// # Safety
/// As for [`Weights::gather`].
unsafe fn gather_lattice<T: Real>(lattice: &Lattice, groups: usize, views: &Views<T>) -> Vec<f32> {
    let at_once = channels_of_block(views.out_channels);
    let blocks = views.out_channels.div_ceil(at_once);
    let terms = terms(lattice, views);
    let mut values = vec![0.0; groups * blocks * terms * at_once];
    if terms == 0 {
        return values;
    }
    let offsets = lattice.tap_offsets(&views.weight_taps);
    for (index, block) in values.chunks_exact_mut(terms * at_once).enumerate() {
        let (group, first) = (index / blocks, index % blocks * at_once);
        for within in first..(first + at_once).min(views.out_channels) {
            let weight = views.weight_of(group * views.out_channels + within);
            let mut to = block[within - first..].iter_mut().step_by(at_once);
            for of_depth in offsets.chunks_exact(plane_taps(lattice)) {
                for channel in 0..views.in_channels as isize {
                    for (tap, to) in of_depth.iter().zip(&mut to) {
                        // SAFETY: taps and channels are those of the weight.
                        *to = unsafe { weight.offset(tap + channel * views.weight_in).read() }
                            .to_f32();
                    }
                }
            }
        }
    }
    values
}

/// Memory that tiles use one after the other.
#[derive(Debug, Default)]
pub struct Scratch {
    window: Vec<f32>,
    sums: Vec<f32>,
}

/// Computes a tile whose channels are in one group. `weights` are those of the lattice.
///
/// # Safety
/// The views lie inside live buffers, and nobody else uses the tile's part of the result.
pub unsafe fn compute<T: Real>(
    scratch: &mut Scratch,
    tile: &Tile<'_>,
    views: &Views<T>,
    weights: &[f32],
) {
    let terms = terms(tile.lattice, views);
    let group = tile.channels.start / views.out_channels;
    let at_once = channels_of_block(views.out_channels);
    let blocks = views.out_channels.div_ceil(at_once);
    let first = group * blocks + tile.channels.start % views.out_channels / at_once;
    let weights = &weights[first * terms * at_once..];
    for runs in tile.runs.chunk_by(|a, b| a.outer[..2] == b.outer[..2]) {
        let band = Band::new(tile.lattice, runs);
        // SAFETY: the caller's promise.
        unsafe {
            band.compute(scratch, tile, views, weights, terms);
            band.store(&scratch.sums, tile, views);
        }
    }
}

/// Pixels of one image at one depth, and the window that they need.
struct Band<'a> {
    runs: &'a [Run],
    /// The first row of the window in the input, and its first column; they may lie outside.
    top: isize,
    left: isize,
    /// Sizes of the window.
    rows: usize,
    width: usize,
    /// The first pixel in the window, and the pixels from there to the last.
    first: usize,
    len: usize,
    /// From a pixel to the element that each tap in height and width meets.
    distances: Vec<usize>,
}

/// What is summed up for one input channel and one tap in depth.
struct Plane {
    /// The channel's first element at that depth.
    input: isize,
    /// The first of its terms.
    term: usize,
}

impl<'a> Band<'a> {
    fn new(lattice: &Lattice, runs: &'a [Run]) -> Band<'a> {
        let [_, _, height, width_axis] = &lattice.axes;
        let reach = |taps: &[super::axis::Tap]| {
            let offsets = || taps.iter().map(|tap| tap.offset);
            let low = offsets().min().unwrap_or(0);
            (low, (offsets().max().unwrap_or(0) - low) as usize)
        };
        let ((low_row, more_rows), (low_column, more_columns)) =
            (reach(&height.taps), reach(&width_axis.taps));
        let (start, end) = (&runs[0], &runs[runs.len() - 1]);
        let pixel_rows = end.outer[2] - start.outer[2];
        let width = width_axis.count + more_columns;
        let distance = |row: isize, column: isize| {
            (row - low_row) as usize * width + (column - low_column) as usize
        };
        let distances = height
            .taps
            .iter()
            .flat_map(|row| width_axis.taps.iter().map(move |column| (row, column)))
            .map(|(row, column)| distance(row.offset, column.offset))
            .collect();
        Band {
            runs,
            top: start.outer[2] as isize + low_row,
            left: low_column,
            rows: pixel_rows + 1 + more_rows,
            width,
            first: start.inner.start,
            len: pixel_rows * width + end.inner.end - start.inner.start,
            distances,
        }
    }

    /// From a plane of the window to the next: vectors may reach beyond the last pixel.
    fn plane_size(&self) -> usize {
        self.rows * self.width + MOST_STRIP
    }

    /// From the sums of a channel to those of the next.
    fn sums_size(&self) -> usize {
        self.len.next_multiple_of(MOST_STRIP)
    }

    /// Sums up all terms in the scratch memory.
    ///
    /// # Safety
    /// The views lie inside live buffers; `weights` begin with those of the tile's channels.
    unsafe fn compute<T: Real>(
        &self,
        scratch: &mut Scratch,
        tile: &Tile<'_>,
        views: &Views<T>,
        weights: &[f32],
        terms: usize,
    ) {
        let Scratch { window, sums } = scratch;
        let at_once = channels_of_block(views.out_channels);
        let blocks = tile.channels.len().div_ceil(at_once);
        sums.clear();
        for channel in tile.channels.clone() {
            // SAFETY: the caller's promise.
            let bias = unsafe { views.bias_of(channel) };
            sums.resize(sums.len() + self.sums_size(), bias);
        }
        sums.resize(blocks * at_once * self.sums_size(), 0.0);
        let group = tile.channels.start / views.out_channels;
        let input = views.input_of(group);
        let planes = self.planes(tile.lattice, views);
        let most = (MOST_WINDOW / self.plane_size()).min(TERMS_AT_ONCE / self.distances.len());
        for planes in planes.chunks(most.max(1)) {
            window.resize(planes.len() * self.plane_size(), 0.0);
            for (plane, to) in planes.iter().zip(window.chunks_exact_mut(self.plane_size())) {
                // SAFETY: the plane is one of the input.
                unsafe { self.fill(tile.lattice, views, input.wrapping_offset(plane.input), to) };
            }
            // Chooses the vector instructions of this processor.
            Arch::new().dispatch(Multiply {
                band: self,
                planes,
                window,
                sums,
                weights,
                terms,
                blocks,
                lone: at_once == 1,
            });
        }
    }

    fn planes<T>(&self, lattice: &Lattice, views: &Views<T>) -> Vec<Plane> {
        let [images, depth, ..] = &lattice.axes;
        let [image, at, _] = self.runs[0].outer;
        let mut planes = Vec::new();
        let Some(image) = images.input(&images.taps[0], image) else { return planes };
        for (index, tap) in depth.taps.iter().enumerate() {
            let Some(at) = depth.input(tap, at) else { continue };
            let first = image as isize * views.in_strides[0] + at as isize * views.in_strides[1];
            for channel in 0..views.in_channels {
                planes.push(Plane {
                    input: first + channel as isize * views.in_channel,
                    term: (index * views.in_channels + channel) * plane_taps(lattice),
                });
            }
        }
        planes
    }

    /// Copies the window of one plane.
    ///
    /// # Safety
    /// `input` is the first element of a plane of the input, in a live buffer.
    unsafe fn fill<T: Real>(
        &self,
        lattice: &Lattice,
        views: &Views<T>,
        input: *const T,
        to: &mut [f32],
    ) {
        let [_, _, height, width] = lattice.axes.each_ref().map(|axis| axis.input as isize);
        let before = (-self.left).clamp(0, self.width as isize) as usize;
        let end = (width - self.left).clamp(before as isize, self.width as isize) as usize;
        for (row, to) in to.chunks_exact_mut(self.width).take(self.rows).enumerate() {
            let row = self.top + row as isize;
            if !(0..height).contains(&row) {
                to.fill(0.0);
                continue;
            }
            to[..before].fill(0.0);
            to[end..].fill(0.0);
            let column = self.left + before as isize;
            let from = input.wrapping_offset(row * views.in_strides[2] + column);
            if before < end {
                // SAFETY: these elements are inside the plane, and lie one after the other.
                let from = unsafe { std::slice::from_raw_parts(from, end - before) };
                T::unpack(from, &mut to[before..end]);
            }
        }
    }

    /// Rounds the sums into the result.
    ///
    /// # Safety
    /// As for [`compute`].
    unsafe fn store<T: Real>(&self, sums: &[f32], tile: &Tile<'_>, views: &Views<T>) {
        let top = self.runs[0].outer[2];
        let step = tile.lattice.out_step(&views.out_strides);
        for (channel, sums) in tile.channels.clone().zip(sums.chunks_exact(self.sums_size())) {
            let first = channel as isize * views.out_channel;
            for run in self.runs {
                let at = (run.outer[2] - top) * self.width + run.inner.start - self.first;
                let to = tile.lattice.out_offset(run, &views.out_strides) + first;
                // SAFETY: pixels and channels are those of the result.
                unsafe { scatter(&sums[at..][..run.inner.len()], views.out.offset(to), step) };
            }
        }
    }
}

/// Adds the terms of some planes to the sums of a band.
struct Multiply<'a> {
    band: &'a Band<'a>,
    planes: &'a [Plane],
    window: &'a [f32],
    sums: &'a mut [f32],
    weights: &'a [f32],
    terms: usize,
    blocks: usize,
    /// Whether the blocks are single channels.
    lone: bool,
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.lone {
            self.add::<S, 1, VECTORS_OF_LONE>(simd);
        } else {
            self.add::<S, CHANNELS, VECTORS>(simd);
        }
    }
}

impl Multiply<'_> {
    /// Adds the terms to blocks of `C` channels, in strips of `V` vectors.
    #[inline(always)]
    fn add<S: Simd, const C: usize, const V: usize>(self, simd: S) {
        let Multiply { band, planes, window, sums, weights, terms, blocks, .. } = self;
        let pixels = V * size_of::<S::f32s>() / size_of::<f32>();
        let (plane_size, sums_size) = (band.plane_size(), band.sums_size());
        let weights = &weights[..blocks * terms * C];
        // The elements of a strip of pixels are used for all channels while they are near.
        for strip in (0..band.len).step_by(pixels) {
            for block in 0..blocks {
                let sums = &mut sums[block * C * sums_size..][..C * sums_size];
                let of_block = &weights[block * terms * C..][..terms * C];
                let first = sums.as_mut_ptr();
                // SAFETY: vectors lie inside the rows of sums, which are a multiple of any strip.
                let sum = |channel: usize, vector: usize| unsafe {
                    first.add(channel * sums_size + strip).cast::<S::f32s>().add(vector)
                };
                let mut held: [[S::f32s; V]; C] = std::array::from_fn(|c| {
                    // SAFETY: as above.
                    std::array::from_fn(|v| unsafe { sum(c, v).read_unaligned() })
                });
                for (plane, elements) in planes.iter().zip(window.chunks_exact(plane_size)) {
                    let elements = &elements[band.first + strip..];
                    let weights = of_block[plane.term * C..].chunks_exact(C);
                    for (&distance, weights) in band.distances.iter().zip(weights) {
                        debug_assert!(distance + pixels <= elements.len());
                        // SAFETY: a plane has room for a strip from every pixel of the window.
                        let values: [S::f32s; V] = std::array::from_fn(|v| unsafe {
                            let start = elements.as_ptr().add(distance).cast::<S::f32s>();
                            start.add(v).read_unaligned()
                        });
                        for (held, &weight) in held.iter_mut().zip(weights) {
                            let weight = simd.splat_f32s(weight);
                            for (sum, value) in held.iter_mut().zip(values) {
                                *sum = simd.mul_add_f32s(weight, value, *sum);
                            }
                        }
                    }
                }
                for (channel, held) in held.iter().enumerate() {
                    for (vector, held) in held.iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { sum(channel, vector).write_unaligned(*held) };
                    }
                }
            }
        }
    }
}
