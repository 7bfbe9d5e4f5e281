//! AOTInductor's container interface (`torch/csrc/inductor/aoti_runtime/interface.h`).

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use super::library::Library;
use crate::Result;
use crate::error::err;
use crate::tensor::RawHandle;

/// An `AOTInductorModelContainerHandle`.
type ContainerHandle = *mut c_void;
/// An `AOTIRuntimeError`: 0 is success.
type Status = i32;

/// Declares the functions of the interface, and how they are looked up.
macro_rules! functions {
    (
        required { $($name:ident: $symbol:literal = fn($($argument:ty),*);)* }
        optional { $($oname:ident: $osymbol:literal = fn($($oargument:ty),*);)* }
    ) => {
        /// The functions of a model library.
        #[derive(Debug, Clone, Copy)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> Status,)*
            $($oname: Option<unsafe extern "C" fn($($oargument),*) -> Status>,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self> {
                let missing: Vec<&str> =
                    [$($symbol),*].into_iter().filter(|s| library.symbol(s).is_none()).collect();
                if !missing.is_empty() {
                    return Err(err!(
                        InvalidProgram,
                        "the model library lacks {}; was it made by AOTInductor for ExecuTorch, \
                         with constants in a binary blob?",
                        missing.join(", ")
                    ));
                }
                // SAFETY: functions of these names have these types in AOTInductor's interface,
                // which is a stable C ABI.
                Ok(unsafe {
                    Functions {
                        $($name: std::mem::transmute::<
                            NonNull<c_void>,
                            unsafe extern "C" fn($($argument),*) -> Status,
                        >(library.symbol($symbol).expect("looked up above")),)*
                        $($oname: std::mem::transmute::<
                            Option<NonNull<c_void>>,
                            Option<unsafe extern "C" fn($($oargument),*) -> Status>,
                        >(library.symbol($osymbol)),)*
                    }
                })
            }
        }
    };
}

functions! {
    required {
        create: "AOTInductorModelContainerCreateWithDevice" =
            fn(*mut ContainerHandle, usize, *const c_char, *const c_char);
        delete: "AOTInductorModelContainerDelete" = fn(ContainerHandle);
        run: "AOTInductorModelContainerRunSingleThreaded" = fn(
            ContainerHandle,
            *mut RawHandle,
            usize,
            *mut RawHandle,
            usize,
            *mut c_void,
            *mut c_void
        );
        num_inputs: "AOTInductorModelContainerGetNumInputs" = fn(ContainerHandle, *mut usize);
        num_outputs: "AOTInductorModelContainerGetNumOutputs" = fn(ContainerHandle, *mut usize);
        num_constants: "AOTInductorModelContainerGetNumConstants" =
            fn(ContainerHandle, *mut usize);
        constant_name: "AOTInductorModelContainerGetConstantName" =
            fn(ContainerHandle, usize, *mut *const c_char);
        constant_original_name: "AOTInductorModelContainerGetConstantOriginalFQN" =
            fn(ContainerHandle, usize, *mut *const c_char);
        constant_from_folded: "AOTInductorModelContainerGetConstantFromFolded" =
            fn(ContainerHandle, usize, *mut bool);
        constant_size: "AOTInductorModelContainerGetConstantDataSize" =
            fn(ContainerHandle, usize, *mut usize);
        update_constants_from_blob: "AOTInductorModelUpdateConstantsFromBlob" =
            fn(ContainerHandle, *const u8);
    }
    optional {
        constant_type: "AOTInductorModelContainerGetConstantType" =
            fn(ContainerHandle, usize, *mut i32);
        constants_blob_size: "AOTInductorModelContainerGetConstantsBlobSize" =
            fn(ContainerHandle, *mut u64);
        extract_constants: "AOTInductorModelContainerExtractConstantsMapEntries" =
            fn(ContainerHandle, *mut *const ConstantEntry, *mut usize, bool);
        update_user_managed:
            "AOTInductorModelContainerUpdateUserManagedConstantBufferPairs" =
            fn(ContainerHandle, *const ConstantEntry, usize, bool, bool);
        last_error: "AOTInductorGetLastError" = fn(*mut *const c_char);
    }
}

/// An `AOTInductorConstantMapEntry`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct ConstantEntry {
    name: *const c_char,
    handle: RawHandle,
}

/// What a constant was in the exported program
/// (`torch/csrc/inductor/aoti_runtime/constant_type.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConstantKind {
    /// A parameter: never written.
    Parameter,
    /// A buffer, or not known: a model may write to it (a KV cache).
    MayBeWritten,
}

