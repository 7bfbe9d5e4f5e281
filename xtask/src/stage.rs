//! The stage: a finished build as others use it.
//!
//! ```text
//! bin/etmetal                    the program
//! lib/libetmetal.so|dylib        the delegate
//! lib/libetmetal.a               the same for applications to link (Apple systems)
//! lib/cmake/etmetal/             for find_package(etmetal)
//! lib/etmetal/msl-compiler       what compiles shaders on the host device, one argument a line
//! include/etmetal/               C headers
//! ```

use std::path::{Path, PathBuf};

use crate::audit::stage::StageAudit;
use crate::cmake::CmakeBuild;
use crate::rust_build::cargo_home;
use crate::steps::{Action, Input, Step};
use crate::toolchain::msl::MslCompiler;

/// A stage by its folder.
#[derive(Debug, Clone)]
pub struct Stage {
    root: PathBuf,
}

impl Stage {
    /// The stage in the folder `root`, which is called by the triple that it is for.
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
        let folder = self.root.file_name().unwrap_or_default().to_string_lossy();
        let is_apple = crate::preset::platform::is_apple(&folder);
        let name = if is_apple { "libetmetal.dylib" } else { "libetmetal.so" };
        self.root.join("lib").join(name)
    }

    /// The delegate as a static library, where there is one: see [`CmakeBuild::has_archive`].
    pub fn archive(&self) -> PathBuf {
        self.root.join("lib/libetmetal.a")
    }

    /// The file that names the shader compiler.
    pub fn msl_compiler(&self) -> PathBuf {
        self.root.join("lib/etmetal/msl-compiler")
    }

    /// What is expected of the stage before it is put in place.
    fn audit(&self, build: &CmakeBuild<'_>) -> StageAudit {
        let (rust, linkage) = (build.rust, build.linkage);
        let name = &rust.preset.identity.name;
        StageAudit {
            stage: self.root.clone(),
            target: linkage.target.clone(),
            minimum_os: linkage.deployment_target,
            rpaths: linkage.link.rpaths.iter().chain(linkage.rpaths).cloned().collect(),
            private_folders: [Some(rust.workspace.root.clone()), cargo_home(rust.environment)]
                .into_iter()
                .flatten()
                .collect(),
            record: rust.workspace.audit_record(name, &linkage.target.triple),
        }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.root.file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        self.root.with_file_name(name)
    }

    /// Puts the stage into `prefix`.
    pub fn install_step(&self, build: &CmakeBuild<'_>, prefix: &Path) -> Step {
        Step {
            name: "Installation",
            key: build.key("install"),
            inputs: vec![Input::Step(build.key("stage"))],
            actions: vec![Action::Install(self.root.clone(), prefix.to_owned())],
            outputs: vec![prefix.join(crate::steps::install::LIST).into()],
            hint: format!("check that {} may be written", prefix.display()),
        }
    }

    /// Fills a new folder beside the stage and then puts it in the stage's place, so that a
    /// build that fails leaves the stage as it was.
    ///
    /// `msl` is what compiles shaders on this machine; nothing in what is for another one. The
    /// stage of a build of ExecuTorch without this project's delegate holds what ExecuTorch
    /// installs.
    pub fn step(&self, build: &CmakeBuild<'_>, msl: Option<&MslCompiler>) -> Step {
        let new = Stage::new(self.beside(".new"));
        let audit = new.audit(build);
        let mut install = build.cmake().arg("--install").arg(build.folder());
        if build.rust.preset.package.strip {
            install = install.arg("--strip");
        }
        let install = install.arg("--prefix");
        let mut inputs = vec![Input::Step(build.compile_key())];
        let mut actions =
            vec![Action::Remove(new.root.clone()), Action::Run(install.arg(&new.root))];
        let mut outputs = vec![self.root.clone()];
        if build.has_etmetal() {
            inputs.push(Input::Step(build.rust.key()));
            outputs.clear();
        }
        if build.has_etmetal() && build.rust.has_program() {
            actions.push(Action::MakeFolder(new.root.join("bin")));
            actions.push(Action::Copy(build.rust.program(), new.program()));
            outputs.push(self.program());
        }
        if build.has_etmetal() && build.has_shared() {
            outputs.push(self.library());
        }
        if build.has_archive() {
            actions.push(Action::MakeFolder(new.root.join("lib")));
            actions.push(Action::Run(build.merge_archives(&new.archive())));
            outputs.push(self.archive());
        }
        if let Some(msl) = msl {
            actions.push(Action::MakeFolder(new.root.join("lib/etmetal")));
            actions.push(Action::Write(new.msl_compiler(), msl.file_text()));
            outputs.push(self.msl_compiler());
        }
        actions.push(Action::Audit(audit));
        actions.push(Action::Replace {
            from: new.root,
            to: self.root.clone(),
            parked: self.beside(".old"),
        });
        Step {
            name: "Stage",
            key: build.key("stage"),
            inputs,
            actions,
            outputs: outputs.into_iter().map(Into::into).collect(),
            hint: "see the log; the previous stage, if there was one, is still in place".to_owned(),
        }
    }
}
