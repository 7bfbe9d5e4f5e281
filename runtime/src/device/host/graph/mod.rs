//! Op graphs on the host: each operator is lowered to code that runs on the thread pool.

mod copy;
mod matmul;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::threads::Threads;
use crate::Result;
use crate::device::{Executable, Operand};
use crate::error::err;
use crate::graph::{GraphKey, GraphOp};

/// What an op graph is lowered to.
pub trait HostExecutable: Send + Sync + fmt::Debug {
    /// Computes the output, operand 0, from the others. The operands match the key that was
    /// lowered in number, dtypes and sizes, and lie inside their buffers; strides are theirs.
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
    pub fn new(key: GraphKey, code: impl HostExecutable + 'static) -> Arc<dyn Executable> {
        Arc::new(Lowered { key, code: Box::new(code) })
    }

    /// The host's executable behind `executable`.
    pub(super) fn of(executable: &Arc<dyn Executable>) -> Result<&Lowered> {
        executable.as_any().downcast_ref().ok_or_else(|| {
            err!(InvalidArgument, "the executable {executable:?} was built by another device")
        })
    }

    /// Whether the operands are those of the key and lie inside their buffers.
    pub(super) fn check(&self, operands: &[Operand]) -> Result<()> {
        let GraphKey { op, operands: keys } = &self.key;
        if operands.len() != keys.len() {
            return Err(err!(
                InvalidArgument,
                "{op:?} takes {} operands, not {}",
                keys.len(),
                operands.len()
            ));
        }
        for (index, (operand, key)) in operands.iter().zip(keys).enumerate() {
            if operand.dtype != key.dtype || operand.sizes != key.sizes {
                return Err(err!(
                    InvalidArgument,
                    "operand {index} of {op:?} is {} {:?}, but the graph was built for {} {:?}",
                    operand.dtype,
                    operand.sizes,
                    key.dtype,
                    key.sizes
                ));
            }
            if end(operand).is_none_or(|end| end > operand.buffer.len()) {
                return Err(err!(
                    InvalidArgument,
                    "operand {index} of {op:?}: {} of sizes {:?}, strides {:?} at byte {} leaves \
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

    pub(super) fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        self.code.run(operands, threads)
    }
}

impl Executable for Lowered {
    fn as_any(&self) -> &dyn Any {
        self
    }
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
