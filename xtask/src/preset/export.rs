//! `CMakeUserPresets.json`: builds as an IDE configures them, with the same arguments.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value as Json, json};

use super::Preset;
use crate::process::Invocation;

/// Marks the file as written by this program, so that nobody else's is overwritten.
const VENDOR: &str = "etmetal/xtask";

/// The file for the commands that configure each preset.
pub fn document(commands: &[(Preset, Invocation)]) -> Json {
    let configure: Vec<_> = commands.iter().map(|(preset, cmake)| entry(preset, cmake)).collect();
    let build: Vec<_> = commands
        .iter()
        .map(|(preset, _)| {
            json!({ "name": preset.identity.name, "configurePreset": preset.identity.name })
        })
        .collect();
    json!({
        "version": 6,
        "vendor": { VENDOR: { "written_by": "cargo xtask preset export-cmake" } },
        "configurePresets": configure,
        "buildPresets": build,
    })
}

fn entry(preset: &Preset, cmake: &Invocation) -> Json {
    let mut entry = Map::new();
    entry.insert("name".into(), json!(preset.identity.name));
    entry.insert("displayName".into(), json!(preset.identity.description));
    let mut variables = Map::new();
    let arguments: Vec<_> =
        cmake.arguments().iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-G" => drop(entry.insert("generator".into(), json!(rest.next()))),
            "-B" => drop(entry.insert("binaryDir".into(), json!(rest.next()))),
            "-S" => drop(rest.next()),
            other => {
                if let Some((name, value)) =
                    other.strip_prefix("-D").and_then(|define| define.split_once('='))
                {
                    variables.insert(name.into(), json!(value));
                }
            }
        }
    }
    entry.insert("cacheVariables".into(), variables.into());
    entry.into()
}

/// Whether `path` may be written: it is not there, or this program wrote it.
///
/// # Errors
/// Somebody else's file is there.
pub fn check(path: &Path) -> Result<()> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    let ours = serde_json::from_str::<Json>(&text)
        .is_ok_and(|json| json.pointer("/vendor").is_some_and(|v| v.get(VENDOR).is_some()));
    if !ours {
        bail!(
            "{} is there and was not written by this command: move it away, or name another file \
             with --output",
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_its_own_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("CMakeUserPresets.json");
        check(&path).unwrap();
        std::fs::write(&path, document(&[]).to_string()).unwrap();
        check(&path).unwrap();
        for theirs in ["{\"version\": 6}", "no JSON"] {
            std::fs::write(&path, theirs).unwrap();
            let error = check(&path).unwrap_err().to_string();
            assert!(error.contains("was not written by this command"), "{error}");
        }
    }
}
