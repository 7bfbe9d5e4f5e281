//! Statements of a kernel's body, as far as fission has to tell them apart.
//!
//! What is not understood for certain is refused, so that nothing is taken for something else.

use super::super::lex::{Token, matching, matching_angle, split as split_list};
use super::Refusal;

/// Some tokens of the rewritten shader.
pub(super) type Tokens<'a, 's> = &'a [Token<'s>];

/// A declared name: `type name = init;`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Declaration<'a, 's> {
    pub ty: Tokens<'a, 's>,
    pub name: &'s str,
    /// The value; empty without one.
    pub init: Tokens<'a, 's>,
}

/// A threadgroup variable: `MSL_THREADGROUP(name, dimensions, type);`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Threadgroup<'a, 's> {
    pub name: &'s str,
    pub dimensions: Tokens<'a, 's>,
    pub ty: Tokens<'a, 's>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement<'a, 's> {
    Threadgroup(Threadgroup<'a, 's>),
    /// One declaration for each declarator.
    Declarations(Vec<Declaration<'a, 's>>),
    If {
        condition: Tokens<'a, 's>,
        then: Tokens<'a, 's>,
        otherwise: Option<Tokens<'a, 's>>,
    },
    /// `for (init; condition; step) body`.
    For {
        init: Tokens<'a, 's>,
        condition: Tokens<'a, 's>,
        step: Tokens<'a, 's>,
        body: Tokens<'a, 's>,
    },
    /// `while`, `do`, `switch`: the expression in its head, and its body.
    Other {
        head: Tokens<'a, 's>,
        body: Tokens<'a, 's>,
    },
    Block(Tokens<'a, 's>),
    /// An assignment or a call, without its `;`.
    Expression(Tokens<'a, 's>),
    Return(Tokens<'a, 's>),
    /// `break` or `continue`.
    Leave,
}

/// Words that make a statement something that fission does not look into.
const REFUSED: [&str; 14] = [
    "asm", "case", "class", "default", "delete", "enum", "goto", "new", "static", "struct",
    "template", "typedef", "union", "using",
];

/// Words that are no names of types or values.
pub(super) fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "if" | "else"
            | "for"
            | "while"
            | "do"
            | "switch"
            | "return"
            | "break"
            | "continue"
            | "const"
            | "constexpr"
            | "auto"
            | "volatile"
            | "static_cast"
            | "reinterpret_cast"
            | "const_cast"
            | "decltype"
            | "sizeof"
            | "alignof"
            | "true"
            | "false"
            | "nullptr"
            | "thread"
            | "device"
            | "constant"
            | "threadgroup"
            | "this"
    )
}

fn unreadable(tokens: Tokens<'_, '_>) -> Refusal {
    let text: String = text(tokens).chars().take(60).collect();
    Refusal::new(format!("a statement that is not understood: {text}"))
}

/// Index behind the bracket that `open` opens.
fn behind(tokens: Tokens<'_, '_>, open: usize) -> Result<usize, Refusal> {
    let is_bracket = tokens.get(open).is_some_and(|t| t.is("(") || t.is("{") || t.is("["));
    let end = if is_bracket { matching(tokens, open) } else { None };
    end.map(|end| end + 1).ok_or_else(|| unreadable(&tokens[open.min(tokens.len())..]))
}

/// Index behind the statement that starts at `start`.
fn end_of(tokens: Tokens<'_, '_>, start: usize) -> Result<usize, Refusal> {
    let first = tokens.get(start).ok_or_else(|| Refusal::new("a statement that ends early"))?;
    match first.text {
        "{" => behind(tokens, start),
        "if" | "for" | "while" | "switch" => {
            let end = end_of(tokens, behind(tokens, start + 1)?)?;
            let has_else = first.is("if") && tokens.get(end).is_some_and(|t| t.is("else"));
            if has_else { end_of(tokens, end + 1) } else { Ok(end) }
        }
        "do" => {
            let body = end_of(tokens, start + 1)?;
            Ok(behind(tokens, body + 1)? + 1)
        }
        _ => {
            let mut at = start;
            while let Some(token) = tokens.get(at) {
                match token.text {
                    ";" => return Ok(at + 1),
                    "(" | "[" | "{" => at = behind(tokens, at)?,
                    _ => at += 1,
                }
            }
            Err(unreadable(&tokens[start..]))
        }
    }
}

