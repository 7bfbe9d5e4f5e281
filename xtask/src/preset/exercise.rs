//! What holds for any input: run by the fuzz targets in `fuzz/`, and by a test over their corpus.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::options::condition::Condition;
use super::options::{Given, OptionSchema, default_cmake, recorded};
use super::{Context, Document, Preset, Settings, Source, SourceFile, Value, fix, schema, show};
use crate::environment::Environment;

/// Preset files in one text: each begins with a line `=== NAME`; what is before the first is
/// called `x`.
struct Files(BTreeMap<String, String>);

impl Files {
    fn split(text: &str) -> Self {
        let mut files = BTreeMap::new();
        let mut name = "x";
        let mut begin = 0;
        for (at, _) in text.match_indices("=== ").filter(|(at, _)| text[..*at].ends_with('\n')) {
            files.insert(name.to_owned(), text[begin..at].to_owned());
            let line = text[at..].find('\n').map_or(text.len(), |end| at + end);
            name = text[at + 4..line].trim();
            begin = line;
        }
        files.insert(name.to_owned(), text[begin..].to_owned());
        Files(files)
    }
}

impl Source for Files {
    fn read(&self, name: &str) -> io::Result<Option<SourceFile>> {
        let path = format!("{name}.toml").into();
        Ok(self.0.get(name).map(|text| SourceFile { path, text: text.clone() }))
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// Resolves the presets in `bytes`: faults are located in them, what is shown of a good one reads
/// as the same settings, and what is mended stays so.
///
/// # Panics
/// Something of that does not hold.
pub fn presets(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let files = Files::split(text);
    let environment = Environment::default();
    let root = Path::new("/nonexistent");
    for host in schema::HOSTS {
        let triple = super::machine::usual_triple(host);
        let context =
            Context { host, triple, environment: &environment, defines: &[], root, fetched: None };
        match Preset::resolve(&files, "x", &context) {
            Ok(preset) => {
                reads_as_the_same(&preset, &show::text(&preset, true));
                reads_as_the_same(&preset, &show::text(&preset, false));
                let _ = show::json(&preset);
            }
            Err(error) => {
                assert!(!error.is_empty());
                let _ = error.render(false);
                let fixes: Vec<_> =
                    error.faults().iter().flat_map(|fault| fault.fixes.clone()).collect();
                if let Some(text) = files.0.get("x")
                    && let Ok(mended) = fix::apply(text, &fixes)
                {
                    let again = fix::apply(&mended, &fixes).expect("what was mended is TOML");
                    assert_eq!(again, mended);
                }
            }
        }
    }
}

fn reads_as_the_same(preset: &Preset, shown: &str) {
    let text = format!("[preset]\nname = \"x\"\n{shown}");
    let (document, faults) = Document::parse(&SourceFile { path: "x".into(), text }.into(), "x");
    assert!(faults.is_empty(), "{faults}\n{shown}");
    let values = |settings: &Settings| -> Vec<(String, Value)> {
        settings.iter().map(|(name, set)| (name.to_owned(), set.value.clone())).collect()
    };
    assert_eq!(values(&document.settings), values(&preset.settings));
}

/// Reads `bytes` as `default.cmake`: what is recorded of it says the same, and its rules can be
/// checked.
///
/// # Panics
/// Something of that does not hold.
pub fn default_cmake(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(schema) = default_cmake::read(text) else { return };
    let all_on = schema.options.keys().map(|name| (name.clone(), "ON".to_owned())).collect();
    for options in [BTreeMap::new(), all_on] {
        let found = schema.violations(&Given { options, variables: BTreeMap::new() });
        let most: usize = schema.rules.iter().map(|rule| rule.others.len()).sum();
        assert!(found.len() <= most, "a rule is broken once for each option that it names");
    }
    let recorded = recorded::read("0", &schema.to_toml()).expect("a recorded table is in form");
    if conditions(&schema).all(|condition| condition.to_string().matches('(').count() < 16) {
        assert_eq!(without_lines(recorded.schema), without_lines(schema));
    }
    let mut schema = OptionSchema::default();
    let _ = default_cmake::read_preset(text, &mut schema);
}

fn conditions(schema: &OptionSchema) -> impl Iterator<Item = &Condition> {
    let defaults = schema.options.values().flat_map(|option| &option.default);
    defaults.map(|case| &case.when).chain(schema.rules.iter().map(|rule| &rule.when))
}

/// A recorded table does not tell lines.
fn without_lines(mut schema: OptionSchema) -> OptionSchema {
    schema.options.values_mut().for_each(|option| option.line = None);
    schema.rules.iter_mut().for_each(|rule| rule.line = None);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn corpus(target: &str, exercise: fn(&[u8])) {
        let folder = Workspace::root().unwrap().join("fuzz/corpus").join(target);
        let files: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
        assert!(!files.is_empty(), "{}", folder.display());
        files.iter().for_each(|file| exercise(&std::fs::read(file).unwrap()));
    }

    #[test]
    fn the_corpus_of_presets() {
        corpus("preset", presets);
    }

    #[test]
    fn the_corpus_of_default_cmake() {
        corpus("default_cmake", super::default_cmake);
    }

    #[test]
    fn several_files_come_in_one_text() {
        let files = Files::split("a\n=== base\nb\n=== c d \ne");
        let expected = [("base", "\nb\n"), ("c d", "\ne"), ("x", "a\n")];
        assert!(
            files.0.iter().map(|(k, v)| (k.as_str(), v.as_str())).eq(expected),
            "{:?}",
            files.0
        );
        let root = Workspace::root().unwrap();
        for name in ["base", "llm-metal"] {
            let text = std::fs::read_to_string(root.join(format!("presets/{name}.toml"))).unwrap();
            presets(text.as_bytes());
        }
    }
}
