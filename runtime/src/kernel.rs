//! Kernels, their arguments, and how many threads run them.

use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::Result;
use crate::device::{Argument, ArgumentTable, Extent, Grid, Pipeline};
use crate::error::err;
use crate::profile::{self, TensorUse};
use crate::tensor::{Placement, Tensor};

/// Entries of Metal's buffer argument table.
const MAX_ARGUMENTS: usize = 31;
/// Entries of the threadgroup memory table.
const MAX_THREADGROUP_ARGUMENTS: usize = 8;
/// The most bytes that `setBytes` takes.
const MAX_INLINE_BYTES: usize = 4096;

/// One kernel of a shader library, ready to dispatch. Cloning shares it; it holds no state of
/// any call, so threads may use it at once.
#[derive(Debug, Clone)]
pub struct Kernel {
    pipeline: Arc<dyn Pipeline>,
    library: Arc<str>,
}

impl Kernel {
    /// The kernel of a pipeline that came from the library called `library`.
    pub fn new(pipeline: Arc<dyn Pipeline>, library: Arc<str>) -> Self {
        Kernel { pipeline, library }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.pipeline.name()
    }

    /// A short name that tells it from other kernels of a model: the library's, and its own where
    /// that says something. AOTInductor calls the only kernel of a library `generated_kernel`.
    pub fn label(&self) -> String {
        match self.name() {
            "generated_kernel" => self.library.to_string(),
            name => format!("{}.{name}", self.library),
        }
    }

    /// Name of its library.
    pub fn library(&self) -> &Arc<str> {
        &self.library
    }

    /// Its pipeline.
    pub fn pipeline(&self) -> &Arc<dyn Pipeline> {
        &self.pipeline
    }

    /// Whether both are the same kernel of the same library.
    pub fn is(&self, other: &Kernel) -> bool {
        Arc::ptr_eq(&self.pipeline, &other.pipeline)
    }

    /// Whether both name the same library.
    pub(crate) fn shares_library(&self, other: &Kernel) -> bool {
        Arc::ptr_eq(&self.library, &other.library)
    }

    /// The kernel and its library, for messages.
    pub fn describe(&self) -> String {
        format!("kernel \"{}\" of shader library \"{}\"", self.name(), self.library)
    }

    /// The grid of `threads` in one dimension. Without a group size, PyTorch's: as many threads
    /// as there are, up to the kernel's limit.
    ///
    /// # Errors
    /// The group is empty or exceeds the kernel's limit, or a number exceeds 32 bits.
    pub fn grid_1d(&self, threads: u64, group: Option<u64>) -> Result<Grid> {
        let limit = u64::from(self.pipeline.max_threads_per_threadgroup());
        let group = group.unwrap_or(threads.min(limit));
        match (u32::try_from(threads), u32::try_from(group)) {
            (Ok(threads @ 1..), Ok(size @ 1..)) if group <= limit => {
                Ok(Grid::Threads { threads: [threads, 1, 1], group: [size, 1, 1] })
            }
            _ => self.grid(&[threads], Some(&[group])),
        }
    }

    /// The grid of `threads` in one to three dimensions. Without group sizes, PyTorch's: the
    /// kernel's limit along x.
    ///
    /// # Errors
    /// The number of dimensions is not 1, 2 or 3 or differs between both; the group is empty or
    /// exceeds the kernel's limit; a number exceeds 32 bits.
    pub fn grid(&self, threads: &[u64], group: Option<&[u64]>) -> Result<Grid> {
        if threads.is_empty() || threads.len() > 3 {
            return Err(err!(
                InvalidArgument,
                "{}: a grid has 1 to 3 dimensions, {threads:?} has {}",
                self.describe(),
                threads.len()
            ));
        }
        let limit = u64::from(self.pipeline.max_threads_per_threadgroup());
        let group = group.map_or_else(
            || SmallVec::<[u64; 3]>::from_slice(&[limit, 1, 1][..threads.len()]),
            SmallVec::from_slice,
        );
        if group.len() != threads.len() {
            return Err(err!(
                InvalidArgument,
                "{}: the grid {threads:?} and the threadgroup {group:?} differ in their number of \
                 dimensions",
                self.describe()
            ));
        }
        if threads.contains(&0) {
            return Ok(Grid::Threads { threads: [0; 3], group: [1; 3] });
        }
        let size = group.iter().try_fold(1u64, |size, &g| size.checked_mul(g));
        if size.is_none_or(|size| size == 0 || size > limit) {
            return Err(err!(
                InvalidArgument,
                "{}: the threadgroup {group:?} must have between 1 and {limit} threads",
                self.describe()
            ));
        }
        Ok(Grid::Threads { threads: self.extent(threads)?, group: self.extent(&group)? })
    }

