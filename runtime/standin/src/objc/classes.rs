//! Classes: made at run time, as the bindings make them.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::objects::Id;
use super::root::root;
use super::selectors::{Sel, s};

/// A method's code.
pub type Imp = *const c_void;

/// A class. Objects begin with a pointer to theirs.
#[repr(C)]
pub struct Class {
    pub(crate) isa: *mut Class,
    pub(crate) superclass: *mut Class,
    pub(crate) name: CString,
    pub(crate) meta: bool,
    pub(crate) size: usize,
    methods: RwLock<HashMap<usize, Box<Method>>>,
    #[expect(clippy::vec_box, reason = "their addresses are given out")]
    ivars: RwLock<Vec<Box<Ivar>>>,
}

/// A method of a class.
pub struct Method {
    sel: Sel,
    pub(crate) imp: AtomicUsize,
    types: CString,
}

/// A variable of the instances of a class.
pub struct Ivar {
    pub(crate) name: CString,
    types: CString,
    offset: isize,
}

/// Registered classes, by name.
pub(crate) static CLASSES: RwLock<BTreeMap<CString, usize>> = RwLock::new(BTreeMap::new());

// Whether this thread registers the classes: it looks them up while it does.
thread_local!(static REGISTERING: Cell<bool> = const { Cell::new(false) });
pub(crate) static INIT: std::sync::Once = std::sync::Once::new();
/// All classes are registered before main, so no define_class! Once is entered re-entrantly.
#[used]
#[unsafe(link_section = ".init_array")]
static CTOR: extern "C" fn() = {
    extern "C" fn ctor() {
        init()
    }
    ctor
};
/// Registers all classes, once.
pub(crate) fn init() {
    if REGISTERING.get() || INIT.is_completed() {
        return;
    }
    INIT.call_once(|| {
        REGISTERING.set(true);
        root();
        crate::register_classes();
        REGISTERING.set(false);
    });
}

