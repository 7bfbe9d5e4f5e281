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

#[cfg(test)]
pub(crate) mod testing {
    //! A library of kernels written in Rust, for tests of what stands above the compiler.

    use super::*;
    use crate::device::Pipeline;
    use crate::device::host::testing::both;
    use crate::error::err;

    /// The kernels `add_plain` and `add_groups` of the host's tests: `out[i] += x`.
    #[derive(Debug)]
    struct Adders {
        pipelines: [Arc<dyn Pipeline>; 2],
    }

    impl DeviceLibrary for Adders {
        fn function_names(&self) -> Vec<String> {
            self.pipelines.iter().map(|p| p.name().to_owned()).collect()
        }
        fn pipeline(&self, name: &str) -> Result<Arc<dyn Pipeline>> {
            self.pipelines.iter().find(|p| p.name() == name).cloned().ok_or_else(|| {
                err!(NotFound, "no kernel {name:?}; there are {:?}", self.function_names())
            })
        }
    }

    /// A library of the kernels `add_plain` and `add_groups`.
    pub fn adders(label: &str) -> Library {
        Library(Arc::new(Inner {
            label: label.into(),
            compiled: Arc::new(Adders { pipelines: both() }),
            kernels: Mutex::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::adders;

    #[test]
    fn a_kernel_is_built_once_and_shared_by_threads() {
        let library = adders("mps_lib_0");
        let first = library.kernel("add_plain").unwrap();
        let others: Vec<_> = std::thread::scope(|scope| {
            let ask = || library.kernel("add_plain").unwrap();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(others.iter().all(|kernel| kernel.is(&first)));
        assert!(!library.kernel("add_groups").unwrap().is(&first));
        assert_eq!(library.function_names(), ["add_plain", "add_groups"]);
    }

    #[test]
    fn an_unknown_kernel_is_named_with_its_library() {
        let text = adders("mps_lib_3").kernel("softmax").unwrap_err().to_string();
        for part in ["mps_lib_3", "softmax", "add_plain"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
