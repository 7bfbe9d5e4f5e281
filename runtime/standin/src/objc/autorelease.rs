//! Autorelease pools, and the hand-over of returned objects without one.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use super::objects::{Id, is_class, objc_release, objc_retain};
use super::selectors::s;
use crate::violations::violation;

/// The pools of a thread, all in one: objects in the order of their autorelease.
struct Pools {
    objects: Vec<usize>,
    /// How many pools are open. Outside of any, an autoreleased object leaks.
    open: usize,
}

thread_local! {
    static POOLS: RefCell<Pools> =
        const { RefCell::new(Pools { objects: Vec::new(), open: 0 }) };
    /// The object that the last method returned, with a reference count that its caller takes
    /// over; 0 for none. See [`objc_autoreleaseReturnValue`].
    static HANDOFF: Cell<usize> = const { Cell::new(0) };
}

/// Whether returned objects always go through the pool, which is the longest that they may live:
/// `ETMETAL_STANDIN_NO_RV`. What works both ways relies on neither.
pub(crate) static NO_RV: std::sync::LazyLock<bool> =
    std::sync::LazyLock::new(|| std::env::var_os("ETMETAL_STANDIN_NO_RV").is_some());

/// Whether the thread has a pool.
pub(crate) fn has_pool() -> bool {
    POOLS.with_borrow(|pools| pools.open > 0)
}

/// Opens a pool; its token tells how many objects lie below it, plus one, as null is no token.
#[unsafe(no_mangle)]
pub extern "C" fn objc_autoreleasePoolPush() -> *mut c_void {
    POOLS.with_borrow_mut(|pools| {
        pools.open += 1;
        (pools.objects.len() + 1) as *mut c_void
    })
}

/// Closes a pool. Releasing an object may autorelease others, which go with this pool too.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn objc_autoreleasePoolPop(token: *mut c_void) {
    let returned = HANDOFF.replace(0);
    if returned != 0 {
        unsafe { objc_autorelease(returned as Id) };
    }
    let next = || {
        POOLS.with_borrow_mut(|pools| {
            if pools.objects.len() >= token as usize { pools.objects.pop() } else { None }
        })
    };
    while let Some(object) = next() {
        unsafe { objc_release(object as Id) };
    }
    POOLS.with_borrow_mut(|pools| pools.open -= 1);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_autorelease(o: Id) -> Id {
    if o.is_null() || unsafe { is_class(o) } {
        return o;
    }
    POOLS.with_borrow_mut(|pools| {
        if pools.open == 0 {
            violation(
                "no-pool",
                format!(
                    "{} autoreleased with no pool in place - just leaking",
                    s(unsafe { (*(*o).isa).name.as_ptr() })
                ),
            )
        }
        pools.objects.push(o as usize)
    });
    o
}

/// Returns an object that its method owns. Apple hands the reference straight to a caller that
/// asks for it by [`objc_retainAutoreleasedReturnValue`], past the pool; it sees that in the
/// caller's code. Here every caller is taken for one: [`HANDOFF`] holds the object until it asks,
/// or until something else is returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_autoreleaseReturnValue(o: Id) -> Id {
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

/// Takes a returned object over: from the hand-over if it is there, else with a reference more.
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
