//! The stage: a finished build as others use it.
//!
//! ```text
//! bin/etmetal                    the program
//! lib/libetmetal.so|dylib        the delegate
//! lib/cmake/etmetal/             for find_package(etmetal)
//! lib/etmetal/msl-compiler       what compiles shaders on the host device, one argument a line
//! include/etmetal/               C headers
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::audit::contents;
use crate::cmake::CmakeBuild;
use crate::process::{Invocation, this_program};
use crate::steps::{Action, Input, Step};
use crate::toolchain::msl::MslCompiler;

/// The programs and libraries in a stage, by name.
///
/// # Errors
/// A folder cannot be read.
pub fn binaries(stage: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["bin", "lib"].map(|name| stage.join(name)).into_iter().filter(|f| f.is_dir()) {
        let context = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(context)? {
            let path = entry.with_context(context)?.path();
            // Links name files that are here too.
            if path.is_file() && !path.is_symlink() && contents::is_binary(&path) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A stage by its folder.
#[derive(Debug, Clone)]
pub struct Stage {
    root: PathBuf,
}

impl Stage {
    /// The stage in the folder `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The program.
    pub fn program(&self) -> PathBuf {
        self.root.join("bin/etmetal")
    }

    /// The delegate.
    pub fn library(&self) -> PathBuf {
        let name = if cfg!(target_os = "macos") { "libetmetal.dylib" } else { "libetmetal.so" };
        self.root.join("lib").join(name)
    }

    /// The file that names the shader compiler.
    pub fn msl_compiler(&self) -> PathBuf {
        self.root.join("lib/etmetal/msl-compiler")
    }

    /// Audits the stage, and repairs what names places of this machine, before it is put in place:
    /// a build whose libraries will not load fails.
    fn audit(&self, build: &CmakeBuild<'_>) -> Invocation {
        let workspace = build.rust.workspace;
        let record = workspace.audit_record(&build.rust.preset.identity.name, build.triple);
        let mut audit = Invocation::new(this_program())
            .args(["audit", "--fix", "--quiet", "--target", build.triple, "--stage"])
            .arg(&self.root)
            .arg("--record")
            .arg(record);
        if let Some(oldest) = build.linkage.deployment_target {
            audit = audit.arg("--minimum-os").arg(oldest.to_string());
        }
        let meant = build.linkage.link.rpaths.iter().chain(build.linkage.rpaths);
        meant.fold(audit, |audit, rpath| audit.arg("--allow-rpath").arg(rpath))
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.root.file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        self.root.with_file_name(name)
    }

    /// Fills a new folder beside the stage and then puts it in the stage's place, so that a
    /// build that fails leaves the stage as it was.
    pub fn step(&self, build: &CmakeBuild<'_>, msl: &MslCompiler) -> Step {
        let new = Stage::new(self.beside(".new"));
        let audit = new.audit(build);
        let install = build.cmake().arg("--install").arg(build.folder()).arg("--prefix");
        Step {
            name: "Stage",
            key: format!("stage-{}-{}", build.rust.preset.identity.name, build.triple),
            inputs: vec![Input::Step(build.compile_key()), Input::Step(build.rust.key())],
            actions: vec![
                Action::Remove(new.root.clone()),
                Action::Run(install.arg(&new.root)),
                Action::MakeFolder(new.root.join("bin")),
                Action::Copy(build.rust.program(), new.program()),
                Action::MakeFolder(new.root.join("lib/etmetal")),
                Action::Write(new.msl_compiler(), msl.file_text()),
                Action::Run(audit),
                Action::Replace {
                    from: new.root,
                    to: self.root.clone(),
                    parked: self.beside(".old"),
                },
            ],
            outputs: vec![self.program(), self.library(), self.msl_compiler()],
            hint: "see the log; the previous stage, if there was one, is still in place".to_owned(),
        }
    }
}
