//! Parts of the tests, of about the same length.
//!
//! The tests of the workspace are cut where cargo cuts them: all libraries, all programs, each
//! file of integration tests, the examples, the documentation's examples. How long each took is
//! recorded in `ci/durations.toml`, from the logs of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};

use crate::workspace::cargo;

/// Where durations are recorded, from the repository's root.
pub const FILE: &str = "ci/durations.toml";

/// Shard `index` of `count`, written `1/3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts =
            text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let Some((index, count)) = parts else { bail!("write it as 1/3") };
        ensure!((1..=count).contains(&index), "the first is 1/{count}, the last {count}/{count}");
        Ok(Self { index, count })
    }
}

/// A part of the tests that is run as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// The unit tests of all libraries.
    Libraries,
    /// Those of all programs.
    Programs,
    /// Those of all examples.
    Examples,
    /// The integration tests of that name.
    Integration(String),
    /// The examples in the documentation.
    Documentation,
}

impl Unit {
    /// The arguments of `cargo test --workspace` for it.
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Self::Libraries => vec!["--lib".to_owned()],
            Self::Programs => vec!["--bins".to_owned()],
            Self::Examples => vec!["--examples".to_owned()],
            Self::Integration(name) => vec!["--test".to_owned(), name.clone()],
            Self::Documentation => vec!["--doc".to_owned()],
        }
    }

    /// What cargo calls it when it starts it: `unittests src/lib.rs`, `tests/models.rs`.
    fn started_as(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unittests ") {
            return Some(match path {
                _ if path.starts_with("examples/") => Self::Examples,
                _ if path.ends_with("src/lib.rs") => Self::Libraries,
                _ => Self::Programs,
            });
        }
        let name = text.strip_prefix("tests/")?;
        let name = name.strip_suffix("/main.rs").or_else(|| name.strip_suffix(".rs"))?;
        Some(Self::Integration(name.to_owned()))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Libraries => f.write_str("lib"),
            Self::Programs => f.write_str("bins"),
            Self::Examples => f.write_str("examples"),
            Self::Integration(name) => write!(f, "test {name}"),
            Self::Documentation => f.write_str("doc"),
        }
    }
}

/// The units of the workspace at `root`.
///
/// # Errors
/// cargo does not answer.
pub fn units(root: &Path) -> Result<Vec<Unit>> {
    let text = cargo(root).args(["metadata", "--no-deps", "--format-version=1"]).read()?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let mut units = Vec::new();
    for target in targets {
        let is = |key: &str| target[key].as_bool() == Some(true);
        if is("doctest") {
            units.push(Unit::Documentation);
        }
        if is("test") {
            units.push(match target["kind"][0].as_str() {
                Some("test") => {
                    Unit::Integration(target["name"].as_str().unwrap_or_default().to_owned())
                }
                Some("bin") => Unit::Programs,
                Some("example") => Unit::Examples,
                _ => Unit::Libraries,
            });
        }
    }
    units.sort();
    units.dedup();
    Ok(units)
}

/// Seconds that units took.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Durations(pub BTreeMap<String, f64>);

impl Durations {
    /// What is recorded for the repository at `root`; nothing where there is no record.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        match std::fs::read_to_string(root.join(FILE)) {
            Ok(text) => toml::from_str(&text).with_context(|| FILE.to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| FILE.to_owned()),
        }
    }

    /// What a log of `cargo test` tells: the seconds of each unit, summed over its programs.
    pub fn of_log(log: &str) -> Self {
        let mut durations = Self::default();
        let mut open = None;
        for line in log.lines() {
            let line = console::strip_ansi_codes(line);
            let text = line.trim_start();
            if let Some(program) = text.split_once("Running ").map(|(_, rest)| rest) {
                open = program.rsplit_once(" (").and_then(|(name, _)| Unit::started_as(name));
            } else if text.contains("Doc-tests ") {
                open = Some(Unit::Documentation);
            } else if text.contains("test result: ")
                && let Some((_, time)) = text.rsplit_once("finished in ")
                && let Some(unit) = open.take()
                && let Ok(seconds) = time.trim_end_matches('s').parse::<f64>()
            {
                *durations.0.entry(unit.to_string()).or_default() += seconds;
            }
        }
        durations
    }

    /// The record as a file.
    pub fn to_file(&self) -> String {
        let mut text =
            "# Seconds that parts of the tests took; `cargo xtask ci record LOG` writes \
                        it. It balances shards.\n"
                .to_owned();
        for (name, seconds) in &self.0 {
            text.push_str(&format!("\"{name}\" = {seconds:.2}\n"));
        }
        text
    }

    /// The seconds of `unit`: what is recorded, else the mean of what is.
    fn of(&self, unit: &Unit) -> f64 {
        let mean = match self.0.len() {
            0 => 1.0,
            count => self.0.values().sum::<f64>() / count as f64,
        };
        self.0.get(&unit.to_string()).copied().unwrap_or(mean)
    }
}

