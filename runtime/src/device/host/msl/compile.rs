//! Runs the compiler and reads its messages.

use std::ffi::{CStr, CString, c_char, c_void};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use super::cache::{Scratch, create_private, file_identity, key};
use super::diagnostics::{self, Diagnostic};
use super::emit::{ENTRY_NAME, translation_unit};
use super::fission::Fission;
use super::kernels::KernelInfo;
use super::native::{Code, LoopsEntry, Native};
use super::rewrite::{Rewritten, SOURCE_NAME};
use super::toolchain::Toolchain;
use super::{Entry, LaunchMode, headers};
use crate::error::err;
use crate::{Error, Result};

/// Threadgroup memory of a kernel, at most, as on Apple GPUs.
const MAX_THREADGROUP_MEMORY: u32 = 32 << 10;

/// Expands the macros and includes of a shader.
///
/// # Errors
/// [`Error::ShaderCompile`] with MSL lines.
pub(crate) fn preprocess(source: &str, toolchain: &Toolchain) -> Result<String> {
    let scratch = Headers::write(toolchain)?;
    let mut command = toolchain.command();
    command.args(toolchain.preprocess_flags()).arg("-I").arg(scratch.path()).arg("-");
    let output = run(command, source)?;
    if !output.success {
        let found = parse_messages(&output.stderr, |line, column| (line, column), 0);
        return Err(failure(source, &output.stderr, found));
    }
    Ok(super::rewrite::normalise_markers(&output.stdout))
}

/// Compiles one kernel into a library at `target`; with `fission`, as loops.
///
/// # Errors
/// [`Error::ShaderCompile`] with MSL lines.
pub(crate) fn compile(
    source: &str,
    shader: &Rewritten,
    fission: Option<&Fission>,
    kernel: &KernelInfo,
    toolchain: &Toolchain,
    target: &Path,
) -> Result<()> {
    let headers = Headers::write(toolchain)?;
    let unit = translation_unit(&shader.text, kernel, fission);
    if let Some(precompiled) = headers.precompiled(toolchain) {
        let mut command = toolchain.command();
        command.args(toolchain.compile_flags()).arg("-shared");
        command.arg("-include-pch").arg(precompiled).arg("-o").arg(target).arg("-");
        if run(command, &unit)?.success {
            return check_mode(kernel, target);
        }
        // The precompiled header may be the reason: only the headers themselves are trusted.
    }
    let mut command = toolchain.command();
    command.args(toolchain.compile_flags()).arg("-shared");
    command.arg("-include").arg(headers.path().join("msl.h")).arg("-o").arg(target).arg("-");
    let output = run(command, &unit)?;
    if output.success {
        return check_mode(kernel, target);
    }
    let place = |line, column| (line, shader.source_column(line, column));
    let found = parse_messages(&output.stderr, place, kernel.line);
    Err(failure(source, &output.stderr, found).context(format!("kernel {:?}", kernel.name)))
}

/// A plain kernel runs without fibers: code in it that waits would find no context and crash.
/// What a kernel calls is found by name, so this cannot happen; should it, it is an error here.
fn check_mode(kernel: &KernelInfo, library: &Path) -> Result<()> {
    let waits = |bytes: &[u8]| {
        [&b"enter_barrier"[..], b"enter_simd_operation"]
            .iter()
            .any(|name| bytes.windows(name.len()).any(|window| window == *name))
    };
    if kernel.mode == LaunchMode::Plain && std::fs::read(library).is_ok_and(|b| waits(&b)) {
        return Err(err!(
            Internal,
            "the kernel {:?} (MSL line {}) waits for other threads, which was not seen in its text",
            kernel.name,
            kernel.line
        ));
    }
    Ok(())
}

/// The directory with our headers: in the cache, or only for one compilation.
enum Headers {
    Cached(std::path::PathBuf),
    Scratch(Scratch),
}

