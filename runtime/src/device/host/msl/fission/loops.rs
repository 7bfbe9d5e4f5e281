//! Reductions over more elements than a group has threads.
//!
//! PyTorch's generator gives each thread a run of elements and lets it reduce them one after the
//! other:
//!
//! ```c++
//! for (auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
//!   int r0__linear_idx = 2 * r0_index + r0__cnt;
//!   if (r0__linear_idx >= 1800) break;
//!   ...
//! }
//! ```
//!
//! Together the threads go through all linear indices once, so the loop can go through them in
//! their order, in blocks of neighbouring elements, with a lane of the accumulators for each.

use super::super::lex::{Kind as LexKind, Token, integer, matching};
use super::Refusal;
use super::collective::{Collective, Kind};
use super::effects::Effects;
use super::statement::{
    Declaration, Statement, Tokens, arguments, inner, names, parse, reads, same,
};

/// What a loop gathers in the lanes of a variable, by statement number `at` of its body, of the
/// values of `operand`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gathered<'a, 's> {
    /// One number, by an operation.
    Value { name: &'s str, kind: Kind, at: usize, operand: Tokens<'a, 's> },
    /// The greatest or least number and its index.
    Place { value: &'s str, index: &'s str, kind: Kind, at: usize, operand: Tokens<'a, 's> },
    /// Mean and spread in threadgroup memory: of numbers, or of triples.
    Welford { memory: &'s str, at: usize, operand: Tokens<'a, 's>, of_numbers: bool },
}

impl<'s> Gathered<'_, 's> {
    /// The variables that hold it.
    pub(super) fn names(&self) -> Vec<&'s str> {
        match self {
            Gathered::Value { name, .. } => vec![name],
            Gathered::Place { value, index, .. } => vec![value, index],
            Gathered::Welford { memory, .. } => vec![memory],
        }
    }

    /// Whether this is the operation that brings the lanes together.
    pub(super) fn is_for(&self, collective: &Collective<'_, 's>) -> bool {
        match self {
            Gathered::Value { kind, .. } | Gathered::Place { kind, .. } => *kind == collective.kind,
            Gathered::Welford { .. } => collective.kind == Kind::WelfordCombine,
        }
    }

    /// The number of the statement that gathers it.
    pub(super) fn at(&self) -> usize {
        match self {
            Gathered::Value { at, .. }
            | Gathered::Place { at, .. }
            | Gathered::Welford { at, .. } => *at,
        }
    }
}

/// Two buffers of which a loop stores to the first, so that they must not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Apart<'s> {
    pub stored: &'s str,
    pub other: &'s str,
    /// Whether they may be the same, since each element is used by one step of the loop.
    pub may_be_same: bool,
}

/// How the linear index comes from the thread and the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// `trips * thread + counter`
    Blocked,
    /// `1024 * counter + thread`
    Strided,
}

/// One such loop.
#[derive(Debug, Clone)]
pub(super) struct Loop<'a, 's> {
    /// The linear index.
    pub linear: Declaration<'a, 's>,
    pub order: Order,
    /// Elements of each thread.
    pub trips: Tokens<'a, 's>,
    /// All elements, if the last threads have fewer.
    pub bound: Option<Tokens<'a, 's>>,
    /// What is done with each.
    pub body: Vec<Tokens<'a, 's>>,
    pub gathered: Vec<Gathered<'a, 's>>,
    /// What the whole body does.
    pub effects: Effects<'s>,
}

