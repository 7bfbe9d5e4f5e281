//! How the work of a convolution is shared out.

use std::ops::Range;

use super::lattice::{DIMENSIONS, Lattice};
use super::{Geometry, Views, window};
use crate::device::host::threads::Threads;

/// How products are added to the sums of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By products of matrices.
    Product,
    /// From a window of the input.
    Window,
    /// One channel at a time, a run of pixels at once.
    ByChannel,
    /// One pixel at a time, all channels of the tile at once: depthwise, with channels together.
    ByPixel,
}

/// Pixels of a tile, at most, and fewest that are worth a tile of their own.
const MOST_PIXELS: usize = 256;
const LEAST_PIXELS: usize = 64;
/// Channels of a tile, at most, and fewest that are worth a tile of their own.
const MOST_CHANNELS: usize = 512;
const LEAST_CHANNELS: usize = 16;
/// The same for tiles from windows, which are copied anew for each cut of channels, with rows
/// that neighbouring tiles share.
const MOST_PIXELS_BY_WINDOW: usize = 512;
const MOST_CHANNELS_BY_WINDOW: usize = 21 * window::CHANNELS;
/// The same for groups of one channel.
const MOST_PIXELS_OF_LONE: usize = 4096;
/// The same for tiles whose channels are computed one at a time: the sums of as many pixels and
/// channels stay in the first level cache.
const MOST_PIXELS_BY_CHANNEL: usize = 512;
const MOST_CHANNELS_BY_CHANNEL: usize = 16;
/// Channels of a group up to which gathering input elements does not pay.
const FEW_CHANNELS: usize = 4;

/// Multiplications below which waking a sleeping thread, or using one that is awake, costs more
/// than it saves.
const WORK_FOR_SLEEPING: usize = 1 << 20;
const WORK_FOR_AWAKE: usize = 1 << 17;
/// What a result costs beyond its multiplications, in these.
const COST_OF_RESULT: usize = 8;

/// The tiles of a convolution, numbered.
#[derive(Debug)]
pub struct Work {
    pub method: Method,
    /// Tiles that one thread takes at once.
    pub chunk: usize,
    lattices: Vec<Cut>,
    /// Channels of one cut: those of a group, or all if groups are computed together.
    channels: usize,
    channels_of_tile: usize,
    /// Cuts of that many channels.
    groups: usize,
}

/// How one lattice is cut.
#[derive(Debug)]
struct Cut {
    /// Tiles of the lattices before it.
    before: usize,
    image: usize,
    images: usize,
    /// Pixels of a tile if an image has more, else images of a tile.
    pixels_of_tile: usize,
    images_of_tile: usize,
}

impl Cut {
    /// Cuts images into parts of at most `most` pixels: of whole rows if `by_rows`, as far as they
    /// are short enough.
    fn new(before: usize, lattice: &Lattice, most: usize, by_rows: bool, threads: usize) -> Cut {
        let (image, images) = (lattice.image(), lattice.images());
        let mut parts = image.div_ceil(most).max(1);
        if parts > 1 {
            // As many for each thread.
            parts = parts.next_multiple_of(threads);
        }
        let row = lattice.axes[DIMENSIONS - 1].count;
        let step = if by_rows && (1..=most).contains(&row) { row } else { 16 };
        let pixels_of_tile = image.div_ceil(parts).next_multiple_of(step);
        let pixels_of_tile = pixels_of_tile.min(most / step * step).min(image.max(1));
        let images_of_tile =
            if parts > 1 { 1 } else { (most / image.max(1)).clamp(1, images.max(1)) };
        Cut { before, image, images, pixels_of_tile, images_of_tile }
    }

    fn tiles_of_image(&self) -> usize {
        self.image.div_ceil(self.pixels_of_tile)
    }

    fn tiles(&self) -> usize {
        self.tiles_of_image() * self.images.div_ceil(self.images_of_tile)
    }

