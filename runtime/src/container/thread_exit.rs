//! Destructors of the thread-local objects of model libraries.
//!
//! C++ registers the destructor of a `thread_local` object with `__cxa_thread_atexit`, and the
//! C library then keeps the library that holds the object until the thread ends: a program that
//! loads and destroys models on one thread would keep them all. Model libraries are therefore
//! made to register here (see [`super::patch`]). A destructor runs when its thread ends, or when
//! its library is unloaded, whichever comes first.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::ReentrantMutex;

/// A destructor, as C++ registers it.
type Destructor = unsafe extern "C" fn(*mut c_void);

/// One object to destroy.
#[derive(Clone, Copy)]
struct Entry {
    thread: u64,
    /// An address inside the library that holds the object: its `__dso_handle`.
    library: usize,
    destructor: Destructor,
    object: usize,
}

/// All objects that live. The lock is held while a destructor runs, so that its library is not
/// unloaded meanwhile; it is reentrant because a destructor may register another object.
static ENTRIES: ReentrantMutex<RefCell<Vec<Entry>>> = ReentrantMutex::new(RefCell::new(Vec::new()));

/// Runs the thread's destructors when the thread ends.
struct Thread {
    id: u64,
}

impl Drop for Thread {
    fn drop(&mut self) {
        let id = self.id;
        run_where(|entry| entry.thread == id);
    }
}

thread_local! {
    static THREAD: Thread = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Thread { id: NEXT.fetch_add(1, Ordering::Relaxed) }
    };
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread's number, also while the thread ends.
fn thread_id() -> u64 {
    let id = THREAD.try_with(|thread| thread.id);
    if let Ok(id) = id {
        LAST.set(id);
    }
    LAST.get()
}

/// Runs the chosen destructors, the newest first, as C++ wants.
fn run_where(chosen: impl Fn(&Entry) -> bool) {
    let entries = ENTRIES.lock();
    loop {
        let entry = {
            let mut entries = entries.borrow_mut();
            let Some(index) = entries.iter().rposition(&chosen) else { break };
            entries.remove(index)
        };
        // SAFETY: registered by the library for this object, not run before (it was just taken
        // from the list), and the library is loaded: unloading runs its entries first, under
        // the lock that is held here.
        unsafe { (entry.destructor)(entry.object as *mut c_void) };
    }
}

/// Runs what is left of a library's destructors, of all threads. Called before the library that
/// occupies these addresses is unloaded, when no thread uses it any more.
pub(crate) fn run_library(addresses: &Range<usize>) {
    run_where(|entry| addresses.contains(&entry.library));
}

/// Objects of the library at these addresses that wait for their destructor.
#[cfg(test)]
pub(crate) fn pending(addresses: &Range<usize>) -> usize {
    ENTRIES.lock().borrow().iter().filter(|e| addresses.contains(&e.library)).count()
}

/// What model libraries call in place of `__cxa_thread_atexit`: `destructor(object)` runs when
/// the calling thread ends or the library around `library` is unloaded. Always 0.
///
/// # Safety
/// `destructor` may be called with `object` until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_thread_atexit(
    destructor: Destructor,
    object: *mut c_void,
    library: *mut c_void,
) -> c_int {
    let thread = thread_id();
    let entry = Entry { thread, library: library as usize, destructor, object: object as usize };
    ENTRIES.lock().borrow_mut().push(entry);
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    unsafe extern "C" fn count(object: *mut c_void) {
        // SAFETY: the tests pass a static counter.
        unsafe { &*object.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
    }

    fn register(counter: &'static AtomicUsize, library: usize) {
        // SAFETY: the counter is static.
        let status = unsafe {
            etmetal_thread_atexit(
                count,
                std::ptr::from_ref(counter).cast_mut().cast(),
                library as *mut c_void,
            )
        };
        assert_eq!(status, 0);
    }

    #[test]
    fn a_destructor_runs_when_its_thread_ends() {
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        std::thread::spawn(|| register(&COUNTER, 0x1010)).join().unwrap();
        assert_eq!(COUNTER.load(Ordering::SeqCst), 1);
        run_library(&(0x1000..0x2000));
        assert_eq!(COUNTER.load(Ordering::SeqCst), 1, "only once");
    }

    #[test]
    fn or_when_its_library_goes() {
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        static OTHER: AtomicUsize = AtomicUsize::new(0);
        register(&COUNTER, 0x3010);
        register(&OTHER, 0x4010);
        assert_eq!(pending(&(0x3000..0x4000)), 1);
        run_library(&(0x3000..0x4000));
        assert_eq!(COUNTER.load(Ordering::SeqCst), 1);
        assert_eq!(OTHER.load(Ordering::SeqCst), 0, "another library's object stays");
        run_library(&(0x4000..0x5000));
    }

    #[test]
    fn a_destructor_may_register_another() {
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn again(_: *mut c_void) {
            register(&COUNTER, 0x5010);
        }
        // SAFETY: `again` ignores its object.
        unsafe { etmetal_thread_atexit(again, std::ptr::null_mut(), 0x5010 as *mut c_void) };
        run_library(&(0x5000..0x6000));
        assert_eq!(COUNTER.load(Ordering::SeqCst), 1);
    }
}
