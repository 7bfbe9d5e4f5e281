//! Inheritance: the order in which files are laid over each other.
//!
//! Parents come before the file that names them, in the order in which they are named, each file
//! once. With `d` inherited by both `b` and `c`, and `a` inheriting `[b, c]`, the order is
//! `d b c a`: what `b` changed of `d` stays changed although `c` starts from `d` too.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::document::Document;
use super::error::{Fault, PresetError};
use super::origin::{SourceFile, Sourced};
use super::schema;

/// Where preset files come from: the folder, or a map in tests.
pub trait Source {
    /// Reads the file of the preset `name`, or nothing where there is none.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    fn read(&self, name: &str) -> io::Result<Option<SourceFile>>;

    /// The names there are.
    fn names(&self) -> Vec<String>;
}

/// The files of a preset.
#[derive(Debug)]
pub struct Line {
    /// In the order in which they are laid over each other; the preset itself is the last. There
    /// is none only where the preset itself does not exist.
    pub documents: Vec<Document>,
    /// Whether every parent is there and could be read: only then can something be missing.
    pub whole: bool,
}

/// The documents that make up `name`, and what is wrong with them: the preset or a parent does not
/// exist, inheritance goes in a circle, or a file has faults.
pub fn linearize(source: &dyn Source, name: &str) -> (Line, PresetError) {
    let mut walk = Walk {
        source,
        order: Vec::new(),
        seen: BTreeSet::new(),
        path: Vec::new(),
        whole: true,
        faults: PresetError::default(),
    };
    match source.read(name) {
        Ok(Some(file)) => walk.visit(name, file),
        Ok(None) => {
            let hint = schema::suggestion(name, source.names());
            walk.faults.push(Fault::new(format_args!("there is no preset `{name}`{hint}")));
        }
        Err(e) => walk.faults.push(Fault::new(format_args!("the preset `{name}`: {e}"))),
    }
    (Line { documents: walk.order, whole: walk.whole }, walk.faults)
}

struct Walk<'a> {
    source: &'a dyn Source,
    order: Vec<Document>,
    seen: BTreeSet<String>,
    path: Vec<String>,
    whole: bool,
    faults: PresetError,
}

impl Walk<'_> {
    fn visit(&mut self, name: &str, file: SourceFile) {
        let (document, faults) = Document::parse(&Arc::new(file), name);
        self.faults.extend(faults);
        self.whole &= document.whole;
        self.seen.insert(name.to_owned());
        self.path.push(name.to_owned());
        for parent in &document.identity.inherits {
            self.parent(parent);
        }
        self.path.pop();
        self.order.push(document);
    }

    fn parent(&mut self, parent: &Sourced<String>) {
        let name = &parent.value;
        let what = if let Some(start) = self.path.iter().position(|p| p == name) {
            let circle = [&self.path[start..], std::slice::from_ref(name)].concat().join(" -> ");
            format!("presets inherit each other in a circle: {circle}")
        } else if self.seen.contains(name) {
            return;
        } else {
            match self.source.read(name) {
                Ok(Some(file)) => return self.visit(name, file),
                Ok(None) => {
                    let hint = schema::suggestion(name, self.source.names());
                    format!("there is no preset `{name}`{hint}")
                }
                Err(e) => format!("the preset `{name}`: {e}"),
            }
        };
        self.whole = false;
        self.faults.push(Fault::at(&parent.origin, what));
    }
}
