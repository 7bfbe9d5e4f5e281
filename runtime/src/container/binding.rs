//! Making a model library bind to this runtime, and to nothing else in the process that has the
//! runtime's names (torch defines `aoti_torch_*` too).
//!
//! On Linux the library gets a `DT_NEEDED` entry on the very file that this code was loaded from,
//! and is loaded locally. On Apple systems its `aoti_torch_*` are looked up in all images in the
//! order in which they were loaded, so this runtime is made visible there, and it is an error if
//! somebody else would answer first. Torch's own calls are bound to its own library by name and
//! do not change.

use std::ffi::{c_int, c_void};

use super::audit::Findings;
use super::dl;
use super::library::RuntimeSymbols;
use crate::Result;
use crate::error::err;

/// What model libraries register destructors of thread-local objects with; see
/// [`super::thread_exit`].
pub(crate) const THREAD_EXIT: &str = "etmetal_thread_atexit";

/// A library made ready to be loaded.
pub(crate) struct Prepared {
    /// What to load.
    pub bytes: Vec<u8>,
    /// Flags for the loader, beyond the usual ones.
    pub flags: c_int,
    /// Bytes of address space that it will occupy.
    pub span: u64,
}

/// Prepares an audited library.
///
/// # Errors
/// It would bind to somebody else, and that cannot be helped; the message says to what.
#[cfg(target_os = "linux")]
pub(crate) fn prepare(
    bytes: &[u8],
    findings: &Findings,
    runtime: RuntimeSymbols,
) -> Result<Prepared> {
    use super::elf::Elf;
    use super::patch::{Edits, patch};

    /// What C++ registers destructors of thread-local objects with.
    const IMPORTS: [&str; 2] = ["__cxa_thread_atexit", "__cxa_thread_atexit_impl"];

    let library = Elf::parse(bytes)?;
    let imports: Vec<&str> = library.imports()?.iter().map(|i| i.name).collect();
    let own = Own::find()?;
    let contested = is_contested(&imports, &own, runtime)?;
    let thread_exit = super::thread_exit::etmetal_thread_atexit as *const c_void;
    let redirects = IMPORTS.map(|name| (name, THREAD_EXIT));
    let edits = Edits {
        first_library: (!own.is_executable).then_some(&*own.object.path),
        unneeded: &findings.unneeded,
        redirects: if visible(THREAD_EXIT) == Some(thread_exit) { &redirects } else { &[] },
    };
    let bytes = patch(&library, &edits)?;
    let span = Elf::parse(&bytes)?.span();
    Ok(Prepared { bytes, flags: if contested { OWN_LIBRARIES_FIRST } else { 0 }, span })
}

/// Looks for symbols in a library's own list, where this runtime comes first, before the global
/// one, where somebody else has the runtime's names. Only glibc can.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_LIBRARIES_FIRST: c_int = libc::RTLD_DEEPBIND;
#[cfg(all(target_os = "linux", not(target_env = "gnu")))]
const OWN_LIBRARIES_FIRST: c_int = 0;

/// Prepares an audited library.
///
/// # Errors
/// It would bind to somebody else; the message says to what.
#[cfg(target_vendor = "apple")]
pub(crate) fn prepare(
    bytes: &[u8],
    _findings: &Findings,
    runtime: RuntimeSymbols,
) -> Result<Prepared> {
    use super::macho::MachO;

    let library = MachO::parse(bytes)?;
    let imports: Vec<&str> = library.imports.iter().map(|i| i.name).collect();
    let own = Own::find()?;
    if !own.is_executable {
        dl::make_visible(&own.object.path)?;
    }
    if is_contested(&imports, &own, runtime)? {
        return Err(err!(
            Unsupported,
            "another library of this process (torch?) defines the functions that models call and \
             was loaded before etmetal: load etmetal first"
        ));
    }
    Ok(Prepared { bytes: bytes.to_vec(), flags: 0, span: bytes.len() as u64 })
}

/// What this code is part of.
struct Own {
    object: dl::Object,
    /// Whether that is the program itself, and no shared library.
    is_executable: bool,
}

impl Own {
    fn find() -> Result<Self> {
        let object = dl::object_at(Own::find as *const c_void)?;
        let is_executable = dl::executable_base() == Some(object.base);
        Ok(Own { object, is_executable })
    }
}

fn visible(name: &str) -> Option<*const c_void> {
    dl::visible_symbol(name).map(|address| address.as_ptr().cast_const())
}

/// Whether somebody else would answer a call of the runtime, unless the library is loaded with
/// care.
fn is_contested(imports: &[&str], own: &Own, runtime: RuntimeSymbols) -> Result<bool> {
    let mut contested = false;
    for name in imports {
        let Some(address) = runtime(name) else { continue };
        let answer = visible(name);
        if dl::object_at(address)?.base != own.object.base {
            return Err(err!(
                Unsupported,
                "another library of this process replaces etmetal's own {name}: load etmetal \
                 before it, or link etmetal with -Bsymbolic-functions"
            ));
        }
        match answer {
            None if own.is_executable => {
                return Err(err!(
                    Unsupported,
                    "this program does not export {name}, which the model calls; link it with {}",
                    if cfg!(target_vendor = "apple") {
                        "-Wl,-exported_symbol,_aoti_torch_*"
                    } else {
                        "-Wl,--export-dynamic-symbol=aoti_torch_*"
                    }
                ));
            }
            None => {}
            Some(answer) => contested |= answer != address,
        }
    }
    if contested && own.is_executable {
        return Err(err!(
            Unsupported,
            "etmetal is part of this program, and another library that comes first (torch?) \
             defines the functions that models call; use the shared libetmetal"
        ));
    }
    Ok(contested)
}
