//! From the statements of a kernel to steps of a threadgroup.

use std::collections::{HashMap, HashSet};

use super::super::kernels::KernelInfo;
use super::super::lex::{Token, matching};
use super::super::parameters::ParameterKind;
use super::super::waiting::is_synchronising_word;
use super::Refusal;
use super::builtins::Builtins;
use super::collective::{Collective, Kind};
use super::effects::{Effects, is_vector};
use super::simd::Simd;
use super::statement::{
    Declaration, Statement, Tokens, inner, is_keyword, name_places, names, parse, reads, same,
    statements,
};
use super::steps::{Analysis, Step, Variable, Work};

/// The functions of a shader, by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions<'k> {
    /// All that it defines.
    pub own: &'k HashSet<&'k str>,
    /// Those in which threads wait.
    pub synchronising: &'k HashSet<&'k str>,
}

impl<'a, 's> Analysis<'a, 's> {
    /// Analyses the body of a kernel.
    pub(super) fn new(
        kernel: &KernelInfo,
        mut builtins: Builtins,
        body: Tokens<'a, 's>,
        functions: Functions<'_>,
    ) -> Result<Self, Refusal> {
        let list = statements(body)?;
        let parsed: Vec<_> = list.iter().map(|s| parse(s)).collect::<Result<_, _>>()?;
        let declared: Vec<_> = parsed.iter().flat_map(declarations_of).collect();
        builtins.find_axis(&declared, body)?;
        let mut analyser = Analyser::new(kernel, builtins, &parsed, functions)?;
        analyser.find_writes(&list, &parsed)?;
        analyser.all.clone_from(&list);
        let last = list.len().saturating_sub(1);
        for (at, (tokens, statement)) in list.iter().zip(&parsed).enumerate() {
            if at == last && matches!(statement, Statement::Return([])) {
                break;
            }
            analyser.statement(tokens, statement)?;
        }
        analyser.finish()
    }
}

fn declarations_of<'a, 's>(statement: &Statement<'a, 's>) -> Vec<Declaration<'a, 's>> {
    match statement {
        Statement::Declarations(all) => all.clone(),
        _ => Vec::new(),
    }
}

/// An [`Analysis`] in the making.
pub(super) struct Analyser<'a, 's, 'k> {
    functions: Functions<'k>,
    /// Names of parameters that are references to constants.
    pub(super) constants: HashSet<&'k str>,
    /// Names of all parameters.
    pub(super) parameters: HashSet<&'k str>,
    /// Names of parameters that are pointers to buffers.
    pub(super) pointers: HashSet<&'k str>,
    /// All statements of the body.
    pub(super) all: Vec<Tokens<'a, 's>>,
    /// Variables that are written to after their declaration.
    rewritten: HashSet<&'s str>,
    /// Variables that hold the number of the thread.
    thread_numbers: HashSet<&'s str>,
    /// Whether memory of the device was stored to.
    has_stored: bool,
    pub(super) made: Analysis<'a, 's>,
}

impl<'a, 's, 'k> Analyser<'a, 's, 'k> {
    fn new(
        kernel: &'k KernelInfo,
        builtins: Builtins,
        parsed: &[Statement<'a, 's>],
        functions: Functions<'k>,
    ) -> Result<Self, Refusal> {
        let threadgroup: Vec<_> = parsed
            .iter()
            .filter_map(|s| if let Statement::Threadgroup(t) = s { Some(*t) } else { None })
            .collect();
        let constants = kernel.parameters.iter().filter(|p| p.is_constant_reference());
        let is_pointer = |kind: &ParameterKind| {
            matches!(kind, ParameterKind::Buffer { by_reference: false, .. })
        };
        let pointers = kernel.parameters.iter().filter(|p| is_pointer(&p.kind));
        Ok(Analyser {
            functions,
            constants: constants.map(|p| &*p.name).collect(),
            parameters: kernel.parameters.iter().map(|p| &*p.name).collect(),
            pointers: pointers.map(|p| &*p.name).collect(),
            all: Vec::new(),
            rewritten: HashSet::new(),
            thread_numbers: HashSet::new(),
            has_stored: false,
            made: Analysis {
                builtins,
                threadgroup,
                variables: HashMap::new(),
                steps: Vec::new(),
                size: None,
                sizes: Vec::new(),
                apart: Vec::new(),
                gathered: HashSet::new(),
            },
        })
    }

