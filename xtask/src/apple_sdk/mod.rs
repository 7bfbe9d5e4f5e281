//! A stand-in for Apple's SDK, to link for Apple systems on others: text stubs (`.tbd`) that we
//! write ourselves from a table of names. Nothing in it comes from Apple's files.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The table: see its first lines.
const TABLE: &str = include_str!("symbols.txt");

/// Names under which C's linker looks for parts of `libSystem`.
const SYSTEM_ALIASES: [&str; 5] = ["libSystem.B", "libc", "libm", "libpthread", "libdl"];

/// One library of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stub {
    /// Where its stub lies in the SDK.
    pub path: &'static str,
    /// The name by which programs load it.
    pub install_name: &'static str,
    /// Its symbols, with the leading underscore of C.
    pub symbols: Vec<&'static str>,
}

/// The libraries of the table.
pub fn stubs() -> Vec<Stub> {
    let mut stubs: Vec<Stub> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        if let Some((path, install_name)) =
            line.strip_prefix('[').and_then(|rest| rest.split_once("] "))
        {
            stubs.push(Stub { path, install_name, symbols: Vec::new() });
        } else if let Some(stub) = stubs.last_mut() {
            stub.symbols.extend(line.split_whitespace());
        }
    }
    stubs
}

/// The frameworks of the table, by name.
pub fn frameworks() -> Vec<&'static str> {
    stubs()
        .iter()
        .filter_map(|stub| stub.path.strip_prefix("System/Library/Frameworks/")?.split('.').next())
        .collect()
}

/// A stub as text, version 4 of the format.
pub fn tbd(stub: &Stub) -> String {
    const TARGETS: &str = "[ arm64-macos, x86_64-macos, arm64-ios, arm64-ios-simulator ]";
    let mut text = format!(
        "--- !tapi-tbd\ntbd-version: 4\ntargets: {TARGETS}\ninstall-name: '{}'\n",
        stub.install_name
    );
    if !stub.symbols.is_empty() {
        let quoted: Vec<_> = stub.symbols.iter().map(|name| format!("'{name}'")).collect();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "exports:\n  - targets: {TARGETS}\n    symbols: [ {} ]\n",
            quoted.join(",\n               ")
        );
    }
    text + "...\n"
}

/// A value that changes when what is written does.
pub fn fingerprint() -> String {
    use sha2::{Digest as _, Sha256};
    let all: String = stubs().iter().map(tbd).chain([settings()]).collect();
    Sha256::digest(all).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the whole SDK into `folder`.
///
/// # Errors
/// The folder cannot be written to.
pub fn write(folder: &Path) -> Result<()> {
    for stub in stubs() {
        let text = tbd(&stub);
        put(&folder.join(stub.path), &text)?;
        if stub.path == "usr/lib/libSystem.tbd" {
            for alias in SYSTEM_ALIASES {
                put(&folder.join(format!("usr/lib/{alias}.tbd")), &text)?;
            }
        }
        if stub.path == "usr/lib/libobjc.tbd" {
            put(&folder.join("usr/lib/libobjc.A.tbd"), &text)?;
        }
    }
    put(&folder.join("SDKSettings.json"), &settings())
}

/// What clang reads of an SDK: its version.
fn settings() -> String {
    let text = serde_json::json!({
        "CanonicalName": "macosx14.0",
        "DisplayName": "stubs of etmetal",
        "Version": "14.0",
        "MaximumDeploymentTarget": "14.99",
        "DefaultDeploymentTarget": "14.0",
    });
    format!("{text:#}\n")
}

fn put(path: &Path, text: &str) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(context)?;
    }
    std::fs::write(path, text).with_context(context)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_is_whole() {
        let stubs = stubs();
        for stub in &stubs {
            let unique: BTreeSet<_> = stub.symbols.iter().collect();
            assert_eq!(unique.len(), stub.symbols.len(), "{} repeats a symbol", stub.path);
            assert!(stub.install_name.starts_with('/'), "{}", stub.path);
        }
        for framework in
            ["Foundation", "Metal", "MetalPerformanceShaders", "MetalPerformanceShadersGraph"]
        {
            assert!(frameworks().contains(&framework), "{framework}");
        }
        let foundation = stubs.iter().find(|s| s.path.ends_with("/Foundation.tbd")).unwrap();
        assert!(foundation.install_name.ends_with("/Versions/C/Foundation"), "as on every Mac");
    }

    #[test]
    fn a_stub_is_written_as_linkers_read_it() {
        let stub =
            Stub { path: "x", install_name: "/usr/lib/libx.dylib", symbols: vec!["_a", "_b"] };
        insta::assert_snapshot!(tbd(&stub));
    }
}
