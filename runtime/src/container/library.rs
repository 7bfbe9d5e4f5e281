//! One loaded model library.

use std::ffi::{CString, c_void};
use std::ops::Range;
use std::ptr::NonNull;

use super::audit::{self, Environment};
use super::binding::{THREAD_EXIT, prepare};
use super::dl::{self, Handle};
use super::image::Image;
use super::thread_exit;
use crate::Result;
use crate::error::err;

/// The address of a symbol that this runtime exports to models, if it exports one of this name.
pub(crate) type RuntimeSymbols = fn(&str) -> Option<*const c_void>;

/// A loaded model library. Dropping it runs its destructors and unloads it.
#[derive(Debug)]
pub(crate) struct Library {
    /// `None` only while it is dropped.
    handle: Option<Handle>,
    image: Option<Image>,
    addresses: Range<usize>,
}

impl Library {
    /// Audits a library, prepares it and loads it.
    ///
    /// # Errors
    /// As for [`audit::audit`]; or the loader refuses it, with the loader's reason.
    pub(crate) fn load(bytes: &[u8], runtime: RuntimeSymbols) -> Result<Self> {
        let mut process = Process { runtime, opened: Vec::new() };
        let findings = audit::audit(bytes, &mut process)?;
        let prepared = prepare(bytes, &findings, runtime)?;
        let image = Image::new(&prepared.bytes)?;
        let handle = Handle::open(image.path(), prepared.flags).map_err(|reason| {
            err!(
                InvalidProgram,
                "the system cannot load the model library: {reason}{}",
                if cfg!(target_vendor = "apple") {
                    " (an app with the hardened runtime needs a signed library: export with a \
                     codesign_identity, \"-\" for ad hoc)"
                } else {
                    ""
                }
            )
        })?;
        let addresses = addresses(&handle, prepared.span)?;
        Ok(Library { handle: Some(handle), image: Some(image.loaded()), addresses })
    }

    /// The address of a function of the library.
    pub(crate) fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        let found = self.handle.as_ref()?.symbol(name)?;
        // The search goes on in the libraries that it needs; theirs do not count.
        self.addresses.contains(&(found.as_ptr() as usize)).then_some(found)
    }

    /// Where it is loaded.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn addresses(&self) -> &Range<usize> {
        &self.addresses
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        thread_exit::run_library(&self.addresses);
        drop(self.handle.take());
        let Some(image) = self.image.take() else { return };
        if cfg!(target_os = "linux") && Handle::is_loaded(image.path()) {
            // Something keeps it. The loader knows it by the image's path, so that path must
            // never come to mean another file.
            std::mem::forget(image);
        }
    }
}

/// Audits a library against this process.
///
/// # Errors
/// As for [`audit::audit`].
pub(crate) fn audit_here(bytes: &[u8], runtime: RuntimeSymbols) -> Result<audit::Findings> {
    audit::audit(bytes, &mut Process { runtime, opened: Vec::new() })
}

/// Where a library was loaded, from the address of a function that every model has.
fn addresses(handle: &Handle, span: u64) -> Result<Range<usize>> {
    const ANY: &str = "AOTInductorModelContainerRun";
    let address = handle.symbol(ANY).ok_or_else(|| {
        err!(InvalidProgram, "the model library has no function {ANY}; was AOTInductor its maker?")
    })?;
    let base = dl::object_at(address.as_ptr())?.base;
    Ok(base..base + span as usize)
}

/// This process, as the audit asks about it.
struct Process {
    runtime: RuntimeSymbols,
    /// Libraries that the model needs, kept until it is loaded.
    opened: Vec<Handle>,
}

impl Environment for Process {
    fn runtime_exports(&self, symbol: &str) -> bool {
        symbol == THREAD_EXIT || (self.runtime)(symbol).is_some()
    }

    fn open(&mut self, library: &str, directories: &[&str]) -> bool {
        let bare = !library.contains('/');
        let in_directories = directories
            .iter()
            // $ORIGIN means the directory of the model library, which has none.
            .filter(|directory| bare && !directory.contains('$'))
            .map(|directory| format!("{directory}/{library}"));
        let paths = in_directories.chain([library.to_owned()]);
        let opened = paths
            .filter_map(|path| CString::new(path).ok())
            .find_map(|path| Handle::open(&path, 0).ok());
        let found = opened.is_some();
        self.opened.extend(opened);
        found
    }