/// Splits a body into its statements; empty ones are left out.
pub(super) fn statements<'a, 's>(tokens: Tokens<'a, 's>) -> Result<Vec<Tokens<'a, 's>>, Refusal> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].is(";") {
            at += 1;
            continue;
        }
        let end = end_of(tokens, at)?;
        found.push(tokens.get(at..end).ok_or_else(|| unreadable(&tokens[at..]))?);
        at = end;
    }
    Ok(found)
}

/// The statements of a body that may be a block.
pub(super) fn inner<'a, 's>(body: Tokens<'a, 's>) -> Result<Vec<Tokens<'a, 's>>, Refusal> {
    match body {
        [open, inside @ .., _] if open.is("{") => statements(inside),
        _ => statements(body),
    }
}

/// Tells what one statement is.
pub(super) fn parse<'a, 's>(tokens: Tokens<'a, 's>) -> Result<Statement<'a, 's>, Refusal> {
    if let Some(word) = tokens.iter().find(|t| t.is_ident() && REFUSED.contains(&t.text)) {
        return Err(Refusal::new(format!("`{}` in its body", word.text)));
    }
    let first = tokens.first().ok_or_else(|| Refusal::new("an empty statement"))?;
    let without_end = &tokens[..tokens.len() - 1];
    match first.text {
        "{" => Ok(Statement::Block(tokens)),
        "if" => parse_if(tokens),
        "for" => parse_for(tokens),
        "while" | "switch" => {
            let head = behind(tokens, 1)?;
            Ok(Statement::Other { head: &tokens[2..head - 1], body: &tokens[head..] })
        }
        "do" => {
            let body = end_of(tokens, 1)?;
            let head = behind(tokens, body + 1)?;
            Ok(Statement::Other { head: &tokens[body + 2..head - 1], body: &tokens[1..body] })
        }
        "return" => Ok(Statement::Return(&without_end[1..])),
        "break" | "continue" => Ok(Statement::Leave),
        "MSL_THREADGROUP" => parse_threadgroup(tokens),
        _ => match declarations(tokens)? {
            Some(found) => Ok(Statement::Declarations(found)),
            None if is_expression(without_end) => Ok(Statement::Expression(without_end)),
            None => Err(unreadable(tokens)),
        },
    }
}

fn parse_if<'a, 's>(tokens: Tokens<'a, 's>) -> Result<Statement<'a, 's>, Refusal> {
    let head = behind(tokens, 1)?;
    let end = end_of(tokens, head)?;
    let otherwise = tokens.get(end).filter(|t| t.is("else")).map(|_| &tokens[end + 1..]);
    Ok(Statement::If { condition: &tokens[2..head - 1], then: &tokens[head..end], otherwise })
}

fn parse_for<'a, 's>(tokens: Tokens<'a, 's>) -> Result<Statement<'a, 's>, Refusal> {
    let head = behind(tokens, 1)?;
    let header = &tokens[2..head - 1];
    let mut ends = header.iter().enumerate().filter(|(_, t)| t.is(";")).map(|(at, _)| at);
    let (Some(first), Some(second), None) = (ends.next(), ends.next(), ends.next()) else {
        return Err(unreadable(tokens));
    };
    Ok(Statement::For {
        init: &header[..=first],
        condition: &header[first + 1..second],
        step: &header[second + 1..],
        body: &tokens[head..],
    })
}

fn parse_threadgroup<'a, 's>(tokens: Tokens<'a, 's>) -> Result<Statement<'a, 's>, Refusal> {
    let end = behind(tokens, 1)? - 1;
    // name, dimensions (maybe none), type (maybe with commas)
    let [name, comma, rest @ ..] = &tokens[2..end] else { return Err(unreadable(tokens)) };
    let mut at = 0;
    while rest.get(at).is_some_and(|t| t.is("[")) {
        at = behind(rest, at)?;
    }
    if !comma.is(",") || !rest.get(at).is_some_and(|t| t.is(",")) {
        return Err(unreadable(tokens));
    }
    let (dimensions, ty) = (&rest[..at], &rest[at + 1..]);
    Ok(Statement::Threadgroup(Threadgroup { name: name.text, dimensions, ty }))
}

