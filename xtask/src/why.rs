//! Why the last build is as it is: each decision with what it was taken for and what else there
//! was. The build records them, `cargo xtask why TOPIC` tells them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::openmp::find::Search;
use crate::preset::{Preset, Sourced, Value, schema};
use crate::toolchain::{cxx, linux};

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What it is about: one word, or a key of presets.
    pub topic: String,
    /// What was decided.
    pub choice: String,
    /// Why.
    pub because: Vec<String>,
    /// What may go wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beware: Option<String>,
    /// What else there was, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead_of: Vec<String>,
}

impl Decision {
    /// A decision with one reason.
    pub fn new(topic: &str, choice: impl ToString, because: impl Into<String>) -> Self {
        Self {
            topic: topic.to_owned(),
            choice: choice.to_string(),
            because: vec![because.into()],
            beware: None,
            instead_of: Vec::new(),
        }
    }

    /// Adds a reason.
    #[must_use]
    pub fn and(mut self, because: impl Into<String>) -> Self {
        self.because.push(because.into());
        self
    }
}

/// The decisions of one build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The preset.
    pub preset: String,
    /// The target's triple.
    pub triple: String,
    /// Where the audit of the build left its report.
    pub audit: PathBuf,
    /// The decisions.
    pub decisions: Vec<Decision>,
}

impl Record {
    /// Where the record of the last build is kept.
    pub fn last(state: &Path) -> PathBuf {
        state.join("why/last.json")
    }

    /// Where the record of the last build of a preset is kept.
    pub fn of(state: &Path, preset: &str, triple: &str) -> PathBuf {
        state.join("why").join(format!("{preset}-{triple}.json"))
    }

    /// Keeps the record. Nothing is written where it is there already.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn store(&self, state: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        for path in [Self::of(state, &self.preset, &self.triple), Self::last(state)] {
            if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
                continue;
            }
            let context = || format!("cannot write {}", path.display());
            let folder = path.parent().context("a record lies in a folder")?;
            std::fs::create_dir_all(folder).with_context(context)?;
            let file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
            std::fs::write(file.path(), &text).with_context(context)?;
            file.persist(&path).with_context(context)?;
        }
        Ok(())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn load(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!("nothing was built yet: run `cargo xtask build`")
            }
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        serde_json::from_str(&text).with_context(|| {
            format!("{} is damaged: run `cargo xtask build` again", path.display())
        })
    }

    /// The settings of the preset: decisions whose topics are keys with their tables.
    pub fn settings(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().filter(|decision| decision.topic.contains('.'))
    }

    /// The decisions about `topic`: one, or all whose names begin with it and a dot.
    ///
    /// # Errors
    /// There are none; the text names what is near.
    pub fn about(&self, topic: &str) -> Result<Vec<&Decision>> {
        let table = format!("{topic}.");
        let matches = |d: &&Decision| d.topic == topic || d.topic.starts_with(&table);
        let found: Vec<_> = self.decisions.iter().filter(matches).collect();
        if found.is_empty() {
            let topics = self.decisions.iter().map(|d| d.topic.clone());
            bail!("nothing was decided about `{topic}`{}", schema::suggestion(topic, topics));
        }
        Ok(found)
    }
}

/// Decisions for people.
pub fn text(decisions: &[&Decision]) -> String {
    let mut text = String::new();
    for decision in decisions {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {}", decision.topic, decision.choice);
        for because in &decision.because {
            let _ = writeln!(text, "  because {because}");
        }
        if let Some(beware) = &decision.beware {
            let _ = writeln!(text, "  but beware: {beware}");
        }
        for other in &decision.instead_of {
            let _ = writeln!(text, "  and not {other}");
        }
    }
    text
}

/// Which C++ compiler, and why.
pub fn compiler(environment: &Environment, preset: &Preset, path: &Path) -> Decision {
    let topic = |because: String| Decision::new("compiler", path.display(), because);
    if let Some(named) = &preset.toolchain.cxx {
        let decision = topic(format!("{} names `{}`", named.origin, named.value));
        return match environment.get("CXX") {
            Some(other) => Decision {
                instead_of: vec![format!("CXX={}: the preset counts more", other.display())],
                ..decision
            },
            None => decision,
        };
    }
    if linux::is_cross(preset) {
        return topic(format!("it is what distributions call the compiler for {}", preset.target))
            .and("no preset names one (`[toolchain] cxx`)");
    }
    if let Some(named) = environment.get("CXX") {
        return topic(format!("the environment says CXX={}", named.display()))
            .and("no preset names one (`[toolchain] cxx`)");
    }
    let mut decision = topic(format!("it is the first there is of {}", cxx::NAMES.join(", ")))
        .and("neither a preset (`[toolchain] cxx`) nor CXX names one");
    let others = cxx::NAMES.iter().filter_map(|name| environment.which(*name));
    let others = others.filter(|other| other != path);
    decision.instead_of =
        others.map(|other| format!("{}: it comes later", other.display())).collect();
    decision
}

