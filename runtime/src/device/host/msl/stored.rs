//! The kernel list of a module as text, for the cache.

use super::LaunchMode;
use super::fission::{Outcome, Shape};
use super::kernels::KernelInfo;
use super::parameters::{Access, Parameter, ParameterKind};

/// One line per kernel and per parameter, with fields separated by tabs.
pub(crate) fn write_kernels(kernels: &[KernelInfo]) -> String {
    let mut text = String::new();
    for kernel in kernels {
        let mode = match kernel.mode {
            LaunchMode::Plain => "plain",
            LaunchMode::Fibers => "fibers",
        };
        let max = kernel.max_total_threads.map_or_else(String::new, |n| n.to_string());
        let line = kernel.line.to_string();
        let (outcome, why) = match &kernel.fission {
            Outcome::Whole => ("whole", ""),
            Outcome::Split(Shape::Rows) => ("rows", ""),
            Outcome::Split(Shape::Columns) => ("columns", ""),
            Outcome::Refused(why) => ("refused", &**why),
        };
        let why = why.replace(['\t', '\n'], " ");
        let fields = ["kernel", &kernel.name, mode, &max, &kernel.function, &line, outcome, &why];
        text.push_str(&fields.join("\t"));
        text.push('\n');
        for parameter in &kernel.parameters {
            text.push_str(&parameter_line(parameter));
            text.push('\n');
        }
    }
    text
}

fn parameter_line(parameter: &Parameter) -> String {
    let name = &parameter.name;
    match &parameter.kind {
        ParameterKind::Buffer { index, access, ty, by_reference, by_reference_size } => {
            let access = if *access == Access::ReadOnly { "r" } else { "rw" };
            let size = by_reference_size.map_or_else(String::new, |n| n.to_string());
            format!("buffer\t{name}\t{index}\t{access}\t{ty}\t{by_reference}\t{size}")
        }
        ParameterKind::Threadgroup { index } => format!("threadgroup\t{name}\t{index}"),
        ParameterKind::Builtin(attribute) => format!("builtin\t{name}\t{attribute}"),
    }
}

/// Reads what [`write_kernels`] wrote; `None` if it is something else.
pub(crate) fn read_kernels(text: &str) -> Option<Vec<KernelInfo>> {
    let mut kernels: Vec<KernelInfo> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["kernel", name, mode, max, function, line, outcome, why] => kernels.push(KernelInfo {
                name: name.to_string(),
                mode: match mode {
                    "plain" => LaunchMode::Plain,
                    "fibers" => LaunchMode::Fibers,
                    _ => return None,
                },
                parameters: Vec::new(),
                max_total_threads: optional(max)?,
                function: function.to_string(),
                line: line.parse().ok()?,
                fission: match outcome {
                    "whole" => Outcome::Whole,
                    "rows" => Outcome::Split(Shape::Rows),
                    "columns" => Outcome::Split(Shape::Columns),
                    "refused" => Outcome::Refused(why.to_owned()),
                    _ => return None,
                },
            }),
            _ => kernels.last_mut()?.parameters.push(read_parameter(&fields)?),
        }
    }
    Some(kernels)
}

fn read_parameter(fields: &[&str]) -> Option<Parameter> {
    let (name, kind) = match *fields {
        ["buffer", name, index, access, ty, by_reference, size] => {
            let access = match access {
                "r" => Access::ReadOnly,
                "rw" => Access::ReadWrite,
                _ => return None,
            };
            let kind = ParameterKind::Buffer {
                index: index.parse().ok()?,
                access,
                ty: ty.to_string(),
                by_reference: by_reference.parse().ok()?,
                by_reference_size: optional(size)?,
            };
            (name, kind)
        }
        ["threadgroup", name, index] => {
            (name, ParameterKind::Threadgroup { index: index.parse().ok()? })
        }
        ["builtin", name, attribute] => (name, ParameterKind::Builtin(attribute.to_string())),
        _ => return None,
    };
    Some(Parameter { name: name.to_string(), kind })
}

/// An empty field is no number.
#[expect(clippy::option_option, reason = "the outer one is the parser's failure")]
fn optional(field: &str) -> Option<Option<u32>> {
    if field.is_empty() { Some(None) } else { field.parse().ok().map(Some) }
}