/// The length of a type at the start: `const ns::name<...>`.
fn type_length(tokens: Tokens<'_, '_>) -> Option<usize> {
    let qualifier = |t: &Token<'_>| matches!(t.text, "const" | "constexpr" | "volatile" | "thread");
    let mut at = tokens.iter().take_while(|t| qualifier(t)).count();
    if tokens.get(at)?.is("::") {
        at += 1;
    }
    loop {
        let name = tokens.get(at)?;
        if !name.is_ident() || (is_keyword(name.text) && name.text != "auto") {
            return None;
        }
        at += 1;
        if tokens.get(at)?.is("<") {
            at = matching_angle(tokens, at)? + 1;
        }
        if !tokens.get(at)?.is("::") {
            break;
        }
        at += 1;
    }
    Some(at + tokens[at..].iter().take_while(|t| qualifier(t)).count())
}

/// The declarations of a statement; `None` if it declares nothing.
fn declarations<'a, 's>(
    tokens: Tokens<'a, 's>,
) -> Result<Option<Vec<Declaration<'a, 's>>>, Refusal> {
    let Some(length) = type_length(tokens) else { return Ok(None) };
    let (ty, rest) = tokens.split_at(length);
    match rest.first() {
        Some(t) if t.is("*") || t.is("&") || t.is("&&") => {
            // `a * b;` would be an expression without effect: this is a pointer or a reference.
            return Err(Refusal::new("a local pointer or reference"));
        }
        Some(t) if t.is_ident() && !is_keyword(t.text) => {}
        _ => return Ok(None),
    }
    let list = &rest[..rest.len() - 1];
    let mut found = Vec::new();
    for range in split_list(list, 0..list.len()) {
        match &list[range] {
            [name] if name.is_ident() => {
                found.push(Declaration { ty, name: name.text, init: &[] });
            }
            [name, equals, init @ ..] if name.is_ident() && equals.is("=") && !init.is_empty() => {
                found.push(Declaration { ty, name: name.text, init });
            }
            [_, open, ..] if open.is("[") => return Err(Refusal::new("a local array")),
            _ => return Err(unreadable(tokens)),
        }
    }
    if found.is_empty() { Err(unreadable(tokens)) } else { Ok(Some(found)) }
}

/// Whether these tokens may be an assignment or a call.
fn is_expression(tokens: Tokens<'_, '_>) -> bool {
    let starts =
        |t: &Token<'_>| t.is_ident() && !is_keyword(t.text) || matches!(t.text, "++" | "--" | "::");
    tokens.len() > 1 && starts(&tokens[0]) && !tokens.iter().any(|t| t.is("{") || t.is(";"))
}

/// The tokens as text: apart where they stand apart in the source.
pub(super) fn text(tokens: Tokens<'_, '_>) -> String {
    let mut text = String::new();
    let mut end = None;
    for token in tokens {
        if end.is_some_and(|end| end != token.offset) {
            text.push(' ');
        }
        text.push_str(token.text);
        end = Some(token.end());
    }
    text
}

/// Whether two runs of tokens are spelled the same.
pub(super) fn same(a: Tokens<'_, '_>, b: Tokens<'_, '_>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.text == b.text)
}

/// Whether the tokens are spelled as these words.
pub(super) fn reads(tokens: Tokens<'_, '_>, words: &[&str]) -> bool {
    tokens.len() == words.len() && tokens.iter().zip(words).all(|(t, w)| t.text == *w)
}

/// The arguments of the call whose parenthesis opens at `open`, and the index behind it.
pub(super) fn arguments<'a, 's>(
    tokens: Tokens<'a, 's>,
    open: usize,
) -> Result<(Vec<Tokens<'a, 's>>, usize), Refusal> {
    let end = behind(tokens, open)?;
    let list = split_list(tokens, open + 1..end - 1);
    Ok((list.into_iter().map(|range| &tokens[range]).collect(), end))
}

/// The names in these tokens that may be variables: no members, no parts of qualified names.
pub(super) fn names<'a, 's>(tokens: Tokens<'a, 's>) -> impl Iterator<Item = &'s str> + 'a {
    name_places(tokens).map(|at| tokens[at].text)
}

