//! Loading and running programs through the official runtime.

use std::borrow::Cow;
use std::ffi::{CString, OsStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ffi::{Api, RawMethodInfo, RawModule, RawValue, RawValueInfo, kind, text};
use super::file;
use super::host_tensor::HostTensor;
use super::signature::{Dynamism, TensorInfo, ValueInfo};
use crate::Result;
use crate::error::{Context, err};
use crate::tensor::DType;

/// The environment variable that names the libetmetal to use.
pub const LIBRARY_VARIABLE: &str = "ETMETAL_LIB";

/// A loaded libetmetal, with the ExecuTorch runtime it is linked with. Clones share it.
#[derive(Clone)]
pub struct Runtime {
    api: Arc<Api>,
    path: PathBuf,
}

/// How a program's file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadMode {
    /// Mapped into memory and never copied.
    #[default]
    Mmap,
    /// Mapped, and locked in memory where the system allows it.
    MmapMlock,
    /// Copied.
    File,
}

/// A value given to a method or read from it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(HostTensor),
    /// An integer.
    Int(i64),
    /// A floating point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
}

impl From<HostTensor> for Value {
    fn from(tensor: HostTensor) -> Self {
        Value::Tensor(tensor)
    }
}

/// What a method takes and gives, and which backends it delegates to.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodInfo {
    /// The inputs.
    pub inputs: Vec<ValueInfo>,
    /// The outputs.
    pub outputs: Vec<ValueInfo>,
    /// The names of the backends.
    pub backends: Vec<String>,
}

