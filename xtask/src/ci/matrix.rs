//! A matrix and its combinations, with the semantics of GitHub's `strategy.matrix`.
//!
//! 1. The product of all axes, the first axis varying slowest. No axis: no combination.
//! 2. A combination that an `exclude` entry matches goes. An entry matches if each of its leaves
//!    equals ([`super::loose`]) the combination's: a partial match, nested objects and lists too.
//! 3. An `include` entry's keys that are axes must match likewise; its other keys are added to each
//!    combination that does, later entries over earlier ones.
//! 4. An entry that matched no combination becomes one of its own, after all others.

use std::fmt;

use serde_json::{Map, Value};

use super::loose;

/// Axes with their values, and what is added and taken away.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    /// Names with values, in order.
    pub axes: Vec<(String, Vec<Value>)>,
    /// Entries that extend combinations or add some.
    pub include: Vec<Map<String, Value>>,
    /// Entries that take combinations away.
    pub exclude: Vec<Map<String, Value>>,
}

/// One combination: values by name, axes first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Combination(pub Vec<(String, Value)>);

impl Combination {
    /// The value called `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| loose::same_text(key, name)).map(|(_, value)| value)
    }

    /// The value called `name`, as the text that an expression would give.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(text)
    }

    /// Whether `filter` matches in part.
    pub fn matches(&self, filter: &Map<String, Value>) -> bool {
        filter.iter().all(|(key, f)| loose::matches(f, self.get(key).unwrap_or(&Value::Null)))
    }

    fn set(&mut self, name: &str, value: &Value) {
        match self.0.iter_mut().find(|(key, _)| loose::same_text(key, name)) {
            Some((_, old)) => old.clone_from(value),
            None => self.0.push((name.to_owned(), value.clone())),
        }
    }
}

/// A value as text: a string is itself, everything else is JSON.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<_> = self.0.iter().map(|(k, v)| format!("{k}={}", text(v))).collect();
        f.write_str(&pairs.join(" "))
    }
}

/// What a matrix gives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expansion {
    /// The combinations, in order.
    pub combinations: Vec<Combination>,
    /// What was taken away, each with the index of the `exclude` entry that did it.
    pub excluded: Vec<(Combination, usize)>,
}

/// Where GitHub would refuse the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixError(String);

impl fmt::Display for MatrixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MatrixError {}

impl Matrix {
    /// Every combination.
    ///
    /// # Errors
    /// The matrix is one that GitHub refuses: an axis without values or named twice, an empty
    /// entry, an `exclude` key that is no axis, nothing at all.
    pub fn expand(&self) -> Result<Expansion, MatrixError> {
        self.check()?;
        let mut extended = vec![false; self.include.len()];
        let mut expansion = Expansion::default();
        for combination in self.product() {
            match self.exclude.iter().position(|entry| combination.matches(entry)) {
                Some(entry) => expansion.excluded.push((combination, entry)),
                None => expansion.combinations.push(self.extend(combination, &mut extended)),
            }
        }
        let unmatched = self.include.iter().zip(extended).filter(|(_, extended)| !extended);
        expansion.combinations.extend(unmatched.map(|(entry, _)| self.alone(entry)));
        Ok(expansion)
    }

    fn is_axis(&self, key: &str) -> bool {
        self.axes.iter().any(|(name, _)| loose::same_text(name, key))
    }

    fn check(&self) -> Result<(), MatrixError> {
        let fault = |text: String| Err(MatrixError(text));
        if self.axes.is_empty() && self.include.is_empty() {
            return fault("a matrix needs at least one axis or include entry".to_owned());
        }
        for (index, (name, values)) in self.axes.iter().enumerate() {
            if values.is_empty() {
                return fault(format!("the axis `{name}` has no values"));
            }
            if self.axes[..index].iter().any(|(other, _)| loose::same_text(other, name)) {
                return fault(format!("the axis `{name}` is there twice"));
            }
        }
        for (index, entry) in self.include.iter().enumerate() {
            if entry.is_empty() {
                return fault(format!("include[{index}] is empty"));
            }
        }
        for (index, entry) in self.exclude.iter().enumerate() {
            if entry.is_empty() {
                return fault(format!("exclude[{index}] is empty"));
            }
            if let Some(key) = entry.keys().find(|key| !self.is_axis(key)) {
                let axes: Vec<_> = self.axes.iter().map(|(name, _)| name.as_str()).collect();
                return fault(format!(
                    "exclude[{index}]: `{key}` is no axis of this matrix; its axes are: {}",
                    axes.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The product of the axes, the last varying fastest.
    fn product(&self) -> impl Iterator<Item = Combination> {
        let size = match self.axes[..] {
            [] => 0,
            _ => self.axes.iter().map(|(_, values)| values.len()).product(),
        };
        (0..size).map(move |index| {
            let mut block = size;
            let value = |(name, values): &(String, Vec<Value>)| {
                block /= values.len();
                (name.clone(), values[index / block % values.len()].clone())
            };
            Combination(self.axes.iter().map(value).collect())
        })
    }

    /// Adds what the include entries that match have beside axes.
    fn extend(&self, combination: Combination, extended: &mut [bool]) -> Combination {
        let mut result = combination;
        for (entry, extended) in self.include.iter().zip(extended) {
            let axes = |(key, _): &(&String, &Value)| self.is_axis(key);
            let fits = entry.iter().filter(axes).all(|(key, filter)| {
                loose::matches(filter, result.get(key).unwrap_or(&Value::Null))
            });
            if fits {
                *extended = true;
                entry.iter().filter(|pair| !axes(pair)).for_each(|(k, v)| result.set(k, v));
            }
        }
        result
    }

    /// An include entry as a combination: axes first, as in the others.
    fn alone(&self, entry: &Map<String, Value>) -> Combination {
        let mut result = Combination::default();
        for (axis, _) in &self.axes {
            if let Some((key, value)) = entry.iter().find(|(k, _)| loose::same_text(k, axis)) {
                result.set(key, value);
            }
        }
        let mut rest: Vec<_> = entry.iter().collect();
        rest.sort_by_key(|(key, _)| *key);
        rest.into_iter().for_each(|(key, value)| result.set(key, value));
        result
    }
}

#[cfg(test)]
mod tests;