    fn pixels(&self, tile: usize) -> Range<usize> {
        let (images, part) = (tile / self.tiles_of_image(), tile % self.tiles_of_image());
        let first = images * self.images_of_tile;
        if self.images_of_tile > 1 {
            let end = (first + self.images_of_tile).min(self.images);
            return first * self.image..end * self.image;
        }
        let start = part * self.pixels_of_tile;
        let end = (start + self.pixels_of_tile).min(self.image);
        first * self.image + start..first * self.image + end
    }
}

impl Work {
    /// Chooses a method and cuts up the result.
    pub fn new<T>(geometry: &Geometry, views: &Views<T>, threads: &Threads) -> Work {
        let method = method(geometry, views);
        let together = matches!(method, Method::ByChannel | Method::ByPixel);
        let (channels, groups) = if together {
            (geometry.out_channels, 1)
        } else {
            (views.out_channels, geometry.groups)
        };
        let least = if threads.is_warm() { WORK_FOR_AWAKE } else { WORK_FOR_SLEEPING };
        let cost_of = |lattice: &Lattice| {
            let of_result = lattice.taps.len().saturating_mul(views.in_channels) + COST_OF_RESULT;
            lattice.pixels().saturating_mul(geometry.out_channels).saturating_mul(of_result)
        };
        let cost = geometry.lattices.iter().map(cost_of).fold(1, usize::saturating_add);
        // Several shares a thread, so that all end at about the same time.
        let shares = (cost / least).min(4 * threads.count());
        let (mut pixels_of_tile, most_channels) = most(method, views.out_channels);
        let step = if method == Method::Window { window::CHANNELS } else { 16 };
        let mut channels_of_tile = channels.clamp(1, most_channels);
        loop {
            let of_tile = [pixels_of_tile, channels_of_tile];
            let work = Work::cut(geometry, method, [channels, groups], of_tile, threads.count());
            let tiles = work.tiles();
            let (fewer_pixels, fewer_channels) =
                (pixels_of_tile / 2, (channels_of_tile / 2).next_multiple_of(step));
            if tiles < shares && fewer_pixels >= LEAST_PIXELS {
                pixels_of_tile = fewer_pixels;
            } else if tiles < shares
                && fewer_channels >= LEAST_CHANNELS
                && fewer_channels < channels_of_tile
            {
                channels_of_tile = fewer_channels;
            } else {
                return Work { chunk: least.div_ceil(cost.div_ceil(tiles.max(1))), ..work };
            }
        }
    }

    fn cut(
        geometry: &Geometry,
        method: Method,
        [channels, groups]: [usize; 2],
        [pixels_of_tile, channels_of_tile]: [usize; 2],
        threads: usize,
    ) -> Work {
        let mut work =
            Work { method, chunk: 1, lattices: Vec::new(), channels, channels_of_tile, groups };
        let mut before = 0;
        for lattice in &geometry.lattices {
            let cut = Cut::new(before, lattice, pixels_of_tile, method == Method::Window, threads);
            before += cut.tiles() * work.cuts_of_channels();
            work.lattices.push(cut);
        }
        work
    }

    fn cuts_of_channels(&self) -> usize {
        self.groups * self.channels.div_ceil(self.channels_of_tile)
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        self.lattices.last().map_or(0, |cut| cut.before + cut.tiles() * self.cuts_of_channels())
    }

    /// Lattice, pixels and channels of a tile.
    pub fn tile(&self, index: usize) -> (usize, Range<usize>, Range<usize>) {
        let lattice = self.lattices.partition_point(|cut| cut.before <= index) - 1;
        let cut = &self.lattices[lattice];
        let index = index - cut.before;
        let (pixels, part) = (index / self.cuts_of_channels(), index % self.cuts_of_channels());
        let of_group = self.channels.div_ceil(self.channels_of_tile);
        let (group, part) = (part / of_group, part % of_group);
        let start = part * self.channels_of_tile;
        let end = (start + self.channels_of_tile).min(self.channels);
        let first = group * self.channels;
        (lattice, cut.pixels(pixels), first + start..first + end)
    }
}

