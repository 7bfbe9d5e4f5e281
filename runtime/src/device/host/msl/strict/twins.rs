//! Overloads that differ in address spaces alone (MSL 1.5.1).
//!
//! Metal can tell `f(device const float*)` from `f(constant float*)`; the host's C++, for which
//! all memory is one, sees the same function twice.

use std::collections::HashMap;
use std::ops::Range;

use super::super::lex::Token;
use super::outline::{Function, Outline};
use super::words::is_address_space;

/// Token ranges of functions that say, but for address spaces, what an earlier one says. The
/// host needs only the first. Where the code differs, too, there is nothing to be left out.
pub(crate) fn twins(tokens: &[Token<'_>]) -> Vec<Range<usize>> {
    let mut first: HashMap<(Option<usize>, &str, String), &Function<'_>> = HashMap::new();
    let mut ranges = Vec::new();
    let outline = Outline::of(tokens);
    for function in &outline.functions {
        let Some(body) = &function.body else { continue };
        if function.stage.is_some() {
            continue;
        }
        let range = function.head.start..body.end + 1;
        let key = (function.record, function.path.as_str(), without_spaces(&tokens[range.clone()]));
        match first.get(&key) {
            // The very same twice is an error for clang to tell.
            Some(other) if spaces(tokens, other) != spaces(tokens, function) => ranges.push(range),
            Some(_) => {}
            None => {
                first.insert(key, function);
            }
        }
    }
    ranges
}

/// The text as the host sees it: `constant` is `const`, other address spaces are nothing.
fn without_spaces(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    let mut last = "";
    for token in tokens {
        let word = match token.text {
            "constant" => "const",
            _ if is_address_space(token) => continue,
            other => other,
        };
        if word == "const" && last == "const" {
            continue;
        }
        text.push_str(word);
        text.push(' ');
        last = word;
    }
    text
}

/// The address spaces in the parameters of a function and behind them.
fn spaces<'a>(tokens: &[Token<'a>], function: &Function<'_>) -> Vec<&'a str> {
    let ranges = function.parameters.iter().cloned().chain([function.tail.clone()]);
    ranges
        .flat_map(|range| &tokens[range])
        .filter(|token| is_address_space(token))
        .map(|token| token.text)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::lex::lex;
    use super::*;

    fn left_out(source: &str) -> Vec<String> {
        let tokens = lex(source).unwrap();
        let text = |range: &Range<usize>| {
            tokens[range.clone()].iter().map(|t| t.text).collect::<Vec<_>>().join(" ")
        };
        twins(&tokens).iter().map(text).collect()
    }

    #[test]
    fn leaves_out_what_only_address_spaces_tell_apart() {
        let source = "
            int f(device const int* p) { return p[0]; }
            int f(constant int* p) { return p[0]; }
            struct S { int n; int g() const thread { return n; } int g() const device { return n; } };
            template <typename T> void h(thread T& x) { x = 1; }
            template <typename T> void h(device T& x) { x = 1; }";
        assert_eq!(
            left_out(source),
            [
                "int f ( constant int * p ) { return p [ 0 ] ; }",
                "int g ( ) const device { return n ; }",
                "template < typename T > void h ( device T & x ) { x = 1 ; }",
            ]
        );
    }

    #[test]
    fn leaves_the_rest() {
        for source in [
            // Other code, the very same twice, other types, other records, prototypes.
            "int f(device int* p) { return p[0]; } int f(thread int* p) { return p[1]; }",
            "int f(device int* p) { return 1; } int f(device int* p) { return 1; }",
            "int f(device int* p) { return 1; } int f(device uint* p) { return 1; }",
            "int f(device int* p) { return 1; } int f(constant int* p) { return 1; }",
            "template <typename T> struct S; template <> struct S<int> { void f() thread {} };
             template <> struct S<float> { void f() device {} };",
            "int f(device int* p); int f(thread int* p); int f(device int* p) { return 1; }",
            "namespace a { void f(device int* p) {} } namespace b { void f(thread int* p) {} }",
        ] {
            assert_eq!(left_out(source), [""; 0], "{source}");
        }
    }
}
