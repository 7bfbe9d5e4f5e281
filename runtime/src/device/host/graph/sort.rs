//! `topk` and `sort` on the host.
//!
//! Each element of a row becomes an entry: one integer of the element's key and its index. Keys
//! are integers in the order of the elements, so that comparing entries orders equal elements by
//! index: any sort of entries is a stable sort of the row.

use std::sync::Arc;

use half::{bf16, f16};

use super::copy::{Address, Truth, address};
use super::rows::Rows;
use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::graph::{GraphKey, GraphOp};
use crate::tensor::DType;

/// Elements below which a second thread costs more than it saves.
const PARALLEL_ELEMENTS: u64 = 1 << 12;

/// Lowers [`GraphOp::TopK`] and [`GraphOp::Sort`].
///
/// # Errors
/// None.
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    let (dim, descending) = match key.op {
        GraphOp::TopK { dim, largest } => (dim, largest),
        GraphOp::Sort { dim, descending } => (dim, descending),
        _ => unreachable!("chosen by the op"),
    };
    let len = key.operands[2].sizes[dim];
    let sort = row_kernel(key.operands[2].dtype, u32::try_from(len).is_ok());
    Ok(Lowered::new(key.clone(), Sort { dim, descending, sort }))
}

/// Sorts the rows of a range.
type RowsFn = unsafe fn(&Job, std::ops::Range<u64>);

/// The kernel for a dtype; `short` rows have an index of 32 bits.
fn row_kernel(dtype: DType, short: bool) -> RowsFn {
    fn of<T: Element>(short: bool) -> RowsFn {
        if short && T::KEY_BITS == 32 { sort_rows::<T, u64> } else { sort_rows::<T, u128> }
    }
    match dtype {
        DType::U8 => of::<u8>(short),
        DType::I8 => of::<i8>(short),
        DType::I16 => of::<i16>(short),
        DType::I32 => of::<i32>(short),
        DType::I64 => of::<i64>(short),
        DType::U16 => of::<u16>(short),
        DType::U32 => of::<u32>(short),
        DType::U64 => of::<u64>(short),
        DType::F16 => of::<f16>(short),
        DType::Bf16 => of::<bf16>(short),
        DType::F32 => of::<f32>(short),
        DType::Bool => of::<Truth>(short),
    }
}

#[derive(Debug)]
struct Sort {
    dim: usize,
    descending: bool,
    sort: RowsFn,
}

impl HostExecutable for Sort {
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let [values, indices, input] = operands else { unreachable!("checked against the key") };
        let job = Job {
            rows: Rows::new([values, indices, input], self.dim),
            len: input.sizes[self.dim] as usize,
            wanted: values.sizes[self.dim] as usize,
            descending: self.descending,
            values: address(values),
            indices: address(indices),
            input: address(input),
        };
        if job.wanted == 0 {
            return Ok(());
        }
        let chunk = PARALLEL_ELEMENTS.div_ceil(job.len as u64);
        threads.run(job.rows.count(), chunk, &|rows| {
            // SAFETY: the operands were checked before the run; each row is written by one call,
            // and results share no memory with each other or the input.
            unsafe { (self.sort)(&job, rows) };
        })
    }
}

/// What to sort. Operands are values, indices and input.
struct Job {
    rows: Rows<3>,
    /// Elements of a row of the input.
    len: usize,
    /// Elements of a row of the results; not 0.
    wanted: usize,
    descending: bool,
    values: Address,
    indices: Address,
    input: Address,
}

