//! The parameters of a kernel, and what each is bound to.

use std::collections::HashSet;
use std::ops::Range;

use super::diagnostics::Diagnostic;
use super::lex::{Token, attribute_end, integer, join, split};

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

impl Parameter {
    /// Whether it is a reference to something that does not change.
    pub(crate) fn is_constant_reference(&self) -> bool {
        matches!(
            self.kind,
            ParameterKind::Buffer { by_reference: true, access: Access::ReadOnly, .. }
        )
    }

    /// Its buffer index, if it is a buffer that the kernel may write to.
    pub fn writable_buffer(&self) -> Option<u32> {
        match self.kind {
            ParameterKind::Buffer { index, access: Access::ReadWrite, .. } => Some(index),
            _ => None,
        }
    }
}

/// What is known of a parameter before indices are given out.
struct RawParameter<'t, 's> {
    first: &'t Token<'s>,
    name: String,
    attribute: Option<(&'t Token<'s>, Option<u32>)>,
    /// Tokens without attributes.
    words: Vec<Token<'s>>,
}

/// Reads a parameter list.
///
/// # Errors
/// A parameter is bound to nothing that a compute kernel can have here.
pub(crate) fn parameters(
    tokens: &[Token<'_>],
    range: Range<usize>,
) -> Result<Vec<Parameter>, Diagnostic> {
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
