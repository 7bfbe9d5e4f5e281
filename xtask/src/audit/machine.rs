//! The machine that the audit runs on: which files can be loaded here, and where its loader looks.

use std::path::{Path, PathBuf};

use super::image::{Format, Image};

/// Prefixes of the libraries that belong to Apple's systems. They lie in a cache and not on disk.
const APPLE_SYSTEM: [&str; 2] = ["/usr/lib/", "/System/"];

/// Libraries that every Linux system has: glibc's and the compilers' run times.
const LINUX_SYSTEM: [&str; 10] = [
    "libc.so.",
    "libm.so.",
    "libdl.so.",
    "libpthread.so.",
    "librt.so.",
    "libutil.so.",
    "ld-linux",
    "libgcc_s.so.",
    "libstdc++.so.",
    "linux-vdso.so.",
];

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// What its loader takes.
    pub format: Format,
    /// Its processor, as [`Image::architecture`] names it.
    pub architecture: String,
    /// The folders in which its loader looks last.
    pub folders: Vec<PathBuf>,
}

impl Machine {
    /// This one.
    pub fn current() -> Self {
        let mac = cfg!(target_os = "macos");
        let architecture = match std::env::consts::ARCH {
            "aarch64" if mac => "arm64",
            other => other,
        };
        let folders = if mac { Vec::new() } else { linux_folders(Path::new("/"), architecture) };
        let format = if mac { Format::MachO } else { Format::Elf };
        Self { format, architecture: architecture.to_owned(), folders }
    }

    /// Whether `image` can be loaded here.
    pub fn loads(&self, image: &Image) -> bool {
        self.format == image.format && self.architecture == image.architecture
    }

    /// In words, for a message.
    pub fn shown(&self) -> String {
        let system = if self.format == Format::Elf { "Linux" } else { "macOS" };
        format!("{} {system}", self.architecture)
    }
}

/// Whether a library belongs to the system on every machine of its kind.
pub fn is_system(format: Format, name: &str) -> bool {
    match format {
        Format::MachO => APPLE_SYSTEM.iter().any(|prefix| name.starts_with(prefix)),
        Format::Elf => {
            let file = name.rsplit('/').next().unwrap_or(name);
            LINUX_SYSTEM.iter().any(|prefix| file.starts_with(prefix))
        }
    }
}

/// The folders of `/etc/ld.so.conf`, then the loader's own.
fn linux_folders(root: &Path, architecture: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    read_configuration(root, &root.join("etc/ld.so.conf"), &mut folders, 0);
    let multiarch = format!("{architecture}-linux-gnu");
    for folder in ["lib", "usr/lib", "lib64", "usr/lib64"] {
        folders.push(root.join(folder).join(&multiarch));
        folders.push(root.join(folder));
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// One folder a line; `include PATTERN` names further files, with `*` in the last part only.
fn read_configuration(root: &Path, file: &Path, folders: &mut Vec<PathBuf>, depth: usize) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(pattern) = line.strip_prefix("include").map(str::trim) {
            // Files that include each other would never end.
            if depth < 4 {
                for included in matching(root, pattern) {
                    read_configuration(root, &included, folders, depth + 1);
                }
            }
        } else if let Some(folder) = line.strip_prefix('/') {
            folders.push(root.join(folder));
        }
    }
}

fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = root.join(pattern.trim_start_matches('/'));
    let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((before, after)) = name.split_once('*') else { return vec![pattern] };
    let Some(entries) = pattern.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.len() >= before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
        })
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_configuration_is_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in ["etc/ld.so.conf.d", "opt/a", "opt/b", "lib/x86_64-linux-gnu"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("etc/ld.so.conf"), "include /etc/ld.so.conf.d/*.conf\n").unwrap();
        std::fs::write(at("etc/ld.so.conf.d/a.conf"), "# a\n/opt/a\n/opt/gone\n").unwrap();
        let circle = "include /etc/ld.so.conf\n/opt/b # b\n";
        std::fs::write(at("etc/ld.so.conf.d/b.conf"), circle).unwrap();
        let folders = linux_folders(root.path(), "x86_64");
        for wanted in ["opt/a", "opt/b", "lib/x86_64-linux-gnu", "lib"] {
            assert!(folders.contains(&at(wanted)), "{wanted} is not in {folders:?}");
        }
        assert!(!folders.contains(&at("opt/gone")));
    }

    #[test]
    fn system_libraries_are_known_by_name() {
        assert!(is_system(Format::MachO, "/System/Library/Frameworks/Metal.framework/Metal"));
        assert!(!is_system(Format::MachO, "/usr/local/lib/libomp.dylib"));
        assert!(is_system(Format::Elf, "libstdc++.so.6"));
        assert!(!is_system(Format::Elf, "libgomp.so.1"));
    }
}
