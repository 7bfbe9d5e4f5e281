//! Finds the C++ compiler: `ETMETAL_CLANG`, a clang on `PATH`, or one staged beside this library.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use super::cache::{self, Cache, cache_dir};
use super::headers;
use super::version;
use crate::Result;
use crate::error::err;

/// The oldest clang that compiles our headers.
const MIN_VERSION: u32 = 15;
/// The newest clang that is looked for by a name with its version.
const NEWEST_NAMED: u32 = 22;

/// How to help oneself, for every message about a missing compiler.
const HOW_TO_INSTALL: &str = "install one with `apt-get install clang-19`, or `pip install \
     ziglang` and set ETMETAL_CLANG=\"python3 -m ziglang c++\"";

/// How kernels are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// Those that synchronise as loops, where that can be (`fission`).
    Loops,
    /// Those that synchronise for fibers.
    Fibers,
    /// All for fibers, with checks of what they load and store.
    Checked,
}

/// A C++ compiler that was found and identified, and the cache of what it compiled.
#[derive(Debug)]
pub struct Toolchain {
    /// The program and its leading arguments.
    command: Vec<OsString>,
    version: u32,
    is_zig: bool,
    flavor: Flavor,
    /// Whether elementary functions are good to one unit in the last place.
    precise: bool,
    description: String,
    cache: Cache,
    /// Identifies compiler, flags, headers and processor: the start of every cache key.
    identity: Vec<u8>,
    /// The precompiled headers, once they were asked for.
    precompiled: OnceLock<Option<PathBuf>>,
}

