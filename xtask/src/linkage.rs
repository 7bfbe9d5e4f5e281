//! How things are linked, as flags for the compiler that drives the linker: from the target and
//! the preset, and from nothing else.
//!
//! A model binds to `aoti_torch_*` of whatever it is loaded into, by name and at run time. So
//! these names have to be exported, exactly they and no others, from libetmetal or from the
//! program that has the backend inside; and no linker may drop them because no code calls them.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::audit::image::{Format, OsVersion};
use crate::audit::shim;
use crate::audit::target::Target;
use crate::preset::Preset;
use crate::preset::link::Link;
use crate::process::quote;

/// A framework that the delegate uses, with the systems that brought it.
struct Framework {
    name: &'static str,
    macos: OsVersion,
    ios: OsVersion,
}

/// What the delegate itself uses. The system's default device needs CoreGraphics on macOS.
const FRAMEWORKS: [Framework; 5] = [
    Framework { name: "CoreGraphics", macos: OsVersion(10, 8, 0), ios: OsVersion(2, 0, 0) },
    Framework { name: "Foundation", macos: OsVersion(10, 0, 0), ios: OsVersion(2, 0, 0) },
    Framework { name: "Metal", macos: OsVersion(10, 11, 0), ios: OsVersion(8, 0, 0) },
    Framework {
        name: "MetalPerformanceShaders",
        macos: OsVersion(10, 13, 0),
        ios: OsVersion(9, 0, 0),
    },
    Framework {
        name: "MetalPerformanceShadersGraph",
        macos: OsVersion(11, 0, 0),
        ios: OsVersion(14, 0, 0),
    },
];

/// The names of the frameworks that the delegate uses.
pub fn framework_names() -> impl Iterator<Item = &'static str> {
    FRAMEWORKS.iter().map(|framework| framework.name)
}

/// What is to be linked.
#[derive(Debug, Clone)]
pub struct Linkage<'a> {
    /// For what.
    pub target: &'a Target,
    /// The oldest Apple system that is promised.
    pub deployment_target: Option<OsVersion>,
    /// `[link]` of the preset.
    pub link: &'a Link,
    /// Further folders in which libraries are looked for: that of OpenMP.
    pub rpaths: &'a [String],
}

impl<'a> Linkage<'a> {
    /// As `preset` wants it.
    pub fn new(target: &'a Target, preset: &'a Preset, rpaths: &'a [String]) -> Self {
        let oldest = preset.toolchain.deployment_target.as_ref();
        let deployment_target = oldest.and_then(|oldest| OsVersion::parse(&oldest.value));
        // Only Apple systems are promised by that.
        let deployment_target = deployment_target.filter(|_| target.format == Format::MachO);
        Self { target, deployment_target, link: &preset.link, rpaths }
    }

    fn apple(&self) -> bool {
        self.target.format == Format::MachO
    }

    /// Flags for a shared library of this file name that exports what the file `exports` lists
    /// (see [`export_list`]).
    pub fn shared_library(&self, file: &str, exports: &Path) -> Vec<String> {
        if !self.apple() {
            let mut flags = vec![
                format!("-Wl,-soname,{file}"),
                format!("-Wl,--version-script={}", exports.display()),
            ];
            flags.extend(self.rpath_flags());
            return flags;
        }
        let mut flags = vec![
            format!("-Wl,-install_name,@rpath/{file}"),
            format!("-Wl,-exported_symbols_list,{}", exports.display()),
        ];
        flags.extend(self.apple_flags());
        flags
    }

    /// Settings for `runtime/CMakeLists.txt`, which links libetmetal; it knows the usual ones. The
    /// list of exports has to be at `exports` where [`Linkage::writes_exports`].
    pub fn cmake_definitions(&self, exports: &Path) -> Vec<(&'static str, String)> {
        let mut definitions = Vec::new();
        if self.writes_exports() {
            definitions.push(("ETMETAL_EXPORTS", exports.display().to_string()));
        }
        if self.apple() {
            // CMake itself tells the linker the install name.
            let flags = self.shared_library("libetmetal.dylib", exports);
            let flags: Vec<_> =
                flags.into_iter().filter(|flag| !flag.contains("install_name,")).collect();
            definitions.push(("ETMETAL_LINK_OPTIONS", flags.join(";")));
        } else if !self.link.rpaths.is_empty() {
            definitions.push(("ETMETAL_RPATHS", self.link.rpaths.join(";")));
        }
        definitions
    }

