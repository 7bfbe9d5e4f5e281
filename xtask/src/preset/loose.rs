//! A preset file that may lie anywhere.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{Folder, Source, SourceFile};

/// One preset file with what it can inherit: the files beside it, then those of the repository.
#[derive(Debug, Clone)]
pub struct Loose {
    name: String,
    path: PathBuf,
    shown: PathBuf,
    repository: Folder,
}

impl Loose {
    /// The file `path`, for a repository at `root`.
    ///
    /// # Errors
    /// It is no file, or is not called `NAME.toml`.
    pub fn new(root: &Path, path: &Path) -> Result<Self> {
        ensure!(path.is_file(), "there is no file {}", path.display());
        let path = &std::path::absolute(path)?;
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .filter(|_| path.extension().is_some_and(|end| end == "toml"));
        let name = name.with_context(|| {
            format!("{} is no preset: it is not called NAME.toml", path.display())
        })?;
        let shown = path.strip_prefix(root).unwrap_or(path).to_owned();
        let repository = Folder::new(root);
        Ok(Self { name: name.to_owned(), path: path.to_owned(), shown, repository })
    }

    /// The preset's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file as it is shown.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(format!("{name}.toml"))
    }
}

impl Source for Loose {
    fn read(&self, name: &str) -> io::Result<Option<SourceFile>> {
        if name.is_empty() || name.contains(['/', '\\', '.']) && name != self.name {
            return Ok(None);
        }
        let (path, shown) = match name == self.name {
            true => (self.path.clone(), self.shown.clone()),
            false => (self.beside(name), self.shown.with_file_name(format!("{name}.toml"))),
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(SourceFile { path: shown, text })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.repository.read(name),
            Err(e) => Err(e),
        }
    }

    fn names(&self) -> Vec<String> {
        self.repository.names()
    }
}