    fn resolves(&self, symbol: &str, version: Option<&str>) -> bool {
        self.opened.iter().any(|library| library.has(symbol, version))
            || dl::visible_symbol(symbol).is_some()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::ffi::c_int;

    use super::*;
    use crate::container::{fixture, runtime_symbol};

    /// What keeps a library from being unloaded, if nothing is done about it: a thread-local
    /// object with a destructor, and a static of an inline function.
    const SOURCE: &str = r#"
        #include <string>
        extern "C" int aoti_torch_device_type_mps();
        static thread_local std::string text;
        inline int& counter() { static int value = 0; return value; }
        struct AtUnload { ~AtUnload(); };
        static AtUnload at_unload;
        static int* flag = nullptr;
        AtUnload::~AtUnload() { if (flag) *flag = 1; }
        extern "C" int AOTInductorModelContainerRun(int add) {
            text = std::string(1000, 'x');
            counter() += add;
            return counter() + aoti_torch_device_type_mps();
        }
        extern "C" void watch(int* unloaded) { flag = unloaded; }
    "#;
    const MPS: c_int = 13;

    fn call(library: &Library, add: c_int) -> c_int {
        let function = library.symbol("AOTInductorModelContainerRun").unwrap();
        // SAFETY: the function of `SOURCE`.
        let function: extern "C" fn(c_int) -> c_int =
            unsafe { std::mem::transmute(function.as_ptr()) };
        function(add)
    }

    /// Whether anything is mapped at these addresses.
    fn is_mapped(addresses: &Range<usize>) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (start, _) = line.split_once('-').unwrap();
            addresses.contains(&usize::from_str_radix(start, 16).unwrap())
                && line.contains("etmetal-model")
        })
    }

    #[test]
    fn a_library_is_really_unloaded() {
        let library = Library::load(&fixture::compile(SOURCE), runtime_symbol).unwrap();
        assert_eq!(call(&library, 2), 2 + MPS);
        assert_eq!(call(&library, 3), 5 + MPS);
        let addresses = library.addresses().clone();
        assert!(is_mapped(&addresses));
        assert_eq!(thread_exit::pending(&addresses), 1, "the thread-local string is registered");
        drop(library);
        assert!(!is_mapped(&addresses));
        assert_eq!(thread_exit::pending(&addresses), 0);
    }

    #[test]
    fn static_destructors_run_at_unload() {
        let library = Library::load(&fixture::compile(SOURCE), runtime_symbol).unwrap();
        let mut unloaded: c_int = 0;
        let watch = library.symbol("watch").unwrap();
        // SAFETY: the function of `SOURCE`; the flag outlives the library.
        unsafe {
            let watch: extern "C" fn(*mut c_int) = std::mem::transmute(watch.as_ptr());
            watch(&mut unloaded);
        }
        drop(library);
        assert_eq!(unloaded, 1);
    }

    #[test]
    fn two_of_the_same_are_two() {
        let bytes = fixture::compile(SOURCE);
        let one = Library::load(&bytes, runtime_symbol).unwrap();
        let two = Library::load(&bytes, runtime_symbol).unwrap();
        assert_eq!(call(&one, 1), 1 + MPS);
        assert_eq!(call(&two, 5), 5 + MPS, "its statics are its own");
        drop(one);
        let three = Library::load(&bytes, runtime_symbol).unwrap();
        assert_eq!(call(&three, 7), 7 + MPS, "not the library whose path it reuses");
        assert_eq!(call(&two, 1), 6 + MPS);
    }

    #[test]
    fn threads_that_used_it_may_end_after_it() {
        let library = Library::load(&fixture::compile(SOURCE), runtime_symbol).unwrap();
        let addresses = library.addresses().clone();
        let (used, go_on) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let library = &library;
            scope.spawn(|| {
                call(library, 1);
                used.wait();
                go_on.wait();
            });
            used.wait();
            assert_eq!(thread_exit::pending(&addresses), 1);
            thread_exit::run_library(&addresses);
            go_on.wait();
        });
        drop(library);
        assert!(!is_mapped(&addresses));
    }

    #[test]
    fn many_rounds_do_not_grow() {
        let bytes = fixture::compile(SOURCE);
        let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let round = || {
            let library = Library::load(&bytes, runtime_symbol).unwrap();
            assert_eq!(call(&library, 1), 1 + MPS);
        };
        round();
        let before = mappings();
        for _ in 0..300 {
            round();
        }
        // Other tests come and go in this process; a leak would be 300 times several.
        assert!(mappings() < before + 100, "{before} mappings became {}", mappings());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_real_model_loads_and_unloads() {
        let library = Library::load(&fixture::library(), runtime_symbol).unwrap();
        let addresses = library.addresses().clone();
        assert!(library.symbol("AOTInductorModelContainerRunSingleThreaded").is_some());
        assert!(library.symbol("malloc").is_none(), "a symbol of what it needs is not its own");
        drop(library);
        assert!(!is_mapped(&addresses));
    }

    #[test]
    fn a_library_of_another_maker_is_refused() {
        let bytes = fixture::compile("extern \"C\" int other() { return 1; }");
        let text = Library::load(&bytes, runtime_symbol).unwrap_err().to_string();
        assert!(text.contains("AOTInductorModelContainerRun"), "{text}");
    }

    #[test]
    fn what_it_lacks_is_named() {
        let source = "extern \"C\" { int aoti_torch_not_there(); int no_such_function(); \
                      int AOTInductorModelContainerRun() { \
                      return aoti_torch_not_there() + no_such_function(); } }";
        let text = Library::load(&fixture::compile(source), runtime_symbol).unwrap_err();
        let text = text.to_string();
        assert!(text.contains("aoti_torch_not_there: not an operator"), "{text}");
        assert!(text.contains("no_such_function: no library here"), "{text}");
    }
}
