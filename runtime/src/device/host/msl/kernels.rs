//! What a shader offers: its kernels, their parameters and how they have to be launched.
//!
//! Declarations are read token by token. Types are not understood: what a parameter is follows
//! from its attribute and address space, and C++ templates deduce the rest from the function.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::LaunchMode;
use super::declarations::{Declaration, kernel_declarations};
use super::diagnostics::Diagnostic;
use super::fission::Outcome;
use super::lex::{Kind, Token, attribute_end, integer, join, matching, matching_angle, split};
use super::parameters::{Parameter, ParameterKind, parameters};
use super::waiting::synchronising_names;

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
    /// Whether it runs as loops over the threads of a threadgroup.
    pub fission: Outcome,
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
    let declarations = kernel_declarations(tokens).map_err(|d| vec![d])?;
    let mut complaints = Vec::new();
    let mut analysis = Analysis::default();
    let mut templates: HashMap<String, (Vec<Parameter>, Option<u32>)> = HashMap::new();
    let synchronising = synchronising_names(tokens);
    for declaration in &declarations {
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
            fission: Outcome::Whole,
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
        fission: Outcome::Whole,
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
