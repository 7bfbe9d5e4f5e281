//! Wheels: the Python package with libetmetal inside.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::digest::sha256_base64;
use super::pyproject::{LICENCES, Project, THIRD_PARTY};
use super::target::Target;
use super::tree::{Member, Tree};
use super::{VERSION, manylinux};
use crate::audit::image::OsVersion;

/// Where the libraries lie in it.
const LIBRARIES: &str = "etmetal/lib";

/// A wheel before it is packed.
#[derive(Debug)]
pub struct Wheel {
    /// Its file name.
    pub name: String,
    /// Its members.
    pub tree: Tree,
}

/// The folder of metadata in a wheel.
pub fn dist_info() -> String {
    format!("etmetal-{VERSION}.dist-info")
}

/// The wheel for `target` with the libraries of `stage`; `minimum_os` is the oldest macOS.
///
/// # Errors
/// The stage lacks a library, or a file of the Python package cannot be read.
pub fn wheel(
    stage: &Tree,
    target: &Target,
    minimum_os: Option<OsVersion>,
    root: &Path,
    third_party: &str,
) -> Result<Wheel> {
    let mut tree = sources(root)?;
    let libraries = libraries(stage, target)?;
    let platform = match target.is_apple() {
        true => macos_tag(minimum_os)?,
        false => manylinux::tag(libraries.iter().map(|(name, bytes)| (*name, *bytes)))?,
    };
    for (name, bytes) in &libraries {
        tree.file(format!("{LIBRARIES}/{name}"), *bytes);
    }
    let tag = format!("py3-none-{platform}");
    add_metadata(&mut tree, &tag, root, third_party)?;
    Ok(Wheel { name: format!("etmetal-{VERSION}-{tag}.whl"), tree })
}

/// The modules of the Python package.
pub fn sources(root: &Path) -> Result<Tree> {
    let mut all = Tree::default();
    all.copy_all(&root.join("python/src/etmetal"), "etmetal")?;
    let mut tree = Tree::default();
    for (path, member) in all.iter() {
        let left_behind = path.contains("/__pycache__/") || path.ends_with(".pyc");
        if !left_behind && !path.starts_with(LIBRARIES) {
            // Modules are read and not run, whatever their permissions are here.
            tree.file(path, member.bytes());
        }
    }
    Ok(tree)
}

/// The shared libraries of the stage, by name.
fn libraries<'a>(stage: &'a Tree, target: &Target) -> Result<Vec<(&'a str, &'a [u8])>> {
    let ending = format!(".{}", target.library_extension());
    let in_lib = |path: &'a str| path.strip_prefix("lib/").filter(|name| !name.contains('/'));
    let found: Vec<_> = stage
        .iter()
        .filter_map(|(path, member)| match member {
            Member::File(bytes, _) => Some((in_lib(path)?, bytes.as_slice())),
            Member::Link(_) => None,
        })
        .filter(|(name, _)| name.ends_with(&ending))
        .collect();
    let own = format!("libetmetal{ending}");
    ensure!(found.iter().any(|(name, _)| *name == own), "the stage has no lib/{own}");
    Ok(found)
}

/// As in `macosx_14_0_arm64`.
fn macos_tag(minimum_os: Option<OsVersion>) -> Result<String> {
    let oldest = minimum_os.context(
        "the preset says no oldest macOS (`toolchain.deployment_target`), which a wheel's name tells",
    )?;
    let version = oldest.to_string();
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
    // From macOS 11 on tags know major versions only.
    let minor = if major.parse::<u32>().is_ok_and(|major| major > 10) { "0" } else { minor };
    Ok(format!("macosx_{major}_{minor}_arm64"))
}

fn add_metadata(tree: &mut Tree, tag: &str, root: &Path, third_party: &str) -> Result<()> {
    let python = root.join("python");
    let project = Project::read(&python)?;
    let info = dist_info();
    let licences = [&LICENCES[..], &[THIRD_PARTY]].concat();
    tree.file(format!("{info}/METADATA"), project.metadata(&python, &licences)?);
    for name in LICENCES {
        let text = std::fs::read(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        tree.file(format!("{info}/licenses/{name}"), text);
    }
    tree.file(format!("{info}/licenses/{THIRD_PARTY}"), third_party);
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: etmetal-xtask ({VERSION})\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    tree.file(format!("{info}/WHEEL"), wheel);
    tree.file(format!("{info}/RECORD"), record(tree));
    Ok(())
}

/// The list of all members with their hashes.
pub fn record(tree: &Tree) -> String {
    let own = format!("{}/RECORD", dist_info());
    let mut text = String::new();
    for (path, member) in tree.iter().filter(|(path, _)| *path != own) {
        let (hash, size) = (sha256_base64(member.bytes()), member.bytes().len());
        text += &format!("{path},sha256={hash},{size}\n");
    }
    text + &format!("{own},,\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn a_wheel_for_macs_is_named_by_the_oldest_system_and_records_its_members() {
        let mut stage = Tree::default();
        stage.file("lib/libetmetal.dylib", "library");
        stage.file("lib/cmake/x.cmake", "");
        let target = Target::named("macos-arm64").unwrap();
        let wheel = wheel(&stage, target, OsVersion::parse("14.2"), root(), "all").unwrap();
        assert_eq!(wheel.name, format!("etmetal-{VERSION}-py3-none-macosx_14_0_arm64.whl"));
        let text = |path: &str| {
            String::from_utf8(wheel.tree.get(path).expect(path).bytes().to_vec()).unwrap()
        };
        let info = dist_info();
        assert_eq!(text("etmetal/lib/libetmetal.dylib"), "library");
        assert!(text(&format!("{info}/WHEEL")).ends_with("Tag: py3-none-macosx_14_0_arm64\n"));
        let record = text(&format!("{info}/RECORD"));
        assert_eq!(record.lines().count(), wheel.tree.len());
        assert!(record.contains("\netmetal/runtime.py,sha256="), "{record}");
        assert!(wheel.tree.iter().all(|(path, _)| !path.contains("__pycache__")));
        assert!(wheel.tree.get("etmetal/linux/guard.cpp").is_some());
    }

    #[test]
    fn a_stage_without_the_library_makes_no_wheel() {
        let target = Target::named("linux-x86_64").unwrap();
        let error = wheel(&Tree::default(), target, None, root(), "").unwrap_err().to_string();
        assert_eq!(error, "the stage has no lib/libetmetal.so");
        let error = macos_tag(None).unwrap_err().to_string();
        assert!(error.contains("toolchain.deployment_target"), "{error}");
    }
}
