//! Operations of groups and SIMD groups inside expressions, and declarations of several variables, in the simpler
//! form that [`analyse`](super::analyse) reads: one operation a declaration.
//!
//! ```c++
//! float a = 0, b = 2 * c10::metal::threadgroup_sum(...);
//! ```
//! becomes
//! ```c++
//! float a = 0; auto hoisted_0 = c10::metal::threadgroup_sum(...); float b = 2 * hoisted_0;
//! ```

use std::collections::HashSet;

use super::Refusal;
use super::collective::is_operation;
use super::simd::start_of_call;
use super::statement::{Statement, Tokens, arguments, parse, statements, text};

/// What the new variables are called, with a number.
const PREFIX: &str = "hoisted_";

/// The body in the simpler form; `None` if it is that already. `own` names the shader's functions.
///
/// # Errors
/// A statement is not understood.
pub(super) fn hoist(body: Tokens<'_, '_>, own: &HashSet<&str>) -> Result<Option<String>, Refusal> {
    if body.iter().any(|t| t.text.starts_with(PREFIX)) {
        return Ok(None);
    }
    let (mut out, mut count, mut changed) = (String::new(), 0, false);
    for statement in statements(body)? {
        for part in declarators(statement).unwrap_or_else(|| vec![Part::whole(statement)]) {
            changed |= part.before.is_some();
            changed |= part.write(&mut out, &mut count, own)?;
        }
        out.push('\n');
    }
    Ok(changed.then_some(out))
}

/// One declarator, with the type in front of it, or a whole statement.
struct Part<'a, 's> {
    before: Option<Tokens<'a, 's>>,
    tokens: Tokens<'a, 's>,
}

/// The parts of a declaration of several variables; `None` if it is something else.
fn declarators<'a, 's>(statement: Tokens<'a, 's>) -> Option<Vec<Part<'a, 's>>> {
    // What is not understood is refused when it is analysed.
    let Ok(Statement::Declarations(all)) = parse(statement) else { return None };
    if all.len() < 2 {
        return None;
    }
    let mut from = 0;
    let mut part = |name: &str, init: Tokens<'a, 's>| {
        let at = from + statement[from..].iter().position(|t| t.is(name))?;
        from = if init.is_empty() { at + 1 } else { at + 2 + init.len() };
        Some(Part { before: Some(all[0].ty), tokens: statement.get(at..from)? })
    };
    all.iter().map(|d| part(d.name, d.init)).collect()
}

impl<'a, 's> Part<'a, 's> {
    fn whole(tokens: Tokens<'a, 's>) -> Part<'a, 's> {
        Part { before: None, tokens }
    }

    /// Writes it behind the operations in it; tells whether there were any to take out.
    fn write(
        &self,
        out: &mut String,
        count: &mut usize,
        own: &HashSet<&str>,
    ) -> Result<bool, Refusal> {
        let mut rest = String::new();
        if let Some(ty) = self.before {
            rest = text(ty) + " ";
        }
        let mut at = 0;
        for (start, end) in self.operations(own)? {
            let name = format!("{PREFIX}{count}");
            *count += 1;
            out.push_str(&format!("auto {name} = {};\n", text(&self.tokens[start..end])));
            rest += &format!(" {} {name}", text(&self.tokens[at..start]));
            at = end;
        }
        rest += " ";
        rest += &text(&self.tokens[at..]);
        out.push_str(&rest);
        if self.before.is_some() {
            out.push(';');
        }
        Ok(at > 0)
    }

    /// The operations to take out: none where it is one already, or where it is not for
    /// certain that each is performed once, by all threads.
    fn operations(&self, own: &HashSet<&str>) -> Result<Vec<(usize, usize)>, Refusal> {
        let tokens = self.tokens;
        let plain = matches!(
            tokens.first().map_or("", |t| t.text),
            "if" | "for" | "while" | "switch" | "do" | "{" | "return"
        );
        if plain {
            return Ok(Vec::new());
        }
        let mut found: Vec<(usize, usize)> = Vec::new();
        for at in 0..tokens.len() {
            let start = group_call(tokens, at).or_else(|| start_of_call(tokens, at, own));
            let Some(start) = start else { continue };
            let (_, end) = arguments(tokens, at + 1)?;
            if found.last().is_some_and(|(_, before)| start < *before) {
                return Err(Refusal::new("an operation of a group as an operand of another"));
            }
            found.push((start, end));
        }
        // `name = operation` and nothing behind it.
        if let [(start, end)] = found[..]
            && start > 0
            && tokens[start - 1].is("=")
            && tokens.get(end).is_none_or(|t| t.is(";"))
        {
            found.clear();
        }
        // What stands behind one of these is not always computed.
        let maybe = |at: &usize| matches!(tokens[*at].text, "?" | "&&" | "||");
        let is_within = |at: &usize| found.iter().any(|(start, end)| (*start..*end).contains(at));
        let first = (0..tokens.len()).find(|at| maybe(at) && !is_within(at));
        if first.is_some_and(|first| found.iter().any(|(start, _)| *start > first)) {
            found.clear();
        }
        Ok(found)
    }
}