    /// Whether the list of exports that lies beside `runtime/CMakeLists.txt` is not enough.
    pub fn writes_exports(&self) -> bool {
        self.apple() || !self.link.export.is_empty()
    }

    /// Flags for a program that has the backend inside, so that models find it there.
    pub fn program(&self, exports: &Path) -> Vec<String> {
        if !self.apple() {
            let patterns = shim::PATTERNS.iter().copied();
            let patterns = patterns.chain(self.link.export.iter().map(String::as_str));
            let mut flags: Vec<_> =
                patterns.map(|name| format!("-Wl,--export-dynamic-symbol={name}")).collect();
            flags.extend(self.rpath_flags());
            return flags;
        }
        let mut flags = vec![
            // Keeps what only models call; the list then says what of it is seen.
            "-Wl,-export_dynamic".to_owned(),
            format!("-Wl,-exported_symbols_list,{}", exports.display()),
        ];
        flags.extend(self.apple_flags());
        flags
    }

    /// Flags that link the whole of an archive, because nothing calls what registers itself.
    pub fn whole_archive(&self, archive: &Path) -> Vec<String> {
        let archive = archive.display();
        if self.apple() {
            return vec![format!("-Wl,-force_load,{archive}")];
        }
        vec![format!("-Wl,--whole-archive,{archive},--no-whole-archive")]
    }

    /// Frameworks that are linked, and whether each may be missing at run time.
    pub fn frameworks(&self) -> Vec<(String, bool)> {
        if !self.apple() {
            return Vec::new();
        }
        let macos = self.target.platform == Some("macOS");
        let newer = |framework: &Framework| {
            let since = if macos { framework.macos } else { framework.ios };
            self.deployment_target.is_some_and(|oldest| oldest < since)
        };
        let weak = &self.link.weak_frameworks;
        let mut all: Vec<(String, bool)> = FRAMEWORKS
            .iter()
            .map(|f| (f.name.to_owned(), newer(f) || weak.iter().any(|name| name == f.name)))
            .collect();
        let more = self.link.frameworks.iter().map(|name| (name.clone(), false));
        let more = more.chain(weak.iter().map(|name| (name.clone(), true)));
        for (name, weak) in more {
            if !all.iter().any(|(known, _)| *known == name) {
                all.push((name, weak));
            }
        }
        all
    }

    fn apple_flags(&self) -> Vec<String> {
        let mut flags = self.rpath_flags();
        for (name, weak) in self.frameworks() {
            // In one word: CMake drops words that repeat.
            let kind = if weak { "weak_framework" } else { "framework" };
            flags.push(format!("-Wl,-{kind},{name}"));
        }
        flags.push("-lobjc".to_owned());
        flags.push("-Wl,-dead_strip".to_owned());
        // Room for `cargo xtask audit --fix` and install_name_tool.
        flags.push("-Wl,-headerpad_max_install_names".to_owned());
        flags
    }

    /// Every folder once: new systems refuse files that name one twice.
    fn rpath_flags(&self) -> Vec<String> {
        let own = if self.apple() { "@loader_path" } else { "$ORIGIN" };
        let mut rpaths = vec![own];
        for rpath in self.link.rpaths.iter().chain(self.rpaths) {
            if !rpaths.contains(&rpath.as_str()) {
                rpaths.push(rpath);
            }
        }
        rpaths.iter().map(|rpath| format!("-Wl,-rpath,{rpath}")).collect()
    }
}

/// The list of exports as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportList {
    /// Where.
    pub file: PathBuf,
    /// For which linker.
    pub target: Target,
    /// Further names.
    pub more: Vec<String>,
}

