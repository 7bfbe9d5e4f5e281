//! Reading a release back: every byte of it against what it says about itself.
//!
//! `integrity` compares hashes and names what is damaged, `contents` looks into the archives,
//! `linkage` audits the libraries and programs inside, `documents` reads the bill of materials
//! and the provenance.

mod contents;
mod documents;
mod integrity;
mod linkage;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::catalogue::{self, Catalogue};
use super::epoch::Epoch;
use super::sums::{self, Sums};
use super::{provenance, sbom, sign};
use crate::environment::Environment;

/// What was looked at, and what was wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What was found to be right, a line each.
    pub good: Vec<String>,
    /// What was not, a line each.
    pub faults: Vec<String>,
}

impl Verdict {
    fn add(&mut self, what: String, faults: Vec<String>) {
        if faults.is_empty() {
            self.good.push(what);
        }
        self.faults.extend(faults);
    }
}

/// A release on disk.
#[derive(Debug)]
pub struct Release {
    folder: PathBuf,
    sums: Sums,
}

impl Release {
    /// The release in `folder`.
    ///
    /// # Errors
    /// There is no SHA256SUMS, or it is damaged.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(sums::NAME);
        let bytes = std::fs::read(&path).with_context(|| {
            format!("cannot read {}: download it from where the package came from", path.display())
        })?;
        Ok(Self { folder: folder.to_owned(), sums: Sums::parse(&bytes)? })
    }

    /// The bytes of one of its files.
    ///
    /// # Errors
    /// It is not there.
    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.folder.join(name);
        std::fs::read(&path)
            .with_context(|| format!("cannot read {}, which {} names", path.display(), sums::NAME))
    }

    /// The files that tell about the others.
    fn companions() -> [String; 3] {
        [catalogue::name(), sbom::name(), provenance::name()]
    }
}

/// What to verify with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The public key of who signed, in a file.
    pub key: Option<PathBuf>,
    /// Folders whose names have no place in libraries and programs.
    pub private_folders: Vec<PathBuf>,
}

/// Verifies a file of a release, or all of them: `path` is the file, its SHA256SUMS or the folder.
///
/// # Errors
/// There is nothing to verify with; what is damaged is told in the verdict.
pub fn verify(path: &Path, options: &Options, environment: &Environment) -> Result<Verdict> {
    let is_all = path.is_dir() || path.file_name().is_some_and(|name| name == sums::NAME);
    let folder = match path.is_dir() {
        true => path.to_owned(),
        false => std::path::absolute(path)?.parent().context("a file lies in a folder")?.to_owned(),
    };
    let release = Release::open(&folder)?;
    let names: Vec<_> = match is_all {
        true => release.sums.0.keys().cloned().collect(),
        false => vec![path.file_name().unwrap_or_default().to_string_lossy().into_owned()],
    };
    for name in &names {
        let known = release.sums.0.contains_key(name);
        ensure!(known, "{}: SHA256SUMS beside it does not name it", folder.join(name).display());
    }
    let mut verdict = Verdict::default();
    if let Some(key) = &options.key {
        let signed = sign::check(&folder.join(sums::NAME), key, environment);
        let fault = signed.err().map(|error| format!("{error:#}"));
        verdict.add("the signature of SHA256SUMS".into(), fault.into_iter().collect());
    }
    let Some(catalogue) = companions(&release, &mut verdict)? else { return Ok(verdict) };
    for name in names {
        one(&release, &name, &catalogue, options, &mut verdict)?;
    }
    Ok(verdict)
}

/// The files that tell about the others; the catalogue, where it can be relied on.
fn companions(release: &Release, verdict: &mut Verdict) -> Result<Option<Catalogue>> {
    for name in Release::companions() {
        let bytes = release.read(&name)?;
        verdict.add(format!("{name}: its SHA-256"), integrity::whole(release, &name, &bytes));
    }
    let bytes = release.read(&provenance::name())?;
    let faults = documents::provenance(&bytes, release);
    verdict.add(format!("{}: its files and their hashes", provenance::name()), faults);
    let faults = documents::bill(&release.read(&sbom::name())?);
    verdict.add(format!("{}: its references", sbom::name()), faults);
    let whole = integrity::whole(release, &catalogue::name(), &release.read(&catalogue::name())?);
    match whole.is_empty() {
        true => Ok(Some(Catalogue::parse(&release.read(&catalogue::name())?)?)),
        false => Ok(None),
    }
}

fn one(
    release: &Release,
    name: &str,
    catalogue: &Catalogue,
    options: &Options,
    verdict: &mut Verdict,
) -> Result<()> {
    if Release::companions().iter().any(|companion| companion == name) {
        return Ok(());
    }
    let bytes = release.read(name)?;
    let Some(archive) = catalogue.archives.get(name) else {
        verdict.add(format!("{name}: its SHA-256"), integrity::whole(release, name, &bytes));
        return Ok(());
    };
    let faults = integrity::parts(release, name, &bytes, archive);
    let is_whole = faults.is_empty();
    verdict.add(format!("{name}: {} ranges of bytes", archive.parts.len()), faults);
    if !is_whole {
        return Ok(());
    }
    let epoch = Epoch::parse(&catalogue.epoch.to_string())
        .with_context(|| format!("{}: the time is none", catalogue::name()))?;
    match contents::tree(name, &bytes, archive, epoch) {
        Err(fault) => verdict.faults.push(format!("{name}: {fault:#}")),
        Ok(tree) => {
            verdict.good.push(format!("{name}: {} members", tree.len()));
            if name.ends_with(".whl") {
                verdict.add(format!("{name}: RECORD and tags"), contents::wheel(name, &tree));
            }
            let (count, faults) = linkage::audit_tree(name, &tree, archive, options)?;
            verdict.add(format!("{name}: the linkage of {count} files"), faults);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
