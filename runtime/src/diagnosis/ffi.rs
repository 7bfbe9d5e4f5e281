//! The C functions of `cpp/etmetal_delegate.h` for the command `etmetal`.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::comparing::ComparingDevice;
use super::selftest;
use crate::delegate::ffi::write_text;
use crate::device::host::{HostDevice, Options};
use crate::device::{Device, default_device, device_named, use_on_this_thread};
use crate::error::err;
use crate::{Error, Result};

thread_local! {
    /// The comparing device that [`etmetal_device_use`] chose last.
    static COMPARING: RefCell<Option<Arc<ComparingDevice>>> = const { RefCell::new(None) };
}

/// # Safety
/// `pointer` is null or a C string that lives during the call.
unsafe fn text_of(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: a C string, as the caller promises.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// Runs the body of a function; a panic is an error.
fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or(panic.downcast_ref::<String>().map(String::as_str));
        Err(err!(Internal, "{}", text.unwrap_or("a panic without a message")))
    })
}

/// Makes a device the default of the calling thread: `host`, `metal`, `compare metal` (with the
/// host device), `compare host` (with another host device, which runs on one thread and checks
/// each access of a shader); null takes that back. Returns the bytes of the text of the error,
/// which it writes as `etmetal_stats_json` does; 0 if there is none.
///
/// # Safety
/// `name` is null or a C string; `error` is null or may be written for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_device_use(
    name: *const c_char,
    error: *mut c_char,
    capacity: usize,
) -> usize {
    let chosen = guarded(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { text_of(name) };
        let Some(name) = name else {
            use_on_this_thread(None);
            return Ok(());
        };
        let Some(subject) = name.strip_prefix("compare ") else {
            use_on_this_thread(Some(named(&name)?));
            return Ok(());
        };
        let reference: Arc<dyn Device> = match subject {
            "host" => Arc::new(HostDevice::new(Options {
                threads: 1,
                checked: true,
                ..Options::from_env()?
            })),
            _ => HostDevice::try_shared()?,
        };
        let comparing = Arc::new(ComparingDevice::new(named(subject)?, reference));
        COMPARING.set(Some(comparing.clone()));
        use_on_this_thread(Some(comparing));
        Ok(())
    });
    let text = chosen.err().map_or_else(String::new, |error| error.to_string());
    // SAFETY: as the caller promises.
    unsafe { write_text(&text, error, capacity) }
}

/// The device of this name.
fn named(name: &str) -> Result<Arc<dyn Device>> {
    if name == "metal" && !cfg!(any(target_vendor = "apple", metal_standin)) {
        return Err(err!(
            Unsupported,
            "there is no Metal device here: only Apple's systems have Metal"
        ));
    }
    device_named(Some(name))
}

/// What the comparing device that this thread chose has found, as JSON; returns and writes as
/// `etmetal_stats_json` does. Without one it is `null`.
///
/// # Safety
/// `buffer` is null or may be written for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_comparison_json(buffer: *mut c_char, capacity: usize) -> usize {
    let json = guarded(|| Ok(COMPARING.with_borrow(|c| c.as_ref().map(|c| c.json()))));
    let text = json.ok().flatten().unwrap_or(Value::Null).to_string();
    // SAFETY: as the caller promises.
    unsafe { write_text(&text, buffer, capacity) }
}

/// What takes the lines of a self-test.
pub type Sink = unsafe extern "C" fn(context: *mut c_void, line: *const c_char, length: usize);

/// Makes the checks of [`selftest`] on a device (`metal`, `host`, null for the default), with the
/// models in a folder unless `models` is null. Each line that `sink` is given is JSON: first one
/// that tells the device (`device`), then one for each check, or one with an `error`, which ends
/// it.
///
/// # Safety
/// The names are null or C strings; `sink` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_selftest(
    device: *const c_char,
    models: *const c_char,
    sink: Sink,
    context: *mut c_void,
) {
    let tell = |line: &Value| {
        let line = line.to_string();
        // SAFETY: as the caller promises; the line lives during the call.
        unsafe { sink(context, line.as_ptr().cast(), line.len()) };
    };
    let done = guarded(|| {
        // SAFETY: as the caller promises.
        let (device, models) = unsafe { (text_of(device), text_of(models)) };
        let device = device.as_deref().map_or_else(default_device, named)?;
        let (kind, name) = (device.kind().to_string(), device.name());
        let limits = device.limits();
        tell(&json!({
            "system": super::system::facts(),
            "device": { "kind": kind, "name": name },
            "limits": {
                "threads_per_threadgroup": limits.max_threads_per_threadgroup,
                "threadgroup_memory": limits.max_threadgroup_memory,
                "buffer_length": limits.max_buffer_length,
            },
        }));
        selftest::run(device, models.as_deref().map(Path::new), &mut |check| tell(&check.json()))
    });
    if let Err(error) = done {
        tell(&error_json(&error));
    }
}

fn error_json(error: &Error) -> Value {
    json!({ "error": error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn choose(name: Option<&str>) -> String {
        let name = name.map(|name| CString::new(name).unwrap());
        let pointer = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        let mut error = [0u8; 200];
        // SAFETY: a C string, and a buffer of that length.
        let len = unsafe { etmetal_device_use(pointer, error.as_mut_ptr().cast(), 200) };
        String::from_utf8(error[..len].to_vec()).unwrap()
    }

    #[test]
    fn a_thread_chooses_its_device() {
        assert_eq!(choose(Some("compare host")), "");
        let chosen = default_device().unwrap();
        assert!(chosen.name().contains(" against "), "{}", chosen.name());
        let others = std::thread::spawn(|| default_device().unwrap().name()).join().unwrap();
        assert!(!others.contains(" against "), "{others}");
        let mut text = [0u8; 2000];
        // SAFETY: a buffer of that length.
        let len = unsafe { etmetal_comparison_json(text.as_mut_ptr().cast(), 2000) };
        let found: Value = serde_json::from_slice(&text[..len]).unwrap();
        assert_eq!((&found["subject"]["kind"], &found["commands"]), (&json!("host"), &json!(0)));
        assert_eq!(choose(None), "");
        assert!(!default_device().unwrap().name().contains(" against "));
    }

    #[test]
    #[cfg(not(any(target_vendor = "apple", metal_standin)))]
    fn without_metal_that_is_said() {
        let text = choose(Some("compare metal"));
        assert!(text.contains("there is no Metal device here"), "{text}");
        let text = choose(Some("gpu"));
        assert!(text.contains("\"gpu\" names no device"), "{text}");
    }
}
