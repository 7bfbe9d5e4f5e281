//! Cumulative sums and products on the host.
//!
//! A row is sequential, so neighbouring rows go side by side: their additions do not wait for
//! each other, and where rows lie across memory, whole stretches of it are read and written.

use std::sync::Arc;

use half::{bf16, f16};

use super::copy::{Address, address};
use super::rows::{Dimension, Rows};
use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::error::err;
use crate::graph::{GraphKey, GraphOp, Scan};
use crate::tensor::DType;

/// Rows that go side by side.
const LANES: usize = 16;

/// Elements below which a second thread costs more than it saves.
const PARALLEL_ELEMENTS: u64 = 1 << 14;

/// Lowers [`GraphOp::Cumulative`].
///
/// # Errors
/// The dtype has no cumulative operators, as in PyTorch.
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    let GraphOp::Cumulative { scan, dim } = key.op else { unreachable!("chosen by the op") };
    let run = match scan {
        Scan::Sum => kernel::<Sum>(key)?,
        Scan::Product => kernel::<Product>(key)?,
    };
    Ok(Lowered::new(key.clone(), Cumulative { dim, run }))
}

/// Computes a group of neighbouring rows: their length and steps, out and input.
type GroupFn = unsafe fn(&Group, Address, Address);

fn kernel<F: Fold>(key: &GraphKey) -> Result<GroupFn> {
    Ok(match key.operands[0].dtype {
        DType::F32 => accumulate::<f32, F>,
        DType::F16 => accumulate::<f16, F>,
        DType::Bf16 => accumulate::<bf16, F>,
        DType::U8 => accumulate::<u8, F>,
        DType::I8 => accumulate::<i8, F>,
        DType::I16 => accumulate::<i16, F>,
        DType::I32 => accumulate::<i32, F>,
        DType::I64 => accumulate::<i64, F>,
        dtype @ (DType::Bool | DType::U16 | DType::U32 | DType::U64) => {
            return Err(err!(Unsupported, "{} is not defined for {dtype}", key.op));
        }
    })
}

#[derive(Debug)]
struct Cumulative {
    dim: usize,
    run: GroupFn,
}

impl HostExecutable for Cumulative {
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let [out, input] = operands else { unreachable!("checked against the key") };
        let mut rows = Rows::new([out, input], self.dim);
        let neighbours = rows.take_densest();
        let groups = neighbours.size.div_ceil(LANES) as u64;
        let len = out.sizes[self.dim] as usize;
        let (to, from) = (address(out), address(input));
        let chunk = PARALLEL_ELEMENTS.div_ceil((len * LANES.min(neighbours.size)).max(1) as u64);
        threads.run(rows.count() * groups, chunk, &|items| {
            for item in items {
                let first = (item % groups) as usize * LANES;
                let group = Group {
                    start: rows.start(item / groups),
                    lanes: first..(first + LANES).min(neighbours.size),
                    neighbours,
                    len,
                    steps: rows.steps,
                };
                // SAFETY: rows of operands that were checked before the run; each row belongs to
                // one group, and out shares no memory with the input.
                unsafe { (self.run)(&group, to, from) };
            }
        })
    }
}

/// Neighbouring rows.
struct Group {
    /// Offsets of the neighbours' first, in elements, of out and of the input.
    start: [isize; 2],
    /// Which of the neighbours; at most [`LANES`].
    lanes: std::ops::Range<usize>,
    neighbours: Dimension<2>,
    /// Elements of a row.
    len: usize,
    /// Elements between neighbours in a row.
    steps: [isize; 2],
}

/// # Safety
/// The rows lie inside live tensors of `T`, and out shares no memory with the input.
unsafe fn accumulate<T: Element, F: Fold>(group: &Group, out: Address, input: Address) {
    let Group { start: [to, from], steps, neighbours, .. } = group;
    let lane = group.lanes.start as isize;
    // SAFETY: offsets of elements of the tensors, here and below.
    let (mut out, mut input) = unsafe {
        (
            out.get().cast::<T>().offset(to + lane * neighbours.strides[0]),
            input.get().cast::<T>().cast_const().offset(from + lane * neighbours.strides[1]),
        )
    };
    let mut totals = [F::start::<T::Wide>(); LANES];
    let totals = &mut totals[..group.lanes.len()];
    for _ in 0..group.len {
        for (lane, total) in totals.iter_mut().enumerate() {
            let lane = lane as isize;
            // SAFETY: as above.
            unsafe {
                let value = input.offset(lane * neighbours.strides[1]).read();
                *total = F::fold(*total, value.widen());
                out.offset(lane * neighbours.strides[0]).write(T::narrow(*total));
            }
        }
        // The step past a row's end is never followed.
        out = out.wrapping_offset(steps[0]);
        input = input.wrapping_offset(steps[1]);
    }
}

/// An element, and the type in which PyTorch's CPU accumulates it (`at::acc_type`).
trait Element: Copy {
    type Wide: Wide;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! elements {
    ($($type:ty as $wide:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Element for $type {
            type Wide = $wide;
            fn widen(self) -> $wide {
                $widen(self)
            }
            fn narrow(wide: $wide) -> Self {
                $narrow(wide)
            }
        }
    )*};
}

elements! {
    f32 as f64, f64::from, |w| w as f32;
    f16 as f32, f16::to_f32, f16::from_f32;
    bf16 as f32, bf16::to_f32, bf16::from_f32;
    u8 as i64, i64::from, |w| w as u8;
    i8 as i64, i64::from, |w| w as i8;
    i16 as i64, i64::from, |w| w as i16;
    i32 as i64, i64::from, |w| w as i32;
    i64 as i64, |v| v, |w| w;
}

/// A type to accumulate in.
trait Wide: Copy {
    const ZERO: Self;
    const ONE: Self;
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
}

macro_rules! wide {
    ($($type:ty, $zero:expr, $one:expr, $add:expr, $multiply:expr;)*) => {$(
        impl Wide for $type {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            fn add(self, other: Self) -> Self {
                $add(self, other)
            }
            fn multiply(self, other: Self) -> Self {
                $multiply(self, other)
            }
        }
    )*};
}

wide! {
    f64, 0.0, 1.0, |a, b| a + b, |a, b| a * b;
    f32, 0.0, 1.0, |a, b| a + b, |a, b| a * b;
    i64, 0, 1, i64::wrapping_add, i64::wrapping_mul;
}

/// What is done with the elements.
trait Fold {
    fn start<W: Wide>() -> W;
    fn fold<W: Wide>(total: W, value: W) -> W;
}

struct Sum;

impl Fold for Sum {
    fn start<W: Wide>() -> W {
        W::ZERO
    }
    fn fold<W: Wide>(total: W, value: W) -> W {
        total.add(value)
    }
}

struct Product;

impl Fold for Product {
    fn start<W: Wide>() -> W {
        W::ONE
    }
    fn fold<W: Wide>(total: W, value: W) -> W {
        total.multiply(value)
    }
}
