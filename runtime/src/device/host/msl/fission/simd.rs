//! Operations of SIMD groups and quad groups, of which each thread has a result of its own:
//! reductions, prefix sums, shuffles and votes (Metal Shading Language Specification, 6.9.2).

use std::collections::HashSet;

use super::Refusal;
use super::statement::{Declaration, Tokens, arguments};

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simd<'a, 's> {
    pub kind: Kind,
    /// What is declared with the result.
    pub result: Declaration<'a, 's>,
    pub value: Tokens<'a, 's>,
    /// The lane or the distance of a shuffle.
    pub argument: Option<Tokens<'a, 's>>,
}

/// Which operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// Its type in `simdgroup.h`.
    pub ty: String,
    /// Whether its operand is a truth value.
    pub is_vote: bool,
    /// Whether it takes a lane or a distance beside the value.
    has_argument: bool,
}

impl Kind {
    /// The operation of Metal's function `name`; `None` if it is another one.
    fn of(name: &str) -> Option<Kind> {
        let (operation, width) = match name.strip_prefix("simd_") {
            Some(operation) => (operation, 32),
            None => (name.strip_prefix("quad_")?, 4),
        };
        let operator = |name| {
            Some(match name {
                "sum" => "Sum",
                "product" => "Product",
                "max" => "Maximum",
                "min" => "Minimum",
                "and" | "all" => "BitAnd",
                "or" | "any" => "BitOr",
                "xor" => "BitXor",
                _ => return None,
            })
        };
        let source = match operation {
            "shuffle" | "broadcast" => "FromLane",
            "shuffle_xor" => "FromXor",
            "shuffle_down" => "FromAbove",
            "shuffle_up" => "FromBelow",
            "shuffle_rotate_down" => "RotateDown",
            "shuffle_rotate_up" => "RotateUp",
            _ => "",
        };
        let ty = if !source.is_empty() {
            format!("msl::Shuffle<msl::{source}, {width}>")
        } else if let Some(scan) = operation.strip_prefix("prefix_") {
            let (order, name) = scan.split_once('_')?;
            let is_inclusive = order == "inclusive";
            if !(is_inclusive || order == "exclusive") || !matches!(name, "sum" | "product") {
                return None;
            }
            format!("msl::Scan<msl::{}, {width}, {is_inclusive}>", operator(name)?)
        } else {
            format!("msl::Reduction<msl::{}, {width}>", operator(operation)?)
        };
        let is_vote = matches!(operation, "any" | "all");
        Some(Kind { ty, is_vote, has_argument: !source.is_empty() })
    }
}

/// Where the call of such an operation starts whose name stands at `at`; `None` if it is none.
/// `own` names the functions of the shader, of which an unqualified name may be one.
pub(super) fn start_of_call(
    tokens: Tokens<'_, '_>,
    at: usize,
    own: &HashSet<&str>,
) -> Option<usize> {
    let is_call = tokens.get(at + 1).is_some_and(|t| t.is("("));
    Kind::of(tokens[at].text).filter(|_| is_call)?;
    let before = |n: usize| at.checked_sub(n).map_or("", |i| tokens[i].text);
    match (before(1), before(2), before(3)) {
        ("::", "metal", "::") => {
            let is_global = at == 3 || !tokens[at - 4].is_ident();
            is_global.then(|| at - 3)
        }
        ("::", "metal", _) => Some(at - 2),
        ("::" | "." | "->", ..) => None,
        _ => (!own.contains(tokens[at].text)).then_some(at),
    }
}

impl<'a, 's> Simd<'a, 's> {
    /// The call that a declaration's value is; `None` if it is something else.
    pub(super) fn of(
        declaration: Declaration<'a, 's>,
        own: &HashSet<&str>,
    ) -> Result<Option<Simd<'a, 's>>, Refusal> {
        let init = declaration.init;
        let Some(open) = init.iter().position(|t| t.is("(")).filter(|open| *open > 0) else {
            return Ok(None);
        };
        let name = init[open - 1].text;
        let (list, end) = arguments(init, open)?;
        if start_of_call(init, open - 1, own) != Some(0) || end != init.len() {
            return Ok(None);
        }
        let Some(kind) = Kind::of(name) else { return Ok(None) };
        let (value, argument) = match (&list[..], kind.has_argument) {
            ([value], false) => (*value, None),
            ([value, argument], true) => (*value, Some(*argument)),
            _ => return Err(Refusal::new(format!("{name} with other arguments"))),
        };
        Ok(Some(Simd { kind, result: declaration, value, argument }))
    }

    /// Its operands.
    pub(super) fn operands(&self) -> impl Iterator<Item = Tokens<'a, 's>> {
        std::iter::once(self.value).chain(self.argument)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::lex::lex;
    use super::*;

    fn start(call: &str, own: &[&str]) -> Option<usize> {
        let tokens = lex(call).unwrap();
        let name = tokens.iter().position(|t| t.is("(")).unwrap() - 1;
        start_of_call(&tokens, name, &own.iter().copied().collect())
    }

    #[test]
    fn calls_are_of_metal() {
        assert_eq!(start("simd_sum(x)", &[]), Some(0));
        assert_eq!(start("simd_sum(x)", &["simd_sum"]), None);
        assert_eq!(start("metal::simd_sum(x)", &["simd_sum"]), Some(0));
        assert_eq!(start("2 * ::metal::quad_shuffle_xor(x, 1)", &[]), Some(2));
        assert_eq!(start("c10::metal::simd_sum(x)", &[]), None);
        assert_eq!(start("a.simd_sum(x)", &[]), None);
        assert_eq!(start("simd_ballot(x)", &[]), None);
    }

    #[test]
    fn names_are_operations() {
        let ty = |name| Kind::of(name).map(|k| k.ty);
        assert_eq!(ty("simd_max").unwrap(), "msl::Reduction<msl::Maximum, 32>");
        assert_eq!(
            ty("quad_prefix_exclusive_product").unwrap(),
            "msl::Scan<msl::Product, 4, false>"
        );
        assert_eq!(ty("simd_broadcast").unwrap(), "msl::Shuffle<msl::FromLane, 32>");
        for other in ["simd_prefix_inclusive_max", "simd_shuffle_and_fill_up", "sum", "simd_first"]
        {
            assert_eq!(ty(other), None, "{other}");
        }
    }
}
