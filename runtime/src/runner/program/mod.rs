//! The contents of a `.pte` file, read without running or even loading any of it.
//!
//! A `.pte` is a flatbuffer (`program.fbs` of ExecuTorch's schema, identifier `ET12`) with an
//! extended header behind its identifier, followed by segments: the blobs of delegates and
//! weights. Everything is bounds-checked; a damaged file is an error.

mod schema;

use std::ops::Range;

use crate::Result;
use crate::error::err;
use crate::runner::signature::{Dynamism, TensorInfo, ValueInfo};

/// Bytes 4 to 8 of a program.
const IDENTIFIER: &[u8] = b"ET12";
/// Bytes 8 to 12 of a program with an extended header.
const EXTENDED_HEADER: &[u8] = b"eh00";

/// A parsed `.pte`, borrowing its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Program<'a> {
    /// The schema's version.
    pub version: u32,
    /// The methods.
    pub methods: Vec<Method<'a>>,
    /// Blobs with names, which delegates ask for.
    pub named_data: Vec<NamedBlob<'a>>,
    /// Where the segments lie in the file.
    pub segments: Vec<Range<usize>>,
    /// The bytes of constants that the runtime itself uses.
    pub constant_bytes: usize,
    /// The size of the flatbuffer, the first part of the file.
    pub flatbuffer_bytes: usize,
    /// The size of the file.
    pub file_bytes: usize,
}

/// One method of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Method<'a> {
    /// Its name.
    pub name: &'a str,
    /// The inputs.
    pub inputs: Vec<ValueInfo>,
    /// The outputs.
    pub outputs: Vec<ValueInfo>,
    /// The operators that the runtime runs itself, as `aten::add.out`.
    pub operators: Vec<String>,
    /// The parts that backends run.
    pub delegates: Vec<Delegate<'a>>,
    /// The memory planned for the method's own tensors, in bytes.
    pub planned_bytes: u64,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// The calls of delegates among the steps, in order.
    pub delegate_calls: Vec<DelegateCall>,
}

/// One call of a delegate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegateCall {
    /// Which, by its index in [`Method::delegates`].
    pub delegate: usize,
    /// Its arguments: inputs, then outputs.
    pub arguments: Vec<CallArgument>,
}

/// What an argument of a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallArgument {
    /// An input of the method.
    Input(usize),
    /// An output of the method.
    Output(usize),
    /// A value in between, or a constant.
    Inner,
}

/// One instruction of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Calls an operator, by its index in [`Method::operators`].
    Operator(usize),
    /// Calls a delegate, by its index in [`Method::delegates`].
    Delegate(usize),
    /// Moves, jumps or frees.
    Other,
}

/// A part of a method that a backend runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegate<'a> {
    /// The backend's name.
    pub backend: &'a str,
    /// What the backend made of the part at export.
    pub payload: &'a [u8],
    /// Options given at export.
    pub compile_specs: Vec<(&'a str, &'a [u8])>,
}

/// A blob with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedBlob<'a> {
    /// The name.
    pub key: &'a str,
    /// Where it starts in the file.
    pub offset: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Program<'a> {
    /// Parses the bytes of a `.pte` file.
    ///
    /// # Errors
    /// The bytes are no program, or are damaged; the text says where.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let header = Header::parse(file)?;
        let flatbuffer = &file[..header.program_size];
        let root = schema::root(flatbuffer).map_err(|e| {
            // The first line says what is wrong, the others trace the way to it.
            let text = e.to_string();
            let what = text.lines().next().unwrap_or_default();
            err!(InvalidProgram, "the program is damaged: {what}")
        })?;
        let segments = tables(root.segments())
            .enumerate()
            .map(|(i, segment)| segment_range(i, segment, &header, file.len()))
            .collect::<Result<Vec<_>>>()?;
        let context = Parts { file, root, segments: &segments };
        Ok(Self {
            version: root.version(),
            methods: tables(root.execution_plan())
                .map(|plan| context.method(plan))
                .collect::<Result<_>>()?,
            named_data: tables(root.named_data())
                .map(|data| context.named_blob(data))
                .collect::<Result<_>>()?,
            constant_bytes: context.constant_bytes()?,
            flatbuffer_bytes: header.program_size,
            file_bytes: file.len(),
            segments,
        })
    }

    /// The method of this name.
    ///
    /// # Errors
    /// There is none; the text names those there are.
    pub fn method(&self, name: &str) -> Result<&Method<'a>> {
        self.methods.iter().find(|m| m.name == name).ok_or_else(|| {
            let names: Vec<_> = self.methods.iter().map(|m| m.name).collect();
            err!(NotFound, "no method \"{name}\"; the program has: {}", names.join(", "))
        })
    }

    /// The blob of this name.
    pub fn blob(&self, key: &str) -> Option<&NamedBlob<'a>> {
        self.named_data.iter().find(|blob| blob.key == key)
    }
}

