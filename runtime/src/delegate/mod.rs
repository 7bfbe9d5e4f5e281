//! ExecuTorch's backend interface: init, execute, destroy.

mod arguments;
mod copy;
pub mod ffi;
pub mod profile_json;
pub mod stats;
pub mod tracking;

use crate::Result;
use crate::container::{Container, ModelSource};
use crate::error::Context;
use crate::graph;
use crate::ops::own_kernels::Route;
use crate::profile::{self, Category};
use crate::stream;
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
        check_environment()?;
        let timer = Timer::start();
        let span = profile::span_named(Category::Load, || format!("load {}", source.method));
        let loaded = Container::load(source);
        drop(span);
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
        let span = profile::span_named(Category::Run, || format!("execute {}", self.method));
        let moved = self.run(arguments, resize);
        drop(span);
        stats::count_execute(&self.method, &timer, moved.as_ref().ok().copied());
        moved.map(drop).context(|| format!("method {:?}", self.method))
    }

    fn run(&self, arguments: &[EtmetalTensor], resize: Option<EtmetalResize>) -> Result<Transfer> {
        let container = &self.container;
        let (inputs, outputs) =
            arguments::split(arguments, container.num_inputs(), container.num_outputs())?;
        let mut moved = Transfer::default();
        let mut span = profile::span(Category::Copy, "take inputs");
        let tensors: Result<Vec<_>> = inputs
            .iter()
            .enumerate()
            .map(|(index, input)| {
                input.input(container.device(), &mut moved).context(|| format!("input {index}"))
            })
            .collect();
        span.number("bytes_wrapped", moved.inputs_wrapped as u64);
        span.number("bytes_copied", moved.inputs_copied as u64);
        drop(span);
        container.run(tensors?, |results| {
            let mut span = profile::span(Category::Copy, "copy outputs");
            for (index, (output, result)) in outputs.iter().zip(results).enumerate() {
                output.store(result, resize, &mut moved).context(|| format!("output {index}"))?;
            }
            span.number("bytes_copied", moved.outputs_copied as u64);
            Ok(())
        })?;
        Ok(moved)
    }
}

/// Checks the variables that are read only when something needs them, so that a wrong one is told
/// once, and before anything was done.
fn check_environment() -> Result<()> {
    stream::flush_interval_of_environment()?;
    graph::capacity_of_environment()?;
    Route::of_environment().map(drop)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;
    use crate::container::fixture::{MODEL_KEYS, model_data};
    use crate::device::default_device;

    /// A tensor as ExecuTorch has it.
    struct EtTensor {
        data: Vec<f32>,
        sizes: Vec<i32>,
        strides: Vec<i32>,
        dtype: i32,
    }

    impl EtTensor {
        fn new(data: &[f32]) -> Box<Self> {
            let sizes = vec![data.len() as i32];
            Box::new(EtTensor { data: data.to_vec(), sizes, strides: vec![1], dtype: 6 })
        }

        fn describe(&mut self) -> EtmetalTensor {
            EtmetalTensor {
                data: self.data.as_mut_ptr().cast(),
                nbytes: self.data.len() * 4,
                sizes: self.sizes.as_ptr(),
                strides: self.strides.as_ptr(),
                dim: self.sizes.len(),
                dtype: self.dtype,
                tensor: std::ptr::from_mut(self).cast(),
            }
        }
    }

    /// Resizes within the memory that the tensor has, as ExecuTorch does.
    unsafe extern "C" fn resize(
        tensor: *mut c_void,
        sizes: *const i32,
        dim: usize,
        data: *mut *mut c_void,
    ) -> u32 {
        // SAFETY: the tests pass their own tensors, with one dimension.
        let (tensor, size) = unsafe { (&mut *tensor.cast::<EtTensor>(), *sizes) };
        if dim != 1 || size as usize > tensor.data.len() {
            return 0x10;
        }
        tensor.sizes[0] = size;
        // SAFETY: a place for the result.
        unsafe { *data = tensor.data.as_mut_ptr().cast() };
        0
    }

    fn delegate() -> Delegate {
        Delegate::init(&ModelSource {
            payload: MODEL_KEYS,
            data: &model_data(""),
            method: "forward",
            device: default_device().unwrap(),
        })
        .unwrap()
    }

    #[test]
    fn outputs_take_the_sizes_of_the_results() {
        let delegate = delegate();
        let (mut input, mut output) = (EtTensor::new(&[1.0, 1.0, 2.0]), EtTensor::new(&[0.0; 16]));
        delegate.execute(&[input.describe(), output.describe()], Some(resize)).unwrap();
        assert_eq!(output.sizes, [3]);
        assert_eq!(output.data[..3], [101.0, 102.0, 106.0]);
        assert_eq!(output.data[3..], [0.0; 13], "not a byte more");
    }

    #[test]
    fn results_that_do_not_fit_are_refused_with_both_shapes() {
        let delegate = delegate();
        let (mut input, mut output) = (EtTensor::new(&[1.0; 5]), EtTensor::new(&[0.0; 4]));
        let arguments = [input.describe(), output.describe()];
        for resize in [Some(resize as EtmetalResize), None] {
            let text = delegate.execute(&arguments, resize).unwrap_err().to_string();
            assert!(text.contains("output 0") && text.contains("[5]"), "{text}");
            assert!(text.contains("[4]") && text.contains("\"forward\""), "{text}");
        }
    }

    #[test]
    fn arguments_that_do_not_fit_are_named() {
        let delegate = delegate();
        let (mut input, mut output) = (EtTensor::new(&[1.0; 4]), EtTensor::new(&[0.0; 4]));
        let text = |arguments: &[EtmetalTensor]| {
            delegate.execute(arguments, Some(resize)).unwrap_err().to_string()
        };
        let message = text(&[input.describe()]);
        assert!(message.contains("takes 1 inputs and gives 1 outputs"), "{message}");

        let nothing = EtmetalTensor {
            data: std::ptr::null_mut(),
            tensor: std::ptr::null_mut(),
            ..input.describe()
        };
        let message = text(&[nothing, output.describe()]);
        assert!(message.contains("input 0: it is not a tensor"), "{message}");

        let short = EtmetalTensor { nbytes: 8, ..input.describe() };
        let message = text(&[short, output.describe()]);
        assert!(message.contains("needs 16 bytes, it has 8"), "{message}");

        output.dtype = 7;
        let message = text(&[input.describe(), output.describe()]);
        assert!(message.contains("output 0") && message.contains("float64"), "{message}");
        output.dtype = 3;
        let message = text(&[input.describe(), output.describe()]);
        assert!(message.contains("float32") && message.contains("int32"), "{message}");
    }
}
