//! Whether a release can be tagged: versions, the changelog, the tag, the crate.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::package::sources::Sources;
use crate::package::{VERSION, crate_file, pyproject};
use crate::process::Invocation;
use crate::workspace::Workspace;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What, for people.
    pub about: &'static str,
    /// What is wrong, and what to do; nothing where it is right.
    pub fault: Option<String>,
}

/// Looks at everything.
pub fn checks(workspace: &Workspace) -> Vec<Check> {
    let root = &workspace.root;
    let check =
        |about, result: Result<()>| Check { about, fault: result.err().map(|e| format!("{e:#}")) };
    let changelog = std::fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    vec![
        check("the versions of the workspace and of the Python package", versions(root)),
        check("the section of the changelog", section(&changelog, VERSION).map(drop)),
        check("the working copy", clean(&Sources::of(root))),
        check("the tag", tag(root)),
        check("the crate's package", crate_file::check(workspace).map(drop)),
    ]
}

/// The tag of this version.
pub fn tag_name() -> String {
    format!("v{VERSION}")
}

fn versions(root: &Path) -> Result<()> {
    let python = root.join("python");
    pyproject::Project::read(&python)?;
    let path = python.join("src/etmetal/__init__.py");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let line = format!("__version__ = \"{VERSION}\"");
    anyhow::ensure!(
        text.lines().any(|found| found == line),
        "python/src/etmetal/__init__.py lacks the line `{line}`"
    );
    Ok(())
}

/// What the changelog says of a version.
///
/// # Errors
/// It says nothing, or the heading has no day.
pub fn section<'a>(changelog: &'a str, version: &str) -> Result<&'a str> {
    let heading = format!("## [{version}]");
    let start = changelog.lines().find(|line| line.starts_with(&heading)).with_context(|| {
        format!(
            "CHANGELOG.md has no section `{heading} - YYYY-MM-DD`: rename `## [Unreleased]` to it, \
             and put a new empty one above"
        )
    })?;
    let day = start[heading.len()..].strip_prefix(" - ").unwrap_or_default();
    let digits =
        |part: &str, count: usize| part.len() == count && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<_> = day.split('-').collect();
    let is_day = matches!(parts[..], [y, m, d] if digits(y, 4) && digits(m, 2) && digits(d, 2));
    anyhow::ensure!(is_day, "CHANGELOG.md: `{start}` has no day, as in `{heading} - 2026-01-31`");
    let at = changelog.find(start).unwrap_or_default() + start.len();
    let rest = &changelog[at..];
    let text = rest[..rest.find("\n## [").unwrap_or(rest.len())].trim();
    anyhow::ensure!(
        text.contains("\n- ") || text.starts_with("- "),
        "CHANGELOG.md: `{start}` is empty"
    );
    Ok(text)
}

fn clean(sources: &Sources) -> Result<()> {
    anyhow::ensure!(sources.commit.is_some(), "there is no commit: a release is one");
    let few: Vec<_> = sources.changed.iter().take(5).map(String::as_str).collect();
    let count = sources.changed.len();
    anyhow::ensure!(few.is_empty(), "{count} files are not committed: {}", few.join(", "));
    Ok(())
}

fn tag(root: &Path) -> Result<()> {
    let git = |args: &[&str]| Invocation::new("git").cwd(root).args(args.iter().copied()).read();
    let name = tag_name();
    let tags = git(&["tag", "--list", "v*"])?;
    if tags.lines().any(|tag| tag == name) {
        let of = |what: &str| git(&["rev-parse", "--verify", what]);
        let (tagged, head) = (of(&format!("{name}^{{commit}}"))?, of("HEAD")?);
        anyhow::ensure!(
            tagged == head,
            "{name} is the commit {}, this is {}: raise the version in Cargo.toml and \
             python/pyproject.toml",
            tagged.trim(),
            head.trim()
        );
        return Ok(());
    }
    let newest = tags.lines().filter_map(|tag| Some((numbers(tag.strip_prefix('v')?)?, tag))).max();
    if let Some((version, tag)) = newest {
        let own = numbers(VERSION).context("the version has three numbers")?;
        anyhow::ensure!(version < own, "{VERSION} is not newer than {tag}, which is there already");
    }
    Ok(())
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-31\n\n### Added\n\n\
                             - One.\n- Two.\n\n## [1.1.0]\n\n- Old.\n\n## [1.0.0] - 2025-01-01\n\n";

    #[test]
    fn a_section_has_a_day_and_says_something() {
        assert_eq!(section(CHANGELOG, "1.2.0").unwrap(), "### Added\n\n- One.\n- Two.");
        let error = |version: &str| section(CHANGELOG, version).unwrap_err().to_string();
        assert!(
            error("2.0.0").starts_with("CHANGELOG.md has no section `## [2.0.0] - YYYY-MM-DD`")
        );
        assert!(error("1.1.0").contains("has no day, as in `## [1.1.0] - 2026-01-31`"));
        assert_eq!(error("1.0.0"), "CHANGELOG.md: `## [1.0.0] - 2025-01-01` is empty");
    }

    #[test]
    fn the_versions_of_this_repository_are_one() {
        versions(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap();
    }

    #[test]
    fn tags_of_other_commits_and_newer_ones_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let git = Invocation::new("git").cwd(folder.path()).args(["-c", "user.name=t"]);
            git.args(["-c", "user.email=t@t"]).args(args.iter().copied()).read().unwrap()
        };
        git(&["init", "--quiet"]);
        git(&["commit", "--quiet", "--allow-empty", "-m", "one"]);
        tag(folder.path()).unwrap();
        git(&["tag", &tag_name()]);
        tag(folder.path()).unwrap();
        git(&["commit", "--quiet", "--allow-empty", "-m", "two"]);
        let error = tag(folder.path()).unwrap_err().to_string();
        assert!(error.contains("raise the version in Cargo.toml"), "{error}");
        git(&["tag", "--delete", &tag_name()]);
        git(&["tag", "v999.0.0"]);
        let error = tag(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("is not newer than v999.0.0, which is there already"), "{error}");
        std::fs::write(folder.path().join("new.txt"), "").unwrap();
        let error = clean(&Sources::of(folder.path())).unwrap_err().to_string();
        assert_eq!(error, "1 files are not committed: new.txt");
    }
}
