//! Tiles as matrix products: pixels × terms, times terms × channels. A term is a tap of an input
//! channel. The matrix of input elements exists for one tile and some terms at a time, and not at
//! all if the input lies as the product wants it.

use std::any::TypeId;
use std::ops::Range;

use super::super::matmul::{Matrix, Real, gemm_f32};
use super::Views;
use super::tile::{Sums, Tile, gather};

/// Terms whose input elements are gathered at once, at most: with the pixels of a tile they stay
/// in the second level cache.
const MOST_TERMS: usize = 320;
/// Input channels that must lie together to be gathered together.
const LEAST_CHANNELS: usize = 8;

/// Memory that tiles use one after the other.
#[derive(Debug, Default)]
pub struct Scratch {
    columns: Vec<f32>,
    weights: Vec<f32>,
}

/// How the terms of a tile are numbered.
#[derive(Debug, Clone, Copy)]
struct Terms {
    taps: usize,
    channels: usize,
    /// Whether the channels of a tap follow each other, and not the taps of a channel.
    by_tap: bool,
}

impl Terms {
    fn count(self) -> usize {
        self.taps * self.channels
    }

    /// The terms of a tap in a block of terms: each with its channel, as index in the block.
    fn of_tap(self, tap: usize, block: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let (first, step) = if self.by_tap { (tap * self.channels, 1) } else { (tap, self.taps) };
        let start = block.start.saturating_sub(first).div_ceil(step).min(self.channels);
        let end = block.end.saturating_sub(first).div_ceil(step).min(self.channels);
        (start..end).map(move |channel| (first + channel * step - block.start, channel))
    }
}

/// Adds the products of a tile, whose channels are in one group, to its sums.
///
/// # Safety
/// The views lie inside live buffers.
pub unsafe fn add<T: Real>(
    scratch: &mut Scratch,
    sums: &mut Sums,
    tile: &Tile<'_>,
    views: &Views<T>,
) {
    let taps = tile.lattice.taps.len();
    let channels = views.in_channels;
    let by_tap = views.in_channel == 1 && channels >= LEAST_CHANNELS;
    let terms = Terms { taps, channels, by_tap };
    if terms.count() == 0 {
        return;
    }
    let blocks = terms.count().div_ceil(MOST_TERMS);
    let size = terms.count().div_ceil(blocks);
    let group = tile.channels.start / views.out_channels;
    let input = views.input_of(group);
    let offsets = tile.lattice.tap_offsets(&views.weight_taps);
    let target = target(sums, tile);
    // The taps of a kernel mostly follow each other as the terms do: no weight need be moved.
    let whole = lined_up(terms, &offsets, views.weight_in);
    for first in (0..terms.count()).step_by(size) {
        let block = first..(first + size).min(terms.count());
        // SAFETY: blocks, tiles and views describe elements inside live buffers.
        unsafe {
            let columns = match input_as_it_lies(tile, views, input, &block) {
                Some(matrix) => matrix,
                None => columns(&mut scratch.columns, tile, views, input, terms, block.clone()),
            };
            let weights = match whole {
                Some(step) if is_f32::<T>() => {
                    weights_as_they_lie(tile, views, offsets[0], step, &block)
                }
                _ => weights(&mut scratch.weights, tile, views, &offsets, terms, block),
            };
            gemm_f32(&target, true, &columns, &weights, 1.0);
        }
    }
}

fn is_f32<T: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>()
}

/// A float32 matrix at `start`.
fn matrix(start: *mut f32, [rows, columns]: [usize; 2], strides: [isize; 2]) -> Matrix {
    let [row_stride, column_stride] = strides;
    Matrix { start: start.cast(), element: 4, rows, columns, row_stride, column_stride }
}

/// The sums as a matrix, pixels × channels.
fn target(sums: &mut Sums, tile: &Tile<'_>) -> Matrix {
    let sizes = [tile.pixels, tile.channels.len()];
    let strides = if sums.by_pixel { [sizes[1] as isize, 1] } else { [1, sizes[0] as isize] };
    matrix(sums.values.as_mut_ptr(), sizes, strides)
}

/// The input itself as pixels × terms, if the kernel has one tap and pixels are evenly spaced.
fn input_as_it_lies<T: Real>(
    tile: &Tile<'_>,
    views: &Views<T>,
    input: *const T,
    block: &Range<usize>,
) -> Option<Matrix> {
    let (first, step) =
        tile.lattice.even(&tile.runs, &views.in_strides).filter(|_| is_f32::<T>())?;
    let start = input.wrapping_offset(first + block.start as isize * views.in_channel);
    let sizes = [tile.pixels, block.len()];
    Some(matrix(start.cast::<f32>().cast_mut(), sizes, [step, views.in_channel]))
}