/// One constant of a model, in the order of the weights blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constant {
    /// Its name in the generated code.
    pub name: String,
    /// Its name in the exported program.
    pub original_name: String,
    pub kind: ConstantKind,
    /// Bytes in the blob.
    pub size: usize,
}

/// One AOTInductor container. Dropping it deletes it.
///
/// Every call must be made while the model's context is entered, because the library calls back.
#[derive(Debug)]
pub(super) struct Aoti {
    functions: Functions,
    handle: ContainerHandle,
    /// Keeps the code loaded until the container is deleted.
    _library: Arc<Library>,
}

// SAFETY: a container is bound to no thread; calls that must not overlap are `&mut self` here or
// serialised by `Container`.
unsafe impl Send for Aoti {}
// SAFETY: what `&self` reads does not change once the container is made.
unsafe impl Sync for Aoti {}

impl Aoti {
    /// Makes a container for one model instance on the `mps` device.
    ///
    /// # Errors
    /// The library lacks a function, all of which are named; or the container's own error.
    pub(super) fn create(library: Arc<Library>) -> Result<Self> {
        let functions = Functions::of(&library)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the interface's contract; `handle` is written on success.
        let status =
            unsafe { (functions.create)(&mut handle, 1, c"mps".as_ptr(), std::ptr::null()) };
        let this = Aoti { functions, handle, _library: library };
        this.check(status, "make its container")?;
        if handle.is_null() {
            return Err(err!(InvalidProgram, "the model library made no container"));
        }
        Ok(this)
    }

    /// The error that a failed call left, with the library's own text.
    fn check(&self, status: Status, what: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let reason = self.last_error();
        Err(err!(
            Execution,
            "the model could not {what}: {}",
            reason.as_deref().unwrap_or("the library gives no reason (it may be on stderr)")
        ))
    }

