//! One call of a method: what is needed before anything is loaded.

use etmetal::error::Context;
use etmetal::runner::{Method, Program, Runtime, Value, check_inputs};
use etmetal::{Error, Result};

use crate::inputs::{self, Files, Input};

/// Limits the threads of the host device.
const THREADS_VARIABLE: &str = "ETMETAL_THREADS";

/// A method and its inputs.
pub struct Call {
    /// The method's name.
    pub method: String,
    /// Its inputs.
    pub inputs: Vec<Input>,
    /// How many outputs it has.
    pub output_count: usize,
}

impl Call {
    /// Chooses the method and reads its inputs, which are checked against it before anything is
    /// loaded.
    ///
    /// # Errors
    /// The program or an input cannot be read, there is no such method, or an input does not fit.
    pub fn prepare(files: &Files, method: Option<&str>, seed: u64) -> Result<Call> {
        let bytes = inputs::map(&files.model)?;
        let model = || files.model.display();
        let program = Program::parse(&bytes).context(model)?;
        let method = choose_method(&program, method).context(model)?;
        let inputs = inputs::read(&files.inputs, &method.inputs, seed)?;
        let output_count = method.outputs.len();
        let call = Call { method: method.name.to_owned(), inputs, output_count };
        check_inputs(&call.values(), &method.inputs).context(model)?;
        Ok(call)
    }

    /// Whether any of the inputs is a tensor.
    pub fn takes_tensors(&self) -> bool {
        self.inputs.iter().any(|input| matches!(input.value, Value::Tensor(_)))
    }

    /// The inputs' values.
    pub fn values(&self) -> Vec<Value> {
        self.inputs.iter().map(|input| input.value.clone()).collect()
    }
}

fn choose_method<'p>(program: &'p Program<'_>, name: Option<&str>) -> Result<&'p Method<'p>> {
    match (name, program.methods.as_slice()) {
        (Some(name), _) => program.method(name),
        (None, [only]) => Ok(only),
        (None, _) => program.method("forward").context(|| "choose one with --method"),
    }
}

/// Makes the host device use so many threads. Called before the runtime is opened.
pub fn limit_threads(threads: Option<u32>) {
    if let Some(threads) = threads {
        // SAFETY: this program has no other thread yet.
        unsafe { std::env::set_var(THREADS_VARIABLE, threads.to_string()) };
    }
}

/// The runtime, with the delegate registered.
///
/// # Errors
/// There is no library, or ExecuTorch does not take the delegate.
pub fn open_runtime() -> Result<Runtime> {
    let runtime = Runtime::open()?;
    match runtime.registration_error() {
        None => Ok(runtime),
        Some(text) => Err(Error::Unsupported(text)),
    }
}
