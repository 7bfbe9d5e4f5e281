//! Pipelines: one native kernel and what its source declares.

use std::any::Any;
use std::fmt;

use super::LIMITS;
use super::checked::Checks;
use super::cost::Cost;
use super::msl::{self, KernelInfo, LaunchMode, Native};
use crate::device::Pipeline;

/// One kernel of the host device.
pub struct HostPipeline {
    pub(super) name: String,
    pub(super) code: Native,
    pub(super) mode: LaunchMode,
    /// Buffer parameters, by ascending index.
    pub(super) buffers: Vec<Parameter>,
    /// Threadgroup memory parameters, by ascending index.
    pub(super) threadgroups: Vec<Parameter>,
    pub(super) max_threads: u32,
    pub(super) static_memory: u32,
    pub(super) cost: Cost,
    /// What the checked mode needs; `None` without it.
    pub(super) checks: Option<Checks>,
}

/// A parameter that a dispatch must bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The index that the source gives it.
    pub index: u32,
    /// Its name in the source.
    pub name: String,
    /// What the offset of its buffer must be a multiple of: the alignment of its type.
    pub alignment: usize,
    /// Bytes that the kernel reads whatever its grid: the size of a reference. 0 for a pointer.
    pub bytes: usize,
}

impl Parameter {
    fn buffer(parameter: &msl::Parameter) -> Option<Parameter> {
        let msl::ParameterKind::Buffer { index, ty, by_reference_size, .. } = &parameter.kind
        else {
            return None;
        };
        Some(Parameter {
            index: *index,
            name: parameter.name.clone(),
            alignment: alignment(ty).unwrap_or(1),
            bytes: by_reference_size.map_or(0, |n| n as usize),
        })
    }

    fn threadgroup(parameter: &msl::Parameter) -> Option<Parameter> {
        let msl::ParameterKind::Threadgroup { index } = parameter.kind else {
            return None;
        };
        Some(Parameter { index, name: parameter.name.clone(), alignment: 1, bytes: 0 })
    }
}

/// Alignment in bytes of one of MSL's own types (MSL specification, sections 2.1 to 2.3); `None`
/// for types of the program.
fn alignment(ty: &str) -> Option<usize> {
    let name = ty.rsplit("::").next()?.trim();
    let name = name.strip_prefix("atomic_").unwrap_or(name);
    let (name, packed) = match name.strip_prefix("packed_") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (scalar, lanes) = match name.char_indices().next_back()? {
        (at, '2') => (&name[..at], 2),
        (at, '3' | '4') => (&name[..at], 4),
        _ => (name, 1),
    };
    let size = match scalar {
        "bool" | "char" | "uchar" | "int8_t" | "uint8_t" => 1,
        "short" | "ushort" | "int16_t" | "uint16_t" | "half" | "bfloat" => 2,
        "int" | "uint" | "int32_t" | "uint32_t" | "float" => 4,
        "long" | "ulong" | "int64_t" | "uint64_t" | "size_t" => 8,
        _ => return None,
    };
    Some(if packed { size } else { size * lanes })
}

impl HostPipeline {
    /// The pipeline of a compiled kernel.
    pub(super) fn new(info: &KernelInfo, code: Native, checks: Option<Checks>) -> HostPipeline {
        let indexed = |of: fn(&msl::Parameter) -> Option<Parameter>| {
            let mut parameters: Vec<_> = info.parameters.iter().filter_map(of).collect();
            parameters.sort_by_key(|p| p.index);
            parameters
        };
        let most = LIMITS.max_threads_per_threadgroup;
        let max_threads = info.max_total_threads.map_or(most, |n| n.min(most));
        HostPipeline {
            name: info.name.clone(),
            mode: info.mode,
            buffers: indexed(Parameter::buffer),
            threadgroups: indexed(Parameter::threadgroup),
            max_threads,
            static_memory: code.static_threadgroup_memory,
            cost: Cost::guess(info.mode, code.loops().then_some(max_threads)),
            checks,
            code,
        }
    }
}

impl HostPipeline {
    /// Buffer parameters, by ascending index.
    pub fn buffer_parameters(&self) -> &[Parameter] {
        &self.buffers
    }

    /// Threadgroup memory parameters, by ascending index.
    pub fn threadgroup_parameters(&self) -> &[Parameter] {
        &self.threadgroups
    }
}

impl fmt::Debug for HostPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostPipeline({:?}, {:?})", self.name, self.mode)
    }
}

impl Pipeline for HostPipeline {
    fn name(&self) -> &str {
        &self.name
    }
    fn max_threads_per_threadgroup(&self) -> u32 {
        self.max_threads
    }
    fn simd_width(&self) -> u32 {
        LIMITS.simd_width
    }
    fn static_threadgroup_memory(&self) -> u32 {
        self.static_memory
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_alignment_that_msl_gives_them() {
        for (ty, expected) in [
            ("float", Some(4)),
            ("metal::half", Some(2)),
            ("uchar", Some(1)),
            ("uint8_t", Some(1)),
            ("long", Some(8)),
            ("float2", Some(8)),
            ("float3", Some(16)),
            ("ulong4", Some(32)),
            ("packed_float3", Some(4)),
            ("atomic_uint", Some(4)),
            ("bfloat", Some(2)),
            ("T", None),
            ("Params", None),
            ("", None),
            ("vec<float, 4>", None),
        ] {
            assert_eq!(alignment(ty), expected, "{ty:?}");
        }
    }

    #[test]
    fn parameters_are_sorted_by_kind_and_index() {
        let buffer = |index, ty: &str, by_reference_size: Option<u32>| msl::ParameterKind::Buffer {
            index,
            access: msl::Access::ReadOnly,
            ty: ty.to_owned(),
            by_reference: by_reference_size.is_some(),
            by_reference_size,
        };
        let kinds = [
            ("size", buffer(3, "long", Some(8))),
            ("out", buffer(0, "float", None)),
            ("at", msl::ParameterKind::Builtin("thread_position_in_grid".to_owned())),
            ("tile", msl::ParameterKind::Threadgroup { index: 1 }),
        ];
        let parameters = kinds.map(|(name, kind)| msl::Parameter { name: name.to_owned(), kind });
        let buffers: Vec<_> = parameters.iter().filter_map(Parameter::buffer).collect();
        let describe = |p: &Parameter| (p.index, p.name.clone(), p.alignment, p.bytes);
        assert_eq!(describe(&buffers[0]), (3, "size".to_owned(), 8, 8));
        assert_eq!(describe(&buffers[1]), (0, "out".to_owned(), 4, 0));
        let threadgroups: Vec<_> = parameters.iter().filter_map(Parameter::threadgroup).collect();
        assert_eq!((buffers.len(), threadgroups.len()), (2, 1));
        assert_eq!(describe(&threadgroups[0]), (1, "tile".to_owned(), 1, 0));
    }
}
