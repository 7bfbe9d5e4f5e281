//! Command blocks: a callback of the model that encodes kernel calls.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_void};

use crate::error::{Context as _, err};
use crate::shim::abi::c_functions;
use crate::shim::registry::kernel;
use crate::stream::Stream;
use crate::tensor::RawHandle;
use crate::{Error, Result};

/// What a command block calls: the kernel's handle, and what the caller gave along.
pub type Callback = Option<unsafe extern "C" fn(RawHandle, *mut c_void)>;

/// Bytes for the text of an exception.
const TEXT_CAPACITY: usize = 1024;

unsafe extern "C" {
    /// Calls `callback`; if it throws, gives 1 and the exception's text. In `cpp/callback.cpp`.
    fn etmetal_call_block(
        callback: Callback,
        func: RawHandle,
        user_data: *mut c_void,
        text: *mut c_char,
        capacity: usize,
    ) -> i32;

    /// Calls the `std::function<void(handle)>` at `user_data`; as `etmetal_call_block`.
    fn etmetal_call_function(
        func: RawHandle,
        user_data: *mut c_void,
        text: *mut c_char,
        capacity: usize,
    ) -> i32;
}

thread_local! {
    /// Command blocks that are running on the thread.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
    /// What the shared callback met, for the block that called it: it has no status itself.
    static FAILURE: RefCell<Option<Error>> = const { RefCell::new(None) };
}

c_functions! {
    /// Calls back to encode calls of a kernel. A C++ exception that leaves the callback is this
    /// call's error.
    fn aoti_torch_mps_run_command_block(
        func: RawHandle,
        callback: Callback,
        user_data: *mut c_void,
    ) {
        let kernel = kernel(func)?;
        if callback.is_none() {
            return Err(err!(InvalidArgument, "{}: the callback is null", kernel.describe()));
        }
        Stream::current()?;
        RUNNING.set(RUNNING.get() + 1);
        let called = with_text(|text, capacity| {
            // SAFETY: the callback and its data are the caller's and fit together; `text` has
            // `capacity` bytes.
            unsafe { etmetal_call_block(callback, func, user_data, text, capacity) }
        });
        RUNNING.set(RUNNING.get() - 1);
        let met = FAILURE.take().map_or(Ok(()), Err);
        called.and(met).context(|| kernel.describe())
    }

    /// The callback whose data is a C++ `std::function`. What it throws is the error of the
    /// command block that called it.
    fn aoti_torch_mps_shared_callback(func: RawHandle, user_data: *mut c_void) -> () = (); {
        let called = call_function(func, user_data);
        if RUNNING.get() == 0 {
            return called;
        }
        if let Err(error) = called {
            FAILURE.with_borrow_mut(|failure| {
                failure.get_or_insert(error);
            });
        }
        Ok(())
    }
}

fn call_function(func: RawHandle, user_data: *mut c_void) -> Result<()> {
    if user_data.is_null() {
        return Err(err!(InvalidArgument, "the function to call back is null"));
    }
    with_text(|text, capacity| {
        // SAFETY: the caller promises a `std::function` of this signature; `text` has `capacity`
        // bytes.
        unsafe { etmetal_call_function(func, user_data, text, capacity) }
    })
}

