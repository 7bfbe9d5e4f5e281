//! Inheritance: the order in which files are laid over each other.
//!
//! Parents come before the file that names them, in the order in which they are named, each file
//! once. With `d` inherited by both `b` and `c`, and `a` inheriting `[b, c]`, the order is
//! `d b c a`: what `b` changed of `d` stays changed although `c` starts from `d` too.

use std::collections::BTreeSet;

use super::document::Document;
use super::error::PresetError;
use super::origin::Sourced;
use super::schema;

/// Where preset files come from: the folder, or a map in tests.
pub trait Source {
    /// Reads the preset `name`, or nothing where there is none.
    ///
    /// # Errors
    /// The file is there and has faults.
    fn load(&self, name: &str) -> Result<Option<Document>, PresetError>;

    /// The names there are.
    fn names(&self) -> Vec<String>;
}

/// The documents that make up `name`, in the order in which they are laid over each other.
///
/// # Errors
/// The preset or a parent does not exist, inheritance goes in a circle, or a file has faults.
pub fn linearize(source: &dyn Source, name: &str) -> Result<Vec<Document>, PresetError> {
    let mut walk = Walk { source, order: Vec::new(), done: BTreeSet::new(), path: Vec::new() };
    let root = source.load(name)?.ok_or_else(|| {
        let hint = schema::suggestion(name, source.names());
        PresetError::new(format!("there is no preset `{name}`{hint}"))
    })?;
    walk.visit(root)?;
    Ok(walk.order)
}

struct Walk<'a> {
    source: &'a dyn Source,
    order: Vec<Document>,
    done: BTreeSet<String>,
    path: Vec<String>,
}

impl Walk<'_> {
    fn visit(&mut self, document: Document) -> Result<(), PresetError> {
        self.path.push(document.identity.name.clone());
        for parent in document.identity.inherits.clone() {
            self.parent(&parent)?;
        }
        self.path.pop();
        self.done.insert(document.identity.name.clone());
        self.order.push(document);
        Ok(())
    }

    fn parent(&mut self, parent: &Sourced<String>) -> Result<(), PresetError> {
        let name = &parent.value;
        if let Some(start) = self.path.iter().position(|p| p == name) {
            let circle = [&self.path[start..], std::slice::from_ref(name)].concat().join(" -> ");
            return Err(PresetError::at(
                &parent.origin,
                format_args!("presets inherit each other in a circle: {circle}"),
            ));
        }
        if self.done.contains(name) {
            return Ok(());
        }
        let document = self.source.load(name)?.ok_or_else(|| {
            let hint = schema::suggestion(name, self.source.names());
            PresetError::at(&parent.origin, format_args!("there is no preset `{name}`{hint}"))
        })?;
        self.visit(document)
    }
}
