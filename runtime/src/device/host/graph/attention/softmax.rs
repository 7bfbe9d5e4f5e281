//! Softmax over blocks of scores, one after the other.

use pulp::{Arch, Simd, WithSimd};

/// Numbers that are computed side by side: a multiple of every vector's length.
const LANES: usize = 16;

/// What is known about the rows of a block after some blocks of keys.
#[derive(Debug, Default)]
pub struct Running {
    /// For each row `Σ exp(score - maximum) · value`, as far as it has come.
    pub sums: Vec<f32>,
    /// For each row the largest score, -∞ without any.
    maxima: Vec<f32>,
    /// For each row `Σ exp(score - maximum)`.
    totals: Vec<f32>,
    /// The maxima that the exponentials of each block of keys were computed with.
    history: Vec<f32>,
}

/// What the exponentials of a row are multiplied by in the end.
#[derive(Debug)]
pub struct Weighting<'a> {
    maxima: std::iter::StepBy<std::slice::Iter<'a, f32>>,
    maximum: f32,
    total: f32,
}

impl Running {
    /// Begins with `rows` rows of values of `size` elements.
    pub fn reset(&mut self, rows: usize, size: usize) {
        self.history.clear();
        for (numbers, len, value) in [
            (&mut self.sums, rows * size, 0.0),
            (&mut self.maxima, rows, f32::NEG_INFINITY),
            (&mut self.totals, rows, 0.0),
        ] {
            numbers.clear();
            numbers.resize(len, value);
        }
    }

    /// Replaces a block of scores, a row after the other, by exponentials, and brings the sums
    /// to the new maxima.
    pub fn exponentials(&mut self, scores: &mut [f32]) {
        // Chooses the vector instructions of this processor.
        Arch::new().dispatch(Exponentials { running: self, scores });
        self.history.extend_from_slice(&self.maxima);
    }

    /// Passes over a block of keys that are masked for all rows.
    pub fn skip(&mut self) {
        self.history.extend_from_slice(&self.maxima);
    }

    /// The factors of a row's exponentials.
    pub fn weighting(&self, row: usize) -> Weighting<'_> {
        let rows = self.maxima.len();
        Weighting {
            maxima: self.history.get(row..).unwrap_or_default().iter().step_by(rows),
            maximum: self.maxima[row],
            total: self.totals[row],
        }
    }
}

impl Weighting<'_> {
    /// The factor of the last block, and of the sums.
    pub fn last(&self) -> f32 {
        // Only a row that is masked all over has no total; its sums are 0 and stay it.
        if self.total == 0.0 { 1.0 } else { 1.0 / self.total }
    }

    /// The factor of a block of keys.
    pub fn of_block(&self, block: usize) -> f32 {
        let maximum = *self.maxima.clone().nth(block).expect("a block that was passed");
        (maximum - finite_base(self.maximum)).exp() * self.last()
    }
}

/// What is subtracted from scores: their maximum, unless all are -∞.
#[inline(always)]
fn finite_base(maximum: f32) -> f32 {
    if maximum == f32::NEG_INFINITY { 0.0 } else { maximum }
}

struct Exponentials<'a> {
    running: &'a mut Running,
    scores: &'a mut [f32],
}

impl WithSimd for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Running { sums, maxima, totals, .. } = self.running;
        let rows = maxima.len();
        let (keys, size) = (self.scores.len() / rows, sums.len() / rows);
        for (row, scores) in self.scores.chunks_exact_mut(keys).enumerate() {
            let before = maxima[row];
            let maximum = largest(scores, before);
            let base = finite_base(maximum);
            let total = exponentials_of(scores, base);
            let factor = exp(before - base);
            if factor != 1.0 {
                for sum in &mut sums[row * size..][..size] {
                    *sum *= factor;
                }
            }
            totals[row] = totals[row] * factor + total;
            maxima[row] = maximum;
        }
    }
}

/// The largest of `first` and the numbers, NaN aside.
#[inline(always)]
fn largest(numbers: &[f32], first: f32) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let mut lanes = [first; LANES];
    for chunk in chunks {
        for (lane, &number) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, number);
        }
    }
    lanes.iter().chain(rest).fold(first, |a, &b| larger(a, b))
}

/// Replaces numbers by `exp(number - base)` and gives their sum.
#[inline(always)]
fn exponentials_of(numbers: &mut [f32], base: f32) -> f32 {
    let (chunks, rest) = numbers.as_chunks_mut::<LANES>();
    let mut lanes = [0f32; LANES];
    for chunk in chunks {
        for (lane, number) in lanes.iter_mut().zip(chunk) {
            *number = exp(*number - base);
            *lane += *number;
        }
    }
    let mut sum: f32 = lanes.iter().sum();
    for number in rest {
        *number = exp(*number - base);
        sum += *number;
    }
    sum
}

/// e to the power of `x`, for `x` up to 88, within 2 units in the last place; 0 where the result
/// would be no normal number. Without a branch, so that a loop over it becomes vector code.
///
/// `2^n · e^r` with whole `n` and `|r| ≤ ln 2 / 2`: the first is put together from its bits, the
/// second is a polynomial (Cephes, `expf`).
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LOWEST: f32 = -87.336_54;
    /// Adding it leaves a whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // Written so that NaN stays NaN.
    let inside = if x < LOWEST { LOWEST } else { x };
    let shifted = inside * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = inside - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_2e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_66, 0.5] {
        p = p * r + c;
    }
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    let value = (p * r * r + r + 1.0) * power;
    if x < LOWEST { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right() {
        let mut worst = 0f64;
        for i in 0..=1_000_000 {
            let x = -87.3 + i as f32 * (87.3 + 88.0) / 1_000_000.0;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 2.5e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        for low in [-87.4, -1e3, -1e30, f32::NEG_INFINITY] {
            assert_eq!(exp(low), 0.0, "{low}");
        }
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn blocks_make_the_softmax_of_the_whole() {
        let scores: Vec<f32> = (0..100).map(|i| ((i * 37) % 23) as f32 - 11.0).collect();
        let mut running = Running::default();
        running.reset(1, 1);
        let mut blocks = [scores[..40].to_vec(), scores[40..].to_vec()];
        for block in &mut blocks {
            running.exponentials(block);
            running.sums[0] += block.iter().sum::<f32>();
        }
        let weighting = running.weighting(0);
        assert!((running.sums[0] * weighting.last() - 1.0).abs() < 1e-6);
        let total: f64 = scores.iter().map(|&s| f64::from(s).exp()).sum();
        let got = blocks.iter().enumerate().flat_map(|(i, block)| {
            let factor = weighting.of_block(i);
            block.iter().map(move |v| v * factor)
        });
        for (got, &score) in got.zip(&scores) {
            let exact = f64::from(score).exp() / total;
            assert!((f64::from(got) - exact).abs() < 1e-6 * exact + 1e-12);
        }
    }

    #[test]
    fn nothing_but_masked_scores_gives_zeros_and_nan_gives_nan() {
        let mut running = Running::default();
        running.reset(2, 1);
        let mut scores = [f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NAN];
        running.exponentials(&mut scores);
        assert_eq!(scores[..2], [0.0, 0.0]);
        assert!(scores[3].is_nan());
        assert_eq!(running.weighting(0).last(), 1.0);
        assert_eq!(running.weighting(0).of_block(0), 0.0);
        assert!(running.weighting(1).last().is_nan());
    }
}
