//! A device that does each command on two devices, and tells where they differ.
//!
//! The model runs on the *subject*. Before each command its operands are copied for the
//! *reference*, which does the same command on the copies; afterwards the operands of both are
//! compared. So an error is found at the command that makes it, not where it shows, and does not
//! add up over commands. Commands run one by one, each waited for: what goes wrong only between
//! commands is not seen.

mod command;
mod operands;

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use self::command::ComparingCommands;
use crate::Result;
use crate::device::{
    BufferRef, CommandBuffer, Device, DeviceKind, DeviceLibrary, Executable, Keep, Limits,
    Pipeline, PoolStats,
};
use crate::error::Context;
use crate::graph::GraphKey;

/// Commands of which the record is kept; later ones are compared and only counted.
const MOST_COMMANDS: usize = 1 << 16;

/// Two devices as one.
#[derive(Debug)]
pub struct ComparingDevice {
    inner: Arc<Pair>,
}

/// The devices, and what was found.
#[derive(Debug)]
struct Pair {
    subject: Arc<dyn Device>,
    reference: Arc<dyn Device>,
    record: Mutex<Record>,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Commands that were compared.
    pub count: usize,
    /// Commands of which an operand differs, or that only one device could do.
    pub different: usize,
    /// The commands, in their order; at most as many as are kept.
    pub commands: Vec<Compared>,
}

/// One command on both devices.
#[derive(Debug, Clone)]
pub struct Compared {
    /// What it was: `kernel "add" of mps_lib_0`, `op mm`, `copy`, `fill`.
    pub name: String,
    /// Elements that were compared.
    pub elements: usize,
    /// The largest error of all operands; infinite where one is NaN and the other is not.
    pub largest_error: f64,
    /// Operands that differ by more than rounding.
    pub different: Vec<Different>,
    /// Why only one device could do it.
    pub failure: Option<String>,
}

/// An operand that differs.
#[derive(Debug, Clone)]
pub struct Different {
    /// Which: `buffer(0)`, `operand 1`, `destination`.
    pub operand: String,
    /// Its dtype; bytes, where none is known.
    pub dtype: String,
    /// Elements that were compared.
    pub elements: usize,
    /// How many are beyond the tolerance.
    pub count: usize,
    /// The largest error.
    pub largest_error: f64,
    /// The first that is beyond the tolerance, by its place in memory.
    pub at: usize,
    /// Its value on the subject.
    pub subject: f64,
    /// Its value on the reference.
    pub reference: f64,
}

impl ComparingDevice {
    /// Compares `subject` with `reference`.
    pub fn new(subject: Arc<dyn Device>, reference: Arc<dyn Device>) -> ComparingDevice {
        ComparingDevice { inner: Arc::new(Pair { subject, reference, record: Mutex::default() }) }
    }

    /// What was found so far.
    pub fn record(&self) -> Record {
        self.inner.record.lock().clone()
    }

    /// [`ComparingDevice::record`] with both devices, as JSON. Errors that JSON has no number
    /// for are null.
    pub fn json(&self) -> Value {
        let record = self.record();
        let device = |device: &Arc<dyn Device>| json!({ "kind": device.kind().to_string(), "name": device.name() });
        json!({
            "subject": device(&self.inner.subject),
            "reference": device(&self.inner.reference),
            "commands": record.count,
            "different": record.different,
            "compared": record.commands.iter().map(Compared::json).collect::<Vec<_>>(),
        })
    }
}

impl Compared {
    /// Whether both devices did the same.
    pub fn agrees(&self) -> bool {
        self.different.is_empty() && self.failure.is_none()
    }

    fn json(&self) -> Value {
        json!({
            "command": self.name,
            "elements": self.elements,
            "largest_error": self.largest_error,
            "failure": self.failure,
            "different": self.different.iter().map(Different::json).collect::<Vec<_>>(),
        })
    }
}