/// Where the call of a group-wide operation starts whose name stands at `at`; `None` if it is none.
fn group_call(tokens: Tokens<'_, '_>, at: usize) -> Option<usize> {
    let is_call = is_operation(tokens[at].text) && tokens.get(at + 1).is_some_and(|t| t.is("("));
    if !is_call || at < 4 || !tokens[at - 1].is("::") || !tokens[at - 4].is("c10") {
        return None;
    }
    Some(if at > 4 && tokens[at - 5].is("::") { at - 5 } else { at - 4 })
}

#[cfg(test)]
mod tests {
    use super::super::super::lex::lex;
    use super::*;

    fn hoisted(body: &str) -> Option<String> {
        let simpler = hoist(&lex(body).unwrap(), &HashSet::new()).unwrap()?;
        Some(simpler.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn operations_come_first_each_in_a_declaration_of_its_own() {
        assert_eq!(
            hoisted("float t = 2 * c10::metal::threadgroup_sum(m, x + 1, r, 64) - ::c10::metal::threadgroup_max(n, x, r, 64);").unwrap(),
            "auto hoisted_0 = c10::metal::threadgroup_sum(m, x + 1, r, 64); auto hoisted_1 = ::c10::metal::threadgroup_max(n, x, r, 64); float t = 2 * hoisted_0 - hoisted_1 ;"
        );
        assert_eq!(
            hoisted("out[x] = f(c10::metal::threadgroup_sum(m, x, r, 64));").unwrap(),
            "auto hoisted_0 = c10::metal::threadgroup_sum(m, x, r, 64); out[x] = f( hoisted_0 );"
        );
        assert_eq!(
            hoisted("x += metal::simd_sum(x > 0 ? x : 1) * quad_max(x);").unwrap(),
            "auto hoisted_0 = metal::simd_sum(x > 0 ? x : 1); auto hoisted_1 = quad_max(x); x += hoisted_0 * hoisted_1 ;"
        );
    }

    #[test]
    fn a_condition_is_always_computed() {
        assert_eq!(
            hoisted("int v = simd_any(x > 1) ? 1 : 0;").unwrap(),
            "auto hoisted_0 = simd_any(x > 1); int v = hoisted_0 ? 1 : 0;"
        );
    }

    #[test]
    fn declarators_stand_apart() {
        assert_eq!(
            hoisted("const float a = 1, b, c = a * c10::metal::threadgroup_sum(m, a, r, 64);")
                .unwrap(),
            "const float a = 1;const float b;auto hoisted_0 = c10::metal::threadgroup_sum(m, a, r, 64); const float c = a * hoisted_0 ;"
        );
    }

    #[test]
    fn what_is_simple_or_uncertain_stays() {
        for body in [
            "auto t = c10::metal::threadgroup_sum(m, x, r, 64); float u = t;",
            "auto t = x > 0 ? c10::metal::threadgroup_sum(m, x, r, 64) : 0;",
            "auto t = metal::simd_sum(x > 0 ? x : 1);",
            "auto t = x > 0 && metal::simd_sum(x) > 0;",
            "if (x > 0) { out[0] = 2 * c10::metal::threadgroup_sum(m, x, r, 64); }",
            "for (int i = 0, j = 1; i < j; i++) { x += i; }",
        ] {
            assert_eq!(hoisted(body), None, "{body}");
        }
        let nested = "auto t = c10::metal::threadgroup_sum(m, c10::metal::threadgroup_max(n, x, r, 64), r, 64);";
        assert!(hoist(&lex(nested).unwrap(), &HashSet::new()).is_err());
    }
}
