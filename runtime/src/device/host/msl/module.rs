//! One shader source, from text to loaded kernels.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use super::LaunchMode;
use super::cache;
use super::compile;
use super::diagnostics;
use super::fission::{Fission, Outcome, split};
use super::kernels::{KernelInfo, analyse};
use super::lex::lex;
use super::native::{Code, Fibers, Native};
use super::places::{self, Place};
use super::rewrite::{Rewritten, rewrite};
use super::stored;
use super::strict;
use super::toolchain::{Flavor, Toolchain};
use crate::Result;
use crate::error::err;
use crate::profile::{self, Category};

/// One MSL source, checked and analysed. Its kernels compile one by one, when asked for. Clones are
/// the same module.
#[derive(Debug, Clone)]
pub struct Module(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    source: String,
    toolchain: Arc<Toolchain>,
    /// Key of this source in the cache.
    key: String,
    kernels: Vec<KernelInfo>,
    /// The C++ text; made when a kernel has to be compiled, since a warm cache needs none.
    translated: OnceLock<Result<Translated>>,
}

impl Module {
    /// Reads a source: preprocesses it, checks it, finds its kernels. What was read before is
    /// taken from the cache without running the compiler.
    ///
    /// # Errors
    /// [`Error::ShaderCompile`](crate::Error::ShaderCompile) with MSL lines and their text.
    pub fn parse(source: &str, toolchain: &Arc<Toolchain>) -> Result<Module> {
        let key = cache::key(&[toolchain.identity(), source.as_bytes()]);
        let name = format!("{key}.kernels");
        let stored = toolchain.cache().read_text(&name).and_then(|t| stored::read_kernels(&t));
        let translated = OnceLock::new();
        let mut kernels = match stored {
            Some(kernels) => kernels,
            None => {
                let (kernels, text) = translate(source, toolchain)?;
                toolchain.cache().write_text(&name, &stored::write_kernels(&kernels));
                _ = translated.set(Ok(text));
                kernels
            }
        };
        if toolchain.checked() {
            // Only on a fiber does a thread know which it is.
            for kernel in &mut kernels {
                kernel.mode = LaunchMode::Fibers;
                kernel.fission = Outcome::Refused("the checked mode".to_owned());
            }
        }
        let toolchain = toolchain.clone();
        let source = source.to_string();
        Ok(Module(Arc::new(Parsed { source, toolchain, key, kernels, translated })))
    }

    /// Its kernels, in source order.
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.0.kernels
    }

    /// Compiles and loads one kernel, from the cache if it was compiled before.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound), listing the names there are;
    /// [`Error::ShaderCompile`](crate::Error::ShaderCompile) with MSL lines.
    pub fn compile(&self, kernel: &str) -> Result<Native> {
        let Some(info) = self.kernels().iter().find(|k| k.name == kernel) else {
            let names: Vec<_> = self.kernels().iter().map(|k| k.name.as_str()).collect();
            return Err(err!(
                NotFound,
                "the shader has no kernel {kernel:?}; it has: {}",
                if names.is_empty() { "none".to_string() } else { names.join(", ") }
            ));
        };
        let mut native = self.0.compile(info, true)?;
        if let Code::Loops(_, fibers) = &mut native.code {
            *fibers = Some(Fibers::new(self.clone(), kernel));
        }
        Ok(native)
    }

    /// The same for fibers alone.
    pub(super) fn compile_for_fibers(&self, kernel: &str) -> Result<Native> {
        let info = self.kernels().iter().find(|k| k.name == kernel);
        let lost = || err!(Internal, "the kernel {kernel:?} is no longer in its shader");
        self.0.compile(info.ok_or_else(lost)?, false)
    }

    /// Where an instruction of one of its kernels stands in the source, with the text of that
    /// line; `address` is the one behind it, in bytes from the start of the kernel's library.
    /// `None` if it is not of the shader, or was not compiled for the checked mode.
    pub fn place(&self, native: &Native, address: u32) -> Option<(Place, &str)> {
        self.0.place(native, address)
    }
}

impl Parsed {
    /// Compiles and loads a kernel; with `loops` as such, if it can be.
    fn compile(&self, info: &KernelInfo, loops: bool) -> Result<Native> {
        let mut span = profile::span(Category::Compile, "load a cached kernel");
        let cache = self.toolchain.cache();
        let form: &[u8] = if loops { b"" } else { b"fibers" };
        let key = cache::key(&[self.key.as_bytes(), info.name.as_bytes(), form]);
        let name = format!("{key}.kernel");
        let load = |path: &Path, fallback: &str| self.load(path, info.mode, fallback);
        if let Some(text) = cache.read_text(&name) {
            let (digest, fallback) = text.split_once('\n').unwrap_or((&text, ""));
            let known = cache.library(&key, digest);
            if let Some(native) = known.and_then(|path| load(&path, fallback).ok()) {
                return Ok(native);
            }
        }
        span.rename("compile a kernel");
        let scratch = cache.scratch()?;
        let made = scratch.path().join("kernel.so");
        let fallback = self.compile_into(info, loops, &made)?.unwrap_or_default();
        match cache.keep_library(&key, &made) {
            Some((path, digest)) => {
                let native = load(&path, &fallback)?;
                cache.write_text(&name, &format!("{digest}\n{fallback}"));
                Ok(native)
            }
            // The file may go once it is loaded.
            None => load(&made, &fallback),
        }
    }