/// The start of the file (`runtime/executor/../extended_header`): sizes are little-endian.
struct Header {
    /// The size of the flatbuffer.
    program_size: usize,
    /// Where segments start; they are placed relative to it.
    segment_base: Option<usize>,
}

impl Header {
    fn parse(file: &[u8]) -> Result<Self> {
        if file.get(4..8) != Some(IDENTIFIER) {
            return Err(err!(
                InvalidProgram,
                "not an ExecuTorch program: it does not start with the identifier ET12"
            ));
        }
        if file.get(8..12) != Some(EXTENDED_HEADER) {
            return Ok(Self { program_size: file.len(), segment_base: None });
        }
        let cut_off = || err!(InvalidProgram, "the program is cut off in its header");
        let length = le_u32(file, 12).ok_or_else(cut_off)?;
        if length < 24 {
            return Err(err!(
                InvalidProgram,
                "the program's extended header has {length} bytes, of at least 24"
            ));
        }
        let program_size = le_u64(file, 16).ok_or_else(cut_off)?;
        let segment_base = le_u64(file, 24).ok_or_else(cut_off)?;
        // Since version 1.0 the header also tells the size of all segments.
        let segments = if length >= 32 { le_u64(file, 32).ok_or_else(cut_off)? } else { 0 };
        let wanted = match segment_base {
            0 => Some(program_size),
            base => base.checked_add(segments).map(|end| end.max(program_size)),
        };
        if wanted.is_none_or(|wanted| wanted > file.len() as u64) {
            return Err(err!(
                InvalidProgram,
                "the program is cut off: the file has {} bytes of {}",
                file.len(),
                wanted.map_or("far more".into(), |w| w.to_string())
            ));
        }
        // Both are at most the file's size, so they fit.
        Ok(Self {
            program_size: program_size as usize,
            segment_base: (segment_base != 0).then_some(segment_base as usize),
        })
    }
}

fn le_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn le_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn segment_range(
    index: usize,
    segment: schema::DataSegment<'_>,
    header: &Header,
    file_bytes: usize,
) -> Result<Range<usize>> {
    let base = header.segment_base.ok_or_else(|| {
        err!(InvalidProgram, "the program has segments and no extended header to place them")
    })?;
    let start = usize::try_from(segment.offset()).ok().and_then(|o| base.checked_add(o));
    let end = usize::try_from(segment.size()).ok().and_then(|s| start?.checked_add(s));
    match (start, end) {
        (Some(start), Some(end)) if end <= file_bytes => Ok(start..end),
        _ => Err(err!(
            InvalidProgram,
            "segment {index} ({} bytes at {base} + {}) lies beyond the file's {file_bytes} bytes",
            segment.size(),
            segment.offset()
        )),
    }
}

/// The elements of a vector of tables, none if it is absent.
fn tables<'a, T: flatbuffers::Follow<'a> + 'a>(
    vector: Option<schema::Tables<'a, T>>,
) -> impl Iterator<Item = T::Inner> {
    vector.into_iter().flat_map(|vector| vector.iter())
}

/// What the parts of a program refer to by index.
struct Parts<'a, 's> {
    file: &'a [u8],
    root: schema::Program<'a>,
    segments: &'s [Range<usize>],
}

