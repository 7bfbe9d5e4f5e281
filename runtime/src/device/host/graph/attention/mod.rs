//! Attention on the host.
//!
//! Queries are taken in blocks of rows, which the threads share out. A block goes over the keys in
//! blocks as well and keeps a running maximum and sum for each row, so that no more than a block
//! of scores is ever in memory and all of it stays in the cache. Where heads share keys and there
//! are few queries - a model that generates tokens - the rows of a block come from all heads of
//! a group, so that keys and values are read once. Blocks of keys that are masked for all rows
//! cost no more than a look at the mask: a cache with room for more tokens than there are.

mod heads;
mod mask;
mod softmax;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};

use self::heads::Heads;
use self::mask::{Bias, Mask};
use self::softmax::{Running, Weighting};
use super::matmul::{Matrix, Packed, Real, WORK_FOR_AWAKE, WORK_FOR_SLEEPING, gemm_f32, skinny};
use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::error::err;
use crate::graph::{GraphKey, GraphOp};
use crate::tensor::DType;

/// Queries of a block, at most: enough to make packing keys worth it.
const ROWS: usize = 64;
/// Keys of a block, at most: with their scores they fit into a second level cache.
const KEYS: usize = 512;

/// Lowers [`GraphOp::Attention`].
///
/// # Errors
/// The dtype is no float, or there are not as many operands as the op says.
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    let GraphOp::Attention { scale, causal, weights, mask } = key.op else {
        unreachable!("checked by the caller")
    };
    let scale = f32::from_bits(scale);
    let options = Options { scale, causal, weights, mask };
    let wanted = 4 + usize::from(weights) + usize::from(mask);
    let fits = key.operands.len() == wanted && key.operands.iter().all(|o| o.sizes.len() == 4);
    if !fits {
        return Err(err!(Internal, "{} takes {wanted} operands of 4 dimensions", key.op));
    }
    match key.operands[0].dtype {
        DType::F32 => Ok(Lowered::new(key.clone(), Attention::<f32>::new(options))),
        DType::F16 => Ok(Lowered::new(key.clone(), Attention::<f16>::new(options))),
        DType::Bf16 => Ok(Lowered::new(key.clone(), Attention::<bf16>::new(options))),
        dtype => Err(err!(Unsupported, "{} is not defined for {dtype}", key.op)),
    }
}

/// What the key says.
#[derive(Debug, Clone, Copy)]
struct Options {
    scale: f32,
    causal: bool,
    weights: bool,
    mask: bool,
}

/// Attention of operands of type `T`.
struct Attention<T> {
    options: Options,
    element: PhantomData<fn() -> T>,
}

impl<T> Attention<T> {
    fn new(options: Options) -> Self {
        Attention { options, element: PhantomData }
    }
}

impl<T> fmt::Debug for Attention<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

impl<T: Real> HostExecutable for Attention<T> {
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let job = Job::new(self.options, operands);
        let least = if threads.is_warm() { WORK_FOR_AWAKE } else { WORK_FOR_SLEEPING };
        let chunk = least.div_ceil(job.cost_of_block());
        threads.run(job.blocks() as u64, chunk as u64, &|range| {
            let mut scratch = Scratch::default();
            for block in range {
                // SAFETY: the operands lie inside their buffers, as was checked before the run,
                // and blocks share no element of the results.
                unsafe { job.block::<T>(block as usize, &mut scratch) };
            }
        })
    }
}

/// One call.
#[derive(Debug)]
struct Job {
    options: Options,
    out: Heads,
    query: Heads,
    key: Heads,
    value: Heads,
    weights: Option<Heads>,
    mask: Option<Mask>,
    /// Neighbouring heads whose rows are cut into blocks together.
    group: usize,
}

/// Memory that a thread uses for one block after the other.
#[derive(Debug, Default)]
struct Scratch {
    /// The queries of the block, scaled.
    queries: Vec<f32>,
    /// Scores, then their exponentials: of one block of keys, or of all if weights are wanted,
    /// block after block.
    scores: Vec<f32>,
    running: Running,
    /// Packed keys or values.
    packed: Vec<f32>,
}

/// The rows of a block.
#[derive(Debug, Clone)]
struct Rows {
    batch: usize,
    /// The first head of the group.
    head: usize,
    /// Which of the group's rows: query `r % queries` of the group's head `r / queries`.
    range: Range<usize>,
    queries: usize,
}

