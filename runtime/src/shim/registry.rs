//! The one process-wide registry: everything that was lent to C, and whose it is.
//!
//! The C ABI passes bare handles and addresses, from any thread and, at unload, from static
//! destructors, so the tables behind them cannot belong to a model. Every entry is tagged with
//! the model it was lent on behalf of; taking one model's leftovers back touches no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::tracking::{self, Kind, Record};
use crate::Result;
use crate::error::err;
use crate::kernel::Kernel;
use crate::library::Library;
use crate::tensor::{HandleTable, RawHandle, Storage, Tensor};

/// Which model something was lent on behalf of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// Its number, for people.
    pub fn number(self) -> u64 {
        self.0
    }

    /// A new one, unlike all others of the process.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Whoever calls while no model is current.
    pub const NOBODY: Owner = Owner(0);
}

/// A tensor lent to C. `None` is PyTorch's undefined tensor.
#[derive(Debug)]
pub struct LentTensor {
    owner: Owner,
    made_by: &'static str,
    tensor: Option<Arc<Tensor>>,
}

/// A shader library lent to C, with the handles of its kernels.
#[derive(Debug)]
pub struct LentLibrary {
    owner: Owner,
    made_by: &'static str,
    library: Library,
    /// A kernel that is asked for again gets the same handle; deleting the library deletes them.
    kernels: Mutex<Vec<(String, RawHandle)>>,
}

/// A kernel lent to C.
#[derive(Debug)]
struct LentKernel {
    owner: Owner,
    kernel: Kernel,
}

/// A range of memory lent to C by address.
#[derive(Debug, Clone)]
pub struct Range {
    owner: Owner,
    made_by: &'static str,
    /// Its memory.
    pub storage: Storage,
    /// Whether it is the offered weights of a model, and not memory of its own.
    pub is_weights: bool,
}

static TENSORS: HandleTable<LentTensor> = HandleTable::new(1, "tensor");
static LIBRARIES: HandleTable<LentLibrary> = HandleTable::new(2, "shader library");
static KERNELS: HandleTable<LentKernel> = HandleTable::new(3, "kernel function");
/// Lent ranges by address. The second part of the key tells ranges apart that begin at one
/// address, as two models over one mapping of weights may.
static RANGES: RwLock<BTreeMap<(usize, u64), Range>> = RwLock::new(BTreeMap::new());

/// Lends a tensor; `None` lends an undefined one.
pub fn lend_tensor(owner: Owner, tensor: Option<Arc<Tensor>>) -> RawHandle {
    TENSORS.insert(Arc::new(LentTensor { owner, made_by: tracking::current_call(), tensor }))
}

/// The tensor behind a handle.
///
/// # Errors
/// The handle is not live, or the tensor is undefined.
pub fn tensor(handle: RawHandle) -> Result<Arc<Tensor>> {
    defined(TENSORS.get(handle)?)
}

/// What `look` makes of the tensor behind a handle; see [`HandleTable::look`].
///
/// # Errors
/// As for [`tensor`], and those of `look`.
pub fn look_at_tensor<T>(handle: RawHandle, look: impl FnOnce(&Tensor) -> Result<T>) -> Result<T> {
    TENSORS.look(handle, |lent| look(lent.tensor.as_ref().ok_or_else(undefined)?))?
}

/// The tensor behind a handle, or `None` for an undefined one.
///
/// # Errors
/// The handle is not live.
pub fn maybe_tensor(handle: RawHandle) -> Result<Option<Arc<Tensor>>> {
    Ok(TENSORS.get(handle)?.tensor.clone())
}

/// Takes a lent tensor back.
///
/// # Errors
/// The handle is not live; or the tensor is undefined, in which case the handle is deleted.
pub fn take_tensor(handle: RawHandle) -> Result<Arc<Tensor>> {
    defined(TENSORS.remove(handle)?)
}

/// Deletes a tensor's handle.
///
/// # Errors
/// The handle is not live.
pub fn delete_tensor(handle: RawHandle) -> Result<()> {
    TENSORS.remove(handle).map(drop)
}

/// Puts another tensor behind a live handle; its owner stays.
///
/// # Errors
/// The handle is not live.
pub fn replace_tensor(handle: RawHandle, tensor: Option<Arc<Tensor>>) -> Result<()> {
    let LentTensor { owner, made_by, .. } = *TENSORS.get(handle)?;
    TENSORS.replace(handle, Arc::new(LentTensor { owner, made_by, tensor })).map(drop)
}

fn defined(lent: Arc<LentTensor>) -> Result<Arc<Tensor>> {
    lent.tensor.clone().ok_or_else(undefined)
}

fn undefined() -> crate::Error {
    err!(InvalidArgument, "the tensor is undefined: it was created uninitialised and not set")
}

/// Lends a library.
pub fn lend_library(owner: Owner, library: Library) -> RawHandle {
    let made_by = tracking::current_call();
    LIBRARIES.insert(Arc::new(LentLibrary { owner, made_by, library, kernels: Mutex::default() }))
}

/// The handle of a kernel of a lent library. It lives as long as the library.
///
/// # Errors
/// The library's handle is not live, or the library has no such kernel.
pub fn kernel_of_library(library: RawHandle, name: &str) -> Result<RawHandle> {
    let lent = LIBRARIES.get(library)?;
    // Built before the lock is taken: other kernels of the library need not wait.
    let kernel = lent.library.kernel(name)?;
    let mut kernels = lent.kernels.lock();
    if let Some((_, handle)) = kernels.iter().find(|(known, _)| known == name) {
        return Ok(*handle);
    }
    let handle = KERNELS.insert(Arc::new(LentKernel { owner: lent.owner, kernel }));
    kernels.push((name.to_string(), handle));
    Ok(handle)
}

