//! What fission knows of a kernel: the steps of a threadgroup, and the variables of its threads.

use std::collections::{HashMap, HashSet};

use super::builtins::Builtins;
use super::collective::Collective;
use super::effects::Effects;
use super::loops::{Apart, Loop};
use super::simd::Simd;
use super::statement::{Declaration, Threadgroup, Tokens, names, text};

/// What is done for a threadgroup, in order.
#[derive(Debug, Clone)]
pub(super) enum Step<'a, 's> {
    /// A value that all threads share.
    Uniform(Work<'a, 's>),
    /// Something that one thread does for all: the store of a value they share, or what the
    /// first thread does alone.
    Once(Work<'a, 's>),
    /// What each thread does.
    Varying(Work<'a, 's>),
    Barrier,
    Collective(Collective<'a, 's>),
    Simd(Simd<'a, 's>),
    /// Over the elements that the threads share among them.
    Loop(Loop<'a, 's>),
    /// `if (condition) return;`
    Guard {
        condition: Tokens<'a, 's>,
        varies: bool,
    },
}

/// A statement that is executed.
#[derive(Debug, Clone)]
pub(super) struct Work<'a, 's> {
    /// Its tokens, with the `;`; of a declaration among several, only those of its value.
    pub tokens: Tokens<'a, 's>,
    pub declares: Option<Declaration<'a, 's>>,
    pub effects: Effects<'s>,
}

impl<'a, 's> Work<'a, 's> {
    pub(super) fn statement(tokens: Tokens<'a, 's>, effects: Effects<'s>) -> Self {
        Work { tokens, declares: None, effects }
    }

    pub(super) fn declaration(declaration: Declaration<'a, 's>, effects: Effects<'s>) -> Self {
        Work { tokens: declaration.init, declares: Some(declaration), effects }
    }

    /// As a statement of C++.
    pub(super) fn code(&self) -> String {
        match self.declares {
            Some(d) if d.init.is_empty() => format!("{} {};", text(d.ty), d.name),
            Some(d) => format!("{} {} = {};", text(d.ty), d.name, text(d.init)),
            None => text(self.tokens),
        }
    }
}

impl<'a, 's> Step<'a, 's> {
    /// Whether the step uses the variable `name`.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let within = |tokens: Tokens<'_, '_>| names(tokens).any(|n| n == name);
        match self {
            Step::Uniform(work) | Step::Once(work) | Step::Varying(work) => within(work.tokens),
            Step::Barrier => false,
            Step::Collective(c) => c.values.iter().any(|v| within(v)) || c.memory.contains(&name),
            Step::Simd(simd) => simd.operands().any(within),
            Step::Loop(of) => of.mentions(name),
            Step::Guard { condition, .. } => within(condition),
        }
    }
}

/// A variable of the kernel's body.
#[derive(Debug, Clone)]
pub(super) struct Variable<'a, 's> {
    /// Its declaration.
    pub work: Work<'a, 's>,
    /// Whether the threads of a group have different values of it.
    pub varies: bool,
    /// Whether it is so cheap to compute that each phase does it anew.
    pub cheap: bool,
    /// Place among the declarations.
    pub order: usize,
}

/// What fission knows of a kernel.
#[derive(Debug)]
pub(super) struct Analysis<'a, 's> {
    pub builtins: Builtins,
    pub threadgroup: Vec<Threadgroup<'a, 's>>,
    pub variables: HashMap<&'s str, Variable<'a, 's>>,
    pub steps: Vec<Step<'a, 's>>,
    /// Threads that a group must have, if the source says a number.
    pub size: Option<u32>,
    /// Expressions of buffers that must equal the number of threads.
    pub sizes: Vec<Tokens<'a, 's>>,
    /// Buffers that must not overlap.
    pub apart: Vec<Apart<'s>>,
    /// Variables and threadgroup memory in which loops gather something.
    pub gathered: HashSet<&'s str>,
}

impl<'a, 's> Analysis<'a, 's> {
    /// The loops among the steps.
    pub(super) fn loops(&self) -> impl Iterator<Item = &Loop<'a, 's>> {
        self.steps.iter().filter_map(|s| if let Step::Loop(of) = s { Some(of) } else { None })
    }

    /// What declares the variable `name`.
    pub(super) fn declaration(&self, name: &str) -> Option<Declaration<'a, 's>> {
        self.variables.get(name)?.work.declares
    }
}
