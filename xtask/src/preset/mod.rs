//! Presets: what to build, declared in `presets/*.toml`.
//!
//! A preset is resolved in layers, the later over the earlier:
//!
//! 1. the files, parents first (see [`inherits`]);
//! 2. `[host.linux]` or `[host.macos]` of those files, in the same order;
//! 3. `[target."TRIPLE"]` of those files, in the same order;
//! 4. `-D key=value` of the command line.
//!
//! Every value remembers the place that set it ([`Sourced`]). Each table of the file is one
//! module here, which holds its keys, their documentation and the type that the rest of the
//! program reads.

pub mod backend;
pub mod build;
pub mod define;
pub mod document;
pub mod error;
pub mod executorch;
pub mod identity;
pub mod inherits;
pub mod link;
pub mod origin;
pub mod package;
pub mod schema;
pub mod settings;
pub mod toolchain;
pub mod value;

use std::path::{Path, PathBuf};

pub use document::Document;
pub use error::PresetError;
pub use identity::Identity;
pub use inherits::Source;
pub use origin::{Origin, Sourced};
pub use settings::Settings;
pub use value::Value;

/// A preset with every layer merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// `[preset]` of the file itself.
    pub identity: Identity,
    /// The kind of machine that builds: `linux`, `macos`.
    pub host: String,
    /// The triple to build for: `build.target`, else the building machine's.
    pub target: String,
    /// `[executorch]`.
    pub executorch: executorch::Executorch,
    /// `[backend]`.
    pub backend: backend::Backend,
    /// `[toolchain]`.
    pub toolchain: toolchain::Toolchain,
    /// `[build]`.
    pub build: build::Build,
    /// `[link]`.
    pub link: link::Link,
    /// `[package]`.
    pub package: package::Package,
    /// Every merged setting, with its origin.
    pub settings: Settings,
}

impl Preset {
    /// Resolves the preset `name` for a build on `host` (`linux`, `macos`) for the target
    /// `triple`, with the `-D` arguments `defines`. `build.target` takes the place of `triple`.
    ///
    /// # Errors
    /// Everything that is wrong with the files or the definitions.
    pub fn resolve(
        source: &dyn Source,
        name: &str,
        host: &str,
        triple: &str,
        defines: &[String],
    ) -> Result<Self, PresetError> {
        let documents = inherits::linearize(source, name)?;
        let defines = define::parse(defines)?;
        let mut settings = Settings::default();
        documents.iter().for_each(|d| settings.overlay(&d.settings));
        documents.iter().filter_map(|d| d.hosts.get(host)).for_each(|s| settings.overlay(s));
        let mut over = settings.clone();
        over.overlay(&defines);
        let target = over.text("build.target").map_or_else(|| triple.to_owned(), |set| set.value);
        documents.iter().filter_map(|d| d.targets.get(&target)).for_each(|s| settings.overlay(s));
        settings.overlay(&defines);
        let identity = documents.last().expect("the preset itself is the last").identity.clone();
        Self::read(identity, host.to_owned(), target, settings)
    }

    fn read(
        identity: Identity,
        host: String,
        target: String,
        settings: Settings,
    ) -> Result<Self, PresetError> {
        let mut faults = PresetError::default();
        let mut keep = |fault: PresetError| faults.extend(fault);
        let executorch = executorch::Executorch::read(&settings).map_err(&mut keep).ok();
        let backend = backend::Backend::read(&settings).map_err(&mut keep).ok();
        let toolchain = toolchain::Toolchain::read(&settings).map_err(&mut keep).ok();
        let build = build::Build::read(&settings).map_err(&mut keep).ok();
        let link = link::Link::read(&settings);
        let package = package::Package::read(&settings);
        match (executorch, backend, toolchain, build) {
            (Some(executorch), Some(backend), Some(toolchain), Some(build)) => Ok(Self {
                identity,
                host,
                target,
                executorch,
                backend,
                toolchain,
                build,
                link,
                package,
                settings,
            }),
            _ => Err(PresetError::new(format!("the preset `{}` is not whole:", identity.name))
                .with(faults)),
        }
    }
}

/// The folder of preset files.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// `presets/` of the workspace at `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }
}

impl Source for Folder {
    fn load(&self, name: &str) -> Result<Option<Document>, PresetError> {
        if name.is_empty() || name.contains(['/', '\\', '.']) {
            return Ok(None);
        }
        let shown = Path::new("presets").join(format!("{name}.toml"));
        match std::fs::read_to_string(self.root.join(&shown)) {
            Ok(text) => Document::parse(&shown, name, &text).map(Some),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(PresetError::new(format!("{}: {e}", shown.display()))),
        }
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join("presets")) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                (path.extension()? == "toml")
                    .then(|| path.file_stem().map(|s| s.to_string_lossy().into_owned()))?
            })
            .collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

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
            let defines: Vec<_> = defines.iter().map(|d| (*d).to_owned()).collect();
            Preset::resolve(self, name, "linux", "x86_64-unknown-linux-gnu", &defines)
                .map_err(|e| e.to_string())
        }

        fn cxx(&self, name: &str, defines: &[&str]) -> (String, String) {
            let cxx = self.resolve(name, defines).unwrap().toolchain.cxx.unwrap();
            (cxx.value, cxx.origin.to_string())
        }
    }

    impl Source for Files {
        fn load(&self, name: &str) -> Result<Option<Document>, PresetError> {
            let path = PathBuf::from(format!("{name}.toml"));
            self.0.get(name).map(|text| Document::parse(&path, name, text)).transpose()
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
    fn options_without_a_source_build_are_refused() {
        let files = Files::new(&[("a", "", WHOLE)]);
        let text = files.resolve("a", &["executorch.options.EXECUTORCH_X=ON"]).unwrap_err();
        insta::assert_snapshot!(text, @r#"
        the preset `a` is not whole:
        -D executorch.options.EXECUTORCH_X=ON: `executorch.options.EXECUTORCH_X` has no effect with `executorch.from = "sdk"`: the SDK is built already; remove it or build ExecuTorch from source
        "#);
    }

    #[test]
    fn the_presets_of_the_repository_resolve_on_every_host() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = Folder::new(root);
        assert!(folder.names().contains(&"metal".to_owned()));
        for name in folder.names().iter().filter(|n| *n != "base") {
            for (host, triple) in
                [("linux", "x86_64-unknown-linux-gnu"), ("macos", "aarch64-apple-darwin")]
            {
                Preset::resolve(&folder, name, host, triple, &[]).unwrap();
            }
        }
        let debug = Preset::resolve(&folder, "metal-debug", "linux", "", &[]).unwrap();
        assert_eq!(debug.build.cargo_folder(), "debug");
        assert_eq!(debug.build.cmake_type(), "Debug");
        assert_eq!(debug.build.profile.origin.to_string(), "presets/metal-debug.toml:8:11");
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        let folder = Folder::new(Path::new("."));
        assert_eq!(folder.load("../Cargo").unwrap(), None);
    }
}