/// # Safety
/// The rows lie inside live tensors of `T`, `i64` and `T`, and are written by nobody else.
unsafe fn sort_rows<T: Element, E: Entry>(job: &Job, rows: std::ops::Range<u64>) {
    let [value_step, index_step, input_step] = job.rows.steps;
    let flip = if job.descending { u64::MAX >> (64 - T::KEY_BITS) } else { 0 };
    let mut first = First::<E>::new(job.wanted, job.len);
    for row in rows {
        let [value, index, input] = job.rows.start(row);
        // SAFETY: offsets of elements of the tensors, here and below.
        let (values, indices, input) = unsafe {
            (
                job.values.get().cast::<T>().offset(value),
                job.indices.get().cast::<i64>().offset(index),
                job.input.get().cast::<T>().cast_const().offset(input),
            )
        };
        for i in 0..job.len {
            // SAFETY: as above.
            let element = unsafe { input.offset(i as isize * input_step).read() };
            first.offer(E::new(element.key() ^ flip, i));
        }
        for (i, entry) in (0..).zip(first.sorted()) {
            // SAFETY: as above.
            unsafe {
                let element = input.offset(entry.index() as isize * input_step).read();
                values.offset(i * value_step).write(element);
                indices.offset(i * index_step).write(entry.index() as i64);
            }
        }
    }
}

/// The least of many entries.
struct First<E> {
    wanted: usize,
    /// Candidates; twice the wanted at most, when the worse half is dropped.
    kept: Vec<E>,
    /// Entries that are not below it are none of the least.
    limit: Option<E>,
}

impl<E: Entry> First<E> {
    /// Finds the `wanted` (at least 1) least of rows of `len` entries.
    fn new(wanted: usize, len: usize) -> Self {
        let room = wanted.saturating_mul(2).clamp(1, len.max(1));
        First { wanted, kept: Vec::with_capacity(room), limit: None }
    }

    fn offer(&mut self, entry: E) {
        if self.limit.is_some_and(|limit| entry >= limit) {
            return;
        }
        self.kept.push(entry);
        if self.kept.len() / 2 >= self.wanted {
            let (_, limit, _) = self.kept.select_nth_unstable(self.wanted - 1);
            self.limit = Some(*limit);
            self.kept.truncate(self.wanted);
        }
    }

    /// The least of what was offered, in order; begins anew.
    fn sorted(&mut self) -> impl Iterator<Item = E> + '_ {
        self.kept.sort_unstable();
        self.kept.truncate(self.wanted);
        self.limit = None;
        self.kept.drain(..)
    }
}

/// A key and an index, compared in this order.
trait Entry: Ord + Copy {
    fn new(key: u64, index: usize) -> Self;
    fn index(self) -> usize;
}

/// For keys and indices of 32 bits.
impl Entry for u64 {
    fn new(key: u64, index: usize) -> Self {
        key << 32 | index as u64
    }
    fn index(self) -> usize {
        (self & 0xffff_ffff) as usize
    }
}

impl Entry for u128 {
    fn new(key: u64, index: usize) -> Self {
        u128::from(key) << 64 | index as u128
    }
    fn index(self) -> usize {
        self as u64 as usize
    }
}

/// An element that can be sorted.
trait Element: Copy {
    /// Bits of its keys, 32 or 64.
    const KEY_BITS: u32;
    /// Its place in the order: equal elements have equal keys, lesser ones lesser.
    fn key(self) -> u64;
}

macro_rules! elements {
    ($($type:ty, $bits:literal, |$value:ident| $key:expr;)*) => {$(
        impl Element for $type {
            const KEY_BITS: u32 = $bits;
            fn key(self) -> u64 {
                let $value = self;
                u64::from($key)
            }
        }
    )*};
}

elements! {
    u8, 32, |v| v;
    u16, 32, |v| v;
    u32, 32, |v| v;
    u64, 64, |v| v;
    i8, 32, |v| i32::from(v) as u32 ^ 1 << 31;
    i16, 32, |v| i32::from(v) as u32 ^ 1 << 31;
    i32, 32, |v| v as u32 ^ 1 << 31;
    i64, 64, |v| v as u64 ^ 1 << 63;
    Truth, 32, |v| v.0 != 0;
    f32, 32, |v| float_key(v);
    f16, 32, |v| float_key(v.to_f32());
    bf16, 32, |v| float_key(v.to_f32());
}

/// NaN is the greatest, -0 equals 0.
fn float_key(value: f32) -> u32 {
    if value.is_nan() {
        return u32::MAX;
    }
    // Adding 0 turns -0 into 0.
    let bits = (value + 0.0).to_bits();
    // Positive numbers go above the negative ones, whose order is reversed.
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}
