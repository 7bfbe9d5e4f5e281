//! Op graphs on the host: each operator is lowered to code that runs on the thread pool.

mod attention;
mod convolution;
mod copy;
mod cumulative;
mod floats;
mod gated_delta_rule;
mod matmul;
mod quantized;
mod rows;
mod sort;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::threads::{Threads, panicked};
use crate::Result;
use crate::device::{Executable, Operand};
use crate::error::{Context, err};
use crate::graph::{GraphKey, GraphOp};

/// What an op graph is lowered to.
pub trait HostExecutable: Send + Sync + fmt::Debug {
    /// Computes the outputs, which are the first operands, from the others, and updates those
    /// that the op says it updates. The operands match the key that was lowered in number, dtypes
    /// and sizes, and lie inside their buffers; strides are theirs.
    ///
    /// # Errors
    /// What the computation needs cannot be had.
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()>;
}

/// Builds the executable of `key`: one of [`Lowered`].
///
/// # Errors
/// [`Error::Unsupported`](crate::Error::Unsupported), naming the op and its dtypes.
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    match key.op {
        GraphOp::Mm | GraphOp::Bmm | GraphOp::Addmm { .. } => matmul::lower(key),
        GraphOp::Copy => copy::lower(key),
        GraphOp::Attention { .. } => attention::lower(key),
        GraphOp::Convolution { .. } => convolution::lower(key),
        GraphOp::TopK { .. } | GraphOp::Sort { .. } => sort::lower(key),
        GraphOp::Cumulative { .. } => cumulative::lower(key),
        GraphOp::LinearNbit { .. } | GraphOp::GatherQmv { .. } => quantized::lower(key),
        GraphOp::GatedDeltaRule => gated_delta_rule::lower(key),
    }
}

/// The host's [`Executable`]: a [`HostExecutable`] and the key that it was built for.
#[derive(Debug)]
pub struct Lowered {
    key: GraphKey,
    code: Box<dyn HostExecutable>,
}

impl Lowered {
    /// `code`, which computes what `key` says.
    #[expect(clippy::new_ret_no_self, reason = "nobody wants it but as the trait object")]
    pub fn new(key: GraphKey, code: impl HostExecutable + 'static) -> Arc<dyn Executable> {
        Arc::new(Lowered { key, code: Box::new(code) })
    }

    /// The host's executable behind `executable`.
    pub(super) fn of(executable: &Arc<dyn Executable>) -> Result<&Lowered> {
        executable.as_any().downcast_ref().ok_or_else(|| {
            err!(InvalidArgument, "the executable {executable:?} was built by another device")
        })
    }

    /// See [`check_operands`].
    pub(super) fn check(&self, operands: &[Operand]) -> Result<()> {
        check_operands(&self.key, operands)
    }

    /// Runs the code; a panic in it is an error like any other.
    pub(super) fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let run = AssertUnwindSafe(|| self.code.run(operands, threads));
        catch_unwind(run)
            .unwrap_or_else(|panic| Err(panicked(&*panic)))
            .context(|| self.key.op.name())
    }
}

impl Executable for Lowered {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Whether the operands are those of a key and lie inside their buffers.
///
/// # Errors
/// The first that is not.
pub(crate) fn check_operands(key: &GraphKey, operands: &[Operand]) -> Result<()> {
    let GraphKey { op, operands: keys } = key;
    if operands.len() != keys.len() {
        return Err(err!(
            InvalidArgument,
            "{op} takes {} operands, not {}",
            keys.len(),
            operands.len()
        ));
    }
    for (index, (operand, key)) in operands.iter().zip(keys).enumerate() {
        if operand.dtype != key.dtype || operand.sizes != key.sizes {
            return Err(err!(
                InvalidArgument,
                "operand {index} of {op} is {} {:?}, but the graph was built for {} {:?}",
                operand.dtype,
                operand.sizes,
                key.dtype,
                key.sizes
            ));
        }
        if end(operand).is_none_or(|end| end > operand.buffer.len()) {
            return Err(err!(
                InvalidArgument,
                "operand {index} of {op}: {} of sizes {:?}, strides {:?} at byte {} leaves \
                 a buffer of {} bytes",
                operand.dtype,
                operand.sizes,
                operand.strides,
                operand.offset,
                operand.buffer.len()
            ));
        }
    }
    Ok(())
}

/// Byte offset one past the last element in the buffer; `None` if no address can be.
fn end(operand: &Operand) -> Option<usize> {
    let Operand { sizes, strides, .. } = operand;
    if sizes.len() != strides.len() || sizes.iter().chain(strides).any(|&v| v < 0) {
        return None;
    }
    if sizes.contains(&0) {
        return Some(0);
    }
    let last = sizes.iter().zip(strides).try_fold(0i64, |last, (size, stride)| {
        last.checked_add((size - 1).checked_mul(*stride)?)
    })?;
    let elements = usize::try_from(last).ok()?.checked_add(1)?;
    elements.checked_mul(operand.dtype.size())?.checked_add(operand.offset)
}

#[cfg(test)]
mod tests {
    use super::super::{HostDevice, Options};
    use super::*;
    use crate::device::Device;
    use crate::graph::{GraphOp, OperandKey, StrideClass};
    use crate::tensor::DType;
    use smallvec::smallvec;