impl Toolchain {
    /// Finds the compiler, by the first of these that is there: the command in `ETMETAL_CLANG`
    /// (words separated by spaces), `clang++-22` down to `clang++-15` and `clang++` on `PATH`,
    /// the command in the file `etmetal/msl-compiler` (one argument per line) beside the library
    /// or program that contains this code, or in `../lib` from there. It compiles kernels as
    /// `flavor` says.
    ///
    /// With `ETMETAL_MATH=precise`, elementary functions are good to one unit in the last place
    /// (`float_math.h` says what they are else).
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound), saying what was tried and how to install one;
    /// `ETMETAL_MATH` is set to something else.
    pub fn find(flavor: Flavor) -> Result<Arc<Toolchain>> {
        Self::find_with(&Search::from_environment(), &cache_dir(), flavor)
    }

    /// As [`find`](Self::find), with another environment and cache directory.
    pub(crate) fn find_with(
        search: &Search,
        cache_dir: &Path,
        flavor: Flavor,
    ) -> Result<Arc<Toolchain>> {
        let precise = search.precise()?;
        let cache = Cache::open(cache_dir);
        let mut tried = Vec::new();
        for (origin, command) in search.candidates() {
            match identify(&command, &cache) {
                Ok(found) => {
                    let made = Self::new(command, found, &origin, cache, (flavor, precise));
                    return Ok(Arc::new(made));
                }
                Err(why) => tried.push(format!("{origin}: {why}")),
            }
            if origin == ETMETAL_CLANG {
                break; // what was asked for explicitly is not silently replaced
            }
        }
        let tried =
            if tried.is_empty() { String::new() } else { format!(" ({})", tried.join("; ")) };
        Err(err!(
            NotFound,
            "no C++ compiler for shaders was found{tried}: the host device needs clang {MIN_VERSION} \
             or newer; {HOW_TO_INSTALL}"
        ))
    }

    fn new(
        command: Vec<OsString>,
        found: Identified,
        origin: &str,
        cache: Cache,
        (flavor, precise): (Flavor, bool),
    ) -> Self {
        let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
        let description = format!("clang {} ({origin}: {})", found.version, words.join(" "));
        let mut toolchain = Toolchain {
            command,
            version: found.version,
            is_zig: found.is_zig,
            flavor,
            precise,
            description,
            cache,
            identity: Vec::new(),
            precompiled: OnceLock::new(),
        };
        let flags = toolchain.compile_flags().join("\0");
        let identity = cache::key(&[
            &found.identity,
            flags.as_bytes(),
            &headers::digest(),
            processor().as_bytes(),
            &version::TRANSLATION.to_le_bytes(),
            &[u8::from(flavor == Flavor::Fibers)],
        ]);
        toolchain.identity = identity.into_bytes();
        toolchain
    }

    /// Major version of the clang.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What was found and where, for people: `clang 19 (PATH: /usr/bin/clang++-19)`.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// Whether it compiles kernels for the checked mode.
    pub fn checked(&self) -> bool {
        self.flavor == Flavor::Checked
    }

    /// How it compiles kernels.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// The precompiled headers, made by the first caller while others wait.
    pub(crate) fn precompiled(&self, make: impl FnOnce() -> Option<PathBuf>) -> Option<&Path> {
        self.precompiled.get_or_init(make).as_deref()
    }

    /// The compiler, ready for arguments. It reads the source from its standard input.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        if self.is_zig
            && let Some(dir) = self.cache.dir()
        {
            // zig insists on a cache of its own.
            command.env("ZIG_GLOBAL_CACHE_DIR", dir.join("zig"));
            command.env("ZIG_LOCAL_CACHE_DIR", dir.join("zig"));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Flags of the preprocessor run.
    pub(crate) fn preprocess_flags(&self) -> Vec<&'static str> {
        let mut flags = vec!["-E"];
        flags.extend(LANGUAGE_FLAGS);
        flags.extend(MSL_MACROS);
        flags
    }

    /// Flags of the compiler run.
    pub(crate) fn compile_flags(&self) -> Vec<&'static str> {
        let mut flags: Vec<&'static str> = Vec::new();
        flags.extend(LANGUAGE_FLAGS);
        flags.extend(STRICT_FLAGS);
        flags.extend(CODE_FLAGS);
        flags.extend(if self.checked() { &CHECKED_FLAGS[..] } else { &FAST_FLAGS[..] });
        if self.precise {
            flags.push("-DMSL_PRECISE=1");
        } else if !self.checked() && cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            flags.extend(VECTOR_MATH_FLAGS);
        }
        if cfg!(target_arch = "x86_64") {
            flags.push("-mprefer-vector-width=512");
            if self.version >= 16 {
                // Round every half operation, as a GPU does.
                flags.push("-fexcess-precision=16");
            }
        }
        flags.push(if cfg!(target_vendor = "apple") { "-mcpu=native" } else { "-march=native" });
        if !cfg!(target_vendor = "apple") {
            flags.push("-nostdlib");
        }
        flags
    }
}

/// Language and diagnostics: for both runs.
const LANGUAGE_FLAGS: [&str; 11] = [
    "-x",
    "c++",
    "-std=c++17",
    "-nostdinc",
    "-nostdinc++",
    "-fdeclspec",
    "-fsigned-char",
    "-Wno-everything",
    "-fno-color-diagnostics",
    "-fno-caret-diagnostics",
    "-ferror-limit=20",
];

/// What MSL 3.1 on macOS defines.
const MSL_MACROS: [&str; 4] =
    ["-D__METAL__=1", "-D__METAL_VERSION__=310", "-D__METAL_MACOS__=1", "-D__HAVE_BFLOAT__=1"];

/// Warnings of clang that are errors of Apple's compiler.
const STRICT_FLAGS: [&str; 4] =
    ["-Wvla", "-Werror=vla", "-Wc++11-narrowing", "-Werror=c++11-narrowing"];

/// Code generation. Safe math: AOTInductor expects IEEE results, without contraction.
/// A fiber's stack is small, so a frame that would not fit is an error (see `fiber.h`).
const CODE_FLAGS: [&str; 13] = [
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-stack-protector",
    "-fvisibility=hidden",
    "-mno-red-zone",
    "-Wframe-larger-than=65536",
    "-Werror=frame-larger-than",
];

