//! The audit at the end of a build: repairs a stage and refuses one that would not load.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::image::OsVersion;
use super::machine::Machine;
use super::target::Target;
use super::{Expectation, Report, audit, contents, report};
use crate::openmp::repair;
use crate::process::quote;

/// What is audited, and what is expected of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageAudit {
    /// The stage's folder.
    pub stage: PathBuf,
    /// What it is for.
    pub target: Target,
    /// The oldest system that is promised.
    pub minimum_os: Option<OsVersion>,
    /// Absolute search paths that are meant.
    pub rpaths: Vec<String>,
    /// Folders whose names have no place in the files.
    pub private_folders: Vec<PathBuf>,
    /// Where the report is kept, as JSON.
    pub record: PathBuf,
}

impl StageAudit {
    /// Repairs and audits; errors and warnings go to `on_line`.
    ///
    /// # Errors
    /// A file cannot be repaired or would not load; the text tells every error.
    pub fn perform(&self, on_line: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        let files = binaries(&self.stage)?;
        for file in &files {
            for done in repair::repair(file, &[])? {
                on_line(&format!("{}: {done}", file.display()))?;
            }
        }
        let expected = Expectation {
            target: Some(self.target.clone()),
            minimum_os: self.minimum_os,
            rpaths: self.rpaths.clone(),
            private_folders: self.private_folders.clone(),
            ..Expectation::default()
        };
        let found = audit(&files, &expected, &Machine::current())?;
        write(&self.record, &report::json(&found)?)?;
        let table = report::table(&found, false);
        table.lines().try_for_each(on_line)?;
        self.verdict(&found, &table)
    }

    fn verdict(&self, found: &Report, table: &str) -> Result<()> {
        if found.is_good() {
            return Ok(());
        }
        bail!("what was built would not load (`{self}` tells more):\n{}", table.trim_end())
    }
}

impl fmt::Display for StageAudit {
    /// The same as a command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cargo xtask audit --fix --quiet --target {}", self.target.triple)?;
        if let Some(oldest) = self.minimum_os {
            write!(f, " --minimum-os {oldest}")?;
        }
        for rpath in &self.rpaths {
            write!(f, " --allow-rpath {}", quote(rpath.as_ref()))?;
        }
        let path = |path: &Path| quote(path.as_os_str());
        write!(f, " --stage {} --record {}", path(&self.stage), path(&self.record))
    }
}

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

/// Writes a report, with the folders that it needs.
///
/// # Errors
/// The file system refuses.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(context)?;
    }
    std::fs::write(path, text).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, MAC};

    fn of(lab: &Lab) -> StageAudit {
        StageAudit {
            stage: lab.at("stage"),
            target: Target::parse("aarch64-apple-darwin").unwrap(),
            minimum_os: OsVersion::parse("14.0"),
            rpaths: vec!["/opt/a b".into()],
            private_folders: Vec::new(),
            record: lab.at("record/audit.json"),
        }
    }

    #[test]
    fn a_stage_is_repaired_or_refused_and_the_report_kept() {
        let lab = Lab::new();
        let name = "-Wl,-install_name,/opt/o/libomp.dylib";
        lab.apple(MAC, "stage/lib/libomp.dylib", "int x;", &["-dynamiclib", name]);
        std::fs::write(lab.at("stage/lib/notes.txt"), "no library").unwrap();
        let mut lines = Vec::new();
        let audit = of(&lab);
        let mut on_line = |line: &str| {
            lines.push(line.to_owned());
            Ok(())
        };
        audit.perform(&mut on_line).unwrap();
        assert!(lines[0].ends_with("it is called @rpath/libomp.dylib"), "{lines:?}");
        let record = || std::fs::read_to_string(&audit.record).unwrap();
        assert!(record().contains("\"ok\": true"));
        insta::assert_snapshot!(lab.shown(&audit.to_string()), @"cargo xtask audit --fix --quiet --target aarch64-apple-darwin --minimum-os 14.0 --allow-rpath '/opt/a b' --stage LAB/stage --record LAB/record/audit.json");

        lab.apple("x86_64-apple-macos14.0", "stage/bin/program", "int main() {}", &[]);
        let error = audit.perform(&mut |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("Mach-O x86_64, but aarch64-apple-darwin needs"), "{error}");
        assert!(record().contains("\"ok\": false"));
    }
}
