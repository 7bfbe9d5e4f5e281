//! A copy between any strides that converts as PyTorch does: what `copy_` is on a GPU, and how an
//! operand is packed for a library that wants it without gaps.

use bytemuck::NoUninit;
use smallvec::{SmallVec, smallvec};

use super::{Call, buffer, by_value, msl_type};
use crate::Result;
use crate::device::{Argument, BufferRef, Grid, Operand};
use crate::error::err;
use crate::tensor::DType;

/// The kernel's name.
pub const KERNEL: &str = "strided_copy";

/// Dimensions that the kernel steps over, once neighbours are merged.
const MOST_DIMENSIONS: usize = 8;

/// Threads of a threadgroup.
const GROUP: u32 = 256;

/// Sizes and strides in elements, the densest dimension of the destination last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, NoUninit)]
#[repr(C)]
struct Walk {
    dst: [u64; MOST_DIMENSIONS],
    src: [u64; MOST_DIMENSIONS],
    sizes: [u32; MOST_DIMENSIONS],
    dimensions: u32,
    padding: u32,
}

/// The source of the kernel for a pair of dtypes. Equal ones copy bytes.
pub fn source(dst: DType, src: DType) -> String {
    let (dst_type, src_type, convert) = if dst == src {
        let bytes = match dst.size() {
            1 => "uchar",
            2 => "ushort",
            4 => "uint",
            _ => "ulong",
        };
        (bytes, bytes, "element".to_owned())
    } else {
        (msl_type(dst), msl_type(src), conversion(dst, src))
    };
    format!(
        r"#include <metal_stdlib>
using namespace metal;

// Out of range numbers become the nearest, NaN becomes 0.
static inline int to_int(float x) {{
    return x != x ? 0 : x >= 2147483648.0f ? INT_MAX : x < -2147483648.0f ? INT_MIN : int(x);
}}
static inline long to_long(float x) {{
    return x != x ? 0l
        : x >= 9223372036854775808.0f ? LONG_MAX
        : x < -9223372036854775808.0f ? LONG_MIN : long(x);
}}
static inline ulong to_ulong(float x) {{
    return x < 0.0f ? ulong(to_long(x))
        : x != x ? 0ul : x >= 18446744073709551616.0f ? ULONG_MAX : ulong(x);
}}

struct Walk {{
    ulong dst[{MOST_DIMENSIONS}];
    ulong src[{MOST_DIMENSIONS}];
    uint sizes[{MOST_DIMENSIONS}];
    uint dimensions;
    uint padding;
}};

kernel void {KERNEL}(device {dst_type}* dst [[buffer(0)]],
                     const device {src_type}* src [[buffer(1)]],
                     constant Walk& walk [[buffer(2)]],
                     uint thread_index [[thread_position_in_grid]]) {{
    ulong to = 0;
    ulong from = 0;
    uint rest = thread_index;
    for (int d = int(walk.dimensions) - 1; d >= 0; --d) {{
        uint size = walk.sizes[d];
        ulong i = rest % size;
        rest /= size;
        to += i * walk.dst[d];
        from += i * walk.src[d];
    }}
    {src_type} element = src[from];
    dst[to] = {convert};
}}
"
    )
}

/// The expression that converts `element`. Integers wrap; floating point numbers are truncated,
/// and those out of range become the nearest value of a 32 or 64 bit type and wrap into a smaller
/// one.
fn conversion(dst: DType, src: DType) -> String {
    let to = msl_type(dst);
    // What the element goes through on its way.
    let wide = match src {
        DType::Bool => "long(element != 0)",
        DType::U64 => "element",
        _ if src.is_float() => "float(element)",
        _ => "long(element)",
    };
    match dst {
        DType::Bool => format!("uchar({wide} != 0)"),
        DType::F16 | DType::Bf16 | DType::F32 => format!("{to}(float({wide}))"),
        DType::I8 | DType::I16 | DType::I32 | DType::U16 if src.is_float() => {
            format!("{to}(to_int({wide}))")
        }
        DType::U64 if src.is_float() => format!("to_ulong({wide})"),
        _ if src.is_float() => format!("{to}(to_long({wide}))"),
        _ => format!("{to}({wide})"),
    }
}

/// The call that copies `src` to `dst`, which have the same sizes and share no memory; `None` if
/// there are no elements.
///
/// # Errors
/// More elements or dimensions than the kernel can number.
pub fn call(dst: &Operand, src: &Operand) -> Result<Option<Call>> {
    copy(dst, (buffer(src), &src.strides))
}

