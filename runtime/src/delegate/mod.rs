//! ExecuTorch's backend interface: init, execute, destroy.

mod arguments;
mod copy;
pub mod ffi;
pub mod stats;

use crate::Result;
use crate::container::{Container, ModelSource};
use crate::error::Context;
use ffi::{EtmetalResize, EtmetalTensor};
use stats::{Timer, Transfer};

/// One delegate of a program: a loaded model and the method it belongs to.
#[derive(Debug)]
pub struct Delegate {
    method: String,
    container: Container,
}

impl Delegate {
    /// Loads the delegate's model.
    ///
    /// # Errors
    /// As for [`Container::load`]; the message names the method.
    pub fn init(source: &ModelSource<'_>) -> Result<Self> {
        let timer = Timer::start();
        let loaded = Container::load(source);
        stats::count_init(source.method, &timer, loaded.as_ref().ok());
        let container = loaded.context(|| format!("method {:?}", source.method))?;
        Ok(Delegate { method: source.method.to_owned(), container })
    }

    /// Runs the model: the arguments are inputs, then outputs. Inputs are used where they lie,
    /// results are copied into the outputs, which are resized to them.
    ///
    /// # Errors
    /// An argument does not fit, or the model or the device fails; the message names the method
    /// and the argument.
    pub fn execute(
        &self,
        arguments: &[EtmetalTensor],
        resize: Option<EtmetalResize>,
    ) -> Result<()> {
        let timer = Timer::start();
        let moved = self.run(arguments, resize);
        stats::count_execute(&self.method, &timer, moved.as_ref().ok().copied());
        moved.map(drop).context(|| format!("method {:?}", self.method))
    }

    fn run(&self, arguments: &[EtmetalTensor], resize: Option<EtmetalResize>) -> Result<Transfer> {
        let container = &self.container;
        let (inputs, outputs) =
            arguments::split(arguments, container.num_inputs(), container.num_outputs())?;
        let mut moved = Transfer::default();
        let tensors: Result<Vec<_>> = inputs
            .iter()
            .enumerate()
            .map(|(index, input)| {
                input.input(container.device(), &mut moved).context(|| format!("input {index}"))
            })
            .collect();
        container.run(tensors?, |results| {
            for (index, (output, result)) in outputs.iter().zip(results).enumerate() {
                output.store(result, resize, &mut moved).context(|| format!("output {index}"))?;
            }
            Ok(())
        })?;
        Ok(moved)
    }
}
