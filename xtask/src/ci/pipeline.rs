//! `ci/pipeline.toml`: what is checked where.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::axis::Axis;
use super::event::Event;
use super::matrix::Matrix;

/// Where the file is, from the repository's root.
pub const FILE: &str = "ci/pipeline.toml";

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// `[action.NAME]`: the actions that workflows use, pinned.
    pub action: BTreeMap<String, Action>,
    /// `[runner.NAME]`: pools of machines.
    pub runner: BTreeMap<String, Pool>,
    /// `[paths]`: what holds for all jobs.
    pub paths: SharedPaths,
    /// `[[job]]`, in order.
    #[serde(default)]
    pub job: Vec<Job>,
}

/// An action, pinned by the hash of a commit.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The repository, as `actions/checkout`.
    pub uses: String,
    /// 40 hexadecimal digits.
    pub commit: String,
    /// The release that the commit is, for people.
    pub version: String,
}

/// A pool of like machines.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pool {
    /// GitHub's labels, the most wanted first.
    #[serde(default)]
    pub github: Vec<String>,
    /// GitLab's tags, the most wanted first.
    #[serde(default)]
    pub gitlab: Vec<String>,
    /// What a minute costs, as a multiple of a minute of the cheapest machine.
    #[serde(default = "one")]
    pub weight: f64,
    /// The job that is run elsewhere when no machine of the pool can be had.
    pub stand_in: Option<String>,
}

/// Which changes matter to all jobs, or to none. Globs over paths from the repository's root.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedPaths {
    /// A change here starts every job.
    #[serde(default)]
    pub everything: Vec<String>,
    /// A change here starts no job.
    #[serde(default)]
    pub nothing: Vec<String>,
}

/// One kind of job; its matrix makes jobs of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Job {
    /// Its name: lower-case letters, digits and dashes.
    pub name: String,
    /// What it is for, in a line.
    pub about: String,
    /// What starts it. None: it only stands in for others.
    #[serde(default)]
    pub events: BTreeSet<Event>,
    /// The jobs that must not have failed before.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whether a failure is a failure of the whole.
    #[serde(default = "yes")]
    pub required: bool,
    /// Minutes after which it is ended.
    pub timeout: u32,
    /// Minutes that it is expected to take; its cost is this times the runner's weight.
    pub minutes: f64,
    /// What it depends on. Nothing given: any change starts it.
    #[serde(default)]
    pub paths: JobPaths,
    /// Its axes, include and exclude.
    pub matrix: MatrixTable,
    /// What differs for some combinations, the later over the earlier.
    #[serde(default)]
    pub rule: Vec<Rule>,
    /// What it does.
    pub steps: Vec<Step>,
    /// A folder or file that is kept.
    pub artifacts: Option<String>,
    /// Whether it is in GitLab's pipeline.
    #[serde(default = "yes")]
    pub gitlab: bool,
}

/// What a job depends on.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobPaths {
    /// Packages of the workspace; what they depend on counts too.
    #[serde(default)]
    pub crates: Vec<String>,
    /// Presets beside those of the axis `preset`; what they inherit counts too.
    #[serde(default)]
    pub presets: Vec<String>,
    /// Globs over paths from the repository's root.
    #[serde(default)]
    pub files: Vec<String>,
}

impl JobPaths {
    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        self.crates.is_empty() && self.presets.is_empty() && self.files.is_empty()
    }
}

/// A step: a line or more for bash.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What people see.
    pub name: String,
    /// What bash runs, from the repository's root. The combination is in the environment, as
    /// `MATRIX_PRESET`.
    pub run: String,
}

/// What differs for the combinations that `when` matches in part.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Values by name, as in `exclude`.
    pub when: Map<String, Value>,
    /// Instead of the job's.
    pub events: Option<BTreeSet<Event>>,
    /// Instead of the job's.
    pub required: Option<bool>,
    /// Instead of the job's, in minutes.
    pub timeout: Option<u32>,
    /// Instead of the job's.
    pub minutes: Option<f64>,
}

/// `[job.matrix]`: axes, `include` and `exclude`.
#[derive(Debug, Clone, Deserialize)]
pub struct MatrixTable {
    #[serde(default)]
    include: Vec<Map<String, Value>>,
    #[serde(default)]
    exclude: Vec<Map<String, Value>>,
    #[serde(flatten)]
    axes: BTreeMap<String, Vec<Value>>,
}

impl MatrixTable {
    /// The matrix, its axes in the order of [`Axis::ALL`].
    pub fn matrix(&self) -> Matrix {
        let values = |axis: Axis| {
            self.axes.get(axis.name()).map(|values| (axis.name().to_owned(), values.clone()))
        };
        Matrix {
            axes: Axis::ALL.into_iter().filter_map(values).collect(),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
        }
    }
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

impl Pipeline {
    /// Reads the file of the repository at `root`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join(FILE);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self> {
        let pipeline: Self = toml::from_str(text).with_context(|| FILE.to_owned())?;
        pipeline.check().with_context(|| FILE.to_owned())?;
        Ok(pipeline)
    }

    /// The job called `name`.
    pub fn job(&self, name: &str) -> Option<&Job> {
        self.job.iter().find(|job| job.name == name)
    }

    fn check(&self) -> Result<()> {
        for (name, action) in &self.action {
            let digits = action.commit.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
            ensure!(
                digits && action.commit.len() == 40,
                "[action.{name}]: `{}` is no hash of a commit: a tag can be moved, write 40 \
                 hexadecimal digits",
                action.commit
            );
        }
        for (name, pool) in &self.runner {
            if let Some(stand_in) = &pool.stand_in {
                ensure!(
                    self.job(stand_in).is_some_and(|job| job.events.is_empty()),
                    "[runner.{name}]: there is no job `{stand_in}` without events that could \
                     stand in"
                );
            }
        }
        for (index, job) in self.job.iter().enumerate() {
            job.check(self, &self.job[..index]).with_context(|| format!("job `{}`", job.name))?;
        }
        Ok(())
    }
}

impl Job {
    fn check(&self, pipeline: &Pipeline, earlier: &[Job]) -> Result<()> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            self.name.starts_with(|c: char| c.is_ascii_lowercase()) && self.name.chars().all(plain),
            "a name has lower-case letters, digits and dashes"
        );
        ensure!(
            !["plan", "required", "publish"].contains(&self.name.as_str()),
            "the workflows have a job of that name themselves"
        );
        ensure!(earlier.iter().all(|job| job.name != self.name), "there are two of that name");
        ensure!(!self.steps.is_empty(), "it has no steps");
        ensure!(self.timeout > 0, "its timeout is 0 minutes");
        for need in &self.needs {
            // This keeps needs free of circles.
            ensure!(
                earlier.iter().any(|job| job.name == *need),
                "it needs `{need}`, which is not a job before it in the file"
            );
        }
        for axis in self.matrix.axes.keys() {
            if Axis::named(axis).is_none() {
                let names: Vec<_> = Axis::ALL.iter().map(|axis| axis.name()).collect();
                bail!("`{axis}` is no axis; those are: {}", names.join(", "));
            }
        }
        ensure!(self.matrix.axes.contains_key("runner"), "its matrix has no axis `runner`");
        for combination in self.matrix.matrix().expand()?.combinations {
            let runner = combination.text("runner").unwrap_or_default();
            ensure!(
                pipeline.runner.contains_key(&runner),
                "`{combination}`: there is no [runner.{runner}]"
            );
        }
        Ok(())
    }
}
