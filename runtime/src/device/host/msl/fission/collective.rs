//! Operations of a whole threadgroup: calls of PyTorch's helpers in `c10::metal`.

use super::super::lex::integer;
use super::Refusal;
use super::statement::{Declaration, Tokens, arguments, reads, text};

/// Which operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sum,
    Product,
    Max,
    Min,
    ArgMax,
    ArgMin,
    /// Mean and spread of numbers in threadgroup memory.
    Welford,
    /// The same of triples (mean, spread, weight).
    WelfordCombine,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        let operation = name.strip_prefix("threadgroup_").or(name.strip_prefix("fiber_"))?;
        Some(match operation {
            "sum" => Kind::Sum,
            "prod" => Kind::Product,
            "max" => Kind::Max,
            "min" => Kind::Min,
            "argmax" => Kind::ArgMax,
            "argmin" => Kind::ArgMin,
            "welford_reduce" => Kind::Welford,
            "welford_combine" => Kind::WelfordCombine,
            _ => return None,
        })
    }

    /// The operator's name in `reduction.h`; none for welford.
    pub(super) fn operator(self) -> &'static str {
        match self {
            Kind::Sum => "Add",
            Kind::Product => "Multiply",
            Kind::Max | Kind::ArgMax => "Greatest",
            Kind::Min | Kind::ArgMin => "Least",
            Kind::Welford | Kind::WelfordCombine => "",
        }
    }

    /// Whether it gives the place of a number.
    pub(super) fn is_place(self) -> bool {
        matches!(self, Kind::ArgMax | Kind::ArgMin)
    }

    fn memory_arguments(self) -> usize {
        if self.is_place() { 2 } else { 1 }
    }

    fn value_arguments(self) -> usize {
        match self {
            Kind::Welford | Kind::WelfordCombine => 0,
            Kind::ArgMax | Kind::ArgMin => 2,
            _ => 1,
        }
    }
}

/// Whether a function of `c10::metal` is such an operation.
pub(super) fn is_operation(name: &str) -> bool {
    Kind::of(name).is_some()
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Collective<'a, 's> {
    pub kind: Kind,
    /// What is declared with the result.
    pub result: Declaration<'a, 's>,
    /// The threadgroup variables that it uses.
    pub memory: Vec<&'s str>,
    /// The operands of each thread.
    pub values: Vec<Tokens<'a, 's>>,
    /// Threads of the group, as the call says.
    pub size: Tokens<'a, 's>,
}

impl<'a, 's> Collective<'a, 's> {
    /// The call that a declaration's value is; `None` if it is no call of a known operation.
    /// `is_thread` tells whether an expression is the number of the thread in its group.
    pub(super) fn of(
        declaration: Declaration<'a, 's>,
        is_thread: impl Fn(Tokens<'a, 's>) -> bool,
    ) -> Result<Option<Collective<'a, 's>>, Refusal> {
        let init = declaration.init;
        let init = if init.first().is_some_and(|t| t.is("::")) { &init[1..] } else { init };
        let Some((path, call)) = init.split_at_checked(4) else { return Ok(None) };
        if !reads(path, &["c10", "::", "metal", "::"]) {
            return Ok(None);
        }
        let [name, open, ..] = call else { return Ok(None) };
        let Some(kind) = Kind::of(name.text).filter(|_| open.is("(")) else { return Ok(None) };
        let (list, end) = arguments(call, 1)?;
        if end != call.len() {
            return Err(Refusal::new(format!("{} inside an expression", name.text)));
        }
        let (memory, values) = (kind.memory_arguments(), kind.value_arguments());
        let with_index = usize::from(values > 0);
        if list.len() != memory + values + with_index + 1 {
            return Err(Refusal::new(format!("{} with other arguments", name.text)));
        }
        if with_index == 1 && !is_thread(without_unit(list[memory + values])) {
            let index = text(list[memory + values]);
            return Err(Refusal::new(format!("{} with the index {index}", name.text)));
        }
        let variable = |tokens: &Tokens<'a, 's>| match tokens {
            [name] if name.is_ident() => Ok(name.text),
            _ => Err(Refusal::new(format!("{} in {}", name.text, text(tokens)))),
        };
        Ok(Some(Collective {
            kind,
            result: declaration,
            memory: list[..memory].iter().map(variable).collect::<Result<_, _>>()?,
            values: list[memory..memory + values].to_vec(),
            size: list[list.len() - 1],
        }))
    }

    /// The size, if it is a number.
    pub(super) fn constant_size(&self) -> Option<u32> {
        if let [number] = self.size { integer(number.text) } else { None }
    }
}

/// `x` for `x * 1`.
fn without_unit<'a, 's>(tokens: Tokens<'a, 's>) -> Tokens<'a, 's> {
    match tokens {
        [inner @ .., times, one] if times.is("*") && one.text == "1" => inner,
        _ => tokens,
    }
}