    /// Finds out which names are written to, and that each name means one thing.
    fn find_writes(
        &mut self,
        list: &[Tokens<'a, 's>],
        parsed: &[Statement<'a, 's>],
    ) -> Result<(), Refusal> {
        let mut own: HashSet<&str> = self.parameters.iter().copied().collect();
        let variables = parsed.iter().flat_map(declarations_of).map(|d| d.name);
        for name in variables.chain(self.made.threadgroup.iter().map(|t| t.name)) {
            if !own.insert(name) {
                return Err(Refusal::new(format!("two variables with the name {name}")));
            }
        }
        for (tokens, statement) in list.iter().zip(parsed) {
            if matches!(statement, Statement::Threadgroup(_)) {
                continue;
            }
            let effects = Effects::of_statement(tokens)?;
            let is_nested = !matches!(statement, Statement::Declarations(_));
            if let Some(name) = effects.declared.iter().find(|n| is_nested && own.contains(**n)) {
                return Err(Refusal::new(format!("two variables with the name {name}")));
            }
            if let Some(name) = effects.mutated.iter().find(|n| self.parameters.contains(**n)) {
                return Err(Refusal::new(format!("the parameter {name} is changed")));
            }
            for set in [&effects.mutated, &effects.stored, &effects.passed] {
                self.rewritten.extend(set.iter().copied());
            }
        }
        Ok(())
    }

    pub(super) fn is_threadgroup(&self, name: &str) -> bool {
        self.made.threadgroup.iter().any(|t| t.name == name)
    }

    /// Whether an expression is the number of the thread in its group.
    pub(super) fn is_thread_number(&self, tokens: Tokens<'_, '_>) -> bool {
        let is_known = matches!(tokens, [name] if self.thread_numbers.contains(name.text));
        is_known || self.made.builtins.is_thread_number(tokens)
    }

    /// Whether the threads of a group may see different values of an expression.
    fn varies(&self, tokens: Tokens<'a, 's>) -> bool {
        name_places(tokens).any(|at| {
            let variable = self.made.variables.get(tokens[at].text);
            self.made.builtins.varies(tokens, at) || variable.is_some_and(|v| v.varies)
        })
    }

    fn statement(
        &mut self,
        tokens: Tokens<'a, 's>,
        statement: &Statement<'a, 's>,
    ) -> Result<(), Refusal> {
        if let Statement::Threadgroup(_) = statement {
            return Ok(());
        }
        if let Statement::Declarations(all) = statement {
            return all.iter().try_for_each(|d| self.declaration(*d));
        }
        if is_barrier(statement) {
            self.made.steps.push(Step::Barrier);
            return Ok(());
        }
        self.refuse_waiting(tokens)?;
        match statement {
            Statement::If { condition, then, otherwise: None } if is_return(then) => {
                self.guard(condition)
            }
            Statement::If { condition, then, otherwise: None } => {
                let effects = self.effects(then)?;
                let first_alone = matches!(condition, [name @ .., equals, zero]
                    if equals.is("==") && zero.text == "0" && self.is_thread_number(name));
                let keeps_variables = self.writes_to_memory_alone(&effects);
                if first_alone && keeps_variables {
                    self.push_once(Work::statement(then, effects));
                    return Ok(());
                }
                self.varying(tokens)
            }
            Statement::Expression(expression) => {
                let effects = self.effects(tokens)?;
                let shared = !effects.opaque
                    && self.writes_to_memory_alone(&effects)
                    && is_plain_assignment(expression)
                    && !self.varies(expression);
                if shared {
                    self.push_once(Work::statement(tokens, effects));
                    return Ok(());
                }
                self.varying(tokens)
            }
            Statement::For { .. } => match self.gathering_loop(statement)? {
                Some(found) => {
                    self.push_loop(found);
                    Ok(())
                }
                None => self.varying(tokens),
            },
            Statement::Return(_) => Err(Refusal::new("a return in the middle")),
            Statement::Leave => Err(Refusal::new("a break outside of a loop")),
            _ => self.varying(tokens),
        }
    }

