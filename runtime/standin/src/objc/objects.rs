//! Objects and their reference counts. Their memory is never used again, so that every use
//! of an object that has gone is seen.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

use super::autorelease::has_pool;
use super::blocks::{_Block_copy, _Block_release, BLOCKS, is_block};
use super::classes::Class;
use super::messages::lookup;
use super::selectors::{Sel, s, sel};
use crate::violations::violation;

/// A reference to an object.
pub type Id = *mut Object;

/// What every object begins with.
#[repr(C)]
pub struct Object {
    /// Its class.
    pub isa: *mut Class,
}

/// Sits in front of every instance.
#[repr(C)]
pub(crate) struct Header {
    rc: AtomicIsize,
    magic: u64,
}

/// `OBJCLIVE`, in the header of an object that is there.
const LIVE: u64 = 0x4f424a43_4c495645;
/// `OBJCDEAD`, in that of one that has gone.
const DEAD: u64 = 0x4f424a43_44454144;

/// Objects that are there, by address, with the number that [`SEQ`] gave them.
pub(crate) static LIVE_OBJECTS: Mutex<BTreeMap<usize, u64>> = Mutex::new(BTreeMap::new());
/// Numbers objects and blocks in the order in which they are made.
pub(crate) static SEQ: AtomicUsize = AtomicUsize::new(0);

/// The header of an instance, not of a class.
pub(crate) unsafe fn header(o: Id) -> *mut Header {
    unsafe { o.cast::<Header>().sub(1) }
}

/// Whether an object is a class: those have metaclasses for classes, and no header.
pub(crate) unsafe fn is_class(o: Id) -> bool {
    unsafe { (*(*o).isa).meta }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_createInstance(c: *mut Class, extra: usize) -> Id {
    let n = 16 + unsafe { (*c).size } + extra;
    let l = std::alloc::Layout::from_size_align(n, 16).unwrap();
    unsafe {
        let p = std::alloc::alloc_zeroed(l);
        p.cast::<Header>().write(Header { rc: AtomicIsize::new(1), magic: LIVE });
        let o = p.add(16).cast::<Object>();
        (*o).isa = c;
        LIVE_OBJECTS.lock().unwrap().insert(o as usize, SEQ.fetch_add(1, SeqCst) as u64);
        o
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_alloc(c: *mut Class) -> Id {
    unsafe { class_createInstance(c, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_allocWithZone(c: *mut Class) -> Id {
    unsafe { class_createInstance(c, 0) }
}

/// Whether an object is there; records what was done with one that is not.
pub(crate) unsafe fn alive(o: Id, what: &str) -> bool {
    let h = unsafe { &*header(o) };
    match h.magic {
        LIVE => true,
        DEAD => {
            violation(
                "use-after-free",
                format!("{what} on deallocated {}", s(unsafe { (*(*o).isa).name.as_ptr() })),
            );
            false
        }
        _ => {
            violation("bad-object", format!("{what} on something that is not an object: {o:p}"));
            false
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_retain(o: Id) -> Id {
    if o.is_null() || unsafe { is_class(o) } {
        return o;
    }
    if unsafe { is_block(o) } {
        return unsafe { _Block_copy(o.cast()) }.cast();
    }
    if unsafe { alive(o, "retain") } {
        unsafe { &*header(o) }.rc.fetch_add(1, SeqCst);
    }
    o
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn objc_release(o: Id) {
    if o.is_null() || unsafe { is_class(o) } {
        return;
    }
    if unsafe { is_block(o) } {
        return unsafe { _Block_release(o.cast()) };
    }
    if !unsafe { alive(o, "release") } {
        return;
    }
    if unsafe { &*header(o) }.rc.fetch_sub(1, SeqCst) == 1 {
        let dealloc: extern "C-unwind" fn(Id, Sel) =
            unsafe { std::mem::transmute(lookup(o, sel(c"dealloc"))) };
        dealloc(o, sel(c"dealloc"));
    }
}

/// Ends an object. Its memory stays, so that whoever uses it later is noticed.
///
/// Apple's own objects may autorelease others as they go, which leak without a pool. What the
/// device uses of Foundation are plain values.
pub(crate) unsafe fn free_object(o: Id) {
    let class = s(unsafe { (*(*o).isa).name.as_ptr() });
    if !class.starts_with("NS") && !has_pool() {
        violation("no-pool", format!("a {class} goes with no pool in place"));
    }
    LIVE_OBJECTS.lock().unwrap().remove(&(o as usize));
    unsafe { (*header(o)).magic = DEAD }
}

/// How many references there are.
pub fn retain_count(o: *const c_void) -> isize {
    unsafe { &*header(o as Id) }.rc.load(SeqCst)
}

/// Live instances per class, allocated at or after `since` (see [`mark`]).
pub fn live_since(since: u64) -> BTreeMap<String, usize> {
    let mut m = BTreeMap::new();
    for (&o, &q) in LIVE_OBJECTS.lock().unwrap().iter() {
        if q >= since {
            *m.entry(s(unsafe { (*(*(o as Id)).isa).name.as_ptr() })).or_default() += 1
        }
    }
    let blocks = BLOCKS.lock().unwrap().values().filter(|v| v.0 >= since).count();
    if blocks > 0 {
        m.insert("block".into(), blocks);
    }
    m
}

/// The number that the next object gets.
pub fn mark() -> u64 {
    SEQ.load(SeqCst) as u64
}
