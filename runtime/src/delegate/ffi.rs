//! The Rust side of `cpp/etmetal_delegate.h`.

use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Delegate;
use crate::Result;
use crate::container::{Blob, ModelSource, NamedData};
use crate::device::default_device;
use crate::error::err;
use crate::shim::set_last_error;
use crate::tensor::{HandleTable, RawHandle};

/// One compile spec of the delegate. `data` lives as long as the call.
#[derive(Debug)]
#[repr(C)]
pub struct EtmetalSpec {
    /// Its key.
    pub key: *const c_char,
    /// Its value.
    pub data: *const c_void,
    /// Bytes of the value.
    pub nbytes: usize,
}

/// One argument of execute; `data` and `tensor` are null for a value that is no tensor.
#[derive(Debug)]
#[repr(C)]
pub struct EtmetalTensor {
    /// Its memory.
    pub data: *mut c_void,
    /// Bytes of the memory.
    pub nbytes: usize,
    /// `dim` sizes.
    pub sizes: *const i32,
    /// `dim` strides, in elements.
    pub strides: *const i32,
    /// Number of dimensions.
    pub dim: usize,
    /// `c10::ScalarType`.
    pub dtype: i32,
    /// For [`EtmetalResize`].
    pub tensor: *mut c_void,
}

impl EtmetalTensor {
    /// Its sizes.
    pub fn sizes(&self) -> &[i32] {
        // SAFETY: the header's contract: `dim` of them.
        unsafe { slice(self.sizes, self.dim) }
    }

    /// Its strides, as they are now: a resize changes them in place.
    pub fn strides(&self) -> &[i32] {
        // SAFETY: the header's contract: `dim` of them.
        unsafe { slice(self.strides, self.dim) }
    }
}

/// What init may ask of its host. Functions return an `executorch::runtime::Error` code.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct EtmetalHost {
    /// For the functions.
    pub context: *mut c_void,
    /// May be null.
    pub method_name: *const c_char,
    /// Borrows a named blob until `release` is given its token.
    pub get_named_data: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            key: *const c_char,
            data: *mut *const c_void,
            nbytes: *mut usize,
            token: *mut *mut c_void,
        ) -> u32,
    >,
    /// Gives a blob back.
    pub release: Option<unsafe extern "C" fn(token: *mut c_void)>,
}

/// Resizes an output tensor (dynamic shapes) and gives its data pointer.
pub type EtmetalResize = unsafe extern "C" fn(
    tensor: *mut c_void,
    sizes: *const i32,
    dim: usize,
    data: *mut *mut c_void,
) -> u32;

// The header's layout, on the 64-bit systems that there are.
const _: () = {
    assert!(size_of::<EtmetalSpec>() == 24);
    assert!(size_of::<EtmetalTensor>() == 56);
    assert!(std::mem::offset_of!(EtmetalTensor, dtype) == 40);
    assert!(std::mem::offset_of!(EtmetalTensor, tensor) == 48);
    assert!(size_of::<EtmetalHost>() == 32);
};

/// The live delegates. What C++ holds is an entry's handle, so that destroying twice is an error
/// and not a crash.
static DELEGATES: HandleTable<Delegate> = HandleTable::new(4, "delegate");

/// # Safety
/// `pointer` is null, or `len` elements can be read from it while the result lives.
unsafe fn slice<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if pointer.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: as promised.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}

/// Writes `text` and a NUL, at most `capacity` bytes of them; returns the bytes of the whole text
/// without the NUL.
///
/// # Safety
/// `buffer` is null or may be written for `capacity` bytes.
pub(crate) unsafe fn write_text(text: &str, buffer: *mut c_char, capacity: usize) -> usize {
    if !buffer.is_null() && capacity > 0 {
        let written = text.len().min(capacity - 1);
        // SAFETY: `written` and a NUL fit into `capacity` bytes that the caller lets us write.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), written);
            buffer.cast::<u8>().add(written).write(0);
        }
    }
    text.len()
}

/// Runs the body of a C function; an error or a panic becomes a code, its text the thread's last
/// error.
fn call(what: &str, body: impl FnOnce() -> Result<()>) -> u32 {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or(panic.downcast_ref::<String>().map(String::as_str));
        Err(err!(Internal, "{what}: {}", text.unwrap_or("a panic without a message")))
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            set_last_error(&error);
            error.et_code()
        }
    }
}

/// Blobs of an ExecuTorch program.
struct HostData(EtmetalHost);

impl NamedData for HostData {
    fn get(&self, key: &str) -> Result<Blob> {
        let (Some(get), Some(release)) = (self.0.get_named_data, self.0.release) else {
            return Err(err!(InvalidArgument, "the host gives no function for named data"));
        };
        let c_key = CString::new(key)
            .map_err(|_| err!(InvalidProgram, "the key {key:?} has a NUL character"))?;
        let (mut data, mut len, mut token) = (std::ptr::null(), 0, std::ptr::null_mut());
        // SAFETY: the header's contract; the results are ours.
        let status =
            unsafe { get(self.0.context, c_key.as_ptr(), &mut data, &mut len, &mut token) };
        if status == NOT_FOUND {
            return Err(err!(NotFound, "there is no blob named {key:?}"));
        }
        if status != 0 {
            return Err(err!(
                InvalidProgram,
                "ExecuTorch cannot read the blob {key:?} (error {status:#x}): the file may be cut \
                 short"
            ));
        }
        let token = Token { token, release };
        if data.is_null() && len != 0 {
            return Err(err!(InvalidProgram, "the blob {key:?} has no bytes"));
        }
        // SAFETY: readable until the token is released, which its drop does.
        Ok(unsafe { Blob::borrow(data, len, Some(Arc::new(token))) })
    }
}

