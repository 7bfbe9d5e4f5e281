//! The declarations of a shader: its functions, program-scope variables, records and fields.
//!
//! Not a C++ parser. It follows brackets and recognises the shapes that declarations take; what
//! it cannot place it leaves out, so that the rules that build on it stay silent there.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::super::lex::{Token, matching, matching_angle};
use super::words::{is_qualifier, skip_arguments, skip_attribute};

/// How a function is reached from outside the shader (MSL 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// `kernel`.
    Kernel,
    /// `vertex`, `fragment`, `mesh`, `object`: nothing that this device runs.
    Graphics,
}

/// A function, declared or defined.
#[derive(Debug)]
pub(super) struct Function<'a> {
    /// Name with its namespaces, `a::f`; of a member, with its record.
    pub path: String,
    /// Name as written, without namespaces.
    pub name: &'a str,
    /// Token of the name.
    pub name_at: usize,
    /// Tokens before the name: attributes, specifiers, return type.
    pub head: Range<usize>,
    /// Tokens of each parameter.
    pub parameters: Vec<Range<usize>>,
    /// Tokens between parameter list and body or `;`.
    pub tail: Range<usize>,
    /// Tokens between the braces, if it is defined here.
    pub body: Option<Range<usize>>,
    /// Its stage, if it is an entry point.
    pub stage: Option<Stage>,
    /// Whether it is a template or a member of one.
    pub template: bool,
    /// Token of the `{` of the record that it is a member of.
    pub record: Option<usize>,
}

/// A variable at program scope, or a member of a record.
#[derive(Debug)]
pub(super) struct Variable {
    /// Tokens of the declaration without the `;`.
    pub range: Range<usize>,
    /// Whether it is a member of a record.
    pub member: bool,
    /// Whether it is a template or a member of one.
    pub template: bool,
}

/// All declarations outside function bodies.
#[derive(Debug, Default)]
pub(super) struct Outline<'a> {
    pub functions: Vec<Function<'a>>,
    /// Indices of the functions of a name (without namespaces).
    pub by_name: HashMap<&'a str, Vec<usize>>,
    pub variables: Vec<Variable>,
    /// Names of records.
    pub records: HashSet<&'a str>,
}

impl<'a> Outline<'a> {
    /// The declarations among `tokens`, whose brackets match.
    pub(super) fn of(tokens: &'a [Token<'a>]) -> Self {
        let mut parser = Parser { tokens, outline: Outline::default(), path: Vec::new() };
        parser.scope(0..tokens.len(), Place { record: None, template: false });
        parser.outline
    }
}

/// Where a declaration stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Token of the `{` of the enclosing record.
    record: Option<usize>,
    template: bool,
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    outline: Outline<'a>,
    path: Vec<&'a str>,
}

impl<'a> Parser<'a> {
    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// Index behind the bracket that closes the one at `open`; the end if none does.
    fn close(&self, open: usize) -> usize {
        matching(self.tokens, open).map_or(self.tokens.len(), |close| close + 1)
    }

    /// Reads the declarations of a namespace or record.
    fn scope(&mut self, range: Range<usize>, place: Place) {
        let mut at = range.start;
        while at < range.end {
            let next = self.declaration(at, range.end, place);
            debug_assert!(next > at);
            at = next.max(at + 1);
        }
    }

    /// Reads the declaration at `start`; the index behind it.
    fn declaration(&mut self, start: usize, end: usize, mut place: Place) -> usize {
        let mut at = start;
        loop {
            if let Some(next) = skip_attribute(self.tokens, at) {
                at = next;
            } else if self.is(at, "template") && self.is(at + 1, "<") {
                place.template = true;
                match matching_angle(self.tokens, at + 1) {
                    Some(close) => at = close + 1,
                    None => return self.statement_end(at, end),
                }
            } else {
                break;
            }
        }
        match self.text(at) {
            ";" | "}" => at + 1,
            "public" | "private" | "protected" if self.is(at + 1, ":") => at + 2,
            "template" | "using" | "typedef" | "static_assert" | "_Static_assert" | "friend" => {
                self.statement_end(at, end)
            }
            "namespace" => self.namespace(at, end, place),
            "inline" if self.is(at + 1, "namespace") => self.namespace(at + 1, end, place),
            "extern" if self.text(at + 1).starts_with('"') && self.is(at + 2, "{") => {
                let close = self.close(at + 2);
                self.scope(at + 3..close.saturating_sub(1).min(end), place);
                close
            }
            _ => self.entity(start, at, end, place),
        }
    }

    fn namespace(&mut self, at: usize, end: usize, place: Place) -> usize {
        let Some(open) = (at..end).find(|&i| self.is(i, "{") || self.is(i, "=") || self.is(i, ";"))
        else {
            return end;
        };
        if !self.is(open, "{") {
            return self.statement_end(at, end);
        }
        let close = self.close(open);
        let depth = self.path.len();
        let names = self.tokens[at + 1..open].iter().filter(|token| token.is_ident());
        self.path.extend(names.map(|token| token.text));
        self.scope(open + 1..close.saturating_sub(1).min(end), place);
        self.path.truncate(depth);
        close
    }