/// A class by its name; null if there is none.
pub(crate) fn lookup_class(n: &CStr) -> *mut Class {
    init();
    CLASSES.read().unwrap().get(n).map_or(null_mut(), |p| *p as *mut Class)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_getClass(n: *const c_char) -> *mut Class {
    lookup_class(unsafe { CStr::from_ptr(n) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_lookUpClass(n: *const c_char) -> *mut Class {
    unsafe { objc_getClass(n) }
}

pub(crate) fn new_class(
    isa: *mut Class,
    superclass: *mut Class,
    name: &CStr,
    meta: bool,
    size: usize,
) -> *mut Class {
    Box::into_raw(Box::new(Class {
        isa,
        superclass,
        name: name.to_owned(),
        meta,
        size,
        methods: Default::default(),
        ivars: Default::default(),
    }))
}

/// A class and its metaclass, whose methods are those of the class itself. A root class has
/// instances of one pointer: their class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_allocateClassPair(
    sup: *mut Class,
    name: *const c_char,
    _extra: usize,
) -> *mut Class {
    let name = unsafe { CStr::from_ptr(name) };
    if CLASSES.read().unwrap().contains_key(name) {
        return null_mut();
    }
    unsafe {
        let (metasup, size) =
            if sup.is_null() { (null_mut(), 8) } else { ((*sup).isa, (*sup).size) };
        let meta = new_class(null_mut(), metasup, name, true, 0);
        (*meta).isa = meta;
        new_class(meta, sup, name, false, size)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_registerClassPair(c: *mut Class) {
    CLASSES.write().unwrap().insert(unsafe { (*c).name.clone() }, c as usize);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_disposeClassPair(_c: *mut Class) {}
/// Adds a variable behind those there are, aligned to `1 << align` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_addIvar(
    c: *mut Class,
    name: *const c_char,
    size: usize,
    align: u8,
    types: *const c_char,
) -> i8 {
    let c = unsafe { &mut *c };
    let a = 1usize << align;
    let off = c.size.div_ceil(a) * a;
    c.size = off + size;
    c.ivars.write().unwrap().push(Box::new(Ivar {
        name: unsafe { CStr::from_ptr(name) }.to_owned(),
        types: unsafe { CStr::from_ptr(types) }.to_owned(),
        offset: off as isize,
    }));
    1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_addMethod(
    c: *mut Class,
    sel: Sel,
    imp: Imp,
    types: *const c_char,
) -> i8 {
    let mut m = unsafe { &*c }.methods.write().unwrap();
    if m.contains_key(&(sel as usize)) {
        return 0;
    }
    let types = unsafe { CStr::from_ptr(types) }.to_owned();
    m.insert(sel as usize, Box::new(Method { sel, imp: AtomicUsize::new(imp as usize), types }));
    1
}
// Protocols are not kept: every class conforms to every one. What a class lacks of a protocol shows
// when it is sent the message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_addProtocol(_c: *mut Class, _p: *const c_void) -> i8 {
    1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_conformsToProtocol(_c: *const Class, _p: *const c_void) -> i8 {
    1
}

/// The method of a selector in a class or the classes above it; null if there is none.
pub(crate) unsafe fn find(mut c: *const Class, sel: Sel) -> *const Method {
    while let Some(k) = unsafe { c.as_ref() } {
        if let Some(m) = k.methods.read().unwrap().get(&(sel as usize)) {
            return &**m;
        }
        c = k.superclass;
    }
    null()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_getInstanceMethod(c: *const Class, sel: Sel) -> *const Method {
    unsafe { find(c, sel) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_getClassMethod(c: *const Class, sel: Sel) -> *const Method {
    unsafe { find((*c).isa, sel) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_respondsToSelector(c: *const Class, sel: Sel) -> i8 {
    unsafe { !find(c, sel).is_null() as i8 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_getInstanceVariable(
    mut c: *const Class,
    name: *const c_char,
) -> *const Ivar {
    let n = unsafe { CStr::from_ptr(name) };
    while let Some(k) = unsafe { c.as_ref() } {
        if let Some(i) = k.ivars.read().unwrap().iter().find(|i| i.name.as_c_str() == n) {
            return &**i;
        }
        c = k.superclass;
    }
    null()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_getName(c: *const Class) -> *const c_char {
    unsafe { (*c).name.as_ptr() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_getSuperclass(c: *const Class) -> *const Class {
    unsafe { (*c).superclass }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_isMetaClass(c: *const Class) -> i8 {
    unsafe { (*c).meta as i8 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn class_getInstanceSize(c: *const Class) -> usize {
    unsafe { (*c).size }
}
// Lists that the bindings ask for only to describe classes in messages: empty.
macro_rules! empty_list { ($($f:ident)*) => { $(
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn $f(_a: *const c_void, n: *mut c_uint) -> *mut c_void { if !n.is_null() { unsafe { *n = 0 } } null_mut() }
)* } }
empty_list!(class_copyIvarList class_copyMethodList class_copyProtocolList protocol_copyProtocolList);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_copyClassList(n: *mut c_uint) -> *mut c_void {
    unsafe { *n = 0 };
    null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn objc_copyProtocolList(n: *mut c_uint) -> *mut c_void {
    unsafe { *n = 0 };
    null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn protocol_copyMethodDescriptionList(
    _p: *const c_void,
    _r: i8,
    _i: i8,
    n: *mut c_uint,
) -> *mut c_void {
    unsafe { *n = 0 };
    null_mut()
}

#[unsafe(no_mangle)]
pub extern "C" fn objc_getProtocol(_n: *const c_char) -> *const c_void {
    null()
}

#[unsafe(no_mangle)]
pub extern "C" fn objc_allocateProtocol(_n: *const c_char) -> *mut c_void {
    null_mut()
}

#[unsafe(no_mangle)]
pub extern "C" fn objc_registerProtocol(_p: *mut c_void) {}
#[unsafe(no_mangle)]
pub extern "C" fn protocol_addMethodDescription(
    _p: *mut c_void,
    _s: Sel,
    _t: *const c_char,
    _r: i8,
    _i: i8,
) {
}

#[unsafe(no_mangle)]
pub extern "C" fn protocol_addProtocol(_p: *mut c_void, _q: *const c_void) {}
#[unsafe(no_mangle)]
pub extern "C" fn protocol_getName(_p: *const c_void) -> *const c_char {
    c"protocol".as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ivar_getName(i: *const Ivar) -> *const c_char {
    unsafe { (*i).name.as_ptr() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ivar_getTypeEncoding(i: *const Ivar) -> *const c_char {
    unsafe { (*i).types.as_ptr() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ivar_getOffset(i: *const Ivar) -> isize {
    unsafe { (*i).offset }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn method_getName(m: *const Method) -> Sel {
    unsafe { (*m).sel }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn method_getImplementation(m: *const Method) -> Imp {
    unsafe { (*m).imp.load(SeqCst) as Imp }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn method_setImplementation(m: *const Method, i: Imp) -> Imp {
    unsafe { (*m).imp.swap(i as usize, SeqCst) as Imp }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn method_getTypeEncoding(m: *const Method) -> *const c_char {
    unsafe { (*m).types.as_ptr() }
}
// The bindings free what `method_copy…Type` give, with C's `free`.
unsafe extern "C" {
    fn strdup(s: *const c_char) -> *mut c_char;
}

/// Splits the encoding of a method, such as `@24@0:8Q16`, into the types of its result and its
/// arguments: `@`, `@`, `:`, `Q`. The numbers are offsets.
pub(crate) fn split_types(t: &str) -> Vec<String> {
    let (b, mut i, mut out) = (t.as_bytes(), 0, Vec::new());
    // The end of the type that begins at `i`: qualifiers and pointers stand before another type,
    // brackets nest, `@?` is a block, `b` has a number of bits.
    fn one(b: &[u8], mut i: usize) -> usize {
        match b[i] {
            b'^' | b'r' | b'n' | b'N' | b'o' | b'O' | b'R' | b'V' | b'A' => one(b, i + 1),
            b'{' | b'(' | b'[' => {
                let mut d = 0;
                loop {
                    match b[i] {
                        b'{' | b'(' | b'[' => d += 1,
                        b'}' | b')' | b']' => d -= 1,
                        _ => {}
                    }
                    i += 1;
                    if d == 0 {
                        return i;
                    }
                }
            }
            b'@' if b.get(i + 1) == Some(&b'?') => i + 2,
            b'b' => {
                i += 1;
                while i < b.len() && b[i].is_ascii_digit() {
                    i += 1
                }
                i
            }
            _ => i + 1,
        }
    }
    while i < b.len() {
        let e = one(b, i);
        out.push(t[i..e].to_owned());
        i = e;
        while i < b.len() && (b[i].is_ascii_digit() || b[i] == b'-') {
            i += 1
        }
    }
    out
}

/// The result's type (0) or an argument's, as a string that the caller frees.
pub(crate) unsafe fn nth_type(m: *const Method, n: usize) -> *mut c_char {
    let v = split_types(&s(unsafe { (*m).types.as_ptr() }));
    v.get(n).map_or(null_mut(), |t| unsafe { strdup(CString::new(t.as_str()).unwrap().as_ptr()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn method_copyReturnType(m: *const Method) -> *mut c_char {
    unsafe { nth_type(m, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn method_copyArgumentType(m: *const Method, i: c_uint) -> *mut c_char {
    unsafe { nth_type(m, i as usize + 1) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn method_getNumberOfArguments(m: *const Method) -> c_uint {
    split_types(&s(unsafe { (*m).types.as_ptr() })).len() as c_uint - 1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn object_getClass(o: Id) -> *mut Class {
    if o.is_null() { null_mut() } else { unsafe { (*o).isa } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn object_getClassName(o: Id) -> *const c_char {
    unsafe { (*(*o).isa).name.as_ptr() }
}
