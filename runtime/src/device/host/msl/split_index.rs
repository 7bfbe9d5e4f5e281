//! Finds plain kernels that take the index of their thread apart with `/` and `%` by constants, as
//! generated ones do for each dimension of a tensor.
//!
//! Such an index gets a type of its own (`include/split.h`): the loop over threads is split at
//! multiples of the smallest divisor, and the divisions are done once for each part. Only where
//! each use of the index is one of the forms below, which is what makes the result the same:
//!
//! ```text
//! int x = index;                                    int x = (index) % (64);
//! int x = c10::metal::floor_divide(index, 64);      int x = ((index) / (64)) % (16);
//! ```

use super::LaunchMode;
use super::declarations::{Declaration, kernel_declarations};
use super::kernels::Analysis;
use super::lex::{Kind, Token, attribute_end, integer, matching};
use super::rewrite::Replacement;

/// Parts of the loop that are shorter than this gain nothing.
const SHORTEST: u32 = 32;

/// An index that is multiplied by at least this jumps from row to row of the input.
const JUMP: u32 = 64;

/// What has to be replaced in the text for the indices of all kernels.
pub(crate) fn replacements(tokens: &[Token<'_>], analysis: &Analysis) -> Vec<Replacement> {
    let declarations = kernel_declarations(tokens).unwrap_or_default();
    let plain = declarations.iter().filter(|d| d.has_body && is_plain(tokens, d, analysis));
    plain.filter_map(|declaration| of_kernel(tokens, declaration)).flatten().collect()
}

/// Whether it declares a plain kernel that is no template.
fn is_plain(tokens: &[Token<'_>], declaration: &Declaration, analysis: &Analysis) -> bool {
    let words = &tokens[declaration.tokens.clone()];
    let named = |name: &str| words.iter().any(|token| token.is_ident() && token.text == name);
    !words.iter().any(|token| token.is("template"))
        && analysis.kernels.iter().any(|kernel| {
            let own = kernel.function.rsplit("::").next().unwrap_or_default();
            let lines = words.first().zip(words.last());
            kernel.mode == LaunchMode::Plain
                && lines.is_some_and(|(a, b)| (a.line..=b.line).contains(&kernel.line))
                && named(own)
        })
}

/// What has to be replaced for one kernel; `None` if its index has to stay a number.
fn of_kernel(tokens: &[Token<'_>], declaration: &Declaration) -> Option<Vec<Replacement>> {
    let ty = index_parameter(tokens, declaration)?;
    let index = tokens[ty + 1].text;
    let open = declaration.tokens.end;
    let body = open + 1..matching(tokens, open)?;
    let uses: Vec<Use<'_>> = body.clone().filter_map(|at| read_use(tokens, at, index)).collect();
    let mentions = tokens[body.clone()].iter().filter(|t| t.is_ident() && t.is(index)).count();
    if mentions != uses.len() {
        return None;
    }
    let width = uses.iter().filter_map(|u| u.divisor).min().filter(|&n| n >= SHORTEST)?;
    if uses.iter().filter_map(|u| u.divisor).any(|n| !n.is_multiple_of(width)) {
        return None;
    }
    let jumps = |name: &str| {
        tokens[body.clone()].windows(3).any(|t| {
            t[0].kind == Kind::Number
                && integer(t[0].text).is_some_and(|n| n >= JUMP)
                && t[1].is("*")
                && t[2].is(name)
        })
    };
    let tiled = uses.iter().any(|u| u.is_remainder && u.divisor == Some(width) && jumps(u.name));
    let mut replacements = vec![Replacement {
        tokens: ty..ty + 1,
        text: format!("MSL_SPLIT_INDEX({width}, {tiled})"),
    }];
    let divisions = uses.iter().filter_map(|u| u.division);
    replacements.extend(
        divisions.map(|at| Replacement { tokens: at..at + 5, text: "MSL_SPLIT_DIVIDE".into() }),
    );
    Some(replacements)
}

/// The token of the type of the only built-in parameter, if it is
/// `uint name [[thread_position_in_grid]]`.
fn index_parameter(tokens: &[Token<'_>], declaration: &Declaration) -> Option<usize> {
    let mut found = None;
    let mut at = declaration.tokens.start;
    while at < declaration.tokens.end {
        if let Some(end) = attribute_end(tokens, at) {
            match tokens[at + 2].text {
                "thread_position_in_grid" if found.is_none() => {
                    let ty = at.checked_sub(2)?;
                    found = Some(ty).filter(|_| tokens[ty].is("uint") && tokens[ty + 1].is_ident());
                    found?;
                }
                "kernel" | "buffer" => {}
                _ => return None,
            }
            at = end;
        }
        at += 1;
    }
    found
}

/// One statement that uses the index.
struct Use<'s> {
    /// The variable that it declares.
    name: &'s str,
    divisor: Option<u32>,
    /// Whether it is `(index) % (divisor)`.
    is_remainder: bool,
    /// The first token of `c10::metal::floor_divide`.
    division: Option<usize>,
}

/// The statement at `at`, if it is one of those above.
fn read_use<'s>(tokens: &[Token<'s>], at: usize, index: &str) -> Option<Use<'s>> {
    let name = tokens.get(at + 1).filter(|t| t.is_ident() && tokens[at].is("int"))?.text;
    let value = at + 3;
    if !tokens.get(at + 2)?.is("=") || name == index {
        return None;
    }
    let number = |at: usize| tokens.get(at).and_then(|t| integer(t.text)).filter(|&n| n > 0);
    let follows = |words: &[&str]| {
        words
            .iter()
            .zip(tokens.get(value..)?)
            .all(|(word, token)| match *word {
                "#" => token.kind == Kind::Number,
                word => token.is(word),
            })
            .then_some(())
    };
    let plain = Use { name, divisor: None, is_remainder: false, division: None };
    if follows(&[index, ";"]).is_some() {
        return Some(plain);
    }
    if follows(&["(", index, ")", "%", "(", "#", ")", ";"]).is_some() {
        let divisor = Some(number(value + 5)?);
        return Some(Use { divisor, is_remainder: true, ..plain });
    }
    let both = ["(", "(", index, ")", "/", "(", "#", ")", ")", "%", "(", "#", ")", ";"];
    if follows(&both).is_some() {
        return Some(Use { divisor: Some(number(value + 6)?), ..plain });
    }
    let call = ["c10", "::", "metal", "::", "floor_divide", "(", index, ",", "#", ")", ";"];
    follows(&call)?;
    Some(Use { divisor: Some(number(value + 8)?), division: Some(value), ..plain })
}