/// Which OpenMP, and why.
pub fn openmp(search: &Search) -> Decision {
    let choice = match search.chosen() {
        None => "none".to_owned(),
        Some(chosen) => {
            let name = chosen.install_name.as_deref().unwrap_or("no name of its own");
            let architectures = chosen.architectures.join(", ");
            format!("{} ({}'s; {name}; {architectures})", chosen.path.display(), chosen.flavour)
        }
    };
    let mut decision = Decision::new("openmp", choice, search.reason.clone());
    decision.beware.clone_from(&search.clash);
    let others = search.candidates.iter().enumerate().filter(|(i, _)| Some(*i) != search.chosen);
    decision.instead_of = others
        .map(|(_, other)| {
            let why = match &other.refused {
                Some(why) => why.clone(),
                None => "it comes later, or the preset wants another".to_owned(),
            };
            format!("{} ({}): {why}", other.path.display(), other.source)
        })
        .collect();
    decision
}

/// Every setting, and who set it over what.
pub fn settings(preset: &Preset) -> Vec<Decision> {
    let decision = |(name, set): (&str, &Sourced<Value>)| {
        let mut decision = Decision::new(name, &set.value, format!("{} says so", set.origin));
        let overridden = preset.settings.overridden(name);
        decision.instead_of =
            overridden.map(|old| format!("{}, as {} says", old.value, old.origin)).collect();
        decision
    };
    preset.settings.iter().map(decision).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{Context, Folder};
    use crate::venv::tests::FakePrograms;

    fn preset(defines: &[&str]) -> Preset {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let defines: Vec<_> = defines.iter().map(|d| (*d).to_owned()).collect();
        let context = Context {
            host: "linux",
            triple: "x86_64-unknown-linux-gnu",
            environment: &Environment::default(),
            defines: &defines,
            root,
            fetched: None,
        };
        Preset::resolve(&Folder::new(root), "metal", &context).unwrap()
    }

    #[test]
    fn the_compiler_has_its_reason() {
        let fake = FakePrograms::new();
        fake.program("g++", "");
        fake.program("clang++", "");
        let environment = fake.environment();
        let path = fake.path("g++");
        let told = |environment: &Environment, preset: &Preset| {
            let decision = compiler(environment, preset, &path);
            text(&[&decision]).replace(&fake.folder().display().to_string(), "BIN")
        };
        insta::assert_snapshot!(told(&environment, &preset(&[])), @"
        compiler: BIN/g++
          because it is the first there is of c++, g++, clang++
          because neither a preset (`[toolchain] cxx`) nor CXX names one
          and not BIN/clang++: it comes later
        ");
        let with = environment.clone().with("CXX", "g++");
        insta::assert_snapshot!(told(&with, &preset(&[])), @"
        compiler: BIN/g++
          because the environment says CXX=g++
          because no preset names one (`[toolchain] cxx`)
        ");
        insta::assert_snapshot!(told(&with, &preset(&["toolchain.cxx=g++"])), @"
        compiler: BIN/g++
          because -D toolchain.cxx=g++ names `g++`
          and not CXX=g++: the preset counts more
        ");
    }

    #[test]
    fn a_record_is_kept_and_asked() {
        let folder = tempfile::tempdir().unwrap();
        let last = Record::last(folder.path());
        let missing = Record::load(&last).unwrap_err().to_string();
        assert_eq!(missing, "nothing was built yet: run `cargo xtask build`");
        let record = Record {
            preset: "metal".into(),
            triple: "x".into(),
            audit: "audit.json".into(),
            decisions: settings(&preset(&["build.profile=dev"])),
        };
        record.store(folder.path()).unwrap();
        let record = Record::load(&last).unwrap();
        let told = text(&record.about("build.profile").unwrap());
        assert!(
            told.starts_with("build.profile: \"dev\"\n  because -D build.profile=dev says so\n")
        );
        assert!(told.contains("  and not \"release\", as presets/base.toml:"), "{told}");
        let again = settings(&preset(&["build.profile=dev"]));
        assert!(record.settings().eq(&again), "the same preset decides the same");
        assert!(!record.settings().eq(&settings(&preset(&[]))));
        assert!(record.about("build").unwrap().len() > 1, "a table is all of its keys");
        let near = record.about("build.profil").unwrap_err().to_string();
        assert_eq!(near, "nothing was decided about `build.profil`; did you mean `build.profile`?");
        std::fs::write(&last, "{").unwrap();
        assert!(Record::load(&last).unwrap_err().to_string().contains("is damaged"));
    }
}
