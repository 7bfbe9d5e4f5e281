//! Which of the targets of a release can be built here.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::target::{Kind, Target};
use super::xcframework;

/// The targets that are built, and those that are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What is built.
    pub targets: Vec<&'static Target>,
    /// What the preset lists and is not built, with the reason and what to do: a line each.
    pub left_out: Vec<String>,
}

/// The targets of `listed` for which `lacks` names nothing that is missing.
///
/// The framework is left out as a whole where one of its slices cannot be built: it has the same
/// name with and without it. Whoever wants it without that slice asks for the others by name.
///
/// # Errors
/// None can be built, or, with `all`, one cannot; or `lacks` fails.
pub fn choose(
    listed: &[&'static Target],
    all: bool,
    lacks: &mut dyn FnMut(&Target) -> Result<Option<String>>,
) -> Result<Choice> {
    let (mut targets, mut left_out) = (Vec::new(), Vec::new());
    let mut lacking_slice = None;
    let mut seen = BTreeSet::new();
    for target in listed.iter().filter(|target| seen.insert(target.name)) {
        match lacks(target)? {
            None => targets.push(*target),
            Some(why) => {
                left_out.push(format!("{}: {why}", target.name));
                if target.kind == Kind::Slice {
                    lacking_slice = Some(target.name);
                }
            }
        }
    }
    if all && !left_out.is_empty() {
        bail!("not everything can be built here:\n{}", left_out.join("\n"));
    }
    if targets.is_empty() {
        bail!("nothing can be built here:\n{}", left_out.join("\n"));
    }
    if let Some(lacking) = lacking_slice
        && targets.iter().any(|target| target.kind == Kind::Slice)
    {
        let named: Vec<_> = targets.iter().map(|t| format!("--target {}", t.name)).collect();
        targets.retain(|target| target.kind != Kind::Slice);
        left_out.push(format!(
            "{}: it would lack the slice {lacking}. It is made without by `cargo xtask package {}`",
            xcframework::name(),
            named.join(" ")
        ));
    }
    Ok(Choice { targets, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> Vec<&'static Target> {
        ["linux-x86_64", "linux-aarch64", "macos-arm64", "ios-arm64", "ios-arm64-simulator"]
            .map(|name| Target::named(name).unwrap())
            .to_vec()
    }

    fn chosen(without: &[&str], all: bool) -> Result<(String, String)> {
        let mut lacks =
            |target: &Target| Ok(without.contains(&target.name).then(|| "no tool".to_owned()));
        let choice = choose(&listed(), all, &mut lacks)?;
        let names: Vec<_> = choice.targets.iter().map(|target| target.name).collect();
        Ok((names.join(" "), choice.left_out.join("\n").replace(super::super::VERSION, "V")))
    }

    #[test]
    fn what_lacks_a_tool_is_left_out_and_the_framework_as_a_whole() {
        assert_eq!(chosen(&[], true).unwrap().1, "");
        let (built, left_out) = chosen(&["linux-aarch64"], false).unwrap();
        assert_eq!(built, "linux-x86_64 macos-arm64 ios-arm64 ios-arm64-simulator");
        assert_eq!(left_out, "linux-aarch64: no tool");
        let (built, left_out) = chosen(&["ios-arm64-simulator"], false).unwrap();
        assert_eq!(built, "linux-x86_64 linux-aarch64 macos-arm64");
        insta::assert_snapshot!(left_out, @"
        ios-arm64-simulator: no tool
        etmetal-V.xcframework.zip: it would lack the slice ios-arm64-simulator. It is made without by `cargo xtask package --target linux-x86_64 --target linux-aarch64 --target macos-arm64 --target ios-arm64`
        ");
    }

    #[test]
    fn what_was_asked_for_has_to_be_built_and_so_has_something() {
        let twice = [listed()[0], listed()[0]];
        assert_eq!(choose(&twice, true, &mut |_| Ok(None)).unwrap().targets, [listed()[0]]);
        let error = chosen(&["linux-aarch64"], true).unwrap_err().to_string();
        assert_eq!(error, "not everything can be built here:\nlinux-aarch64: no tool");
        let all: Vec<_> = listed().iter().map(|target| target.name).collect();
        let error = chosen(&all, false).unwrap_err().to_string();
        assert!(
            error.starts_with("nothing can be built here:\nlinux-x86_64: no tool\n"),
            "{error}"
        );
    }
}