/// Where [`names`] stand.
pub(super) fn name_places<'a>(tokens: Tokens<'a, '_>) -> impl Iterator<Item = usize> + 'a {
    tokens.iter().enumerate().filter_map(move |(at, token)| {
        let before = at.checked_sub(1).map(|at| tokens[at].text);
        let qualified = matches!(before, Some("." | "::" | "->"));
        let qualifies = tokens.get(at + 1).is_some_and(|t| t.is("::"));
        let is_name = token.is_ident() && !is_keyword(token.text) && !qualified && !qualifies;
        is_name.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::lex::lex;
    use super::*;

    fn kinds(source: &str) -> Result<Vec<String>, Refusal> {
        let tokens = lex(source).unwrap();
        let list = statements(&tokens)?;
        list.into_iter().map(|s| parse(s).map(|s| describe(&s))).collect()
    }

    fn describe(statement: &Statement<'_, '_>) -> String {
        match statement {
            Statement::Threadgroup(t) => {
                format!("threadgroup {} {} {}", t.name, text(t.dimensions), text(t.ty))
            }
            Statement::Declarations(all) => {
                let one = |d: &Declaration<'_, '_>| {
                    format!("{} {} = {}", text(d.ty), d.name, text(d.init))
                };
                all.iter().map(one).collect::<Vec<_>>().join("; ")
            }
            Statement::If { condition, then, otherwise } => {
                let rest = otherwise.map(text).unwrap_or_default();
                format!("if {} | {} | {rest}", text(condition), text(then))
            }
            Statement::For { init, condition, step, body } => {
                format!("for {}{}; {} | {}", text(init), text(condition), text(step), text(body))
            }
            Statement::Other { head, body } => format!("other {} | {}", text(head), text(body)),
            Statement::Block(tokens) => format!("block {}", text(tokens)),
            Statement::Expression(tokens) => format!("expression {}", text(tokens)),
            Statement::Return(value) => format!("return {}", text(value)),
            Statement::Leave => "leave".to_owned(),
        }
    }

    #[test]
    fn statements_are_told_apart() {
        let source = "const auto a = b[1 >> c]; ::ns::vec<float, 4> v; int x = f(1, 2), y; \
            MSL_THREADGROUP(t, [4][2], metal::array<float, 2>); MSL_THREADGROUP(s, , bool); \
            if (a < b) { x = 1; } else y = 2; for (auto i = 0; i < 4; ++i) x += i; \
            while (x) --x; do { x++; } while (x < 3); return; out[a * b] = x; ::ns::f(x); {}";
        let expected = [
            "const auto a = b[1 >> c]",
            "::ns::vec<float, 4> v = ",
            "int x = f(1, 2); int y = ",
            "threadgroup t [4][2] metal::array<float, 2>",
            "threadgroup s  bool",
            "if a < b | { x = 1; } | y = 2;",
            "for auto i = 0;i < 4; ++i | x += i;",
            "other x | --x;",
            "other x < 3 | { x++; }",
            "return ",
            "expression out[a * b] = x",
            "expression ::ns::f(x)",
            "block {}",
        ];
        assert_eq!(kinds(source).unwrap(), expected);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (source, why) in [
            ("device float* p = q;", "not understood"),
            ("float* p = q;", "pointer"),
            ("auto& p = q;", "reference"),
            ("float v[4];", "local array"),
            ("float2 v(1, 2);", "not understood"),
            ("float2 v{1, 2};", "not understood"),
            ("using namespace metal;", "`using`"),
            ("struct S { int x; };", "`struct`"),
            ("*p = 1;", "not understood"),
            ("unsigned int x = 1;", "not understood"),
            ("switch (x) { case 1: y = 2; }", "`case`"),
            ("x", "not understood"),
        ] {
            let refusal = kinds(source).unwrap_err().to_string();
            assert!(refusal.contains(why), "{source}: {refusal}");
        }
    }

    #[test]
    fn names_are_variables_only() {
        let tokens = lex("a.b + ns::c<d>(e->f, g[h]) + const_cast<int>(i)").unwrap();
        let found: Vec<_> = names(&tokens).collect();
        assert_eq!(found, ["a", "d", "e", "g", "h", "int", "i"]);
    }
}
