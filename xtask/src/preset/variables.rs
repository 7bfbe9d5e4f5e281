//! `ETMETAL_TABLE_KEY=value` of the environment: the layer under `-D`.
//!
//! The name is the setting's in capitals, with `_` for the dots: `ETMETAL_TOOLCHAIN_CXX` is
//! `toolchain.cxx`, `ETMETAL_EXECUTORCH_OPTIONS_BUILD_XNNPACK` is
//! `executorch.options.BUILD_XNNPACK`. Other variables that begin with `ETMETAL_` are the
//! runtime's and are left alone.

use super::error::{Fault, PresetError};
use super::origin::{Origin, Sourced};
use super::schema;
use super::settings::Settings;
use crate::environment::Environment;

/// What the names begin with.
const PREFIX: &str = "ETMETAL_";

/// The variable that sets `name`.
pub fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('.', "_").to_ascii_uppercase())
}

/// Reads the environment into a layer. A variable that names a table but no key of it, or has a
/// value of the wrong kind, is a fault; an empty one counts as not set.
pub fn parse(environment: &Environment) -> (Settings, PresetError) {
    let mut settings = Settings::default();
    let mut faults = PresetError::default();
    for (variable, text) in environment.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        let Some(text) = environment.get(variable).and_then(|_| text.to_str()) else { continue };
        let origin = Origin::Environment(format!("{variable}={text}"));
        let Some(name) = setting(variable) else {
            if names_a_table(variable) {
                let known = schema::setting_names().map(|name| self::variable(&name));
                let hint = schema::suggestion(variable, known);
                let what = format_args!("no setting is called `{variable}`{hint}");
                faults.push(Fault::at(&origin, what));
            }
            continue;
        };
        let kind = schema::settings_kind(&name).expect("the name is a setting's");
        match kind.parse(text) {
            Ok(value) => settings.set(name, Sourced { value, origin }),
            Err(what) => {
                faults.push(Fault::at(&origin, format_args!("`{name}`: {what}")));
                settings.spoil(name);
            }
        }
    }
    (settings, faults)
}

/// The setting that `variable` sets.
fn setting(variable: &str) -> Option<String> {
    let options = self::variable(super::executorch::OPTIONS.name) + "_";
    if let Some(option) = variable.strip_prefix(&options) {
        return Some(format!("{}.{option}", super::executorch::OPTIONS.name));
    }
    schema::setting_names().find(|name| self::variable(name) == variable)
}

fn names_a_table(variable: &str) -> bool {
    let tables = schema::SETTINGS.iter().map(|table| self::variable(table.name) + "_");
    tables.into_iter().any(|prefix| variable.starts_with(&prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::value::Value;

    #[test]
    fn settings_are_read_and_the_runtimes_variables_left_alone() {
        let environment = Environment::default()
            .with("ETMETAL_TOOLCHAIN_DEPLOYMENT_TARGET", "14.0")
            .with("ETMETAL_LINK_EXPORT", "a_*,b")
            .with("ETMETAL_EXECUTORCH_OPTIONS_BUILD_XNNPACK", "on")
            .with("ETMETAL_TOOLCHAIN_CXX", "")
            .with("ETMETAL_EXECUTORCH", "/site-packages/executorch")
            .with("ETMETAL_CLANG", "clang++-19")
            .with("TOOLCHAIN_CXX", "x");
        let (settings, faults) = parse(&environment);
        assert_eq!(faults, PresetError::default());
        let got: Vec<_> = settings.iter().map(|(name, set)| (name, set.value.clone())).collect();
        assert_eq!(
            got,
            [
                ("executorch.options.BUILD_XNNPACK", Value::Bool(true)),
                ("link.export", Value::List(vec!["a_*".into(), "b".into()])),
                ("toolchain.deployment_target", Value::Text("14.0".into())),
            ]
        );
    }

    #[test]
    fn slips_of_the_hand_are_faults() {
        let environment = Environment::default()
            .with("ETMETAL_TOOLCHAIN_CXXX", "g++")
            .with("ETMETAL_EXECUTORCH_FROM", "wheel");
        let (_, faults) = parse(&environment);
        insta::assert_snapshot!(faults.to_string(), @r#"
        ETMETAL_EXECUTORCH_FROM=wheel: `executorch.from`: expected "sdk" or "source" or "git", found "wheel"
        ETMETAL_TOOLCHAIN_CXXX=g++: no setting is called `ETMETAL_TOOLCHAIN_CXXX`; did you mean `ETMETAL_TOOLCHAIN_CXX`?
        "#);
    }

    #[test]
    fn every_setting_has_a_variable_of_its_own() {
        let mut all: Vec<_> = schema::setting_names().map(|name| variable(&name)).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