/// Without the checked mode.
const FAST_FLAGS: [&str; 1] = ["-O3"];

/// `sin` and `cos` in vectorised loops are functions of `vector_math.h`, by the names that this
/// library has for them. The compiler has such names for other processors too, but with lengths
/// of vectors that the header does not know.
const VECTOR_MATH_FLAGS: [&str; 2] = ["-fveclib=libmvec", "-DMSL_VECTOR_MATH=1"];

/// With the checked mode: every load and store is preceded by a call of `checked.h`, none left
/// out because a check of the same address stands before it (a store after a load is a check of
/// its own). The sanitizer is given to the compiler behind its driver, which would link a library
/// and knows it on few platforms. Debug information leads from a call to the line.
const CHECKED_FLAGS: [&str; 14] = [
    "-DMSL_CHECKED=1",
    "-O1",
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",
    "-Xclang",
    "-fsanitize=address",
    "-mllvm",
    "-asan-instrumentation-with-call-threshold=0",
    "-mllvm",
    "-asan-opt-same-temp=0",
    "-mllvm",
    "-asan-stack=0",
    "-mllvm",
    "-asan-globals=0",
];

/// Origin of the explicitly chosen compiler.
const ETMETAL_CLANG: &str = "ETMETAL_CLANG";

/// The variable that asks for precise functions.
const ETMETAL_MATH: &str = "ETMETAL_MATH";

/// Where to look for a compiler.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub explicit: Option<OsString>,
    /// What [`ETMETAL_MATH`] says.
    pub math: Option<OsString>,
    pub path: Option<OsString>,
    /// Files that may hold a staged compiler's command.
    pub staged: Vec<PathBuf>,
}

impl Search {
    fn from_environment() -> Search {
        Search {
            explicit: std::env::var_os(ETMETAL_CLANG).filter(|v| !v.is_empty()),
            math: std::env::var_os(ETMETAL_MATH),
            path: std::env::var_os("PATH"),
            staged: staged_files(),
        }
    }

    /// Whether precise functions are asked for.
    fn precise(&self) -> Result<bool> {
        let text = self.math.as_ref().map(|text| text.to_string_lossy());
        match text.as_deref().map(str::trim) {
            None | Some("" | "fast") => Ok(false),
            Some("precise") => Ok(true),
            Some(text) => Err(err!(
                InvalidArgument,
                "{ETMETAL_MATH}={text:?}: give precise for elementary functions that are good to \
                 one unit in the last place, or fast"
            )),
        }
    }

    /// Commands to try, with where each comes from.
    fn candidates(&self) -> Vec<(String, Vec<OsString>)> {
        let mut found = Vec::new();
        if let Some(explicit) = &self.explicit {
            found.push((ETMETAL_CLANG.to_string(), words(explicit)));
        }
        let names = (MIN_VERSION..=NEWEST_NAMED).rev().map(|v| format!("clang++-{v}"));
        for name in names.chain(["clang++".to_string()]) {
            if let Some(path) = self.on_path(OsStr::new(&name)) {
                found.push(("PATH".to_string(), vec![path.into_os_string()]));
            }
        }
        for file in &self.staged {
            if let Some(command) = staged_command(file) {
                found.push((file.display().to_string(), command));
            }
        }
        found
    }

    fn on_path(&self, program: &OsStr) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        std::env::split_paths(path).map(|dir| dir.join(program)).find(|p| p.is_file())
    }
}

/// The words of a command; one that names a file as a whole is one word.
fn words(command: &OsStr) -> Vec<OsString> {
    if Path::new(command).is_file() {
        return vec![command.to_os_string()];
    }
    let bytes = command.as_bytes().split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
    bytes.map(|w| OsStr::from_bytes(w).to_os_string()).collect()
}

/// Where a compiler may be staged: beside what contains this code, and in `../lib`.
fn staged_files() -> Vec<PathBuf> {
    let Some(own) = own_path() else { return Vec::new() };
    let Some(dir) = own.parent() else { return Vec::new() };
    let file = Path::new("etmetal/msl-compiler");
    vec![dir.join(file), dir.join("../lib").join(file)]
}

