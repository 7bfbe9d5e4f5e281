//! What goes into an archive, before it is packed.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// A file; whether it can be run.
    File(Vec<u8>, bool),
    /// A symbolic link with what it names.
    Link(String),
}

impl Member {
    /// The permissions that archives note, whatever they were where the file was made.
    pub fn mode(&self) -> u32 {
        match self {
            Member::File(_, true) => 0o755,
            Member::File(_, false) => 0o644,
            Member::Link(_) => 0o777,
        }
    }

    /// The bytes of a file, or those of the name that a link has.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Member::File(bytes, _) => bytes,
            Member::Link(to) => to.as_bytes(),
        }
    }
}

/// Members by path, in the order of the paths' bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Member>);

impl Tree {
    /// Adds a file.
    pub fn file(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Member::File(bytes.into(), false));
    }

    /// Adds a program.
    pub fn program(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Member::File(bytes.into(), true));
    }

    /// Adds a member.
    pub fn add(&mut self, path: impl Into<String>, member: Member) {
        self.0.insert(path.into(), member);
    }

    /// Adds the file at `from`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn copy(&mut self, from: &Path, path: impl Into<String>) -> Result<()> {
        let member = read(from).with_context(|| format!("cannot pack {}", from.display()))?;
        self.0.insert(path.into(), member);
        Ok(())
    }

    /// Adds everything below the folder `from`, below `prefix`.
    ///
    /// # Errors
    /// Something cannot be read, or its name is no UTF-8.
    pub fn copy_all(&mut self, from: &Path, prefix: &str) -> Result<()> {
        let context = || format!("cannot read {}", from.display());
        for entry in std::fs::read_dir(from).with_context(context)? {
            let entry = entry.with_context(context)?;
            let Ok(name) = entry.file_name().into_string() else {
                bail!("{}: the name is no UTF-8", entry.path().display());
            };
            let path = join(prefix, &name);
            if entry.file_type().with_context(context)?.is_dir() {
                self.copy_all(&entry.path(), &path)?;
            } else {
                self.copy(&entry.path(), path)?;
            }
        }
        Ok(())
    }

    /// The members with their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.0.iter().map(|(path, member)| (path.as_str(), member))
    }

    /// The member at `path`.
    pub fn get(&self, path: &str) -> Option<&Member> {
        self.0.get(path)
    }

    /// Takes the member at `path` out.
    pub fn remove(&mut self, path: &str) -> Option<Member> {
        self.0.remove(path)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same tree in the folder `name`.
    #[must_use]
    pub fn within(self, name: &str) -> Self {
        Self(self.0.into_iter().map(|(path, member)| (join(name, &path), member)).collect())
    }

    /// Writes the members into the folder `root`.
    ///
    /// # Errors
    /// A path leads out of `root`, or the file system refuses.
    pub fn unpack(&self, root: &Path) -> Result<()> {
        for (path, member) in self.iter() {
            ensure!(
                is_inside(path),
                "the member {path:?} would lie outside of the archive's folder"
            );
            let to = root.join(path);
            let context = || format!("cannot write {}", to.display());
            let folder = to.parent().context("a member lies in a folder")?;
            std::fs::create_dir_all(folder).with_context(context)?;
            match member {
                Member::File(bytes, _) => {
                    std::fs::write(&to, bytes).with_context(context)?;
                    let mode = std::fs::Permissions::from_mode(member.mode());
                    std::fs::set_permissions(&to, mode).with_context(context)?;
                }
                Member::Link(name) => {
                    std::os::unix::fs::symlink(name, &to).with_context(context)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a member's path is relative and stays inside.
pub fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
}

fn read(path: &Path) -> Result<Member> {
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        let to = std::fs::read_link(path)?;
        let to = to.to_str().context("the link's name is no UTF-8")?;
        ensure!(is_inside(to), "the link names {to:?}, which is not beside it");
        return Ok(Member::Link(to.to_owned()));
    }
    ensure!(metadata.is_file(), "this is neither a file nor a link");
    let runs = metadata.permissions().mode() & 0o100 != 0;
    Ok(Member::File(std::fs::read(path)?, runs))
}