impl Different {
    fn json(&self) -> Value {
        json!({
            "operand": self.operand,
            "dtype": self.dtype,
            "elements": self.elements,
            "count": self.count,
            "largest_error": self.largest_error,
            "at": self.at,
            "subject": self.subject,
            "reference": self.reference,
        })
    }
}

impl Pair {
    fn add(&self, compared: Compared) {
        let mut record = self.record.lock();
        record.count += 1;
        record.different += usize::from(!compared.agrees());
        if record.commands.len() < MOST_COMMANDS {
            record.commands.push(compared);
        }
    }
}

/// A library of both devices.
#[derive(Debug)]
struct Library {
    subject: Arc<dyn DeviceLibrary>,
    reference: Arc<dyn DeviceLibrary>,
}

/// A kernel of both devices.
#[derive(Debug)]
struct Kernel {
    subject: Arc<dyn Pipeline>,
    reference: Arc<dyn Pipeline>,
}

/// An op graph of both devices.
#[derive(Debug)]
struct Graph {
    key: GraphKey,
    subject: Arc<dyn Executable>,
    reference: Arc<dyn Executable>,
}

impl Device for ComparingDevice {
    fn kind(&self) -> DeviceKind {
        self.inner.subject.kind()
    }

    fn name(&self) -> String {
        format!("{} against {}", self.inner.subject.name(), self.inner.reference.name())
    }

    fn limits(&self) -> Limits {
        self.inner.subject.limits()
    }

    fn allocate(&self, len: usize) -> Result<BufferRef> {
        self.inner.subject.allocate(len)
    }

    unsafe fn wrap(&self, ptr: *mut u8, len: usize, keep: Option<Keep>) -> Result<BufferRef> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner.subject.wrap(ptr, len, keep) }
    }

    fn compile(&self, source: &str) -> Result<Arc<dyn DeviceLibrary>> {
        let subject = self.inner.subject.compile(source)?;
        let reference = self.inner.reference.compile(source).context(|| "the reference device")?;
        Ok(Arc::new(Library { subject, reference }))
    }

    fn precompile(&self, sources: &[&str]) -> Vec<Result<Arc<dyn DeviceLibrary>>> {
        let subjects = self.inner.subject.precompile(sources);
        let references = self.inner.reference.precompile(sources);
        subjects
            .into_iter()
            .zip(references)
            .map(|(subject, reference)| {
                let (subject, reference) =
                    (subject?, reference.context(|| "the reference device")?);
                Ok(Arc::new(Library { subject, reference }) as Arc<dyn DeviceLibrary>)
            })
            .collect()
    }

    fn lower(&self, key: &GraphKey) -> Result<Arc<dyn Executable>> {
        let subject = self.inner.subject.lower(key)?;
        let reference = self.inner.reference.lower(key).context(|| "the reference device")?;
        Ok(Arc::new(Graph { key: key.clone(), subject, reference }))
    }

    fn command_buffer(&self) -> Result<Box<dyn CommandBuffer>> {
        Ok(Box::new(ComparingCommands::new(self.inner.clone())?))
    }

    fn pool_stats(&self) -> PoolStats {
        self.inner.subject.pool_stats()
    }

    fn trim_pool(&self) {
        self.inner.subject.trim_pool();
        self.inner.reference.trim_pool();
    }
}

impl DeviceLibrary for Library {
    fn function_names(&self) -> Vec<String> {
        self.subject.function_names()
    }

    fn pipeline(&self, name: &str) -> Result<Arc<dyn Pipeline>> {
        let subject = self.subject.pipeline(name)?;
        let reference = self.reference.pipeline(name).context(|| "the reference device")?;
        Ok(Arc::new(Kernel { subject, reference }))
    }
}

impl Pipeline for Kernel {
    fn name(&self) -> &str {
        self.subject.name()
    }
    fn max_threads_per_threadgroup(&self) -> u32 {
        self.subject.max_threads_per_threadgroup()
    }
    fn simd_width(&self) -> u32 {
        self.subject.simd_width()
    }
    fn static_threadgroup_memory(&self) -> u32 {
        self.subject.static_threadgroup_memory()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Executable for Graph {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
