//! What can be built for which platform.

use super::backend::Metal;
use super::error::{Fault, PresetError};
use super::executorch::From;
use super::origin::Sourced;
use super::schema;
use super::settings::Settings;

/// The triples that etmetal is built for.
pub const TRIPLES: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "aarch64-apple-ios",
    "aarch64-apple-ios-sim",
];

/// Options of ExecuTorch that only Apple systems can have on, and what they need.
const APPLE_ONLY: &[&str] = &[
    "BUILD_METAL",
    "BUILD_MLX",
    "BUILD_MPS",
    "BUILD_EXTENSION_APPLE",
    "BUILD_EXTENSION_LLM_APPLE",
    "COREML_BUILD_EXECUTOR_RUNNER",
];

/// Whether code for `triple` runs on an Apple system.
pub fn is_apple(triple: &str) -> bool {
    triple.contains("-apple-")
}

/// Whether code for `triple` runs on an iPhone or in its simulator.
pub fn is_ios(triple: &str) -> bool {
    triple.contains("-apple-ios")
}

/// Whether `triple` has the form of a triple and is no slip of the hand.
///
/// # Errors
/// What is wrong with it.
pub fn check_triple(triple: &str) -> Result<(), String> {
    if TRIPLES.contains(&triple) {
        return Ok(());
    }
    let known = || TRIPLES.iter().map(|name| (*name).to_owned());
    let near = TRIPLES.iter().any(|name| strsim::damerau_levenshtein(triple, name) <= 2);
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
    };
    if near || triple.split('-').count() < 3 || !triple.split('-').all(is_part) {
        return Err(format!("unknown target `{triple}`{}", schema::suggestion(triple, known())));
    }
    Ok(())
}

/// What `host` cannot build for `target`.
pub fn check(
    settings: &Settings,
    from: Option<&Sourced<From>>,
    metal: Option<&Sourced<Metal>>,
    host: &str,
    target: &str,
) -> PresetError {
    let mut faults = PresetError::default();
    if let Some(set) = settings.text("build.target") {
        if let Err(what) = check_triple(&set.value) {
            faults.push(Fault::at(&set.origin, format_args!("`build.target`: {what}")));
        } else if is_ios(target)
            && host != "macos"
            && from.is_some_and(|from| from.value != From::Sdk)
        {
            faults.push(
                Fault::at(&set.origin, format_args!("{target} cannot be built on {host}")).help(
                    "ExecuTorch's sources need Xcode, so a Mac; with `executorch.from = \
                         \"sdk\"`, libetmetal alone is built anywhere",
                ),
            );
        }
    }
    if let Some(from) = from.filter(|from| from.value == From::Sdk)
        && check_triple(target).is_ok()
        && let Some(why) = no_sdk(host, target)
    {
        faults.push(
            Fault::at(&from.origin, format_args!("ExecuTorch's SDK cannot be used: {why}")).help(
                "set `executorch.from` to \"git\" or \"source\", which builds ExecuTorch for the \
                 target",
            ),
        );
    }
    faults.extend(upstream(from, metal, target));
    faults.extend(apple_settings(settings, host, target));
    faults
}

/// Why the SDK of `host` has nothing for `target`.
fn no_sdk(host: &str, target: &str) -> Option<String> {
    let matches = match target {
        // iOS takes the headers, and links with the application's own ExecuTorch.
        "aarch64-apple-darwin" | "aarch64-apple-ios" | "aarch64-apple-ios-sim" => true,
        "x86_64-unknown-linux-gnu" | "aarch64-unknown-linux-gnu" => host == "linux",
        _ => return Some(format!("there is none for {target}")),
    };
    (!matches).then(|| format!("it is installed for this machine, not for {target}"))
}

/// What stands against ExecuTorch's own Metal delegate.
fn upstream(
    from: Option<&Sourced<From>>,
    metal: Option<&Sourced<Metal>>,
    target: &str,
) -> PresetError {
    let mut faults = PresetError::default();
    let Some(metal) = metal else { return faults };
    let sdk = from.is_some_and(|from| from.value == From::Sdk);
    let name = metal.value.word();
    if sdk && metal.value != Metal::Etmetal {
        let what = match metal.value {
            Metal::Upstream => "no SDK has ExecuTorch's own Metal delegate",
            _ => "the SDK is built already, so that nothing is left to build",
        };
        faults.push(
            Fault::at(&metal.origin, format_args!("`backend.metal = \"{name}\"`: {what}"))
                .help("build ExecuTorch from source with `executorch.from = \"git\"`"),
        );
    }
    if metal.value == Metal::Upstream && !is_apple(target) {
        let what = format_args!(
            "`backend.metal = \"upstream\"` is for Apple systems only, and the target is {target}"
        );
        faults.push(Fault::at(&metal.origin, what).help("`etmetal` runs there, on CPU cores"));
    }
    faults
}

/// Settings that have no effect, or no meaning, where they stand.
fn apple_settings(settings: &Settings, host: &str, target: &str) -> PresetError {
    let mut faults = PresetError::default();
    if !is_apple(target) {
        for name in ["toolchain.deployment_target", "link.frameworks", "link.weak_frameworks"] {
            let Some(set) = settings.get(name) else { continue };
            let (table, _) = name.rsplit_once('.').expect("a full name");
            faults.push(
                Fault::at(
                    &set.origin,
                    format_args!("`{name}` has no effect for the target {target}"),
                )
                .help(format_args!(
                    "move it to `[host.macos.{table}]` or `[target.\"aarch64-apple-darwin\".{table}]`"
                )),
            );
        }
    }
    if let Some(openmp) = settings.text("link.openmp").filter(|set| set.value == "homebrew")
        && host != "macos"
    {
        faults.push(
            Fault::at(&openmp.origin, format_args!("there is no Homebrew to look at on {host}"))
                .help("use \"auto\", or the path of the library"),
        );
    }
    faults
}

/// Why `option` cannot be on for `target`, if it cannot.
pub fn limit(option: &str, target: &str) -> Option<&'static str> {
    (APPLE_ONLY.contains(&option) && !is_apple(target)).then_some("only Apple systems have it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triples_are_known_or_have_the_form_of_one() {
        assert_eq!(check_triple("aarch64-apple-ios"), Ok(()));
        assert_eq!(check_triple("riscv64gc-unknown-linux-gnu"), Ok(()));
        insta::assert_snapshot!(check_triple("aarch64-aple-darwin").unwrap_err(), @"unknown target `aarch64-aple-darwin`; did you mean `aarch64-apple-darwin`?");
        insta::assert_snapshot!(check_triple("linux").unwrap_err(), @"unknown target `linux`; known here: x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu, aarch64-apple-darwin, x86_64-apple-darwin, aarch64-apple-ios, aarch64-apple-ios-sim");
    }

    #[test]
    fn the_sdk_serves_its_machine_and_apple_systems() {
        assert_eq!(no_sdk("linux", "x86_64-unknown-linux-gnu"), None);
        assert_eq!(no_sdk("macos", "aarch64-apple-darwin"), None);
        assert_eq!(no_sdk("linux", "aarch64-apple-darwin"), None);
        assert_eq!(no_sdk("macos", "aarch64-apple-ios"), None);
        assert!(no_sdk("macos", "x86_64-unknown-linux-gnu").is_some());
        assert!(no_sdk("macos", "x86_64-apple-darwin").is_some());
    }
}
