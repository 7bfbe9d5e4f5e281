//! MPSGraphExecutable.

use std::collections::HashMap;

use objc2::rc::Retained;
use objc2::runtime::{AnyObject, NSObject};
use objc2::{AnyThread, DefinedClass, Message, define_class, msg_send};
use objc2_metal_performance_shaders::MPSCommandBuffer;

use super::node::{Evaluation, Node};
use super::tensors::{ExecutionDescriptor, GraphTensor, TensorData};
use crate::foundation::collections::Array;
use crate::foundation::errors::invalid;
use crate::metal::mps::MpsCommands;

/// A compiled graph. Feeds and targets are in an order of its own.
pub struct Program {
    pub(crate) nodes: Vec<Node>,
    pub(crate) feeds: Vec<Retained<GraphTensor>>,
    pub(crate) targets: Vec<Retained<GraphTensor>>,
}

define_class!(
    /// A compiled graph.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphExecutable"]
    #[ivars = Program]
    pub struct Executable;

    impl Executable {
        #[unsafe(method_id(feedTensors))]
        fn feeds(&self) -> Option<Retained<Array>> {
            Some(array(&self.ivars().feeds))
        }

        #[unsafe(method_id(targetTensors))]
        fn targets(&self) -> Option<Retained<Array>> {
            Some(array(&self.ivars().targets))
        }

        #[unsafe(method_id(encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:))]
        fn encode(
            &self,
            commands: &MPSCommandBuffer,
            inputs: &Array,
            results: Option<&Array>,
            _descriptor: Option<&ExecutionDescriptor>,
        ) -> Retained<Array> {
            let program = self.ivars();
            let inputs = matched("input", &program.feeds, inputs);
            let Some(results) = results else { invalid("the stand-in wants results") };
            let outputs = matched("result", &program.targets, results);
            let me = self.retain();
            let work = move || me.run(&inputs, &outputs);
            let commands = MpsCommands::of(commands);
            commands.underneath().other("encodeToCommandBuffer:", Box::new(work));
            // It may commit what was encoded so far; so it does.
            commands.go_on();
            results.retain()
        }
    }
);

unsafe impl Send for Executable {}
unsafe impl Sync for Executable {}

impl Executable {
    /// The executable of a program.
    pub fn make(program: Program) -> Retained<Self> {
        let this = Self::alloc().set_ivars(program);
        unsafe { msg_send![super(this), init] }
    }

    fn run(
        &self,
        inputs: &[Retained<TensorData>],
        outputs: &[Retained<TensorData>],
    ) -> Result<(), String> {
        let Program { nodes, feeds, targets } = self.ivars();
        let fed = feeds.iter().zip(inputs).map(|(t, data)| (t.ivars().node, data.read()));
        let values: HashMap<_, _> = fed.collect();
        let mut evaluation = Evaluation { nodes, values };
        for (target, data) in targets.iter().zip(outputs) {
            data.write(&evaluation.value(target.ivars().node)?);
        }
        Ok(())
    }
}

fn array(tensors: &[Retained<GraphTensor>]) -> Retained<Array> {
    let objects = tensors.iter().map(|t| unsafe { Retained::cast_unchecked(t.clone()) });
    Array::make(objects.collect())
}

/// Data that has the types and sizes of the tensors.
fn matched(
    what: &str,
    tensors: &[Retained<GraphTensor>],
    data: &Array,
) -> Vec<Retained<TensorData>> {
    if tensors.len() != data.items().len() {
        invalid(&format!("{} {what}s for {}", data.items().len(), tensors.len()));
    }
    let pairs = tensors.iter().zip(data.items()).enumerate();
    pairs
        .map(|(at, (tensor, data))| {
            let data: &AnyObject = data;
            let data = data.downcast_ref::<TensorData>().expect("tensor data");
            let (wanted, given) = (tensor.ivars(), data.ivars());
            if (wanted.dtype, &wanted.sizes) != (given.dtype, &given.sizes) {
                invalid(&format!(
                    "{what} {at} is {} {:?}, not {} {:?}",
                    given.dtype, given.sizes, wanted.dtype, wanted.sizes
                ));
            }
            data.retain()
        })
        .collect()
}
