//! Metal, with the rules of its API checked, over the host device of etmetal.
//!
//! Work runs as late as Metal allows: when somebody waits for it. So a missing wait shows, and so
//! does memory that is used again too early.

use std::sync::{Arc, OnceLock};

use etmetal::device::host::{HostDevice, Options};
use objc2::ClassType;
use objc2::runtime::{AnyObject, ProtocolObject};

pub mod archive;
pub mod buffer;
pub mod command;
pub mod device;
pub mod encoders;
pub mod library;
pub mod mps;

/// The host device that everything runs on.
pub fn host() -> &'static Arc<HostDevice> {
    static HOST: OnceLock<Arc<HostDevice>> = OnceLock::new();
    HOST.get_or_init(|| Arc::new(HostDevice::new(Options::from_env().expect("a good environment"))))
}

/// The object behind a protocol reference, which must be of our class.
pub(crate) fn ours<T: objc2::DowncastTarget>(object: &ProtocolObject<impl ?Sized>) -> &T {
    let object = unsafe { &*std::ptr::from_ref(object).cast::<AnyObject>() };
    object.downcast_ref::<T>().unwrap_or_else(|| {
        panic!("a {} where a {} is wanted", object.class(), std::any::type_name::<T>())
    })
}

pub(crate) fn register() {
    let _ = (
        archive::ArchiveDescriptor::class(),
        archive::BinaryArchive::class(),
        buffer::SharedBuffer::class(),
        command::Commands::class(),
        device::Gpu::class(),
        device::Queue::class(),
        encoders::Blit::class(),
        encoders::Compute::class(),
        library::Binding::class(),
        library::CompileOptions::class(),
        library::Function::class(),
        library::Library::class(),
        library::PipelineDescriptor::class(),
        library::PipelineState::class(),
        library::Reflection::class(),
        mps::NdArray::class(),
        mps::NdArrayDescriptor::class(),
        mps::MpsCommands::class(),
    );
}
