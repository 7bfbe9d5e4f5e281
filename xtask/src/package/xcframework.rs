//! `etmetal.xcframework`, with a slice for each of Apple's systems, and the Swift package that
//! names it.

use anyhow::{Context as _, Result, bail};

use super::VERSION;
use super::target::{Kind, TARGETS, Target};
use super::tree::Tree;
use crate::audit::image::OsVersion;
use crate::linkage;

/// The archive's file name.
pub fn name() -> String {
    format!("etmetal-{VERSION}.xcframework.zip")
}

/// The folder inside.
const FRAMEWORK: &str = "etmetal.xcframework";

/// The library of each slice: the delegate without the runner, to be linked with ExecuTorch.
const LIBRARY: &str = "libetmetal.a";

/// The header that Swift and Objective-C see: that of the functions which are in the library.
const HEADER: &str = "etmetal_delegate.h";

/// Where it lies, with the module map: Xcode puts the headers of all frameworks into one folder,
/// where a module map has to be in that of its module.
const HEADERS: &str = "Headers/etmetal";

/// One system's build.
#[derive(Debug)]
pub struct Slice<'a> {
    /// For what.
    pub target: &'static Target,
    /// What was built, as it is shipped.
    pub stage: &'a Tree,
    /// The oldest system that is promised.
    pub minimum_os: Option<OsVersion>,
}

/// What Xcode has to know of a slice's system.
struct System {
    platform: &'static str,
    variant: Option<&'static str>,
}

impl Slice<'_> {
    fn system(&self) -> Result<System> {
        let (platform, variant) = match self.target.name {
            "macos-arm64" => ("macos", None),
            "ios-arm64" => ("ios", None),
            "ios-arm64-simulator" => ("ios", Some("simulator")),
            other => bail!("{other} is no slice of an xcframework"),
        };
        Ok(System { platform, variant })
    }

    /// A file of the stage.
    fn file(&self, path: &str) -> Result<&[u8]> {
        let member = self.stage.get(path);
        let of = self.target.name;
        Ok(member.with_context(|| format!("the stage for {of} has no {path}"))?.bytes())
    }
}

