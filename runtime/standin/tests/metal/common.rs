//! What the tests share.

use std::sync::{Arc, Mutex, MutexGuard};

use etmetal::device::Device;
use etmetal::device::host::HostDevice;
use etmetal::device::metal::MetalDevice;
use etmetal::tensor::{DType, Layout, Storage, Tensor};
use etmetal_standin::{metal, objc, violations};

/// What is recorded is of the whole process: tests run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Keeps other tests out, and checks at its end that no rule was broken.
pub struct Rules {
    _guard: MutexGuard<'static, ()>,
    /// Objects made from here on must be gone at the end.
    since: Option<u64>,
}

/// Starts a test whose every object must be gone at its end.
pub fn rules() -> Rules {
    let mut rules = lasting_rules();
    rules.since = Some(objc::objects::mark());
    rules
}

/// Starts a test that leaves objects behind, such as kernels that are kept with the device.
pub fn lasting_rules() -> Rules {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Made once and kept.
    let _ = MetalDevice::new(0).unwrap();
    metal::command::drain();
    violations::take();
    Rules { _guard: guard, since: None }
}

impl Rules {
    /// What was broken so far; it counts no more.
    pub fn broken(&self) -> Vec<String> {
        violations::take()
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        metal::command::drain();
        let broken = violations::take();
        if std::thread::panicking() {
            broken.iter().for_each(|what| eprintln!("broken: {what}"));
            return;
        }
        assert!(broken.is_empty(), "{broken:#?}");
        if let Some(since) = self.since {
            let left = objc::objects::live_since(since);
            assert!(left.is_empty(), "left behind: {left:#?}");
        }
    }
}

/// A Metal device of its own.
pub fn device() -> Arc<dyn Device> {
    Arc::new(MetalDevice::new(64 << 20).unwrap().expect("the stand-in is a GPU"))
}

/// The host device.
pub fn host() -> Arc<dyn Device> {
    HostDevice::shared()
}

/// Offsets of all elements in row-major order, in elements.
fn offsets(sizes: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut all = vec![0];
    for (&size, &stride) in sizes.iter().zip(strides) {
        let along = |base: usize| (0..size).map(move |i| base + (i * stride) as usize);
        all = all.into_iter().flat_map(along).collect();
    }
    all
}

/// A tensor of these strides that begins `lead` elements into its storage.
pub fn tensor(
    device: &Arc<dyn Device>,
    dtype: DType,
    sizes: &[i64],
    strides: &[i64],
    lead: usize,
    elements: &[u8],
) -> Tensor {
    let layout = Layout::new(sizes, strides).unwrap();
    let size = dtype.size();
    let storage = Storage::allocate(device, (lead + layout.extent()) * size).unwrap();
    let tensor = Tensor::new(storage, lead * size, dtype, layout).unwrap();
    for (element, at) in elements.chunks_exact(size).zip(offsets(sizes, strides)) {
        // SAFETY: the element lies inside the tensor, which nobody else uses.
        unsafe {
            let to = tensor.as_ptr().add(at * size);
            std::ptr::copy_nonoverlapping(element.as_ptr(), to, size);
        }
    }
    tensor
}

/// The elements of a tensor in row-major order. No work may be under way.
pub fn elements(tensor: &Tensor) -> Vec<u8> {
    let size = tensor.dtype().size();
    let element = |at: usize| {
        // SAFETY: the element lies inside the tensor.
        unsafe { std::slice::from_raw_parts(tensor.as_ptr().add(at * size), size) }
    };
    offsets(tensor.sizes(), tensor.strides()).into_iter().flat_map(element).copied().collect()
}

/// Bytes of elements that make small numbers of a dtype, of both signs where it has them, many
/// of them equal.
pub fn numbers(dtype: DType, count: usize, seed: usize) -> Vec<u8> {
    let number = |i: usize| ((i * 7 + seed * 5 + i / 11) % 17) as f64;
    let signed = |i: usize| number(i) - 8.0;
    let bytes = |i: usize| -> Vec<u8> {
        match dtype {
            DType::U8 => vec![number(i) as u8],
            DType::I8 => vec![signed(i) as i8 as u8],
            DType::Bool => vec![u8::from(number(i) > 8.0)],
            DType::I16 => (signed(i) as i16).to_ne_bytes().into(),
            DType::U16 => (number(i) as u16).to_ne_bytes().into(),
            DType::I32 => (signed(i) as i32).to_ne_bytes().into(),
            DType::U32 => (number(i) as u32).to_ne_bytes().into(),
            DType::I64 => (signed(i) as i64).to_ne_bytes().into(),
            DType::U64 => (number(i) as u64).to_ne_bytes().into(),
            DType::F32 => (signed(i) as f32 / 4.0).to_ne_bytes().into(),
            DType::F16 => half::f16::from_f64(signed(i) / 4.0).to_ne_bytes().into(),
            DType::Bf16 => half::bf16::from_f64(signed(i) / 4.0).to_ne_bytes().into(),
        }
    };
    (0..count).flat_map(bytes).collect()
}
