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
use super::tile::{Sums, Tile};
use super::{Geometry, Views};

/// Channels and vectors of pixels whose sums are held at once: with a vector for each of the
/// pixels and one for a weight as many registers as AVX2 has.
const CHANNELS: usize = 4;
const VECTORS: usize = 3;

/// Lanes of a vector, at most.
const MOST_LANES: usize = 16;

/// Numbers of a window, at most: with the sums they stay in the second level cache.
const MOST_WINDOW: usize = 48 << 10;

/// Whether a lattice can be computed from a window.
pub fn suits<T>(lattice: &Lattice, views: &Views<T>) -> bool {
    let [_, _, height, width] = &lattice.axes;
    height.in_step == 1
        && width.in_step == 1
        && height.taps.len() * width.taps.len() > 1
        && lattice.in_step(&views.in_strides) == 1
}

/// The weights of every lattice in the order of their use: for each group, each [`CHANNELS`]
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
    let blocks = views.out_channels.div_ceil(CHANNELS);
    let terms = terms(lattice, views);
    let mut values = vec![0.0; groups * blocks * terms * CHANNELS];
    if terms == 0 {
        return values;
    }
    let offsets = lattice.tap_offsets(&views.weight_taps);
    for (index, block) in values.chunks_exact_mut(terms * CHANNELS).enumerate() {
        let (group, first) = (index / blocks, index % blocks * CHANNELS);
        for within in first..(first + CHANNELS).min(views.out_channels) {
            let weight = views.weight_of(group * views.out_channels + within);
            let mut to = block[within - first..].iter_mut().step_by(CHANNELS);
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

/// Adds the products of a tile, whose channels are in one group and whose sums lie by channels,
/// to its sums. `weights` are those of the lattice.
///
/// # Safety
/// The views lie inside live buffers.
pub unsafe fn add<T: Real>(
    scratch: &mut Scratch,
    sums: &mut Sums,
    tile: &Tile<'_>,
    views: &Views<T>,
    weights: &[f32],
) {
    let terms = terms(tile.lattice, views);
    if terms == 0 {
        return;
    }
    let group = tile.channels.start / views.out_channels;
    let blocks = views.out_channels.div_ceil(CHANNELS);
    let first = group * blocks + tile.channels.start % views.out_channels / CHANNELS;
    let weights = &weights[first * terms * CHANNELS..];
    for runs in tile.runs.chunk_by(|a, b| a.outer[..2] == b.outer[..2]) {
        let band = Band::new(tile.lattice, runs);
        // SAFETY: the caller's promise.
        unsafe { band.compute(scratch, tile, views, weights, terms) };
        band.add_to(sums, &scratch.sums, tile);
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
        self.rows * self.width + VECTORS * MOST_LANES
    }

    /// From the sums of a channel to those of the next.
    fn sums_size(&self) -> usize {
        self.len.next_multiple_of(VECTORS * MOST_LANES)
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
        let blocks = tile.channels.len().div_ceil(CHANNELS);
        sums.clear();
        sums.resize(blocks * CHANNELS * self.sums_size(), 0.0);
        let group = tile.channels.start / views.out_channels;
        let input = views.input_of(group);
        let planes = self.planes(tile.lattice, views);
        for planes in planes.chunks((MOST_WINDOW / self.plane_size()).max(1)) {
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

    /// Adds what was summed up to the tile's sums.
    fn add_to(&self, to: &mut Sums, sums: &[f32], tile: &Tile<'_>) {
        let top = self.runs[0].outer[2];
        for (channel, sums) in
            sums.chunks_exact(self.sums_size()).take(tile.channels.len()).enumerate()
        {
            for run in self.runs {
                let at = (run.outer[2] - top) * self.width + run.inner.start - self.first;
                let to = &mut to.values[channel * tile.pixels..][run.pixels()];
                for (to, sum) in to.iter_mut().zip(&sums[at..]) {
                    *to += sum;
                }
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
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Multiply { band, planes, window, sums, weights, terms, blocks } = self;
        let pixels = VECTORS * size_of::<S::f32s>() / size_of::<f32>();
        let (plane_size, sums_size) = (band.plane_size(), band.sums_size());
        let weights = &weights[..blocks * terms * CHANNELS];
        // The elements of a strip of pixels are used for all channels while they are near.
        for strip in (0..band.len).step_by(pixels) {
            for block in 0..blocks {
                let sums = &mut sums[block * CHANNELS * sums_size..][..CHANNELS * sums_size];
                let of_block = &weights[block * terms * CHANNELS..][..terms * CHANNELS];
                let first = sums.as_mut_ptr();
                // SAFETY: vectors lie inside the rows of sums, which are a multiple of any strip.
                let sum = |channel: usize, vector: usize| unsafe {
                    first.add(channel * sums_size + strip).cast::<S::f32s>().add(vector)
                };
                let mut held: [[S::f32s; VECTORS]; CHANNELS] = std::array::from_fn(|c| {
                    // SAFETY: as above.
                    std::array::from_fn(|v| unsafe { sum(c, v).read_unaligned() })
                });
                for (plane, elements) in planes.iter().zip(window.chunks_exact(plane_size)) {
                    let elements = &elements[band.first + strip..];
                    let weights = of_block[plane.term * CHANNELS..].chunks_exact(CHANNELS);
                    for (&distance, weights) in band.distances.iter().zip(weights) {
                        debug_assert!(distance + pixels <= elements.len());
                        // SAFETY: a plane has room for a strip from every pixel of the window.
                        let values: [S::f32s; VECTORS] = std::array::from_fn(|v| unsafe {
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