/// Pixels and channels of a tile, at most, where groups have so many channels.
fn most(method: Method, channels: usize) -> (usize, usize) {
    match method {
        Method::Window if channels == 1 => (MOST_PIXELS_OF_LONE, 1),
        Method::Product | Method::ByPixel => (MOST_PIXELS, MOST_CHANNELS),
        Method::Window => (MOST_PIXELS_BY_WINDOW, MOST_CHANNELS_BY_WINDOW),
        Method::ByChannel => (MOST_PIXELS_BY_CHANNEL, MOST_CHANNELS_BY_CHANNEL),
    }
}

fn method<T>(geometry: &Geometry, views: &Views<T>) -> Method {
    let depthwise = views.in_channels == 1 && views.out_channels == 1 && geometry.groups > 1;
    let pointwise = geometry.lattices.iter().all(|lattice| lattice.taps.len() <= 1);
    if depthwise && views.in_channel == 1 {
        Method::ByPixel
    } else if geometry.lattices.iter().all(|lattice| window::suits(lattice, views)) {
        Method::Window
    } else if views.out_channels <= FEW_CHANNELS && (depthwise || !pointwise) {
        Method::ByChannel
    } else {
        Method::Product
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphKey, GraphOp};
    use crate::ops::testing::contiguous;
    use crate::tensor::DType;

    #[test]
    fn tiles_cover_the_result_once() {
        for (out, input, weight, stride, transposed, groups, method) in [
            ([1, 70, 40, 33], [1, 3, 40, 33], [70, 3, 1, 1], 1, false, 1, Method::Product),
            ([2, 600, 3, 7], [2, 600, 3, 7], [600, 300, 3, 3], 1, false, 2, Method::Window),
            ([1, 70, 40, 33], [1, 3, 40, 33], [70, 3, 3, 3], 1, false, 1, Method::Window),
            ([40, 20, 2, 5], [40, 20, 2, 5], [20, 1, 3, 3], 1, false, 20, Method::Window),
            ([3, 6, 31, 21], [3, 6, 10, 7], [6, 3, 4, 4], 3, true, 2, Method::ByChannel),
            ([3, 16, 31, 21], [3, 6, 10, 7], [6, 16, 3, 3], 3, true, 1, Method::Product),
        ] {
            let tensor = |sizes: &[i64]| contiguous(DType::F32, sizes, &[]);
            let tensors = [tensor(&out), tensor(&input), tensor(&weight)];
            let op = GraphOp::Convolution {
                stride: smallvec::smallvec![stride; 2],
                padding: smallvec::smallvec![1; 2],
                dilation: smallvec::smallvec![1; 2],
                transposed,
                groups,
            };
            let key = GraphKey::new(op, &tensors.each_ref());
            let geometry = Geometry::new(&key).unwrap();
            let operands = tensors.each_ref().map(|tensor| tensor.operand());
            let views = Views::<f32>::new(&geometry, &operands);
            for threads in [1, 3] {
                let work = Work::new(&geometry, &views, &Threads::new(threads));
                assert_eq!(work.method, method, "{key:?}");
                let channels = geometry.out_channels;
                let size = |lattice: &Lattice| lattice.pixels() * channels;
                let mut seen: Vec<_> =
                    geometry.lattices.iter().map(|lattice| vec![0; size(lattice)]).collect();
                for index in 0..work.tiles() {
                    let (lattice, pixels, of_tile) = work.tile(index);
                    let (most_pixels, most_channels) = most(method, views.out_channels);
                    assert!(pixels.len() <= most_pixels && of_tile.len() <= most_channels);
                    for pixel in pixels {
                        for channel in of_tile.clone() {
                            seen[lattice][pixel * channels + channel] += 1;
                        }
                    }
                }
                let results: usize = seen.iter().map(Vec::len).sum();
                assert_eq!(results, tensors[0].numel());
                assert!(seen.iter().flatten().all(|&n| n == 1), "{threads} threads, {key:?}");
            }
        }
    }
}