/// Gathers the input elements of a block of terms: pixels × terms, with pixels together, or terms
/// if those lie together in the input.
///
/// # Safety
/// The views lie inside live buffers; `input` is the tile's first channel.
unsafe fn columns<T: Real>(
    values: &mut Vec<f32>,
    tile: &Tile<'_>,
    views: &Views<T>,
    input: *const T,
    terms: Terms,
    block: Range<usize>,
) -> Matrix {
    let (pixels, count) = (tile.pixels, block.len());
    values.resize(pixels * count, 0.0);
    let step = tile.lattice.in_step(&views.in_strides);
    for (index, &tap) in tile.lattice.taps.iter().enumerate() {
        let mut of_tap = terms.of_tap(index, block.clone()).peekable();
        let Some(&(first, first_channel)) = of_tap.peek() else { continue };
        let channels = terms.of_tap(index, block.clone()).count();
        for run in &tile.runs {
            let segment = tile.lattice.segment(run, tap, &views.in_strides);
            let from = input.wrapping_offset(segment.offset);
            if terms.by_tap {
                for (i, pixel) in run.pixels().enumerate() {
                    let to = &mut values[pixel * count + first..][..channels];
                    if segment.inside.contains(&i) {
                        let at =
                            (i - segment.inside.start) as isize * step + first_channel as isize;
                        // SAFETY: the pixel is inside, and channels lie together.
                        unsafe { gather(from.offset(at), 1, to) };
                    } else {
                        to.fill(0.0);
                    }
                }
                continue;
            }
            for (term, channel) in terms.of_tap(index, block.clone()) {
                let to = &mut values[term * pixels..][run.pixels()];
                to[..segment.inside.start].fill(0.0);
                to[segment.inside.end..].fill(0.0);
                let to = &mut to[segment.inside.clone()];
                if !to.is_empty() {
                    // SAFETY: these pixels are inside.
                    unsafe { gather(from.offset(channel as isize * views.in_channel), step, to) };
                }
            }
        }
    }
    let strides = if terms.by_tap { [count as isize, 1] } else { [1, pixels as isize] };
    matrix(values.as_mut_ptr(), [pixels, count], strides)
}

/// Elements from the weight of each term to the next, if they are evenly spaced.
fn lined_up(terms: Terms, taps: &[isize], channel: isize) -> Option<isize> {
    let (inner, outer) = (terms.channels as isize, terms.taps as isize);
    let step = match (terms.taps, terms.channels) {
        (1, _) => channel,
        (_, 1) => taps[1] - taps[0],
        _ if terms.by_tap => channel,
        _ => taps[1] - taps[0],
    };
    let (tap, of_channel) = if terms.by_tap { (step * inner, step) } else { (step, step * outer) };
    let taps_fit = taps.iter().enumerate().all(|(i, at)| at - taps[0] == i as isize * tap);
    (taps_fit && (terms.channels == 1 || channel == of_channel)).then_some(step)
}

/// The weights themselves as terms × channels, `step` elements from each term to the next.
fn weights_as_they_lie<T: Real>(
    tile: &Tile<'_>,
    views: &Views<T>,
    first_tap: isize,
    step: isize,
    block: &Range<usize>,
) -> Matrix {
    let start = views
        .weight_of(tile.channels.start)
        .wrapping_offset(first_tap + block.start as isize * step);
    let sizes = [block.len(), tile.channels.len()];
    matrix(start.cast::<f32>().cast_mut(), sizes, [step, views.weight_out])
}

/// Gathers the weights of a block of terms: terms × channels, with terms together.
///
/// # Safety
/// The views lie inside live buffers.
unsafe fn weights<T: Real>(
    values: &mut Vec<f32>,
    tile: &Tile<'_>,
    views: &Views<T>,
    taps: &[isize],
    terms: Terms,
    block: Range<usize>,
) -> Matrix {
    let (count, channels) = (block.len(), tile.channels.len());
    values.resize(count * channels, 0.0);
    let even = lined_up(terms, taps, views.weight_in);
    let offset = |term: usize| {
        let (channel, tap) = if terms.by_tap {
            (term % terms.channels, term / terms.channels)
        } else {
            (term / terms.taps, term % terms.taps)
        };
        channel as isize * views.weight_in + taps[tap]
    };
    let offsets: Vec<isize> = block.map(offset).collect();
    for (to, channel) in values.chunks_exact_mut(count).zip(tile.channels.clone()) {
        let from = views.weight_of(channel);
        // SAFETY: terms and channels are those of the weight.
        unsafe {
            if let Some(step) = even {
                gather(from.offset(offsets[0]), step, to);
                continue;
            }
            for (to, &at) in to.iter_mut().zip(&offsets) {
                *to = from.offset(at).read().to_f32();
            }
        }
    }
    matrix(values.as_mut_ptr(), [count, channels], [1, count as isize])
}
