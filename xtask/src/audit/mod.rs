//! The link audit: will a file load where it is meant to, and will it load only what it should?
//!
//! [`contents`] reads a file into [`image`]s (ELF, Mach-O thin and fat, archives, models inside a
//! `.pte`), [`resolve`] finds what each would load, [`rules`] judge, [`report`] and [`sarif`]
//! tell. Damaged files give a finding.

pub mod contents;
mod elf;
pub mod finding;
pub mod image;
pub mod machine;
mod macho;
mod pte;
pub mod report;
pub mod resolve;
pub mod rules;
pub mod sarif;
pub mod shim;
pub mod signature;
pub mod stage;
pub mod target;

use std::path::{Path, PathBuf};

use anyhow::Result;

use contents::{Contents, Piece};
use finding::{Finding, Level};
use image::OsVersion;
use machine::Machine;
use resolve::{Closure, Resolver};
use rules::{RULES, Subject};
use target::Target;

/// Which files must export what libetmetal exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exports {
    /// The one that is libetmetal by its name.
    #[default]
    ByName,
    /// All of them: programs with the backend inside, for example.
    Everything,
}

/// What is expected of the files.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// What they are for; nothing is checked where it is not said.
    pub target: Option<Target>,
    /// The oldest system that is promised.
    pub minimum_os: Option<OsVersion>,
    /// What they export.
    pub exports: Exports,
    /// Search paths that are meant though they are absolute.
    pub rpaths: Vec<String>,
    /// Folders whose names have no place in the files.
    pub private_folders: Vec<PathBuf>,
    /// The program that will load them, for `@executable_path`.
    pub executable: Option<PathBuf>,
    /// Libraries that the process holds already.
    pub beside: Vec<PathBuf>,
}

/// What was found in one image.
#[derive(Debug)]
pub struct PieceReport {
    /// What tells it from the others of its file.
    pub label: Option<String>,
    /// What it says about itself.
    pub image: image::Image,
    /// What it would load.
    pub closure: Closure,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// What was found in one file.
#[derive(Debug)]
pub struct FileReport {
    /// The file, as it was named.
    pub path: PathBuf,
    /// What was found in the container, or in reading it.
    pub findings: Vec<Finding>,
    /// Its images.
    pub pieces: Vec<PieceReport>,
}

impl FileReport {
    /// Everything that was found, with the label of its image.
    pub fn all_findings(&self) -> impl Iterator<Item = (Option<&str>, &Finding)> {
        let own = self.findings.iter().map(|finding| (None, finding));
        own.chain(self.pieces.iter().flat_map(|piece| {
            piece.findings.iter().map(move |finding| (piece.label.as_deref(), finding))
        }))
    }
}

/// What was found in all files.
#[derive(Debug)]
pub struct Report {
    /// File by file.
    pub files: Vec<FileReport>,
}

impl Report {
    /// How many findings there are of a level.
    pub fn count(&self, level: Level) -> usize {
        let findings = self.files.iter().flat_map(FileReport::all_findings);
        findings.filter(|(_, finding)| finding.level == level).count()
    }

    /// Whether nothing is wrong enough to fail.
    pub fn is_good(&self) -> bool {
        self.count(Level::Error) == 0
    }
}

/// Audits files, for the loader of `machine`.
///
/// # Errors
/// A library of [`Expectation::beside`] cannot be read. A file that cannot be read is a finding.
pub fn audit(files: &[PathBuf], expected: &Expectation, machine: &Machine) -> Result<Report> {
    let mut resolver = Resolver::new(machine, expected.executable.as_deref());
    let mut beside = Vec::new();
    for path in &expected.beside {
        let bytes = read_file(path)?;
        for piece in Contents::read(&bytes)?.pieces {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            let closure = resolver.closure(&path, &piece);
            beside.push((path.display().to_string(), closure));
        }
    }
    let mut report = Report { files: Vec::new() };
    for path in files {
        let damaged = |error: anyhow::Error| FileReport {
            path: path.clone(),
            findings: vec![Finding::error(
                "damaged",
                format!("{error:#}"),
                "name a library, a program, an archive or a .pte; copy or build it again",
            )],
            pieces: Vec::new(),
        };
        let bytes = match read_file(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                report.files.push(damaged(error));
                continue;
            }
        };
        report.files.push(match Contents::read(&bytes) {
            Err(error) => damaged(error),
            Ok(contents) => FileReport {
                path: path.clone(),
                findings: contents.findings,
                pieces: contents
                    .pieces
                    .iter()
                    .map(|piece| judge(path, piece, &beside, expected, machine, &mut resolver))
                    .collect(),
            },
        });
    }
    Ok(report)
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    use anyhow::Context as _;
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn judge(
    path: &Path,
    piece: &Piece<'_>,
    beside: &[(String, Closure)],
    expected: &Expectation,
    machine: &Machine,
    resolver: &mut Resolver<'_>,
) -> PieceReport {
    let closure = resolver.closure(path, piece);
    let subject = Subject { path, piece, closure: &closure, beside, expected, machine, resolver };
    let findings = RULES.iter().flat_map(|rule| (rule.check)(&subject)).collect();
    PieceReport { label: piece.label.clone(), image: piece.image.clone(), closure, findings }
}

/// Audits bytes as if they were a file's: nothing of this machine but its loader's folders is
/// looked at. For fuzzing.
pub fn audit_bytes(bytes: &[u8]) -> Result<usize> {
    let machine = Machine { folders: Vec::new(), ..Machine::current() };
    let contents = Contents::read(bytes)?;
    let path = Path::new("/nowhere/file");
    let expected = Expectation::default();
    let mut resolver = Resolver::new(&machine, None);
    let reports = contents
        .pieces
        .iter()
        .map(|piece| judge(path, piece, &[], &expected, &machine, &mut resolver).findings.len());
    Ok(reports.sum::<usize>() + contents.findings.len())
}

#[cfg(test)]
mod tests;
