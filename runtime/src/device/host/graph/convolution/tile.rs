//! What a thread does at once: some pixels of some channels.

use std::ops::Range;

use super::super::matmul::Real;
use super::Views;
use super::lattice::{Lattice, Run};

/// Part of the result: pixels of a lattice, and channels of one or more groups.
#[derive(Debug)]
pub struct Tile<'a> {
    pub lattice: &'a Lattice,
    pub runs: Vec<Run>,
    pub pixels: usize,
    /// Channels of the result.
    pub channels: Range<usize>,
}

/// The float32 sums of a tile, one for each pixel and channel.
#[derive(Debug)]
pub struct Sums {
    pub values: Vec<f32>,
    /// Whether the channels of a pixel lie together, and not the pixels of a channel.
    pub by_pixel: bool,
}

impl Sums {
    /// The bias as the first term of every sum; without a choice of `by_pixel`, in the order in
    /// which the result lies.
    ///
    /// # Safety
    /// The views lie inside live buffers.
    pub unsafe fn start<T: Real>(
        mut values: Vec<f32>,
        tile: &Tile<'_>,
        views: &Views<T>,
        by_pixel: Option<bool>,
    ) -> Sums {
        let channels = tile.channels.len();
        let by_pixel = by_pixel.unwrap_or_else(|| {
            channels > 1 && views.out_channel < tile.lattice.out_step(&views.out_strides)
        });
        values.clear();
        // SAFETY: the caller's promise.
        let bias = tile.channels.clone().map(|channel| unsafe { views.bias_of(channel) });
        if by_pixel {
            values.extend(bias);
            values.reserve((tile.pixels - 1) * channels);
            for _ in 1..tile.pixels {
                values.extend_from_within(..channels);
            }
        } else {
            values.reserve(tile.pixels * channels);
            bias.for_each(|bias| values.extend(std::iter::repeat_n(bias, tile.pixels)));
        }
        Sums { values, by_pixel }
    }

    /// Rounds the sums into the result.
    ///
    /// # Safety
    /// The views lie inside live buffers, and nobody else uses the tile's part of the result.
    pub unsafe fn store<T: Real>(&self, tile: &Tile<'_>, views: &Views<T>) {
        let channels = tile.channels.len();
        let step = tile.lattice.out_step(&views.out_strides);
        let first = tile.channels.start as isize * views.out_channel;
        for run in &tile.runs {
            let to = tile.lattice.out_offset(run, &views.out_strides) + first;
            // SAFETY: pixels and channels are those of the result.
            unsafe {
                if self.by_pixel {
                    for (i, pixel) in run.pixels().enumerate() {
                        let from = &self.values[pixel * channels..][..channels];
                        let to = views.out.offset(to + i as isize * step);
                        scatter(from, to, views.out_channel);
                    }
                } else {
                    for channel in 0..channels {
                        let from = &self.values[channel * tile.pixels..][run.pixels()];
                        let to = views.out.offset(to + channel as isize * views.out_channel);
                        scatter(from, to, step);
                    }
                }
            }
        }
    }
}

/// Rounds numbers into elements that lie `step` apart.
///
/// # Safety
/// The elements lie inside a live buffer, and nobody else uses them.
pub unsafe fn scatter<T: Real>(from: &[f32], to: *mut T, step: isize) {
    if step == 1 {
        // SAFETY: the elements lie one after the other.
        return T::pack(from, unsafe { std::slice::from_raw_parts_mut(to, from.len()) });
    }
    for (i, &value) in from.iter().enumerate() {
        // SAFETY: as for the function.
        unsafe { to.offset(i as isize * step).write(T::from_f32(value)) };
    }
}

/// Reads elements that lie `step` apart.
///
/// # Safety
/// The elements lie inside a live buffer.
pub unsafe fn gather<T: Real>(from: *const T, step: isize, to: &mut [f32]) {
    if step == 1 {
        // SAFETY: the elements lie one after the other.
        return T::unpack(unsafe { std::slice::from_raw_parts(from, to.len()) }, to);
    }
    for (i, to) in to.iter_mut().enumerate() {
        // SAFETY: as for the function.
        *to = unsafe { from.offset(i as isize * step).read() }.to_f32();
    }
}
