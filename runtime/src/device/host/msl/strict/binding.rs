//! Resources of a kernel (MSL 5.2.1): buffers, textures, samplers, threadgroup memory.

use std::ops::Range;

use super::super::lex::{Kind, Token, attribute_end};
use super::outline::{Function, Stage};
use super::words::{is_address_space, is_builtin_type};
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "binding";

/// Each kind of resource and how many places it has.
const PLACES: [(&str, u32); 4] =
    [("buffer", 31), ("threadgroup", 31), ("texture", 128), ("sampler", 16)];

/// Refuses places that are out of range or taken, and arguments that fit no place.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    let kernels = source.outline.functions.iter().filter(|f| f.stage == Some(Stage::Kernel));
    for kernel in kernels {
        let parameters: Vec<_> =
            kernel.parameters.iter().map(|range| Parameter::read(source, range)).collect();
        for parameter in &parameters {
            bounds(parameter, findings);
            fits(source, kernel, parameter, findings);
        }
        taken(&parameters, findings);
        exhausted(&parameters, findings);
    }
}

/// One parameter of a kernel.
pub(super) struct Parameter<'a> {
    /// Its name, or its last token before the attributes.
    pub name: &'a Token<'a>,
    /// Tokens before the attributes and default value.
    pub declaration: Range<usize>,
    /// Its attributes: name, argument (if it is one number) and token.
    pub attributes: Vec<(&'a str, Option<u32>, &'a Token<'a>)>,
    /// Whether it is a pointer or a reference.
    pub indirect: bool,
    /// Its address space.
    pub space: Option<&'a str>,
}

impl<'a> Parameter<'a> {
    pub(super) fn read(source: &Source<'a>, range: &Range<usize>) -> Self {
        let tokens = source.tokens;
        let mut attributes = Vec::new();
        let mut declared = Vec::new();
        let mut at = range.start;
        while at < range.end {
            if let Some(close) = attribute_end(tokens, at) {
                read_attributes(&tokens[at + 2..close - 1], &mut attributes);
                at = close + 1;
            } else {
                declared.push(at);
                at += 1;
            }
        }
        let last = declared.iter().rev().find(|&&i| tokens[i].is_ident()).copied();
        let is = |text: &str| declared.iter().any(|&i| tokens[i].is(text));
        let space = declared.iter().find(|&&i| is_address_space(&tokens[i]));
        Parameter {
            name: &tokens[last.unwrap_or(range.start)],
            declaration: range.start..last.map_or(range.end, |i| i + 1),
            attributes,
            indirect: is("*") || is("&") || is("["),
            space: space.map(|&i| tokens[i].text),
        }
    }

    pub(super) fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|(name, ..)| *name == attribute)
    }

    /// The type, if it is one word that every shader knows: `uint3`, `float`.
    pub(super) fn builtin(&self, tokens: &'a [Token<'a>]) -> Option<&'a Token<'a>> {
        let mut types = tokens[self.declaration.clone()]
            .iter()
            .filter(|token| token.offset != self.name.offset)
            .filter(|token| !["const", "metal", "::"].contains(&token.text));
        let first = types.next().filter(|token| is_builtin_type(token))?;
        types.next().is_none().then_some(first)
    }
}

/// Reads the attributes between `[[` and `]]`.
fn read_attributes<'a>(
    tokens: &'a [Token<'a>],
    list: &mut Vec<(&'a str, Option<u32>, &'a Token<'a>)>,
) {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ if depth == 0 && token.is_ident() => {
                let number = match &tokens[at + 1..] {
                    [open, number, close, ..]
                        if open.is("(") && close.is(")") && number.kind == Kind::Number =>
                    {
                        number.text.trim_end_matches(['u', 'U']).parse().ok()
                    }
                    _ => None,
                };
                list.push((token.text, number, token));
            }
            _ => {}
        }
    }
}

/// Apple: "'buffer' attribute parameter is out of bounds: must be between 0 and 30".
fn bounds(parameter: &Parameter<'_>, findings: &mut Findings) {
    for (name, number, token) in &parameter.attributes {
        let places = PLACES.iter().find(|(kind, _)| kind == name).map(|(_, places)| *places);
        if let (Some(places), Some(number)) = (places, *number)
            && number >= places
        {
            let message = format!(
                "'{name}' attribute parameter is out of bounds: must be between 0 and {}",
                places - 1
            );
            findings.add(RULE, token, message);
        }
    }
}

/// Apple: "cannot reserve 'buffer' resource location at index 0".
fn taken(parameters: &[Parameter<'_>], findings: &mut Findings) {
    for (kind, _) in PLACES {
        let mut places: Vec<(u32, &Parameter<'_>)> = Vec::new();
        for parameter in parameters {
            let place = parameter.attributes.iter().find(|(name, ..)| *name == kind);
            let Some((_, Some(place), token)) = place else { continue };
            let other = places.iter().find(|(taken, _)| taken == place).map(|(_, other)| *other);
            match other {
                // Two arguments may share a place if function constants choose between them.
                Some(other)
                    if !other.has("function_constant") && !parameter.has("function_constant") =>
                {
                    let message = format!(
                        "cannot reserve '{kind}' resource location at index {place}: `{}` has it; \
                         give `{}` another",
                        other.name.text, parameter.name.text
                    );
                    findings.add(RULE, token, message);
                }
                _ => places.push((*place, parameter)),
            }
        }
    }
}

/// Apple: "no 'buffer' resource location available for 'data31'".
fn exhausted(parameters: &[Parameter<'_>], findings: &mut Findings) {
    let buffers = parameters.iter().filter(|p| {
        p.indirect && matches!(p.space, Some("device" | "constant")) && !p.has("function_constant")
    });
    if let Some(parameter) = buffers.clone().nth(31) {
        let message = format!(
            "no 'buffer' resource location available for '{}': a kernel has 31, this one wants \
             {}; put several values into one buffer",
            parameter.name.text,
            buffers.count()
        );
        findings.add(RULE, parameter.name, message);
    }
}

/// Whether the argument can be bound at all.
fn fits(
    source: &Source<'_>,
    kernel: &Function<'_>,
    parameter: &Parameter<'_>,
    findings: &mut Findings,
) {
    let name = parameter.name.text;
    let resource = PLACES.iter().find(|(kind, _)| parameter.has(kind)).map(|(kind, _)| *kind);
    let message = match (resource, parameter.indirect, parameter.space) {
        (_, true, Some("thread")) => format!(
            "invalid address space qualification for the argument `{name}` of kernel `{}`: write \
             `device`, `constant` or `threadgroup`",
            kernel.name
        ),
        (Some("buffer"), true, Some("threadgroup")) => format!(
            "invalid address space qualification for buffer pointee type of `{name}`: valid are \
             device and constant; threadgroup memory has [[threadgroup(n)]]"
        ),
        (Some("threadgroup"), true, Some(space @ ("device" | "constant"))) => format!(
            "`{name}` is in address space {space}: it takes [[buffer(n)]], not [[threadgroup(n)]]"
        ),
        (Some(kind @ ("buffer" | "threadgroup")), false, _) => {
            let Some(builtin) = parameter.builtin(source.tokens) else { return };
            let space = if kind == "buffer" { "constant" } else { "threadgroup" };
            format!(
                "type '{0}' is not valid for attribute '{kind}': write `{space} {0}& {name}`",
                builtin.text
            )
        }
        _ => return,
    };
    findings.add(RULE, parameter.name, message);
}