impl Rows {
    /// Head and query of each row.
    fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.range.clone().map(|row| (self.head + row / self.queries, row % self.queries))
    }

    /// The smallest and the largest query.
    fn span(&self) -> (usize, usize) {
        let (first, last) = (self.range.start, self.range.end - 1);
        if first / self.queries == last / self.queries {
            (first % self.queries, last % self.queries)
        } else {
            (0, self.queries - 1)
        }
    }
}

impl Job {
    fn new(options: Options, operands: &[Operand]) -> Job {
        let [out, query, key, value, rest @ ..] = operands else {
            unreachable!("checked against the key")
        };
        let (query, key, value) = (Heads::new(query), Heads::new(key), Heads::new(value));
        let shared = query.heads / key.heads.max(1);
        let group = if query.rows < ROWS && key.heads == value.heads { shared } else { 1 };
        Job {
            options,
            out: Heads::new(out),
            query,
            key,
            value,
            weights: options.weights.then(|| Heads::new(&rest[0])),
            mask: options.mask.then(|| Mask::new(&rest[rest.len() - 1])),
            group: group.max(1),
        }
    }

    /// Rows of a group of heads.
    fn rows_of_group(&self) -> usize {
        self.group * self.query.rows
    }

    /// Blocks of rows.
    fn blocks(&self) -> usize {
        let groups = self.query.batches * (self.query.heads / self.group);
        groups * self.rows_of_group().div_ceil(ROWS)
    }

    /// What a block costs, in multiplications, but for those that masks save.
    fn cost_of_block(&self) -> usize {
        let rows = self.rows_of_group().min(ROWS) + 8;
        let columns = self.query.columns + self.value.columns + 8;
        rows.saturating_mul(self.key.rows).saturating_mul(columns).max(1)
    }

    fn rows(&self, block: usize) -> Rows {
        let blocks = self.rows_of_group().div_ceil(ROWS);
        let (group, block) = (block / blocks, block % blocks);
        let groups = self.query.heads / self.group;
        Rows {
            batch: group / groups,
            head: group % groups * self.group,
            range: block * ROWS..((block + 1) * ROWS).min(self.rows_of_group()),
            queries: self.query.rows,
        }
    }

