//! `etmetal.xcframework`, with a slice for each of Apple's systems, and the Swift package that
//! names it.

use anyhow::{Context as _, Result, bail};

use super::VERSION;
use super::target::Target;
use super::tree::{Member, Tree};
use crate::audit::image::OsVersion;

/// The archive's file name.
pub fn name() -> String {
    format!("etmetal-{VERSION}.xcframework.zip")
}

/// The folder inside.
const FRAMEWORK: &str = "etmetal.xcframework";

/// The headers that Swift and Objective-C see.
const HEADERS: [&str; 2] = ["etmetal_delegate.h", "etmetal_runner.h"];

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

    /// The library's file name: a static one where there is one.
    fn library(&self) -> Result<&'static str> {
        let names = ["libetmetal.a", "libetmetal.dylib"];
        let there = |name: &&str| self.stage.get(&format!("lib/{name}")).is_some();
        names.into_iter().find(there).with_context(|| {
            format!("the stage for {} has no lib/libetmetal.a or .dylib", self.target.name)
        })
    }
}

/// The members: a folder for each slice, with its library, headers, module map and privacy
/// manifest.
///
/// # Errors
/// A slice lacks a library or a header.
pub fn tree(slices: &[Slice<'_>]) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut libraries = Vec::new();
    for slice in slices {
        let folder = format!("{FRAMEWORK}/{}", slice.target.name);
        let library = slice.library()?;
        for name in companions(slice, library) {
            let member = slice.stage.get(&format!("lib/{name}")).map(Member::bytes);
            tree.file(format!("{folder}/{name}"), member.unwrap_or_default());
        }
        for header in HEADERS {
            let member = slice.stage.get(&format!("include/{header}"));
            let text = member.with_context(|| {
                format!("the stage for {} has no include/{header}", slice.target.name)
            })?;
            tree.file(format!("{folder}/Headers/{header}"), text.bytes());
        }
        tree.file(format!("{folder}/Headers/module.modulemap"), MODULE_MAP);
        tree.file(format!("{folder}/PrivacyInfo.xcprivacy"), PRIVACY);
        libraries.push(entry(slice, library)?);
    }
    tree.file(format!("{FRAMEWORK}/Info.plist"), info(&libraries));
    Ok(tree)
}

/// The library, and where it is a shared one those that it needs beside it.
fn companions<'a>(slice: &Slice<'a>, library: &'static str) -> Vec<&'a str> {
    let stage: &'a Tree = slice.stage;
    let in_lib = stage.iter().filter_map(|(path, _)| path.strip_prefix("lib/"));
    let is_shared = library.ends_with(".dylib");
    in_lib
        .filter(|name| {
            *name == library
                || is_shared && name.starts_with("libexecutorch") && name.ends_with(".dylib")
        })
        .collect()
}

const MODULE_MAP: &str = "\
module etmetal {
    header \"etmetal_delegate.h\"
    header \"etmetal_runner.h\"
    export *
}
";

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
fn entry(slice: &Slice<'_>, library: &str) -> Result<String> {
    let System { platform, variant } = slice.system()?;
    let mut pairs = vec![
        ("BinaryPath", library),
        ("HeadersPath", "Headers"),
        ("LibraryIdentifier", slice.target.name),
        ("LibraryPath", library),
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

    fn stage(library: &str) -> Tree {
        let mut stage = Tree::default();
        stage.file(format!("lib/{library}"), "library");
        stage.file("lib/libexecutorch.dylib", "runtime");
        HEADERS.iter().for_each(|header| stage.file(format!("include/{header}"), *header));
        stage
    }

    fn slice<'a>(name: &str, stage: &'a Tree, oldest: &str) -> Slice<'a> {
        let target = Target::named(name).unwrap();
        Slice { target, stage, minimum_os: OsVersion::parse(oldest) }
    }

    #[test]
    fn each_system_has_its_folder_and_its_entry() {
        let (dynamic, fixed) = (stage("libetmetal.dylib"), stage("libetmetal.a"));
        let slices = [
            slice("macos-arm64", &dynamic, "14.0"),
            slice("ios-arm64", &fixed, "17.0"),
            slice("ios-arm64-simulator", &fixed, "17.0"),
        ];
        let tree = tree(&slices).unwrap();
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
    fn a_stage_without_library_or_header_is_named() {
        let mut lacking = stage("libetmetal.a");
        lacking.remove("include/etmetal_runner.h");
        let error = tree(&[slice("ios-arm64", &lacking, "17.0")]).unwrap_err().to_string();
        assert_eq!(error, "the stage for ios-arm64 has no include/etmetal_runner.h");
        let error = tree(&[slice("ios-arm64", &Tree::default(), "17.0")]).unwrap_err().to_string();
        assert_eq!(error, "the stage for ios-arm64 has no lib/libetmetal.a or .dylib");
    }
}
