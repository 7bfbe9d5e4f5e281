//! The entry of one kernel: a call of its function with each parameter bound.

use super::LaunchMode;
use super::fission::Fission;
use super::kernels::KernelInfo;
use super::parameters::ParameterKind;

/// The file name of the entry in the compiler's messages.
pub(crate) const ENTRY_NAME: &str = "entry";

/// `sin` and `cos` of several numbers at once: too long for shaders that have neither.
pub(crate) const VECTOR_MATH: &str = include_str!("include/vector_math.h");

/// The translation unit behind our headers: the rewritten shader and the entry.
///
/// All functions of the shader get internal linkage, so that clang compiles only what the kernel
/// uses. With `fission` it is the loops of the kernel, which leave to fibers what they are not for.
pub(crate) fn translation_unit(
    shader: &str,
    kernel: &KernelInfo,
    fission: Option<&Fission>,
) -> String {
    let bindings: String =
        kernel.parameters.iter().map(|p| format!(", {}", binding(&p.kind))).collect();
    let entry = |name: &str| format!("{name}(&{}{bindings})\n", kernel.function);
    let entry = match (kernel.mode, fission) {
        (LaunchMode::Plain, _) => entry("MSL_PLAIN_ENTRY"),
        (LaunchMode::Fibers, None) => entry("MSL_FIBERS_ENTRY"),
        (LaunchMode::Fibers, Some(fission)) => fission.code.clone(),
    };
    let angles = ["sin", "cos"].iter().any(|name| shader.contains(name));
    let vector_math = if angles { VECTOR_MATH } else { "" };
    format!(
        "#pragma clang attribute push(__attribute__((internal_linkage)), apply_to = function)\n\
         {shader}\n\
         #pragma clang attribute pop\n\
         #line 1 \"{ENTRY_NAME}\"\n\
         {vector_math}\
         {entry}"
    )
}

fn binding(kind: &ParameterKind) -> String {
    match kind {
        ParameterKind::Buffer { index, .. } => format!("msl::Buffer<{index}>"),
        ParameterKind::Threadgroup { index } => format!("msl::ThreadgroupBuffer<{index}>"),
        ParameterKind::Builtin(name) => format!("msl::builtin::{name}"),
    }
}
