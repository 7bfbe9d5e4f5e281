//! Whole models through the Metal device: the fixtures of the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etmetal::container::{Container, ModelSource};
use etmetal::device::Device;
use etmetal::runner::compare::{Tolerance, compare};
use etmetal::runner::program::{CallArgument, Program};
use etmetal::runner::{HostTensor, ValueInfo, npy};
use etmetal::tensor::{Layout, Tensor};
use etmetal_standin::{metal, objc};

use crate::common::{device, elements, lasting_rules, tensor};

fn arrays(folder: &Path, kind: &str) -> Vec<HostTensor> {
    (0..)
        .map(|i| folder.join(format!("{kind}{i}.npy")))
        .take_while(|path| path.is_file())
        .map(|path| npy::read(&path).unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

fn sizes(array: &HostTensor) -> Vec<i64> {
    array.sizes().iter().map(|&size| size as i64).collect()
}

/// Loads a model, runs it twice, and compares both results with the recorded ones.
pub fn check(folder: &Path, device: &Arc<dyn Device>) {
    run(folder, device, 2);
}

/// Loads a model, runs it so often, and compares the results with the recorded ones. A model with
/// state, such as a cache, gives them the first time only.
fn run(folder: &Path, device: &Arc<dyn Device>, runs: usize) {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let file = std::fs::read(folder.join("model.pte")).unwrap();
    let program = Program::parse(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let method = program.method("forward").unwrap();
    let [delegate] = method.delegates.as_slice() else {
        panic!("{name}: {} delegates", method.delegates.len())
    };
    let blobs: BTreeMap<String, Arc<Vec<u8>>> = program
        .named_data
        .iter()
        .map(|blob| (blob.key.to_owned(), Arc::new(blob.bytes.to_vec())))
        .collect();
    let container = Container::load(&ModelSource {
        payload: delegate.payload,
        data: &blobs,
        method: "forward",
        device: device.clone(),
    })
    .unwrap_or_else(|error| panic!("{name}: {error}"));
    let given: Vec<_> = arrays(folder, "input").into_iter().zip(&method.inputs).collect();
    // A delegate takes inputs in the order in which it uses them.
    let [call] = method.delegate_calls.as_slice() else { panic!("{name}: {method:?}") };
    let inputs: Vec<_> = call
        .arguments
        .iter()
        .filter_map(|argument| match argument {
            CallArgument::Input(index) => Some(&given[*index]),
            _ => None,
        })
        .collect();
    let expected = arrays(folder, "output");
    let tensors = || -> Vec<Tensor> {
        inputs
            .iter()
            .map(|(array, info)| {
                let ValueInfo::Tensor(info) = info else { panic!("{name}: {info}") };
                let dtype = info.dtype().unwrap();
                let (array, sizes) = (array.convert(dtype), sizes(array));
                let strides = Layout::contiguous(&sizes).unwrap().strides;
                tensor(device, dtype, &sizes, &strides, 0, array.bytes())
            })
            .collect()
    };
    let runs = if name == "kv_cache" { 1 } else { runs };
    for run in 0..runs {
        let results = container
            .run(tensors(), |results| {
                Ok(results.iter().map(|t| (t.dtype(), t.sizes().to_vec(), elements(t))).collect())
            })
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let results: Vec<_> = results;
        assert_eq!(results.len(), expected.len(), "{name}");
        for (i, ((dtype, sizes, bytes), expected)) in results.into_iter().zip(&expected).enumerate()
        {
            let sizes = sizes.iter().map(|&size| size as usize).collect();
            let actual = HostTensor::new(dtype, sizes, bytes).unwrap();
            let comparison = compare(&actual, expected, Tolerance::of(dtype))
                .unwrap_or_else(|error| panic!("{name} output {i}: {error}"));
            assert!(comparison.passes(), "{name}, run {run}, output {i}: {comparison:?}");
        }
    }
}

/// The repository's models.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

#[test]
fn every_model_gives_its_recorded_outputs_and_leaves_nothing_behind() {
    let _rules = lasting_rules();
    let device = device();
    // Another folder of models may be given, to run more than the repository has.
    let folder = std::env::var_os("ETMETAL_STANDIN_MODELS").map_or_else(fixtures, Into::into);
    let mut models: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("model.pte").is_file())
        .collect();
    models.sort();
    assert!(!models.is_empty());
    let mut failed = Vec::new();
    for model in &models {
        let name = model.file_name().unwrap().to_string_lossy().into_owned();
        // Kernels and graphs are kept with the device, for whoever loads the model again.
        let first = passes(|| run(model, &device, 2));
        let since = objc::objects::mark();
        let again = passes(|| run(model, &device, 1));
        metal::command::drain();
        let left = objc::objects::live_since(since);
        let in_use = device.pool_stats().in_use;
        let passed = first && again && left.is_empty() && in_use == 0;
        println!("{name}: {}", if passed { "passed" } else { "FAILED" });
        if !passed {
            failed.push(format!("{name}: left behind: {left:?} and {in_use} bytes"));
        }
    }
    println!("{} models, {} failed", models.len(), failed.len());
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
pub fn weights_that_metal_does_not_take_are_copied() {
    struct Refused;
    impl Drop for Refused {
        fn drop(&mut self) {
            metal::device::refuse_others_memory(false);
        }
    }
    let _rules = lasting_rules();
    let _refused = Refused;
    metal::device::refuse_others_memory(true);
    let device = device();
    // Weights that nobody writes to, and such as a model writes to.
    for model in ["mlp", "kv_cache"] {
        check(&fixtures().join(model), &device);
    }
}

/// Whether it ends without a panic, whose text is shown.
fn passes(test: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).is_ok()
}
