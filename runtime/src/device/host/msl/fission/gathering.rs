//! Which loops over the elements of all threads can be one loop: those of which all that they gather
//! is brought together by operations of the group.

use super::Refusal;
use super::analyse::{Analyser, is_cheap_function};
use super::collective::{Collective, Kind};
use super::effects::Effects;
use super::loops::{Gathered, Loop, is_identity, own_element};
use super::statement::{Statement, Tokens, name_places, names, parse, reads};
use super::steps::Step;

impl<'a, 's> Analyser<'a, 's, '_> {
    /// The loop that goes through the elements of all threads, if this one does and all that it
    /// gathers is brought together by an operation of the group, and not used otherwise.
    pub(super) fn gathering_loop(
        &mut self,
        statement: &Statement<'a, 's>,
    ) -> Result<Option<Loop<'a, 's>>, Refusal> {
        let is_flag = |name: &str| {
            self.made.threadgroup.iter().any(|t| t.name == name && t.dimensions.is_empty())
        };
        let found = Loop::of(statement, |tokens| self.is_thread_number(tokens), is_flag)?;
        let Some(found) = found else { return Ok(None) };
        let constant = |tokens: Tokens<'a, 's>| {
            names(tokens).all(|n| self.constants.contains(n) || is_cheap_function(n))
                && Effects::of_expression(tokens).is_ok_and(|e| e.none() && e.loaded.is_empty())
        };
        let plain = constant(found.trips)
            && found.bound.is_none_or(constant)
            && !found.effects.opaque
            && found.effects.passed.is_empty()
            && self.body_is_shared(&found);
        if !plain {
            return Ok(None);
        }
        for gathered in &found.gathered {
            if !self.is_brought_together(gathered, statement)? {
                return Ok(None);
            }
        }
        let Some(apart) = found.apart(|name| self.pointers.contains(name)) else {
            return Ok(None);
        };
        self.made.apart.extend(apart);
        Ok(Some(found))
    }

    /// Whether a loop's body uses nothing that differs between threads but what it gathers, and
    /// stores to nothing but buffers.
    fn body_is_shared(&self, of: &Loop<'a, 's>) -> bool {
        let gathered: Vec<_> = of.gathered.iter().flat_map(Gathered::names).collect();
        let is_own = |name: &str| {
            name == of.linear.name
                || of.effects.declared.contains(&name)
                || gathered.contains(&name)
        };
        let stores_to_buffers = of.effects.stored.iter().all(|n| {
            self.pointers.contains(n) || of.effects.declared.contains(n) || gathered.contains(n)
        });
        let reads_threadgroup =
            of.effects.loaded.iter().any(|n| self.is_threadgroup(n) && !gathered.contains(n));
        let shared = of.body.iter().enumerate().all(|(at, statement)| {
            let welford = of.gathered.iter().find_map(|g| match g {
                Gathered::Welford { at: place, operand, .. } if *place == at => Some(*operand),
                _ => None,
            });
            let tokens = welford.unwrap_or(statement);
            name_places(tokens).all(|i| {
                let name = tokens[i].text;
                let variable = self.made.variables.get(name);
                is_own(name)
                    || !(self.made.builtins.varies(tokens, i) || variable.is_some_and(|v| v.varies))
            })
        });
        shared && stores_to_buffers && !reads_threadgroup
    }

    /// Whether what a loop gathers starts as nothing, and is used by one operation of the group
    /// behind the loop and by nothing else.
    fn is_brought_together(
        &self,
        gathered: &Gathered<'a, 's>,
        own: &Statement<'a, 's>,
    ) -> Result<bool, Refusal> {
        let held = gathered.names();
        let init = |name: &str| {
            let work = &self.made.variables.get(name)?.work;
            let declaration = work.declares?;
            (!declaration.ty.iter().any(|t| t.is("auto"))).then_some(declaration.init)
        };
        let starts = match gathered {
            Gathered::Value { name, kind, .. } => init(name).is_some_and(|i| is_identity(*kind, i)),
            Gathered::Place { value, index, kind, .. } => {
                init(value).is_some_and(|i| is_identity(*kind, i))
                    && init(index).is_some_and(|i| is_identity(Kind::Sum, i))
            }
            Gathered::Welford { .. } => true,
        };
        let mut operations = 0;
        let mut is_behind = false;
        for tokens in &self.all {
            let statement = parse(tokens)?;
            if statement == *own {
                is_behind = true;
                continue;
            }
            if matches!(statement, Statement::Threadgroup(_))
                || !names(tokens).any(|n| held.contains(&n))
                || is_start(&statement, &held)
                || (!is_behind && self.clears(&statement, gathered))
            {
                continue;
            }
            let Statement::Declarations(all) = statement else { return Ok(false) };
            let [declaration] = all[..] else { return Ok(false) };
            let call = Collective::of(declaration, |t| self.is_thread_number(t))?;
            let Some(call) = call.filter(|_| is_behind) else { return Ok(false) };
            let operands = if call.values.is_empty() {
                call.memory.clone()
            } else {
                call.values.iter().filter_map(|v| self.sole_name(v)).collect()
            };
            if !gathered.is_for(&call) || operands != held {
                return Ok(false);
            }
            operations += 1;
        }
        Ok(starts && operations == 1)
    }

    /// The variable in `variable`, or in a cast of it to its own type.
    fn sole_name(&self, tokens: Tokens<'a, 's>) -> Option<&'s str> {
        match tokens {
            [name] => Some(name.text),
            [cast, open, ty, close, left, name, right] => {
                let declared = self.made.declaration(name.text)?;
                let spelled = cast.is("static_cast") && open.is("<") && close.is(">");
                let whole = left.is("(") && right.is(")");
                (spelled && whole && reads(declared.ty, &[ty.text])).then_some(name.text)
            }
            _ => None,
        }
    }

    /// Whether a statement sets this thread's element of what is gathered to zero.
    fn clears(&self, statement: &Statement<'a, 's>, gathered: &Gathered<'a, 's>) -> bool {
        let Gathered::Welford { memory, .. } = gathered else { return false };
        let Statement::Expression([target @ .., equals, zero]) = statement else { return false };
        equals.is("=")
            && zero.text.trim_end_matches('f') == "0.0"
            && own_element(target, |t| self.is_thread_number(t)) == Some(memory)
    }

    pub(super) fn push_loop(&mut self, found: Loop<'a, 's>) {
        self.note_stores(&found.effects);
        let held: Vec<_> = found.gathered.iter().flat_map(Gathered::names).collect();
        // What was done to start it is part of the loop.
        self.made.steps.retain(|step| match step {
            Step::Varying(work) => {
                let starts = work.declares.is_some_and(|d| held.contains(&d.name));
                let clears = work.effects.stored.iter().any(|n| held.contains(n));
                !starts && !clears
            }
            _ => true,
        });
        self.made.gathered.extend(held);
        self.made.steps.push(Step::Loop(found));
    }
}

/// Whether a statement declares one of the names.
fn is_start(statement: &Statement<'_, '_>, held: &[&str]) -> bool {
    matches!(statement, Statement::Declarations(all)
        if all.len() == 1 && held.contains(&all[0].name))
}
