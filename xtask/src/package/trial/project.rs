//! Projects of users, against the archive's prefix.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::Trial;
use crate::package::crate_file;
use crate::process::Invocation;

/// What `tests/consumer` says of the model.
const SAID: &str = "forward: 1 inputs, 1 outputs\n";

fn says(trial: &Trial<'_>, program: &Path, place: &Path) -> Result<()> {
    let told = trial.bare(program, place).arg(trial.model().join("model.pte")).read()?;
    ensure!(told == SAID, "{} said {told:?} instead of {SAID:?}", program.display());
    Ok(())
}

/// `tests/consumer`, which finds the CMake package.
pub fn cmake(trial: &Trial<'_>, prefix: &Path, place: &Path) -> Result<()> {
    let build = place.join("consumer");
    let cmake = || trial.bare("cmake", place).env("PATH", trial.path());
    let sources = trial.workspace.root.join("tests/consumer");
    let configure = cmake().args(["-G", "Ninja", "-S"]).arg(sources).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())).read()?;
    cmake().arg("--build").arg(&build).read()?;
    says(trial, &build.join("consumer"), place)?;
    says(trial, &build.join("consumer-delegate"), place)
}

/// The same program, built by hand with the flags of `etmetal.pc`.
pub fn pkg_config(trial: &Trial<'_>, prefix: &Path, place: &Path) -> Result<()> {
    let folder = prefix.join("lib/pkgconfig");
    let text = std::fs::read_to_string(folder.join("etmetal.pc"))?;
    let flags = flags(&text, &folder).context("etmetal.pc lacks Cflags or Libs")?;
    let program = place.join("by-hand");
    let source = trial.workspace.root.join("tests/consumer/main.c");
    let cc = trial.bare("cc", place).arg(source).args(flags).arg("-o").arg(&program);
    cc.read()?;
    says(trial, &program, place)
}

/// The flags of a `.pc` file in `folder`, as pkg-config reads it.
fn flags(text: &str, folder: &Path) -> Option<Vec<String>> {
    let mut variables = vec![("pcfiledir".to_owned(), folder.display().to_string())];
    let expand = |variables: &[(String, String)], text: &str| {
        variables.iter().rev().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), value)
        })
    };
    let mut flags = Vec::new();
    for line in text.lines() {
        if let Some((name, value)) = line.split_once('=').filter(|(name, _)| !name.contains(':')) {
            let value = expand(&variables, value);
            variables.push((name.to_owned(), value));
        } else if let Some((_, value)) = line.split_once(": ")
            && (line.starts_with("Cflags:") || line.starts_with("Libs:"))
        {
            // A folder with a space in its name is one word: flags are split before.
            flags.extend(value.split(' ').map(|flag| expand(&variables, flag)));
        }
    }
    (flags.len() > 1).then_some(flags)
}

/// A program that depends on the crate as it would be published.
pub fn rust(trial: &Trial<'_>, prefix: &Path, place: &Path) -> Result<()> {
    let unpacked = place.join("etmetal-crate");
    crate_file::read(&crate_file::check(trial.workspace)?)?.unpack(&unpacked)?;
    let project = place.join("rust-project");
    std::fs::create_dir_all(project.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         etmetal = {{ path = {:?} }}\n\n[workspace]\n",
        unpacked.display().to_string()
    );
    std::fs::write(project.join("Cargo.toml"), manifest)?;
    std::fs::write(project.join("src/main.rs"), include_str!("user.rs"))?;
    // The versions that are tested.
    std::fs::copy(trial.workspace.root.join("Cargo.lock"), project.join("Cargo.lock"))?;
    let library = prefix.join(format!("lib/libetmetal.{}", trial.target.library_extension()));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let command = trial
        .bare(cargo, &project)
        .args(["run", "--quiet", "--target-dir"])
        .arg(trial.workspace.state().join("trial"))
        .arg("--")
        .arg(trial.model())
        .env("ETMETAL_LIB", library);
    let told = with_rustup(command).read()?;
    ensure!(told == "the outputs are right\n", "the program said {told:?}");
    Ok(())
}

/// rustup's choice of a toolchain is not this project's setting.
fn with_rustup(command: Invocation) -> Invocation {
    match std::env::var_os("CARGO_HOME") {
        Some(home) => command.env("CARGO_HOME", home),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_expanded_as_pkg_config_does() {
        let text = "prefix=${pcfiledir}/../..\nlibdir=${prefix}/lib\n\nName: x\nVersion: 1\n\
                    Cflags: -I${prefix}/include\nLibs: -L${libdir} -lx\n";
        let found = flags(text, Path::new("/a b/lib/pkgconfig")).unwrap();
        let prefix = "/a b/lib/pkgconfig/../..";
        let wanted = [format!("-I{prefix}/include"), format!("-L{prefix}/lib"), "-lx".into()];
        assert_eq!(found, wanted);
        assert_eq!(flags("Name: x\n", Path::new("/")), None);
    }
}
