//! Whether it pays to run neighbouring threadgroups together.

use std::collections::HashSet;

use super::super::lex::matching;
use super::statement::{Declaration, Statement, Tokens, parse};
use super::steps::{Analysis, Step};

/// Whether what the threads use lies side by side for neighbouring groups: in some index the
/// number of the group stands alone and that of the element is multiplied, and in none the other
/// way round.
pub(super) fn pays(analysis: &Analysis<'_, '_>) -> bool {
    let mut found = Indices { groups: HashSet::new(), elements: HashSet::new() };
    let mut bodies: Vec<Tokens<'_, '_>> = Vec::new();
    for step in &analysis.steps {
        match step {
            Step::Uniform(work) | Step::Varying(work) => {
                bodies.push(work.tokens);
                work.declares.iter().for_each(|d| found.note(analysis, *d));
            }
            Step::Loop(of) => {
                found.elements.insert(of.linear.name);
                for statement in &of.body {
                    bodies.push(statement);
                    if let Ok(Statement::Declarations(all)) = parse(statement) {
                        all.into_iter().for_each(|d| found.note(analysis, d));
                    }
                }
            }
            _ => {}
        }
    }
    let indices = bodies.iter().flat_map(|body| {
        (1..body.len())
            .filter(|at| body[*at].is("[") && body[at - 1].is_ident())
            .filter_map(|at| matching(body, at).map(|end| &body[at + 1..end]))
    });
    let (mut good, mut bad) = (false, false);
    for index in indices {
        let of = |set: &HashSet<&str>, multiplied: bool| {
            index.iter().enumerate().any(|(at, t)| {
                let before = at > 0 && index[at - 1].is("*");
                let behind = index.get(at + 1).is_some_and(|t| t.is("*"));
                set.contains(t.text) && (before || behind) == multiplied
            })
        };
        good |= of(&found.groups, false) && of(&found.elements, true);
        bad |= of(&found.elements, false) && index.len() > 1;
    }
    good && !bad
}

/// Names that hold the number of the group or of the element.
struct Indices<'s> {
    groups: HashSet<&'s str>,
    elements: HashSet<&'s str>,
}

impl<'s> Indices<'s> {
    fn note(&mut self, analysis: &Analysis<'_, 's>, declaration: Declaration<'_, 's>) {
        match declaration.init {
            [position, dot, component]
                if dot.is(".") && analysis.builtins.by_name.contains_key(position.text) =>
            {
                if component.is("x") {
                    self.groups.insert(declaration.name);
                } else if component.is(["x", "y", "z"][analysis.builtins.axis]) {
                    self.elements.insert(declaration.name);
                }
            }
            [name] if self.groups.contains(name.text) => {
                self.groups.insert(declaration.name);
            }
            [name] if self.elements.contains(name.text) => {
                self.elements.insert(declaration.name);
            }
            _ => {}
        }
    }
}
