//! The rows of operands along one dimension.

use smallvec::SmallVec;

use crate::device::Operand;

/// The rows along one dimension of `N` operands whose other sizes agree.
#[derive(Debug)]
pub struct Rows<const N: usize> {
    /// The other dimensions that have more than one position, the first operand's densest last.
    others: SmallVec<[Dimension<N>; 6]>,
    /// Elements between neighbours in a row.
    pub steps: [isize; N],
}

/// One dimension of all operands.
#[derive(Debug, Clone, Copy)]
pub struct Dimension<const N: usize> {
    /// Positions.
    pub size: usize,
    /// Elements between neighbours.
    pub strides: [isize; N],
}

impl<const N: usize> Rows<N> {
    /// The rows along `dim`.
    pub fn new(operands: [&Operand; N], dim: usize) -> Self {
        let strides = |d: usize| operands.map(|operand| operand.strides[d] as isize);
        let sizes = &operands[0].sizes;
        let mut others: SmallVec<[Dimension<N>; 6]> = (0..sizes.len())
            .filter(|&d| d != dim && sizes[d] != 1)
            .map(|d| Dimension { size: sizes[d] as usize, strides: strides(d) })
            .collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.strides[0]));
        Rows { others, steps: strides(dim) }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.others.iter().map(|other| other.size as u64).product()
    }

    /// Offsets in elements of the first element of a row.
    pub fn start(&self, mut row: u64) -> [isize; N] {
        let mut at = [0; N];
        for other in self.others.iter().rev() {
            let i = (row % other.size as u64) as isize;
            row /= other.size as u64;
            for (at, stride) in at.iter_mut().zip(other.strides) {
                *at += i * stride;
            }
        }
        at
    }

    /// Takes the dimension out in which the first operand is densest: [`Rows::count`] and
    /// [`Rows::start`] are then about groups of such neighbours.
    pub fn take_densest(&mut self) -> Dimension<N> {
        self.others.pop().unwrap_or(Dimension { size: 1, strides: [0; N] })
    }
}
