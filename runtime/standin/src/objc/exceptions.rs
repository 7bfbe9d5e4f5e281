//! Exceptions: unwinding as Rust does, with the object.

use std::ffi::c_void;

use super::objects::{Id, objc_retain};

/// What unwinds: the exception object, with a reference count of ours.
pub struct ObjcException(pub usize);

/// `@throw`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn objc_exception_throw(o: Id) -> ! {
    unsafe { objc_retain(o) };
    std::panic::resume_unwind(Box::new(ObjcException(o as usize)))
}

/// `@try { f(ctx) } @catch (id e) { *err = e }`, which the bindings have in Objective-C. A panic of
/// Rust's passes through.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn objc2_exception_helper_0_1_try_catch(
    f: extern "C-unwind" fn(*mut c_void),
    ctx: *mut c_void,
    err: *mut Id,
) -> u8 {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(ctx))) {
        Ok(()) => 0,
        Err(p) => match p.downcast::<ObjcException>() {
            Ok(e) => {
                unsafe { *err = e.0 as Id };
                1
            }
            Err(p) => std::panic::resume_unwind(p),
        },
    }
}