/// The members: `licences`, and a folder for each slice, with its library, header, module map and
/// privacy manifest.
///
/// # Errors
/// A slice lacks its library or the header.
pub fn tree(slices: &[Slice<'_>], licences: &Tree) -> Result<Tree> {
    let mut tree = licences.clone().within(FRAMEWORK);
    let mut libraries = Vec::new();
    for slice in slices {
        let folder = format!("{FRAMEWORK}/{}", slice.target.name);
        tree.file(format!("{folder}/{LIBRARY}"), slice.file(&format!("lib/{LIBRARY}"))?);
        let header = slice.file(&format!("include/{HEADER}"))?;
        tree.file(format!("{folder}/{HEADERS}/{HEADER}"), header);
        tree.file(format!("{folder}/{HEADERS}/module.modulemap"), module_map());
        tree.file(format!("{folder}/PrivacyInfo.xcprivacy"), PRIVACY);
        libraries.push(entry(slice)?);
    }
    tree.file(format!("{FRAMEWORK}/Info.plist"), info(&libraries));
    Ok(tree)
}

/// What is missing in a framework with the slices of `targets`, in words; nothing where none is
/// made of them.
pub fn missing(targets: &[&Target]) -> Option<String> {
    if !targets.iter().any(|target| target.kind == Kind::Slice) {
        return None;
    }
    let all = TARGETS.iter().filter(|target| target.is_apple());
    let missing: Vec<_> = all.filter(|t| !targets.contains(t)).map(|t| t.name).collect();
    let names = missing.join(" and ");
    (!missing.is_empty()).then(|| format!("{} has no slice {names}: not asked for", name()))
}

/// The module, with what an application that imports it links besides.
fn module_map() -> String {
    let frameworks =
        linkage::framework_names().map(|name| format!("    link framework \"{name}\"\n"));
    let frameworks: String = frameworks.collect();
    format!(
        "module etmetal {{\n    header \"{HEADER}\"\n    export *\n{frameworks}    \
         link \"c++\"\n    link \"objc\"\n}}\n"
    )
}

/// What the library does that Apple asks about: it reads the times of files for its cache of
/// kernels and the clock since the start for its statistics, and collects nothing.
const PRIVACY: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>NSPrivacyTracking</key>
	<false/>
	<key>NSPrivacyTrackingDomains</key>
	<array/>
	<key>NSPrivacyCollectedDataTypes</key>
	<array/>
	<key>NSPrivacyAccessedAPITypes</key>
	<array>
		<dict>
			<key>NSPrivacyAccessedAPIType</key>
			<string>NSPrivacyAccessedAPICategoryFileTimestamp</string>
			<key>NSPrivacyAccessedAPITypeReasons</key>
			<array>
				<string>C617.1</string>
			</array>
		</dict>
		<dict>
			<key>NSPrivacyAccessedAPIType</key>
			<string>NSPrivacyAccessedAPICategorySystemBootTime</string>
			<key>NSPrivacyAccessedAPITypeReasons</key>
			<array>
				<string>35F9.1</string>
			</array>
		</dict>
	</array>
</dict>
</plist>
"#;

/// A slice, as the property list has it.
fn entry(slice: &Slice<'_>) -> Result<String> {
    let System { platform, variant } = slice.system()?;
    let mut pairs = vec![
        ("BinaryPath", LIBRARY),
        ("HeadersPath", "Headers"),
        ("LibraryIdentifier", slice.target.name),
        ("LibraryPath", LIBRARY),
        ("SupportedPlatform", platform),
    ];
    pairs.extend(variant.map(|variant| ("SupportedPlatformVariant", variant)));
    pairs.sort_unstable();
    let mut text = String::from("\t\t<dict>\n");
    for (key, value) in pairs {
        text += &format!("\t\t\t<key>{key}</key>\n\t\t\t<string>{value}</string>\n");
    }
    text +=
        "\t\t\t<key>SupportedArchitectures</key>\n\t\t\t<array>\n\t\t\t\t<string>arm64</string>\n";
    Ok(text + "\t\t\t</array>\n\t\t</dict>\n")
}

fn info(libraries: &[String]) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n<dict>\n\t<key>AvailableLibraries</key>\n\t<array>\n{}\t</array>\n\
         \t<key>CFBundlePackageType</key>\n\t<string>XFWK</string>\n\
         \t<key>XCFrameworkFormatVersion</key>\n\t<string>1.0</string>\n</dict>\n</plist>\n",
        libraries.concat()
    )
}

