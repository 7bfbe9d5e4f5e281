//! NSObject.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use super::autorelease::objc_autorelease;
use super::classes::{
    Class, Imp, class_addMethod, find, objc_allocateClassPair, objc_registerClassPair,
};
use super::messages::lookup;
use super::objects::{
    Id, class_createInstance, free_object, objc_release, objc_retain, retain_count,
};
use super::selectors::{Sel, s, sel};

/// Makes NSObject, with the methods that the bindings and our classes send to any object. The types
/// are those of Apple's 64 bit systems, where `BOOL` is a `signed char`: the bindings check them.
pub(crate) fn root() {
    extern "C-unwind" fn init(o: Id, _: Sel) -> Id {
        o
    }
    extern "C-unwind" fn dealloc(o: Id, _: Sel) {
        unsafe { free_object(o) }
    }
    extern "C-unwind" fn class(o: Id, _: Sel) -> *mut Class {
        unsafe { (*o).isa }
    }
    extern "C-unwind" fn class_class(o: Id, _: Sel) -> Id {
        o
    }
    extern "C-unwind" fn hash(o: Id, _: Sel) -> usize {
        o as usize
    }
    extern "C-unwind" fn is_equal(o: Id, _: Sel, p: Id) -> i8 {
        (o == p) as i8
    }
    extern "C-unwind" fn responds(o: Id, _: Sel, q: Sel) -> i8 {
        unsafe { !find((*o).isa, q).is_null() as i8 }
    }
    extern "C-unwind" fn is_kind(o: Id, _: Sel, c: *const Class) -> i8 {
        let mut k: *const Class = unsafe { (*o).isa };
        while !k.is_null() {
            if k == c {
                return 1;
            }
            k = unsafe { (*k).superclass }
        }
        0
    }
    extern "C-unwind" fn conforms(_o: Id, _: Sel, _p: *const c_void) -> i8 {
        1
    }
    extern "C-unwind" fn retain(o: Id, _: Sel) -> Id {
        unsafe { objc_retain(o) }
    }
    extern "C-unwind" fn release(o: Id, _: Sel) {
        unsafe { objc_release(o) }
    }
    extern "C-unwind" fn autorelease(o: Id, _: Sel) -> Id {
        unsafe { objc_autorelease(o) }
    }
    extern "C-unwind" fn rc(o: Id, _: Sel) -> usize {
        retain_count(o.cast()) as usize
    }
    extern "C-unwind" fn alloc(c: Id, _: Sel) -> Id {
        unsafe { class_createInstance(c.cast(), 0) }
    }
    extern "C-unwind" fn new(c: Id, _: Sel) -> Id {
        unsafe {
            let o = class_createInstance(c.cast(), 0);
            let f: extern "C-unwind" fn(Id, Sel) -> Id =
                std::mem::transmute(lookup(o, sel(c"init")));
            f(o, sel(c"init"))
        }
    }
    extern "C-unwind" fn copy(o: Id, _: Sel) -> Id {
        unsafe {
            let q = sel(c"copyWithZone:");
            let f: extern "C-unwind" fn(Id, Sel, *const c_void) -> Id =
                std::mem::transmute(lookup(o, q));
            f(o, q, null())
        }
    }
    extern "C-unwind" fn description(o: Id, _: Sel) -> Id {
        crate::foundation::strings::autoreleased(&format!(
            "<{}: {o:p}>",
            s(unsafe { (*(*o).isa).name.as_ptr() })
        ))
    }
    unsafe {
        let c = objc_allocateClassPair(null_mut(), c"NSObject".as_ptr(), 0);
        let meta = (*c).isa;
        (*meta).superclass = c;
        let add = |c: *mut Class, n: &CStr, f: Imp, t: &CStr| {
            class_addMethod(c, sel(n), f, t.as_ptr());
        };
        add(c, c"init", init as *const () as Imp, c"@16@0:8");
        add(c, c"dealloc", dealloc as *const () as Imp, c"v16@0:8");
        add(c, c"class", class as *const () as Imp, c"#16@0:8");
        add(meta, c"class", class_class as *const () as Imp, c"#16@0:8");
        add(c, c"hash", hash as *const () as Imp, c"Q16@0:8");
        add(c, c"isEqual:", is_equal as *const () as Imp, c"c24@0:8@16");
        add(c, c"respondsToSelector:", responds as *const () as Imp, c"c24@0:8:16");
        add(c, c"isKindOfClass:", is_kind as *const () as Imp, c"c24@0:8#16");
        add(c, c"conformsToProtocol:", conforms as *const () as Imp, c"c24@0:8@16");
        add(c, c"retain", retain as *const () as Imp, c"@16@0:8");
        add(c, c"release", release as *const () as Imp, c"v16@0:8");
        add(c, c"autorelease", autorelease as *const () as Imp, c"@16@0:8");
        add(c, c"retainCount", rc as *const () as Imp, c"Q16@0:8");
        add(c, c"copy", copy as *const () as Imp, c"@16@0:8");
        add(c, c"description", description as *const () as Imp, c"@16@0:8");
        add(c, c"debugDescription", description as *const () as Imp, c"@16@0:8");
        add(meta, c"alloc", alloc as *const () as Imp, c"@16@0:8");
        add(meta, c"new", new as *const () as Imp, c"@16@0:8");
        objc_registerClassPair(c);
    }
}
