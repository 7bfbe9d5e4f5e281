//! Which rows of activations meet which weights.

use std::ops::Range;

use crate::Result;
use crate::device::Operand;
use crate::device::host::graph::floats::Address;
use crate::error::err;
use crate::tensor::DType;

/// The rows of a product, those of one expert together.
#[derive(Debug)]
pub struct Rows {
    /// Rows of activations and of the result, in the order in which they are computed.
    order: Vec<usize>,
    /// The experts that have rows, each with its range of `order`.
    parts: Vec<(usize, Range<usize>)>,
}

impl Rows {
    /// The rows of `activations`. Without `experts` there is one; else their numbers are read
    /// (negative ones count from the end) and there are `count` of them.
    ///
    /// # Errors
    /// There is no such expert.
    pub fn new(activations: &Operand, experts: Option<&Operand>, count: i64) -> Result<Rows> {
        let rows = activations.sizes[0] as usize;
        let Some(experts) = experts else {
            return Ok(Rows { order: (0..rows).collect(), parts: vec![(0, 0..rows)] });
        };
        let numbers =
            (0..rows).map(|row| expert(experts, row, count)).collect::<Result<Vec<usize>>>()?;
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|&row| numbers[row]);
        let mut parts = Vec::new();
        for part in order.chunk_by(|&a, &b| numbers[a] == numbers[b]) {
            let first = parts.last().map_or(0, |(_, range): &(_, Range<usize>)| range.end);
            parts.push((numbers[part[0]], first..first + part.len()));
        }
        Ok(Rows { order, parts })
    }

    /// The experts that have rows, each with its range of [positions](Rows::at).
    pub fn parts(&self) -> &[(usize, Range<usize>)] {
        &self.parts
    }

    /// The row that is computed at `position`.
    pub fn at(&self, position: usize) -> usize {
        self.order[position]
    }

    /// The rows of a contiguous matrix as float32, in the order in which they are computed.
    pub fn activations(&self, matrix: &Operand) -> Vec<f32> {
        let terms = matrix.sizes[1] as usize;
        let mut values = vec![0f32; self.order.len() * terms];
        let from = Address::of(matrix);
        for (&row, to) in self.order.iter().zip(values.chunks_exact_mut(terms.max(1))) {
            // SAFETY: a row of the matrix, which was checked before the run.
            unsafe { from.load(row * terms, to) };
        }
        values
    }
}

fn expert(experts: &Operand, row: usize, count: i64) -> Result<usize> {
    let address = Address::of(experts);
    // SAFETY: an element of a vector that has as many as there are rows and was checked before
    // the run.
    let number = unsafe {
        match experts.dtype {
            DType::I32 => i64::from(address.slice::<i32>(row, 1)[0]),
            _ => address.slice::<i64>(row, 1)[0],
        }
    };
    let from_start = if number < 0 { number.saturating_add(count) } else { number };
    if from_start < 0 || from_start >= count {
        return Err(err!(
            InvalidArgument,
            "expert_indices[{row}] is {number}, but there are {count} experts"
        ));
    }
    Ok(from_start as usize)
}
