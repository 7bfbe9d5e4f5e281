//! Autorelease pools, and the hand-over of returned objects without one.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use super::objects::{Id, is_class, objc_release, objc_retain};
use super::selectors::s;
use crate::violations::violation;

thread_local!(static POOL: RefCell<(Vec<usize>, usize)> = const { RefCell::new((Vec::new(), 0)) });
#[unsafe(no_mangle)]
pub extern "C" fn objc_autoreleasePoolPush() -> *mut c_void {
    POOL.with_borrow_mut(|p| {
        p.1 += 1;
        (p.0.len() + 1) as *mut c_void
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn objc_autoreleasePoolPop(t: *mut c_void) {
    let h = HANDOFF.replace(0);
    if h != 0 {
        unsafe { objc_autorelease(h as Id) };
    }
    loop {
        let o = POOL.with_borrow_mut(|p| if p.0.len() >= t as usize { p.0.pop() } else { None });
        match o {
            Some(o) => unsafe { objc_release(o as Id) },
            None => break,
        }
    }
    POOL.with_borrow_mut(|p| p.1 -= 1);
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_autorelease(o: Id) -> Id {
    if o.is_null() || unsafe { is_class(o) } {
        return o;
    }
    POOL.with_borrow_mut(|p| {
        if p.1 == 0 {
            violation(
                "no-pool",
                format!(
                    "{} autoreleased with no pool in place - just leaking",
                    s(unsafe { (*(*o).isa).name.as_ptr() })
                ),
            )
        }
        p.0.push(o as usize)
    });
    o
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_autoreleaseReturnValue(o: Id) -> Id {
    // Apple hands the +1 straight to a caller that does objc_retainAutoreleasedReturnValue; so do we, for every caller
    // of method_id-style getters: HANDOFF holds it. ETMETAL_STANDIN_NO_RV=1 always uses the pool (the pessimistic lifetime).
    if !o.is_null() && !unsafe { is_class(o) } && !*NO_RV {
        HANDOFF.with(|h| {
            let old = h.replace(o as usize);
            if old != 0 {
                unsafe { objc_autorelease(old as Id) };
            }
        });
        return o;
    }
    unsafe { objc_autorelease(o) }
}
pub(crate) static NO_RV: std::sync::LazyLock<bool> =
    std::sync::LazyLock::new(|| std::env::var_os("ETMETAL_STANDIN_NO_RV").is_some());
thread_local!(static HANDOFF: Cell<usize> = const { Cell::new(0) });
#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_retainAutoreleasedReturnValue(o: Id) -> Id {
    if !o.is_null() && HANDOFF.get() == o as usize {
        HANDOFF.set(0);
        return o;
    }
    unsafe { objc_retain(o) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_retainAutorelease(o: Id) -> Id {
    unsafe { objc_autorelease(objc_retain(o)) }
}