impl Runtime {
    /// Loads libetmetal from where it is installed: `$ETMETAL_LIB`, else `../lib` beside the
    /// folder of the running program.
    ///
    /// # Errors
    /// The library is not there, or is of another version.
    pub fn open() -> Result<Self> {
        if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|p| !p.is_empty()) {
            return Self::open_at(Path::new(&path)).context(|| LIBRARY_VARIABLE);
        }
        let program = std::env::current_exe()
            .map_err(|e| err!(System, "cannot tell where this program lies: {e}"))?;
        let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let path = prefix.join("lib").join(library_name());
        if !path.exists() {
            return Err(err!(
                NotFound,
                "{} does not exist: run etmetal from its stage (bin/ beside lib/), or name the \
                 library with {LIBRARY_VARIABLE}",
                path.display()
            ));
        }
        Self::open_at(&path)
    }

    /// Loads the libetmetal at `path`.
    ///
    /// # Errors
    /// As for [`Runtime::open`].
    pub fn open_at(path: &Path) -> Result<Self> {
        Ok(Self { api: Arc::new(Api::load(path)?), path: path.to_owned() })
    }

    /// The runtime that is part of this program (the crate's feature `executorch`). The program
    /// has to export `aoti_torch_*`, `etmetal_*` and `torch_*`; see the crate's `examples/embed.rs`.
    ///
    /// # Errors
    /// The program does not export the functions.
    #[cfg(unix)]
    pub fn of_this_program() -> Result<Self> {
        let path = std::env::current_exe().unwrap_or_default();
        Ok(Self { api: Arc::new(Api::of_this_program(&path)?), path })
    }

    /// Where the library lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of ExecuTorch.
    pub fn executorch_version(&self) -> String {
        // SAFETY: the function takes nothing and returns a static string.
        unsafe { text((self.api.executorch_version)()) }
    }

    /// The names of the backends that ExecuTorch knows.
    pub fn backends(&self) -> Vec<String> {
        (0..)
            // SAFETY: names are static strings; null ends the list.
            .map(|i| unsafe { text((self.api.registered_backend)(i)) })
            .take_while(|name| !name.is_empty())
            .collect()
    }

    /// Why ExecuTorch does not find this delegate, if so.
    pub fn registration_error(&self) -> Option<String> {
        // SAFETY: the function takes nothing and returns a string that is never freed.
        Some(unsafe { text((self.api.registration_error)()) }).filter(|text| !text.is_empty())
    }

    /// Makes the delegate count and time what it does from now on, or no longer.
    pub fn enable_stats(&self, on: bool) {
        // SAFETY: the function takes a plain value.
        unsafe { (self.api.stats_enable)(on) }
    }

    /// The delegate's statistics, as JSON.
    pub fn stats_json(&self) -> String {
        read_text(self.api.stats_json)
    }

    /// Makes the delegate note which call makes what it lends to models, and what models leave
    /// behind when they are destroyed, from now on or no longer.
    pub fn enable_tracking(&self, on: bool) {
        // SAFETY: the function takes a plain value.
        unsafe { (self.api.tracking_enable)(on) }
    }

    /// What is lent to models now (`live`), and what destroyed ones left behind (`left_behind`),
    /// as JSON.
    pub fn tracked_json(&self) -> String {
        read_text(self.api.tracked_json)
    }

    /// Makes the delegate record what it does when, from now on or no longer. What was recorded
    /// stays.
    pub fn enable_profile(&self, on: bool) {
        // SAFETY: the function takes a plain value.
        unsafe { (self.api.profile_enable)(on) }
    }

    /// What was recorded, as JSON. Times are in nanoseconds, as [`Runtime::profile_now`] gives
    /// them.
    pub fn profile_json(&self) -> String {
        read_text(self.api.profile_json)
    }

    /// The time now by the profile's clock, in nanoseconds.
    pub fn profile_now(&self) -> u64 {
        // SAFETY: the function takes nothing and returns a plain value.
        unsafe { (self.api.profile_now)() }
    }

    /// Makes a device the one of the modules whose methods the calling thread loads from now on:
    /// `host`, `metal`, `compare metal` (each command on the host device too, and compared) or
    /// `compare host` (with a host device that checks each access of shaders); `None` for the
    /// default again.
    ///
    /// # Errors
    /// There is no such device here.
    pub fn use_device(&self, name: Option<&str>) -> Result<()> {
        let name = name.map(|name| c_string(OsStr::new(name))).transpose()?;
        let name = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        let mut text = vec![0u8; 4096];
        // SAFETY: a C string or null, and a buffer of that length.
        let len = unsafe { (self.api.device_use)(name, text.as_mut_ptr().cast(), text.len()) };
        if len == 0 {
            return Ok(());
        }
        text.truncate(len.min(4095));
        Err(err!(Unsupported, "{}", String::from_utf8_lossy(&text)))
    }

    /// What the comparing device that this thread chose last has found, as JSON.
    pub fn comparison_json(&self) -> String {
        read_text(self.api.comparison_json)
    }

    /// Checks a whole device (`metal`, `host`, or the default), with the models in a folder if
    /// one is given. `on_line` gets lines of JSON: the device, each check, an error.
    ///
    /// # Errors
    /// A name has a NUL character.
    pub fn selftest(
        &self,
        device: Option<&str>,
        models: Option<&Path>,
        mut on_line: &mut dyn FnMut(&str),
    ) -> Result<()> {
        unsafe extern "C" fn sink(context: *mut c_void, line: *const c_char, length: usize) {
            // SAFETY: `context` is what was passed below; the line lives during the call.
            let (on_line, line) = unsafe {
                (
                    &mut *context.cast::<&mut dyn FnMut(&str)>(),
                    std::slice::from_raw_parts(line.cast::<u8>(), length),
                )
            };
            let line = String::from_utf8_lossy(line);
            // A panic must not unwind into the library.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| on_line(&line)));
        }
        let c_text = |text: Option<&OsStr>| text.map(c_string).transpose();
        let device = c_text(device.map(OsStr::new))?;
        let models = c_text(models.map(Path::as_os_str))?;
        let pointer =
            |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        let context = std::ptr::from_mut(&mut on_line).cast();
        // SAFETY: C strings or null; the sink is made for this context, which lives until it
        // returns.
        unsafe { (self.api.selftest)(pointer(&device), pointer(&models), sink, context) };
        Ok(())
    }

    /// Loads a program; `data` are the `.ptd` files of a program without weights of its own.
    ///
    /// # Errors
    /// A file is missing or damaged, or ExecuTorch refuses it.
    pub fn load(&self, path: &Path, data: &[PathBuf], mode: LoadMode) -> Result<Module> {
        for path in data.iter().map(PathBuf::as_path).chain([path]) {
            file::open(path)?;
        }
        let c_path = c_string(path.as_os_str())?;
        let data = data.iter().map(|p| c_string(p.as_os_str())).collect::<Result<Vec<_>>>()?;
        let data: Vec<_> = data.iter().map(|p| p.as_ptr()).collect();
        let mut handle = std::ptr::null_mut();
        // SAFETY: the strings and the array live during the call.
        let code = unsafe {
            (self.api.module_load)(
                c_path.as_ptr(),
                data.as_ptr(),
                data.len(),
                mode as i32,
                &raw mut handle,
            )
        };
        self.api.check(code)?;
        let handle = NonNull::new(handle)
            .ok_or_else(|| err!(Internal, "loading {} gave no module", path.display()))?;
        Ok(Module { api: self.api.clone(), handle, executing: Mutex::new(()) })
    }
}