    /// What a statement does, if it does not return.
    fn effects(&self, tokens: Tokens<'a, 's>) -> Result<Effects<'s>, Refusal> {
        let effects = if tokens.first().is_some_and(|t| t.is("{")) {
            let mut all = Effects::default();
            for statement in inner(tokens)? {
                all.merge(Effects::of_statement(statement)?);
            }
            all
        } else {
            Effects::of_statement(tokens)?
        };
        if effects.returns { Err(Refusal::new("a return in control flow")) } else { Ok(effects) }
    }

    /// Whether no variable is written to, but threadgroup memory or buffers alone.
    fn writes_to_memory_alone(&self, effects: &Effects<'s>) -> bool {
        let is_memory = |name: &&str| self.is_threadgroup(name) || self.parameters.contains(name);
        effects.mutated.iter().all(|n| self.is_threadgroup(n))
            && effects.stored.iter().all(is_memory)
            && effects.passed.iter().all(|n| {
                is_memory(n) || !self.rewritten.contains(n) || effects.declared.contains(n)
            })
    }

    fn push_once(&mut self, work: Work<'a, 's>) {
        self.note_stores(&work.effects);
        self.made.steps.push(Step::Once(work));
    }

    pub(super) fn note_stores(&mut self, effects: &Effects<'s>) {
        let stores = effects.opaque || effects.stored.iter().any(|n| !self.is_threadgroup(n));
        self.has_stored |= stores;
    }

    fn varying(&mut self, tokens: Tokens<'a, 's>) -> Result<(), Refusal> {
        let effects = self.effects(tokens)?;
        self.note_stores(&effects);
        self.made.steps.push(Step::Varying(Work::statement(tokens, effects)));
        Ok(())
    }

    fn guard(&mut self, condition: Tokens<'a, 's>) -> Result<(), Refusal> {
        if !Effects::of_expression(condition)?.none() {
            return Err(Refusal::new("a return whose condition has effects"));
        }
        let varies = self.varies(condition);
        if varies && self.has_stored {
            return Err(Refusal::new("a return of some threads after a store"));
        }
        self.made.steps.push(Step::Guard { condition, varies });
        Ok(())
    }

    fn declaration(&mut self, declaration: Declaration<'a, 's>) -> Result<(), Refusal> {
        let collective = Collective::of(declaration, |tokens| self.is_thread_number(tokens))?;
        if let Some(collective) = collective {
            return self.collective(collective);
        }
        if let Some(simd) = Simd::of(declaration, self.functions.own)? {
            return self.simd(simd);
        }
        self.refuse_waiting(declaration.init)?;
        let effects = Effects::of_expression(declaration.init)?;
        let name = declaration.name;
        let rewritten = self.rewritten.contains(name);
        let init = declaration.init;
        let varies = rewritten || init.is_empty() || !effects.none() || self.varies(init);
        if !rewritten && self.is_thread_number(init) && is_index_type(declaration.ty) {
            self.thread_numbers.insert(name);
        }
        let cheap = varies && !rewritten && self.is_cheap(init, &effects);
        self.note_stores(&effects);
        let work = Work::declaration(declaration, effects);
        let order = self.made.variables.len();
        let variable = Variable { work: work.clone(), varies, cheap, order };
        self.made.variables.insert(name, variable);
        self.made.steps.push(if varies { Step::Varying(work) } else { Step::Uniform(work) });
        Ok(())
    }

    /// Whether a value is arithmetic of indices, without memory and costly functions.
    fn is_cheap(&self, init: Tokens<'a, 's>, effects: &Effects<'s>) -> bool {
        let known = |name: &str| {
            self.made.builtins.by_name.contains_key(name)
                || self.constants.contains(name)
                || self.made.variables.get(name).is_some_and(|v| v.cheap || !v.varies)
        };
        !init.is_empty()
            && effects.none()
            && effects.loaded.is_empty()
            && names(init).all(|name| is_cheap_function(name) || known(name))
            && !init.iter().any(|t| {
                t.is_ident()
                    && !is_cheap_function(t.text)
                    && !is_namespace(t.text)
                    && !is_keyword(t.text)
                    && !known(t.text)
                    && !is_component(t.text)
            })
    }

    fn collective(&mut self, collective: Collective<'a, 's>) -> Result<(), Refusal> {
        self.check_operands(collective.values.iter().copied(), "a group-wide operation")?;
        let name = collective.result.name;
        if self.rewritten.contains(name) {
            return Err(Refusal::new(format!("{name}, the result of all threads, is changed")));
        }
        match collective.constant_size() {
            Some(size) if self.made.size.is_none_or(|known| known == size) => {
                self.made.size = Some(size);
            }
            Some(_) => return Err(Refusal::new("group-wide operations of different sizes")),
            None if names(collective.size)
                .all(|n| self.constants.contains(n) || is_cheap_function(n)) =>
            {
                if !self.made.sizes.iter().any(|known| same(known, collective.size)) {
                    self.made.sizes.push(collective.size);
                }
            }
            None => return Err(Refusal::new("a group-wide operation of a computed size")),
        }
        self.declare_result(collective.result, false);
        self.made.steps.push(Step::Collective(collective));
        Ok(())
    }

    fn simd(&mut self, simd: Simd<'a, 's>) -> Result<(), Refusal> {
        self.check_operands(simd.operands(), "a SIMD group's operation")?;
        self.declare_result(simd.result, true);
        self.made.steps.push(Step::Simd(simd));
        Ok(())
    }

    /// Refuses operands of the operation `of` that do more than give a value.
    fn check_operands(
        &self,
        mut operands: impl Iterator<Item = Tokens<'a, 's>>,
        of: &str,
    ) -> Result<(), Refusal> {
        operands.try_for_each(|operand| {
            self.refuse_waiting(operand)?;
            match Effects::of_expression(operand)?.none() {
                true => Ok(()),
                false => Err(Refusal::new(format!("an operand of {of} has effects"))),
            }
        })
    }

    /// Adds the variable that an operation gives.
    fn declare_result(&mut self, result: Declaration<'a, 's>, varies: bool) {
        let work = Work::declaration(Declaration { init: &[], ..result }, Effects::default());
        let order = self.made.variables.len();
        self.made.variables.insert(result.name, Variable { work, varies, cheap: false, order });
    }

    /// Refuses what lets threads wait for each other and is no step of its own.
    fn refuse_waiting(&self, tokens: Tokens<'a, 's>) -> Result<(), Refusal> {
        let waits = |t: &&Token<'s>| {
            t.is_ident()
                && (self.functions.synchronising.contains(t.text) || is_synchronising_word(t.text))
        };
        let Some(word) = tokens.iter().find(waits) else { return Ok(()) };
        let is_flow = tokens.first().is_some_and(|t| is_keyword(t.text) || t.is("{"));
        let place = if is_flow { "in control flow" } else { "in an expression" };
        Err(Refusal::new(format!("{} {place}", word.text)))
    }

    fn finish(self) -> Result<Analysis<'a, 's>, Refusal> {
        self.check_memory()?;
        if self.made.size.is_some_and(|n| n == 0 || n > 1024) {
            return Err(Refusal::new("a group-wide operation of more threads than a group has"));
        }
        Ok(self.made)
    }

    /// Checks that each group-wide operation has memory of the shape that it needs, and that what
    /// it would leave there is not used.
    fn check_memory(&self) -> Result<(), Refusal> {
        for step in &self.made.steps {
            let Step::Collective(collective) = step else { continue };
            let welford = matches!(collective.kind, Kind::Welford | Kind::WelfordCombine);
            for name in &collective.memory {
                let variable = self.made.threadgroup.iter().find(|t| t.name == *name);
                let is_array = variable.is_some_and(|t| t.dimensions.len() == 3);
                let is_used = |step: &Step<'a, 's>| match step {
                    Step::Collective(c) => {
                        let other = matches!(c.kind, Kind::Welford | Kind::WelfordCombine);
                        c.values.iter().any(|v| names(v).any(|n| n == *name))
                            || (other && c.memory.contains(name))
                    }
                    _ => step.mentions(name),
                };
                if !is_array || (!welford && self.made.steps.iter().any(is_used)) {
                    return Err(Refusal::new(format!("the use of the threadgroup memory {name}")));
                }
                let ty = variable.and_then(|t| t.ty.last());
                if !welford && ty.is_some_and(|ty| is_vector(ty.text)) {
                    return Err(Refusal::new(format!("an operation on vectors, in {name}")));
                }
            }
        }
        Ok(())
    }
}

