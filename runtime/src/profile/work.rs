//! What a command on the device was.

use smallvec::SmallVec;

use crate::tensor::DType;

/// One command.
#[derive(Debug, Clone)]
pub struct Work {
    /// What kind of command.
    pub kind: WorkKind,
    /// The kernel's or the operator's name.
    pub name: String,
    /// The tensors that it uses: of a kernel in the order of its arguments, of an operator
    /// outputs first.
    pub tensors: Vec<TensorUse>,
    /// Bytes that it reads and writes if it touches each element of its tensors once.
    pub bytes: u64,
    /// Floating point operations, a multiplication and an addition counting as two, where they
    /// follow from the shapes.
    pub flops: Option<u64>,
    /// The threads of a kernel.
    pub threads: Option<Threads>,
}

/// What kind of command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// A kernel of a shader library.
    Kernel,
    /// An op graph.
    Op,
    /// A copy of bytes.
    Copy,
    /// A fill of bytes.
    Fill,
}

impl WorkKind {
    /// Its name in a trace.
    pub fn name(self) -> &'static str {
        match self {
            WorkKind::Kernel => "kernel",
            WorkKind::Op => "op",
            WorkKind::Copy => "copy",
            WorkKind::Fill => "fill",
        }
    }
}

/// The threads of a kernel call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    /// Of the whole grid.
    pub grid: [u32; 3],
    /// Of one threadgroup.
    pub group: [u32; 3],
}

/// A tensor that a command uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorUse {
    /// Element type.
    pub dtype: DType,
    /// Sizes, in elements.
    pub sizes: SmallVec<[i64; 6]>,
    /// Bytes of its elements; what a broadcast repeats counts once.
    pub bytes: u64,
}

impl TensorUse {
    /// The use of a tensor with these sizes and strides, in elements.
    pub fn new(dtype: DType, sizes: &[i64], strides: &[i64]) -> TensorUse {
        let elements = sizes
            .iter()
            .zip(strides)
            .map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size })
            .try_fold(1u64, |n, size| n.checked_mul(u64::try_from(size).ok()?));
        let bytes = elements.and_then(|n| n.checked_mul(dtype.size() as u64)).unwrap_or(u64::MAX);
        TensorUse { dtype, sizes: sizes.into(), bytes }
    }
}

impl Work {
    /// A kernel or an operator on `tensors`.
    pub fn on(kind: WorkKind, name: String, tensors: Vec<TensorUse>) -> Work {
        let bytes = tensors.iter().fold(0u64, |sum, tensor| sum.saturating_add(tensor.bytes));
        Work { kind, name, tensors, bytes, flops: None, threads: None }
    }

    /// A copy or a fill that reads and writes `bytes` bytes.
    pub fn on_bytes(kind: WorkKind, bytes: u64) -> Work {
        let name = kind.name().to_owned();
        Work { kind, name, tensors: Vec::new(), bytes, flops: None, threads: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_distinct_elements() {
        let bytes =
            |sizes: &[i64], strides: &[i64]| TensorUse::new(DType::F16, sizes, strides).bytes;
        assert_eq!(bytes(&[3, 4], &[4, 1]), 24);
        assert_eq!(bytes(&[3, 4], &[1, 3]), 24);
        assert_eq!(bytes(&[3, 4], &[0, 1]), 8, "a broadcast row is read once");
        assert_eq!(bytes(&[0, 4], &[0, 1]), 0);
        assert_eq!(bytes(&[], &[]), 2);
        assert_eq!(bytes(&[i64::MAX, i64::MAX], &[1, 1]), u64::MAX, "no overflow");
    }

    #[test]
    fn work_adds_up_its_tensors() {
        let one = TensorUse::new(DType::F32, &[8], &[1]);
        let work = Work::on(WorkKind::Op, "mm".into(), vec![one.clone(), one]);
        assert_eq!((work.bytes, work.flops), (64, None));
        assert_eq!(Work::on_bytes(WorkKind::Copy, 10).name, "copy");
    }
}
