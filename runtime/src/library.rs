//! Shader libraries: MSL source, compiled, and its kernels.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Result;
use crate::device::{Device, DeviceLibrary};
use crate::error::Context as _;
use crate::kernel::Kernel;

/// A compiled shader library. Cloning shares it; usable from any thread.
#[derive(Debug, Clone)]
pub struct Library(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// What messages call it.
    label: Arc<str>,
    compiled: Arc<dyn DeviceLibrary>,
    /// Kernels that were asked for, by name.
    kernels: Mutex<HashMap<String, Kernel>>,
}

impl Library {
    /// Compiles `source` on `device`. `label` names the library in messages, as in
    /// `mps_lib_3`.
    ///
    /// # Errors
    /// [`Error::ShaderCompile`](crate::Error::ShaderCompile) with the compiler's messages.
    pub fn compile(device: &Arc<dyn Device>, label: &str, source: &str) -> Result<Self> {
        let compiled = device.compile(source).context(|| format!("shader library \"{label}\""))?;
        Ok(Library::of(label, compiled))
    }

    /// The library that a device has compiled; see [`Device::precompile`].
    pub fn of(label: &str, compiled: Arc<dyn DeviceLibrary>) -> Self {
        Library(Arc::new(Inner {
            label: label.into(),
            compiled,
            kernels: Mutex::new(HashMap::new()),
        }))
    }

    /// What messages call it.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// Names of its kernels, in source order.
    pub fn function_names(&self) -> Vec<String> {
        self.0.compiled.function_names()
    }

    /// The named kernel. Its pipeline is built on first use and kept.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound), listing the names there are;
    /// [`Error::ShaderCompile`](crate::Error::ShaderCompile) where pipelines compile late.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        if let Some(kernel) = self.0.kernels.lock().get(name) {
            return Ok(kernel.clone());
        }
        // Built without the lock: it may take seconds, and other kernels must not wait for it.
        let pipeline = self
            .0
            .compiled
            .pipeline(name)
            .context(|| format!("shader library \"{}\"", self.0.label))?;
        let kernel = Kernel::new(pipeline, self.0.label.clone());
        Ok(self.0.kernels.lock().entry(name.to_string()).or_insert(kernel).clone())
    }
}
