//! The tests of the Metal device on the stand-in for Metal. They are a build of their own:
//! `runtime/standin/README.md` says why.

pub mod faults;

use std::ffi::OsStr;
use std::path::Path;

use crate::process::Invocation;
use crate::workspace::cargo;

/// Where the stand-in runs.
pub const HOST: &str = "x86_64-unknown-linux-gnu";

/// The newest system that the device tells apart.
pub const NEW_MACOS: &str = "15.0";

/// An older one.
pub const OLD_MACOS: &str = "14.5";

/// `cargo COMMAND` for the stand-in of the sources at `root`, built in `target`. Compilers are
/// found in `path`.
pub fn cargo_for(root: &Path, target: &Path, path: &OsStr, command: &str) -> Invocation {
    cargo(root)
        .args([command, "--package", "etmetal-standin", "--target", HOST])
        .env("RUSTC_WRAPPER", root.join("runtime/standin/rustc-standin"))
        .env("RUSTFLAGS", "--cfg metal_standin")
        .env("ETMETAL_STANDIN_SOURCES", target.join("sources"))
        .env("ETMETAL_STANDIN_MACOS", NEW_MACOS)
        .env("MACOSX_DEPLOYMENT_TARGET", "14.0")
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("PATH", path)
}
