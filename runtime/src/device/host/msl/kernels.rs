//! What a shader offers: its kernels, their parameters and how they have to be launched.
//!
//! Declarations are read token by token. Types are not understood: what a parameter is follows
//! from its attribute and address space, and C++ templates deduce the rest from the function.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::LaunchMode;
use super::diagnostics::Diagnostic;
use super::lex::{Kind, Token, attribute_end, matching, matching_angle};

/// Most buffer arguments of a kernel, as on Apple GPUs.
pub(crate) const MAX_BUFFERS: u32 = 31;
/// Most threadgroup arguments of a kernel (entries of `Launch::threadgroup_lengths`).
pub(crate) const MAX_THREADGROUP_ARGUMENTS: u32 = 8;

/// Attributes of parameters that the hardware fills in. The names are those of `launch.h`.
const BUILTINS: [&str; 20] = [
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
    "threads_per_grid",
    "grid_size",
    "grid_origin",
    "threadgroups_per_grid",
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "threads_per_simdgroup",
    "thread_execution_width",
    "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "thread_index_in_quadgroup",
    "quadgroup_index_in_threadgroup",
    "quadgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup",
];

/// Whether a kernel may write to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `constant`, or `device` with `const`.
    ReadOnly,
    /// `device` without `const`.
    ReadWrite,
}

/// What a parameter is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterKind {
    /// A buffer or inline bytes at an index of the argument table.
    Buffer {
        /// Index of the argument table.
        index: u32,
        /// Whether the kernel may write to it.
        access: Access,
        /// The type of an element, as written.
        ty: String,
        /// Whether the parameter is a reference and not a pointer.
        by_reference: bool,
        /// Bytes that a reference reads, where the type is one of MSL's own.
        by_reference_size: Option<u32>,
    },
    /// Threadgroup memory whose size the dispatch gives.
    Threadgroup {
        /// Index of the threadgroup memory table.
        index: u32,
    },
    /// A value that the launch fills in; the attribute's name.
    Builtin(String),
}

/// One parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name; empty if it has none.
    pub name: String,
    /// What it is bound to.
    pub kind: ParameterKind,
}

/// One kernel of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInfo {
    /// The name to ask for: `host_name`, or the function's own.
    pub name: String,
    /// How it is launched.
    pub mode: LaunchMode,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// `max_total_threads_per_threadgroup`, if the source gives it.
    pub max_total_threads: Option<u32>,
    /// The C++ expression that names the function: `ns::f<float, 4>`.
    pub(crate) function: String,
    /// Line of its declaration.
    pub(crate) line: u32,
}

/// What was found in one source.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    /// The kernels, in source order.
    pub kernels: Vec<KernelInfo>,
    /// Token ranges of explicit instantiations of kernels, which C++ must not see.
    pub instantiations: Vec<Range<usize>>,
}

/// Finds the kernels.
///
/// # Errors
/// The declarations of a kernel cannot be understood, or ask for what a compute kernel on this
/// device cannot have; all complaints, in source order.
pub(crate) fn analyse(tokens: &[Token<'_>]) -> Result<Analysis, Vec<Diagnostic>> {
    let mut scan = Scan { tokens, scopes: Vec::new(), declarations: Vec::new() };
    scan.run().map_err(|d| vec![d])?;
    let mut complaints = Vec::new();
    let mut analysis = Analysis::default();
    let mut templates: HashMap<String, (Vec<Parameter>, Option<u32>)> = HashMap::new();
    let synchronising = synchronising_names(tokens);
    for declaration in &scan.declarations {
        if let Err(d) = collect(tokens, declaration, &synchronising, &mut templates, &mut analysis)
        {
            complaints.push(d);
        }
    }
    let mut seen = HashSet::new();
    for kernel in &analysis.kernels {
        if !seen.insert(kernel.name.as_str()) {
            let message = format!("two kernels have the name {:?}", kernel.name);
            complaints.push(Diagnostic { line: kernel.line, column: 0, message });
        }
    }
    if complaints.is_empty() { Ok(analysis) } else { Err(complaints) }
}

/// A declaration that says `kernel`.
#[derive(Debug)]
struct Declaration {
    /// Tokens, with the final `;` or without the body.
    tokens: Range<usize>,
    /// Whether a body follows.
    has_body: bool,
    /// The enclosing namespaces, as `a::b::`.
    scope: String,
}

/// Walks the declarations of namespace scope.
struct Scan<'t, 's> {
    tokens: &'t [Token<'s>],
    scopes: Vec<String>,
    declarations: Vec<Declaration>,
}

