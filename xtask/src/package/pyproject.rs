//! What `python/pyproject.toml` says about the Python package, as wheels and sdists tell it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::VERSION;

/// The files with this project's licences, at the root of the repository.
pub const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The licences of what is inside, beside them.
pub const THIRD_PARTY: &str = "THIRD-PARTY.txt";

#[derive(Deserialize)]
struct File {
    project: Project,
}

/// `[project]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Project {
    /// The package's name.
    pub name: String,
    /// Its version.
    pub version: String,
    description: String,
    readme: String,
    requires_python: String,
    license: String,
    /// What it needs.
    pub dependencies: Vec<String>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, Vec<String>>,
}

impl Project {
    /// Reads the file in the folder `python`.
    ///
    /// # Errors
    /// It is not there, says something that is not known here, or has another version.
    pub fn read(python: &Path) -> Result<Self> {
        let path = python.join("pyproject.toml");
        let context = || format!("cannot read {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(context)?;
        let file: File = toml::from_str(&text).with_context(context)?;
        let version = &file.project.version;
        ensure!(
            version == VERSION,
            "{}: the version is {version}, that of the workspace {VERSION}",
            path.display()
        );
        Ok(file.project)
    }

    /// The core metadata (version 2.4), with the text of the readme in the folder `python`;
    /// `licences` are the licence files that the package brings.
    ///
    /// # Errors
    /// The readme cannot be read.
    pub fn metadata(&self, python: &Path, licences: &[&str]) -> Result<String> {
        let path = python.join(&self.readme);
        let readme = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let mut out = format!(
            "Metadata-Version: 2.4\nName: {}\nVersion: {}\nSummary: {}\nLicense-Expression: {}\n",
            self.name, self.version, self.description, self.license
        );
        licences.iter().for_each(|name| out += &format!("License-File: {name}\n"));
        out += &format!("Requires-Python: {}\n", self.requires_python);
        for needed in &self.dependencies {
            out += &format!("Requires-Dist: {needed}\n");
        }
        for (extra, dependencies) in &self.optional_dependencies {
            out += &format!("Provides-Extra: {extra}\n");
            for needed in dependencies {
                out += &format!("Requires-Dist: {}\n", of_extra(needed, extra));
            }
        }
        out += &format!("Description-Content-Type: text/markdown\n\n{readme}");
        Ok(out)
    }
}

/// The requirement, for those who ask for the extra.
fn of_extra(requirement: &str, extra: &str) -> String {
    match requirement.split_once(';') {
        Some((what, marker)) => {
            format!("{}; ({}) and extra == '{extra}'", what.trim(), marker.trim())
        }
        None => format!("{requirement}; extra == '{extra}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_are_those_of_the_real_project() {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("python");
        let project = Project::read(&python).unwrap();
        let text = project.metadata(&python, &["LICENSE-MIT"]).unwrap();
        let (head, body) = text.split_once("\n\n").unwrap();
        assert!(head.starts_with("Metadata-Version: 2.4\nName: etmetal\nVersion: "), "{head}");
        for line in [
            "License-Expression: MIT OR Apache-2.0",
            "License-File: LICENSE-MIT",
            "Requires-Python: >=3.10",
            "Requires-Dist: numpy>=2",
            "Provides-Extra: export",
        ] {
            assert!(head.lines().any(|found| found == line), "{line}: {head}");
        }
        assert!(body.starts_with('#'), "{body}");
        assert_eq!(of_extra("a>=1", "x"), "a>=1; extra == 'x'");
        assert_eq!(
            of_extra("a==1; sys_platform == 'linux'", "x"),
            "a==1; (sys_platform == 'linux') and extra == 'x'"
        );
    }

    #[test]
    fn another_version_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[project]\nname = \"e\"\nversion = \"9.9.9\"\ndescription = \"\"\nreadme = \"\"\n\
                    requires-python = \"\"\nlicense = \"\"\ndependencies = []\n";
        std::fs::write(folder.path().join("pyproject.toml"), text).unwrap();
        let error = Project::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("the version is 9.9.9, that of the workspace"), "{error}");
    }
}