impl<'a> Parts<'a, '_> {
    fn segment(&self, index: u32) -> Result<&'a [u8]> {
        let range = self.segments.get(index as usize).ok_or_else(|| {
            err!(InvalidProgram, "the program refers to segment {index} of {}", self.segments.len())
        })?;
        Ok(&self.file[range.clone()])
    }

    fn constant_bytes(&self) -> Result<usize> {
        match self.root.constant_segment() {
            Some(constants) if constants.offsets().is_some_and(|o| !o.is_empty()) => {
                Ok(self.segment(constants.segment_index())?.len())
            }
            _ => Ok(0),
        }
    }

    fn named_blob(&self, data: schema::NamedData<'a>) -> Result<NamedBlob<'a>> {
        let bytes = self.segment(data.segment_index())?;
        let offset = self.segments[data.segment_index() as usize].start;
        Ok(NamedBlob { key: data.key().unwrap_or_default(), offset, bytes })
    }

    fn method(&self, plan: schema::ExecutionPlan<'a>) -> Result<Method<'a>> {
        let name = plan.name().unwrap_or_default();
        let values = |indices: Option<flatbuffers::Vector<'a, i32>>| {
            indices
                .iter()
                .flat_map(|v| v.iter())
                .map(|i| value_info(plan, i))
                .collect::<Result<Vec<_>>>()
        };
        let planned = plan.non_const_buffer_sizes();
        Ok(Method {
            name,
            inputs: values(plan.inputs())?,
            outputs: values(plan.outputs())?,
            operators: tables(plan.operators()).map(operator_name).collect(),
            delegates: tables(plan.delegates())
                .map(|delegate| self.delegate(delegate))
                .collect::<Result<_>>()?,
            // Entry 0 stands for constants.
            planned_bytes: planned
                .iter()
                .flat_map(|v| v.iter())
                .skip(1)
                .fold(0, |sum, n| sum.saturating_add(n.max(0).unsigned_abs())),
            steps: tables(plan.chains())
                .flat_map(|chain| tables(chain.instructions()))
                .map(step)
                .collect(),
            delegate_calls: tables(plan.chains())
                .flat_map(|chain| tables(chain.instructions()))
                .filter_map(|instruction| delegate_call(plan, instruction))
                .collect(),
        })
    }

    fn delegate(&self, delegate: schema::BackendDelegate<'a>) -> Result<Delegate<'a>> {
        let payload = match delegate.processed() {
            // ExecuTorch reads through it without a look.
            None => return Err(err!(InvalidProgram, "a delegate of the program has no payload")),
            Some(reference) if reference.location() == 0 => self.inline_data(reference.index())?,
            Some(reference) => self.segment(reference.index())?,
        };
        let backend = delegate.id();
        Ok(Delegate {
            backend: backend
                .ok_or_else(|| err!(InvalidProgram, "a delegate of the program has no name"))?,
            payload,
            compile_specs: tables(delegate.compile_specs())
                .map(|spec| {
                    let value = spec.value().map_or(&[][..], |v| v.bytes());
                    (spec.key().unwrap_or_default(), value)
                })
                .collect(),
        })
    }

    fn inline_data(&self, index: u32) -> Result<&'a [u8]> {
        let data = tables(self.root.backend_delegate_data()).nth(index as usize);
        let data = data.ok_or_else(|| {
            err!(InvalidProgram, "the program refers to delegate data {index}, which it lacks")
        })?;
        Ok(data.data().map_or(&[], |v| v.bytes()))
    }
}

fn operator_name(operator: schema::Operator<'_>) -> String {
    let name = operator.name().unwrap_or_default();
    match operator.overload() {
        None | Some("") => name.into(),
        Some(overload) => format!("{name}.{overload}"),
    }
}

fn step(instruction: schema::Instruction<'_>) -> Step {
    let index = |i: i32| usize::try_from(i).ok();
    let operator = instruction.kernel_call().and_then(|c| index(c.op_index()));
    let delegate = instruction.delegate_call().and_then(|c| index(c.delegate_index()));
    match (operator, delegate) {
        (Some(i), _) => Step::Operator(i),
        (_, Some(i)) => Step::Delegate(i),
        _ => Step::Other,
    }
}

fn delegate_call(
    plan: schema::ExecutionPlan<'_>,
    instruction: schema::Instruction<'_>,
) -> Option<DelegateCall> {
    let call = instruction.delegate_call()?;
    let place = |values: Option<flatbuffers::Vector<'_, i32>>, value: i32| {
        values.and_then(|values| values.iter().position(|v| v == value))
    };
    let argument = |value: i32| match (place(plan.inputs(), value), place(plan.outputs(), value)) {
        (Some(input), _) => CallArgument::Input(input),
        (_, Some(output)) => CallArgument::Output(output),
        _ => CallArgument::Inner,
    };
    Some(DelegateCall {
        delegate: usize::try_from(call.delegate_index()).ok()?,
        arguments: call.args().iter().flat_map(|v| v.iter()).map(argument).collect(),
    })
}

fn value_info(plan: schema::ExecutionPlan<'_>, index: i32) -> Result<ValueInfo> {
    let values = plan.values();
    let count = values.map_or(0, |v| v.len());
    let place = usize::try_from(index).ok().filter(|&i| i < count);
    let (Some(values), Some(place)) = (values, place) else {
        return Err(err!(InvalidProgram, "the program refers to value {index} of {count}"));
    };
    let value = values.get(place);
    Ok(match value.kind() {
        0 | 1 => ValueInfo::None,
        2 => ValueInfo::Int(value.int().map(|v| v.int_val())),
        3 => ValueInfo::Bool(value.boolean().map(|v| v.bool_val() != 0)),
        4 => ValueInfo::Double(value.double().map(|v| v.double_val())),
        5 => match value.tensor() {
            Some(tensor) => ValueInfo::Tensor(tensor_info(tensor)?),
            None => ValueInfo::None,
        },
        _ => ValueInfo::Other,
    })
}