    /// Reads a record, an enumeration, a function or a variable, whose first word behind
    /// attributes and template heads is at `at`.
    fn entity(&mut self, start: usize, at: usize, end: usize, place: Place) -> usize {
        let keyword = (at..end).find(|&i| {
            !is_qualifier(&self.tokens[i]) || matches!(self.text(i), "struct" | "class" | "union")
        });
        match keyword.map(|i| (i, self.text(i))) {
            Some((_, "enum")) => self.statement_end(at, end),
            Some((i, "struct" | "class" | "union")) => match self.record_body(i, end) {
                Some((name, open)) => self.record(at, name, open, end, place),
                None => self.function_or_variable(start, at, end, place),
            },
            _ => self.function_or_variable(start, at, end, place),
        }
    }

    /// Name (if any) and opening brace of the record whose keyword is at `at`.
    fn record_body(&self, at: usize, end: usize) -> Option<(Option<usize>, usize)> {
        let mut i = at + 1;
        while let Some(next) = skip_attribute(self.tokens, i) {
            i = next;
        }
        let name = self.tokens.get(i).filter(|token| token.is_ident()).map(|_| i);
        if name.is_some() {
            i = skip_arguments(self.tokens, i + 1);
        }
        if self.is(i, "final") {
            i += 1;
        }
        if self.is(i, ":") {
            i = (i..end).find(|&k| self.is(k, "{") || self.is(k, ";"))?;
        }
        self.is(i, "{").then_some((name, i))
    }

    fn record(
        &mut self,
        start: usize,
        name: Option<usize>,
        open: usize,
        end: usize,
        place: Place,
    ) -> usize {
        let close = self.close(open);
        let name = name.map_or("", |at| self.text(at));
        if !name.is_empty() {
            self.outline.records.insert(name);
        }
        self.path.push(name);
        let inside = Place { record: Some(open), template: place.template };
        self.scope(open + 1..close.saturating_sub(1).min(end), inside);
        self.path.pop();
        let behind = self.statement_end(close.saturating_sub(1), end);
        if close + 1 < behind && place.record.is_none() {
            // `struct S { ... } s;`
            self.variable(start..behind - 1, place);
        }
        behind
    }

    fn variable(&mut self, range: Range<usize>, place: Place) {
        let member = place.record.is_some();
        self.outline.variables.push(Variable { range, member, template: place.template });
    }

    /// Reads a function or a variable that starts (attributes and template head included) at
    /// `start`, its first word being at `at`.
    fn function_or_variable(&mut self, start: usize, at: usize, end: usize, place: Place) -> usize {
        let mut i = at;
        while i < end {
            if let Some(next) = skip_attribute(self.tokens, i) {
                i = next;
                continue;
            }
            match self.text(i) {
                "operator" => {
                    let from = if self.is(i + 1, "(") { i + 3 } else { i + 1 };
                    let open = (from..end).find(|&k| self.is(k, "("));
                    return match open {
                        Some(open) => self.function(start, i, open, end, place),
                        None => end,
                    };
                }
                "decltype" if self.is(i + 1, "(") => i = self.close(i + 1),
                "<" => i = matching_angle(self.tokens, i).map_or(i + 1, |close| close + 1),
                "[" => i = self.close(i),
                "(" => {
                    return match self.name_before(i, at) {
                        Some(name) => self.function(start, name, i, end, place),
                        None => self.statement_end(at, end),
                    };
                }
                ";" | "=" | "{" => {
                    let behind = self.statement_end(i, end);
                    if i > at + 1 {
                        self.variable(at..behind.saturating_sub(1).min(end), place);
                    }
                    return behind;
                }
                _ => i += 1,
            }
        }
        end
    }

    /// Token of the name that a parameter list at `open` belongs to: an identifier, perhaps with
    /// template arguments; `None` for `(*name)(...)` and the like.
    fn name_before(&self, open: usize, start: usize) -> Option<usize> {
        let mut name = open.checked_sub(1).filter(|&i| i >= start)?;
        if self.is(name, ">") {
            name = (start..name).rev().find(|&i| {
                self.is(i + 1, "<") && matching_angle(self.tokens, i + 1) == Some(open - 1)
            })?;
        }
        self.tokens[name].is_ident().then_some(name)
    }

    /// Reads the function whose name is at `name` and whose parameters start at `open`.
    fn function(
        &mut self,
        start: usize,
        name: usize,
        open: usize,
        end: usize,
        place: Place,
    ) -> usize {
        let after = self.close(open);
        let (body, behind) = self.body(after, end);
        let mut path = self.path.join("::");
        if !path.is_empty() {
            path.push_str("::");
        }
        path.push_str(self.text(name));
        let index = self.outline.functions.len();
        self.outline.by_name.entry(self.text(name)).or_default().push(index);
        self.outline.functions.push(Function {
            path,
            name: self.text(name),
            name_at: name,
            head: start..name,
            parameters: self.parameters(open + 1..after.saturating_sub(1)),
            tail: after..body.as_ref().map_or(behind, |body| body.start).saturating_sub(1),
            body,
            stage: self.stage(start..name),
            template: place.template,
            record: place.record,
        });
        behind
    }

