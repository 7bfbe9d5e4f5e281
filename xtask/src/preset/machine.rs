//! The machine that this program runs on, without asking any tool.

use anyhow::{Result, bail};

/// What presets call this kind of machine.
///
/// # Errors
/// It is one that etmetal is not built on.
pub fn host() -> Result<&'static str> {
    match std::env::consts::OS {
        "linux" => Ok("linux"),
        "macos" => Ok("macos"),
        other => bail!("etmetal builds on Linux and macOS, not on {other}"),
    }
}

/// Its triple.
pub fn triple() -> String {
    triple_of(std::env::consts::ARCH, std::env::consts::OS, cfg!(target_env = "musl"))
}

fn triple_of(architecture: &str, system: &str, musl: bool) -> String {
    match system {
        "macos" => format!("{architecture}-apple-darwin"),
        _ => format!("{architecture}-unknown-linux-{}", if musl { "musl" } else { "gnu" }),
    }
}

/// The triple of a machine that a preset is looked at for without being on it.
pub fn usual_triple(host: &str) -> &'static str {
    match host {
        "macos" => "aarch64-apple-darwin",
        _ => "x86_64-unknown-linux-gnu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::Memory;
    use crate::toolchain::rust::Rust;
    use crate::workspace::Workspace;

    #[test]
    fn the_triple_is_the_compilers() {
        let root = Workspace::root().unwrap();
        let workspace = Workspace { target: root.join("target"), root };
        let rust = Rust::find(&workspace, &Memory::default()).unwrap();
        assert_eq!(triple(), rust.host);
        assert_eq!(host().unwrap(), rust.preset_host().unwrap());
        assert_eq!(triple_of("aarch64", "macos", false), "aarch64-apple-darwin");
    }
}
