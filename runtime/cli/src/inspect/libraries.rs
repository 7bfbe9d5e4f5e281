//! Whether this machine has what a model needs, told without loading anything: a program may
//! name any library, and loading one runs its code.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use etmetal::container::describe::LibraryInfo;
use object::{Object, ObjectSymbol};

/// Where libraries lie, apart from what `ld.so.conf` adds.
const FOLDERS: [&str; 5] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"];

/// What every Apple system has, in a cache and not as files.
const APPLE_SYSTEM: [&str; 2] = ["/usr/lib/", "/System/Library/"];

/// What the libraries that a model names provide.
pub struct Provided {
    /// Whether each was found; none if the model is for another machine.
    libraries: HashMap<String, bool>,
    /// The symbols that they define; `None` if not all could be read.
    symbols: Option<HashSet<String>>,
}

impl Provided {
    /// Looks for the libraries of a model.
    pub fn of(info: &LibraryInfo<'_>) -> Self {
        if !info.native {
            return Self { libraries: HashMap::new(), symbols: None };
        }
        let mut libraries = HashMap::new();
        let mut symbols = Some(HashSet::new());
        for &name in &info.libraries {
            let path = find(name);
            let found = path.is_some() || is_apple_system(name);
            libraries.insert(name.to_owned(), found);
            let read = path.and_then(|path| exports(&path));
            symbols = symbols.zip(read).map(|(mut all, more)| {
                all.extend(more);
                all
            });
        }
        Self { libraries, symbols }
    }

    /// Whether a library is here.
    pub fn library(&self, name: &str) -> Option<bool> {
        self.libraries.get(name).copied()
    }

    /// Whether somebody provides a symbol. The models' C ABI is ours alone.
    pub fn symbol(&self, name: &str) -> Option<bool> {
        if name.starts_with("aoti_") {
            return Some(etmetal::shim::symbols().contains(&name));
        }
        self.symbols.as_ref().map(|symbols| symbols.contains(name))
    }
}

fn is_apple_system(name: &str) -> bool {
    cfg!(target_vendor = "apple") && APPLE_SYSTEM.iter().any(|folder| name.starts_with(folder))
}

fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.exists());
    }
    let from_environment = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    std::env::split_paths(&from_environment)
        .chain(configured())
        .chain(FOLDERS.iter().map(PathBuf::from))
        .chain(FOLDERS.iter().map(|folder| Path::new(folder).join(&multiarch)))
        .map(|folder| folder.join(name))
        .find(|path| is_loadable(path))
}

/// Whether a file is a library of this machine's kind: those of other kinds lie beside it, and
/// the loader passes over them.
fn is_loadable(path: &Path) -> bool {
    let Ok(bytes) = crate::inputs::map(path) else { return false };
    let machine = match std::env::consts::ARCH {
        "x86_64" => object::Architecture::X86_64,
        "aarch64" => object::Architecture::Aarch64,
        _ => return false,
    };
    object::File::parse(&*bytes).is_ok_and(|file| file.architecture() == machine && file.is_64())
}

/// The folders that `ld.so.conf` names.
fn configured() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/etc/ld.so.conf.d") else { return Vec::new() };
    let files = entries.flatten().map(|entry| entry.path());
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    let lines = texts.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

/// The symbols that an ELF library defines. Those of Apple's libraries lie in a cache.
fn exports(path: &Path) -> Option<Vec<String>> {
    let bytes = crate::inputs::map(path).ok()?;
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes).ok()?;
    // Indirect functions (memcpy) are no definitions for `is_definition`.
    let defined = file.dynamic_symbols().filter(|symbol| !symbol.is_undefined());
    defined.map(|symbol| symbol.name().ok().map(str::to_owned)).collect()
}
