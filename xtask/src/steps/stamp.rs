//! Stamps: what a step's last success was made from, and what it left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::step::{Input, Output, Step};

/// The record of a success. Equal records mean that there is nothing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Hash or value of each input by its name: files by path, `commands` for the actions.
    inputs: BTreeMap<String, String>,
    /// Size and time of change of each output by path.
    outputs: BTreeMap<PathBuf, (u64, u128)>,
    /// When the step succeeded, in nanoseconds since 1970: what later steps know it by.
    made: u128,
}

impl Stamp {
    /// What `step` would be made from now. `root` shortens the names of files inside it; `made`
    /// tells when an earlier step, by its key, was made.
    ///
    /// # Errors
    /// An input cannot be read.
    pub fn inputs_of(step: &Step, root: &Path, made: impl Fn(&str) -> u128) -> Result<Self> {
        let mut inputs = BTreeMap::new();
        let commands: Vec<_> = step.actions.iter().map(ToString::to_string).collect();
        inputs.insert("the commands".to_owned(), hash(commands.join("\n").as_bytes()));
        for input in &step.inputs {
            match input {
                Input::Path(path) => hash_path(path, root, &mut inputs)?,
                Input::Value(name, value) => {
                    inputs.insert(name.clone(), value.clone());
                }
                Input::Tool(_) => {}
                Input::Step(key) => {
                    inputs.insert(format!("the step `{key}`"), made(key).to_string());
                }
            }
        }
        Ok(Self { inputs, outputs: BTreeMap::new(), made: 0 })
    }

    /// When the step succeeded.
    pub fn made(&self) -> u128 {
        self.made
    }

    /// The same as a success of this moment, with what lies at the outputs of `step` now.
    ///
    /// # Errors
    /// An output is not there.
    pub fn succeeded(mut self, step: &Step) -> Result<Self> {
        self.outputs = step
            .outputs
            .iter()
            .map(Output::paths)
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .map(|path| {
                let state = state_of(&path).with_context(|| {
                    format!("the commands succeeded but left no {}", path.display())
                })?;
                Ok((path, state))
            })
            .collect::<Result<_>>()?;
        self.made = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Ok(self)
    }

    /// The same, known to later steps as `last` where it is made from the same and left the same.
    #[must_use]
    pub fn unless_same(self, last: Option<Stamp>) -> Self {
        match last {
            Some(last) if last.inputs == self.inputs && last.outputs == self.outputs => last,
            _ => self,
        }
    }

