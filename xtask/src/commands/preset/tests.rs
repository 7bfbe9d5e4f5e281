//! The commands on files of their own.

use std::path::{Path, PathBuf};

use super::*;

/// A preset in a folder of its own, with what the repository has to inherit.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.toml"), text).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mine.toml")
    }

    fn source(&self) -> Loose {
        Loose::new(&Workspace::root().unwrap(), &self.path()).unwrap()
    }

    fn check(&self) -> (Vec<&'static str>, String) {
        let (hosts, faults) = check(&self.source(), &Workspace::root().unwrap());
        (hosts, self.hide(&faults.to_string()))
    }

    fn mend(&self) -> Option<String> {
        let diff = mend(&self.source(), &Workspace::root().unwrap()).unwrap();
        diff.map(|diff| self.hide(&diff))
    }

    fn hide(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "FOLDER")
    }
}

#[test]
fn a_file_anywhere_inherits_what_lies_beside_it_and_the_repositorys() {
    let bench = Bench::new("[preset]\nname = \"mine\"\ninherits = [\"metal\", \"team\"]\n");
    let (hosts, faults) = bench.check();
    assert_eq!(hosts, ["linux", "macos"]);
    assert_eq!(
        faults,
        "FOLDER/mine.toml:3:22: there is no preset `team`; known here: base, host, \
                        ios, ios-simulator, linux-aarch64, llm-metal, macos-cross, metal, \
                        metal-debug, metal-stats, metal-upstream, sanitize"
    );
    let team = "[preset]\nname = \"team\"\n[build]\nprofle = \"dev\"\n";
    std::fs::write(bench.folder.path().join("team.toml"), team).unwrap();
    assert_eq!(
        bench.check().1,
        "FOLDER/team.toml:4:1: unknown key `profle` in `[build]`; did you mean `profile`?"
    );
    std::fs::write(bench.folder.path().join("team.toml"), team.replace("profle", "profile"))
        .unwrap();
    assert_eq!(bench.check().1, "");
}

#[test]
fn missing_requirements_are_written_where_the_option_stands() {
    let bench = Bench::new(concat!(
        "# mine\n[preset]\nname = \"mine\"\ninherits = [\"metal\"]\n\n",
        "[executorch]\nfrom = \"git\"\n\n[executorch.options]\nBUILD_EXTENSION_TRAINING = true\n\n",
        "[host.macos.executorch.options]\nBUILD_EXTENSION_LLM_APPLE = true   # for the app\n",
        "[host.linux.executorch.options]\nENABLE_BUNDLE_IO = true\nBUILD_DEVTOOLS = false\n",
    ));
    insta::assert_snapshot!(bench.check().1, @"
    FOLDER/mine.toml:13:29: `BUILD_EXTENSION_LLM_APPLE` requires `BUILD_EXTENSION_LLM_RUNNER`, `BUILD_EXTENSION_LLM`; set under `[executorch.options]`: BUILD_EXTENSION_LLM_RUNNER = true, BUILD_EXTENSION_LLM = true
    FOLDER/mine.toml:15:20: `ENABLE_BUNDLE_IO` requires `BUILD_DEVTOOLS`; `BUILD_DEVTOOLS` is off at FOLDER/mine.toml:16:18: turn it on, or `ENABLE_BUNDLE_IO` off
    ");
    insta::assert_snapshot!(bench.mend().unwrap(), @"
    --- FOLDER/mine.toml
    +++ FOLDER/mine.toml
    @@ -11,6 +11,8 @@
     
     [host.macos.executorch.options]
     BUILD_EXTENSION_LLM_APPLE = true   # for the app
    +BUILD_EXTENSION_LLM_RUNNER = true
    +BUILD_EXTENSION_LLM = true
     [host.linux.executorch.options]
     ENABLE_BUNDLE_IO = true
     BUILD_DEVTOOLS = false
    ");
    // What somebody has turned off is left to them.
    insta::assert_snapshot!(bench.check().1, @"FOLDER/mine.toml:17:20: `ENABLE_BUNDLE_IO` requires `BUILD_DEVTOOLS`; `BUILD_DEVTOOLS` is off at FOLDER/mine.toml:18:18: turn it on, or `ENABLE_BUNDLE_IO` off");
    assert_eq!(bench.mend(), None, "there is nothing more to mend");
}

#[test]
fn a_file_that_is_no_toml_is_left_as_it_is() {
    let text = "[preset\nname = \"mine\"\n";
    let bench = Bench::new(text);
    assert!(bench.check().1.starts_with("FOLDER/mine.toml:1:8: "), "{}", bench.check().1);
    assert_eq!(bench.mend(), None);
    assert_eq!(std::fs::read_to_string(bench.path()).unwrap(), text);
}

#[test]
fn what_is_no_preset_is_refused() {
    let root = Workspace::root().unwrap();
    let error = |path: &str| Loose::new(&root, Path::new(path)).unwrap_err().to_string();
    assert_eq!(error("/nonexistent/x.toml"), "there is no file /nonexistent/x.toml");
    let readme = root.join("README.md").display().to_string();
    assert_eq!(error(&readme), format!("{readme} is no preset: it is not called NAME.toml"));
}

#[test]
fn a_new_preset_is_good_and_never_overwrites_one() {
    let root = tempfile::tempdir().unwrap();
    let presets = root.path().join("presets");
    std::fs::create_dir(&presets).unwrap();
    let repository = Workspace::root().unwrap().join("presets");
    for name in ["base", "metal"] {
        let name = format!("{name}.toml");
        std::fs::copy(repository.join(&name), presets.join(&name)).unwrap();
    }
    let folder = Folder::new(root.path());
    let new = |name: &str, parent: &str| New {
        name: name.to_owned(),
        inherits: vec![parent.to_owned()],
        description: "With \"quotes\"".to_owned(),
    };
    new("mine", "metal").run(&folder).unwrap();
    insta::assert_snapshot!(std::fs::read_to_string(folder.file("mine")).unwrap(), @r#"
    #:schema ./schema.json
    [preset]
    name = "mine"
    description = 'With "quotes"'
    inherits = ["metal"]
    "#);
    let (_, faults) = check(&Loose::new(root.path(), &folder.file("mine")).unwrap(), root.path());
    assert_eq!(faults.to_string(), "");
    let error = |name, parent| new(name, parent).run(&folder).unwrap_err().to_string();
    assert!(error("mine", "metal").ends_with("mine.toml is there already"));
    assert_eq!(error("m2", "metl"), "there is no preset `metl`; did you mean `metal`?");
    for wrong in ["", "../x", "Mine", "a b"] {
        assert!(error(wrong, "metal").contains("is no name for a preset"), "{wrong}");
    }
}

#[test]
fn the_list_has_a_line_for_each_preset() {
    let folder = Folder::new(&Workspace::root().unwrap());
    let documents = documents(&folder).unwrap();
    let text = list_text(&documents);
    assert_eq!(text.lines().count(), folder.names().len());
    assert!(text.contains("ios-simulator   "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&list_json(&documents).unwrap()).unwrap();
    let entry = json.as_array().unwrap().iter().find(|entry| entry["name"] == "metal-upstream");
    assert_eq!(entry.unwrap()["hosts"], json!(["macos"]));
    assert_eq!(entry.unwrap()["inherits"], json!(["base"]));
}
