//! `copy_` on the host: strided, converting, in parallel.

use std::sync::Arc;

use half::{bf16, f16};
use smallvec::SmallVec;

use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::graph::GraphKey;
use crate::tensor::DType;

/// Elements below which a second thread costs more than it saves.
const PARALLEL_ELEMENTS: u64 = 1 << 15;

/// Side of the squares in which a transposing copy walks, so that both sides stay in the cache.
const SQUARE: usize = 32;

/// Lowers [`GraphOp::Copy`](crate::graph::GraphOp::Copy).
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    Ok(Lowered::new(key.clone(), Copy))
}

#[derive(Debug)]
struct Copy;

impl HostExecutable for Copy {
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let [dst, src] = operands else { unreachable!("checked against the key") };
        let walk = Walk::new(&dst.sizes, &dst.strides, &src.strides);
        let (to, from) = (address(dst), address(src));
        copy_kernel(dst.dtype, src.dtype)(&walk, to, from, threads)
    }
}

/// The address of an operand's first element.
pub(super) fn address(operand: &Operand) -> Address {
    // SAFETY: the operand lies inside its buffer, as was checked before the run.
    Address(unsafe { operand.buffer.contents().add(operand.offset) })
}

/// An address that may cross threads: the elements behind it are written by one thread each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address(*mut u8);

impl Address {
    pub(super) fn get(self) -> *mut u8 {
        self.0
    }
}

// SAFETY: see the type; the buffers behind it are kept by the command.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// One dimension of a walk over two tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dim {
    size: usize,
    dst: isize,
    src: isize,
}

impl Dim {
    const ONE: Dim = Dim { size: 1, dst: 0, src: 0 };
}

/// The order in which elements are visited: outer dimensions, then a plane of two. The inner one
/// is where the destination is densest, the other where the source is.
#[derive(Debug, PartialEq, Eq)]
struct Walk {
    outer: SmallVec<[Dim; 6]>,
    rows: Dim,
    columns: Dim,
}

impl Walk {
    fn new(sizes: &[i64], dst: &[i64], src: &[i64]) -> Walk {
        let mut dims = merged_dims(sizes, dst, src);
        let columns = dims.pop().unwrap_or(Dim::ONE);
        // The dimension in which the source is densest becomes the other side of the plane.
        let densest = (0..dims.len())
            .filter(|&d| dims[d].src != 0)
            .min_by_key(|&d| dims[d].src)
            .filter(|&d| columns.src > dims[d].src)
            .or(dims.len().checked_sub(1));
        let rows = densest.map_or(Dim::ONE, |d| dims.remove(d));
        Walk { outer: dims, rows, columns }
    }

    fn planes(&self) -> u64 {
        self.outer.iter().map(|d| d.size as u64).product()
    }

    /// Offsets in elements of the plane `index`, of the destination and of the source.
    fn plane(&self, mut index: u64) -> (isize, isize) {
        let mut at = (0, 0);
        for dim in self.outer.iter().rev() {
            let i = (index % dim.size as u64) as isize;
            index /= dim.size as u64;
            at = (at.0 + i * dim.dst, at.1 + i * dim.src);
        }
        at
    }

    /// Whether the source is denser along rows: then the plane is walked in squares.
    fn transposes(&self) -> bool {
        self.columns.src != 0 && self.rows.src != 0 && self.rows.src < self.columns.src
    }
}

/// The dimensions from the destination's sparsest to its densest, without those of size 1, and
/// with neighbours merged where both tensors step over them as over one.
fn merged_dims(sizes: &[i64], dst: &[i64], src: &[i64]) -> SmallVec<[Dim; 6]> {
    let mut dims: SmallVec<[Dim; 6]> = sizes
        .iter()
        .zip(dst.iter().zip(src))
        .filter(|&(&size, _)| size != 1)
        .map(|(&size, (&dst, &src))| Dim {
            size: size as usize,
            dst: dst as isize,
            src: src as isize,
        })
        .collect();
    dims.sort_by_key(|dim| std::cmp::Reverse(dim.dst));
    let mut merged: SmallVec<[Dim; 6]> = SmallVec::new();
    for dim in dims {
        let steps = dim.size as isize;
        match merged.last_mut() {
            Some(outer) if outer.dst == dim.dst * steps && outer.src == dim.src * steps => {
                *outer = Dim { size: outer.size * dim.size, ..dim };
            }
            _ => merged.push(dim),
        }
    }
    merged
}

type CopyKernel = fn(&Walk, Address, Address, &Threads) -> Result<()>;