impl ExportList {
    /// Writes the file, unless it is the same already: what is linked with it depends on its age.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn write(&self) -> Result<()> {
        let text = export_list(&self.target, &self.more);
        if std::fs::read_to_string(&self.file).is_ok_and(|old| old == text) {
            return Ok(());
        }
        crate::audit::stage::write(&self.file, &text)
    }
}

impl fmt::Display for ExportList {
    /// The same as a command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cargo xtask symbols --target {}", self.target.triple)?;
        self.more.iter().try_for_each(|name| write!(f, " {}", quote(name.as_ref())))?;
        write!(f, " > {}", quote(self.file.as_os_str()))
    }
}

/// The list of what libetmetal exports, as the target's linker reads it: the names themselves for
/// Apple's, a version script for ELF. `more` are further names, in which `*` stands for any text.
pub fn export_list(target: &Target, more: &[String]) -> String {
    let names = shim::libetmetal_symbols();
    let names = names.into_iter().chain(more.iter().map(String::as_str));
    if target.format == Format::MachO {
        // The linker knows C's names with an underscore in front.
        return names.map(|name| format!("_{name}\n")).collect();
    }
    let names: String = names.map(|name| format!("    {name};\n")).collect();
    format!("{{\n  global:\n{names}  local:\n    *;\n}};\n")
}