/// The kernel behind a handle.
///
/// # Errors
/// The handle is not live.
pub fn kernel(handle: RawHandle) -> Result<Kernel> {
    Ok(KERNELS.get(handle)?.kernel.clone())
}

/// What `work` makes of the kernel behind a handle.
///
/// # Errors
/// The handle is not live, and those of `work`.
pub fn with_kernel<T>(handle: RawHandle, work: impl FnOnce(&Kernel) -> Result<T>) -> Result<T> {
    work(&KERNELS.get(handle)?.kernel)
}

/// Deletes a library and the handles of its kernels.
///
/// # Errors
/// The handle is not live.
pub fn delete_library(handle: RawHandle) -> Result<()> {
    let lent = LIBRARIES.remove(handle)?;
    for (_, kernel) in lent.kernels.lock().drain(..) {
        // Gone already if the owner's leftovers were swept.
        let _ = KERNELS.remove(kernel);
    }
    Ok(())
}

/// Lends the memory of `storage` by its address.
pub fn lend_range(owner: Owner, storage: Storage, is_weights: bool) -> *mut u8 {
    static SEQUENCE: AtomicU64 = AtomicU64::new(0);
    let address = storage.as_ptr();
    let key = (address as usize, SEQUENCE.fetch_add(1, Ordering::Relaxed));
    let range = Range { owner, made_by: tracking::current_call(), storage, is_weights };
    RANGES.write().insert(key, range);
    address
}

/// Takes back the range that begins at `address`; of several, one of `owner`, else the newest.
///
/// # Errors
/// No range begins there.
pub fn take_range(owner: Owner, address: *mut u8) -> Result<Range> {
    let start = address as usize;
    let mut ranges = RANGES.write();
    let mut candidates = ranges.range((start, 0)..=(start, u64::MAX)).rev();
    let newest = candidates.next();
    let chosen = newest
        .filter(|(_, range)| range.owner == owner)
        .or_else(|| candidates.find(|(_, range)| range.owner == owner))
        .or(newest)
        .map(|(key, _)| *key);
    let Some(range) = chosen.and_then(|key| ranges.remove(&key)) else {
        drop(ranges);
        return Err(err!(
            InvalidHandle,
            "{address:p} is not the start of memory that was allocated here, or it was freed \
             before"
        ));
    };
    Ok(range)
}

/// The lent range that holds `address`, and how far into it `address` lies. A range's end counts
/// only if no other range begins there.
pub fn find_range(address: *const u8) -> Option<(Range, usize)> {
    let at = address as usize;
    let ranges = RANGES.read();
    // Ranges do not nest except for equal ones, so the nearest start below decides.
    let (&(start, _), range) = ranges.range(..=(at, u64::MAX)).next_back()?;
    let offset = at - start;
    (offset < range.storage.len().max(1)).then(|| (range.clone(), offset))
}

/// Takes back everything lent on behalf of `owner`; says how many objects there were.
pub fn release(owner: Owner) -> usize {
    // Kernels belong to their library and are no leftovers of their own.
    let _ = KERNELS.remove_where(|lent| lent.owner == owner);
    let libraries = LIBRARIES.remove_where(|lent| lent.owner == owner);
    let tensors = TENSORS.remove_where(|lent| lent.owner == owner);
    let mut ranges = Vec::new();
    RANGES.write().retain(|_, range| {
        let mine = range.owner == owner;
        if mine {
            ranges.push(range.clone());
        }
        !mine
    });
    tracking::keep_left(records(&tensors, &libraries, &ranges));
    libraries.len() + tensors.len() + ranges.len()
}

/// Everything that is lent now, of all models.
pub fn live() -> Vec<Record> {
    let ranges: Vec<Range> = RANGES.read().values().cloned().collect();
    records(&TENSORS.values(), &LIBRARIES.values(), &ranges).collect()
}

fn records(
    tensors: &[Arc<LentTensor>],
    libraries: &[Arc<LentLibrary>],
    ranges: &[Range],
) -> impl Iterator<Item = Record> {
    let tensors = tensors.iter().map(|lent| lent.record());
    let libraries = libraries.iter().map(|lent| lent.record());
    tensors.chain(libraries).chain(ranges.iter().map(Range::record))
}

impl LentTensor {
    fn record(&self) -> Record {
        let tensor = self.tensor.as_deref();
        Record {
            bytes: tensor.map_or(0, |t| t.layout().extent() * t.dtype().size()),
            dtype: tensor.map(Tensor::dtype),
            sizes: tensor.map_or_else(Vec::new, |t| t.sizes().to_vec()),
            ..blank(Kind::Tensor, self.owner, self.made_by)
        }
    }
}

impl LentLibrary {
    fn record(&self) -> Record {
        let label = Some(self.library.label().to_owned());
        Record { label, ..blank(Kind::Library, self.owner, self.made_by) }
    }
}

impl Range {
    fn record(&self) -> Record {
        let bytes = self.storage.len();
        Record { bytes, ..blank(Kind::Memory, self.owner, self.made_by) }
    }
}

fn blank(kind: Kind, owner: Owner, made_by: &'static str) -> Record {
    Record { kind, owner, made_by, bytes: 0, dtype: None, sizes: Vec::new(), label: None }
}

/// Objects lent to C now, of all models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lent {
    /// Tensors.
    pub tensors: usize,
    /// Shader libraries.
    pub libraries: usize,
    /// Kernels of those libraries.
    pub kernels: usize,
    /// Ranges of memory.
    pub ranges: usize,
}

/// Counts what is lent.
pub fn lent() -> Lent {
    Lent {
        tensors: TENSORS.len(),
        libraries: LIBRARIES.len(),
        kernels: KERNELS.len(),
        ranges: RANGES.read().len(),
    }
}