impl<'a, 's> Loop<'a, 's> {
    /// Reads a loop; `None` if it is another one. `is_thread` tells whether an expression is the
    /// number of the thread, `is_flag` whether a name is a number in threadgroup memory.
    pub(super) fn of(
        statement: &Statement<'a, 's>,
        is_thread: impl Fn(Tokens<'_, '_>) -> bool,
        is_flag: impl Fn(&str) -> bool,
    ) -> Result<Option<Loop<'a, 's>>, Refusal> {
        let Statement::For { init, condition, step, body } = statement else { return Ok(None) };
        let Some((counter, trips)) = counter(init, condition, step)? else { return Ok(None) };
        let mut list = inner(body)?.into_iter().peekable();
        let first = list.next().map(|s| parse(s)).transpose()?;
        let Some(Statement::Declarations(first)) = first else { return Ok(None) };
        let [linear] = first[..] else { return Ok(None) };
        let Some(order) = order(linear, counter, trips, &is_thread) else { return Ok(None) };
        let mut bound = None;
        if let Some(next) = list.peek()
            && let Statement::If { condition: [name, at_least, rest @ ..], then, otherwise: None } =
                parse(next)?
            && (reads(then, &["break", ";"]) || reads(then, &["{", "break", ";", "}"]))
        {
            if !name.is(linear.name) || !at_least.is(">=") {
                return Ok(None);
            }
            bound = Some(rest);
            list.next();
        }
        let body: Vec<_> = list.collect();
        let leaves =
            |t: &Token<'_>| matches!(t.text, "break" | "continue" | "return") || t.text == counter;
        if body.iter().any(|s| s.iter().any(leaves)) {
            return Ok(None);
        }
        let mut effects = Effects::default();
        for statement in &body {
            effects.merge(Effects::of_statement(statement)?);
        }
        let mut found = Loop { linear, order, trips, bound, body, gathered: Vec::new(), effects };
        Ok(found.find_gathered(&is_thread, &is_flag)?.then_some(found))
    }

    /// Which buffers must be apart for the elements to be independent; `None` if they are not
    /// independent anyhow. `is_buffer` tells whether a name is a pointer to a buffer.
    pub(super) fn apart(&self, is_buffer: impl Fn(&str) -> bool) -> Option<Vec<Apart<'s>>> {
        let mut uses: Vec<(&'s str, Tokens<'a, 's>)> = Vec::new();
        for statement in &self.body {
            for (at, token) in statement.iter().enumerate().filter(|(_, t)| is_buffer(t.text)) {
                let end = matching(statement, at + 1).filter(|_| statement[at + 1].is("["))?;
                uses.push((token.text, &statement[at + 2..end]));
            }
        }
        let own = |index: Tokens<'a, 's>| {
            names(index).any(|n| n == self.linear.name || self.effects.declared.contains(&n))
        };
        let mut found = Vec::new();
        for stored in self.effects.stored.iter().copied().filter(|n| is_buffer(n)) {
            let (_, index) = uses.iter().find(|(name, _)| *name == stored)?;
            if !own(index) || uses.iter().any(|(n, i)| *n == stored && !same(i, index)) {
                return None;
            }
            for (other, _) in uses.iter().filter(|(name, _)| *name != stored) {
                let may_be_same =
                    uses.iter().filter(|(n, _)| n == other).all(|(_, i)| same(i, index));
                found.push(Apart { stored, other, may_be_same });
            }
        }
        found.dedup();
        Some(found)
    }

    /// Finds what the loop gathers; false if it changes a variable in another way.
    fn find_gathered(
        &mut self,
        is_thread: &impl Fn(Tokens<'_, '_>) -> bool,
        is_flag: &impl Fn(&str) -> bool,
    ) -> Result<bool, Refusal> {
        let mut copies = vec![self.linear.name];
        for (at, statement) in self.body.iter().enumerate() {
            match parse(statement)? {
                Statement::Declarations(all) => {
                    for d in all {
                        if matches!(d.init, [name] if copies.contains(&name.text)) {
                            copies.push(d.name);
                        }
                    }
                }
                Statement::Expression(tokens) => {
                    self.gathered.extend(value(tokens, at));
                    self.gathered.extend(welford(tokens, at, is_thread)?);
                }
                Statement::If { condition, then, otherwise: None } => {
                    self.gathered.extend(place(condition, then, &copies, at)?);
                }
                _ => {}
            }
        }
        let mut known: Vec<_> = self.gathered.iter().flat_map(Gathered::names).collect();
        let count = known.len();
        known.sort_unstable();
        known.dedup();
        // Each is used once in the body: by what gathers it.
        let uses = |name: &str| {
            let all = self.body.iter().flat_map(|s| names(s));
            all.filter(|n| *n == name).count()
        };
        let expected = |g: &Gathered<'_, '_>| match g {
            Gathered::Value { name, kind: Kind::Max | Kind::Min, .. } => uses(name) == 2,
            Gathered::Value { name, .. } => uses(name) == 1,
            Gathered::Place { value, index, .. } => uses(value) == 2 && uses(index) == 1,
            Gathered::Welford { memory, .. } => uses(memory) == 2,
        };
        let declared = &self.effects.declared;
        let changed = self.effects.mutated.iter().chain(&self.effects.passed);
        Ok(known.len() == count
            && self.gathered.iter().all(expected)
            && changed.into_iter().all(|n| {
                known.contains(n) || declared.contains(n) || (is_flag(n) && self.only_raises(n))
            }))
    }

