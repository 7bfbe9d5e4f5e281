//! Blocks, by the ABI that compilers have for them.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;

use super::objects::{Id, SEQ};
use crate::violations::violation;

/// Whether it is a block: those have one of three classes of their own, and no header of ours.
pub(crate) unsafe fn is_block(o: Id) -> bool {
    let isa = unsafe { (*o).isa } as usize;
    [
        &raw const _NSConcreteStackBlock,
        &raw const _NSConcreteMallocBlock,
        &raw const _NSConcreteGlobalBlock,
    ]
    .iter()
    .any(|block| *block as usize == isa)
}

#[unsafe(no_mangle)]
pub static mut _NSConcreteGlobalBlock: [usize; 32] = [0; 32];
#[unsafe(no_mangle)]
pub static mut _NSConcreteStackBlock: [usize; 32] = [0; 32];
#[unsafe(no_mangle)]
pub static mut _NSConcreteMallocBlock: [usize; 32] = [0; 32];

/// A block as compilers lay it out; what it captures follows.
#[repr(C)]
pub(crate) struct Block {
    isa: *const c_void,
    flags: c_int,
    reserved: c_int,
    invoke: *const c_void,
    desc: *const Desc,
}

/// What a block's code knows of it. The functions are there if [`HAS_COPY_DISPOSE`] says so.
#[repr(C)]
pub(crate) struct Desc {
    reserved: usize,
    size: usize,
    copy: Option<extern "C-unwind" fn(*mut c_void, *const c_void)>,
    dispose: Option<extern "C-unwind" fn(*mut c_void)>,
}

/// A flag: what the block captures has to be copied and disposed of.
pub(crate) const HAS_COPY_DISPOSE: c_int = 1 << 25;

/// A flag: the block captures nothing and lives for ever.
pub(crate) const IS_GLOBAL: c_int = 1 << 28;

/// Blocks on the heap, by address: when they were made, in the order of objects, and how many
/// references there are.
pub(crate) static BLOCKS: Mutex<BTreeMap<usize, (u64, isize)>> = Mutex::new(BTreeMap::new());

/// A reference more to a block on the heap; a copy there of one on the stack.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Block_copy(b: *const c_void) -> *mut c_void {
    let k = unsafe { &*b.cast::<Block>() };
    if k.flags & IS_GLOBAL != 0 {
        return b as *mut c_void;
    }
    if let Some(e) = BLOCKS.lock().unwrap().get_mut(&(b as usize)) {
        e.1 += 1;
        return b as *mut c_void;
    }
    unsafe {
        let n = (*k.desc).size;
        let p = std::alloc::alloc(std::alloc::Layout::from_size_align(n, 16).unwrap());
        std::ptr::copy_nonoverlapping(b.cast::<u8>(), p, n);
        (*p.cast::<Block>()).isa = (&raw const _NSConcreteMallocBlock).cast();
        if k.flags & HAS_COPY_DISPOSE != 0
            && let Some(c) = (*k.desc).copy
        {
            c(p.cast(), b)
        }
        BLOCKS.lock().unwrap().insert(p as usize, (SEQ.fetch_add(1, SeqCst) as u64, 1));
        p.cast()
    }
}

/// A reference less. With the last one goes what the block captured; its memory is never used
/// again, as that of objects.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Block_release(b: *const c_void) {
    let k = unsafe { &*b.cast::<Block>() };
    if k.flags & IS_GLOBAL != 0 {
        return;
    }
    let dead = {
        let mut g = BLOCKS.lock().unwrap();
        match g.get_mut(&(b as usize)) {
            None => {
                drop(g);
                violation("over-release", "block released too often");
                return;
            }
            Some(e) => {
                e.1 -= 1;
                let d = e.1 == 0;
                if d {
                    g.remove(&(b as usize));
                }
                d
            }
        }
    };
    if dead && k.flags & HAS_COPY_DISPOSE != 0 {
        unsafe {
            if let Some(d) = (*k.desc).dispose {
                d(b as *mut c_void)
            }
        }
    }
}
