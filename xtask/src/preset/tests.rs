//! Whole presets, resolved.

use std::collections::BTreeMap;

use super::*;
use crate::workspace::Workspace;

const WHOLE: &str = concat!(
    "[executorch]\nfrom = \"sdk\"\nversion = \"1.5.1\"\n[backend]\nmetal = \"etmetal\"\n",
    "[toolchain]\ngenerator = \"Ninja\"\n[build]\nprofile = \"release\"\n",
);

/// Preset files by name, without the `[preset]` table's name line.
struct Files(BTreeMap<&'static str, String>);

impl Files {
    fn new(files: &[(&'static str, &str, &str)]) -> Self {
        let text = |name, inherits, rest| {
            format!("[preset]\nname = \"{name}\"\ninherits = [{inherits}]\n{rest}")
        };
        Files(files.iter().map(|(n, inherits, rest)| (*n, text(n, inherits, rest))).collect())
    }

    fn resolve(&self, name: &str, defines: &[&str]) -> Result<Preset, String> {
        self.resolve_in(name, defines, &Environment::default())
    }

    fn resolve_in(
        &self,
        name: &str,
        defines: &[&str],
        environment: &Environment,
    ) -> Result<Preset, String> {
        let defines: Vec<_> = defines.iter().map(|d| (*d).to_owned()).collect();
        let context = Context {
            host: "linux",
            triple: "x86_64-unknown-linux-gnu",
            environment,
            defines: &defines,
            root: Path::new("."),
        };
        Preset::resolve(self, name, &context).map_err(|e| e.to_string())
    }

    fn cxx(&self, name: &str, defines: &[&str]) -> (String, String) {
        let cxx = self.resolve(name, defines).unwrap().toolchain.cxx.unwrap();
        (cxx.value, cxx.origin.to_string())
    }
}

impl Source for Files {
    fn read(&self, name: &str) -> io::Result<Option<SourceFile>> {
        let path = PathBuf::from(format!("{name}.toml"));
        Ok(self.0.get(name).map(|text| SourceFile { path, text: text.clone() }))
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().map(|n| (*n).to_owned()).collect()
    }
}

fn cxx(name: &str) -> String {
    format!("[toolchain]\ncxx = \"{name}\"\n")
}

#[test]
fn later_parents_override_earlier_ones_and_the_file_overrides_both() {
    let files = Files::new(&[
        ("base", "", WHOLE),
        ("p", "\"base\"", &cxx("p")),
        ("q", "\"base\"", &cxx("q")),
        ("pq", "\"p\", \"q\"", ""),
        ("own", "\"p\", \"q\"", &cxx("own")),
    ]);
    assert_eq!(files.cxx("pq", &[]), ("q".into(), "q.toml:5:7".into()));
    assert_eq!(files.cxx("own", &[]), ("own".into(), "own.toml:5:7".into()));
}

#[test]
fn host_target_and_definitions_override_in_that_order() {
    let overlays = concat!(
        "[toolchain]\ncxx = \"file\"\nlauncher = \"file\"\n",
        "[host.linux.toolchain]\ncxx = \"host\"\n",
        "[host.macos.toolchain]\ncxx = \"mac\"\nlauncher = \"mac\"\n",
        "[target.\"x86_64-unknown-linux-gnu\".toolchain]\ncxx = \"target\"\n",
        "[target.\"aarch64-apple-darwin\".toolchain]\ncxx = \"apple\"\n",
    );
    let files = Files::new(&[
        ("base", "", WHOLE),
        ("x", "\"base\"", overlays),
        ("host", "\"base\"", "[host.linux.toolchain]\ncxx = \"host\"\n"),
        ("child", "\"host\"", &cxx("child")),
    ]);
    assert_eq!(files.cxx("x", &[]).0, "target");
    assert_eq!(files.cxx("x", &["toolchain.cxx=cli"]).0, "cli");
    let x = files.resolve("x", &[]).unwrap();
    assert_eq!(x.toolchain.launcher.unwrap().value, "file", "the other host's table is inert");
    assert_eq!(files.cxx("child", &[]).0, "host", "host tables lie over every file's own");
}

#[test]
fn in_a_diamond_the_common_ancestor_is_laid_once_and_first() {
    let files = Files::new(&[
        (
            "d",
            "",
            &format!("{WHOLE}cxxflags = [\"-d\"]\n").replace("[build]", "[link]").replace(
                "profile = \"release\"\ncxxflags = [\"-d\"]",
                "flags = [\"-d\"]\n[build]\nprofile = \"release\"",
            ),
        ),
        ("b", "\"d\"", "[link]\nflags = [\"-b\"]\n"),
        ("c", "\"d\"", &cxx("c")),
        ("a", "\"b\", \"c\"", ""),
    ]);
    let a = files.resolve("a", &[]).unwrap();
    assert_eq!(a.link.flags, ["-b"], "c starts from d too but does not undo b");
    assert_eq!(a.toolchain.cxx.unwrap().value, "c");
}

#[test]
fn circles_and_unknown_parents_name_the_place() {
    let files = Files::new(&[
        ("a", "\"b\"", ""),
        ("b", "\"c\"", ""),
        ("c", "\"b\"", ""),
        ("self", "\"self\"", ""),
        ("lost", "\"bb\"", ""),
    ]);
    insta::assert_snapshot!(files.resolve("a", &[]).unwrap_err(), @"c.toml:3:13: presets inherit each other in a circle: b -> c -> b");
    insta::assert_snapshot!(files.resolve("self", &[]).unwrap_err(), @"self.toml:3:13: presets inherit each other in a circle: self -> self");
    insta::assert_snapshot!(files.resolve("lost", &[]).unwrap_err(), @"lost.toml:3:13: there is no preset `bb`; did you mean `b`?");
    insta::assert_snapshot!(files.resolve("nothing", &[]).unwrap_err(), @"there is no preset `nothing`; known here: a, b, c, lost, self");
}

#[test]
fn everything_missing_is_named_at_once() {
    let files = Files::new(&[("a", "", "[build]\nfeatures = []\n")]);
    insta::assert_snapshot!(files.resolve("a", &[]).unwrap_err(), @"
    the preset `a` is not whole:
    `executorch.from` is set nowhere: add `from = …` under `[executorch]` to the preset or to one it inherits, or pass `-D executorch.from=…`
    `backend.metal` is set nowhere: add `metal = …` under `[backend]` to the preset or to one it inherits, or pass `-D backend.metal=…`
    `toolchain.generator` is set nowhere: add `generator = …` under `[toolchain]` to the preset or to one it inherits, or pass `-D toolchain.generator=…`
    `build.profile` is set nowhere: add `profile = …` under `[build]` to the preset or to one it inherits, or pass `-D build.profile=…`
    ");
}

#[test]
fn the_presets_of_the_repository_resolve_on_every_host_that_they_name() {
    let root = Workspace::root().unwrap();
    let folder = Folder::new(&root);
    let environment = Environment::default();
    let mut built_somewhere = BTreeMap::new();
    for name in folder.names().iter().filter(|name| *name != "base") {
        for host in schema::HOSTS {
            let triple = machine::usual_triple(host);
            let context =
                Context { host, triple, environment: &environment, defines: &[], root: &root };
            match Preset::resolve(&folder, name, &context) {
                Ok(preset) => *built_somewhere.entry(preset.identity.name).or_insert(0) += 1,
                Err(error) => assert!(error.to_string().contains("is built on"), "{error}"),
            }
        }
    }
    insta::assert_debug_snapshot!(built_somewhere, @"");
}

#[test]
fn names_cannot_leave_the_folder() {
    let folder = Folder::new(Path::new("."));
    assert_eq!(folder.read("../Cargo").unwrap(), None);
}
