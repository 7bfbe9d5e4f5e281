//! The contents of a program, as they are printed. The JSON of `--json` has the same names.

use etmetal::Error;
use etmetal::container::describe::{LibraryInfo, describe};
use etmetal::container::payload::{Blob, NamedData, Payload};
use etmetal::runner::program::{Delegate, Method, NamedBlob, Step};
use etmetal::runner::{Program, ValueInfo};
use serde::Serialize;

use super::libraries::Provided;
use super::shaders::{self, ShaderContents};

/// The delegate that this project is.
const BACKEND: &str = "MetalBackend";

/// A program.
#[derive(Serialize)]
pub struct Contents<'a> {
    pub file: String,
    pub bytes: usize,
    pub schema_version: u32,
    pub flatbuffer_bytes: usize,
    pub constant_bytes: usize,
    pub blobs: Vec<BlobContents<'a>>,
    pub methods: Vec<MethodContents<'a>>,
}

/// A blob with a name.
#[derive(Serialize)]
pub struct BlobContents<'a> {
    pub key: &'a str,
    pub offset: usize,
    pub bytes: usize,
    /// The largest power of two that its place in the file is a multiple of.
    pub alignment: usize,
}

/// A method.
#[derive(Serialize)]
pub struct MethodContents<'a> {
    pub name: &'a str,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub planned_bytes: u64,
    /// The operators that ExecuTorch runs itself.
    pub operators: &'a [String],
    /// What is done, in order: the name of an operator, or `delegate N`.
    pub steps: Vec<String>,
    pub delegates: Vec<DelegateContents<'a>>,
}

/// A part of a method that a backend runs.
#[derive(Serialize)]
pub struct DelegateContents<'a> {
    pub backend: &'a str,
    pub payload_bytes: usize,
    pub compile_specs: Vec<SpecContents<'a>>,
    /// What is in it, if it is for this delegate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelContents<'a>>,
    /// Why there is no more to tell, or what keeps it from being loaded.
    pub problems: Vec<String>,
}

/// An option given at export.
#[derive(Serialize)]
pub struct SpecContents<'a> {
    pub key: &'a str,
    /// As text where it is text.
    pub value: String,
}

/// A model for this delegate.
#[derive(Serialize)]
pub struct ModelContents<'a> {
    pub library: HashedBlob<'a>,
    /// Absent if there are none.
    pub weights: Option<HashedBlob<'a>>,
    /// `x86-64 ELF`.
    pub target: String,
    /// Whether the library is for machines like this one.
    pub native: bool,
    pub libraries: Vec<LibraryContents<'a>>,
    pub symbols: Vec<SymbolContents<'a>>,
    pub shaders: Vec<ShaderContents<'a>>,
}

/// A blob whose key tells its hash.
#[derive(Serialize)]
pub struct HashedBlob<'a> {
    #[serde(flatten)]
    pub blob: BlobContents<'a>,
    /// `ok`, `wrong`, or `not in its key` for programs of older exporters.
    pub sha256: &'static str,
}

/// A library that a model names.
#[derive(Serialize)]
pub struct LibraryContents<'a> {
    pub name: &'a str,
    /// Absent if that cannot be told here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<bool>,
}

/// A symbol that a model needs.
#[derive(Serialize)]
pub struct SymbolContents<'a> {
    pub name: &'a str,
    /// Whether the model works without it.
    pub weak: bool,
    /// Absent if that cannot be told here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provided: Option<bool>,
}

impl<'a> Contents<'a> {
    /// Everything in a program. With `compile`, kernels are compiled where only that tells how
    /// they run.
    pub fn of(program: &'a Program<'a>, file: &str, compile: bool) -> Self {
        Self {
            file: file.into(),
            bytes: program.file_bytes,
            schema_version: program.version,
            flatbuffer_bytes: program.flatbuffer_bytes,
            constant_bytes: program.constant_bytes,
            blobs: program.named_data.iter().map(BlobContents::of).collect(),
            methods: program
                .methods
                .iter()
                .map(|m| MethodContents::of(m, program, compile))
                .collect(),
        }
    }

    /// Whether a delegate has a problem.
    pub fn has_problems(&self) -> bool {
        self.methods.iter().flat_map(|m| &m.delegates).any(|d| !d.problems.is_empty())
    }
}

impl<'a> BlobContents<'a> {
    fn of(blob: &NamedBlob<'a>) -> Self {
        Self {
            key: blob.key,
            offset: blob.offset,
            bytes: blob.bytes.len(),
            alignment: 1 << blob.offset.trailing_zeros().min(30),
        }
    }
}

impl<'a> MethodContents<'a> {
    fn of(method: &'a Method<'a>, program: &'a Program<'a>, compile: bool) -> Self {
        let texts = |values: &[ValueInfo]| values.iter().map(ToString::to_string).collect();
        Self {
            name: method.name,
            inputs: texts(&method.inputs),
            outputs: texts(&method.outputs),
            planned_bytes: method.planned_bytes,
            operators: &method.operators,
            steps: method.steps.iter().map(|&step| step_text(step, method)).collect(),
            delegates: method
                .delegates
                .iter()
                .map(|d| DelegateContents::of(d, method.name, program, compile))
                .collect(),
        }
    }
}

