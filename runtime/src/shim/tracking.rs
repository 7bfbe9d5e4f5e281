//! What is lent to C now, by which call, and what models left behind: for finding leaks.
//!
//! The tables of the [`registry`](super::registry) are the record of what is lent. While tracking
//! is on, their entries also know the call that made them, and what is swept up after a model is
//! kept here. Off, a call looks at one flag.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::registry::Owner;
use crate::tensor::DType;

/// Environment variable that turns tracking on, when it is `1`.
pub const TRACK_VARIABLE: &str = "ETMETAL_TRACK";

/// Objects left behind that are kept; of more, only the number.
const MOST_LEFT: usize = 4096;

/// What kind of object was lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A tensor's handle.
    Tensor,
    /// A shader library's handle, with those of its kernels.
    Library,
    /// Memory of `aoti_torch_mps_malloc`.
    Memory,
}

impl Kind {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tensor => "tensor",
            Kind::Library => "shader library",
            Kind::Memory => "memory",
        }
    }
}

/// One object that was lent to C.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: Kind,
    /// On behalf of which model.
    pub owner: Owner,
    /// The C function that made it; "" if it was made outside of one (the inputs of a run), or
    /// while tracking was off.
    pub made_by: &'static str,
    /// Bytes from its first element to its last. A library's are not counted: 0.
    pub bytes: usize,
    /// A tensor's element type, unless it is undefined.
    pub dtype: Option<DType>,
    /// A tensor's sizes.
    pub sizes: Vec<i64>,
    /// A library's name.
    pub label: Option<String>,
}

/// What models left behind when they were destroyed, since tracking was turned on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// The objects.
    pub records: Vec<Record>,
    /// How many more there were, beyond what is kept.
    pub more: usize,
}

static LEFT: Mutex<LeftBehind> = Mutex::new(LeftBehind { records: Vec::new(), more: 0 });

thread_local! {
    /// The C function that runs on this thread, innermost.
    static CALL: Cell<&'static str> = const { Cell::new("") };
}

fn switch() -> &'static AtomicBool {
    static SWITCH: OnceLock<AtomicBool> = OnceLock::new();
    SWITCH.get_or_init(|| {
        AtomicBool::new(std::env::var(TRACK_VARIABLE).is_ok_and(|value| value == "1"))
    })
}

/// Whether tracking is on.
pub fn enabled() -> bool {
    switch().load(Ordering::Relaxed)
}

/// Turns tracking on or off. What was recorded stays.
pub fn enable(on: bool) {
    switch().store(on, Ordering::Relaxed);
}

/// Runs the C function `name`: what it lends is of its making.
pub(super) fn during<T>(name: &'static str, body: impl FnOnce() -> T) -> T {
    if !enabled() {
        return body();
    }
    // A static destructor may call when the thread's variables are gone; then nobody is named.
    let outer = CALL.try_with(|call| call.replace(name)).unwrap_or_default();
    let result = body();
    let _ = CALL.try_with(|call| call.set(outer));
    result
}

/// The C function that lends something now.
pub(super) fn current_call() -> &'static str {
    if enabled() { CALL.try_with(Cell::get).unwrap_or_default() } else { "" }
}

/// Keeps what a model left behind.
pub(super) fn keep_left(records: impl Iterator<Item = Record>) {
    if !enabled() {
        return;
    }
    let records: Vec<Record> = records.collect();
    let mut left = LEFT.lock();
    for record in records {
        if left.records.len() < MOST_LEFT {
            left.records.push(record);
        } else {
            left.more += 1;
        }
    }
}

/// What models left behind.
pub fn left_behind() -> LeftBehind {
    LEFT.lock().clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::mps::memory::aoti_torch_mps_malloc;
    use crate::shim::registry;
    use crate::shim::testing::{call, empty, get, model};

    /// Serialises the tests that turn the switch, which is the process's.
    static SWITCH: Mutex<()> = Mutex::new(());

    fn of(owner: Owner, records: Vec<Record>) -> Vec<Record> {
        records.into_iter().filter(|record| record.owner == owner).collect()
    }

    #[test]
    fn objects_know_what_made_them_and_are_told_when_left() {
        let _switch = SWITCH.lock();
        enable(true);
        let (model, guard) = model();
        let owner = model.owner();
        let kept = empty(&[2, 3], &[4, 1], DType::F16.code(), DEVICE_MPS);
        let freed = empty(&[5], &[1], DType::F32.code(), DEVICE_MPS);
        let twin = get!(crate::shim::create::aoti_torch_new_tensor_handle, kept).unwrap();
        let memory = get!(aoti_torch_mps_malloc_of_48).unwrap();
        assert!(!memory.is_null());
        call!(crate::shim::create::aoti_torch_delete_tensor_object, freed).unwrap();
        call!(crate::shim::create::aoti_torch_delete_tensor_object, twin).unwrap();
        let tensor = Record {
            kind: Kind::Tensor,
            owner,
            made_by: "aoti_torch_empty_strided",
            bytes: 14,
            dtype: Some(DType::F16),
            sizes: vec![2, 3],
            label: None,
        };
        let memory = Record {
            kind: Kind::Memory,
            owner,
            made_by: "aoti_torch_mps_malloc",
            bytes: 48,
            dtype: None,
            sizes: vec![],
            label: None,
        };
        let expected = vec![tensor, memory];
        assert_eq!(of(owner, registry::live()), expected);
        assert_eq!(of(owner, left_behind().records), []);
        drop(guard);
        assert_eq!(model.release(), 2);
        assert_eq!(of(owner, registry::live()), []);
        assert_eq!(of(owner, left_behind().records), expected);
        enable(false);
    }

    /// `aoti_torch_mps_malloc` with the result last.
    unsafe fn aoti_torch_mps_malloc_of_48(
        buffer: crate::shim::abi::Out<*mut std::ffi::c_void>,
    ) -> crate::shim::abi::Status {
        // SAFETY: a place for the result.
        unsafe { aoti_torch_mps_malloc(buffer, 48) }
    }

    #[test]
    fn nothing_is_kept_while_it_is_off() {
        let _switch = SWITCH.lock();
        enable(false);
        let (model, guard) = model();
        empty(&[5], &[1], DType::F32.code(), DEVICE_MPS);
        assert_eq!(of(model.owner(), registry::live())[0].made_by, "");
        drop(guard);
        assert_eq!(model.release(), 1);
        assert_eq!(of(model.owner(), left_behind().records), []);
    }
}