/// The kernel for a pair of dtypes. Equal ones copy bytes.
fn copy_kernel(dst: DType, src: DType) -> CopyKernel {
    if dst == src {
        return match dst.size() {
            1 => copy_elements::<u8, u8, Same>,
            2 => copy_elements::<u16, u16, Same>,
            4 => copy_elements::<u32, u32, Same>,
            _ => copy_elements::<u64, u64, Same>,
        };
    }
    match dst {
        DType::U8 => from_dtype::<u8>(src),
        DType::I8 => from_dtype::<i8>(src),
        DType::I16 => from_dtype::<i16>(src),
        DType::I32 => from_dtype::<i32>(src),
        DType::I64 => from_dtype::<i64>(src),
        DType::F16 => from_dtype::<f16>(src),
        DType::F32 => from_dtype::<f32>(src),
        DType::Bool => from_dtype::<Truth>(src),
        DType::Bf16 => from_dtype::<bf16>(src),
        DType::U16 => from_dtype::<u16>(src),
        DType::U32 => from_dtype::<u32>(src),
        DType::U64 => from_dtype::<u64>(src),
    }
}

fn from_dtype<D: Number>(src: DType) -> CopyKernel {
    match src {
        DType::U8 => copy_elements::<D, u8, Cast>,
        DType::I8 => copy_elements::<D, i8, Cast>,
        DType::I16 => copy_elements::<D, i16, Cast>,
        DType::I32 => copy_elements::<D, i32, Cast>,
        DType::I64 => copy_elements::<D, i64, Cast>,
        DType::F16 => copy_elements::<D, f16, Cast>,
        DType::F32 => copy_elements::<D, f32, Cast>,
        DType::Bool => copy_elements::<D, Truth, Cast>,
        DType::Bf16 => copy_elements::<D, bf16, Cast>,
        DType::U16 => copy_elements::<D, u16, Cast>,
        DType::U32 => copy_elements::<D, u32, Cast>,
        DType::U64 => copy_elements::<D, u64, Cast>,
    }
}

/// Copies all elements of the walk, in parallel.
fn copy_elements<D, S, C>(walk: &Walk, dst: Address, src: Address, threads: &Threads) -> Result<()>
where
    D: core::marker::Copy,
    S: core::marker::Copy,
    C: Convert<S, D>,
{
    // A job's items are bands of rows, so that one large plane is shared out as well.
    let band = if walk.transposes() { SQUARE } else { 1 };
    let bands = walk.rows.size.div_ceil(band) as u64;
    let elements_of_band = (band * walk.columns.size) as u64;
    let chunk = PARALLEL_ELEMENTS.div_ceil(elements_of_band.max(1));
    threads.run(walk.planes() * bands, chunk, &|items| {
        for item in items {
            let (to, from) = walk.plane(item / bands);
            let first = (item % bands) as usize * band;
            let rows = first..(first + band).min(walk.rows.size);
            // SAFETY: the offsets are those of elements of the operands, which lie inside their
            // buffers and share no memory; every element is written by one item.
            unsafe {
                let to = dst.get().cast::<D>().offset(to);
                let from = src.get().cast::<S>().cast_const().offset(from);
                copy_band::<D, S, C>(walk, rows, to, from);
            }
        }
    })
}

/// Copies some rows of a plane; in squares if there are several.
///
/// # Safety
/// `dst` and `src` are the plane's first elements, of live tensors.
unsafe fn copy_band<D, S, C>(walk: &Walk, rows: std::ops::Range<usize>, dst: *mut D, src: *const S)
where
    D: core::marker::Copy,
    S: core::marker::Copy,
    C: Convert<S, D>,
{
    let width = if rows.len() > 1 { SQUARE } else { walk.columns.size };
    for left in (0..walk.columns.size).step_by(width.max(1)) {
        let len = width.min(walk.columns.size - left);
        for row in rows.clone() {
            let (row, left) = (row as isize, left as isize);
            // SAFETY: row and column are indices of the plane.
            unsafe {
                copy_row::<D, S, C>(
                    dst.offset(row * walk.rows.dst + left * walk.columns.dst),
                    walk.columns.dst,
                    src.offset(row * walk.rows.src + left * walk.columns.src),
                    walk.columns.src,
                    len,
                );
            }
        }
    }
}