fn is_barrier(statement: &Statement<'_, '_>) -> bool {
    let Statement::Expression(tokens) = statement else { return false };
    let path = tokens.iter().position(|t| t.is("("));
    let Some((path, rest)) = path.map(|at| tokens.split_at(at)) else { return false };
    let path = if path.first().is_some_and(|t| t.is("::")) { &path[1..] } else { path };
    let named = ["threadgroup_barrier", "simdgroup_barrier"]
        .iter()
        .any(|name| reads(path, &[name]) || reads(path, &["metal", "::", name]));
    named && matching(rest, 0) == Some(rest.len() - 1)
}

fn is_return(body: Tokens<'_, '_>) -> bool {
    reads(body, &["return", ";"]) || reads(body, &["{", "return", ";", "}"])
}

/// Whether an expression is `place = value`, with no other assignment in it.
fn is_plain_assignment(tokens: Tokens<'_, '_>) -> bool {
    let writes = |t: &&Token<'_>| {
        t.text.ends_with('=') && !matches!(t.text, "==" | "!=" | "<=" | ">=")
            || matches!(t.text, "++" | "--")
    };
    let mut all = tokens.iter().filter(writes);
    all.next().is_some_and(|t| t.is("=")) && all.next().is_none()
}

/// Types that hold the number of any thread.
fn is_index_type(ty: Tokens<'_, '_>) -> bool {
    let ty = if ty.first().is_some_and(|t| t.is("const")) { &ty[1..] } else { ty };
    matches!(ty, [name] if matches!(name.text, "auto" | "int" | "uint" | "long" | "ulong"
        | "ushort" | "short" | "size_t"))
}

/// Functions and types of index arithmetic.
pub(super) fn is_cheap_function(name: &str) -> bool {
    matches!(
        name,
        "floor_divide"
            | "min"
            | "max"
            | "int"
            | "uint"
            | "long"
            | "ulong"
            | "short"
            | "ushort"
            | "bool"
            | "float"
            | "size_t"
            | "char"
            | "uchar"
    )
}

fn is_namespace(name: &str) -> bool {
    matches!(name, "c10" | "metal" | "static_cast")
}

fn is_component(name: &str) -> bool {
    matches!(name, "x" | "y" | "z")
}