/// The text of a C function that writes as much of it as fits, and returns how long it is.
fn read_text(function: unsafe extern "C" fn(*mut c_char, usize) -> usize) -> String {
    // Other threads may lengthen the text between asking for its length and reading it.
    let mut buffer: Vec<u8> = vec![0; 4096];
    loop {
        // SAFETY: the function writes at most `len` bytes.
        let needed = unsafe { function(buffer.as_mut_ptr().cast(), buffer.len()) };
        if needed < buffer.len() {
            buffer.truncate(needed);
            return String::from_utf8_lossy(&buffer).into_owned();
        }
        buffer.resize(needed + 1024, 0);
    }
}

/// The file name of libetmetal on this system.
pub fn library_name() -> &'static str {
    if cfg!(target_vendor = "apple") { "libetmetal.dylib" } else { "libetmetal.so" }
}

fn c_string(text: &OsStr) -> Result<CString> {
    CString::new(text.as_encoded_bytes())
        .map_err(|_| err!(InvalidArgument, "{text:?} has a NUL byte in it"))
}

/// A loaded program.
pub struct Module {
    api: Arc<Api>,
    handle: NonNull<RawModule>,
    // Held from running a method until its outputs are read.
    executing: Mutex<()>,
}

// SAFETY: calls on one module wait for each other inside the library, which ties none of its
// state to a thread but the error text, read right after the call.
unsafe impl Send for Module {}
// SAFETY: as above; outputs are read under `executing`.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and is not used again.
        unsafe { (self.api.module_destroy)(self.handle.as_ptr()) }
    }
}

impl Module {
    /// The names of the methods.
    pub fn methods(&self) -> Vec<String> {
        // SAFETY: the handle lives as long as `self`.
        let count = unsafe { (self.api.module_num_methods)(self.handle.as_ptr()) };
        // SAFETY: the handle lives as long as `self`, and so do the names.
        (0..count)
            .map(|i| unsafe { text((self.api.module_method_name)(self.handle.as_ptr(), i)) })
            .collect()
    }

    /// What a method takes and gives. Loads the method, which is when its delegates are
    /// initialised: without that, bounded sizes cannot be told from fixed ones.
    ///
    /// # Errors
    /// There is no such method, or it cannot be loaded.
    pub fn method_info(&self, method: &str) -> Result<MethodInfo> {
        self.load_method(method)?;
        let name = c_string(method.as_ref())?;
        let mut info: *const RawMethodInfo = std::ptr::null();
        // SAFETY: the handle and the name live during the call.
        let code = unsafe {
            (self.api.module_method_info)(self.handle.as_ptr(), name.as_ptr(), &raw mut info)
        };
        self.api.check(code)?;
        // SAFETY: on success, what `info` points to lives as long as the module.
        unsafe {
            let info = &*info;
            let values = |first, count| slice(first, count).iter().map(|v| value_info(v)).collect();
            Ok(MethodInfo {
                inputs: values(info.inputs, info.num_inputs),
                outputs: values(info.outputs, info.num_outputs),
                backends: slice(info.backends, info.num_backends)
                    .iter()
                    .map(|&b| text(b))
                    .collect(),
            })
        }
    }

    /// Makes a method ready: initialises its delegates, plans its memory.
    ///
    /// # Errors
    /// There is no such method, or it cannot be loaded.
    pub fn load_method(&self, method: &str) -> Result<()> {
        let name = c_string(method.as_ref())?;
        // SAFETY: the handle and the name live during the call.
        let code = unsafe { (self.api.module_load_method)(self.handle.as_ptr(), name.as_ptr()) };
        self.api.check(code)
    }

