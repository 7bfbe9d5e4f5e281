//! The results of a convolution that use the same taps, and the input elements behind them.

use std::ops::Range;

use smallvec::SmallVec;

use super::axis::{Axis, Dimension};

/// Dimensions that a kernel is moved along: batch, depth, height, width. The batch has one tap;
/// so have depth and height if there are none.
pub const DIMENSIONS: usize = 4;

/// Evenly spaced results in all dimensions that use the same taps. Its pixels are numbered with
/// the last dimension innermost; each stands for all channels.
#[derive(Debug)]
pub struct Lattice {
    pub axes: [Axis; DIMENSIONS],
    /// Each tap by its index along every axis, in the order of the kernel.
    pub taps: Vec<[usize; DIMENSIONS]>,
}

/// Strides, in elements, of the dimensions that a kernel is moved along.
pub type Strides = [isize; DIMENSIONS];

/// Pixels that are neighbours along the last dimension.
#[derive(Debug, Clone)]
pub struct Run {
    /// How many pixels of the tile come before it.
    pub at: usize,
    /// Position along the outer axes.
    pub outer: [usize; DIMENSIONS - 1],
    /// Positions along the last axis.
    pub inner: Range<usize>,
}

impl Run {
    /// Its pixels in the tile.
    pub fn pixels(&self) -> Range<usize> {
        self.at..self.at + self.inner.len()
    }
}

/// What one tap meets along a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment {
    /// Pixels of the run, from 0, for which the tap meets an input element.
    pub inside: Range<usize>,
    /// Input element of the first of them, relative to the first of the channel.
    pub offset: isize,
}

impl Lattice {
    fn new(axes: [Axis; DIMENSIONS]) -> Lattice {
        let counts: [usize; DIMENSIONS] = std::array::from_fn(|d| axes[d].taps.len());
        let total = counts.iter().product();
        let taps = (0..total).map(|index| split(index, counts)).collect();
        Lattice { axes, taps }
    }

    /// The lattices that make up the result.
    pub fn all(dimensions: &[Dimension; DIMENSIONS], transposed: bool) -> Vec<Lattice> {
        let axes = dimensions
            .each_ref()
            .map(|d| if transposed { d.transposed_axes() } else { vec![d.axis()] });
        let counts = axes.each_ref().map(Vec::len);
        let total: usize = counts.iter().product();
        let lattice = |index| {
            let choice = split(index, counts);
            Lattice::new(std::array::from_fn(|d| axes[d][choice[d]].clone()))
        };
        (0..total).map(lattice).collect()
    }

    /// Pixels of one image.
    pub fn image(&self) -> usize {
        self.axes[1..].iter().map(|axis| axis.count).product()
    }

    /// Images.
    pub fn images(&self) -> usize {
        self.axes[0].count
    }

    /// Pixels of all images.
    pub fn pixels(&self) -> usize {
        self.images() * self.image()
    }

    /// Cuts a range of pixels into runs.
    pub fn runs(&self, pixels: Range<usize>) -> Vec<Run> {
        let counts: [usize; DIMENSIONS] = std::array::from_fn(|d| self.axes[d].count);
        let mut runs = Vec::new();
        let mut next = pixels.start;
        while next < pixels.end {
            let [outer @ .., first] = split(next, counts);
            let len = (counts[DIMENSIONS - 1] - first).min(pixels.end - next);
            runs.push(Run { at: next - pixels.start, outer, inner: first..first + len });
            next += len;
        }
        runs
    }

    /// What a tap meets along a run, in an input of these strides.
    pub fn segment(&self, run: &Run, tap: [usize; DIMENSIONS], strides: &Strides) -> Segment {
        let nothing = Segment { inside: 0..0, offset: 0 };
        let mut offset = 0;
        for d in 0..DIMENSIONS - 1 {
            let axis = &self.axes[d];
            match axis.input(&axis.taps[tap[d]], run.outer[d]) {
                Some(at) => offset += at as isize * strides[d],
                None => return nothing,
            }
        }
        let axis = &self.axes[DIMENSIONS - 1];
        let tap = &axis.taps[tap[DIMENSIONS - 1]];
        let start = run.inner.start.max(tap.inside.start);
        let end = run.inner.end.min(tap.inside.end);
        let Some(at) = (start < end).then(|| axis.input(tap, start)).flatten() else {
            return nothing;
        };
        Segment {
            inside: start - run.inner.start..end - run.inner.start,
            offset: offset + at as isize * strides[DIMENSIONS - 1],
        }
    }

    /// Input elements from a pixel of a run to the next.
    pub fn in_step(&self, strides: &Strides) -> isize {
        // A step that is taken at all was checked with the addresses that it leads to.
        (self.axes[DIMENSIONS - 1].in_step as isize).wrapping_mul(strides[DIMENSIONS - 1])
    }

    /// Element of the result of a run's first pixel, relative to the first of the channel.
    pub fn out_offset(&self, run: &Run, strides: &Strides) -> isize {
        let at = |d: usize, position: usize| {
            let axis = &self.axes[d];
            (axis.first + position * axis.step) as isize * strides[d]
        };
        let outer: isize = (0..DIMENSIONS - 1).map(|d| at(d, run.outer[d])).sum();
        outer + at(DIMENSIONS - 1, run.inner.start)
    }

    /// Elements of the result from a pixel of a run to the next.
    pub fn out_step(&self, strides: &Strides) -> isize {
        (self.axes[DIMENSIONS - 1].step as isize).wrapping_mul(strides[DIMENSIONS - 1])
    }

    /// Elements of the weight from the first tap of the kernel to each of these.
    pub fn tap_offsets(&self, strides: &[isize; DIMENSIONS - 1]) -> Vec<isize> {
        let offset = |tap: &[usize; DIMENSIONS]| -> isize {
            let along = |d: usize| self.axes[d].taps[tap[d]].kernel as isize * strides[d - 1];
            (1..DIMENSIONS).map(along).sum()
        };
        self.taps.iter().map(offset).collect()
    }

    /// If the pixels of the runs are evenly spaced in the input and each meets its only tap: the
    /// element of the first, and the elements from each to the next.
    pub fn even(&self, runs: &[Run], strides: &Strides) -> Option<(isize, isize)> {
        let &[tap] = self.taps.as_slice() else { return None };
        let inner = self.in_step(strides);
        let mut segments = SmallVec::<[(usize, isize); 16]>::new();
        for run in runs {
            let segment = self.segment(run, tap, strides);
            if segment.inside != (0..run.inner.len()) {
                return None;
            }
            segments.push((run.at, segment.offset));
        }
        let (_, first) = *segments.first()?;
        let step = match segments.get(1) {
            Some(&(1, second)) => second - first,
            _ => inner,
        };
        let fits = |&(at, offset): &(usize, isize)| offset == first + at as isize * step;
        let rows_fit = step == inner || runs.iter().all(|run| run.inner.len() == 1);
        (rows_fit && segments.iter().all(fits)).then_some((first, step))
    }
}

/// The position with this number in a box of these sizes, the last dimension innermost.
fn split(mut index: usize, counts: [usize; DIMENSIONS]) -> [usize; DIMENSIONS] {
    let mut position = [0; DIMENSIONS];
    for d in (0..DIMENSIONS).rev() {
        position[d] = index % counts[d];
        index /= counts[d];
    }
    position
}
