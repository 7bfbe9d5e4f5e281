//! Building for Apple systems on another machine: clang and lld do it, with Apple's SDK at hand.

use std::path::Path;

use anyhow::{Result, bail};

use crate::environment::Environment;
use crate::preset::{Preset, platform};
use crate::process::Invocation;

/// Whether `preset` is built for an Apple system on another.
fn is_cross(preset: &Preset) -> bool {
    platform::is_apple(&preset.target) && preset.host != "macos"
}

/// What clang calls the target, where it has to be told.
pub fn clang_triple(preset: &Preset) -> Option<String> {
    if !is_cross(preset) {
        return None;
    }
    let (architecture, _) = preset.target.split_once("-apple-")?;
    let architecture = if architecture == "aarch64" { "arm64" } else { architecture };
    let version = preset.toolchain.deployment_target.as_ref();
    let version = version.map_or("", |set| set.value.as_str());
    Some(format!("{architecture}-apple-macosx{version}"))
}

/// Checks that there is an SDK to link with: `xcrun` finds it on Macs only.
///
/// # Errors
/// There is none, with how to name one.
pub fn check_sysroot(preset: &Preset, environment: &Environment) -> Result<()> {
    if is_cross(preset)
        && preset.toolchain.sysroot.is_none()
        && environment.get("SDKROOT").is_none()
    {
        bail!(
            "the preset `{}` builds for {} on {}, which needs Apple's SDK: name its folder with \
             `-D toolchain.sysroot=/path/to/MacOSX.sdk`, ETMETAL_TOOLCHAIN_SYSROOT or SDKROOT",
            preset.identity.name,
            preset.target,
            preset.host
        );
    }
    Ok(())
}

/// `cargo` with what it has to know to compile C and to link with `cxx` for an Apple system.
pub fn cross_cargo(preset: &Preset, cxx: &Path, cargo: Invocation) -> Invocation {
    let Some(triple) = clang_triple(preset) else { return cargo };
    let mut flags = vec![format!("--target={triple}")];
    let mut cargo = cargo;
    if let Some(sysroot) = &preset.toolchain.sysroot {
        // rustc asks xcrun otherwise.
        cargo = cargo.env("SDKROOT", &sysroot.value);
        flags.push(format!("-isysroot{}", sysroot.value));
    }
    let compile = flags.join(" ");
    flags.extend(preset.link.flags.iter().cloned());
    let arguments: Vec<_> = flags.iter().map(|flag| format!("\"-Clink-arg={flag}\"")).collect();
    let key = format!("target.{}", preset.target);
    let variable = preset.target.replace('-', "_");
    let cc = preset.toolchain.cc.as_ref().map_or(cxx.as_os_str(), |cc| cc.value.as_ref());
    cargo
        .env(&format!("CC_{variable}"), cc)
        .env(&format!("CXX_{variable}"), cxx)
        .env(&format!("CFLAGS_{variable}"), &compile)
        .env(&format!("CXXFLAGS_{variable}"), &compile)
        .arg("--config")
        .arg(format!("{key}.linker={:?}", cxx.display().to_string()))
        .arg("--config")
        .arg(format!("{key}.rustflags=[{}]", arguments.join(", ")))
}