    /// Compiles a kernel into a library: as loops if it is to be and can be, else for fibers. What
    /// the compiler has against its loops, if that is why.
    fn compile_into(
        &self,
        info: &KernelInfo,
        loops: bool,
        target: &Path,
    ) -> Result<Option<String>> {
        let translated = self.translated()?;
        let compile = |fission| {
            let shader = &translated.shader;
            compile::compile(&self.source, shader, fission, info, &self.toolchain, target)
        };
        let index = self.kernels.iter().position(|k| k.name == info.name).filter(|_| loops);
        let fission = index.and_then(|i| translated.fissions.get(i)?.as_ref());
        // A type that does not go with loops is left to fibers; so is a shader with errors, whose
        // messages then speak of nothing but the shader.
        let why = match fission.map(|fission| compile(Some(fission))) {
            Some(Ok(())) => return Ok(None),
            Some(Err(why)) => Some(why.to_string()),
            None => None,
        };
        compile(None).map(|()| why)
    }

    fn load(&self, path: &Path, mode: LaunchMode, fallback: &str) -> Result<Native> {
        let mut native = compile::load(path, mode)?;
        native.fallback = (!fallback.is_empty()).then(|| fallback.to_owned());
        if self.toolchain.checked() {
            let unreadable = |e| err!(System, "cannot read {}: {e}", path.display());
            native.file = Some(std::fs::read(path).map_err(unreadable)?);
        }
        Ok(native)
    }

    fn place(&self, native: &Native, address: u32) -> Option<(Place, &str)> {
        let mut place = places::find(native.file.as_ref()?, address)?;
        place.column = match self.translated() {
            Ok(made) if place.column > 0 => made.shader.source_column(place.line, place.column),
            _ => 0,
        };
        let text = self.source.lines().nth(place.line as usize - 1)?;
        Some((place, text.trim()))
    }

    fn translated(&self) -> Result<&Translated> {
        let made = self
            .translated
            .get_or_init(|| translate(&self.source, &self.toolchain).map(|(_, made)| made));
        made.as_ref().map_err(Clone::clone)
    }
}

/// A source as C++.
#[derive(Debug)]
struct Translated {
    shader: Rewritten,
    /// For each kernel its loops, if it runs as such.
    fissions: Vec<Option<Fission>>,
}

/// Preprocesses, checks and rewrites a source.
fn translate(source: &str, toolchain: &Toolchain) -> Result<(Vec<KernelInfo>, Translated)> {
    let text = compile::preprocess(source, toolchain)?;
    let tokens = lex(&text).map_err(|d| diagnostics::error(source, &[d]))?;
    strict::check(&tokens).map_err(|list| diagnostics::error(source, &list))?;
    let analysis = analyse(&tokens).map_err(|list| diagnostics::error(source, &list))?;
    let left_out = strict::twins(&tokens);
    let shader = rewrite(&text, &tokens, &analysis, left_out, toolchain.checked());
    let mut kernels = analysis.kernels;
    let fissions = kernels.iter_mut().map(|k| fission(&shader.text, k, toolchain)).collect();
    Ok((kernels, Translated { shader, fissions }))
}

/// The loops of a kernel that synchronises, if it runs as such; what became of it is noted there.
fn fission(shader: &str, kernel: &mut KernelInfo, toolchain: &Toolchain) -> Option<Fission> {
    if kernel.mode == LaunchMode::Plain {
        return None;
    }
    if toolchain.flavor() != Flavor::Loops {
        kernel.fission = Outcome::Refused("fission is switched off".to_owned());
        return None;
    }
    match split(shader, kernel) {
        Ok(fission) => {
            kernel.fission = Outcome::Split(fission.shape);
            Some(fission)
        }
        Err(why) => {
            kernel.fission = Outcome::Refused(why.to_string());
            None
        }
    }
}

/// Compiles several kernels at once, on at most `threads` threads; results in the order of the
/// jobs.
pub fn compile_all(jobs: &[(&Module, &str)], threads: usize) -> Vec<Result<Native>> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Native>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some((module, kernel)) = jobs.get(i) else { return };
            let result = module.compile(kernel);
            if let Ok(mut slot) = results[i].lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let lost = || err!(Internal, "a kernel's compilation was lost");
    results
        .into_iter()
        .map(|slot| slot.into_inner().ok().flatten().unwrap_or_else(|| Err(lost())))
        .collect()
}
