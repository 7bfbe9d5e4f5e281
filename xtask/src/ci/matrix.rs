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

/// An entry of `include` or `exclude`, made ready.
struct Entry<'a> {
    /// Axes, each with which of its values fit.
    filters: Vec<(usize, Vec<bool>)>,
    /// What is no axis.
    rest: Vec<(&'a str, &'a Value)>,
}

impl Entry<'_> {
    fn fits(&self, choice: &[usize]) -> bool {
        self.filters.iter().all(|(axis, fits)| fits[choice[*axis]])
    }
}

impl Matrix {
    /// Every combination.
    ///
    /// # Errors
    /// The matrix is one that GitHub refuses: an axis without values or named twice, an empty
    /// entry, an `exclude` key that is no axis, nothing at all.
    pub fn expand(&self) -> Result<Expansion, MatrixError> {
        self.check()?;
        let include: Vec<Entry> = self.include.iter().map(|entry| self.entry(entry)).collect();
        let exclude: Vec<Entry> = self.exclude.iter().map(|entry| self.entry(entry)).collect();
        let mut extended = vec![false; include.len()];
        let mut expansion = Expansion::default();
        let mut choice = vec![0; self.axes.len()];
        for index in 0..self.product_size() {
            self.choose(index, &mut choice);
            let mut combination = self.combination(&choice);
            if let Some(entry) = exclude.iter().position(|entry| entry.fits(&choice)) {
                expansion.excluded.push((combination, entry));
                continue;
            }
            for (entry, extended) in include.iter().zip(&mut extended) {
                if entry.fits(&choice) {
                    *extended = true;
                    entry.rest.iter().for_each(|(key, value)| combination.set(key, value));
                }
            }
            expansion.combinations.push(combination);
        }
        let unmatched = self.include.iter().zip(extended).filter(|(_, extended)| !extended);
        expansion.combinations.extend(unmatched.map(|(entry, _)| self.alone(entry)));
        Ok(expansion)
    }

    /// Compares what `entry` says of each axis with each value of the axis, once.
    fn entry<'a>(&self, entry: &'a Map<String, Value>) -> Entry<'a> {
        let (mut filters, mut rest) = (Vec::new(), Vec::new());
        for (key, filter) in entry {
            match self.axes.iter().position(|(name, _)| loose::same_text(name, key)) {
                Some(axis) => {
                    let fits = |value: &Value| loose::matches(filter, value);
                    filters.push((axis, self.axes[axis].1.iter().map(fits).collect()));
                }
                None => rest.push((key.as_str(), filter)),
            }
        }
        Entry { filters, rest }
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

    /// How many combinations the axes have.
    fn product_size(&self) -> usize {
        if self.axes.is_empty() {
            return 0;
        }
        self.axes.iter().map(|(_, values)| values.len()).product()
    }

    /// The places of the values of combination `index`, the last axis varying fastest.
    fn choose(&self, index: usize, choice: &mut [usize]) {
        let mut rest = index;
        for ((_, values), place) in self.axes.iter().zip(choice).rev() {
            *place = rest % values.len();
            rest /= values.len();
        }
    }

    fn combination(&self, choice: &[usize]) -> Combination {
        let value = |((name, values), place): (&(String, Vec<Value>), &usize)| {
            (name.clone(), values[*place].clone())
        };
        Combination(self.axes.iter().zip(choice).map(value).collect())
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