impl Scan<'_, '_> {
    fn run(&mut self) -> Result<(), Diagnostic> {
        let mut at = 0;
        while at < self.tokens.len() {
            at = self.step(at)?;
        }
        Ok(())
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|t| t.is(text))
    }

    /// Handles what starts at `at`; gives the index behind it.
    fn step(&mut self, at: usize) -> Result<usize, Diagnostic> {
        let token = &self.tokens[at];
        if token.is("}") {
            if self.scopes.pop().is_none() {
                return Err(Diagnostic::at(token, "this } closes nothing"));
            }
            return Ok(at + 1);
        }
        if token.is(";") {
            return Ok(at + 1);
        }
        let namespace =
            token.is("namespace") || (token.is("inline") && self.is(at + 1, "namespace"));
        let linkage = token.is("extern")
            && self.tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Str)
            && self.is(at + 2, "{");
        if linkage {
            self.scopes.push(String::new());
            return Ok(at + 3);
        }
        if namespace {
            let open = (at..self.tokens.len()).find(|&i| self.is(i, "{") || self.is(i, ";"));
            if let Some(open) = open.filter(|&i| self.is(i, "{")) {
                let names = self.tokens[at..open].iter().filter(|t| {
                    (t.is_ident() && !t.is("namespace") && !t.is("inline")) || t.is("::")
                });
                let name: String = names.map(|t| t.text).collect();
                self.scopes.push(if name.is_empty() { name } else { name + "::" });
                return Ok(open + 1);
            }
        }
        self.declaration(at)
    }

    /// Reads one declaration up to its `;` or the end of its body.
    fn declaration(&mut self, start: usize) -> Result<usize, Diagnostic> {
        let mut at = start;
        let mut is_kernel = false;
        let mut continues_after_body = false;
        while let Some(token) = self.tokens.get(at) {
            if token.is(";") {
                self.note(is_kernel, start..at + 1, false);
                return Ok(at + 1);
            }
            if token.is("{") {
                let end = self.close(at)?;
                if !continues_after_body {
                    self.note(is_kernel, start..at, true);
                    return Ok(end + 1);
                }
                at = end + 1;
                continue;
            }
            if token.is("}") {
                // The end of a scope without a `;`: leave it to `step`.
                return if at == start { Ok(at + 1) } else { Ok(at) };
            }
            if let Some(end) = attribute_end(self.tokens, at) {
                is_kernel |= self.tokens[at + 2].is("kernel");
                at = end + 1;
                continue;
            }
            match token.text {
                "kernel" => is_kernel = true,
                "struct" | "class" | "union" | "enum" | "=" => continues_after_body = true,
                "(" | "[" => at = self.close(at)?,
                "template" if self.is(at + 1, "<") => {
                    at = matching_angle(self.tokens, at + 1)
                        .ok_or_else(|| Diagnostic::at(token, "the template's < is not closed"))?;
                }
                _ => {}
            }
            at += 1;
        }
        Ok(at)
    }

    fn close(&self, open: usize) -> Result<usize, Diagnostic> {
        matching(self.tokens, open).ok_or_else(|| {
            let token = &self.tokens[open];
            Diagnostic::at(token, format!("the {} is not closed", token.text))
        })
    }

    fn note(&mut self, is_kernel: bool, tokens: Range<usize>, has_body: bool) {
        if is_kernel {
            let scope = self.scopes.concat();
            self.declarations.push(Declaration { tokens, has_body, scope });
        }
    }
}