/// Runs a call into C++ and makes an error of the exception that it reports.
fn with_text(call: impl FnOnce(*mut c_char, usize) -> i32) -> Result<()> {
    let mut text = [0 as c_char; TEXT_CAPACITY];
    if call(text.as_mut_ptr(), text.len()) == 0 {
        return Ok(());
    }
    let bytes: Vec<u8> = text.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Err(err!(
        Execution,
        "the model threw while it encoded a command block: {}",
        String::from_utf8_lossy(&bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::testing::adders;
    use crate::shim::abi::Text;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::mps::kernel::*;
    use crate::shim::mps::library::*;
    use crate::shim::testing::{call, empty, get, model, read, write};
    use crate::tensor::DType;

    /// What a model's own C++ does: makes a `std::function`, and throws.
    const MODEL: &str = r#"
        #include <functional>
        #include <stdexcept>
        using Function = std::function<void(struct Kernel*)>;
        extern "C" void* make(void (*encode)(void*, void*), void* data, bool throws) {
          return new Function([=](Kernel* kernel) {
            encode(kernel, data);
            if (throws) throw std::runtime_error("thrown on purpose");
          });
        }
        extern "C" void unmake(void* function) { delete static_cast<Function*>(function); }
        extern "C" void throws(void*, void*) { throw 7; }
    "#;

    type Make = unsafe extern "C" fn(
        unsafe extern "C" fn(RawHandle, *mut c_void),
        *mut c_void,
        bool,
    ) -> *mut c_void;

    /// `MODEL`, compiled and loaded as a model's library is.
    struct Model {
        make: Make,
        unmake: unsafe extern "C" fn(*mut c_void),
        throws: unsafe extern "C" fn(RawHandle, *mut c_void),
    }

    impl Model {
        fn load() -> Model {
            let folder = tempfile::tempdir().unwrap();
            let (source, library) = (folder.path().join("m.cpp"), folder.path().join("m.so"));
            std::fs::write(&source, MODEL).unwrap();
            let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
            let status = std::process::Command::new(&compiler)
                .args(["-std=c++17", "-fPIC", "-shared", "-o"])
                .args([&library, &source])
                .status()
                .unwrap_or_else(|e| panic!("{compiler:?}: {e}"));
            assert!(status.success());
            let path = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
            // SAFETY: the library has no initialisers, and is never unloaded.
            let loaded = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
            assert!(!loaded.is_null());
            let symbol = |name: &std::ffi::CStr| {
                // SAFETY: the library is loaded.
                let address = unsafe { libc::dlsym(loaded, name.as_ptr()) };
                assert!(!address.is_null());
                address
            };
            // SAFETY: these are the types of the functions above.
            unsafe {
                Model {
                    make: std::mem::transmute::<*mut c_void, Make>(symbol(c"make")),
                    unmake: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(
                        symbol(c"unmake"),
                    ),
                    throws: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(RawHandle, *mut c_void),
                    >(symbol(c"throws")),
                }
            }
        }
    }

    /// Adds 5 to the tensor whose handle `user_data` points to.
    unsafe extern "C" fn add_five(func: RawHandle, user_data: *mut c_void) {
        // SAFETY: the tests pass a handle.
        let tensor = unsafe { *user_data.cast::<RawHandle>() };
        call!(aoti_torch_mps_start_encoding, func).unwrap();
        call!(aoti_torch_mps_set_arg_tensor, func, 0, tensor).unwrap();
        call!(aoti_torch_mps_set_arg_int, func, 1, 5).unwrap();
        call!(aoti_torch_mps_dispatch_single, func, 2).unwrap();
    }

    /// What the generated code passes: the address of the exported function.
    unsafe extern "C" fn shared(func: RawHandle, user_data: *mut c_void) {
        aoti_torch_mps_shared_callback(func, user_data);
    }

    #[test]
    fn blocks_call_back_plainly_and_through_a_function_object() {
        let cpp = Model::load();
        let (model, guard) = model();
        model.offer_library("source", adders("mps_lib_0"));
        let library = get!(aoti_torch_mps_create_shader_library, Text::of(c"source")).unwrap();
        let kernel =
            get!(aoti_torch_mps_get_kernel_function, library, Text::of(c"add_plain")).unwrap();
        let mut tensor = empty(&[2], &[1], DType::U32.code(), DEVICE_MPS);
        write(tensor, &[1u32, 2]);
        let data = std::ptr::from_mut(&mut tensor).cast();

        call!(aoti_torch_mps_run_command_block, kernel, Some(add_five), data).unwrap();
        assert_eq!(read::<u32>(tensor, 2), [6, 7]);

        // SAFETY: `data` points to a handle while the function lives.
        let function = unsafe { (cpp.make)(add_five, data, false) };
        call!(aoti_torch_mps_run_command_block, kernel, Some(shared), function).unwrap();
        assert_eq!(read::<u32>(tensor, 2), [11, 12]);
        assert!(guard.take_error().is_none());
        // SAFETY: made by `make`, deleted once.
        unsafe { (cpp.unmake)(function) };

        // SAFETY: as above.
        let function = unsafe { (cpp.make)(add_five, data, true) };
        let text = call!(aoti_torch_mps_run_command_block, kernel, Some(shared), function);
        assert!(text.unwrap_err().contains("thrown on purpose"));
        let text = guard.take_error().unwrap().to_string();
        assert!(text.contains("add_plain") && text.contains("thrown on purpose"), "{text}");
        // SAFETY: as above.
        unsafe { (cpp.unmake)(function) };

        let text =
            call!(aoti_torch_mps_run_command_block, kernel, Some(cpp.throws), std::ptr::null_mut());
        assert!(text.unwrap_err().contains("no std::exception"));
        let none = std::ptr::null_mut();
        assert!(call!(aoti_torch_mps_run_command_block, kernel, None, none).is_err());
        call!(aoti_torch_mps_delete_shader_library, library).unwrap();
        assert_eq!(model.release(), 1);
    }

    #[test]
    fn a_check_of_the_model_throws() {
        unsafe extern "C-unwind" fn failing(_func: RawHandle, _user_data: *mut c_void) {
            let (file, msg) = (Text::of(c"model.cpp"), Text::of(c"s0 must be even"));
            crate::shim::check::aoti_torch_check(true, Text::NULL, file, 3, msg);
            crate::shim::check::aoti_torch_check(false, Text::of(c"run"), file, 4, msg);
        }
        let (_model, guard) = model();
        let result = with_text(|text, capacity| {
            // SAFETY: the callback has this signature but for its unwinding, which the C++ side
            // catches.
            unsafe {
                let failing = std::mem::transmute::<
                    unsafe extern "C-unwind" fn(RawHandle, *mut c_void),
                    unsafe extern "C" fn(RawHandle, *mut c_void),
                >(failing);
                etmetal_call_block(
                    Some(failing),
                    RawHandle::NULL,
                    std::ptr::null_mut(),
                    text,
                    capacity,
                )
            }
        });
        let text = result.unwrap_err().to_string();
        assert!(text.contains("model.cpp:4 in run: s0 must be even"), "{text}");
        assert!(guard.take_error().unwrap().to_string().contains("s0 must be even"));
    }
}