    /// The grid of `groups` full threadgroups of `group` threads each, in one to three
    /// dimensions.
    ///
    /// # Errors
    /// As for [`Kernel::grid`].
    pub fn grid_of_groups(&self, groups: &[u64], group: &[u64]) -> Result<Grid> {
        match self.grid(groups, Some(group))? {
            Grid::Threads { threads, group } => Ok(Grid::Threadgroups { groups: threads, group }),
            grid @ Grid::Threadgroups { .. } => Ok(grid),
        }
    }

    fn extent(&self, sizes: &[u64]) -> Result<Extent> {
        let mut extent = [1; 3];
        for (to, &size) in extent.iter_mut().zip(sizes) {
            *to = u32::try_from(size).map_err(|_| {
                err!(
                    InvalidArgument,
                    "{}: {sizes:?} exceeds the 32 bits that Metal has for a grid",
                    self.describe()
                )
            })?;
        }
        Ok(extent)
    }
}

/// The arguments of one kernel call, by index.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    /// Command buffers may share it: it is copied before it changes under them.
    table: Rc<ArgumentTable>,
    /// The tensors among the arguments, by index; only while profiling.
    tensors: Vec<(usize, TensorUse)>,
}

impl Arguments {
    /// No argument set.
    pub fn new() -> Self {
        Arguments::default()
    }

    /// Unsets all. If a command buffer has the table, goes on with the `spare` one.
    pub fn renew(&mut self, spare: impl FnOnce() -> Option<Rc<ArgumentTable>>) {
        match Rc::get_mut(&mut self.table) {
            Some(table) => table.clear(),
            None => self.table = spare().unwrap_or_default(),
        }
        self.tensors.clear();
    }

    /// The arguments as a command buffer takes them.
    pub fn table(&self) -> &Rc<ArgumentTable> {
        &self.table
    }

    /// Buffer arguments by index.
    pub fn buffers(&self) -> &[Option<Argument>] {
        self.table.buffers()
    }

    /// Bytes of each `threadgroup` argument, by its index.
    pub fn threadgroup_memory(&self) -> &[u32] {
        self.table.threadgroup_memory()
    }

    /// The tensors that were bound while profiling, by index.
    pub fn tensor_uses(&self) -> impl Iterator<Item = &TensorUse> {
        self.tensors.iter().map(|(_, tensor)| tensor)
    }

    /// Binds the buffer of `tensor` from its first element on; views are bound as views. A CPU
    /// tensor without dimensions travels by value, as in PyTorch.
    ///
    /// # Errors
    /// The index is out of range, or the tensor is a CPU tensor with dimensions.
    #[inline]
    pub fn tensor(&mut self, index: usize, tensor: &Tensor) -> Result<()> {
        if tensor.placement() != Placement::Mps {
            return self.cpu_scalar(index, tensor);
        }
        let known = (Some(tensor.extent_bytes()), Some(tensor.dtype()));
        let (buffer, offset) = (tensor.storage().buffer(), tensor.buffer_offset());
        self.changed(index)?.bind_buffer(index, buffer, offset, known);
        if profile::enabled() {
            self.note_tensor(index, tensor);
        }
        Ok(())
    }

    /// Unsets an argument, so that setting it again lets go of nothing.
    pub(crate) fn unset(&mut self, index: usize) {
        Rc::make_mut(&mut self.table).unbind(index);
    }

    /// Binds a CPU tensor, which has no dimensions.
    fn cpu_scalar(&mut self, index: usize, tensor: &Tensor) -> Result<()> {
        if !tensor.sizes().is_empty() {
            return Err(err!(
                InvalidArgument,
                "argument {index} is a CPU tensor of sizes {:?}; a kernel takes mps tensors and \
                 CPU scalars",
                tensor.sizes()
            ));
        }
        // SAFETY: the tensor's one element lies inside its storage, which it keeps alive; CPU
        // tensors are not written by the device.
        let bytes = unsafe { std::slice::from_raw_parts(tensor.as_ptr(), tensor.dtype().size()) };
        self.bytes(index, bytes)
    }

    /// Binds a `constant long&`: what AOTInductor passes integers as.
    ///
    /// # Errors
    /// The index is out of range.
    pub fn i64(&mut self, index: usize, value: i64) -> Result<()> {
        self.bytes(index, &value.to_ne_bytes())
    }

