//! A stand-in for what the Metal device of etmetal binds to: the Objective-C runtime, and the
//! classes and methods of Foundation, Metal, Metal Performance Shaders and MPSGraph that it uses.
//!
//! With it the device's code runs on Linux, in tests: Metal's API is validated as Metal's own
//! validation layer does and more strictly, kernels run through the host device's compiler, and
//! graphs through its operators. It shows that the device keeps the rules of the API and computes
//! what it should from operators that do what they promise. It does not show how Apple's
//! implementation behaves.
//!
//! | module | what it stands for |
//! |---|---|
//! | `objc` | the Objective-C runtime: classes, messages, reference counts, pools, blocks |
//! | `foundation` | strings, numbers, collections, errors, exceptions |
//! | `metal` | devices, buffers, libraries, command buffers; MPSCommandBuffer, MPSNDArray |
//! | `graph` | MPSGraph and its executables |
//!
//! Whatever breaks a rule is recorded; see `violations`. The crate is empty unless it is
//! compiled with `--cfg metal_standin`.
#![cfg(metal_standin)]
#![expect(
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    reason = "C symbols and methods that only bindings call, by the bindings' own contracts"
)]

extern crate etmetal as _;

pub mod foundation;
pub mod graph;
pub mod metal;
pub mod objc;
pub mod violations;

/// Makes all classes known to the runtime, before the first message.
pub(crate) fn register_classes() {
    foundation::register();
    metal::register();
    graph::register();
}