#[cfg(test)]
mod tests {
    use super::super::kernels::analyse;
    use super::super::lex::lex;
    use super::*;

    fn found(body: &str) -> Vec<String> {
        let parameters = "device float* o, constant float* a, uint i [[thread_position_in_grid]]";
        found_in(&format!("kernel void f({parameters}) {{ {body} }}"))
    }

    fn found_in(source: &str) -> Vec<String> {
        let tokens = lex(source).unwrap();
        let found = replacements(&tokens, &analyse(&tokens).unwrap());
        found.into_iter().map(|replacement| replacement.text).collect()
    }

    #[test]
    fn indices_of_generated_kernels_are_split_at_the_smallest_divisor() {
        assert_eq!(
            found(
                "int x0 = (i) % (64); int x1 = ((i) / (64)) % (16); \
                 int x2 = c10::metal::floor_divide(i, 1024); int x3 = i; o[x3] = a[x0 + 64*x2];"
            ),
            ["MSL_SPLIT_INDEX(64, false)", "MSL_SPLIT_DIVIDE"]
        );
        assert_eq!(
            found(
                "int x0 = (i) % (4096); int x1 = c10::metal::floor_divide(i, 4096); int x2 = i; \
                 o[x2] = a[x1 + 4096*x0];"
            ),
            ["MSL_SPLIT_INDEX(4096, true)", "MSL_SPLIT_DIVIDE"]
        );
    }

    #[test]
    fn other_uses_of_the_index_are_left_alone() {
        for body in [
            "int x0 = i; o[x0] = a[x0];",
            "int x0 = (i) % (8); o[i] = a[x0];",
            "int x0 = (i) % (64); o[i] = a[x0];",
            "long x0 = (i) % (64); int x1 = i; o[x1] = a[x0];",
            "int x0 = (i) % (64); int x1 = ((i) / (96)) % (2); int x2 = i; o[x2] = a[x0 + x1];",
            "int x0 = (i) % (n); int x1 = i; o[x1] = a[x0];",
            "int x0 = (i) % (64); int x1 = i; { uint i = 3; o[x1] = a[x0 + i]; }",
        ] {
            assert_eq!(found(body), [""; 0], "{body}");
        }
        let two = "int x0 = (i) % (64); int x1 = i; o[x1] = a[x0 + t]; }";
        for (parameters, end) in [
            ("uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]", ""),
            ("ushort i [[thread_position_in_grid]], constant int& t", ""),
            (
                "uint i [[thread_position_in_grid]], threadgroup int& t",
                "/* on fibers, for its memory */",
            ),
        ] {
            let source = format!(
                "kernel void f(device float* o, device float* a, {parameters}) {{ {two}{end}"
            );
            assert_eq!(found_in(&source), [""; 0], "{source}");
        }
    }
}