    /// Runs a method.
    ///
    /// # Errors
    /// Inputs do not fit the method (nothing was run then), or running failed.
    pub fn execute(&self, method: &str, inputs: &[Value]) -> Result<Vec<Value>> {
        let info = self.method_info(method)?;
        let given = Given::new(inputs, &info.inputs)?;
        let raw: Vec<RawValue> = given.0.iter().map(GivenValue::raw).collect();
        let name = c_string(method.as_ref())?;

        let _executing = self.executing.lock();
        // SAFETY: name, inputs and what they point to live during the call.
        let code = unsafe {
            (self.api.module_execute)(self.handle.as_ptr(), name.as_ptr(), raw.as_ptr(), raw.len())
        };
        self.api.check(code)?;
        // SAFETY: the handle lives as long as `self`.
        let count = unsafe { (self.api.module_num_outputs)(self.handle.as_ptr()) };
        (0..count).map(|i| self.output(i).context(|| format!("output {i}"))).collect()
    }

    /// Copies an output. Call it under `executing`.
    fn output(&self, index: usize) -> Result<Value> {
        let mut raw = RawValue::none();
        // SAFETY: the handle lives as long as `self`.
        let code = unsafe { (self.api.module_output)(self.handle.as_ptr(), index, &raw mut raw) };
        self.api.check(code)?;
        Ok(match raw.kind {
            kind::NONE => Value::None,
            kind::INT => Value::Int(raw.integer),
            kind::DOUBLE => Value::Double(raw.number),
            kind::BOOL => Value::Bool(raw.integer != 0),
            kind::TENSOR => {
                // SAFETY: the arrays are as long as told, until the module executes again.
                let (sizes, order, bytes) = unsafe {
                    (
                        slice(raw.sizes, raw.dim),
                        slice(raw.dim_order, raw.dim),
                        slice(raw.data.cast::<u8>(), raw.nbytes),
                    )
                };
                let sizes = sizes.iter().map(|&s| s as usize).collect();
                let dtype = DType::from_code(raw.dtype)?;
                Value::Tensor(HostTensor::from_order(dtype, sizes, order, bytes)?)
            }
            _ => return Err(err!(Unsupported, "a string or a list cannot be read")),
        })
    }
}

/// # Safety
/// `first` points to `count` elements that live for `'a`, or `count` is 0.
unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// # Safety
/// The arrays of `raw` are as long as it tells.
unsafe fn value_info(raw: &RawValueInfo) -> ValueInfo {
    match raw.kind {
        kind::NONE => ValueInfo::None,
        kind::INT => ValueInfo::Int(None),
        kind::DOUBLE => ValueInfo::Double(None),
        kind::BOOL => ValueInfo::Bool(None),
        kind::TENSOR => {
            // SAFETY: as the caller promises.
            let (sizes, order) =
                unsafe { (slice(raw.sizes, raw.dim), slice(raw.dim_order, raw.dim)) };
            ValueInfo::Tensor(TensorInfo {
                dtype_code: raw.dtype,
                sizes: sizes.iter().map(|&s| s as usize).collect(),
                dim_order: order.to_vec(),
                dynamism: match raw.shape_dynamism {
                    1 => Dynamism::Bounded,
                    2 => Dynamism::Unbounded,
                    _ => Dynamism::Static,
                },
            })
        }
        _ => ValueInfo::Other,
    }
}

/// The inputs of one call, in the form the C API takes.
struct Given<'a>(Vec<GivenValue<'a>>);

struct GivenValue<'a> {
    value: RawValue,
    sizes: Vec<i32>,
    dim_order: Vec<u8>,
    data: Cow<'a, [u8]>,
}

impl<'a> Given<'a> {
    /// Checks the inputs against the signature, and stores tensors in the order it asks for.
    fn new(inputs: &'a [Value], wanted: &[ValueInfo]) -> Result<Self> {
        check_inputs(inputs, wanted)?;
        inputs
            .iter()
            .zip(wanted)
            .map(|(i, w)| GivenValue::new(i, w))
            .collect::<Result<_>>()
            .map(Given)
    }
}

