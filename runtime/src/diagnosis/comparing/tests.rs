use super::*;
use crate::device::host::{HostDevice, Options};
use crate::library::Library as Shaders;
use crate::ops;
use crate::ops::testing::values;
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Storage, Tensor};

const SOURCE: &str = "#include <metal_stdlib>
using namespace metal;
kernel void scale(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) { out[i] = 2.0f * x[i]; }
kernel void shift(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    out[i] += 1.0f;
}";

/// A device whose shaders are those of another source.
#[derive(Debug)]
struct Changed {
    inner: Arc<dyn Device>,
    from: &'static str,
    to: &'static str,
}

impl Device for Changed {
    fn kind(&self) -> DeviceKind {
        self.inner.kind()
    }
    fn name(&self) -> String {
        "changed".to_owned()
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn allocate(&self, len: usize) -> Result<BufferRef> {
        self.inner.allocate(len)
    }
    unsafe fn wrap(&self, ptr: *mut u8, len: usize, keep: Option<Keep>) -> Result<BufferRef> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner.wrap(ptr, len, keep) }
    }
    fn compile(&self, source: &str) -> Result<Arc<dyn DeviceLibrary>> {
        self.inner.compile(&source.replace(self.from, self.to))
    }
    fn lower(&self, key: &GraphKey) -> Result<Arc<dyn Executable>> {
        self.inner.lower(key)
    }
    fn command_buffer(&self) -> Result<Box<dyn CommandBuffer>> {
        self.inner.command_buffer()
    }
    fn pool_stats(&self) -> PoolStats {
        self.inner.pool_stats()
    }
    fn trim_pool(&self) {
        self.inner.trim_pool();
    }
}

fn host(checked: bool) -> Arc<dyn Device> {
    Arc::new(HostDevice::new(Options { threads: 1, pool_bytes: 1 << 20, checked, fission: true }))
}

/// A host device with a change in its shaders, compared with one that checks each access.
fn comparing(from: &'static str, to: &'static str) -> Arc<ComparingDevice> {
    let subject = Arc::new(Changed { inner: host(false), from, to });
    Arc::new(ComparingDevice::new(subject, host(true)))
}

fn tensor(device: &Arc<dyn Device>, sizes: &[i64], numbers: &[f32]) -> Tensor {
    let storage = Storage::allocate(device, 4 * numbers.len()).unwrap();
    for (i, number) in numbers.iter().enumerate() {
        // SAFETY: the storage is new and has room.
        unsafe { storage.as_ptr().cast::<f32>().add(i).write(*number) };
    }
    Tensor::new(storage, 0, DType::F32, Layout::contiguous(sizes).unwrap()).unwrap()
}

/// `out = 2 x`, then `out += 1`, on a stream; gives `out`.
fn run(device: &Arc<dyn Device>) -> Vec<f64> {
    let shaders = Shaders::compile(device, "mps_lib_0", SOURCE).unwrap();
    let (out, x) = (tensor(device, &[4], &[0.0; 4]), tensor(device, &[4], &[1.0, 2.0, 3.0, 4.0]));
    let stream = Stream::with_flush_interval(device.clone(), 64);
    let mut arguments = crate::kernel::Arguments::new();
    arguments.tensor(0, &out).unwrap();
    arguments.tensor(1, &x).unwrap();
    for name in ["scale", "shift"] {
        let kernel = shaders.kernel(name).unwrap();
        stream.dispatch(&kernel, &arguments, kernel.grid_1d(4, None).unwrap()).unwrap();
    }
    assert_eq!(values(&out), [0.0; 4], "nothing runs before it is committed");
    stream.commit_and_wait().unwrap();
    values(&out)
}

#[test]
fn devices_that_agree_have_no_difference() {
    let comparing = comparing("nothing", "");
    let device: Arc<dyn Device> = comparing.clone();
    assert_eq!(run(&device), [3.0, 5.0, 7.0, 9.0]);
    let record = comparing.record();
    assert_eq!((record.count, record.different), (2, 0));
    assert!(record.commands.iter().all(|command| command.largest_error == 0.0));
    assert_eq!(record.commands[0].name, "kernel \"scale\" of mps_lib_0");
    assert_eq!(record.commands[0].elements, 8);
}

