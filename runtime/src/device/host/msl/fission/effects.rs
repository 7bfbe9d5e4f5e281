//! What statements do besides computing a value: to which names and memory they write, what they
//! read from memory, and whether they call what is not known.

use std::collections::HashSet;

use super::super::lex::{Kind, matching, matching_angle};
use super::Refusal;
use super::statement::{Statement, Tokens, inner, is_keyword, names, parse};

/// What a run of tokens does.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Effects<'s> {
    /// Names that are assigned to.
    pub mutated: HashSet<&'s str>,
    /// Names of arrays, vectors and pointers of which an element is assigned to.
    pub stored: HashSet<&'s str>,
    /// Names that are given to functions which could write to them or through them.
    pub passed: HashSet<&'s str>,
    /// Names of arrays and pointers that are read through.
    pub loaded: HashSet<&'s str>,
    /// Names declared within.
    pub declared: Vec<&'s str>,
    /// Whether something is called that is not known to be a function of its arguments alone.
    pub opaque: bool,
    /// Whether there is a `return`.
    pub returns: bool,
}

impl<'s> Effects<'s> {
    /// The effects of one statement and all within it.
    pub(super) fn of_statement(tokens: Tokens<'_, 's>) -> Result<Effects<'s>, Refusal> {
        let mut found = Effects::default();
        found.statement(tokens)?;
        Ok(found)
    }

    /// The effects of an expression.
    pub(super) fn of_expression(tokens: Tokens<'_, 's>) -> Result<Effects<'s>, Refusal> {
        let mut found = Effects::default();
        found.expression(tokens)?;
        Ok(found)
    }

    /// Whether nothing is changed and nothing unknown is called.
    pub(super) fn none(&self) -> bool {
        self.mutated.is_empty() && self.stored.is_empty() && self.passed.is_empty() && !self.opaque
    }

    /// Adds what something else does.
    pub(super) fn merge(&mut self, other: Effects<'s>) {
        self.mutated.extend(other.mutated);
        self.stored.extend(other.stored);
        self.passed.extend(other.passed);
        self.loaded.extend(other.loaded);
        self.declared.extend(other.declared);
        self.opaque |= other.opaque;
        self.returns |= other.returns;
    }

    fn statement(&mut self, tokens: Tokens<'_, 's>) -> Result<(), Refusal> {
        match parse(tokens)? {
            Statement::Threadgroup(_) => Err(Refusal::new("threadgroup memory in control flow")),
            Statement::Declarations(all) => {
                for declaration in all {
                    self.declared.push(declaration.name);
                    self.expression(declaration.init)?;
                }
                Ok(())
            }
            Statement::If { condition, then, otherwise } => {
                self.expression(condition)?;
                self.body(then)?;
                otherwise.map_or(Ok(()), |body| self.body(body))
            }
            Statement::For { init, condition, step, body } => {
                if init.len() > 1 {
                    self.statement(init)?;
                }
                self.expression(condition)?;
                self.expression(step)?;
                self.body(body)
            }
            Statement::Other { head, body } => {
                self.expression(head)?;
                self.body(body)
            }
            Statement::Block(body) => self.body(body),
            Statement::Expression(tokens) => self.expression(tokens),
            Statement::Return(value) => {
                self.returns = true;
                self.expression(value)
            }
            Statement::Leave => Ok(()),
        }
    }

    fn body(&mut self, body: Tokens<'_, 's>) -> Result<(), Refusal> {
        inner(body)?.into_iter().try_for_each(|statement| self.statement(statement))
    }

    fn expression(&mut self, tokens: Tokens<'_, 's>) -> Result<(), Refusal> {
        for (at, token) in tokens.iter().enumerate() {
            match token.text {
                "{" => return Err(Refusal::new("a braced value or a lambda")),
                "[" if !follows_operand(tokens, at) => return Err(Refusal::new("a lambda")),
                "++" | "--" if !follows_operand(tokens, at) => self.write_behind(tokens, at + 1),
                "->" => self.opaque = true,
                "&" if !follows_operand(tokens, at) => {
                    self.opaque = true;
                    self.write_behind(tokens, at + 1);
                }
                "*" if !follows_operand(tokens, at) => self.opaque = true,
                _ if is_assignment(tokens, at) => self.write_before(tokens, at),
                _ if token.is_ident() => self.word(tokens, at),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes note of a name: a load if an index follows, a call if a parenthesis does.
    fn word(&mut self, tokens: Tokens<'_, 's>, at: usize) {
        let Some(next) = tokens.get(at + 1) else { return };
        if next.is("[") {
            self.loaded.insert(tokens[at].text);
            return;
        }
        let open = match next.text {
            "(" => Some(at + 1),
            "<" => matching_angle(tokens, at + 1).map(|close| close + 1),
            _ => None,
        };
        let Some(open) = open.filter(|&open| tokens.get(open).is_some_and(|t| t.is("("))) else {
            return;
        };
        if is_pure_call(tokens, at) {
            return;
        }
        self.opaque = true;
        let end = matching(tokens, open).unwrap_or(tokens.len());
        self.passed.extend(names(&tokens[open + 1..end]));
    }

    /// Takes note of the place in front of an assignment, whose operator is at `operator`.
    fn write_before(&mut self, tokens: Tokens<'_, 's>, operator: usize) {
        let mut indexed = false;
        let mut at = operator;
        while let Some(before) = at.checked_sub(1) {
            at = before;
            let token = &tokens[at];
            if token.is("]") {
                indexed = true;
                let Some(open) = opening(tokens, at) else { break };
                at = open;
            } else if token.is_ident() {
                let is_member = at > 0 && matches!(tokens[at - 1].text, "." | "->" | "::");
                if !is_member {
                    self.write(token.text, indexed);
                    if at > 0 && tokens[at - 1].is("*") {
                        self.opaque = true;
                    }
                    return;
                }
                at -= 1;
            } else {
                break;
            }
        }
        self.opaque = true;
    }

    /// The same for a place that follows: `++x`, `&x`.
    fn write_behind(&mut self, tokens: Tokens<'_, 's>, at: usize) {
        match tokens.get(at) {
            Some(token) if token.is_ident() => {
                let indexed = tokens.get(at + 1).is_some_and(|t| t.is("["));
                self.write(token.text, indexed);
            }
            _ => self.opaque = true,
        }
    }

    fn write(&mut self, name: &'s str, indexed: bool) {
        if indexed { &mut self.stored } else { &mut self.mutated }.insert(name);
    }
}

/// Whether the token at `at` stands behind a value, which makes it a binary or postfix operator.
fn follows_operand(tokens: Tokens<'_, '_>, at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|at| &tokens[at]) else { return false };
    let is_word = before.is_ident() && before.text != "return";
    is_word || before.kind == Kind::Number || matches!(before.text, ")" | "]" | "++" | "--")
}

/// Whether an operator that changes its operand is at `at`.
pub(super) fn is_write(tokens: Tokens<'_, '_>, at: usize) -> bool {
    is_assignment(tokens, at) || matches!(tokens[at].text, "++" | "--")
}

/// Whether an assignment operator (or a postfix `++`) is at `at`.
fn is_assignment(tokens: Tokens<'_, '_>, at: usize) -> bool {
    match tokens[at].text {
        "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "|=" | "&=" | "^=" | "<<=" | "++" | "--" => true,
        // `>>=` is two tokens.
        ">" => tokens.get(at + 1).is_some_and(|t| t.is(">=") && t.offset == tokens[at].end()),
        _ => false,
    }
}

/// The `[` that the `]` at `close` closes.
fn opening(tokens: Tokens<'_, '_>, close: usize) -> Option<usize> {
    let mut depth = 0;
    (0..=close).rev().find(|&at| {
        depth += i32::from(tokens[at].is("]")) - i32::from(tokens[at].is("["));
        depth == 0
    })
}

/// The first word of the qualified name that ends at `at`.
fn root<'s>(tokens: Tokens<'_, 's>, at: usize) -> &'s str {
    let mut at = at;
    while at >= 2 && tokens[at - 1].is("::") {
        let mut before = at - 2;
        if tokens[before].is(">") {
            let mut depth = 0;
            let open = (0..=before).rev().find(|&i| {
                depth += i32::from(tokens[i].is(">")) - i32::from(tokens[i].is("<"));
                depth == 0
            });
            match open {
                Some(open) if open > 0 => before = open - 1,
                _ => break,
            }
        }
        if !tokens[before].is_ident() {
            break;
        }
        at = before;
    }
    tokens[at].text
}

/// Whether the call of the name at `at` gives a value that depends on its arguments alone, and
/// does nothing else.
fn is_pure_call(tokens: Tokens<'_, '_>, at: usize) -> bool {
    let name = tokens[at].text;
    let before = at.checked_sub(1).map(|at| tokens[at].text);
    match before {
        Some("." | "->") => false,
        Some("::") => {
            matches!(root(tokens, at), "metal" | "c10")
                && !matches!(name, "sincos" | "frexp" | "modf")
                && !name.contains("atomic")
                && !tokens[..at].iter().any(|t| t.text.contains("Atomic"))
        }
        _ => {
            let is_cast = matches!(name, "static_cast" | "as_type" | "sizeof" | "decltype");
            is_cast || is_scalar_or_vector(name) || is_pure_function(name)
        }
    }
}

/// Whether the word is a vector type of MSL's own.
pub(super) fn is_vector(name: &str) -> bool {
    name.ends_with(['2', '3', '4']) && is_scalar_or_vector(name)
}

/// Whether the word is a type of MSL's own: its constructor makes a value.
fn is_scalar_or_vector(name: &str) -> bool {
    let element = name.trim_end_matches(['2', '3', '4']);
    (name.len() - element.len() <= 1 && !is_keyword(name))
        && matches!(
            element,
            "bool"
                | "char"
                | "uchar"
                | "short"
                | "ushort"
                | "int"
                | "uint"
                | "long"
                | "ulong"
                | "half"
                | "bfloat"
                | "float"
                | "size_t"
        )
}

/// Whether Metal has a function of this name that only computes its value.
pub(super) fn is_pure_function(name: &str) -> bool {
    PURE_FUNCTIONS.contains(&name)
}

/// Functions of `metal::` that are used without their namespace.
const PURE_FUNCTIONS: [&str; 40] = [
    "abs", "acos", "asin", "atan", "atan2", "ceil", "clamp", "clz", "copysign", "cos", "cosh",
    "ctz", "dot", "exp", "exp2", "fabs", "floor", "fma", "fmax", "fmin", "fmod", "isfinite",
    "isinf", "isnan", "length", "log", "log2", "max", "min", "mix", "popcount", "pow", "rint",
    "round", "rsqrt", "select", "sin", "sqrt", "tanh", "trunc",
];

#[cfg(test)]
mod tests {
    use super::super::super::lex::{Token, lex};
    use super::*;

    fn sorted<'s>(set: &HashSet<&'s str>) -> Vec<&'s str> {
        let mut all: Vec<_> = set.iter().copied().collect();
        all.sort_unstable();
        all
    }

    fn check(source: &str, mutated: &[&str], stored: &[&str], passed: &[&str]) {
        let tokens: Vec<Token<'_>> = lex(source).unwrap();
        let found = Effects::of_statement(&tokens).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(sorted(&found.mutated), mutated, "{source}");
        assert_eq!(sorted(&found.stored), stored, "{source}");
        assert_eq!(sorted(&found.passed), passed, "{source}");
    }

    #[test]
    fn writes_are_seen() {
        check("auto x = a[i] + metal::precise::exp(b);", &[], &[], &[]);
        check("out[a * b].x = c;", &[], &["out"], &[]);
        check("v.x += 1;", &["v"], &[], &[]);
        check("x >>= 2;", &["x"], &[], &[]);
        check("auto y = x >= 2;", &[], &[], &[]);
        check("for (int i = 0; i < 4; ++i) { s += i; int q = t++; }", &["i", "s", "t"], &[], &[]);
        check("if (a == b) { if (c) d = 1; } else --e;", &["d", "e"], &[], &[]);
        check("auto y = ::c10::metal::MaxOp<float>::identity();", &[], &[], &[]);
        check("auto y = float2(a, b) + static_cast<decltype(a)>(c);", &[], &[], &[]);
    }

    #[test]
    fn what_is_called_may_write() {
        let opaque = |source| Effects::of_statement(&lex(source).unwrap()).unwrap().opaque;
        check("auto y = own(a, b + c);", &[], &[], &["a", "b", "c"]);
        check("auto y = metal::sincos(a, c);", &[], &[], &["a", "c"]);
        check("f(&a);", &["a"], &[], &["a"]);
        let atomic = "c10::metal::AtomicType<float>::atomic_add(p, i, v);";
        check(atomic, &[], &[], &["i", "p", "v"]);
        check("auto y = v.any(a);", &[], &[], &["a"]);
        for source in ["auto y = own(a);", "f(&a);", atomic, "auto y = *p;", "auto y = p->x;"] {
            assert!(opaque(source), "{source}");
        }
        assert!(!opaque("auto y = a * b & c;"));
    }

    #[test]
    fn loads_are_seen() {
        let tokens = lex("auto x = a[b[i]] + c * d;").unwrap();
        let found = Effects::of_statement(&tokens).unwrap();
        assert_eq!(sorted(&found.loaded), ["a", "b"]);
        let tokens = lex("auto x = [&](int y) { return y; }(1);").unwrap();
        assert!(Effects::of_statement(&tokens).is_err());
    }
}