    /// Binds a `constant uint&`.
    ///
    /// # Errors
    /// The index is out of range.
    pub fn u32(&mut self, index: usize, value: u32) -> Result<()> {
        self.bytes(index, &value.to_ne_bytes())
    }

    /// Binds a `constant float&`.
    ///
    /// # Errors
    /// The index is out of range.
    pub fn f32(&mut self, index: usize, value: f32) -> Result<()> {
        self.bytes(index, &value.to_ne_bytes())
    }

    /// Binds a `constant bool&`.
    ///
    /// # Errors
    /// The index is out of range.
    pub fn bool(&mut self, index: usize, value: bool) -> Result<()> {
        self.bytes(index, &[u8::from(value)])
    }

    /// Binds a `constant uint3&`, which takes 16 bytes in MSL.
    ///
    /// # Errors
    /// The index is out of range.
    pub fn uint3(&mut self, index: usize, value: [u32; 3]) -> Result<()> {
        let mut bytes = [0; 16];
        for (to, v) in bytes.chunks_exact_mut(4).zip(value) {
            to.copy_from_slice(&v.to_ne_bytes());
        }
        self.bytes(index, &bytes)
    }

    /// Binds bytes that travel with the command.
    ///
    /// # Errors
    /// The index is out of range; there are no bytes, or more than 4096.
    pub fn bytes(&mut self, index: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() || bytes.len() > MAX_INLINE_BYTES {
            return Err(err!(
                InvalidArgument,
                "argument {index} has {} bytes; between 1 and {MAX_INLINE_BYTES} can travel with a \
                 command, pass more as a tensor",
                bytes.len()
            ));
        }
        self.changed(index)?.bind(index, Argument::Bytes(SmallVec::from_slice(bytes)));
        Ok(())
    }

    /// Gives the `threadgroup` argument `index` that many bytes.
    ///
    /// # Errors
    /// The index is out of range.
    pub fn threadgroup(&mut self, index: usize, bytes: u32) -> Result<()> {
        if index >= MAX_THREADGROUP_ARGUMENTS {
            return Err(err!(
                InvalidArgument,
                "threadgroup argument {index}: the last index is {}",
                MAX_THREADGROUP_ARGUMENTS - 1
            ));
        }
        Rc::make_mut(&mut self.table).bind_threadgroup(index, bytes);
        Ok(())
    }

    /// The table, whose argument `index` is about to change.
    #[inline]
    fn changed(&mut self, index: usize) -> Result<&mut ArgumentTable> {
        if index >= MAX_ARGUMENTS {
            return Err(err!(
                InvalidArgument,
                "argument {index}: the last index of a Metal kernel is {}",
                MAX_ARGUMENTS - 1
            ));
        }
        if !self.tensors.is_empty() {
            self.tensors.retain(|(at, _)| *at != index);
        }
        Ok(Rc::make_mut(&mut self.table))
    }

