//! A whole model: loaded, run, failing, shared by threads, unloaded.

use std::collections::BTreeMap;

use super::fixture::{self, MODEL_KEYS, model_data};
use super::*;
use crate::device::default_device;
use crate::tensor::{DType, Layout};

fn load(data: &dyn NamedData) -> Result<Container> {
    Container::load(&ModelSource {
        payload: MODEL_KEYS,
        data,
        method: "forward",
        device: default_device().unwrap(),
    })
}

/// Runs the test model on 16 floats.
fn run(container: &Container, input: &[f32; 16]) -> Result<Vec<f32>> {
    let device = container.device();
    let tensor = Tensor::empty(device, DType::F32, Layout::contiguous(&[16]).unwrap()).unwrap();
    // SAFETY: a new tensor of 16 floats.
    unsafe { tensor.as_ptr().cast::<[f32; 16]>().write(*input) };
    container.run(vec![tensor], |outputs| {
        assert_eq!(outputs.len(), 1);
        assert_eq!(outputs[0].sizes(), [16]);
        // SAFETY: 16 floats, and the run has ended.
        Ok(unsafe { std::slice::from_raw_parts(outputs[0].as_ptr().cast::<f32>(), 16) }.to_vec())
    })
}

const ONES: [f32; 16] = [1.0; 16];

/// The first output: the weight counts from 1, the cache is 100.
fn first_output() -> Vec<f32> {
    (1..=16).map(|i| i as f32 + 100.0).collect()
}

fn plus(values: &[f32], more: f32) -> Vec<f32> {
    values.iter().map(|v| v + more).collect()
}

#[test]
fn weights_in_memory_are_used_in_place_and_buffers_are_copied() {
    let data = model_data("");
    let before = data["w_weights_blob"].clone();
    let container = load(&data).unwrap();
    assert_eq!((container.num_inputs(), container.num_outputs()), (1, 1));
    assert_eq!(container.weights(), WeightStats { wrapped: 64, copied: 64 });
    assert_eq!(run(&container, &ONES).unwrap(), first_output());
    assert_eq!(run(&container, &ONES).unwrap(), plus(&first_output(), 1.0), "it keeps its cache");
    assert_eq!(data["w_weights_blob"], before, "and writes to nobody else's memory");

    let other = load(&data).unwrap();
    assert_eq!(run(&other, &ONES).unwrap(), first_output(), "another model has its own cache");
    drop(container);
    assert_eq!(run(&other, &ONES).unwrap(), plus(&first_output(), 1.0));
}

#[test]
fn weights_without_buffers_are_not_copied() {
    let container = load(&model_data("#define NO_BUFFER")).unwrap();
    assert_eq!(container.weights(), WeightStats { wrapped: 128, copied: 0 });
    assert_eq!(run(&container, &ONES).unwrap(), first_output());
    assert_eq!(run(&container, &ONES).unwrap(), first_output());
}

#[test]
fn weights_that_cannot_be_used_in_place_are_copied() {
    for defines in ["#define UNPADDED", "#define NO_REPLACEMENT"] {
        let data = model_data(defines);
        let before = data["w_weights_blob"].clone();
        let container = load(&data).unwrap();
        let bytes = before.len();
        assert_eq!(container.weights(), WeightStats { wrapped: 0, copied: bytes }, "{defines}");
        let (first, second) = (run(&container, &ONES).unwrap(), run(&container, &ONES).unwrap());
        assert_eq!(first[..15], first_output()[..15], "{defines}");
        assert_eq!(second[..15], plus(&first_output(), 1.0)[..15], "{defines}");
        assert_eq!(data["w_weights_blob"], before, "{defines}");
    }
}

/// Blobs whose weights are mapped read-only from a file, as a program loader maps them.
#[cfg(target_os = "linux")]
struct MappedData {
    data: BTreeMap<String, Arc<Vec<u8>>>,
    file: std::fs::File,
}

#[cfg(target_os = "linux")]
impl NamedData for MappedData {
    fn get(&self, key: &str) -> Result<Blob> {
        use std::os::fd::AsRawFd;
        struct Mapping(usize, usize);
        impl Drop for Mapping {
            fn drop(&mut self) {
                // SAFETY: mapped below.
                unsafe { libc::munmap(self.0 as *mut _, self.1) };
            }
        }
        if key != "w_weights_blob" {
            return NamedData::get(&self.data, key);
        }
        let fd = self.file.as_raw_fd();
        // SAFETY: a new read-only mapping of the test's file.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), 128, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        let keep = Arc::new(Mapping(base as usize, 128));
        // SAFETY: mapped until `keep` goes.
        Ok(unsafe { Blob::borrow(base, 128, Some(keep)) })
    }
}

#[test]
#[cfg(target_os = "linux")]
fn mapped_weights_are_copied_page_by_page_on_write() {
    let data = model_data("");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &**data["w_weights_blob"]).unwrap();
    let mapped = MappedData { data: data.clone(), file: file.reopen().unwrap() };
    let (one, two) = (load(&mapped).unwrap(), load(&mapped).unwrap());
    assert_eq!(one.weights(), WeightStats { wrapped: 128, copied: 0 });
    assert_eq!(run(&one, &ONES).unwrap(), first_output());
    assert_eq!(run(&one, &ONES).unwrap(), plus(&first_output(), 1.0));
    assert_eq!(run(&two, &ONES).unwrap(), first_output());
    assert_eq!(std::fs::read(file.path()).unwrap(), **data["w_weights_blob"]);
}

