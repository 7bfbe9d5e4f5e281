//! Tensors: true views of a storage.

use smallvec::SmallVec;

use super::{DType, Storage};
use crate::Result;
use crate::device::{Device, Operand};
use crate::error::err;
use std::sync::Arc;

/// Where AOTInductor says a tensor lives. Memory is shared, so both kinds are usable from the
/// CPU; the difference is who may use them without waiting for the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// `cpu`.
    Cpu,
    /// `mps`.
    Mps,
}

/// Sizes and strides, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Elements along each dimension.
    pub sizes: SmallVec<[i64; 6]>,
    /// Elements between neighbours along each dimension; not negative.
    pub strides: SmallVec<[i64; 6]>,
}

impl Layout {
    /// The layout with these sizes and strides.
    ///
    /// # Errors
    /// Different counts, a negative value, or more elements or bytes than an address can name.
    pub fn new(sizes: &[i64], strides: &[i64]) -> Result<Self> {
        if sizes.len() != strides.len() {
            return Err(err!(
                InvalidArgument,
                "sizes {sizes:?} and strides {strides:?} differ in their number of dimensions"
            ));
        }
        if sizes.iter().chain(strides).any(|&v| v < 0) {
            return Err(err!(
                InvalidArgument,
                "sizes {sizes:?} and strides {strides:?} must not be negative"
            ));
        }
        let layout = Layout { sizes: sizes.into(), strides: strides.into() };
        if layout.checked_numel().is_none() || layout.checked_extent().is_none() {
            return Err(err!(
                InvalidArgument,
                "a tensor of sizes {sizes:?} and strides {strides:?} is too large to address"
            ));
        }
        Ok(layout)
    }

    /// The row-major layout of these sizes.
    ///
    /// # Errors
    /// As for [`Layout::new`].
    pub fn contiguous(sizes: &[i64]) -> Result<Self> {
        let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, sizes.len());
        for d in (1..sizes.len()).rev() {
            strides[d - 1] = strides[d].checked_mul(sizes[d].max(1)).ok_or_else(|| {
                err!(InvalidArgument, "a tensor of sizes {sizes:?} is too large to address")
            })?;
        }
        Layout::new(sizes, &strides)
    }

    fn checked_numel(&self) -> Option<i64> {
        if self.sizes.contains(&0) {
            return Some(0);
        }
        self.sizes.iter().try_fold(1i64, |n, &s| n.checked_mul(s))
    }

    fn checked_extent(&self) -> Option<i64> {
        if self.sizes.contains(&0) {
            return Some(0);
        }
        let last =
            self.sizes.iter().zip(&self.strides).try_fold(0i64, |at, (&size, &stride)| {
                at.checked_add((size - 1).checked_mul(stride)?)
            })?;
        // Room for the byte size of the widest dtype.
        last.checked_add(1)?.checked_mul(8).map(|_| last + 1)
    }

    /// Number of dimensions.
    pub fn dim(&self) -> usize {
        self.sizes.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        // Checked when the layout was made.
        self.checked_numel().unwrap_or(0) as usize
    }

    /// Elements from the first to one past the last that the layout touches.
    pub fn extent(&self) -> usize {
        self.checked_extent().unwrap_or(0) as usize
    }

    /// Whether elements lie in row-major order without gaps (dimensions of size 1 do not count).
    pub fn is_contiguous(&self) -> bool {
        if self.sizes.contains(&0) {
            return true;
        }
        let mut expected = 1;
        for (&size, &stride) in self.sizes.iter().zip(&self.strides).rev() {
            if size != 1 {
                if stride != expected {
                    return false;
                }
                expected *= size;
            }
        }
        true
    }

    /// Whether some order of the dimensions is row-major without gaps: every element of the
    /// extent belongs to exactly one index.
    pub fn is_dense(&self) -> bool {
        let mut dims: SmallVec<[(i64, i64); 6]> = self
            .sizes
            .iter()
            .zip(&self.strides)
            .filter(|&(&size, _)| size != 1)
            .map(|(&size, &stride)| (stride, size))
            .collect();
        if dims.iter().any(|&(_, size)| size == 0) {
            return true;
        }
        dims.sort_unstable();
        let mut expected = 1;
        dims.iter().all(|&(stride, size)| {
            let ok = stride == expected;
            expected *= size;
            ok
        })
    }
}

/// A view of a [`Storage`]: dtype, sizes, strides and a byte offset.
///
/// Views are views: a strided or offset tensor is bound as it is and never silently copied, so
/// writes through it reach the storage. Zero-element and zero-dimensional tensors are ordinary.
#[derive(Debug, Clone)]
pub struct Tensor {
    storage: Storage,
    /// Byte offset of element `[0, …, 0]` inside the storage.
    offset: usize,
    /// Bytes from its first element to one past its last.
    extent: usize,
    dtype: DType,
    layout: Layout,
    placement: Placement,
}

