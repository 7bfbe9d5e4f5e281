//! The link audit of every library and program inside of an archive.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Options;
use crate::audit::finding::{Finding, Level};
use crate::audit::image::OsVersion;
use crate::audit::machine::Machine;
use crate::audit::target::Target;
use crate::audit::{Expectation, audit, contents};
use crate::package;
use crate::package::catalogue::Archive;
use crate::package::tree::{Member, Tree};

/// How many files were audited, and what is wrong with them.
///
/// # Errors
/// The members cannot be unpacked.
pub fn audit_tree(
    name: &str,
    tree: &Tree,
    archive: &Archive,
    options: &Options,
) -> Result<(usize, Vec<String>)> {
    let folder = tempfile::tempdir()?;
    tree.unpack(folder.path())?;
    let files: Vec<PathBuf> = tree
        .iter()
        .filter(|(_, member)| matches!(member, Member::File(..)))
        .map(|(path, _)| folder.path().join(path))
        .filter(|path| contents::is_binary(path))
        .collect();
    let target = archive.target.as_deref().map(Target::parse).transpose();
    let mut expected = Expectation {
        target: target.map_err(anyhow::Error::msg)?,
        minimum_os: archive.minimum_os.as_deref().and_then(OsVersion::parse),
        private_folders: options.private_folders.clone(),
        ..Expectation::default()
    };
    let mut faults = Vec::new();
    for file in &files {
        let inner = file.strip_prefix(folder.path()).unwrap_or(file);
        if let Some((name, oldest)) =
            slice(inner).and_then(|name| archive.slices.get_key_value(name))
        {
            let target = package::target::Target::named(name)?;
            expected.target = Some(Target::parse(target.triple).map_err(anyhow::Error::msg)?);
            expected.minimum_os = OsVersion::parse(oldest);
        }
        let report = audit(std::slice::from_ref(file), &expected, &Machine::current())?;
        for file in &report.files {
            let found = file.all_findings().filter(|(_, finding)| is_fault(finding));
            faults.extend(found.map(|(_, finding)| {
                format!("{name}: the member {}: {}", inner.display(), finding.message)
            }));
        }
    }
    Ok((files.len(), faults))
}

/// Whether a release with it is not good: it would not load, or names folders of the machine that
/// made it, by which it would be another one elsewhere.
fn is_fault(finding: &Finding) -> bool {
    let of_this_machine = finding.rule == "build-path" && finding.level == Level::Warning;
    finding.level == Level::Error || of_this_machine
}

/// The slice of an xcframework that a file lies in.
fn slice(path: &Path) -> Option<&str> {
    path.components().nth(1)?.as_os_str().to_str()
}