    /// The stamp at `path`; nothing where there is none or where it is damaged.
    pub fn load(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Writes the stamp, whole or not at all.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn store(&self, path: &Path) -> Result<()> {
        let folder = path.parent().context("a stamp lies in a folder")?;
        let context = || format!("cannot write {}", path.display());
        std::fs::create_dir_all(folder).with_context(context)?;
        let file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
        serde_json::to_writer_pretty(&file, self).with_context(context)?;
        file.persist(path).with_context(context)?;
        Ok(())
    }

    /// Why a step with these inputs is out of date against `last`; nothing where it is not.
    pub fn stale_since(&self, last: Option<&Stamp>) -> Option<String> {
        let Some(last) = last else { return Some("not made yet".to_owned()) };
        for (name, value) in &self.inputs {
            match last.inputs.get(name) {
                None => return Some(format!("{name} is new")),
                Some(old) if old != value => return Some(format!("{name} changed")),
                Some(_) => {}
            }
        }
        if let Some(gone) = last.inputs.keys().find(|name| !self.inputs.contains_key(*name)) {
            return Some(format!("{gone} is gone"));
        }
        for (path, state) in &last.outputs {
            match state_of(path) {
                Err(_) => return Some(format!("{} is missing", path.display())),
                Ok(now) if now != *state => {
                    return Some(format!("{} was changed by something else", path.display()));
                }
                Ok(_) => {}
            }
        }
        None
    }
}

/// Size and time of change of a file. Of a folder only that it is there: its time changes with
/// every file made in it.
fn state_of(path: &Path) -> Result<(u64, u128)> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Ok((0, 0));
    }
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((metadata.len(), changed.as_nanos()))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash_path(path: &Path, root: &Path, into: &mut BTreeMap<String, String>) -> Result<()> {
    let context = || format!("cannot read {}", path.display());
    let metadata = match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.with_context(context)?,
    };
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).with_context(context)? {
            let entry = entry.with_context(context)?;
            // Editors' files and caches are no sources.
            if !entry.file_name().to_string_lossy().starts_with('.') {
                hash_path(&entry.path(), root, into)?;
            }
        }
    } else {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        into.insert(name, hash(&std::fs::read(path).with_context(context)?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        folder: tempfile::TempDir,
        step: Step,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            std::fs::create_dir_all(at("src/inner")).unwrap();
            std::fs::write(at("src/inner/a.rs"), "a").unwrap();
            std::fs::write(at("out"), "made").unwrap();
            let step = Step {
                name: "Test",
                key: "test".into(),
                inputs: vec![Input::Path(at("src")), Input::Value("rustc".into(), "1.95.0".into())],
                actions: Vec::new(),
                outputs: vec![at("out").into()],
                hint: String::new(),
            };
            Self { folder, step }
        }

        fn now(&self) -> Stamp {
            Stamp::inputs_of(&self.step, self.folder.path(), |_| 0).unwrap()
        }

        fn made(&self) -> Stamp {
            let stamp = self.now().succeeded(&self.step).unwrap();
            let path = self.folder.path().join("stamps/test.json");
            stamp.store(&path).unwrap();
            assert_eq!(Stamp::load(&path).as_ref(), Some(&stamp));
            stamp
        }

        fn reason(&self, last: &Stamp) -> String {
            self.now().stale_since(Some(last)).unwrap()
        }
    }

    #[test]
    fn nothing_changed_is_nothing_to_do() {
        let bench = Bench::new();
        let last = bench.made();
        std::fs::write(bench.folder.path().join("src/.hidden"), "").unwrap();
        assert_eq!(bench.now().stale_since(Some(&last)), None);
        assert_eq!(bench.now().stale_since(None).unwrap(), "not made yet");
    }

    #[test]
    fn every_change_of_an_input_is_seen_and_named() {
        let mut bench = Bench::new();
        let last = bench.made();
        let inner = bench.folder.path().join("src/inner");
        std::fs::write(inner.join("a.rs"), "b").unwrap();
        assert_eq!(bench.reason(&last), "src/inner/a.rs changed");
        std::fs::write(inner.join("a.rs"), "a").unwrap();
        std::fs::write(inner.join("b.rs"), "").unwrap();
        assert_eq!(bench.reason(&last), "src/inner/b.rs is new");
        std::fs::remove_dir_all(&inner).unwrap();
        assert_eq!(bench.reason(&last), "src/inner/a.rs is gone");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("a.rs"), "a").unwrap();
        bench.step.inputs[1] = Input::Value("rustc".into(), "1.96.0".into());
        assert_eq!(bench.reason(&last), "rustc changed");
        bench.step.inputs[1] = Input::Value("rustc".into(), "1.95.0".into());
        bench.step.actions.push(crate::steps::Action::MakeFolder("/x".into()));
        assert_eq!(bench.reason(&last), "the commands changed");
    }

    #[test]
    fn outputs_that_are_gone_or_not_ours_are_seen() {
        let bench = Bench::new();
        let last = bench.made();
        let out = bench.folder.path().join("out");
        std::fs::write(&out, "other, longer").unwrap();
        assert!(bench.reason(&last).ends_with("out was changed by something else"));
        std::fs::remove_file(&out).unwrap();
        assert!(bench.reason(&last).ends_with("out is missing"));
        let error = bench.now().succeeded(&bench.step).unwrap_err();
        assert!(error.to_string().starts_with("the commands succeeded but left no "), "{error}");
    }

    #[test]
    fn a_damaged_stamp_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, "{\"inputs\":").unwrap();
        assert_eq!(Stamp::load(&path), None);
    }
}