/// `executorch::runtime::Error::NotFound`.
const NOT_FOUND: u32 = 0x20;

/// A lent blob, given back on drop.
struct Token {
    token: *mut c_void,
    release: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: the host's buffers belong to no thread; each is released once.
unsafe impl Send for Token {}
// SAFETY: nothing is done through `&Token`.
unsafe impl Sync for Token {}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: the host's own token, released once.
        unsafe { (self.release)(self.token) };
    }
}

/// Whether there is a device to run on.
#[unsafe(no_mangle)]
pub extern "C" fn etmetal_delegate_is_available() -> bool {
    call("is_available", || default_device().map(drop)) == 0
}

/// Loads a model. On success `*handle` is the loaded model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_delegate_init(
    host: *const EtmetalHost,
    processed: *const c_void,
    nbytes: usize,
    specs: *const EtmetalSpec,
    num_specs: usize,
    handle: *mut *mut c_void,
) -> u32 {
    call("init", || {
        if host.is_null() || handle.is_null() {
            return Err(err!(InvalidArgument, "init needs a host and a place for the handle"));
        }
        // SAFETY: the header's contract, here and below.
        let host = unsafe { *host };
        // SAFETY: as above.
        let payload = unsafe { slice(processed.cast::<u8>(), nbytes) };
        // SAFETY: as above.
        let specs = unsafe { slice(specs, num_specs) };
        let method = method_name(&host, specs);
        let source = ModelSource {
            payload,
            data: &HostData(host),
            method: &method,
            device: default_device()?,
        };
        let delegate = DELEGATES.insert(Arc::new(Delegate::init(&source)?));
        // SAFETY: as above.
        unsafe { handle.cast::<RawHandle>().write(delegate) };
        Ok(())
    })
}

/// The method's name: from the compile specs, as exported, else the host's.
fn method_name(host: &EtmetalHost, specs: &[EtmetalSpec]) -> String {
    let from_specs = specs.iter().find_map(|spec| {
        // SAFETY: keys are C strings or null.
        let key = (!spec.key.is_null()).then(|| unsafe { CStr::from_ptr(spec.key) })?;
        // SAFETY: the value has `nbytes` bytes.
        let value = unsafe { slice(spec.data.cast::<u8>(), spec.nbytes) };
        let text = std::str::from_utf8(value).ok()?.trim_end_matches('\0');
        (key == c"method_name" && !text.is_empty()).then(|| text.to_owned())
    });
    from_specs.unwrap_or_else(|| {
        if host.method_name.is_null() {
            return String::from("forward");
        }
        // SAFETY: a C string.
        unsafe { CStr::from_ptr(host.method_name) }.to_string_lossy().into_owned()
    })
}

/// Runs a model. Arguments: inputs first, then outputs, as ExecuTorch passes them.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_delegate_execute(
    handle: RawHandle,
    arguments: *const EtmetalTensor,
    num_arguments: usize,
    resize: Option<EtmetalResize>,
) -> u32 {
    call("execute", || {
        let delegate = DELEGATES.get(handle)?;
        // SAFETY: the header's contract.
        delegate.execute(unsafe { slice(arguments, num_arguments) }, resize)
    })
}

/// Unloads a model. A handle that is not live is logged and ignored.
#[unsafe(no_mangle)]
pub extern "C" fn etmetal_delegate_destroy(handle: RawHandle) {
    call("destroy", || {
        let removed = DELEGATES.remove(handle);
        if let Err(error) = &removed {
            eprintln!("etmetal: destroy: {error}");
        }
        removed.map(drop)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_and_errors_become_codes_and_texts() {
        let last = || {
            let text = crate::shim::last_error::etmetal_last_error();
            // SAFETY: a C string of this thread.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        assert_eq!(call("x", || Err(err!(NotFound, "no such thing"))), 0x20);
        assert_eq!(last(), "no such thing");
        assert_eq!(call("x", || panic!("boom {}", 1)), 0x01);
        assert!(last().contains("boom 1"), "{}", last());
        assert_eq!(call("x", || Ok(())), 0);
    }

    #[test]
    fn dead_handles_are_refused() {
        // SAFETY: no arguments.
        let code = unsafe { etmetal_delegate_execute(RawHandle::NULL, std::ptr::null(), 0, None) };
        assert_eq!(code, 0x12);
        etmetal_delegate_destroy(RawHandle::NULL);
    }

    #[test]
    fn the_method_is_named_by_its_spec_before_the_host() {
        let host = EtmetalHost {
            context: std::ptr::null_mut(),
            method_name: c"host".as_ptr(),
            get_named_data: None,
            release: None,
        };
        let spec = |key: &'static CStr, value: &'static str| EtmetalSpec {
            key: key.as_ptr(),
            data: value.as_ptr().cast(),
            nbytes: value.len(),
        };
        let specs = [spec(c"other", "x"), spec(c"method_name", "decode")];
        assert_eq!(method_name(&host, &specs), "decode");
        assert_eq!(method_name(&host, &specs[..1]), "host");
    }
}
