//! What is lent to models and what they left behind, as JSON for people and tools.

use std::ffi::c_char;

use serde_json::{Value, json};

use super::ffi::write_text;
use crate::shim::registry;
use crate::shim::tracking::{self, Record};

/// What is lent now (`live`), and what destroyed models left behind (`left_behind`).
pub fn json() -> Value {
    let left = tracking::left_behind();
    json!({
        "enabled": tracking::enabled(),
        "live": registry::live().iter().map(record_json).collect::<Vec<_>>(),
        "left_behind": left.records.iter().map(record_json).collect::<Vec<_>>(),
        "left_behind_more": left.more,
    })
}

fn record_json(record: &Record) -> Value {
    json!({
        "kind": record.kind.name(),
        "model": record.owner.number(),
        "made_by": record.made_by,
        "bytes": record.bytes,
        "dtype": record.dtype.map(|dtype| dtype.name()),
        "shape": record.dtype.map(|_| &record.sizes),
        "label": record.label,
    })
}

/// Turns tracking on or off for the process.
#[unsafe(no_mangle)]
pub extern "C" fn etmetal_tracking_enable(on: bool) {
    tracking::enable(on);
}

/// What is lent to models and what they left behind as JSON; returns the bytes needed without
/// the final NUL and writes at most `capacity` bytes including it.
///
/// # Safety
/// `buffer` is null or may be written for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_tracked_json(buffer: *mut c_char, capacity: usize) -> usize {
    let text = std::panic::catch_unwind(|| json().to_string()).unwrap_or_default();
    // SAFETY: as the caller promises.
    unsafe { write_text(&text, buffer, capacity) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::contiguous;
    use crate::shim::context;
    use crate::tensor::DType;

    #[test]
    fn lent_tensors_are_described() {
        let handle = context::lend(contiguous(DType::Bf16, &[17, 3], &[]));
        let mut buffer = vec![0u8; 1 << 20];
        // SAFETY: the buffer's own bytes.
        let len = unsafe { etmetal_tracked_json(buffer.as_mut_ptr().cast(), buffer.len()) };
        context::take(handle).unwrap();
        let value: Value = serde_json::from_slice(&buffer[..len]).unwrap();
        let mine = |t: &&Value| t["shape"] == json!([17, 3]) && t["dtype"] == "bfloat16";
        let tensor = value["live"].as_array().unwrap().iter().find(mine).unwrap();
        assert_eq!((&tensor["kind"], &tensor["bytes"]), (&json!("tensor"), &json!(102)));
        assert!(!json()["live"].as_array().unwrap().iter().any(|t| mine(&t)));
    }
}
