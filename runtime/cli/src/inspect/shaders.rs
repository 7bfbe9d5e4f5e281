//! The Metal sources of a model and the kernels in them.

use std::sync::{Arc, OnceLock};

use etmetal::Result;
use etmetal::device::host::msl::{
    Access, Flavor, KernelInfo, LaunchMode, Module, Outcome, Parameter, ParameterKind, Shape,
    Toolchain, compile_all,
};
use serde::Serialize;

/// A Metal source.
#[derive(Serialize)]
pub struct ShaderContents<'a> {
    /// As AOTInductor numbers them.
    pub name: String,
    pub lines: usize,
    pub kernels: Vec<KernelContents>,
    /// Why its kernels cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(skip)]
    pub source: &'a str,
    /// Its analysis.
    #[serde(skip)]
    module: Option<Module>,
}

/// A kernel.
#[derive(Serialize)]
pub struct KernelContents {
    pub name: String,
    /// Whether the threads of a threadgroup wait for each other.
    pub synchronises: bool,
    /// How the host device runs it: `plain`, `fission row`, `fission column` or `fibers`.
    pub mode: &'static str,
    /// Why it runs on fibers, or not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads_per_threadgroup: Option<u32>,
    pub parameters: Vec<ParameterContents>,
}

/// A parameter of a kernel.
#[derive(Serialize)]
pub struct ParameterContents {
    pub name: String,
    /// `buffer`, `threadgroup`, or the attribute of what the grid gives:
    /// `thread_position_in_grid`.
    pub kind: String,
    /// Of a buffer or threadgroup memory: its place in the argument table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Of a buffer: the type of an element.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub element: Option<String>,
    /// Of a buffer: whether the kernel may write to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writable: Option<bool>,
}

impl<'a> ShaderContents<'a> {
    /// Source number `index` of a model.
    pub fn of(index: usize, source: &'a str) -> Self {
        let (module, problem) = match parse(source) {
            Ok(module) => (Some(module), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let kernels = module.iter().flat_map(Module::kernels).map(KernelContents::of).collect();
        Self {
            name: format!("mps_lib_{index}"),
            lines: source.lines().count(),
            kernels,
            problem,
            source,
            module,
        }
    }
}

/// Analyses a source; needs a compiler, which resolves its macros. Nothing is compiled.
fn parse(source: &str) -> Result<Module> {
    static TOOLCHAIN: OnceLock<Result<Arc<Toolchain>>> = OnceLock::new();
    let toolchain = TOOLCHAIN.get_or_init(|| Toolchain::find(Flavor::Loops)).clone()?;
    Module::parse(source, &toolchain)
}

/// Compiles the kernels that could run as loops, and notes those that then do not.
pub fn compile(shaders: &mut [ShaderContents<'_>]) {
    let (mut jobs, mut kernels) = (Vec::new(), Vec::new());
    for shader in shaders {
        let Some(module) = &shader.module else { continue };
        for (info, kernel) in module.kernels().iter().zip(&mut shader.kernels) {
            if matches!(info.fission, Outcome::Split(_)) {
                jobs.push((module, info.name.as_str()));
                kernels.push(kernel);
            }
        }
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for (kernel, result) in kernels.into_iter().zip(compile_all(&jobs, threads)) {
        match result {
            Ok(native) => {
                if let Some(why) = native.fallback {
                    kernel.mode = "fibers";
                    kernel.why = Some(format!("its loops do not compile: {}", in_one_line(&why)));
                }
            }
            Err(error) => {
                kernel.why = Some(format!("does not compile: {}", in_one_line(&error.to_string())));
            }
        }
    }
}

fn in_one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

impl KernelContents {
    fn of(kernel: &KernelInfo) -> Self {
        let (mode, why) = match &kernel.fission {
            Outcome::Whole => ("plain", None),
            Outcome::Split(Shape::Rows) => ("fission row", None),
            Outcome::Split(Shape::Columns) => ("fission column", None),
            Outcome::Refused(why) => ("fibers", Some(why.clone())),
        };
        Self {
            name: kernel.name.clone(),
            synchronises: kernel.mode == LaunchMode::Fibers,
            mode,
            why,
            max_threads_per_threadgroup: kernel.max_total_threads,
            parameters: kernel.parameters.iter().map(ParameterContents::of).collect(),
        }
    }
}

impl ParameterContents {
    fn of(parameter: &Parameter) -> Self {
        let mut contents = Self {
            name: parameter.name.clone(),
            kind: String::new(),
            index: None,
            element: None,
            writable: None,
        };
        match &parameter.kind {
            ParameterKind::Buffer { index, access, ty, .. } => {
                contents.kind = "buffer".into();
                contents.index = Some(*index);
                contents.element = Some(ty.clone());
                contents.writable = Some(*access == Access::ReadWrite);
            }
            ParameterKind::Threadgroup { index } => {
                contents.kind = "threadgroup".into();
                contents.index = Some(*index);
            }
            ParameterKind::Builtin(attribute) => contents.kind.clone_from(attribute),
        }
        contents
    }

    /// As in `buffer 0  out  float, written`.
    pub fn text(&self) -> String {
        let mut text = self.kind.clone();
        if let Some(index) = self.index {
            text += &format!(" {index}");
        }
        text += &format!("  {}", self.name);
        if let Some(element) = &self.element {
            text += &format!("  {element}");
        }
        if self.writable == Some(true) {
            text += ", written";
        }
        text
    }
}