/// The call that sets all `len` bytes from a byte of `dst` on to `value`; `None` if there are
/// none.
///
/// # Errors
/// As for [`call`].
pub fn fill(dst: (&BufferRef, usize), len: usize, value: u8) -> Result<Option<Call>> {
    let dst = byte_range(dst, len)?;
    let value = Some(Argument::Bytes(SmallVec::from_slice(&[value])));
    copy(&dst, (value, &smallvec![0]))
}

/// A range of a buffer as a row of bytes.
///
/// # Errors
/// The length has no number.
pub fn byte_range((buffer, offset): (&BufferRef, usize), len: usize) -> Result<Operand> {
    let len = i64::try_from(len).map_err(|_| err!(InvalidArgument, "{len} bytes are too many"))?;
    Ok(Operand {
        buffer: buffer.clone(),
        offset,
        dtype: DType::U8,
        sizes: smallvec![len],
        strides: smallvec![1],
    })
}

fn copy(
    dst: &Operand,
    (src, src_strides): (Option<Argument>, &SmallVec<[i64; 6]>),
) -> Result<Option<Call>> {
    let elements = dst.sizes.iter().try_fold(1u32, |product, &size| {
        u32::try_from(size).ok().and_then(|size| product.checked_mul(size))
    });
    let elements = elements.ok_or_else(|| {
        err!(
            Unsupported,
            "copying a strided tensor of sizes {:?}: it has more than {} elements",
            dst.sizes,
            u32::MAX
        )
    })?;
    if elements == 0 {
        return Ok(None);
    }
    let walk = Walk::new(&dst.sizes, &dst.strides, src_strides)?;
    Ok(Some(Call {
        arguments: smallvec![buffer(dst), src, by_value(&walk)],
        grid: Grid::Threads { threads: [elements, 1, 1], group: [elements.min(GROUP), 1, 1] },
    }))
}

impl Walk {
    /// Steps over all elements: dimensions without those of size 1, and with neighbours merged
    /// where both tensors step over them as over one.
    fn new(sizes: &[i64], dst: &[i64], src: &[i64]) -> Result<Walk> {
        let mut dims: SmallVec<[[i64; 3]; 6]> = sizes
            .iter()
            .zip(dst.iter().zip(src))
            .filter(|&(&size, _)| size != 1)
            .map(|(&size, (&dst, &src))| [size, dst, src])
            .collect();
        dims.sort_by_key(|&[_, dst, _]| std::cmp::Reverse(dst));
        let mut merged: SmallVec<[[i64; 3]; 6]> = SmallVec::new();
        for [size, dst, src] in dims {
            match merged.last_mut() {
                Some(outer) if outer[1] == dst * size && outer[2] == src * size => {
                    *outer = [outer[0] * size, dst, src];
                }
                _ => merged.push([size, dst, src]),
            }
        }
        if merged.len() > MOST_DIMENSIONS {
            return Err(err!(
                Unsupported,
                "copying a tensor of sizes {sizes:?}, strides {dst:?}, to or from strides \
                 {src:?}: more than {MOST_DIMENSIONS} dimensions"
            ));
        }
        let mut walk = Walk { dimensions: merged.len() as u32, ..Walk::default() };
        for (d, [size, dst, src]) in merged.into_iter().enumerate() {
            // Not negative, and their product is a u32: the caller counted the elements.
            (walk.sizes[d], walk.dst[d], walk.src[d]) = (size as u32, dst as u64, src as u64);
        }
        Ok(walk)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bytes, run, run_native};
    use super::*;
    use crate::device::Device;
    use crate::device::host::HostDevice;
    use crate::graph::GraphOp;
    use crate::ops::testing::{contiguous, tensor, values};

