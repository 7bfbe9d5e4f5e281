//! `cargo xtask audit`: will these files load where they are meant to?

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::audit::image::OsVersion;
use crate::audit::machine::Machine;
use crate::audit::stage::{binaries, write};
use crate::audit::target::Target;
use crate::audit::{Expectation, Exports, Report, audit, report, sarif};
use crate::environment::Environment;
use crate::openmp::repair;
use crate::rust_build::cargo_home;
use crate::workspace::Workspace;

/// `cargo xtask audit`.
#[derive(Debug, Clone, clap::Args)]
pub struct Audit {
    /// Libraries, programs, archives, .pte files
    #[arg(required_unless_present = "stage", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Audit the programs and libraries of a stage
    #[arg(long, value_name = "FOLDER")]
    stage: Option<PathBuf>,
    /// What the files are for, as `aarch64-apple-darwin`
    #[arg(long, value_name = "TRIPLE", value_parser = Target::parse)]
    target: Option<Target>,
    /// The oldest macOS, iOS or glibc that is promised, as `14.0`
    #[arg(long, value_name = "VERSION", value_parser = version)]
    minimum_os: Option<OsVersion>,
    /// Every file has to export the C ABI of models, not only libetmetal
    #[arg(long)]
    exports: bool,
    /// A library that the process holds already, as torch's
    #[arg(long, value_name = "FILE")]
    beside: Vec<PathBuf>,
    /// The program that will load the files, for `@executable_path`
    #[arg(long, value_name = "FILE")]
    executable: Option<PathBuf>,
    /// An absolute search path that is meant
    #[arg(long, value_name = "FOLDER")]
    allow_rpath: Vec<String>,
    /// A search path to add to what --fix repairs
    #[arg(long, value_name = "FOLDER", requires = "fix")]
    add_rpath: Vec<String>,
    /// First repair what can be repaired: absolute names in Mach-O files, signatures
    #[arg(long)]
    fix: bool,
    /// Show errors and warnings only
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Write SARIF into this file besides
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write JSON into this file besides
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

fn version(text: &str) -> Result<OsVersion, String> {
    OsVersion::parse(text).ok_or_else(|| format!("{text:?} is no version, as 14.0 is one"))
}

impl Audit {
    /// Audits; true if there was no error.
    ///
    /// # Errors
    /// A repair failed, or a report cannot be written.
    pub fn run(&self) -> Result<bool> {
        let mut files = self.files.clone();
        if let Some(folder) = &self.stage {
            let found = binaries(folder)?;
            ensure!(!found.is_empty(), "there is nothing to audit in {}", folder.display());
            files.extend(found);
        }
        if self.fix {
            for file in &files {
                for done in repair::repair(file, &self.add_rpath)? {
                    eprintln!("{}: {done}", file.display());
                }
            }
        }
        let report = audit(&files, &self.expectation(), &Machine::current())?;
        self.write(&report)?;
        if self.json {
            print!("{}", report::json(&report)?);
        } else {
            print!("{}", report::table(&report, !self.quiet));
        }
        Ok(report.is_good())
    }

    fn expectation(&self) -> Expectation {
        // The folders of this machine that builds see; elsewhere there is nothing to look for.
        let environment = Environment::current();
        let workspace = Workspace::find().ok().map(|workspace| workspace.root);
        Expectation {
            target: self.target.clone(),
            minimum_os: self.minimum_os,
            exports: if self.exports { Exports::Everything } else { Exports::ByName },
            rpaths: self.allow_rpath.iter().chain(&self.add_rpath).cloned().collect(),
            private_folders: workspace.into_iter().chain(cargo_home(&environment)).collect(),
            executable: self.executable.clone(),
            beside: self.beside.clone(),
        }
    }

    fn write(&self, report: &Report) -> Result<()> {
        if let Some(path) = &self.sarif {
            write(path, &sarif::sarif(report)?)?;
        }
        if let Some(path) = &self.record {
            write(path, &report::json(report)?)?;
        }
        Ok(())
    }
}