/// The name of the declared function and where its parameters are.
struct Declarator {
    name: usize,
    /// The template arguments behind the name, with `<` and `>`.
    arguments: Option<Range<usize>>,
    /// The tokens between the parentheses; `None` in `decltype(f<T>) f<T>;`.
    parameters: Option<Range<usize>>,
}

/// Adds what one declaration of a kernel says.
fn collect(
    tokens: &[Token<'_>],
    declaration: &Declaration,
    synchronising: &HashSet<&str>,
    templates: &mut HashMap<String, (Vec<Parameter>, Option<u32>)>,
    analysis: &mut Analysis,
) -> Result<(), Diagnostic> {
    let range = declaration.tokens.clone();
    let first = &tokens[range.start];
    let is_template = first.is("template");
    let instantiates = is_template && !tokens[range.start + 1].is("<");
    let specialises =
        is_template && tokens[range.start + 1].is("<") && tokens[range.start + 2].is(">");
    let found = declarator(tokens, range.clone())
        .ok_or_else(|| Diagnostic::at(first, "this kernel has no name"))?;
    let own = &tokens[found.name];
    let qualified = qualified_name(tokens, found.name, &declaration.scope);
    let attributes = function_attributes(tokens, range.clone())?;

    if instantiates {
        analysis.instantiations.push(range.clone());
        let (parameters, max_threads) = templates.get(&qualified).cloned().ok_or_else(|| {
            Diagnostic::at(own, format!("no kernel template {:?} is defined above", own.text))
        })?;
        let arguments = found.arguments.map(|r| join(&tokens[r])).unwrap_or_default();
        let mentions = waits(&parameters)
            || tokens[range].iter().any(|t| t.is_ident() && synchronising.contains(t.text));
        analysis.kernels.push(KernelInfo {
            name: attributes.host_name.unwrap_or_else(|| own.text.to_string()),
            mode: mode(mentions),
            parameters,
            max_total_threads: attributes.max_total_threads.or(max_threads),
            function: format!("{qualified}{arguments}"),
            line: own.line,
        });
        return Ok(());
    }
    if !declaration.has_body || specialises {
        return Ok(());
    }
    let parameters = match found.parameters {
        Some(range) => parameters(tokens, range)?,
        None => return Err(Diagnostic::at(own, "this kernel has no parameter list")),
    };
    if is_template {
        templates.insert(qualified, (parameters, attributes.max_total_threads));
        return Ok(());
    }
    analysis.kernels.push(KernelInfo {
        name: attributes.host_name.unwrap_or_else(|| own.text.to_string()),
        mode: mode(waits(&parameters) || synchronising.contains(own.text)),
        parameters,
        max_total_threads: attributes.max_total_threads,
        function: qualified,
        line: own.line,
    });
    Ok(())
}

fn mode(synchronises: bool) -> LaunchMode {
    if synchronises { LaunchMode::Fibers } else { LaunchMode::Plain }
}

/// Whether the parameters alone ask for fibers: threadgroup memory lies in their arena.
fn waits(parameters: &[Parameter]) -> bool {
    parameters.iter().any(|p| matches!(p.kind, ParameterKind::Threadgroup { .. }))
}

/// Finds the name in front of the parameter list, or in front of the `;` of an instantiation.
fn declarator(tokens: &[Token<'_>], range: Range<usize>) -> Option<Declarator> {
    let mut at = range.start;
    while at < range.end {
        if let Some(end) = attribute_end(tokens, at) {
            at = end + 1;
            continue;
        }
        let token = &tokens[at];
        let next = tokens.get(at + 1)?;
        match token.text {
            "template" if next.is("<") => at = matching_angle(tokens, at + 1)?,
            "decltype" | "__attribute__" if next.is("(") => at = matching(tokens, at + 1)?,
            _ if token.is_ident() && next.is("(") => {
                let end = matching(tokens, at + 1)?;
                return Some(Declarator {
                    name: at,
                    arguments: None,
                    parameters: Some(at + 2..end),
                });
            }
            _ if token.is_ident() && next.is("<") => {
                let close = matching_angle(tokens, at + 1)?;
                let arguments = Some(at + 1..close + 1);
                match tokens.get(close + 1) {
                    Some(t) if t.is("(") => {
                        let end = matching(tokens, close + 1)?;
                        let parameters = Some(close + 2..end);
                        return Some(Declarator { name: at, arguments, parameters });
                    }
                    Some(t) if t.is(";") => {
                        return Some(Declarator { name: at, arguments, parameters: None });
                    }
                    _ => at = close,
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// `a::b::name`, with the namespaces around the declaration in front.
fn qualified_name(tokens: &[Token<'_>], name: usize, scope: &str) -> String {
    let mut start = name;
    while start >= 2 && tokens[start - 1].is("::") && tokens[start - 2].is_ident() {
        start -= 2;
    }
    format!("{scope}{}", join(&tokens[start..=name]))
}

/// The tokens as text, with spaces where words would run together.
pub(crate) fn join(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    for (i, token) in tokens.iter().enumerate() {
        let word = |t: &Token<'_>| matches!(t.kind, Kind::Ident | Kind::Number);
        if i > 0 && word(token) && (word(&tokens[i - 1]) || tokens[i - 1].is(",")) {
            text.push(' ');
        }
        text.push_str(token.text);
    }
    text
}

#[derive(Default)]
struct FunctionAttributes {
    host_name: Option<String>,
    max_total_threads: Option<u32>,
}

/// Reads the attributes of the function itself (not of its parameters).
fn function_attributes(
    tokens: &[Token<'_>],
    range: Range<usize>,
) -> Result<FunctionAttributes, Diagnostic> {
    let mut found = FunctionAttributes::default();
    let mut at = range.start;
    while at < range.end {
        if let Some(end) = attribute_end(tokens, at) {
            for attribute in split(tokens, at + 2..end - 1) {
                read_function_attribute(&tokens[attribute], &mut found)?;
            }
            at = end;
        } else if tokens[at].is("(") {
            at = matching(tokens, at).unwrap_or(at);
        }
        at += 1;
    }
    Ok(found)
}

fn read_function_attribute(
    attribute: &[Token<'_>],
    found: &mut FunctionAttributes,
) -> Result<(), Diagnostic> {
    let Some(name) = attribute.first() else { return Ok(()) };
    match name.text {
        "host_name" => {
            let literals = attribute.iter().filter(|t| t.kind == Kind::Str);
            let text: String = literals.map(|t| t.text.trim_matches('"')).collect();
            if text.is_empty() || text.contains('\\') || text.chars().any(char::is_control) {
                return Err(Diagnostic::at(name, "host_name needs a plain, non-empty string"));
            }
            found.host_name = Some(text);
        }
        "max_total_threads_per_threadgroup" => {
            let message = "max_total_threads_per_threadgroup needs a number of at least 1";
            let value = attribute.get(2).and_then(|t| integer(t.text)).filter(|&n| n > 0);
            found.max_total_threads = Some(value.ok_or_else(|| Diagnostic::at(name, message))?);
        }
        _ => {}
    }
    Ok(())
}

/// The value of an integer literal with any suffix.
fn integer(text: &str) -> Option<u32> {
    text.trim_end_matches(['u', 'U', 'l', 'L']).parse().ok()
}

/// Splits a list at its commas.
fn split(tokens: &[Token<'_>], range: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    let mut at = range.start;
    while at < range.end {
        match tokens[at].text {
            "(" | "[" | "{" => at = matching(tokens, at).unwrap_or(at),
            "<" => at = matching_angle(tokens, at).unwrap_or(at),
            "," => {
                parts.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if start < range.end {
        parts.push(start..range.end);
    }
    parts
}

/// What is known of a parameter before indices are given out.
struct RawParameter<'t, 's> {
    first: &'t Token<'s>,
    name: String,
    attribute: Option<(&'t Token<'s>, Option<u32>)>,
    /// Tokens without attributes.
    words: Vec<Token<'s>>,
}

fn parameters(tokens: &[Token<'_>], range: Range<usize>) -> Result<Vec<Parameter>, Diagnostic> {
    let mut raw = Vec::new();
    for part in split(tokens, range) {
        raw.push(raw_parameter(tokens, part)?);
    }
    if let [only] = &raw[..]
        && only.words.len() == 1
        && only.first.is("void")
    {
        return Ok(Vec::new());
    }
    // Explicit indices are taken first; the others get the lowest that are left.
    let taken = |name: &str| -> HashSet<u32> {
        let explicit = raw.iter().filter_map(|p| p.attribute);
        explicit.filter(|(t, _)| t.is(name)).filter_map(|(_, index)| index).collect()
    };
    let (mut buffers, mut threadgroups) = (taken("buffer"), taken("threadgroup"));
    raw.iter().map(|p| classify(p, &mut buffers, &mut threadgroups)).collect()
}

fn raw_parameter<'t, 's>(
    tokens: &'t [Token<'s>],
    range: Range<usize>,
) -> Result<RawParameter<'t, 's>, Diagnostic> {
    let mut words = Vec::new();
    let mut attribute = None;
    let mut at = range.start;
    while at < range.end {
        if let Some(end) = attribute_end(tokens, at) {
            for one in split(tokens, at + 2..end - 1) {
                let name = &tokens[one.start];
                let ignored = matches!(name.text, "maybe_unused" | "clang" | "gnu");
                if !ignored {
                    attribute = Some((name, attribute_index(&tokens[one.clone()])?));
                }
            }
            at = end + 1;
        } else {
            words.push(tokens[at]);
            at += 1;
        }
    }
    let first = &tokens[range.start];
    let name = words.iter().rev().skip_while(|t| !t.is_ident()).map(|t| t.text).next();
    Ok(RawParameter { first, name: name.unwrap_or_default().to_string(), attribute, words })
}

/// The number in `buffer(3)`; `None` if the attribute has no argument.
fn attribute_index(attribute: &[Token<'_>]) -> Result<Option<u32>, Diagnostic> {
    match attribute {
        [_] => Ok(None),
        [_, open, number, close] if open.is("(") && close.is(")") => {
            let message = format!("the index must be a number, not {:?}", number.text);
            integer(number.text).map(Some).ok_or_else(|| Diagnostic::at(number, message))
        }
        [name, ..] => Err(Diagnostic::at(name, "the index must be a number")),
        [] => Ok(None),
    }
}

fn classify(
    raw: &RawParameter<'_, '_>,
    buffers: &mut HashSet<u32>,
    threadgroups: &mut HashSet<u32>,
) -> Result<Parameter, Diagnostic> {
    let space = raw.words.iter().find(|t| matches!(t.text, "device" | "constant" | "threadgroup"));
    let attribute = raw.attribute.as_ref().map(|(token, index)| (token.text, *index));
    let kind = match (attribute, space.map(|t| t.text)) {
        (Some(("buffer", Some(index))), Some("device" | "constant")) => buffer(raw, index)?,
        (None, Some("device" | "constant")) => buffer(raw, lowest_free(buffers))?,
        (Some(("threadgroup", Some(index))), _) => threadgroup_argument(raw, index)?,
        (None, Some("threadgroup")) => threadgroup_argument(raw, lowest_free(threadgroups))?,
        (Some((name, None)), None) if BUILTINS.contains(&name) => {
            ParameterKind::Builtin(name.to_string())
        }
        (Some(("buffer", _)), _) => {
            let message = "a buffer argument is a pointer or reference to device or constant";
            return Err(Diagnostic::at(raw.first, message));
        }
        (Some((name, _)), _) => {
            let message =
                format!("the attribute [[{name}]] is not supported in compute kernels here");
            return Err(Diagnostic::at(raw.first, message));
        }
        (None, _) => {
            let message = format!(
                "the parameter {:?} needs an attribute such as [[buffer(0)]] or \
                 [[thread_position_in_grid]]",
                raw.name
            );
            return Err(Diagnostic::at(raw.first, message));
        }
    };
    Ok(Parameter { name: raw.name.clone(), kind })
}

fn lowest_free(taken: &mut HashSet<u32>) -> u32 {
    let index = (0..).find(|i| !taken.contains(i)).unwrap_or(u32::MAX);
    taken.insert(index);
    index
}

fn threadgroup_argument(
    raw: &RawParameter<'_, '_>,
    index: u32,
) -> Result<ParameterKind, Diagnostic> {
    if index >= MAX_THREADGROUP_ARGUMENTS {
        let message = format!("threadgroup indices go from 0 to {}", MAX_THREADGROUP_ARGUMENTS - 1);
        return Err(Diagnostic::at(raw.first, message));
    }
    Ok(ParameterKind::Threadgroup { index })
}

fn buffer(raw: &RawParameter<'_, '_>, index: u32) -> Result<ParameterKind, Diagnostic> {
    if index >= MAX_BUFFERS {
        let message = format!("buffer indices go from 0 to {}", MAX_BUFFERS - 1);
        return Err(Diagnostic::at(raw.first, message));
    }
    let indirection = raw.words.iter().rposition(|t| t.is("*") || t.is("&"));
    let Some(indirection) = indirection else {
        let message = "a buffer argument is a pointer or a reference";
        return Err(Diagnostic::at(raw.first, message));
    };
    let pointee = &raw.words[..indirection];
    let read_only = pointee.iter().any(|t| t.is("const") || t.is("constant"));
    let plain: Vec<_> = pointee
        .iter()
        .filter(|t| !matches!(t.text, "device" | "constant" | "const" | "volatile" | "("))
        .copied()
        .collect();
    let by_reference = raw.words[indirection].is("&");
    let ty = join(&plain);
    // `constant float (&x)[4]` reads more than one element.
    let is_array = raw.words[indirection..].iter().any(|t| t.is("["));
    let size = if by_reference && !is_array { size_of_type(&ty) } else { None };
    Ok(ParameterKind::Buffer {
        index,
        access: if read_only { Access::ReadOnly } else { Access::ReadWrite },
        ty,
        by_reference,
        by_reference_size: size,
    })
}

/// Bytes of a scalar, vector or packed vector type of MSL.
fn size_of_type(ty: &str) -> Option<u32> {
    let ty = ty.strip_prefix("metal::").unwrap_or(ty);
    let (packed, ty) = match ty.strip_prefix("packed_") {
        Some(rest) => (true, rest),
        None => (false, ty),
    };
    let scalar = |name: &str| {
        Some(match name {
            "bool" | "char" | "uchar" | "int8_t" | "uint8_t" => 1,
            "short" | "ushort" | "int16_t" | "uint16_t" | "half" | "bfloat" => 2,
            "int" | "uint" | "int32_t" | "uint32_t" | "float" | "unsigned" | "unsigned int" => 4,
            "long" | "ulong" | "int64_t" | "uint64_t" | "size_t" | "ptrdiff_t" => 8,
            _ => return None,
        })
    };
    let count = match ty.chars().last() {
        Some('2') => 2,
        Some('3') => 3,
        Some('4') => 4,
        _ => return scalar(ty),
    };
    let element = scalar(&ty[..ty.len() - 1])?;
    Some(element * if count == 3 && !packed { 4 } else { count })
}

/// Names of functions that let threads wait for each other, directly or through what they call.
///
/// A name is synchronising if the body of any function of that name mentions a synchronising
/// name. `operator()` counts for its class, `using X = ...` for X. Threadgroup variables need the
/// fibers' arena, so mentioning `threadgroup` in a body counts, too.
fn synchronising_names<'s>(tokens: &[Token<'s>]) -> HashSet<&'s str> {
    let bodies = bodies(tokens);
    let mut names: HashSet<&str> = HashSet::new();
    loop {
        let before = names.len();
        for (name, mentioned) in &bodies {
            if mentioned.iter().any(|m| names.contains(m) || is_synchronising_word(m)) {
                names.insert(name);
            }
        }
        if names.len() == before {
            return names;
        }
    }
}

fn is_synchronising_word(word: &str) -> bool {
    matches!(word, "threadgroup" | "threadgroup_barrier" | "make_filled_simdgroup_matrix")
        || is_simd_function(word)
}

fn is_simd_function(word: &str) -> bool {
    const FAMILIES: [&str; 14] = [
        "sum",
        "product",
        "max",
        "min",
        "and",
        "or",
        "xor",
        "any",
        "all",
        "is_first",
        "ballot",
        "barrier",
        "multiply",
        "multiply_accumulate",
    ];
    const PREFIXES: [&str; 4] = ["prefix_", "shuffle", "broadcast", "active_threads_mask"];
    ["simd_", "quad_", "simdgroup_"].iter().filter_map(|p| word.strip_prefix(p)).any(|rest| {
        FAMILIES.contains(&rest)
            || PREFIXES.iter().any(|p| rest.starts_with(p))
            || matches!(rest, "load" | "store" | "matrix")
            || rest.ends_with("8x8")
    })
}

/// For each function (and alias): the words of its parameters and body.
fn bodies<'s>(tokens: &[Token<'s>]) -> Vec<(&'s str, HashSet<&'s str>)> {
    let mut found = Vec::new();
    let mut classes: Vec<(usize, &str)> = Vec::new();
    let words = |range: &[Token<'s>]| -> HashSet<&'s str> {
        range.iter().filter(|t| t.is_ident()).map(|t| t.text).collect()
    };
    for (at, token) in tokens.iter().enumerate() {
        classes.retain(|&(end, _)| at < end);
        if token.is("using") && tokens.get(at + 2).is_some_and(|t| t.is("=")) {
            let end = (at..tokens.len()).find(|&i| tokens[i].is(";")).unwrap_or(tokens.len());
            found.push((tokens[at + 1].text, words(&tokens[at + 3..end])));
        }
        if !token.is("{") {
            continue;
        }
        let Some(end) = matching(tokens, at) else { continue };
        if let Some(class) = class_name(tokens, at) {
            classes.push((end, class));
        } else if let Some((name, open)) = function_name(tokens, at) {
            let name = if name == "operator" { classes.last().map(|c| c.1) } else { Some(name) };
            if let Some(name) = name {
                // Parameters count except for their address spaces: a pointer to threadgroup
                // memory alone does not make a function wait.
                let mut mentioned = words(&tokens[open..at]);
                mentioned.remove("threadgroup");
                mentioned.extend(words(&tokens[at..end]));
                found.push((name, mentioned));
            }
        }
    }
    found
}

/// The name of the class whose body opens at `open`.
fn class_name<'s>(tokens: &[Token<'s>], open: usize) -> Option<&'s str> {
    let start = (0..open).rev().find(|&i| {
        tokens[i].is(";") || tokens[i].is("{") || tokens[i].is("}") || tokens[i].is(")")
    });
    let head = &tokens[start.map_or(0, |i| i + 1)..open];
    let keyword = head.iter().rposition(|t| t.is("struct") || t.is("class") || t.is("union"))?;
    head.get(keyword + 1).filter(|t| t.is_ident()).map(|t| t.text)
}

/// The name of the function whose body opens at `open`, and where its parameters open.
fn function_name<'s>(tokens: &[Token<'s>], open: usize) -> Option<(&'s str, usize)> {
    let mut at = open.checked_sub(1)?;
    while tokens[at].is_ident()
        && matches!(
            tokens[at].text,
            "const" | "thread" | "device" | "constant" | "threadgroup" | "noexcept" | "volatile"
        )
    {
        at = at.checked_sub(1)?;
    }
    if !tokens[at].is(")") {
        return None;
    }
    let mut depth = 0;
    let parameters = (0..=at).rev().find(|&i| {
        depth += i32::from(tokens[i].is(")")) - i32::from(tokens[i].is("("));
        depth == 0
    })?;
    let before = parameters.checked_sub(1)?;
    let name = &tokens[before];
    if name.is_ident() {
        let control =
            matches!(name.text, "if" | "for" | "while" | "switch" | "catch" | "constexpr");
        return (!control).then_some((name.text, parameters));
    }
    // `operator()(...)`, `operator+(...)`
    let operator = (before.saturating_sub(3)..=before).rev().find(|&i| tokens[i].is("operator"));
    operator.map(|_| ("operator", parameters))
}