/// Copies `len` elements in a row.
///
/// # Safety
/// All of them lie inside live tensors that share no memory.
unsafe fn copy_row<D, S, C>(
    dst: *mut D,
    dst_step: isize,
    src: *const S,
    src_step: isize,
    len: usize,
) where
    D: core::marker::Copy,
    S: core::marker::Copy,
    C: Convert<S, D>,
{
    // SAFETY: as for the function. The loops differ so that the common ones are vectorised.
    unsafe {
        match (dst_step, src_step) {
            (1, 1) => {
                for i in 0..len {
                    dst.add(i).write(C::convert(src.add(i).read()));
                }
            }
            (1, 0) => {
                let value = C::convert(src.read());
                for i in 0..len {
                    dst.add(i).write(value);
                }
            }
            _ => {
                for i in 0..len as isize {
                    dst.offset(i * dst_step).write(C::convert(src.offset(i * src_step).read()));
                }
            }
        }
    }
}

/// How an element becomes one of the destination.
trait Convert<S, D> {
    fn convert(value: S) -> D;
}

/// The same bytes.
struct Same;

impl<T> Convert<T, T> for Same {
    fn convert(value: T) -> T {
        value
    }
}

/// PyTorch's conversion of numbers.
///
/// Integers wrap. Floating point numbers are truncated; those out of range become the nearest
/// value of a 32 or 64 bit type and wrap into a smaller one, as they do on Arm (C++ leaves it
/// undefined); NaN becomes 0. A number is true unless it is 0.
struct Cast;

impl<S: Number, D: Number> Convert<S, D> for Cast {
    fn convert(value: S) -> D {
        match S::KIND {
            Kind::Float => D::from_f32(value.to_f32()),
            Kind::Integer => D::from_i64(value.to_i64()),
            Kind::Unsigned64 => D::from_u64(value.to_i64() as u64),
        }
    }
}

/// What a number goes through on its way to another type.
enum Kind {
    Float,
    /// Fits into `i64`.
    Integer,
    /// `u64`: `to_i64` gives its bits.
    Unsigned64,
}

/// An element type as a number.
trait Number: core::marker::Copy {
    const KIND: Kind;
    fn to_f32(self) -> f32;
    fn to_i64(self) -> i64;
    fn from_f32(value: f32) -> Self;
    fn from_i64(value: i64) -> Self;
    fn from_u64(value: u64) -> Self {
        Self::from_i64(value as i64)
    }
}

macro_rules! integer {
    ($($type:ty, $kind:ident, |$float:ident| $from_float:expr;)*) => {$(
        impl Number for $type {
            const KIND: Kind = Kind::$kind;
            fn to_f32(self) -> f32 {
                self as f32
            }
            fn to_i64(self) -> i64 {
                self as i64
            }
            fn from_f32($float: f32) -> Self {
                $from_float
            }
            fn from_i64(value: i64) -> Self {
                value as $type
            }
        }
    )*};
}

integer! {
    u8, Integer, |f| f as i64 as u8;
    i8, Integer, |f| f as i32 as i8;
    i16, Integer, |f| f as i32 as i16;
    i32, Integer, |f| f as i32;
    i64, Integer, |f| f as i64;
    u16, Integer, |f| f as i32 as u16;
    u32, Integer, |f| f as i64 as u32;
    u64, Unsigned64, |f| if f < 0.0 { f as i64 as u64 } else { f as u64 };
}

macro_rules! float {
    ($($type:ty, $to:expr, $from:expr;)*) => {$(
        impl Number for $type {
            const KIND: Kind = Kind::Float;
            fn to_f32(self) -> f32 {
                $to(self)
            }
            fn to_i64(self) -> i64 {
                $to(self) as i64
            }
            fn from_f32(value: f32) -> Self {
                $from(value)
            }
            fn from_i64(value: i64) -> Self {
                $from(value as f32)
            }
            fn from_u64(value: u64) -> Self {
                $from(value as f32)
            }
        }
    )*};
}

float! {
    f32, |v| v, |v| v;
    f16, f16::to_f32, f16::from_f32;
    bf16, bf16::to_f32, bf16::from_f32;
}

/// A `bool` as it lies in memory; any byte but 0 is true.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Truth(pub(super) u8);

impl Number for Truth {
    const KIND: Kind = Kind::Integer;
    fn to_f32(self) -> f32 {
        f32::from(u8::from(self.0 != 0))
    }
    fn to_i64(self) -> i64 {
        i64::from(self.0 != 0)
    }
    fn from_f32(value: f32) -> Self {
        Truth(u8::from(value != 0.0))
    }
    fn from_i64(value: i64) -> Self {
        Truth(u8::from(value != 0))
    }
}