    /// Computes one block.
    ///
    /// # Safety
    /// The operands lie inside live buffers; nobody else touches the rows of the results.
    unsafe fn block<T: Real>(&self, block: usize, scratch: &mut Scratch) {
        let rows = self.rows(block);
        let count = rows.range.len();
        let (_, last) = rows.span();
        let keys = if self.options.causal { self.key.rows.min(last + 1) } else { self.key.rows };
        // SAFETY: the caller's promise.
        unsafe { self.load_queries::<T>(&rows, &mut scratch.queries) };
        scratch.running.reset(count, self.value.columns);
        let kept = if self.weights.is_some() { keys } else { keys.min(KEYS) };
        scratch.scores.resize(count * kept, 0.0);
        for first in (0..keys).step_by(KEYS) {
            let part = first..keys.min(first + KEYS);
            // SAFETY: the caller's promise.
            unsafe { self.keys::<T>(&rows, part, scratch) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.store_out::<T>(&rows, &scratch.running);
            if let Some(weights) = &self.weights {
                store_weights::<T>(weights, &rows, keys, scratch);
            }
        }
    }

    /// The queries of the rows as float32, scaled.
    ///
    /// # Safety
    /// As for [`Job::block`].
    unsafe fn load_queries<T: Real>(&self, rows: &Rows, queries: &mut Vec<f32>) {
        let size = self.query.columns;
        queries.resize(rows.range.len() * size, 0.0);
        for ((head, query), to) in rows.iter().zip(queries.chunks_exact_mut(size.max(1))) {
            let matrix = self.query.matrix(rows.batch, head);
            // SAFETY: the row lies inside the matrix.
            unsafe { heads::load_line::<T>(&matrix, query, 0, to) };
            to.iter_mut().for_each(|value| *value *= self.options.scale);
        }
    }

    /// Goes over one block of keys.
    ///
    /// # Safety
    /// As for [`Job::block`].
    unsafe fn keys<T: Real>(&self, rows: &Rows, part: Range<usize>, scratch: &mut Scratch) {
        let Scratch { queries, scores, running, packed } = scratch;
        let (count, keys) = (rows.range.len(), part.len());
        let at = if self.weights.is_some() { count * part.start } else { 0 };
        let scores = &mut scores[at..at + count * keys];
        // SAFETY: the caller's promise.
        let bias = unsafe { self.bias(rows, &part, scores) };
        if bias == Bias::Nothing {
            scores.fill(0.0);
            running.skip();
            return;
        }
        let key = self.key.matrix_for(rows.batch, rows.head, self.query.heads);
        let value = self.value.matrix_for(rows.batch, rows.head, self.query.heads);
        // SAFETY: the parts lie inside the matrices.
        unsafe {
            let key = heads::transposed(&key.rows_part(part.clone()));
            product::<T>(scores, bias == Bias::Some, queries, &key, packed);
            running.exponentials(scores);
            product::<T>(&mut running.sums, true, scores, &value.rows_part(part), packed);
        }
    }

    /// What is added to the scores of the rows for these keys, into `scores` unless it is nothing
    /// at all.
    ///
    /// # Safety
    /// As for [`Job::block`].
    unsafe fn bias(&self, rows: &Rows, part: &Range<usize>, scores: &mut [f32]) -> Bias {
        let cut = self.options.causal && part.end - 1 > rows.span().0;
        if self.mask.is_none() && !cut {
            return Bias::None;
        }
        let mut bias = Bias::Nothing;
        for ((head, query), line) in rows.iter().zip(scores.chunks_exact_mut(part.len())) {
            match &self.mask {
                // SAFETY: the row lies inside the mask.
                Some(mask) => unsafe { mask.load_line(rows.batch, head, query, part.start, line) },
                None => line.fill(0.0),
            }
            if cut {
                let seen = (query + 1).saturating_sub(part.start).min(line.len());
                line[seen..].fill(f32::NEG_INFINITY);
            }
            if bias == Bias::Nothing && line.iter().any(|&v| v != f32::NEG_INFINITY) {
                bias = Bias::Some;
            }
        }
        bias
    }

    /// Stores the results of the rows.
    ///
    /// # Safety
    /// As for [`Job::block`].
    unsafe fn store_out<T: Real>(&self, rows: &Rows, running: &Running) {
        for (row, (head, query)) in rows.iter().enumerate() {
            let matrix = self.out.matrix(rows.batch, head);
            let factor = running.weighting(row).last();
            let sums = &running.sums[row * matrix.columns..][..matrix.columns];
            for (column, &sum) in sums.iter().enumerate() {
                // SAFETY: the element lies inside the result; its row belongs to this block.
                unsafe { matrix.at::<T>(query, column).write(T::from_f32(sum * factor)) };
            }
        }
    }
}

/// Stores the attention weights of the rows, of which the first `keys` are in the scratch.
///
/// # Safety
/// As for [`Job::block`].
unsafe fn store_weights<T: Real>(weights: &Heads, rows: &Rows, keys: usize, scratch: &Scratch) {
    let count = rows.range.len();
    for (row, (head, query)) in rows.iter().enumerate() {
        let matrix = weights.matrix(rows.batch, head);
        let weighting: Weighting<'_> = scratch.running.weighting(row);
        for (block, first) in (0..keys).step_by(KEYS).enumerate() {
            let len = KEYS.min(keys - first);
            let factor = weighting.of_block(block);
            let scores = &scratch.scores[count * first + row * len..][..len];
            for (i, &value) in scores.iter().enumerate() {
                let value = T::from_f32(value * factor);
                // SAFETY: the element lies inside the result; its row belongs to this block.
                unsafe { matrix.at::<T>(query, first + i).write(value) };
            }
        }
        for column in keys..matrix.columns {
            // SAFETY: as above.
            unsafe { matrix.at::<T>(query, column).write(T::from_f32(0.0)) };
        }
    }
}

/// `sums = factors @ b`, or added to what `sums` holds; `sums` and `factors` lie densely, `b` has
/// elements of type `T`. `packed` is memory to use.
///
/// # Safety
/// `b` lies inside a live buffer.
unsafe fn product<T: Real>(
    sums: &mut [f32],
    add: bool,
    factors: &[f32],
    b: &Matrix,
    packed: &mut Vec<f32>,
) {
    if !add {
        sums.fill(0.0);
    }
    if b.rows == 0 || b.columns == 0 {
        return;
    }
    let rows = sums.len() / b.columns;
    // SAFETY: the caller's promise; the other matrices are the slices.
    unsafe {
        if skinny::suits(rows, b) {
            return skinny::multiply_factors::<T>(sums, factors, b);
        }
        let target = heads::dense(sums.as_mut_ptr(), rows, b.columns);
        let factors = heads::dense(factors.as_ptr().cast_mut(), rows, b.rows);
        // Only float32 has elements of four bytes: those go as they lie.
        if size_of::<T>() == size_of::<f32>() {
            return gemm_f32(&target, true, &factors, b, 1.0);
        }
        let b = Packed::new::<T>(std::mem::take(packed), b);
        gemm_f32(&target, true, &factors, &b.matrix, 1.0);
        *packed = b.values;
    }
}