#[test]
fn the_kernel_that_differs_is_named_and_the_next_is_not() {
    let comparing = comparing("2.0f * x[i]", "i == 2 ? 0.0f : 2.0f * x[i]");
    let device: Arc<dyn Device> = comparing.clone();
    assert_eq!(run(&device), [3.0, 5.0, 1.0, 9.0], "the subject's results go on");
    let record = comparing.record();
    assert_eq!((record.count, record.different), (2, 1));
    let [scale, shift] = &record.commands[..] else { panic!("{record:?}") };
    assert!(shift.agrees(), "{shift:?}");
    let [different] = &scale.different[..] else { panic!("{scale:?}") };
    assert_eq!((&*different.operand, &*different.dtype), ("buffer(0)", "float32"));
    assert_eq!((different.elements, different.count, different.at), (4, 1, 2));
    assert_eq!((different.subject, different.reference), (0.0, 6.0));
    assert_eq!((different.largest_error, scale.largest_error), (6.0, 6.0));
    let json = comparing.json();
    assert_eq!(json["compared"][0]["different"][0]["at"], 2);
    assert_eq!(json["different"], 1);
}

#[test]
fn rounding_is_no_difference() {
    let comparing = comparing("2.0f * x[i]", "2.0000002f * x[i]");
    let device: Arc<dyn Device> = comparing.clone();
    run(&device);
    let record = comparing.record();
    assert_eq!(record.different, 0);
    assert!(record.commands[0].largest_error > 0.0);
}

#[test]
fn what_only_the_reference_refuses_is_told() {
    // The reference sees the access beyond the argument, the subject has none.
    let comparing = ComparingDevice::new(
        Arc::new(Changed { inner: host(false), from: "x[i + 100]", to: "x[i]" }),
        host(true),
    );
    let comparing = Arc::new(comparing);
    let device: Arc<dyn Device> = comparing.clone();
    let source = SOURCE.replace("* x[i]", "* x[i + 100]");
    let kernel = Shaders::compile(&device, "l", &source).unwrap().kernel("scale").unwrap();
    let (out, x) = (tensor(&device, &[4], &[0.0; 4]), tensor(&device, &[4], &[1.0; 4]));
    let mut arguments = crate::kernel::Arguments::new();
    arguments.tensor(0, &out).unwrap();
    arguments.tensor(1, &x).unwrap();
    let stream = Stream::with_flush_interval(device.clone(), 64);
    stream.dispatch(&kernel, &arguments, kernel.grid_1d(4, None).unwrap()).unwrap();
    stream.commit_and_wait().unwrap();
    let record = comparing.record();
    let failure = record.commands[0].failure.as_deref().unwrap();
    assert!(failure.starts_with("only the reference: ") && failure.contains("out of bounds"));
    assert_eq!(record.different, 1);
}

#[test]
fn op_graphs_copies_and_fills_are_compared_in_place() {
    let comparing = comparing("nothing", "");
    let device: Arc<dyn Device> = comparing.clone();
    let stream = Stream::with_flush_interval(device.clone(), 64);
    let a = tensor(&device, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let out = tensor(&device, &[2, 2], &[0.0; 4]);
    ops::mm(&stream, &out, &a, &a).unwrap();
    let buffer = out.storage().buffer();
    // Both within one buffer.
    stream.copy((buffer, 0), (buffer, 8), 8).unwrap();
    stream.fill((buffer, 4), 4, 0).unwrap();
    stream.commit_and_wait().unwrap();
    assert_eq!(values(&out), [7.0, 0.0, 7.0, 10.0]);
    let record = comparing.record();
    let names: Vec<_> = record.commands.iter().map(|command| &*command.name).collect();
    assert_eq!(names, ["op mm", "copy", "fill"]);
    assert_eq!(record.different, 0, "{record:#?}");
}

#[test]
fn what_the_subject_refuses_is_refused_when_it_is_encoded() {
    let device: Arc<dyn Device> = comparing("nothing", "");
    let buffer = device.allocate(16).unwrap();
    let mut commands = device.command_buffer().unwrap();
    assert!(commands.fill((&buffer, 12), 8, 0).is_err());
    assert_eq!(commands.command_count(), 0);
}