    /// Adds 1 to the first element of its operand; or panics.
    #[derive(Debug)]
    struct Increment {
        panics: bool,
    }

    impl HostExecutable for Increment {
        fn run(&self, operands: &[Operand], _: &Threads) -> Result<()> {
            assert!(!self.panics, "as told");
            let Operand { buffer, offset, .. } = &operands[0];
            // SAFETY: checked against the key, which asks for elements of 4 bytes.
            unsafe { *buffer.contents().add(*offset).cast::<i32>() += 1 };
            Ok(())
        }
    }

    fn key() -> GraphKey {
        let operand = OperandKey {
            dtype: DType::I32,
            sizes: smallvec![2, 3],
            strides: StrideClass::Contiguous,
        };
        GraphKey { op: GraphOp::Mm, operands: smallvec![operand] }
    }

    fn operand(device: &HostDevice) -> Operand {
        let buffer = device.allocate(32).unwrap();
        // SAFETY: the new buffer's own bytes.
        unsafe { buffer.contents().write_bytes(0, 32) };
        let (sizes, strides) = (smallvec![2, 3], smallvec![3, 1]);
        Operand { buffer, offset: 8, dtype: DType::I32, sizes, strides }
    }

    #[test]
    fn executables_run_in_order_with_other_commands() {
        let device =
            HostDevice::new(Options { threads: 1, pool_bytes: 0, checked: false, fission: true });
        let operand = operand(&device);
        let executable = Lowered::new(key(), Increment { panics: false });
        let mut commands = device.command_buffer().unwrap();
        commands.fill((&operand.buffer, 8), 4, 1).unwrap();
        commands.run(&executable, std::slice::from_ref(&operand)).unwrap();
        commands.run(&executable, std::slice::from_ref(&operand)).unwrap();
        commands.commit().unwrap().wait().unwrap();
        // SAFETY: written above; no work is under way.
        let value = unsafe { *operand.buffer.contents().add(8).cast::<i32>() };
        assert_eq!(value, 0x0101_0103);
    }

    #[test]
    fn a_failure_stops_the_commands_and_is_told_by_wait() {
        let device =
            HostDevice::new(Options { threads: 1, pool_bytes: 0, checked: false, fission: true });
        let operand = operand(&device);
        let mut commands = device.command_buffer().unwrap();
        let bad = Lowered::new(key(), Increment { panics: true });
        commands.run(&bad, std::slice::from_ref(&operand)).unwrap();
        commands.fill((&operand.buffer, 0), 32, 1).unwrap();
        let mut submission = commands.commit().unwrap();
        for _ in 0..2 {
            let error = submission.wait().unwrap_err().to_string();
            assert!(error.contains("as told") && error.contains("mm:"), "{error}");
        }
        // SAFETY: written when it was made; no work is under way.
        assert_eq!(unsafe { *operand.buffer.contents() }, 0, "the fill did not run");
    }

    #[test]
    fn operands_must_match_the_key_and_their_buffers() {
        let device =
            HostDevice::new(Options { threads: 1, pool_bytes: 0, checked: false, fission: true });
        let good = operand(&device);
        let executable = Lowered::new(key(), Increment { panics: false });
        let mut commands = device.command_buffer().unwrap();
        let other = |change: fn(&mut Operand)| {
            let mut operand = good.clone();
            change(&mut operand);
            vec![operand]
        };
        for (operands, text) in [
            (vec![], "takes 1 operands, not 0"),
            (other(|o| o.dtype = DType::F32), "is float32"),
            (other(|o| o.sizes = smallvec![3, 2]), "built for int32 [2, 3]"),
            (other(|o| o.offset = 12), "leaves a buffer of 32 bytes"),
            (other(|o| o.strides = smallvec![1 << 62, 1]), "leaves a buffer"),
            (other(|o| o.strides = smallvec![-1, 1]), "leaves a buffer"),
            (other(|o| o.strides = smallvec![1]), "leaves a buffer"),
        ] {
            let error = commands.run(&executable, &operands).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        assert_eq!(commands.command_count(), 0);
        assert_eq!(end(&Operand { sizes: smallvec![0, 5], offset: 99, ..good }), Some(0));
    }
}