fn tensor_info(tensor: schema::Tensor<'_>) -> Result<TensorInfo> {
    let sizes: Vec<i32> = tensor.sizes().map_or(vec![], |v| v.iter().collect());
    let sizes = sizes
        .iter()
        .map(|&s| usize::try_from(s))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| err!(InvalidProgram, "a tensor of the program has sizes {sizes:?}"))?;
    let dim_order: Vec<u8> = match tensor.dim_order() {
        Some(order) => order.bytes().to_vec(),
        None => (0..sizes.len()).map(|d| d as u8).collect(),
    };
    let mut sorted: Vec<usize> = dim_order.iter().map(|&d| usize::from(d)).collect();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..sizes.len()) {
        return Err(err!(
            InvalidProgram,
            "a tensor of the program has sizes {sizes:?} and dim order {dim_order:?}"
        ));
    }
    Ok(TensorInfo {
        dtype_code: i32::from(tensor.scalar_type()),
        sizes,
        dim_order,
        dynamism: match tensor.shape_dynamism() {
            1 => Dynamism::Bounded,
            2 => Dynamism::Unbounded,
            _ => Dynamism::Static,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tensor::DType;

    const MLP: &[u8] = include_bytes!("../../../../tests/fixtures/mlp/model.pte");

    #[test]
    fn a_real_program_is_read_whole() {
        let program = Program::parse(MLP).unwrap();
        assert_eq!(program.methods.len(), 1);
        let method = program.method("forward").unwrap();
        let tensor = |sizes: &[usize]| {
            ValueInfo::Tensor(TensorInfo {
                dtype_code: DType::F32.code(),
                sizes: sizes.to_vec(),
                dim_order: vec![0, 1],
                dynamism: Dynamism::Static,
            })
        };
        assert_eq!(method.inputs, [tensor(&[2, 8])]);
        assert_eq!(method.outputs, [tensor(&[2, 4])]);
        assert!(method.operators.is_empty());
        assert_eq!(method.steps, [Step::Delegate(0)]);
        let arguments = vec![CallArgument::Input(0), CallArgument::Output(0)];
        assert_eq!(method.delegate_calls, [DelegateCall { delegate: 0, arguments }]);
        assert_eq!(method.delegates[0].backend, "MetalBackend");

        let payload = std::str::from_utf8(method.delegates[0].payload).unwrap();
        let (library, weights) = payload.split_once('\n').unwrap();
        assert!(program.blob(library).unwrap().bytes.starts_with(b"\x7fELF"));
        let weights = program.blob(weights).unwrap();
        assert_eq!(weights.bytes.len(), 832);
        assert_eq!(&MLP[weights.offset..][..832], weights.bytes);
    }

    #[test]
    fn a_missing_method_names_those_there_are() {
        let message = Program::parse(MLP).unwrap().method("encode").unwrap_err().to_string();
        assert_eq!(message, "no method \"encode\"; the program has: forward");
    }

    #[test]
    fn files_cut_off_anywhere_are_refused() {
        // The last segment may be followed by padding, which nobody needs.
        let end = Program::parse(MLP).unwrap().segments.iter().map(|s| s.end).max().unwrap();
        for length in (0..end).step_by(997).chain(0..200) {
            assert!(Program::parse(&MLP[..length]).is_err(), "{length} bytes");
        }
        let message = Program::parse(&MLP[..5000]).unwrap_err().to_string();
        assert!(message.contains("cut off") && message.contains("5000"), "{message}");
    }

    #[test]
    fn other_files_are_told_apart() {
        for other in [&b""[..], b"PK\x03\x04", b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00"] {
            let message = Program::parse(other).unwrap_err().to_string();
            assert!(message.contains("ET12"), "{message}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut program = bytes;
            if program.len() >= 8 {
                program[4..8].copy_from_slice(IDENTIFIER);
            }
            let _ = Program::parse(&program);
        }

        #[test]
        fn changed_bytes_never_panic(
            changes in proptest::collection::vec((0usize..4096, any::<u8>()), 1..8)
        ) {
            // The flatbuffer and the start of the first segment.
            let flatbuffer = Program::parse(MLP).unwrap().flatbuffer_bytes;
            let mut bytes = MLP.to_vec();
            for (place, value) in changes {
                bytes[place % (flatbuffer + 16)] = value;
            }
            if let Ok(program) = Program::parse(&bytes) {
                for method in &program.methods {
                    let _ = (format!("{method:?}"), program.blob("x"));
                }
            }
        }
    }
}
