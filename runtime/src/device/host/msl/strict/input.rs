//! Inputs of a kernel that the GPU fills in (MSL 5.2.3.6): positions, sizes, indices.

use super::binding::Parameter;
use super::outline::{Function, Stage};
use super::words::components;
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "input";

/// Inputs with one, two or three components; all of a kernel's have as many.
const POSITIONS: [&str; 6] = [
    "thread_position_in_grid",
    "threads_per_grid",
    "thread_position_in_threadgroup",
    "threads_per_threadgroup",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
];

/// Inputs with one, two or three components that may differ from the others.
const SIZES: [&str; 3] = ["dispatch_threads_per_threadgroup", "grid_size", "grid_origin"];

/// Inputs with one component.
const INDICES: [&str; 11] = [
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "thread_index_in_quadgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "threads_per_simdgroup",
    "thread_execution_width",
    "quadgroup_index_in_threadgroup",
    "quadgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup",
];

/// Other inputs of tile and stage-in kernels, left to the compiler.
const OTHERS: [&str; 8] = [
    "stage_in",
    "pixel_position_in_tile",
    "pixels_per_tile",
    "tile_index",
    "amplification_id",
    "amplification_count",
    "render_target_array_index",
    "payload",
];

/// Refuses inputs that the GPU does not fill in, or not with that type.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    let kernels = source.outline.functions.iter().filter(|f| f.stage == Some(Stage::Kernel));
    for kernel in kernels {
        let parameters: Vec<_> =
            kernel.parameters.iter().map(|range| Parameter::read(source, range)).collect();
        for parameter in &parameters {
            one(source, parameter, findings);
        }
        same_components(source, kernel, &parameters, findings);
        both_widths(&parameters, findings);
    }
}

/// The input that a parameter asks for.
fn input<'a>(parameter: &Parameter<'a>) -> Option<&'a str> {
    let known =
        |name: &str| POSITIONS.contains(&name) || SIZES.contains(&name) || INDICES.contains(&name);
    parameter.attributes.iter().map(|(name, ..)| *name).find(|name| known(name))
}

fn one(source: &Source<'_>, parameter: &Parameter<'_>, findings: &mut Findings) {
    let name = parameter.name;
    match input(parameter) {
        Some(input) if parameter.indirect => {
            let message = format!(
                "a pointer or reference is not valid for attribute '{input}': take `{}` by value",
                name.text
            );
            findings.add(RULE, name, message);
        }
        Some(input) => wrong_type(source, parameter, input, findings),
        None => unfilled(source, parameter, findings),
    }
}

/// Apple: "type 'float' is not valid for attribute 'thread_position_in_grid'".
fn wrong_type(
    source: &Source<'_>,
    parameter: &Parameter<'_>,
    input: &str,
    findings: &mut Findings,
) {
    let Some(builtin) = parameter.builtin(source.tokens) else { return };
    let index = INDICES.contains(&input);
    let element = builtin.text.trim_end_matches(['2', '3']);
    let unsigned = ["uint", "ushort", "uint32_t", "uint16_t", "unsigned"];
    let valid = unsigned.contains(&builtin.text)
        || (!index && ["uint", "ushort"].contains(&element) && builtin.text != element);
    if !valid {
        let types = if index { "uint or ushort" } else { "uint, uint2, uint3 or ushort, ..." };
        let message =
            format!("type '{}' is not valid for attribute '{input}': use {types}", builtin.text);
        findings.add(RULE, parameter.name, message);
    }
}

/// Apple: "invalid type 'int' for input declaration in a kernel function".
fn unfilled(source: &Source<'_>, parameter: &Parameter<'_>, findings: &mut Findings) {
    let resource = ["buffer", "threadgroup", "texture", "sampler"];
    let known = parameter
        .attributes
        .iter()
        .any(|(name, ..)| resource.contains(name) || OTHERS.contains(name));
    if parameter.indirect || known {
        return;
    }
    let Some(builtin) = parameter.builtin(source.tokens) else { return };
    let attributes: Vec<&str> = parameter.attributes.iter().map(|(name, ..)| *name).collect();
    let name = parameter.name.text;
    let message = if attributes.is_empty() {
        format!(
            "invalid type '{0}' for input declaration in a kernel function: write `constant {0}& \
             {name}` for an argument, or add an attribute such as [[thread_position_in_grid]]",
            builtin.text
        )
    } else {
        format!(
            "invalid attribute '{}' for input declaration in a kernel function: `{name}` needs \
             one that a kernel has, such as [[thread_position_in_grid]]",
            attributes.join(", ")
        )
    };
    findings.add(RULE, parameter.name, message);
}

/// Apple: "expecting input declarations with either all scalar types or all vector types with
/// the same number of elements".
fn same_components(
    source: &Source<'_>,
    kernel: &Function<'_>,
    parameters: &[Parameter<'_>],
    findings: &mut Findings,
) {
    let positions = parameters.iter().filter(|p| POSITIONS.iter().any(|name| p.has(name)));
    let counted: Vec<_> = positions
        .filter_map(|p| {
            let count = components(p.builtin(source.tokens)?.text)?;
            Some((p, count))
        })
        .collect();
    let Some(((first, count), rest)) = counted.split_first() else { return };
    if let Some((other, _)) = rest.iter().find(|(_, other)| other != count) {
        let message = format!(
            "expecting input declarations with either all scalar types or all vector types with \
             the same number of elements: `{}` and `{}` of kernel `{}` differ",
            first.name.text, other.name.text, kernel.name
        );
        findings.add(RULE, other.name, message);
    }
}

/// Apple: "kernel function cannot have input declarations with 'thread_execution_width' and
/// 'threads_per_simdgroup' attributes".
fn both_widths(parameters: &[Parameter<'_>], findings: &mut Findings) {
    let with = |attribute: &str| parameters.iter().find(|p| p.has(attribute));
    if let (Some(_), Some(second)) = (with("thread_execution_width"), with("threads_per_simdgroup"))
    {
        findings.add(
            RULE,
            second.name,
            "kernel function cannot have input declarations with 'thread_execution_width' and \
             'threads_per_simdgroup' attributes: keep one",
        );
    }
}