impl Headers {
    fn write(toolchain: &Toolchain) -> Result<Headers> {
        if let Some(dir) = toolchain.cache().dir() {
            let version = super::cache::hex(&headers::digest()[..8]);
            let target = dir.join(format!("include-{version}"));
            if is_complete(&target) {
                return Ok(Headers::Cached(target));
            }
            let scratch = toolchain.cache().scratch()?;
            let made = scratch.path().join("include");
            write_headers(&made)?;
            // Another process may have been faster; a damaged directory makes way.
            if std::fs::rename(&made, &target).is_err() && !is_complete(&target) {
                _ = std::fs::rename(&target, scratch.path().join("damaged"));
                _ = std::fs::rename(&made, &target);
            }
            if is_complete(&target) {
                return Ok(Headers::Cached(target));
            }
        }
        let scratch = toolchain.cache().scratch()?;
        write_headers(scratch.path())?;
        Ok(Headers::Scratch(scratch))
    }

    /// The headers in the compiler's own form, which halves the time of a compilation; made once
    /// and kept in the cache. `None` without a cache, or if the compiler cannot make it.
    fn precompiled<'t>(&self, toolchain: &'t Toolchain) -> Option<&'t Path> {
        let Headers::Cached(dir) = self else { return None };
        toolchain.precompiled(|| {
            let header = dir.join("msl.h");
            let identity = file_identity(&header).ok()?;
            let key = key(&[toolchain.identity(), &identity]);
            let target = toolchain.cache().dir()?.join(format!("headers-{key}.pch"));
            if target.is_file() {
                return Some(target);
            }
            let scratch = toolchain.cache().scratch().ok()?;
            let made = scratch.path().join("headers.pch");
            let mut command = toolchain.command();
            command.args(toolchain.compile_flags()).args(["-x", "c++-header"]);
            command.arg(&header).arg("-o").arg(&made);
            let success = run(command, "").is_ok_and(|output| output.success);
            (success && std::fs::rename(&made, &target).is_ok()).then_some(target)
        })
    }

    fn path(&self) -> &Path {
        match self {
            Headers::Cached(path) => path,
            Headers::Scratch(scratch) => scratch.path(),
        }
    }
}

fn is_complete(dir: &Path) -> bool {
    headers::files().iter().all(|(name, text)| {
        std::fs::read(dir.join(name)).is_ok_and(|found| found == text.as_bytes())
    })
}

fn write_headers(dir: &Path) -> Result<()> {
    let refused =
        |e: std::io::Error| err!(System, "cannot write headers to {}: {e}", dir.display());
    for (name, text) in headers::files() {
        let path = dir.join(name);
        create_private(path.parent().unwrap_or(dir)).map_err(refused)?;
        std::fs::write(path, text).map_err(refused)?;
    }
    Ok(())
}

struct Output {
    success: bool,
    stdout: String,
    stderr: String,
}

/// Runs a compiler with `input` as its standard input.
fn run(mut command: Command, input: &str) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| err!(System, "cannot run the compiler {program}: {e}");
    let mut child = command.spawn().map_err(failed)?;
    let mut stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // A compiler that stops early closes the pipe; its messages tell why.
        scope.spawn(|| stdin.take().map(|mut s| s.write_all(input.as_bytes())));
        child.wait_with_output()
    })
    .map_err(failed)?;
    Ok(Output {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The error of a failed run: the messages that lead to the source, else what the compiler said.
fn failure(source: &str, stderr: &str, found: Vec<Diagnostic>) -> Error {
    if !found.is_empty() {
        return diagnostics::error(source, &found);
    }
    let text: String = stderr.trim().chars().take(2000).collect();
    err!(ShaderCompile, "the shader does not compile: {text}")
}

/// One line of the compiler's output.
struct Message<'m> {
    file: &'m str,
    line: u32,
    column: u32,
    severity: &'m str,
    text: &'m str,
}

fn parse_line(line: &str) -> Option<Message<'_>> {
    let severities = [": fatal error: ", ": error: ", ": note: "];
    let (severity, at) = severities.iter().find_map(|s| line.find(s).map(|at| (*s, at)))?;
    let mut place = line[..at].rsplitn(3, ':');
    let column = place.next()?.parse().ok()?;
    let number = place.next()?.parse().ok()?;
    let file = place.next()?;
    let text = &line[at + severity.len()..];
    Some(Message { file, line: number, column, severity, text })
}

