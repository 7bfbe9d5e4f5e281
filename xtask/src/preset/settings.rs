//! Settings by full name (`toolchain.cxx`), each with its origin: one layer, or layers merged.

use std::collections::BTreeMap;

use super::error::PresetError;
use super::origin::Sourced;
use super::value::Value;

/// Settings by full name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, Sourced<Value>>);

impl Settings {
    /// Sets `name`, over what was there.
    pub fn set(&mut self, name: String, value: Sourced<Value>) {
        self.0.insert(name, value);
    }

    /// Lays `over` on top: its values win, lists are replaced as a whole.
    pub fn overlay(&mut self, over: &Settings) {
        self.0.extend(over.0.iter().map(|(k, v)| (k.clone(), v.clone())));
    }

    /// The value of `name` and who set it.
    pub fn get(&self, name: &str) -> Option<&Sourced<Value>> {
        self.0.get(name)
    }

    /// Every setting, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Sourced<Value>)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The settings whose names begin with `table.`, by their last part.
    pub fn table<'a>(
        &'a self,
        table: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Sourced<Value>)> {
        self.iter().filter_map(move |(name, value)| {
            let (found, key) = name.rsplit_once('.')?;
            (found == table).then_some((key, value))
        })
    }

    /// A string, where it is set. The schema has checked the kind.
    pub fn text(&self, name: &str) -> Option<Sourced<String>> {
        match self.get(name)? {
            Sourced { value: Value::Text(text), origin } => {
                Some(Sourced { value: text.clone(), origin: origin.clone() })
            }
            other => unreachable!("the schema lets only strings through for {name}: {other:?}"),
        }
    }

    /// A flag, off where it is not set.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|set| set.value == Value::Bool(true))
    }

    /// A list, empty where it is not set.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.get(name).map(|s| &s.value) {
            None => Vec::new(),
            Some(Value::List(items)) => items.clone(),
            Some(other) => unreachable!("the schema lets only lists through for {name}: {other:?}"),
        }
    }

    /// A string that must be set.
    ///
    /// # Errors
    /// Which setting is missing and how to set it.
    pub fn required_text(&self, name: &str) -> Result<Sourced<String>, PresetError> {
        self.text(name).ok_or_else(|| {
            let (table, key) = name.rsplit_once('.').unwrap_or(("", name));
            PresetError::new(format!(
                "`{name}` is set nowhere: add `{key} = …` under `[{table}]` to the preset or to \
                 one it inherits, or pass `-D {name}=…`"
            ))
        })
    }
}
