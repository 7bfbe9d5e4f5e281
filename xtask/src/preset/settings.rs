//! Settings by full name (`toolchain.cxx`), each with its origin: one layer, or layers merged.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Fault, PresetError};
use super::origin::Sourced;
use super::value::Value;

/// Settings by full name. Each keeps what it overrode: the last value is the one that counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, Vec<Sourced<Value>>>,
    /// What was set to something that is no value of it: already told, so not missing as well.
    spoiled: BTreeSet<String>,
}

impl Settings {
    /// Sets `name`, over what was there.
    pub fn set(&mut self, name: String, value: Sourced<Value>) {
        self.values.entry(name).or_default().push(value);
    }

    /// Notes that `name` was set to something that is no value of it.
    pub fn spoil(&mut self, name: String) {
        self.spoiled.insert(name);
    }

    /// Lays `over` on top: its values win, lists are replaced as a whole.
    pub fn overlay(&mut self, over: &Settings) {
        for (name, layers) in &over.values {
            self.values.entry(name.clone()).or_default().extend(layers.iter().cloned());
        }
        self.spoiled.extend(over.spoiled.iter().cloned());
    }

    /// The value of `name` and who set it.
    pub fn get(&self, name: &str) -> Option<&Sourced<Value>> {
        self.values.get(name)?.last()
    }

    /// What the value of `name` overrode, the latest first.
    pub fn overridden(&self, name: &str) -> impl Iterator<Item = &Sourced<Value>> {
        self.values.get(name).into_iter().flat_map(|layers| layers.iter().rev().skip(1))
    }

    /// Every setting, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Sourced<Value>)> {
        self.values.iter().filter_map(|(name, layers)| Some((name.as_str(), layers.last()?)))
    }

    /// The settings whose names begin with `table.`, by what follows.
    pub fn table<'a>(
        &'a self,
        table: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Sourced<Value>)> {
        self.iter().filter_map(move |(name, value)| {
            Some((name.strip_prefix(table)?.strip_prefix('.')?, value))
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
    /// Which setting is missing and how to set it; nothing where it was told already that it is
    /// set to something wrong.
    pub fn required_text(&self, name: &str) -> Result<Sourced<String>, PresetError> {
        if let Some(text) = self.text(name) {
            return Ok(text);
        }
        if self.spoiled.contains(name) {
            return Err(PresetError::default());
        }
        let (table, key) = name.rsplit_once('.').unwrap_or(("", name));
        Err(Fault::new(format_args!("`{name}` is set nowhere"))
            .help(format_args!(
                "add `{key} = …` under `[{table}]` to the preset or to one it inherits, or pass \
                 `-D {name}=…`"
            ))
            .into())
    }
}
