//! Whole presets, resolved.

use std::collections::BTreeMap;

use super::*;
use crate::executorch::tree::Remote;
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
            fetched: None,
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
    a.toml:1:2: `executorch.from` is set nowhere; add `from = …` under `[executorch]` to the preset or to one it inherits, or pass `-D executorch.from=…`
    a.toml:1:2: `backend.metal` is set nowhere; add `metal = …` under `[backend]` to the preset or to one it inherits, or pass `-D backend.metal=…`
    a.toml:1:2: `toolchain.generator` is set nowhere; add `generator = …` under `[toolchain]` to the preset or to one it inherits, or pass `-D toolchain.generator=…`
    a.toml:1:2: `build.profile` is set nowhere; add `profile = …` under `[build]` to the preset or to one it inherits, or pass `-D build.profile=…`
    ");
}

#[test]
fn the_presets_of_the_repository_resolve_on_every_host_that_they_name() {
    let root = Workspace::root().unwrap();
    let folder = Folder::new(&root);
    let environment = Environment::default();
    let mut built_somewhere = BTreeMap::new();
    for name in &folder.names() {
        for host in schema::HOSTS {
            let triple = machine::usual_triple(host);
            let context = Context {
                host,
                triple,
                environment: &environment,
                defines: &[],
                root: &root,
                fetched: None,
            };
            match Preset::resolve(&folder, name, &context) {
                Ok(preset) => *built_somewhere.entry(preset.identity.name).or_insert(0) += 1,
                Err(error) => assert!(error.to_string().contains("is built on"), "{error}"),
            }
        }
    }
    insta::assert_debug_snapshot!(built_somewhere, @r#"
    {
        "base": 2,
        "host": 2,
        "ios": 2,
        "ios-simulator": 2,
        "linux-aarch64": 1,
        "llm-metal": 2,
        "macos-cross": 2,
        "metal": 2,
        "metal-debug": 2,
        "metal-stats": 2,
        "metal-upstream": 1,
        "sanitize": 2,
    }
    "#);
}

#[test]
fn names_cannot_leave_the_folder() {
    let folder = Folder::new(Path::new("."));
    assert_eq!(folder.read("../Cargo").unwrap(), None);
}

#[test]
fn the_environment_lies_over_the_files_and_the_command_line_over_both() {
    let overlays = "[target.\"x86_64-unknown-linux-gnu\".toolchain]\ncxx = \"target\"\n";
    let files = Files::new(&[("base", "", WHOLE), ("x", "\"base\"", overlays)]);
    let environment = Environment::default().with("ETMETAL_TOOLCHAIN_CXX", "variable");
    let cxx = |defines: &[&str]| {
        let preset = files.resolve_in("x", defines, &environment).unwrap();
        let cxx = preset.toolchain.cxx.unwrap();
        let over: Vec<_> = preset.settings.overridden("toolchain.cxx").collect();
        let over = over.iter().map(|set| set.origin.to_string()).collect::<Vec<_>>().join(", ");
        format!("{} over {over}", cxx.origin)
    };
    insta::assert_snapshot!(cxx(&[]), @"ETMETAL_TOOLCHAIN_CXX=variable over x.toml:5:7");
    insta::assert_snapshot!(cxx(&["toolchain.cxx=a", "toolchain.cxx=b"]), @"-D toolchain.cxx=b over -D toolchain.cxx=a, ETMETAL_TOOLCHAIN_CXX=variable, x.toml:5:7");
}

#[test]
fn the_target_that_is_built_for_chooses_the_overlay() {
    let overlays = concat!(
        "[build]\ntarget = \"aarch64-unknown-linux-gnu\"\n",
        "[target.aarch64-unknown-linux-gnu.toolchain]\ncxx = \"arm\"\n",
        "[target.x86_64-unknown-linux-gnu.toolchain]\ncxx = \"intel\"\n",
    );
    let files = Files::new(&[("base", "", WHOLE), ("x", "\"base\"", overlays)]);
    let resolved = |defines: &[&str]| {
        let preset = files.resolve("x", defines).unwrap();
        (preset.target, preset.toolchain.cxx.unwrap().value)
    };
    assert_eq!(resolved(&[]), ("aarch64-unknown-linux-gnu".into(), "arm".into()));
    assert_eq!(
        resolved(&["build.target=x86_64-unknown-linux-gnu"]),
        ("x86_64-unknown-linux-gnu".into(), "intel".into())
    );
    let inside = "[target.x86_64-unknown-linux-gnu.build]\ntarget = \"aarch64-apple-darwin\"\n";
    let files = Files::new(&[("x", "", &format!("{WHOLE}{inside}"))]);
    insta::assert_snapshot!(files.resolve("x", &[]).unwrap_err(), @"x.toml:14:10: `build.target` cannot stand in `[target.*]`: it says which of these tables count");
}

#[test]
fn options_are_checked_against_the_sdk_that_is_built_already() {
    let files = Files::new(&[("a", "", WHOLE)]);
    let text = files
        .resolve(
            "a",
            &[
                "executorch.options.BUILD_XNNPACK=ON",
                "executorch.options.BUILD_CUDA=OFF",
                "executorch.options.LOG_LEVEL=info",
                "executorch.options.BUILD_VULKAN=ON",
                "executorch.options.BUILD_SHARED=OFF",
                "executorch.options.EXECUTORCH_BUILD_TESTS=ON",
                "executorch.options.BUILD_TEST=ON",
                "executorch.options.FLATBUFFERS_MAX_ALIGNMENT=ON",
            ],
        )
        .unwrap_err();
    insta::assert_snapshot!(text, @r#"
    -D executorch.options.BUILD_TEST=ON: ExecuTorch 1.5.1 has no option `EXECUTORCH_BUILD_TEST`; did you mean `BUILD_TESTS`?
    -D executorch.options.EXECUTORCH_BUILD_TESTS=ON: `EXECUTORCH_BUILD_TESTS`: options are written without `EXECUTORCH_`, as `BUILD_TESTS = true`
    -D executorch.options.FLATBUFFERS_MAX_ALIGNMENT=ON: `FLATBUFFERS_MAX_ALIGNMENT`: expected a string or a whole number, found true
    -D executorch.options.BUILD_SHARED=OFF: `BUILD_SHARED = false`: the SDK of ExecuTorch 1.5.1 was built with `BUILD_SHARED = ON`; remove it, or build ExecuTorch from source with `executorch.from = "git"`
    -D executorch.options.BUILD_VULKAN=ON: `BUILD_VULKAN = true`: the SDK of ExecuTorch 1.5.1 was built without `BUILD_VULKAN`; remove it, or build ExecuTorch from source with `executorch.from = "git"`
    "#);
}

/// `WHOLE`, but built from source at the commit of nowhere.
fn from_git() -> String {
    WHOLE.replace("\"sdk\"", "\"git\"\nurl = \"u\"\nrev = \"v1.5.1\"")
}

#[test]
fn options_of_a_source_build_are_checked_against_each_other() {
    let options = concat!(
        "[executorch.options]\nBUILD_EXTENSION_MODULE = true\nBUILD_EXTENSION_TENSOR = true\n",
        "BUILD_ARM_BAREMETAL = true\nBUILD_CPUINFO = true\n",
        "ENABLE_DTYPE_SELECTIVE_BUILD = true\n",
        "BUILD_METAL = false\nBUILD_MPS = true\nBUILD_EXTENSION_EVALUE_UTIL = false\n",
    );
    let files = Files::new(&[("a", "", &format!("{}{options}", from_git()))]);
    insta::assert_snapshot!(files.resolve("a", &[]).unwrap_err(), @r#"
    a.toml:18:23: `BUILD_ARM_BAREMETAL` and `BUILD_CPUINFO` cannot both be on; turn one of them off; `BUILD_CPUINFO` is set at a.toml:19:17
    a.toml:20:32: `ENABLE_DTYPE_SELECTIVE_BUILD` requires `SELECT_OPS_MODEL`; set under `[executorch.options]`: SELECT_OPS_MODEL = "…"
    a.toml:21:15: `BUILD_METAL` has to be on for `backend.metal = "etmetal"` (a.toml:10:9); remove the line
    a.toml:22:13: `BUILD_MPS` cannot be on for x86_64-unknown-linux-gnu: only Apple systems have it
    a.toml:23:31: `BUILD_EXECUTOR_RUNNER` requires `BUILD_EXTENSION_EVALUE_UTIL`; `BUILD_EXTENSION_EVALUE_UTIL` is off at a.toml:23:31: turn it on, or `BUILD_EXECUTOR_RUNNER` off
    "#);
}

#[test]
fn platforms_have_limits() {
    let files = Files::new(&[
        ("a", "", WHOLE),
        (
            "git",
            "",
            &format!("{}[executorch.options]\nBUILD_EXTENSION_TENSOR = true\n", from_git()),
        ),
    ]);
    let error = |name: &str, defines: &[&str]| files.resolve(name, defines).unwrap_err();
    insta::assert_snapshot!(error("a", &["build.target=x86_64-apple-darwin"]), @r#"a.toml:5:8: ExecuTorch's SDK cannot be used: there is none for x86_64-apple-darwin; set `executorch.from` to "git" or "source", which builds ExecuTorch for the target"#);
    assert!(files.resolve("a", &["build.target=aarch64-apple-ios"]).is_ok());
    insta::assert_snapshot!(error("git", &["build.target=aarch64-apple-ios"]), @r#"-D build.target=aarch64-apple-ios: aarch64-apple-ios cannot be built on linux; ExecuTorch's sources need Xcode, so a Mac; with `executorch.from = "sdk"`, libetmetal alone is built anywhere"#);
    insta::assert_snapshot!(error("a", &["backend.metal=upstream"]), @r#"
    -D backend.metal=upstream: `backend.metal = "upstream"`: no SDK has ExecuTorch's own Metal delegate; build ExecuTorch from source with `executorch.from = "git"`
    -D backend.metal=upstream: `backend.metal = "upstream"` is for Apple systems only, and the target is x86_64-unknown-linux-gnu; `etmetal` runs there, on CPU cores
    "#);
    insta::assert_snapshot!(error("git", &["backend.metal=upstream"]), @r#"-D backend.metal=upstream: `backend.metal = "upstream"` is for Apple systems only, and the target is x86_64-unknown-linux-gnu; `etmetal` runs there, on CPU cores"#);
    insta::assert_snapshot!(error("a", &["build.target=x86_64-linux"]), @"-D build.target=x86_64-linux: `build.target`: unknown target `x86_64-linux`; known here: x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu, aarch64-apple-darwin, x86_64-apple-darwin, aarch64-apple-ios, aarch64-apple-ios-sim");
    let apple =
        ["toolchain.deployment_target=14.0", "link.frameworks=Metal", "link.openmp=homebrew"];
    insta::assert_snapshot!(error("a", &apple), @r#"
    -D toolchain.deployment_target=14.0: `toolchain.deployment_target` has no effect for the target x86_64-unknown-linux-gnu; move it to `[host.macos.toolchain]` or `[target."aarch64-apple-darwin".toolchain]`
    -D link.frameworks=Metal: `link.frameworks` has no effect for the target x86_64-unknown-linux-gnu; move it to `[host.macos.link]` or `[target."aarch64-apple-darwin".link]`
    -D link.openmp=homebrew: there is no Homebrew to look at on linux; use "auto", or the path of the library
    "#);
    let hosts = "hosts = [\"macos\", \"windows\"]\n";
    let files = Files::new(&[("a", "", &format!("{hosts}{WHOLE}"))]);
    insta::assert_snapshot!(files.resolve("a", &[]).unwrap_err(), @"
    a.toml:4:10: the preset `a` is built on macos, and this is linux
    a.toml:4:19: unknown host `windows`; known here: linux, macos
    ");
}

#[test]
fn options_of_a_source_tree_are_those_that_it_declares() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("executorch");
    let error = |context: &str| {
        let defines = [
            format!("executorch.path={}", tree.display()),
            "executorch.from=source".to_owned(),
            "executorch.options.NEW_ONE=3".to_owned(),
            "executorch.options.BUILD_XNNPACK=ON".to_owned(),
        ];
        let defines: Vec<_> = defines.iter().map(String::as_str).collect();
        let files = Files::new(&[("a", "", WHOLE)]);
        let error = files.resolve("a", &defines).err().unwrap_or_else(|| context.to_owned());
        error.replace(&folder.path().display().to_string(), "FOLDER")
    };
    insta::assert_snapshot!(error(""), @"-D executorch.path=FOLDER/executorch: `executorch.path`: there is no folder FOLDER/executorch; name a checkout of ExecuTorch with its submodules");
    let presets = tree.join("tools/cmake/preset");
    std::fs::create_dir_all(&presets).unwrap();
    insta::assert_snapshot!(error(""), @"-D executorch.path=FOLDER/executorch: `executorch.path`: FOLDER/executorch is no checkout of ExecuTorch 1.5 or newer: it lacks tools/cmake/preset/default.cmake; name a checkout of ExecuTorch with its submodules");
    let file = presets.join("default.cmake");
    std::fs::write(&file, "if(A)\n").unwrap();
    insta::assert_snapshot!(error(""), @"-D executorch.path=FOLDER/executorch: `executorch.path`: cannot make sense of FOLDER/executorch/tools/cmake/preset/default.cmake: line 1: the end of this `if` is missing; name a checkout of ExecuTorch with its submodules");
    std::fs::write(
        &file,
        concat!(
            "define_overridable_option(EXECUTORCH_NEW_ONE \"\" BOOL OFF)\n",
            "define_overridable_option(EXECUTORCH_BUILD_METAL \"\" BOOL OFF)\n",
            "define_overridable_option(EXECUTORCH_TENSOR \"\" BOOL OFF)\n",
            "check_required_options_on(IF_ON EXECUTORCH_BUILD_METAL REQUIRES EXECUTORCH_TENSOR)\n",
        ),
    )
    .unwrap();
    insta::assert_snapshot!(error(""), @"
    a.toml:8:9: `backend.metal` requires `TENSOR` (FOLDER/executorch/tools/cmake/preset/default.cmake:4); set under `[executorch.options]`: TENSOR = true
    -D executorch.options.BUILD_XNNPACK=ON: FOLDER/executorch/tools/cmake/preset/default.cmake has no option `EXECUTORCH_BUILD_XNNPACK`
    -D executorch.options.NEW_ONE=3: `NEW_ONE`: expected true or false, found 3
    ");
    let extra = "set_overridable_option(EXECUTORCH_BUILD_XNNPACK ON)\n";
    std::fs::write(presets.join("llm.cmake"), extra).unwrap();
    insta::assert_snapshot!(error(""), @"
    a.toml:8:9: `backend.metal` requires `TENSOR` (FOLDER/executorch/tools/cmake/preset/default.cmake:4); set under `[executorch.options]`: TENSOR = true
    -D executorch.options.NEW_ONE=3: `NEW_ONE`: expected true or false, found 3
    ");
}

#[test]
fn a_revision_that_is_fetched_says_which_options_it_has() {
    let fetched = tempfile::tempdir().unwrap();
    let options = "[executorch.options]\nBUILD_EXTENSION_NEW = true\n";
    let text = from_git().replace("v1.5.1", "main") + options;
    let files = Files::new(&[("a", "", &text)]);
    let environment = Environment::default();
    let error = || {
        let context = Context {
            host: "linux",
            triple: "x86_64-unknown-linux-gnu",
            environment: &environment,
            defines: &[],
            root: Path::new("."),
            fetched: Some(fetched.path()),
        };
        let error = Preset::resolve(&files, "a", &context).err();
        error.map_or(String::new(), |e| e.to_string())
    };
    assert_eq!(error(), "", "nobody knows yet which options `main` has");
    let remote = Remote { url: "u".into(), rev: "main".into() };
    let presets = remote.tree(fetched.path()).join("tools/cmake/preset");
    std::fs::create_dir_all(&presets).unwrap();
    insta::assert_snapshot!(error().replace(&fetched.path().display().to_string(), "FETCHED"), @"a.toml:7:7: `executorch.rev`: FETCHED/main-b1a5406a/executorch is no checkout of ExecuTorch 1.5 or newer: it lacks tools/cmake/preset/default.cmake; this needs ExecuTorch 1.5 or newer");
    let define = "define_overridable_option(EXECUTORCH_BUILD_EXTENSION_NEWS \"\" BOOL OFF)\n";
    std::fs::write(presets.join("default.cmake"), define).unwrap();
    insta::assert_snapshot!(error(), @"a.toml:16:23: ExecuTorch main has no option `EXECUTORCH_BUILD_EXTENSION_NEW`; did you mean `BUILD_EXTENSION_NEWS`?");
}

#[test]
fn seven_mistakes_are_seven_messages_each_with_its_line() {
    let files = Files::new(&[
        ("base", "", WHOLE),
        (
            "seven",
            "\"base\", \"metall\"",
            concat!(
                "[executorch]\nfrom = \"git\"\nurl = 7\nrev = \"v1.5.1\"\n",
                "[executorch.options]\nBUILD_EXTENSION_TENSOR = true\n",
                "BUILD_EXTENSION_LLM_RUNNER = true\nBUILD_XNPACK = true\n",
                "[toolchain]\ngenrator = \"Ninja\"\n",
                "[host.linus.build]\nprofile = \"dev\"\n",
                "[link]\nopenmp = \"homebrew\"\n",
            ),
        ),
    ]);
    let environment = Environment::default();
    let triple = "x86_64-unknown-linux-gnu";
    let root = Path::new(".");
    let context = Context {
        host: "linux",
        triple,
        environment: &environment,
        defines: &[],
        root,
        fetched: None,
    };
    let error = Preset::resolve(&files, "seven", &context).unwrap_err();
    assert_eq!(error.faults().len(), 7, "{error}");
    assert!(error.faults().iter().all(|fault| fault.origin.is_some()));
    insta::assert_snapshot!(error.render(false));
}

#[test]
fn what_is_shown_is_toml_of_the_same_settings() {
    let root = Workspace::root().unwrap();
    let folder = Folder::new(&root);
    let environment = Environment::default();
    for (name, host) in [("macos-cross", "linux"), ("ios", "macos"), ("sanitize", "linux")] {
        let triple = machine::usual_triple(host);
        let context = Context {
            host,
            triple,
            environment: &environment,
            defines: &[],
            root: &root,
            fetched: None,
        };
        let preset = Preset::resolve(&folder, name, &context).unwrap();
        for explain in [false, true] {
            let text = show::text(&preset, explain);
            let text = format!("[preset]\nname = \"x\"\n{text}");
            let path = PathBuf::from("x.toml");
            let (document, faults) = Document::parse(&SourceFile { path, text }.into(), "x");
            assert_eq!(faults.to_string(), "");
            let values = |settings: &Settings| {
                settings.iter().map(|(k, v)| (k.to_owned(), v.value.clone())).collect::<Vec<_>>()
            };
            assert_eq!(values(&document.settings), values(&preset.settings), "{name}");
        }
    }
}

/// The presets of the repository, as they are seen on each kind of machine.
#[test]
fn every_preset_explains_itself() {
    let root = Workspace::root().unwrap();
    let folder = Folder::new(&root);
    let environment = Environment::default();
    for name in folder.names() {
        for host in schema::HOSTS {
            let triple = machine::usual_triple(host);
            let context = Context {
                host,
                triple,
                environment: &environment,
                defines: &[],
                root: &root,
                fetched: None,
            };
            let text = match Preset::resolve(&folder, &name, &context) {
                Ok(preset) => show::text(&preset, true),
                Err(error) => error.render(false),
            };
            insta::assert_snapshot!(format!("explain_{name}_{host}"), text);
        }
    }
}

#[test]
fn programs_read_settings_with_their_origins() {
    let files = Files::new(&[("base", "", WHOLE), ("x", "\"base\"", &cxx("g++"))]);
    let environment = Environment::default().with("ETMETAL_BUILD_FEATURES", "a,b");
    let preset = files.resolve_in("x", &["toolchain.cxx=clang++"], &environment).unwrap();
    let json = show::json(&preset);
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["settings"]["toolchain.cxx"]).unwrap(), @r#"
    {
      "origin": {
        "command_line": "toolchain.cxx=clang++"
      },
      "overrides": [
        {
          "origin": {
            "column": 7,
            "file": "x.toml",
            "line": 5
          },
          "value": "g++"
        }
      ],
      "value": "clang++"
    }
    "#);
    insta::assert_snapshot!(json["settings"]["build.features"]["origin"].to_string(), @r#"{"environment":"ETMETAL_BUILD_FEATURES=a,b"}"#);
}
