//! The C++ compiler of the glue.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::install::{Installer, Package};
use crate::environment::Environment;
use crate::preset::Sourced;

/// Names that are tried when nobody names a compiler.
pub const NAMES: [&str; 3] = ["c++", "g++", "clang++"];

/// The compiler that the preset names, else the one that `CXX` names, else the machine's.
///
/// # Errors
/// There is no such program, with who named it; or none at all, with how to install one.
pub fn find(
    environment: &Environment,
    preset: Option<&Sourced<String>>,
    installer: Installer,
) -> Result<PathBuf> {
    if let Some(named) = preset {
        return environment.which(&named.value).ok_or_else(|| {
            anyhow::anyhow!(
                "{}: `toolchain.cxx`: there is no program `{}`",
                named.origin,
                named.value
            )
        });
    }
    if let Some(named) = environment.get("CXX") {
        return environment.which(named).ok_or_else(|| {
            anyhow::anyhow!(
                "CXX={}: there is no such program (it is a name or a path, without arguments)",
                named.display()
            )
        });
    }
    match NAMES.iter().find_map(|name| environment.which(*name)) {
        Some(path) => Ok(path),
        None => bail!(
            "no C++ compiler found ({}). Install one: {}",
            NAMES.join(", "),
            installer.command(Package::Cxx)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Origin;

    #[test]
    fn the_preset_wins_over_the_environment_and_that_over_the_machine() {
        let environment = Environment::current();
        let find = |environment: &Environment, preset: Option<&str>| {
            let preset = preset.map(|value| Sourced {
                value: value.to_owned(),
                origin: Origin::CommandLine(format!("toolchain.cxx={value}")),
            });
            super::find(environment, preset.as_ref(), Installer::Apt)
        };
        let shell = environment.which("sh").unwrap();
        let with = environment.with("CXX", "sh");
        assert_eq!(find(&with, None).unwrap(), shell);
        assert_eq!(find(&with, Some("cat")).unwrap(), with.which("cat").unwrap());
        assert_eq!(
            find(&with, Some("g+++")).unwrap_err().to_string(),
            "-D toolchain.cxx=g+++: `toolchain.cxx`: there is no program `g+++`"
        );
        assert_eq!(
            find(&with.clone().with("CXX", "ccache g++"), None).unwrap_err().to_string(),
            "CXX=ccache g++: there is no such program (it is a name or a path, without arguments)"
        );
        assert_eq!(
            find(&Environment::default().with("PATH", "/nowhere"), None).unwrap_err().to_string(),
            "no C++ compiler found (c++, g++, clang++). Install one: apt-get install -y g++"
        );
    }
}
