//! `-D key=value` of the command line: the topmost layer.

use super::error::{Fault, PresetError};
use super::origin::{Origin, Sourced};
use super::schema;
use super::settings::Settings;

/// Reads the `-D` arguments into a layer; later ones override earlier ones. Every argument without
/// `=`, with an unknown key, or with a value of the wrong kind is a fault.
pub fn parse(defines: &[String]) -> (Settings, PresetError) {
    let mut settings = Settings::default();
    let mut faults = PresetError::default();
    for define in defines {
        let origin = Origin::CommandLine(define.clone());
        let Some((name, text)) = define.split_once('=') else {
            let what = "expected `key=value`, as in `-D build.profile=dev`";
            faults.push(Fault::at(&origin, what));
            continue;
        };
        let Some(kind) = schema::settings_kind(name) else {
            let hint = schema::suggestion(name, schema::setting_names());
            faults.push(Fault::at(&origin, format_args!("unknown key `{name}`{hint}")));
            continue;
        };
        match kind.parse(text) {
            Ok(value) => settings.set(name.to_owned(), Sourced { value, origin }),
            Err(what) => {
                settings.spoil(name.to_owned());
                faults.push(Fault::at(&origin, format_args!("`{name}`: {what}")));
            }
        }
    }
    (settings, faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::value::Value;

    fn parse(defines: &[&str]) -> Result<Settings, String> {
        let defines: Vec<_> = defines.iter().map(|d| (*d).to_owned()).collect();
        let (settings, faults) = super::parse(&defines);
        faults.or(settings).map_err(|e| e.to_string())
    }

    #[test]
    fn the_last_definition_of_a_key_wins() {
        let settings = parse(&["build.profile=dev", "build.profile=release"]).unwrap();
        let profile = settings.get("build.profile").unwrap();
        assert_eq!(profile.value, Value::Text("release".into()));
        assert_eq!(profile.origin.to_string(), "-D build.profile=release");
    }

    #[test]
    fn options_of_executorch_are_open() {
        let settings = parse(&["executorch.options.EXECUTORCH_BUILD_X=ON"]).unwrap();
        let option = settings.get("executorch.options.EXECUTORCH_BUILD_X").unwrap();
        assert_eq!(option.value, Value::Bool(true));
    }

    #[test]
    fn every_wrong_definition_is_reported() {
        let text = parse(&["build.profle=dev", "cxx", "executorch.from=wheel", "toolchain.cxxx=1"])
            .unwrap_err();
        insta::assert_snapshot!(text, @r#"
        -D build.profle=dev: unknown key `build.profle`; did you mean `build.profile`?
        -D cxx: expected `key=value`, as in `-D build.profile=dev`
        -D executorch.from=wheel: `executorch.from`: expected "sdk" or "source" or "git", found "wheel"
        -D toolchain.cxxx=1: unknown key `toolchain.cxxx`; did you mean `toolchain.cxx`?
        "#);
    }
}
