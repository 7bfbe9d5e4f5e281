//! Op graphs as plain loops over numbers.

/// `a @ b` for matrices of `m` by `k` and `k` by `n`.
pub fn matmul(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let element = |i: usize| {
        let (row, column) = (i / n, i % n);
        (0..k).map(|t| a[row * k + t] * b[t * n + column]).sum()
    };
    (0..m * n).map(element).collect()
}

/// A convolution: sizes with three spatial dimensions, of which some may be 1.
#[derive(Debug, Clone, Copy)]
pub struct Convolution {
    /// `[n, c, z, y, x]`.
    pub input: [usize; 5],
    /// `[o, c / groups, z, y, x]`; transposed `[c, o / groups, z, y, x]`.
    pub weight: [usize; 5],
    /// `[n, o, z, y, x]`.
    pub out: [usize; 5],
    /// For each spatial dimension.
    pub stride: [usize; 3],
    /// For each spatial dimension.
    pub padding: [usize; 3],
    /// For each spatial dimension.
    pub dilation: [usize; 3],
    /// Groups of channels.
    pub groups: usize,
    /// Whether it is transposed.
    pub transposed: bool,
}

impl Convolution {
    /// The result, without a bias.
    pub fn compute(&self, input: &[f64], weight: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.out.iter().product()];
        // The wide side has an element for each tap of each element of the narrow side.
        let narrow = if self.transposed { self.input } else { self.out };
        let wide = if self.transposed { self.out } else { self.input };
        let (per_group, other) = (narrow[1] / self.groups, wide[1] / self.groups);
        for place in indices(&narrow) {
            let group = place[1] / per_group;
            let taps = [other, self.weight[2], self.weight[3], self.weight[4]];
            for tap in indices(&taps) {
                let mut far = [place[0], group * other + tap[0], 0, 0, 0];
                let inside = (0..3).all(|d| {
                    let at = place[d + 2] * self.stride[d] + tap[d + 1] * self.dilation[d];
                    far[d + 2] = at.wrapping_sub(self.padding[d]);
                    far[d + 2] < wide[d + 2]
                });
                if !inside {
                    continue;
                }
                let factor = [place[1], tap[0], tap[1], tap[2], tap[3]];
                let factor = weight[flat(&factor, &self.weight)];
                let (near, far) = (flat(&place, &narrow), flat(&far, &wide));
                if self.transposed {
                    out[far] += input[near] * factor;
                } else {
                    out[near] += input[far] * factor;
                }
            }
        }
        out
    }
}

/// All indices of these sizes, in row-major order.
fn indices<const N: usize>(sizes: &[usize; N]) -> impl Iterator<Item = [usize; N]> + use<N> {
    let sizes = *sizes;
    (0..sizes.iter().product::<usize>()).map(move |mut flat| {
        let mut index = [0; N];
        for d in (0..N).rev() {
            index[d] = flat % sizes[d];
            flat /= sizes[d];
        }
        index
    })
}

fn flat<const N: usize>(index: &[usize; N], sizes: &[usize; N]) -> usize {
    index.iter().zip(sizes).fold(0, |flat, (&i, &size)| flat * size + i)
}

/// The places of a row's elements in their order: stable, NaN the greatest.
pub fn order(row: &[f64], descending: bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..row.len()).collect();
    let compare = |&a: &usize, &b: &usize| match (row[a].is_nan(), row[b].is_nan()) {
        (true, true) => std::cmp::Ordering::Equal,
        (true, false) => std::cmp::Ordering::Greater,
        (false, true) => std::cmp::Ordering::Less,
        (false, false) => row[a].partial_cmp(&row[b]).unwrap_or(std::cmp::Ordering::Equal),
    };
    if descending {
        places.sort_by(|a, b| compare(b, a));
    } else {
        places.sort_by(compare);
    }
    places
}

/// Running sums or products of a row.
pub fn scan(row: &[f64], step: impl Fn(f64, f64) -> f64, first: f64) -> Vec<f64> {
    row.iter()
        .scan(first, |so_far, &value| {
            *so_far = step(*so_far, value);
            Some(*so_far)
        })
        .collect()
}