    /// Whether all that is done with the variable `flag` is to give it one constant.
    fn only_raises(&self, flag: &str) -> bool {
        let mut constant = None;
        self.body.iter().all(|statement| {
            statement.iter().enumerate().filter(|(_, t)| t.is(flag)).all(|(at, _)| {
                let Some([equals, value, end]) = statement.get(at + 1..at + 4) else {
                    return false;
                };
                let is_literal =
                    value.kind == LexKind::Number || matches!(value.text, "true" | "false");
                let same = constant.is_none_or(|known| known == value.text);
                constant = Some(value.text);
                equals.is("=") && is_literal && same && end.is(";")
            })
        })
    }

    /// Whether the body uses the variable `name`.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.body.iter().any(|s| names(s).any(|n| n == name))
    }
}

/// The counter and the trips of `for (auto c = 0; c < N; ++c)`.
fn counter<'a, 's>(
    init: Tokens<'a, 's>,
    condition: Tokens<'a, 's>,
    step: Tokens<'a, 's>,
) -> Result<Option<(&'s str, Tokens<'a, 's>)>, Refusal> {
    let Statement::Declarations(all) = parse(init)? else { return Ok(None) };
    let [Declaration { name, init: [zero], .. }] = all[..] else { return Ok(None) };
    let counts = reads(step, &["++", name]) || reads(step, &[name, "++"]);
    Ok(match condition {
        [c, less, trips @ ..] if c.is(name) && less.is("<") && zero.text == "0" && counts => {
            Some((name, trips))
        }
        _ => None,
    })
}

fn order(
    linear: Declaration<'_, '_>,
    counter: &str,
    trips: Tokens<'_, '_>,
    is_thread: impl Fn(Tokens<'_, '_>) -> bool,
) -> Option<Order> {
    if !matches!(linear.ty, [ty] if matches!(ty.text, "int" | "uint" | "long" | "auto")) {
        return None;
    }
    let plus = linear.init.iter().rposition(|t| t.is("+"))?;
    let (left, right) = (&linear.init[..plus], &linear.init[plus + 1..]);
    let times = left.iter().rposition(|t| t.is("*"))?;
    let (factor, factored) = (&left[..times], &left[times + 1..]);
    if same(factor, trips) && is_thread(factored) && reads(right, &[counter]) {
        return Some(Order::Blocked);
    }
    let strided = matches!(factor, [n] if integer(n.text) == Some(1024));
    (strided && reads(factored, &[counter]) && is_thread(right)).then_some(Order::Strided)
}

/// The tokens behind `c10::metal::` or `::c10::metal::`.
fn helper<'a, 's>(tokens: Tokens<'a, 's>) -> Option<Tokens<'a, 's>> {
    let tokens = if tokens.first()?.is("::") { &tokens[1..] } else { tokens };
    let (path, rest) = tokens.split_at_checked(4)?;
    reads(path, &["c10", "::", "metal", "::"]).then_some(rest)
}

/// `acc += e`, `acc *= e`, `acc = c10::metal::max(acc, e)`.
fn value<'a, 's>(tokens: Tokens<'a, 's>, at: usize) -> Option<Gathered<'a, 's>> {
    let [name, operator, rest @ ..] = tokens else { return None };
    let by = |kind, operand| Gathered::Value { name: name.text, kind, at, operand };
    let kind = match operator.text {
        "+=" => Kind::Sum,
        "*=" => Kind::Product,
        "=" => {
            let call = helper(rest)?;
            let kind = match call.first()?.text {
                "max" => Kind::Max,
                "min" => Kind::Min,
                _ => return None,
            };
            let (list, end) = arguments(call, 1).ok()?;
            let fits = list.len() == 2 && end == call.len() && reads(list[0], &[name.text]);
            return fits.then(|| by(kind, list[1]));
        }
        _ => return None,
    };
    name.is_ident().then(|| by(kind, rest))
}

