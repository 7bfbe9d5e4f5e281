//! What releases are made for.

use anyhow::{Result, bail};

/// A platform that has packages of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// As in file names and `--target`.
    pub name: &'static str,
    /// The triple.
    pub triple: &'static str,
    /// The kind of machine that builds it natively.
    host: &'static str,
    /// The preset that builds it elsewhere, and the kinds of machines that it does so on.
    cross: Option<(&'static str, &'static [&'static str])>,
    /// What its packages are.
    pub kind: Kind,
}

/// What the packages of a target are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An archive and a wheel.
    Native,
    /// A slice of the xcframework.
    Slice,
}

/// All of them.
pub static TARGETS: &[Target] = &[
    Target {
        name: "linux-x86_64",
        triple: "x86_64-unknown-linux-gnu",
        host: "linux",
        cross: None,
        kind: Kind::Native,
    },
    Target {
        name: "linux-aarch64",
        triple: "aarch64-unknown-linux-gnu",
        host: "linux",
        cross: Some(("linux-aarch64", &["linux"])),
        kind: Kind::Native,
    },
    Target {
        name: "macos-arm64",
        triple: "aarch64-apple-darwin",
        host: "macos",
        cross: Some(("macos-cross", &["linux", "macos"])),
        kind: Kind::Native,
    },
    Target {
        name: "ios-arm64",
        triple: "aarch64-apple-ios",
        host: "macos",
        cross: Some(("ios", &["linux", "macos"])),
        kind: Kind::Slice,
    },
    Target {
        name: "ios-arm64-simulator",
        triple: "aarch64-apple-ios-sim",
        host: "macos",
        cross: Some(("ios-simulator", &["linux", "macos"])),
        kind: Kind::Slice,
    },
];

impl Target {
    /// The target of that name.
    ///
    /// # Errors
    /// There is none, with those that there are.
    pub fn named(name: &str) -> Result<&'static Self> {
        if let Some(found) = TARGETS.iter().find(|target| target.name == name) {
            return Ok(found);
        }
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        bail!("there are no packages for {name:?}; there are those for {}", names.join(", "))
    }

    /// The target of that triple.
    pub fn of_triple(triple: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.triple == triple)
    }

    /// The preset that builds it on a machine of the triple `machine`, where `native` is the one
    /// that is asked for.
    ///
    /// # Errors
    /// It cannot be built there.
    pub fn preset<'a>(&self, native: &'a str, machine: &str) -> Result<&'a str> {
        if self.triple == machine {
            return Ok(native);
        }
        // Slices for iOS have presets of their own on every machine.
        let kind = if crate::preset::platform::is_apple(machine) { "macos" } else { "linux" };
        match self.cross {
            Some((preset, machines)) if machines.contains(&kind) => Ok(preset),
            _ => bail!(
                "{} cannot be built on {machine}: there is no cross toolchain for it among the \
                 presets; run `cargo xtask package --target {}` on such a {} machine",
                self.name,
                self.name,
                self.host
            ),
        }
    }

    /// Whether it is one of Apple's.
    pub fn is_apple(&self) -> bool {
        crate::preset::platform::is_apple(self.triple)
    }

    /// The end of a shared library's name.
    pub fn library_extension(&self) -> &'static str {
        if self.is_apple() { "dylib" } else { "so" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_knows_which_preset_builds_a_target() {
        let (linux, mac) = ("x86_64-unknown-linux-gnu", "aarch64-apple-darwin");
        let preset = |name: &str, machine: &str| {
            Target::named(name).and_then(|t| t.preset("metal", machine)).map_err(|e| e.to_string())
        };
        assert_eq!(preset("linux-x86_64", linux).unwrap(), "metal");
        assert_eq!(preset("macos-arm64", mac).unwrap(), "metal");
        assert_eq!(preset("macos-arm64", linux).unwrap(), "macos-cross");
        assert_eq!(preset("ios-arm64", mac).unwrap(), "ios");
        assert_eq!(preset("linux-aarch64", linux).unwrap(), "linux-aarch64");
        assert_eq!(preset("linux-aarch64", "aarch64-unknown-linux-gnu").unwrap(), "metal");
        let error = preset("linux-aarch64", mac).unwrap_err();
        assert!(error.contains("cannot be built on aarch64-apple-darwin"), "{error}");
        let error = preset("windows", linux).unwrap_err();
        assert!(error.contains("there are those for linux-x86_64, linux-aarch64"), "{error}");
        for target in TARGETS {
            assert!(crate::audit::target::Target::parse(target.triple).is_ok());
        }
    }
}