/// `Package.swift` of a release: where the archive is, and what it hashes to.
pub fn swift_package(slices: &[Slice<'_>], repository: &str, checksum: &str) -> String {
    let mut platforms: Vec<String> = Vec::new();
    for slice in slices.iter().filter(|slice| slice.target.name != "ios-arm64-simulator") {
        let system = if slice.target.name == "macos-arm64" { "macOS" } else { "iOS" };
        if let Some(oldest) = slice.minimum_os {
            platforms.push(format!(".{system}(\"{oldest}\")"));
        }
    }
    format!(
        "// swift-tools-version: 5.9\nimport PackageDescription\n\nlet package = Package(\n    \
         name: \"etmetal\",\n    platforms: [{}],\n    products: [\n        .library(name: \
         \"etmetal\", targets: [\"etmetal\"])\n    ],\n    targets: [\n        .binaryTarget(\n            \
         name: \"etmetal\",\n            url: \"{repository}/releases/download/v{VERSION}/{}\",\n            \
         checksum: \"{checksum}\"\n        )\n    ]\n)\n",
        platforms.join(", "),
        name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, MAC};

    fn stage() -> Tree {
        let mut stage = Tree::default();
        stage.file("lib/libetmetal.a", "library");
        stage.file("lib/libetmetal.dylib", "with the runner");
        let header = include_str!("../../../runtime/cpp/etmetal_delegate.h");
        stage.file("include/etmetal_delegate.h", header);
        stage
    }

    fn slice<'a>(name: &str, stage: &'a Tree, oldest: &str) -> Slice<'a> {
        let target = Target::named(name).unwrap();
        Slice { target, stage, minimum_os: OsVersion::parse(oldest) }
    }

    #[test]
    fn each_system_has_its_folder_and_its_entry() {
        let stage = stage();
        let slices = [
            slice("macos-arm64", &stage, "14.0"),
            slice("ios-arm64", &stage, "17.0"),
            slice("ios-arm64-simulator", &stage, "17.0"),
        ];
        let mut licences = Tree::default();
        licences.file("LICENSE-MIT", "as you like");
        let tree = tree(&slices, &licences).unwrap();
        let paths: Vec<_> = tree.iter().map(|(path, _)| path).collect();
        insta::assert_snapshot!("members", paths.join("\n"));
        let plist = tree.get("etmetal.xcframework/Info.plist").unwrap().bytes();
        let plist = roxmltree::Document::parse_with_options(
            std::str::from_utf8(plist).unwrap(),
            roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
        )
        .unwrap();
        let strings: Vec<_> = plist
            .descendants()
            .filter(|node| node.has_tag_name("string"))
            .filter_map(|node| node.text())
            .collect();
        for text in ["macos-arm64", "ios-arm64", "ios-arm64-simulator", "simulator", "XFWK"] {
            assert!(strings.contains(&text), "{text}: {strings:?}");
        }
        let swift = swift_package(&slices, "https://example.org/e", "c0ffee");
        insta::assert_snapshot!("swift_package", swift.replace(VERSION, "V"));
    }

    #[test]
    fn slices_that_nobody_asked_for_are_told() {
        let missing = |names: &[&str]| {
            let targets: Vec<_> = names.iter().map(|name| Target::named(name).unwrap()).collect();
            missing(&targets).map(|text| text.replace(VERSION, "V"))
        };
        assert_eq!(missing(&["linux-x86_64", "macos-arm64"]), None, "there is no framework");
        assert_eq!(missing(&["macos-arm64", "ios-arm64", "ios-arm64-simulator"]), None);
        insta::assert_snapshot!(missing(&["macos-arm64", "ios-arm64"]).unwrap(), @"etmetal-V.xcframework.zip has no slice ios-arm64-simulator: not asked for");
    }

    #[test]
    fn a_stage_without_library_or_header_is_named() {
        let mut lacking = stage();
        lacking.remove("include/etmetal_delegate.h");
        let none = Tree::default();
        let error = |stage: &Tree| {
            tree(&[slice("ios-arm64", stage, "17.0")], &none).unwrap_err().to_string()
        };
        assert_eq!(error(&lacking), "the stage for ios-arm64 has no include/etmetal_delegate.h");
        assert_eq!(error(&none), "the stage for ios-arm64 has no lib/libetmetal.a");
    }

    #[test]
    fn clang_finds_the_module_where_xcode_puts_the_headers() {
        let (lab, stage) = (Lab::new(), stage());
        let tree = tree(&[slice("macos-arm64", &stage, "14.0")], &Tree::default()).unwrap();
        tree.unpack(&lab.at("")).unwrap();
        let source = lab.at("app.m");
        let text =
            "@import etmetal;\nbool there(void) { return etmetal_delegate_is_available(); }\n";
        std::fs::write(&source, text).unwrap();
        let object = lab.at("app.o");
        let clang = lab.cross().clang(MAC, &lab.at("sdk")).args(["-c", "-ffreestanding"]);
        let clang =
            clang.args(["-fmodules", "-I"]).arg(lab.at("etmetal.xcframework/macos-arm64/Headers"));
        let modules = lab.at("modules").display().to_string();
        let clang = clang.arg(format!("-fmodules-cache-path={modules}")).arg(&source);
        clang.arg("-o").arg(&object).read().unwrap();
        let object = std::fs::read(object).unwrap();
        let has = |text: &str| memchr::memmem::find(&object, text.as_bytes()).is_some();
        assert!(has("_etmetal_delegate_is_available"));
        // What to link is in the object, as options for the linker.
        assert!(has("MetalPerformanceShadersGraph") && has("-lc++"));
    }
}