    fn last_error(&self) -> Option<String> {
        let mut text = std::ptr::null();
        // SAFETY: writes a pointer to the thread's message.
        unsafe { (self.functions.last_error?)(&mut text) };
        (!text.is_null())
            // SAFETY: a C string that is valid until the thread's next call of the library.
            .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned())
            .filter(|text| !text.is_empty())
    }

    fn count(
        &self,
        function: unsafe extern "C" fn(ContainerHandle, *mut usize) -> Status,
        what: &str,
    ) -> Result<usize> {
        let mut count = 0;
        // SAFETY: the container is live; `count` is ours.
        self.check(unsafe { function(self.handle, &mut count) }, what)?;
        Ok(count)
    }

    /// Number of inputs.
    pub(super) fn num_inputs(&self) -> Result<usize> {
        self.count(self.functions.num_inputs, "count its inputs")
    }

    /// Number of outputs.
    pub(super) fn num_outputs(&self) -> Result<usize> {
        self.count(self.functions.num_outputs, "count its outputs")
    }

    /// The constants that come from the blob, in its order.
    pub(super) fn constants(&self) -> Result<Vec<Constant>> {
        let count = self.count(self.functions.num_constants, "count its constants")?;
        let all = (0..count).filter_map(|index| self.constant(index).transpose());
        all.collect()
    }

    /// One constant; nothing if it is computed rather than loaded.
    fn constant(&self, index: usize) -> Result<Option<Constant>> {
        let f = &self.functions;
        let (mut folded, mut size, mut kind) = (false, 0, 0);
        let describe = "describe its constants";
        // SAFETY: here and below, the container is live, the index below the count, and the
        // results are ours.
        self.check(unsafe { (f.constant_from_folded)(self.handle, index, &mut folded) }, describe)?;
        if folded {
            return Ok(None);
        }
        // SAFETY: as above.
        self.check(unsafe { (f.constant_size)(self.handle, index, &mut size) }, describe)?;
        if let Some(constant_type) = f.constant_type {
            // SAFETY: as above.
            self.check(unsafe { constant_type(self.handle, index, &mut kind) }, describe)?;
        }
        const PARAMETER: i32 = 1;
        Ok(Some(Constant {
            name: self.constant_text(f.constant_name, index)?,
            original_name: self.constant_text(f.constant_original_name, index)?,
            kind: if kind == PARAMETER {
                ConstantKind::Parameter
            } else {
                ConstantKind::MayBeWritten
            },
            size,
        }))
    }

    fn constant_text(
        &self,
        function: unsafe extern "C" fn(ContainerHandle, usize, *mut *const c_char) -> Status,
        index: usize,
    ) -> Result<String> {
        let mut text = std::ptr::null();
        // SAFETY: the container is live and the index below the count.
        self.check(unsafe { function(self.handle, index, &mut text) }, "name its constants")?;
        if text.is_null() {
            return Ok(String::new());
        }
        // SAFETY: a C string of the library.
        Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// Bytes that the blob must have, if the library knows.
    pub(super) fn constants_blob_size(&self) -> Option<u64> {
        let mut size = 0;
        // SAFETY: the container is live.
        let status = unsafe { (self.functions.constants_blob_size?)(self.handle, &mut size) };
        (status == 0).then_some(size)
    }

    /// Makes the constants from a blob, which it reads only now.
    ///
    /// # Safety
    /// The blob has the bytes of all constants.
    ///
    /// # Errors
    /// The container's own.
    pub(super) unsafe fn update_constants_from_blob(&mut self, blob: *const u8) -> Result<()> {
        // SAFETY: the container is live; the blob as promised.
        let status = unsafe { (self.functions.update_constants_from_blob)(self.handle, blob) };
        self.check(status, "load its weights")
    }

    /// Whether single constants can be looked at and replaced.
    pub(super) fn can_replace_constants(&self) -> bool {
        self.functions.extract_constants.is_some() && self.functions.update_user_managed.is_some()
    }

    /// The handles of the constants by original name. The handles stay the container's.
    pub(super) fn constant_handles(&self) -> Result<Vec<(String, RawHandle)>> {
        let Some(extract) = self.functions.extract_constants else { return Ok(Vec::new()) };
        let (mut entries, mut count) = (std::ptr::null(), 0);
        // SAFETY: the container is live and the results are ours.
        let status = unsafe { extract(self.handle, &mut entries, &mut count, false) };
        self.check(status, "list its constants")?;
        if entries.is_null() || count == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: `count` entries of the container, valid until its next call.
        let entries = unsafe { std::slice::from_raw_parts(entries, count) };
        Ok(entries
            .iter()
            // SAFETY: names are C strings of the container.
            .map(|e| (unsafe { CStr::from_ptr(e.name) }.to_string_lossy().into_owned(), e.handle))
            .collect())
    }

    /// Replaces constants, by their names in the generated code. The container makes handles of
    /// its own; those given stay the caller's.
    ///
    /// # Errors
    /// The container's own.
    pub(super) fn replace_constants(&mut self, constants: &[(&str, RawHandle)]) -> Result<()> {
        let Some(update) = self.functions.update_user_managed else {
            return Err(err!(Internal, "constants are replaced only where that can be done"));
        };
        let names = constants.iter().map(|(name, _)| std::ffi::CString::new(*name));
        let names: Vec<_> = names
            .collect::<Result<_, _>>()
            .map_err(|e| err!(InvalidProgram, "a constant's name: {e}"))?;
        let pairs: Vec<ConstantEntry> = names
            .iter()
            .zip(constants)
            .map(|(name, &(_, handle))| ConstantEntry { name: name.as_ptr(), handle })
            .collect();
        // SAFETY: the container is live; the pairs are only borrowed for the call.
        let status = unsafe { update(self.handle, pairs.as_ptr(), pairs.len(), false, false) };
        self.check(status, "take its buffers")
    }

    /// Runs the model. Handles of inputs are taken from `inputs` (and become null there) as far
    /// as the run gets; handles of outputs are the caller's, also of a run that failed.
    ///
    /// Not the variant for many threads: when a run fails, that one leaves the container waiting
    /// for ever. Calls must not overlap.
    ///
    /// # Errors
    /// The container's own.
    ///
    /// # Safety
    /// `inputs` and `outputs` have as many entries as the container wants: it throws an exception
    /// across this call otherwise.
    pub(super) unsafe fn run(
        &self,
        inputs: &mut [RawHandle],
        outputs: &mut [RawHandle],
    ) -> Result<()> {
        // SAFETY: the container is live, counts as promised; no stream and no proxy executor are
        // used by models for this delegate.
        let status = unsafe {
            (self.functions.run)(
                self.handle,
                inputs.as_mut_ptr(),
                inputs.len(),
                outputs.as_mut_ptr(),
                outputs.len(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        self.check(status, "run")
    }
}

impl Drop for Aoti {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: live, and deleted once. What fails here can no longer be helped.
            unsafe { (self.functions.delete)(self.handle) };
        }
    }
}
