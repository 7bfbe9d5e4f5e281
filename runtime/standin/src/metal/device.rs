//! MTLDevice and MTLCommandQueue.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use block2::{DynBlock, RcBlock};
use objc2::rc::Retained;
use objc2::runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject};
use objc2::{AnyThread, define_class, msg_send};
use objc2_foundation::{NSError, NSString};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLBuffer, MTLCommandQueue, MTLCompileOptions,
    MTLComputePipelineDescriptor, MTLComputePipelineReflection, MTLComputePipelineState, MTLDevice,
    MTLLibrary, MTLPipelineOption, MTLResourceOptions, MTLSize,
};

use super::archive::{ArchiveDescriptor, BinaryArchive};
use super::buffer::{LARGEST, PAGE, SharedBuffer};
use super::library::{CompileOptions, Library, PipelineDescriptor, PipelineState, Reflection};
use crate::foundation::errors::give;
use crate::foundation::strings::string;
use crate::violations::violation;

/// Whether the GPU takes no memory of others.
static REFUSES: AtomicBool = AtomicBool::new(false);

/// Has the GPU take no memory of others, or take it again.
pub fn refuse_others_memory(refuse: bool) {
    REFUSES.store(refuse, SeqCst);
}

define_class!(
    /// The GPU.
    #[unsafe(super(NSObject))]
    #[name = "StandinDevice"]
    pub struct Gpu;

    unsafe impl NSObjectProtocol for Gpu {}

    unsafe impl MTLDevice for Gpu {
        #[unsafe(method_id(name))]
        fn device_name(&self) -> Retained<NSString> {
            string("Stand-in GPU")
        }

        #[unsafe(method(maxThreadsPerThreadgroup))]
        fn max_threads(&self) -> MTLSize {
            MTLSize { width: 1024, height: 1024, depth: 1024 }
        }

        #[unsafe(method(maxThreadgroupMemoryLength))]
        fn max_threadgroup_memory(&self) -> usize {
            32 << 10
        }

        #[unsafe(method(maxBufferLength))]
        fn max_buffer_length(&self) -> usize {
            LARGEST
        }

        #[unsafe(method_id(newCommandQueue))]
        fn new_queue(&self) -> Option<Retained<ProtocolObject<dyn MTLCommandQueue>>> {
            let queue: Retained<Queue> = unsafe { msg_send![Queue::alloc(), init] };
            Some(ProtocolObject::from_retained(queue))
        }

        #[unsafe(method_id(newBufferWithLength:options:))]
        fn new_buffer(
            &self,
            len: usize,
            options: MTLResourceOptions,
        ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
            check_options(options);
            let possible = len != 0 && len <= LARGEST;
            if !possible {
                violation("metal", format!("newBufferWithLength: {len}"));
            }
            possible.then(|| ProtocolObject::from_retained(SharedBuffer::allocate(len)))
        }

        #[unsafe(method_id(newBufferWithBytesNoCopy:length:options:deallocator:))]
        fn wrap(
            &self,
            start: NonNull<c_void>,
            len: usize,
            options: MTLResourceOptions,
            deallocator: Option<&DynBlock<dyn Fn(NonNull<c_void>, usize)>>,
        ) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
            check_options(options);
            let whole = start.addr().get() % PAGE == 0 && len % PAGE == 0 && len != 0;
            if !whole {
                violation("metal", format!("newBufferWithBytesNoCopy: {start:p}, {len}: no pages"));
            }
            let taken = whole && len <= LARGEST && !REFUSES.load(SeqCst);
            taken.then(|| {
                let deallocator = deallocator.and_then(|block| unsafe {
                    RcBlock::copy(std::ptr::from_ref(block).cast_mut())
                });
                let buffer = SharedBuffer::wrap(start.cast(), len, deallocator);
                ProtocolObject::from_retained(buffer)
            })
        }

        #[unsafe(method_id(newLibraryWithSource:options:error:))]
        fn new_library(
            &self,
            source: &NSString,
            options: Option<&MTLCompileOptions>,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLLibrary>>> {
            CompileOptions::check(options);
            match Library::compile(&source.to_string()) {
                Ok(library) => Some(ProtocolObject::from_retained(library)),
                Err(text) => {
                    give(error, &text.to_string());
                    None
                }
            }
        }

        #[unsafe(method_id(newComputePipelineStateWithDescriptor:options:reflection:error:))]
        fn new_pipeline(
            &self,
            descriptor: &MTLComputePipelineDescriptor,
            options: MTLPipelineOption,
            reflection: *mut *mut MTLComputePipelineReflection,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLComputePipelineState>>> {
            let Some((function, archives)) = PipelineDescriptor::parts(descriptor) else {
                crate::foundation::errors::invalid("computeFunction must not be nil")
            };
            let stored = archives.iter().any(|archive| archive.has(&function.identity()));
            let missed = options.contains(MTLPipelineOption::FailOnBinaryArchiveMiss) && !stored;
            let made = match missed {
                true => Err("no archive has the function".to_owned()),
                false => PipelineState::make(&function).map_err(|error| error.to_string()),
            };
            match made {
                Ok(state) => {
                    if !reflection.is_null() {
                        unsafe { *reflection = Retained::autorelease_ptr(Reflection::of(&state)) };
                    }
                    Some(ProtocolObject::from_retained(state))
                }
                Err(text) => {
                    give(error, &text);
                    None
                }
            }
        }

        #[unsafe(method_id(newBinaryArchiveWithDescriptor:error:))]
        fn new_archive(
            &self,
            descriptor: &MTLBinaryArchiveDescriptor,
            error: *mut *mut NSError,
        ) -> Option<Retained<ProtocolObject<dyn MTLBinaryArchive>>> {
            match BinaryArchive::open(ArchiveDescriptor::path(descriptor).as_deref()) {
                Ok(archive) => Some(ProtocolObject::from_retained(archive)),
                Err(text) => {
                    give(error, &text);
                    None
                }
            }
        }
    }
);

unsafe impl Send for Gpu {}
unsafe impl Sync for Gpu {}

define_class!(
    /// A queue of command buffers.
    #[unsafe(super(NSObject))]
    #[name = "StandinCommandQueue"]
    pub struct Queue;

    unsafe impl NSObjectProtocol for Queue {}
    unsafe impl MTLCommandQueue for Queue {}
);

unsafe impl Send for Queue {}
unsafe impl Sync for Queue {}

fn check_options(options: MTLResourceOptions) {
    if options != MTLResourceOptions::StorageModeShared {
        violation("metal", format!("storage {options:?}: the CPU must be able to use it"));
    }
}

/// The only device there is.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn MTLCreateSystemDefaultDevice() -> *mut AnyObject {
    static DEVICE: OnceLock<usize> = OnceLock::new();
    let device = *DEVICE.get_or_init(|| {
        let device: Retained<Gpu> = unsafe { msg_send![Gpu::alloc(), init] };
        Retained::into_raw(device) as usize
    });
    unsafe { crate::objc::objects::objc_retain(device as _).cast() }
}
