//! The program that compilers are started with: a compiler cache, mostly.
//!
//! It gets the environment as it is, so that sccache finds its local, Redis or GitHub backend by
//! its own variables (`SCCACHE_DIR`, `SCCACHE_REDIS_ENDPOINT`, `SCCACHE_GHA_ENABLED`, …).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::environment::Environment;
use crate::preset::Sourced;

/// The launcher that the preset names, if it names one.
///
/// # Errors
/// There is no such program.
pub fn find(
    environment: &Environment,
    preset: Option<&Sourced<String>>,
) -> Result<Option<PathBuf>> {
    let Some(named) = preset else { return Ok(None) };
    let found = environment.which(&named.value).with_context(|| {
        format!(
            "{}: `toolchain.launcher`: there is no program `{}`: install it or remove the setting",
            named.origin, named.value
        )
    })?;
    Ok(Some(found))
}

/// Whether `launcher` caches what rustc makes, as `RUSTC_WRAPPER`.
pub fn knows_rustc(launcher: &Path) -> bool {
    launcher.file_stem().is_some_and(|name| name == "sccache")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Origin;

    #[test]
    fn a_launcher_is_found_by_name_or_told_to_be_missing() {
        let environment = Environment::current();
        let named = |value: &str| Sourced {
            value: value.to_owned(),
            origin: Origin::CommandLine(format!("toolchain.launcher={value}")),
        };
        assert_eq!(find(&environment, None).unwrap(), None);
        assert_eq!(find(&environment, Some(&named("sh"))).unwrap(), environment.which("sh"));
        assert_eq!(
            find(&environment, Some(&named("scache"))).unwrap_err().to_string(),
            "-D toolchain.launcher=scache: `toolchain.launcher`: there is no program `scache`: \
             install it or remove the setting"
        );
        assert!(knows_rustc(Path::new("/bin/sccache")) && !knows_rustc(Path::new("/bin/ccache")));
    }
}
