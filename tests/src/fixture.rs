//! Model fixtures with their recorded inputs and outputs, for tests that run in this process.

use std::path::PathBuf;

use etmetal::runner::compare::{Tolerance, compare};
use etmetal::runner::{HostTensor, LoadMode, Module, Runtime, Value, npy};

/// One fixture, read.
#[derive(Debug)]
pub struct Fixture {
    /// Its name.
    pub name: String,
    /// Its model.
    pub model: PathBuf,
    /// Recorded inputs.
    pub inputs: Vec<HostTensor>,
    /// Recorded outputs.
    pub outputs: Vec<HostTensor>,
}

impl Fixture {
    /// Reads the fixture `name`. Arrays that stand for bfloat16 keep the float32 of their files.
    ///
    /// # Panics
    /// A file is missing or broken.
    pub fn read(name: &str) -> Self {
        let folder = crate::stage::fixture(name);
        let arrays = |kind: &str| -> Vec<HostTensor> {
            (0..)
                .map(|i| folder.join(format!("{kind}{i}.npy")))
                .take_while(|path| path.is_file())
                .map(|path| npy::read(&path).unwrap_or_else(|e| panic!("{e}")))
                .collect()
        };
        let fixture = Fixture {
            name: name.to_owned(),
            model: folder.join("model.pte"),
            inputs: arrays("input"),
            outputs: arrays("output"),
        };
        assert!(!fixture.outputs.is_empty(), "fixture {name} has no outputs");
        fixture
    }

    /// Loads its model.
    ///
    /// # Panics
    /// It does not load.
    pub fn load(&self, runtime: &Runtime) -> Module {
        runtime
            .load(&self.model, &[], LoadMode::default())
            .unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// Runs a module of this fixture on its inputs and compares the outputs.
    ///
    /// # Panics
    /// It fails or an output is out of tolerance.
    pub fn check(&self, module: &Module) {
        let inputs: Vec<Value> = self.inputs.iter().cloned().map(Value::Tensor).collect();
        let outputs =
            module.execute("forward", &inputs).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        assert_eq!(outputs.len(), self.outputs.len(), "{}", self.name);
        for (i, (actual, expected)) in outputs.iter().zip(&self.outputs).enumerate() {
            let Value::Tensor(actual) = actual else {
                panic!("{}: output {i} is no tensor", self.name)
            };
            let comparison = compare(actual, expected, Tolerance::of(actual.dtype()))
                .unwrap_or_else(|e| panic!("{} output {i}: {e}", self.name));
            assert!(comparison.passes(), "{} output {i}: {comparison:?}", self.name);
        }
    }
}

/// The staged library, loaded into this process.
///
/// # Panics
/// It does not load.
pub fn runtime() -> Runtime {
    Runtime::open_at(&crate::stage::library()).unwrap_or_else(|e| panic!("{e}"))
}
