//! Which sources these are.

use std::path::Path;

use crate::process::Invocation;

/// What git says about a working copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The commit.
    pub commit: Option<String>,
    /// When it was made, in seconds since 1970.
    pub commit_time: Option<i64>,
    /// The files that are not as in the commit, by path.
    pub changed: Vec<String>,
}

impl Sources {
    /// Asks git; nothing where there is no git or no commit.
    pub fn of(root: &Path) -> Self {
        let git = |args: &[&str]| {
            let git = Invocation::new("git").cwd(root).env("GIT_OPTIONAL_LOCKS", "0");
            git.args(args.iter().copied()).read().ok()
        };
        let line = |args: &[&str]| git(args).map(|text| text.trim().to_owned());
        Self {
            commit: line(&["rev-parse", "--verify", "HEAD"]),
            commit_time: line(&["log", "-1", "--format=%ct"]).and_then(|text| text.parse().ok()),
            changed: git(&["status", "--porcelain", "--untracked-files=all"])
                .map(|text| text.lines().filter_map(|line| line.get(3..)).map(Into::into).collect())
                .unwrap_or_default(),
        }
    }

    /// The commit as in `git+REPOSITORY@COMMIT`, with a mark where files have changed.
    pub fn describe(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("unknown");
        let dirty = if self.changed.is_empty() { "" } else { "-dirty" };
        format!("{commit}{dirty}")
    }
}