/// `if (c10::metal::MaxOp<T>::replace(v, acc)) { acc = v; index = linear; }`
fn place<'a, 's>(
    condition: Tokens<'a, 's>,
    then: Tokens<'a, 's>,
    copies: &[&str],
    at: usize,
) -> Result<Option<Gathered<'a, 's>>, Refusal> {
    let Some([operator, open, _, close, colons, replace, call @ ..]) = helper(condition) else {
        return Ok(None);
    };
    let kind = match operator.text {
        "MaxOp" => Kind::ArgMax,
        "MinOp" => Kind::ArgMin,
        _ => return Ok(None),
    };
    let spelled = open.is("<") && close.is(">") && colons.is("::") && replace.is("replace");
    if !spelled || !call.first().is_some_and(|t| t.is("(")) {
        return Ok(None);
    }
    let (list, end) = arguments(call, 0)?;
    let [candidate, [value]] = list[..] else { return Ok(None) };
    let body = inner(then)?;
    let [first, second] = body[..] else { return Ok(None) };
    let assigns = |tokens: Tokens<'a, 's>| match tokens {
        [name, equals, value @ .., _] if name.is_ident() && equals.is("=") => {
            Some((name.text, value))
        }
        _ => None,
    };
    let (Some((kept, kept_value)), Some((index, index_value))) = (assigns(first), assigns(second))
    else {
        return Ok(None);
    };
    let is_index = matches!(index_value, [name] if copies.contains(&name.text));
    let fits = end == call.len()
        && kept == value.text
        && same(kept_value, candidate)
        && is_index
        && kept != index;
    Ok(fits.then_some(Gathered::Place { value: kept, index, kind, at, operand: candidate }))
}

/// `memory[thread * 1] = c10::metal::welford_combine(memory[thread * 1], float3(mean, m2, n))`
fn welford<'a, 's>(
    tokens: Tokens<'a, 's>,
    at: usize,
    is_thread: impl Fn(Tokens<'_, '_>) -> bool,
) -> Result<Option<Gathered<'a, 's>>, Refusal> {
    let Some(equals) = tokens.iter().position(|t| t.is("=")) else { return Ok(None) };
    let (target, rest) = (&tokens[..equals], &tokens[equals + 1..]);
    let Some(memory) = own_element(target, is_thread) else { return Ok(None) };
    let Some(call) = helper(rest).filter(|c| c.len() > 2 && c[0].is("welford_combine")) else {
        return Ok(None);
    };
    let (list, end) = arguments(call, 1)?;
    let [before, operand] = list[..] else { return Ok(None) };
    let [float3, _, ..] = operand else { return Ok(None) };
    if end != call.len() || !same(before, target) || !float3.is("float3") {
        return Ok(None);
    }
    let (parts, end) = arguments(operand, 1)?;
    if end != operand.len() || parts.len() != 3 {
        return Ok(None);
    }
    let of_numbers = reads(parts[1], &["0.0f"]) && reads(parts[2], &["1.0f"]);
    let operand = if of_numbers { parts[0] } else { operand };
    Ok(Some(Gathered::Welford { memory, at, operand, of_numbers }))
}

/// The array in `memory[thread * 1]`: an element that only this thread uses.
pub(super) fn own_element<'s>(
    tokens: Tokens<'_, 's>,
    is_thread: impl Fn(Tokens<'_, '_>) -> bool,
) -> Option<&'s str> {
    let [memory, open, index @ .., close] = tokens else { return None };
    let index = match index {
        [index @ .., times, one] if times.is("*") && one.text == "1" => index,
        _ => index,
    };
    let fits = memory.is_ident() && open.is("[") && close.is("]") && is_thread(index);
    fits.then_some(memory.text)
}

/// Whether a value is what an operation starts with.
pub(super) fn is_identity(kind: Kind, init: Tokens<'_, '_>) -> bool {
    let of_operator = |name: &str| {
        helper(init).is_some_and(|rest| {
            matches!(rest, [operator, open, _, close, rest @ ..]
                if operator.is(name) && open.is("<") && close.is(">")
                    && reads(rest, &["::", "identity", "(", ")"]))
        })
    };
    let number = match init {
        [number] => number.text.trim_end_matches('f'),
        _ => "",
    };
    match kind {
        Kind::Sum => matches!(number, "0" | "0.0"),
        Kind::Product => matches!(number, "1" | "1.0"),
        Kind::Max | Kind::ArgMax => of_operator("MaxOp"),
        Kind::Min | Kind::ArgMin => of_operator("MinOp"),
        Kind::Welford | Kind::WelfordCombine => false,
    }
}