fn step_text(step: Step, method: &Method<'_>) -> String {
    match step {
        Step::Operator(i) => {
            method.operators.get(i).cloned().unwrap_or_else(|| format!("operator {i}"))
        }
        Step::Delegate(i) => format!("delegate {i}"),
        Step::Other => "move, jump or free".into(),
    }
}

impl<'a> DelegateContents<'a> {
    fn of(
        delegate: &'a Delegate<'a>,
        method: &str,
        program: &'a Program<'a>,
        compile: bool,
    ) -> Self {
        let mut contents = Self {
            backend: delegate.backend,
            payload_bytes: delegate.payload.len(),
            compile_specs: delegate
                .compile_specs
                .iter()
                .map(|&(key, value)| SpecContents { key, value: spec_text(value) })
                .collect(),
            model: None,
            problems: Vec::new(),
        };
        if delegate.backend == BACKEND {
            match ModelContents::of(delegate, method, program, &mut contents.problems) {
                Ok(mut model) => {
                    if compile {
                        shaders::compile(&mut model.shaders);
                    }
                    contents.model = Some(model);
                }
                Err(error) => contents.problems.push(error.to_string()),
            }
        }
        contents
    }
}

fn spec_text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains(char::is_control) => text.into(),
        _ => format!("{} bytes", value.len()),
    }
}

/// The blobs of a program, for [`Payload`].
struct Blobs<'a>(&'a Program<'a>);

impl NamedData for Blobs<'_> {
    fn get(&self, key: &str) -> etmetal::Result<Blob> {
        let blob = self
            .0
            .blob(key)
            .ok_or_else(|| Error::NotFound("the program has no blob of this name".into()))?;
        // SAFETY: the file stays mapped, and `Payload` uses the blob only while it checks it.
        Ok(unsafe { Blob::borrow(blob.bytes.as_ptr().cast(), blob.bytes.len(), None) })
    }
}

impl<'a> ModelContents<'a> {
    fn of(
        delegate: &Delegate<'_>,
        method: &str,
        program: &'a Program<'a>,
        problems: &mut Vec<String>,
    ) -> etmetal::Result<Self> {
        let payload = Payload::parse(delegate.payload, method)?;
        let data = Blobs(program);
        let mut is_intact = |checked: etmetal::Result<Blob>| {
            let problem = checked.err().map(|e| e.to_string());
            let intact = problem.is_none();
            problems.extend(problem);
            intact
        };
        let library_is_intact = is_intact(payload.library(&data));
        let weights_are_intact = is_intact(payload.weights(&data));
        let Some(library) = program.blob(&payload.library_key) else {
            return Err(Error::NotFound("without a library there is no more to tell".into()));
        };
        let info = describe(library.bytes)?;
        let provided = Provided::of(&info);
        let symbols = symbols(&info, &provided);
        problems.extend(missing(&symbols));
        Ok(Self {
            library: HashedBlob::of(library, library_is_intact),
            weights: program
                .blob(&payload.weights_key)
                .map(|weights| HashedBlob::of(weights, weights_are_intact)),
            target: format!("{} {}", info.architecture, info.format),
            native: info.native,
            libraries: info
                .libraries
                .iter()
                .map(|&name| LibraryContents { name, found: provided.library(name) })
                .collect(),
            symbols,
            shaders: info
                .sources
                .iter()
                .enumerate()
                .map(|(i, &source)| ShaderContents::of(i, source))
                .collect(),
        })
    }
}

impl<'a> HashedBlob<'a> {
    fn of(blob: &NamedBlob<'a>, intact: bool) -> Self {
        let has_hash = blob.key.get(..64).is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        let sha256 = match (has_hash, intact) {
            (false, _) => "not in its key",
            (true, true) => "ok",
            (true, false) => "wrong",
        };
        Self { blob: BlobContents::of(blob), sha256 }
    }
}

fn symbols<'a>(info: &LibraryInfo<'a>, provided: &Provided) -> Vec<SymbolContents<'a>> {
    let mut symbols: Vec<_> = info
        .symbols
        .iter()
        .map(|symbol| SymbolContents {
            name: symbol.name,
            weak: symbol.weak,
            provided: provided.symbol(symbol.name),
        })
        .collect();
    symbols.sort_unstable_by_key(|symbol| symbol.name);
    symbols
}

/// The text about symbols that are needed and that nobody has.
fn missing(symbols: &[SymbolContents<'_>]) -> Option<String> {
    let names: Vec<&str> =
        symbols.iter().filter(|s| s.provided == Some(false) && !s.weak).map(|s| s.name).collect();
    (!names.is_empty()).then(|| format!("nothing here provides: {}", names.join(", ")))
}