impl<'a> GivenValue<'a> {
    fn new(input: &'a Value, wanted: &ValueInfo) -> Result<Self> {
        let mut value = RawValue::none();
        let (mut sizes, mut dim_order, mut data) = (Vec::new(), Vec::new(), Cow::default());
        match input {
            Value::None => {}
            Value::Int(integer) => (value.kind, value.integer) = (kind::INT, *integer),
            Value::Double(number) => (value.kind, value.number) = (kind::DOUBLE, *number),
            Value::Bool(truth) => (value.kind, value.integer) = (kind::BOOL, i64::from(*truth)),
            Value::Tensor(tensor) => {
                value.kind = kind::TENSOR;
                value.dtype = tensor.dtype().code();
                sizes = tensor
                    .sizes()
                    .iter()
                    .map(|&s| i32::try_from(s))
                    .collect::<Result<_, _>>()
                    .map_err(|_| err!(InvalidArgument, "a size is beyond 2^31"))?;
                data = match wanted {
                    ValueInfo::Tensor(info) if !info.is_row_major() => {
                        dim_order.clone_from(&info.dim_order);
                        Cow::Owned(tensor.bytes_in_order(&dim_order)?)
                    }
                    _ => Cow::Borrowed(tensor.bytes()),
                };
            }
        }
        Ok(Self { value, sizes, dim_order, data })
    }

    /// The value with pointers into `self`.
    fn raw(&self) -> RawValue {
        RawValue {
            dim: self.sizes.len(),
            sizes: self.sizes.as_ptr(),
            dim_order: if self.dim_order.is_empty() {
                std::ptr::null()
            } else {
                self.dim_order.as_ptr()
            },
            data: self.data.as_ptr().cast::<c_void>(),
            nbytes: self.data.len(),
            ..self.value
        }
    }
}

/// Checks that a method with inputs `wanted` can be run with `inputs`.
///
/// # Errors
/// Names the first input that does not fit, and what would.
pub fn check_inputs(inputs: &[Value], wanted: &[ValueInfo]) -> Result<()> {
    if inputs.len() != wanted.len() {
        return Err(err!(
            InvalidArgument,
            "{} inputs given, the method takes {}",
            inputs.len(),
            wanted.len()
        ));
    }
    for (i, (input, wanted)) in inputs.iter().zip(wanted).enumerate() {
        let fits = match (input, wanted) {
            (Value::Tensor(tensor), ValueInfo::Tensor(info)) => {
                tensor.dtype().code() == info.dtype_code && info.accepts(tensor.sizes())
            }
            (Value::None, ValueInfo::None)
            | (Value::Int(_), ValueInfo::Int(_))
            | (Value::Double(_), ValueInfo::Double(_))
            | (Value::Bool(_), ValueInfo::Bool(_)) => true,
            _ => false,
        };
        if !fits {
            let given = match input {
                Value::None => "none".into(),
                Value::Int(value) => format!("int {value}"),
                Value::Double(value) => format!("double {value}"),
                Value::Bool(value) => format!("bool {value}"),
                Value::Tensor(tensor) => format!("{} {:?}", tensor.dtype(), tensor.sizes()),
            };
            return Err(err!(InvalidArgument, "input {i} is {given}, the method takes {wanted}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Vec<ValueInfo> {
        vec![
            ValueInfo::Tensor(TensorInfo {
                dtype_code: DType::F32.code(),
                sizes: vec![4, 8],
                dim_order: vec![0, 1],
                dynamism: Dynamism::Bounded,
            }),
            ValueInfo::Int(Some(3)),
        ]
    }

    fn tensor(dtype: DType, sizes: &[usize]) -> Value {
        let bytes = sizes.iter().product::<usize>() * dtype.size();
        HostTensor::new(dtype, sizes.to_vec(), vec![0; bytes]).unwrap().into()
    }

    #[test]
    fn inputs_that_fit_are_accepted() {
        check_inputs(&[tensor(DType::F32, &[2, 8]), Value::Int(3)], &wanted()).unwrap();
    }

    #[test]
    fn the_input_that_does_not_fit_is_named() {
        let message = |inputs: &[Value]| check_inputs(inputs, &wanted()).unwrap_err().to_string();
        assert_eq!(message(&[]), "0 inputs given, the method takes 2");
        assert_eq!(
            message(&[tensor(DType::F32, &[5, 8]), Value::Int(3)]),
            "input 0 is float32 [5, 8], the method takes float32 [≤4, ≤8]"
        );
        assert_eq!(
            message(&[tensor(DType::I64, &[4, 8]), Value::Int(3)]),
            "input 0 is int64 [4, 8], the method takes float32 [≤4, ≤8]"
        );
        assert_eq!(
            message(&[tensor(DType::F32, &[4, 8]), Value::Bool(true)]),
            "input 1 is bool true, the method takes int 3"
        );
    }
}