/// The errors in the compiler's output, each with its place in the source.
///
/// An error inside our headers is placed where the shader uses them, which the notes that follow
/// tell; one in the entry is placed at the kernel.
fn parse_messages(
    stderr: &str,
    place: impl Fn(u32, u32) -> (u32, u32),
    kernel_line: u32,
) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut unplaced = false;
    for message in stderr.lines().filter_map(parse_line) {
        let in_source = message.file == SOURCE_NAME || message.file == "<stdin>";
        let is_error = message.severity.contains("error");
        if is_error {
            let (line, column) = match message.file {
                _ if in_source => place(message.line, message.column),
                ENTRY_NAME => (kernel_line, 0),
                _ => (0, 0),
            };
            unplaced = line == 0;
            found.push(Diagnostic { line, column, message: clean(message.text) });
        } else if in_source
            && unplaced
            && let Some(last) = found.last_mut()
        {
            (last.line, last.column) = place(message.line, message.column);
            unplaced = false;
        }
    }
    for diagnostic in found.iter_mut().filter(|d| d.line == 0) {
        diagnostic.line = kernel_line;
    }
    found
}

/// A message without the name of the warning flag, and without our inner names.
fn clean(text: &str) -> String {
    let text = text.rfind(" [-W").map_or(text, |at| &text[..at]);
    text.chars().take(500).collect()
}

/// Loads a compiled kernel.
///
/// # Errors
/// The system's loader refuses it.
pub(crate) fn load(path: &Path, mode: LaunchMode) -> Result<Native> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| err!(System, "the path {} holds a NUL", path.display()))?;
    // SAFETY: the library is one that we compiled: it has no initialisers and no dependencies.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(err!(System, "cannot load a compiled kernel: {}", loader_error()));
    }
    let library = Library { handle };
    let code = code(&library)?;
    let bytes = library.symbol(c"static_threadgroup_memory")?;
    // SAFETY: the symbol is the function that `launch.h` defines by this signature.
    let bytes = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(bytes) };
    let static_threadgroup_memory = bytes();
    if static_threadgroup_memory > MAX_THREADGROUP_MEMORY {
        return Err(err!(
            ShaderCompile,
            "the kernel declares {static_threadgroup_memory} bytes of threadgroup memory; a \
             threadgroup has {MAX_THREADGROUP_MEMORY}"
        ));
    }
    let library = Some(library);
    Ok(Native { code, mode, fallback: None, static_threadgroup_memory, library, file: None })
}

/// The function of a kernel's library.
fn code(library: &Library) -> Result<Code> {
    if let Ok(loops) = library.symbol(c"loops") {
        // SAFETY: the symbol is the function that `fission.h` defines by this signature.
        let loops = unsafe { std::mem::transmute::<*mut c_void, LoopsEntry>(loops) };
        return Ok(Code::Loops(loops, None));
    }
    let entry = library.symbol(c"entry")?;
    // SAFETY: the symbol is the function that `launch.h` defines by this signature.
    Ok(Code::Whole(unsafe { std::mem::transmute::<*mut c_void, Entry>(entry) }))
}

/// A loaded shared library, closed on drop.
#[derive(Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
}

// SAFETY: a handle of the loader may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above; lookups are thread-safe.
unsafe impl Sync for Library {}

impl Library {
    fn symbol(&self, name: &CStr) -> Result<*mut c_void> {
        // SAFETY: the handle is open and the name is NUL-terminated.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            return Err(err!(System, "a compiled kernel has no symbol {name:?}"));
        }
        Ok(address)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and is closed once.
        unsafe { libc::dlclose(self.handle) };
    }
}

fn loader_error() -> String {
    // SAFETY: dlerror gives null or a string that is valid until the next loader call here.
    let text: *const c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".to_string();
    }
    // SAFETY: not null, so NUL-terminated.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
