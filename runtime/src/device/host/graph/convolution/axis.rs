//! Which input element meets which tap of the kernel, along one dimension.

use std::ops::Range;

/// One tap of the kernel along an axis.
#[derive(Debug, Clone)]
pub struct Tap {
    /// Its index in the kernel.
    pub kernel: usize,
    /// The input element that it meets at position 0, which may lie outside.
    pub offset: isize,
    /// The positions at which it meets an element.
    pub inside: Range<usize>,
}

/// Evenly spaced results along one dimension that use the same taps: position `j` is result
/// `first + j · step`, for which a tap meets input element `j · in_step + offset`.
///
/// A convolution is one axis a dimension. A transposed one is several: with a stride of 2, even
/// results use other taps than odd ones, so that no tap ever meets a gap between inputs.
#[derive(Debug, Clone)]
pub struct Axis {
    pub first: usize,
    pub step: usize,
    pub count: usize,
    pub in_step: usize,
    /// Elements of the input.
    pub input: usize,
    pub taps: Vec<Tap>,
}

/// Sizes and parameters along one dimension.
#[derive(Debug, Clone, Copy)]
pub struct Dimension {
    pub input: usize,
    pub out: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
}

impl Dimension {
    /// A dimension that the kernel does not move along: the batch, or one that is not there.
    pub fn untouched(size: usize) -> Dimension {
        Dimension { input: size, out: size, kernel: 1, stride: 1, padding: 0, dilation: 1 }
    }

    /// The axis of a convolution.
    pub fn axis(&self) -> Axis {
        let offset = |kernel: usize| (kernel * self.dilation) as isize - self.padding as isize;
        let mut axis = Axis {
            first: 0,
            step: 1,
            count: self.out,
            in_step: self.stride,
            input: self.input,
            taps: Vec::new(),
        };
        axis.taps = (0..self.kernel).map(|k| axis.tap(k, offset(k), self.input)).collect();
        axis
    }

    /// The axes of a transposed convolution: one for each remainder of the stride.
    pub fn transposed_axes(&self) -> Vec<Axis> {
        let stride = self.stride as isize;
        let remainder = |first: usize| {
            let count = (self.out - first).div_ceil(self.stride);
            let (step, input) = (self.stride, self.input);
            let mut axis = Axis { first, step, count, in_step: 1, input, taps: Vec::new() };
            for k in 0..self.kernel {
                // Input `y` reaches result `y · stride - padding + k · dilation`.
                let distance = (first + self.padding) as isize - (k * self.dilation) as isize;
                if distance % stride == 0 {
                    let tap = axis.tap(k, distance / stride, self.input);
                    axis.taps.push(tap);
                }
            }
            axis
        };
        (0..self.stride.min(self.out)).map(remainder).collect()
    }
}

impl Axis {
    fn tap(&self, kernel: usize, offset: isize, input: usize) -> Tap {
        // The first position that reaches input element `at` or a later one.
        let reaching = |at: usize| {
            let distance = (at as isize - offset).max(0) as usize;
            distance.div_ceil(self.in_step).min(self.count)
        };
        let (start, end) = (reaching(0), reaching(input));
        Tap { kernel, offset, inside: start..end.max(start) }
    }

    /// The input element that `tap` meets at a position, if it meets one.
    pub fn input(&self, tap: &Tap, position: usize) -> Option<usize> {
        tap.inside
            .contains(&position)
            .then(|| ((position * self.in_step) as isize + tap.offset) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All (result, tap, input) that meet, by the definition.
    fn expected(d: Dimension, transposed: bool) -> Vec<(usize, usize, usize)> {
        let mut all = Vec::new();
        for out in 0..d.out {
            for k in 0..d.kernel {
                for input in 0..d.input {
                    let (near, far) = if transposed { (input, out) } else { (out, input) };
                    if near * d.stride + k * d.dilation == far + d.padding {
                        all.push((out, k, input));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn axes_are_the_definition() {
        let mut count = 0;
        for (input, kernel, stride, padding, dilation) in [
            (5, 3, 1, 1, 1),
            (7, 3, 2, 1, 1),
            (4, 1, 3, 2, 1),
            (6, 2, 2, 3, 3),
            (3, 4, 4, 0, 2),
            (1, 3, 1, 4, 5),
            (0, 2, 1, 3, 1),
        ] {
            for out in 0..9 {
                let d = Dimension { input, out, kernel, stride, padding, dilation };
                for transposed in [false, true] {
                    let axes = if transposed { d.transposed_axes() } else { vec![d.axis()] };
                    let mut met = Vec::new();
                    let mut outs = Vec::new();
                    for axis in &axes {
                        for j in 0..axis.count {
                            let out = axis.first + j * axis.step;
                            outs.push(out);
                            for tap in &axis.taps {
                                if let Some(input) = axis.input(tap, j) {
                                    met.push((out, tap.kernel, input));
                                }
                            }
                        }
                    }
                    met.sort_unstable();
                    outs.sort_unstable();
                    assert_eq!(met, expected(d, transposed), "{d:?} {transposed}");
                    assert_eq!(outs, (0..out).collect::<Vec<_>>(), "{d:?} {transposed}");
                    count += met.len();
                }
            }
        }
        assert!(count > 100, "{count}");
    }
}