    fn note_tensor(&mut self, index: usize, tensor: &Tensor) {
        let tensor = TensorUse::new(tensor.dtype(), tensor.sizes(), tensor.strides());
        let at = self.tensors.partition_point(|(at, _)| *at < index);
        self.tensors.insert(at, (index, tensor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::testing::adders;
    use crate::ops::testing::contiguous;
    use crate::tensor::DType;

    fn kernel() -> Kernel {
        adders("mps_lib_5").kernel("add_plain").unwrap()
    }

    fn threads(grid: Grid) -> (Extent, Extent) {
        match grid {
            Grid::Threads { threads, group } => (threads, group),
            Grid::Threadgroups { .. } => panic!("{grid:?}"),
        }
    }

    #[test]
    fn grids_without_a_group_are_pytorchs() {
        let kernel = kernel();
        assert_eq!(threads(kernel.grid_1d(7, None).unwrap()), ([7, 1, 1], [7, 1, 1]));
        assert_eq!(threads(kernel.grid_1d(5000, None).unwrap()), ([5000, 1, 1], [1024, 1, 1]));
        let grid = kernel.grid(&[7, 3], None).unwrap();
        assert_eq!(threads(grid), ([7, 3, 1], [1024, 1, 1]), "no smaller for a small grid");
        let grid = kernel.grid(&[7, 3, 2], None).unwrap();
        assert_eq!(threads(grid), ([7, 3, 2], [1024, 1, 1]));
    }

    #[test]
    fn grids_with_a_group_are_as_given() {
        let kernel = kernel();
        assert_eq!(threads(kernel.grid_1d(7, Some(64)).unwrap()), ([7, 1, 1], [64, 1, 1]));
        let grid = kernel.grid(&[70, 30, 2], Some(&[32, 32, 1])).unwrap();
        assert_eq!(threads(grid), ([70, 30, 2], [32, 32, 1]));
        let grid = kernel.grid_of_groups(&[3, 4], &[8, 8]).unwrap();
        assert_eq!(grid, Grid::Threadgroups { groups: [3, 4, 1], group: [8, 8, 1] });
        assert_eq!(threads(kernel.grid_1d(0, None).unwrap()).0, [0; 3]);
        assert_eq!(threads(kernel.grid(&[4, 0], Some(&[2, 2])).unwrap()).0, [0; 3]);
    }

    #[test]
    fn grids_that_cannot_be_are_refused_by_name() {
        let kernel = kernel();
        let refused = |grid: Result<Grid>, part: &str| {
            let text = grid.unwrap_err().to_string();
            assert!(text.contains("add_plain") && text.contains("mps_lib_5"), "{text}");
            assert!(text.contains(part), "{text}");
        };
        refused(kernel.grid_1d(7, Some(1025)), "between 1 and 1024");
        refused(kernel.grid_1d(7, Some(0)), "between 1 and 1024");
        refused(kernel.grid(&[7, 7], Some(&[64, 32])), "between 1 and 1024");
        refused(kernel.grid(&[7, 7], Some(&[u64::MAX, 2])), "between 1 and 1024");
        refused(kernel.grid(&[], None), "1 to 3 dimensions");
        refused(kernel.grid(&[1; 4], None), "1 to 3 dimensions");
        refused(kernel.grid(&[7, 7], Some(&[8])), "differ");
        refused(kernel.grid_1d(1 << 32, None), "32 bits");
    }

    #[test]
    fn values_have_msls_sizes() {
        let mut arguments = Arguments::new();
        arguments.i64(0, -2).unwrap();
        arguments.u32(1, 7).unwrap();
        arguments.f32(2, 1.5).unwrap();
        arguments.bool(3, true).unwrap();
        arguments.uint3(4, [1, 2, 3]).unwrap();
        let sizes: Vec<_> = arguments
            .buffers()
            .iter()
            .map(|argument| match argument {
                Some(Argument::Bytes(bytes)) => bytes.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes, [8, 4, 4, 1, 16]);
        arguments.threadgroup(2, 64).unwrap();
        assert_eq!(arguments.threadgroup_memory(), [0, 0, 64]);
        arguments.renew(|| unreachable!("nobody shares it"));
        assert!(arguments.buffers().is_empty() && arguments.threadgroup_memory().is_empty());
    }

    #[test]
    fn views_are_bound_as_views() {
        let base = contiguous(DType::F32, &[8], &[0.0; 8]);
        let layout = crate::tensor::Layout::new(&[2], &[3]).unwrap();
        let view = base.view(12, DType::F32, layout).unwrap();
        let mut arguments = Arguments::new();
        arguments.tensor(1, &view).unwrap();
        assert!(arguments.buffers()[0].is_none(), "what was not set is not bound");
        match &arguments.buffers()[1] {
            Some(Argument::Buffer { buffer, offset: 12, extent, .. }) => {
                assert_eq!(*extent, Some(view.extent_bytes()));
                assert!(Arc::ptr_eq(buffer, base.storage().buffer()));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn cpu_scalars_travel_by_value_and_cpu_tensors_are_refused() {
        let scalar = contiguous(DType::I16, &[], &[5.0]).placed(Placement::Cpu);
        let mut arguments = Arguments::new();
        arguments.tensor(0, &scalar).unwrap();
        match &arguments.buffers()[0] {
            Some(Argument::Bytes(bytes)) => assert_eq!(bytes.as_slice(), 5i16.to_ne_bytes()),
            other => panic!("{other:?}"),
        }
        let vector = contiguous(DType::I16, &[1], &[5.0]).placed(Placement::Cpu);
        let text = arguments.tensor(0, &vector).unwrap_err().to_string();
        assert!(text.contains("CPU tensor") && text.contains("[1]"), "{text}");
    }

    #[test]
    fn indices_and_lengths_have_bounds() {
        let mut arguments = Arguments::new();
        assert!(arguments.i64(31, 0).unwrap_err().to_string().contains("30"));
        assert!(arguments.i64(usize::MAX, 0).is_err());
        assert!(arguments.threadgroup(8, 4).is_err());
        assert!(arguments.bytes(0, &[]).is_err());
        assert!(arguments.bytes(0, &[0; 4097]).unwrap_err().to_string().contains("4096"));
        arguments.bytes(30, &[0; 4096]).unwrap();
    }
}