/// Deals `units` into `count` shards: the longest first, each to the shard that has least.
pub fn balance(units: &[Unit], durations: &Durations, count: usize) -> Vec<Vec<Unit>> {
    let mut sorted: Vec<_> = units.iter().map(|unit| (durations.of(unit), unit)).collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let mut shards = vec![(0.0_f64, Vec::new()); count];
    for (seconds, unit) in sorted {
        let least = shards.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0)).expect("a shard");
        least.0 += seconds;
        least.1.push(unit.clone());
    }
    shards.into_iter().map(|(_, units)| units).collect()
}

/// The units of `shard`, in the workspace at `root`.
///
/// # Errors
/// cargo does not answer, or the record cannot be read.
pub fn units_of(root: &Path, shard: Shard) -> Result<Vec<Unit>> {
    let shards = balance(&units(root)?, &Durations::read(root)?, shard.count);
    Ok(shards.into_iter().nth(shard.index - 1).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
   Compiling etmetal v0.1.0
     Running unittests src/lib.rs (target/checked/deps/etmetal-1)
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 10.50s
     Running unittests src/main.rs (target/checked/deps/etmetal-2)
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s
2026-11-30T07:24:03.1234567Z      \u{1b}[1m\u{1b}[92mRunning\u{1b}[0m unittests src/lib.rs (a/b)
2026-11-30T07:24:03.1234567Z test result: ok. 2 passed; finished in 2.25s
     Running tests/models.rs (target/checked/deps/models-1)
test result: FAILED. 40 passed; 1 failed; 0 ignored; 0 measured; 5 filtered out; finished in 9s
     Running tests/crashed.rs (target/checked/deps/crashed-1)
   Doc-tests etmetal
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s
";

    #[test]
    fn durations_are_read_from_logs_and_written_to_the_record() {
        let durations = Durations::of_log(LOG);
        insta::assert_snapshot!(durations.to_file(), @r#"
        # Seconds that parts of the tests took; `cargo xtask ci record LOG` writes it. It balances shards.
        "bins" = 1.00
        "doc" = 0.25
        "lib" = 12.75
        "test models" = 9.00
        "#);
        assert_eq!(toml::from_str::<Durations>(&durations.to_file()).unwrap(), durations);
    }

    #[test]
    fn shards_are_balanced_and_hold_each_unit_once() {
        let unit = |name: &str| Unit::Integration(name.to_owned());
        let units: Vec<_> = ["a", "b", "c", "d", "new"].map(unit).to_vec();
        let record = [("test a", 9.0), ("test b", 5.0), ("test c", 4.0), ("test d", 2.0)];
        let durations = Durations(record.map(|(name, s)| (name.to_owned(), s)).into());
        let shards = balance(&units, &durations, 2);
        // `new` counts 5 s, the mean.
        assert_eq!(shards[0], ["a", "c"].map(unit));
        assert_eq!(shards[1], ["b", "new", "d"].map(unit));
        let equal = balance(&units, &Durations::default(), 2);
        assert_eq!(equal.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2], "nothing recorded");
        let many = balance(&units, &durations, 7);
        assert_eq!(many.iter().map(Vec::len).sum::<usize>(), 5);
        assert_eq!(many.len(), 7);
    }

    #[test]
    fn the_units_of_the_workspace_are_those_that_cargo_test_runs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let units = units(root).unwrap();
        for unit in [Unit::Libraries, Unit::Programs, Unit::Documentation] {
            assert!(units.contains(&unit), "{unit}");
        }
        assert!(units.contains(&Unit::Integration("models".into())), "{units:?}");
        let shards: Vec<_> =
            (1..=3).flat_map(|index| units_of(root, Shard { index, count: 3 }).unwrap()).collect();
        assert_eq!(shards.len(), units.len());
        let recorded = Durations::read(root).unwrap();
        let known = |name: &String| units.iter().any(|unit| unit.to_string() == *name);
        assert!(recorded.0.keys().all(known), "{FILE} has what is no part of the tests");
    }

    #[test]
    fn a_shard_is_written_as_a_part_of_a_count() {
        assert_eq!("2/3".parse::<Shard>().unwrap(), Shard { index: 2, count: 3 });
        for wrong in ["0/3", "4/3", "3", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