#[test]
fn failed_runs_say_why_and_leak_nothing() {
    let data = model_data("");
    let (used, fresh) = (load(&data).unwrap(), load(&data).unwrap());
    for _ in 0..10 {
        for (first, reason) in [(-1.0, "before taking"), (-2.0, "after making")] {
            let mut input = ONES;
            input[0] = first;
            let text = run(&used, &input).unwrap_err().to_string();
            assert!(text.contains(reason), "{text}");
        }
    }
    assert_eq!(run(&used, &ONES).unwrap(), first_output(), "a failure is no end");
    assert_eq!(used.model.release(), fresh.model.release(), "as many objects as before any run");
}

#[test]
fn a_wrong_number_of_inputs_never_reaches_the_model() {
    let container = load(&model_data("")).unwrap();
    let text = container.run(Vec::new(), |_| Ok(())).unwrap_err().to_string();
    assert!(text.contains("takes 1 inputs, 0 were given"), "{text}");
}

#[test]
fn threads_share_a_model_one_run_at_a_time() {
    let container = load(&model_data("")).unwrap();
    let mut caches: Vec<f32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let runs = (0..50).map(|_| run(&container, &ONES).unwrap());
                    runs.map(|out| {
                        // Every element saw the same state of the cache.
                        let seen = out[0] - 101.0;
                        assert_eq!(out, plus(&first_output(), seen));
                        seen
                    })
                    .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    caches.sort_by(f32::total_cmp);
    assert!(caches.into_iter().eq((0..200u8).map(f32::from)), "each run saw a state of its own");
}

#[test]
fn bad_data_is_refused_and_named() {
    let text = |data: BTreeMap<String, Arc<Vec<u8>>>| load(&data).unwrap_err().to_string();
    let good = model_data("");

    let mut data = good.clone();
    data.insert("w_weights_blob".into(), Arc::new(vec![0; 100]));
    let message = text(data);
    assert!(message.contains("100 bytes, but the model needs 128"), "{message}");

    let mut data = good.clone();
    data.remove("w_weights_blob");
    let message = text(data);
    assert!(message.contains("w_weights_blob"), "{message}");

    let mut data = good;
    data.insert("l_so_blob".into(), Arc::new(fixture::compile("int x;")));
    let message = text(data);
    assert!(message.contains("AOTInductor"), "{message}");
}

/// A program's named blobs.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
struct ProgramData(Arc<Vec<u8>>);

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl NamedData for ProgramData {
    fn get(&self, key: &str) -> Result<Blob> {
        let program = crate::runner::program::Program::parse(&self.0)?;
        let blob = program.blob(key).ok_or_else(|| err!(NotFound, "no blob {key:?}"))?;
        let pointer = blob.bytes.as_ptr().cast();
        // SAFETY: bytes of the shared vector, which the blob keeps.
        Ok(unsafe { Blob::borrow(pointer, blob.bytes.len(), Some(self.0.clone())) })
    }
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn a_real_model_gives_pytorchs_numbers() {
    use crate::runner::compare::{Tolerance, compare};
    use crate::runner::{HostTensor, npy};

    let directory = fixture::directory().join("mlp");
    let data = ProgramData(Arc::new(std::fs::read(directory.join("model.pte")).unwrap()));
    let program = crate::runner::program::Program::parse(&data.0).unwrap();
    let container = Container::load(&ModelSource {
        payload: program.methods[0].delegates[0].payload,
        data: &data,
        method: "forward",
        device: default_device().unwrap(),
    })
    .unwrap();
    assert_eq!(container.shaders(), 3);
    assert_eq!(container.weights(), WeightStats { wrapped: 832, copied: 0 });

    let input = npy::read(&directory.join("input0.npy")).unwrap();
    let sizes: Vec<i64> = input.sizes().iter().map(|&size| size as i64).collect();
    let layout = Layout::contiguous(&sizes).unwrap();
    for _ in 0..2 {
        let tensor = Tensor::empty(container.device(), DType::F32, layout.clone()).unwrap();
        let bytes = input.bytes();
        // SAFETY: a new tensor of as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), tensor.as_ptr(), bytes.len()) };
        let output = container
            .run(vec![tensor], |outputs| {
                let sizes = outputs[0].sizes().iter().map(|&size| size as usize).collect();
                assert!(outputs[0].layout().is_contiguous());
                // SAFETY: as many bytes, and the run has ended.
                let bytes = unsafe {
                    std::slice::from_raw_parts(outputs[0].as_ptr(), outputs[0].numel() * 4)
                };
                HostTensor::new(DType::F32, sizes, bytes.to_vec())
            })
            .unwrap();
        let expected = npy::read(&directory.join("output0.npy")).unwrap();
        let comparison = compare(&output, &expected, Tolerance::of(DType::F32)).unwrap();
        assert!(comparison.passes(), "{comparison:?}");
    }
}
