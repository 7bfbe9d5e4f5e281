//! Shader libraries: compiled from source, with the arithmetic that exported models expect.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use objc2::available;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use objc2_metal::{
    MTLCompileOptions, MTLDevice, MTLLanguageVersion, MTLLibrary, MTLMathFloatingPointFunctions,
    MTLMathMode,
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::archive::Archive;
use super::errors::{guarded, text};
use super::owned::Owned;
use super::pipeline::MetalPipeline;
use crate::Result;
use crate::device::host::cache::Cache;
use crate::device::host::parallel::parallel_map;
use crate::device::{DeviceLibrary, Pipeline};
use crate::error::err;

/// Libraries kept for models that bring the same source later. Those in use stay anyhow.
const MOST_LIBRARIES: NonZeroUsize = NonZeroUsize::new(512).unwrap();

/// A source with more kernels than this is a collection of templates of which a model uses a
/// few; its pipelines are not made ahead.
const FEW_KERNELS: usize = 8;

/// The compiler of one device, and the libraries that it compiled.
#[derive(Debug)]
pub struct Libraries {
    device: Owned<ProtocolObject<dyn MTLDevice>>,
    /// Where archives are kept, if anywhere.
    folder: Option<PathBuf>,
    libraries: Cache<Arc<MetalLibrary>>,
}

impl Libraries {
    /// No libraries yet.
    pub fn new(device: Owned<ProtocolObject<dyn MTLDevice>>, folder: Option<PathBuf>) -> Libraries {
        Libraries { device, folder, libraries: Cache::new(MOST_LIBRARIES) }
    }

    /// The library of `source`, compiled if nobody has asked for it yet.
    ///
    /// # Errors
    /// Metal's compiler refuses it, with its messages.
    pub fn get(&self, source: &str) -> Result<Arc<MetalLibrary>> {
        self.libraries.get(Sha256::digest(source).into(), || {
            MetalLibrary::compile(&self.device, self.folder.as_deref(), source).map(Arc::new)
        })
    }

    /// The libraries of many sources, compiled at the same time and with their pipelines; for
    /// each source the library or the first error.
    pub fn precompile(&self, sources: &[&str]) -> Vec<Result<Arc<MetalLibrary>>> {
        parallel_map(sources, |source| {
            let library = self.get(source)?;
            if library.names.len() <= FEW_KERNELS {
                for name in &library.names {
                    library.find(name)?;
                }
                library.save();
            }
            Ok(library)
        })
    }
}

/// One compiled source.
#[derive(Debug)]
pub struct MetalLibrary {
    device: Owned<ProtocolObject<dyn MTLDevice>>,
    raw: Owned<ProtocolObject<dyn MTLLibrary>>,
    /// Names of its kernels, in the order of the source.
    names: Vec<String>,
    /// Its compiled pipelines on disk, opened with the first.
    archive: OnceLock<Option<Archive>>,
    place: Option<(PathBuf, String)>,
    pipelines: Mutex<HashMap<String, Arc<MetalPipeline>>>,
}

impl MetalLibrary {
    fn compile(
        device: &Owned<ProtocolObject<dyn MTLDevice>>,
        folder: Option<&std::path::Path>,
        source: &str,
    ) -> Result<MetalLibrary> {
        guarded("compiling a shader library", || {
            let raw = device
                .newLibraryWithSource_options_error(
                    &NSString::from_str(source),
                    Some(&compile_options()),
                )
                .map_err(|error| err!(ShaderCompile, "{}", text(&error)))?;
            let mut names: Vec<String> =
                raw.functionNames().to_vec().iter().map(|name| name.to_string()).collect();
            sort_by_source(&mut names, source);
            Ok(MetalLibrary {
                device: device.clone(),
                raw: raw.into(),
                names,
                archive: OnceLock::new(),
                place: folder.map(|folder| (folder.to_owned(), source.to_owned())),
                pipelines: Mutex::default(),
            })
        })
    }

    /// The pipeline of the named kernel, made if nobody has asked for it yet.
    fn find(&self, name: &str) -> Result<Arc<MetalPipeline>> {
        if let Some(pipeline) = self.pipelines.lock().get(name) {
            return Ok(pipeline.clone());
        }
        if !self.names.iter().any(|n| n == name) {
            return Err(err!(
                NotFound,
                "the shader library has no kernel {name:?}; it has {}",
                self.names.join(", ")
            ));
        }
        // Made without the lock: other kernels must not wait for it. Of two threads that both
        // did it one result is kept.
        let made = guarded(&format!("kernel {name:?}"), || {
            let function =
                self.raw.newFunctionWithName(&NSString::from_str(name)).ok_or_else(|| {
                    err!(ShaderCompile, "Metal does not give it; it may want function constants")
                })?;
            MetalPipeline::new(&self.device, &function, name, self.archive())
        })?;
        Ok(self.pipelines.lock().entry(name.to_owned()).or_insert(Arc::new(made)).clone())
    }

    fn archive(&self) -> Option<&Archive> {
        let open = || {
            let (folder, source) = self.place.as_ref()?;
            Archive::open(&self.device, folder, source)
        };
        self.archive.get_or_init(open).as_ref()
    }

    /// Writes pipelines that were made since to disk.
    fn save(&self) {
        if let Some(Some(archive)) = self.archive.get() {
            archive.save();
        }
    }
}

impl DeviceLibrary for MetalLibrary {
    fn function_names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn pipeline(&self, name: &str) -> Result<Arc<dyn Pipeline>> {
        let pipeline = self.find(name)?;
        self.save();
        Ok(pipeline)
    }
}

/// The language and arithmetic that exported models are written for, and that PyTorch compiles
/// them with: MSL 3.1, no fast mathematics.
fn compile_options() -> Retained<MTLCompileOptions> {
    let options = MTLCompileOptions::new();
    options.setLanguageVersion(MTLLanguageVersion::Version3_1);
    if available!(macos = 15.0, ios = 18.0, tvos = 18.0, visionos = 2.0) {
        options.setMathMode(MTLMathMode::Safe);
        options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    } else {
        #[expect(deprecated, reason = "what older systems have")]
        options.setFastMathEnabled(false);
    }
    options
}

/// Sorts names by where the source has them; Metal gives them in no order.
fn sort_by_source(names: &mut [String], source: &str) {
    let place = |name: &str| {
        source.match_indices(name).map(|(at, _)| at).find(|&at| {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let before = source[..at].chars().next_back();
            let after = source[at + name.len()..].chars().next();
            !before.is_some_and(word) && !after.is_some_and(word)
        })
    };
    names.sort_by_cached_key(|name| (place(name).unwrap_or(usize::MAX), name.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_the_order_of_the_source() {
        let source =
            "kernel void bb(); kernel void b(); [[host_name(\"a\")]] kernel void t<int>();";
        let mut names = ["a", "b", "bb", "unknown"].map(str::to_owned);
        sort_by_source(&mut names, source);
        assert_eq!(names, ["bb", "b", "a", "unknown"]);
    }
}
