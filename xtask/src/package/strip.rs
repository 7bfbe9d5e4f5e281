//! Taking debug information out of what is shipped: it is five sixths of the bytes.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::environment::Environment;
use crate::process::Invocation;

/// The bytes of the library or program at `file` without debug information; the symbols' names
/// stay, for backtraces. Mach-O files have their debug information elsewhere and stay as they are.
///
/// # Errors
/// There is no `strip`, or it does not understand the file.
pub fn stripped(file: &Path, environment: &Environment) -> Result<Vec<u8>> {
    let context = || format!("cannot strip {}", file.display());
    let bytes = std::fs::read(file).with_context(context)?;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(bytes);
    }
    let program = program(environment)?;
    let folder = tempfile::tempdir().with_context(context)?;
    let copy = folder.path().join("copy");
    let strip = Invocation::new(program).args(["--strip-debug", "--enable-deterministic-archives"]);
    strip.arg("-o").arg(&copy).arg(file).read().with_context(context)?;
    std::fs::read(&copy).with_context(context)
}

/// The program: it comes with every C compiler.
///
/// # Errors
/// It is not there.
pub fn program(environment: &Environment) -> Result<std::path::PathBuf> {
    let found = ["strip", "llvm-strip"].into_iter().find_map(|name| environment.which(name));
    found.context("there is no `strip`, which comes with the C compiler (on Debian in binutils)")
}