#[cfg(test)]
mod lto;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::machine::Machine;
    use crate::audit::{Expectation, audit, report};
    use crate::preset::Settings;
    use crate::testing::{Lab, MAC};

    fn link() -> Link {
        Link {
            frameworks: vec!["Accelerate".into()],
            weak_frameworks: vec!["CoreML".into(), "Metal".into()],
            export: vec!["mine_*".into()],
            rpaths: vec!["/opt/mine".into(), "@loader_path".into()],
            ..Link::read(&Settings::default())
        }
    }

    fn flags(triple: &str, oldest: &str, link: &Link) -> String {
        let target = Target::parse(triple).unwrap();
        let linkage = Linkage {
            target: &target,
            deployment_target: OsVersion::parse(oldest),
            link,
            rpaths: &["/opt/homebrew/opt/libomp/lib".to_owned()],
        };
        let file = if linkage.apple() { "libetmetal.dylib" } else { "libetmetal.so" };
        let library = linkage.shared_library(file, Path::new("exports"));
        let program = linkage.program(Path::new("exports"));
        let whole = linkage.whole_archive(Path::new("libx.a"));
        format!(
            "library: {}\nprogram: {}\nwhole: {}",
            library.join(" "),
            program.join(" "),
            whole.join(" ")
        )
    }

    #[test]
    fn flags_follow_from_target_and_preset() {
        insta::assert_snapshot!("macos", flags("aarch64-apple-darwin", "14.0", &link()));
        insta::assert_snapshot!("ios", flags("aarch64-apple-ios", "13.0", &link()));
        insta::assert_snapshot!("linux", flags("x86_64-unknown-linux-gnu", "", &link()));
    }

    #[test]
    fn cmake_is_told_what_it_does_not_know() {
        let target = Target::parse("x86_64-unknown-linux-gnu").unwrap();
        let usual = Link::read(&Settings::default());
        let mut linkage =
            Linkage { target: &target, deployment_target: None, link: &usual, rpaths: &[] };
        assert_eq!(linkage.cmake_definitions(Path::new("exports")), []);
        let more = link();
        linkage.link = &more;
        let told = linkage.cmake_definitions(Path::new("exports"));
        let exports = ("ETMETAL_EXPORTS", "exports".to_owned());
        assert_eq!(told, [exports, ("ETMETAL_RPATHS", "/opt/mine;@loader_path".to_owned())]);
        let apple = Target::parse("aarch64-apple-darwin").unwrap();
        linkage.target = &apple;
        let options = &linkage.cmake_definitions(Path::new("exports"))[1].1;
        assert!(options.starts_with("-Wl,-exported_symbols_list,exports;"), "{options}");
        assert!(!options.contains("-install_name"), "{options}");
    }

    #[test]
    fn the_list_of_exports_is_exact() {
        let apple = Target::parse("aarch64-apple-darwin").unwrap();
        let list = export_list(&apple, &["mine_*".to_owned()]);
        assert!(list.contains("_aoti_torch_mps_mm_out\n") && list.ends_with("_mine_*\n"));
        assert!(!list.contains("_aoti_torch_*"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x/exports");
        let written = ExportList { file: file.clone(), target: apple, more: vec!["mine_*".into()] };
        written.write().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), list);
        let age = || std::fs::metadata(&file).unwrap().modified().unwrap();
        let before = age();
        written.write().unwrap();
        assert_eq!(age(), before);
        let shown = written.to_string().replace(&folder.path().display().to_string(), "ROOT");
        let command = "cargo xtask symbols --target aarch64-apple-darwin 'mine_*' > ROOT/x/exports";
        assert_eq!(shown, command);
        let linux = Target::parse("x86_64-unknown-linux-gnu").unwrap();
        let script = export_list(&linux, &[]);
        assert!(script.contains("    etmetal_module_load;\n") && script.ends_with("*;\n};\n"));
    }

    /// The C++ of a library that has everything that is exported, and something else.
    fn everything() -> String {
        let names = shim::libetmetal_symbols();
        let all = names.iter().map(|name| format!("extern \"C\" void {name}() {{}}\n"));
        all.collect::<String>() + "extern \"C\" void stray() {}\n"
    }

    #[test]
    fn what_is_linked_for_macs_passes_the_audit() {
        let lab = Lab::new();
        let target = Target::parse("aarch64-apple-darwin").unwrap();
        let preset =
            Link { weak_frameworks: vec!["Metal".into()], ..Link::read(&Settings::default()) };
        let linkage = Linkage {
            target: &target,
            deployment_target: OsVersion::parse("14.0"),
            link: &preset,
            rpaths: &[],
        };
        let exports = lab.at("exports");
        std::fs::write(&exports, export_list(&target, &[])).unwrap();
        // Registration that nothing calls, in an archive of its own.
        let object = lab.apple(MAC, "r.o", &everything(), &["-c"]);
        let archive = lab.at("libr.a");
        let object = std::fs::read(object).unwrap();
        std::fs::write(&archive, crate::testing::archive(&[("r.o", object)], &["_stray"])).unwrap();
        let uses = "extern \"C\" void* MTLCreateSystemDefaultDevice(); void* f() { return MTLCreateSystemDefaultDevice(); }";

        let mut flags = linkage.shared_library("libetmetal.dylib", &exports);
        flags.extend(linkage.whole_archive(&archive));
        let library: Vec<_> =
            ["-dynamiclib"].into_iter().chain(flags.iter().map(String::as_str)).collect();
        let library = lab.apple(MAC, "libetmetal.dylib", uses, &library);

        let mut flags = linkage.program(&exports);
        flags.extend(linkage.whole_archive(&archive));
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let program = lab.apple(MAC, "program", "int main() {}", &flags);

        let expected = Expectation {
            target: Some(target.clone()),
            minimum_os: OsVersion::parse("14.0"),
            exports: crate::audit::Exports::Everything,
            ..Expectation::default()
        };
        let found = audit(&[library, program], &expected, &Machine::current()).unwrap();
        let table = report::table(&found, true);
        assert!(found.is_good() && !table.contains("stray"), "{table}");
        for file in &found.files {
            let image = &file.pieces[0].image;
            let metal = image.libraries.iter().find(|l| l.name.ends_with("/Metal")).unwrap();
            let foundation = image.libraries.iter().find(|l| l.name.ends_with("/Foundation"));
            assert!(metal.weak && !foundation.unwrap().weak, "{:?}", image.libraries);
            assert_eq!(image.rpaths, ["@loader_path"]);
            let exported = shim::libetmetal_symbols().len();
            // A program exports the mark of its header besides.
            let all = image.exports.iter().filter(|name| *name != "_mh_execute_header").count();
            assert_eq!(all, exported, "{table}");
        }
        assert_eq!(found.files[0].pieces[0].image.name.as_deref(), Some("@rpath/libetmetal.dylib"));
    }
}