    /// The tokens of a function's body, and the index behind the function, whose parameter list
    /// ends before `at`.
    fn body(&self, at: usize, end: usize) -> (Option<Range<usize>>, usize) {
        let mut i = at;
        let mut initialisers = false;
        while i < end {
            match self.text(i) {
                ";" => return (None, i + 1),
                "=" => return (None, self.statement_end(i, end)),
                ":" => {
                    initialisers = true;
                    i += 1;
                }
                "(" | "[" => i = self.close(i),
                "<" => i = matching_angle(self.tokens, i).map_or(i + 1, |close| close + 1),
                // `: member{1} {`
                "{" if initialisers && self.tokens[i - 1].is_ident() => i = self.close(i),
                "{" => {
                    let close = self.close(i);
                    return (Some(i + 1..close.saturating_sub(1)), close);
                }
                _ => i += 1,
            }
        }
        (None, end)
    }

    fn parameters(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut list = Vec::new();
        let mut start = range.start;
        let mut i = range.start;
        while i < range.end {
            match self.text(i) {
                "(" | "[" | "{" => i = self.close(i),
                "<" => i = matching_angle(self.tokens, i).map_or(i + 1, |close| close + 1),
                "," => {
                    list.push(start..i);
                    i += 1;
                    start = i;
                }
                _ => i += 1,
            }
        }
        let void = range.len() == 1 && self.is(range.start, "void");
        if start < range.end && !void {
            list.push(start..range.end);
        }
        list
    }

    /// The stage that the words before a function's name give it.
    fn stage(&self, head: Range<usize>) -> Option<Stage> {
        head.into_iter().find_map(|i| match self.text(i) {
            "kernel" => Some(Stage::Kernel),
            "vertex" | "fragment" | "mesh" | "object" => Some(Stage::Graphics),
            _ => None,
        })
    }

    /// Index behind the `;` that ends the statement at `at`, brackets skipped.
    fn statement_end(&self, at: usize, end: usize) -> usize {
        let mut i = at;
        while i < end {
            match self.text(i) {
                ";" => return i + 1,
                "(" | "[" | "{" => i = self.close(i),
                "}" if i > at => return i,
                _ => i += 1,
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::lex::lex;
    use super::*;

    fn outline(source: &str, check: impl FnOnce(&Outline<'_>)) {
        let tokens = lex(source).unwrap();
        check(&Outline::of(&tokens));
    }

    #[test]
    fn finds_functions_of_every_shape() {
        let source = "
            template <typename T, typename = enable_if_t<(sizeof(T) > 4)>>
            inline T f(thread const T& x, int n = (1, 2)) { return x; }
            namespace a { namespace b { [[kernel]] void k(device float* p [[buffer(0)]], vec<int, 2> v) {} } }
            struct S : B<int> {
                int m;
                S(int x) : m(x), n{1} { g(); }
                float operator()(int i) const { return i; }
                template <typename U> void put(U u) thread { }
                int n = 2;
            };
            template [[host_name(\"h\")]] kernel void t<float>(device float*);
            template <> int f<int>(int x) { return x; }
            kernel void last(void) {}";
        outline(source, |outline| {
            let found: Vec<_> = outline
                .functions
                .iter()
                .map(|f| (f.path.as_str(), f.parameters.len(), f.body.is_some(), f.stage))
                .collect();
            let kernel = Some(Stage::Kernel);
            assert_eq!(
                found,
                [
                    ("f", 2, true, None),
                    ("a::b::k", 2, true, kernel),
                    ("S::S", 1, true, None),
                    ("S::operator", 1, true, None),
                    ("S::put", 1, true, None),
                    ("f", 1, true, None),
                    ("last", 0, true, kernel),
                ]
            );
            assert_eq!(outline.records, HashSet::from(["S"]));
            assert_eq!(outline.variables.len(), 2);
            assert!(outline.variables.iter().all(|v| v.member));
        });
    }

    #[test]
    fn finds_program_scope_variables() {
        let source = "constant float a[2] = {1, 2}; int b; enum E : uint { x, y }; using F = int;
            typedef struct { int z; } T; constant float3 c{1, 2, 3}; struct S { int q; } s;
            constant bool d [[function_constant(0)]]; int (*pf)(int); struct S make();
            static_assert(sizeof(int) == 4, \"int\"); extern \"C\" { int e; }";
        outline(source, |outline| {
            let texts: Vec<usize> =
                outline.variables.iter().filter(|v| !v.member).map(|v| v.range.len()).collect();
            assert_eq!(texts.len(), 6, "a, b, c, s, d, e: {texts:?}");
        });
    }

    #[test]
    fn survives_what_is_no_program() {
        for source in ["", "struct", "template <", "operator", "f()", "namespace", "= ;", "enum {}"]
        {
            outline(source, |_| {});
        }
    }
}