/// The shared library or program that contains this code.
fn own_path() -> Option<PathBuf> {
    // SAFETY: Dl_info is plain data, for which zeroes are valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let address = own_path as *const () as *const libc::c_void;
    // SAFETY: the address is that of a function and `info` is writable.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a NUL-terminated string that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    path.canonicalize().ok().or_else(|| std::env::current_exe().ok())
}

/// The command in a staged file. A relative program is one beside the file.
fn staged_command(file: &Path) -> Option<Vec<OsString>> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut command: Vec<OsString> =
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(OsString::from).collect();
    let beside = file.parent()?.join(command.first()?);
    if beside.is_file() {
        command[0] = beside.into_os_string();
    }
    Some(command)
}

/// What is known of a compiler that works.
struct Identified {
    version: u32,
    is_zig: bool,
    identity: Vec<u8>,
}

/// Finds out a compiler's version, from the cache if its file has not changed.
fn identify(command: &[OsString], cache: &Cache) -> Result<Identified, String> {
    let program = command.first().ok_or("the command is empty")?;
    let mut identity = match resolve(program) {
        Some(path) => {
            cache::file_identity(&path).map_err(|e| format!("{}: {e}", path.display()))?
        }
        None => return Err(format!("{} is not on PATH", program.to_string_lossy())),
    };
    for word in command {
        identity.extend_from_slice(word.as_bytes());
        identity.push(0);
    }
    let name = format!("compiler-{}", cache::key(&[&identity]));
    // The file of an interpreter or wrapper says nothing about the compiler behind it.
    let file = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let is_compiler = file.contains("clang") || file.starts_with("zig");
    let known = if is_compiler { cache.read_text(&name) } else { None };
    let text = match known {
        Some(text) => text,
        None => {
            let text = version_text(command)?;
            if is_compiler && clang_version(&text).is_some() {
                cache.write_text(&name, &text);
            }
            text
        }
    };
    let first = text.lines().next().unwrap_or_default();
    let version = clang_version(&text)
        .ok_or_else(|| format!("{} is no clang: {first:?}", program.to_string_lossy()))?;
    if version < MIN_VERSION {
        return Err(format!("{} is clang {version}", program.to_string_lossy()));
    }
    identity.extend_from_slice(text.as_bytes());
    let is_zig = command.iter().any(|w| w.to_string_lossy().contains("zig"));
    Ok(Identified { version, is_zig, identity })
}

fn resolve(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    Search { path: std::env::var_os("PATH"), ..Search::default() }.on_path(program)
}

fn version_text(command: &[OsString]) -> Result<String, String> {
    let output = Command::new(&command[0])
        .args(&command[1..])
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", command[0].to_string_lossy()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The major version in `Debian clang version 19.1.7`.
fn clang_version(text: &str) -> Option<u32> {
    let rest = text.split_once("clang version ")?.1;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What `-march=native` depends on.
fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let vendor = __cpuid(0);
        let basic = __cpuid(1);
        let (seven, seven_one) = (__cpuid_count(7, 0), __cpuid_count(7, 1));
        let extended = __cpuid(0x8000_0001);
        // ebx of leaf 1 holds the number of the core that runs this: leave it out.
        format!(
            "{vendor:x?} {:x} {:x} {:x} {seven:x?} {seven_one:x?} {:x} {:x}",
            basic.eax, basic.ecx, basic.edx, extended.ecx, extended.edx
        )
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named = |line: &&str| {
            ["Features", "CPU implementer", "CPU part", "CPU variant"]
                .iter()
                .any(|n| line.starts_with(n))
        };
        let mut lines: Vec<_> = info.lines().filter(named).collect();
        lines.sort_unstable();
        lines.dedup();
        format!("{} {} {}", std::env::consts::ARCH, std::env::consts::OS, lines.join(" "))
    }
}