impl Tensor {
    /// The view of `storage` that starts `offset` bytes in.
    ///
    /// # Errors
    /// The view leaves the storage, or `offset` is no multiple of the element size.
    pub fn new(storage: Storage, offset: usize, dtype: DType, layout: Layout) -> Result<Self> {
        let bytes = layout.extent() * dtype.size();
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= storage.len());
        // A view without elements touches no byte, wherever it points.
        if !fits && bytes != 0 {
            return Err(err!(
                InvalidArgument,
                "a {dtype} view of sizes {:?}, strides {:?} at byte {offset} needs {bytes} bytes, \
                 but the storage has {}",
                layout.sizes,
                layout.strides,
                storage.len()
            ));
        }
        if !offset.is_multiple_of(dtype.size()) {
            return Err(err!(
                InvalidArgument,
                "byte offset {offset} is no multiple of the {} bytes of a {dtype}",
                dtype.size()
            ));
        }
        let offset = offset.min(storage.len());
        Ok(Tensor { storage, offset, extent: bytes, dtype, layout, placement: Placement::Mps })
    }

    /// A new tensor with its own storage; contents unspecified.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty(device: &Arc<dyn Device>, dtype: DType, layout: Layout) -> Result<Self> {
        let storage = Storage::allocate(device, layout.extent() * dtype.size())?;
        Tensor::new(storage, 0, dtype, layout)
    }

    /// The same tensor, said to live in `placement`.
    #[must_use]
    pub fn placed(self, placement: Placement) -> Self {
        Tensor { placement, ..self }
    }

    /// Another view of the same storage, `offset` bytes from the storage's start.
    ///
    /// # Errors
    /// As for [`Tensor::new`].
    pub fn view(&self, offset: usize, dtype: DType, layout: Layout) -> Result<Self> {
        Ok(Tensor::new(self.storage.clone(), offset, dtype, layout)?.placed(self.placement))
    }

    /// Its storage.
    #[inline]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Byte offset of its first element inside the storage.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Byte offset of its first element inside the storage's buffer: what a command binds.
    #[inline]
    pub fn buffer_offset(&self) -> usize {
        self.storage.buffer_offset() + self.offset
    }

    /// Bytes from its first element to one past its last.
    #[inline]
    pub fn extent_bytes(&self) -> usize {
        self.extent
    }

    /// Element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes and strides.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Elements along each dimension.
    pub fn sizes(&self) -> &[i64] {
        &self.layout.sizes
    }

    /// Elements between neighbours along each dimension.
    pub fn strides(&self) -> &[i64] {
        &self.layout.strides
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// Where AOTInductor says it lives.
    #[inline]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// CPU address of its first element. What may be done with it is said in [`crate::device`].
    pub fn as_ptr(&self) -> *mut u8 {
        // SAFETY: `offset` lies inside the storage or at its end (checked in `new`).
        unsafe { self.storage.as_ptr().add(self.offset) }
    }

    /// The tensor as an operand of an op graph.
    pub fn operand(&self) -> Operand {
        Operand {
            buffer: self.storage.buffer().clone(),
            offset: self.buffer_offset(),
            dtype: self.dtype,
            sizes: self.layout.sizes.clone(),
            strides: self.layout.strides.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_know_their_shape() {
        let l = Layout::contiguous(&[2, 3, 4]).unwrap();
        assert_eq!(l.strides.as_slice(), [12, 4, 1]);
        assert_eq!((l.numel(), l.extent()), (24, 24));
        assert!(l.is_contiguous() && l.is_dense());

        let transposed = Layout::new(&[4, 3], &[1, 4]).unwrap();
        assert!(!transposed.is_contiguous() && transposed.is_dense());
        let padded = Layout::new(&[3, 4], &[5, 1]).unwrap();
        assert_eq!(padded.extent(), 14);
        assert!(!padded.is_contiguous() && !padded.is_dense());
        let broadcast = Layout::new(&[3, 4], &[0, 1]).unwrap();
        assert_eq!((broadcast.numel(), broadcast.extent()), (12, 4));
        assert!(!broadcast.is_dense());
    }

    #[test]
    fn scalars_and_empty_tensors_are_ordinary() {
        let scalar = Layout::contiguous(&[]).unwrap();
        assert_eq!((scalar.numel(), scalar.extent()), (1, 1));
        assert!(scalar.is_contiguous() && scalar.is_dense());
        let empty = Layout::contiguous(&[3, 0, 2]).unwrap();
        assert_eq!((empty.numel(), empty.extent()), (0, 0));
        assert!(empty.is_contiguous() && empty.is_dense());
        assert!(Layout::new(&[0, 3], &[7, 7]).unwrap().is_contiguous(), "whatever the strides");
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert!(Layout::new(&[2], &[1, 1]).is_err());
        assert!(Layout::new(&[-1], &[1]).is_err());
        assert!(Layout::new(&[2], &[-1]).is_err());
        assert!(Layout::contiguous(&[i64::MAX, 2]).is_err());
        assert!(Layout::new(&[2, 2], &[i64::MAX, 1]).is_err());
    }
}