    /// Values at and beyond the edges of all types; those that `dtype` lacks become others.
    fn edges(dtype: DType) -> Vec<f64> {
        let mut edges = vec![0.0, 1.0, 2.0, 100.0, 200.0, 255.0];
        if !matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool) {
            edges.extend([-1.0, -2.0, -100.0, -128.0]);
        }
        if dtype.is_float() {
            let large = [3e4, 1e5, 3e9, 1e10, 9.3e18, 1.9e19, 1e30, f64::INFINITY];
            edges.extend(large.iter().flat_map(|&x| [x, -x]));
            edges.extend([0.5, -0.5, 1.75, -1.75, 254.9, f64::NAN, -0.0]);
        }
        edges
    }

    fn check_conversion(dst: DType, src: DType) {
        let numbers = edges(src);
        let count = numbers.len() as i64;
        let input = contiguous(src, &[count], &numbers);
        let outs = [(); 2].map(|()| contiguous(dst, &[count], &vec![0.0; numbers.len()]));
        let call = call(&outs[0].operand(), &input.operand()).unwrap().unwrap();
        run(&source(dst, src), &call);
        run_native(GraphOp::Copy, &[&outs[1], &input]);
        let (got, expected) = (values(&outs[0]), values(&outs[1]));
        let same = |(g, e): (&f64, &f64)| g == e || g.is_nan() && e.is_nan();
        let wrong = got.iter().zip(&expected).position(|pair| !same(pair));
        if let Some(i) = wrong {
            panic!("{src} {} to {dst}: {} for {}", numbers[i], got[i], expected[i]);
        }
    }

    #[test]
    fn elements_are_converted_as_on_the_host() {
        // One of each kind that the conversion tells apart, to every dtype.
        for src in [DType::F32, DType::I64, DType::U64, DType::Bool] {
            DType::ALL.into_iter().for_each(|dst| check_conversion(dst, src));
        }
        // How each is read.
        DType::ALL.into_iter().for_each(|src| check_conversion(DType::F32, src));
    }

    #[test]
    fn any_strides_are_walked() {
        for (sizes, dst, src) in [
            (&[2, 3, 4][..], &[12, 4, 1][..], &[1, 2, 6][..]),
            (&[2, 3, 4], &[40, 1, 5], &[0, 8, 2]),
            (&[1, 7, 1], &[9, 3, 5], &[2, 2, 2]),
            (&[3, 2, 2, 2, 2], &[64, 32, 16, 8, 1], &[1, 3, 6, 12, 24]),
            (&[], &[], &[]),
        ] {
            let count = sizes.iter().product::<i64>();
            let numbers: Vec<f64> = (0..count).map(|i| f64::from(i as i16) + 1.0).collect();
            // Broadcast elements are written several times: the last one stays.
            let input = tensor(DType::I16, sizes, src, 3, &numbers);
            let outs = [(); 2].map(|()| tensor(DType::I16, sizes, dst, 2, &[]));
            let call = call(&outs[0].operand(), &input.operand()).unwrap().unwrap();
            run(&source(DType::I16, DType::I16), &call);
            run_native(GraphOp::Copy, &[&outs[1], &input]);
            assert_eq!(bytes(&outs[0]), bytes(&outs[1]), "{sizes:?} {dst:?} {src:?}");
        }
    }

    #[test]
    fn dense_dimensions_are_merged() {
        let walk = |sizes: &[i64], dst: &[i64], src: &[i64]| Walk::new(sizes, dst, src).unwrap();
        let one = walk(&[4, 1, 3, 5], &[15, 15, 5, 1], &[15, 9, 5, 1]);
        assert_eq!((one.dimensions, one.sizes[0], one.dst[0], one.src[0]), (1, 60, 1, 1));
        let two = walk(&[4, 3, 5], &[15, 5, 1], &[20, 5, 1]);
        assert_eq!((two.dimensions, two.sizes[..2].to_vec()), (2, vec![4, 15]));
        assert_eq!(walk(&[], &[], &[]).dimensions, 0);
        let sizes = [2; 9];
        let apart: Vec<i64> = (0..9).map(|d| 3i64.pow(8 - d)).collect();
        let text = Walk::new(&sizes, &apart, &apart).unwrap_err().to_string();
        assert!(text.contains("more than 8 dimensions"), "{text}");
    }

    #[test]
    fn bytes_are_filled_where_they_are_asked_for() {
        let device = HostDevice::shared();
        let buffer = device.allocate(16).unwrap();
        // SAFETY: a new buffer's own bytes.
        unsafe { buffer.contents().write_bytes(0, 16) };
        let call = fill((&buffer, 3), 7, 0xAB).unwrap().unwrap();
        run(&source(DType::U8, DType::U8), &call);
        // SAFETY: written above; no work is under way.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.contents(), 16) };
        for (i, &byte) in bytes.iter().enumerate() {
            assert_eq!(byte, if (3..10).contains(&i) { 0xAB } else { 0 }, "{i}");
        }
        assert!(fill((&buffer, 3), 0, 1).unwrap().is_none());
    }

    #[test]
    fn more_elements_than_can_be_numbered_are_refused() {
        let device = HostDevice::shared();
        let buffer = device.allocate(1).unwrap();
        let text = fill((&buffer, 0), 1 << 32, 0).unwrap_err().to_string();
        assert!(text.contains("more than 4294967295 elements"), "{text}");
    }
}
