//! MPSCommandBuffer, MPSNDArray.

use std::cell::{Cell, RefCell};

use objc2::rc::{Allocated, Retained};
use objc2::runtime::{AnyObject, NSObject, ProtocolObject};
use objc2::{AnyThread, DefinedClass, Message, define_class, msg_send};
use objc2_foundation::{NSArray, NSNumber};
use objc2_metal::{
    MTLBlitCommandEncoder, MTLBuffer, MTLCommandBuffer, MTLCommandQueue, MTLComputeCommandEncoder,
};
use objc2_metal_performance_shaders::{MPSCommandBuffer, MPSDataType};

use super::buffer::SharedBuffer;
use super::command::Commands;
use super::device::Queue;
use super::ours;
use crate::foundation::numbers::sizes_of;
use crate::violations::violation;

define_class!(
    /// A command buffer that can go on with another underneath.
    #[unsafe(super(NSObject))]
    #[name = "MPSCommandBuffer"]
    #[ivars = RefCell<Retained<Commands>>]
    pub struct MpsCommands;

    impl MpsCommands {
        #[unsafe(method_id(commandBufferFromCommandQueue:))]
        fn of_queue(queue: &ProtocolObject<dyn MTLCommandQueue>) -> Retained<Self> {
            let _ = ours::<Queue>(queue);
            let this = Self::alloc().set_ivars(RefCell::new(Commands::make()));
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method_id(rootCommandBuffer))]
        fn root(&self) -> Retained<ProtocolObject<dyn MTLCommandBuffer>> {
            ProtocolObject::from_retained(self.underneath())
        }

        #[unsafe(method(commitAndContinue))]
        fn commit_and_continue(&self) {
            self.go_on();
        }

        #[unsafe(method(commit))]
        fn commit(&self) {
            self.underneath().submit();
        }

        #[unsafe(method_id(computeCommandEncoder))]
        fn compute_encoder(
            &self,
        ) -> Option<Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>> {
            self.underneath().compute().map(ProtocolObject::from_retained)
        }

        #[unsafe(method_id(blitCommandEncoder))]
        fn blit_encoder(&self) -> Option<Retained<ProtocolObject<dyn MTLBlitCommandEncoder>>> {
            self.underneath().blit().map(ProtocolObject::from_retained)
        }
    }
);

impl MpsCommands {
    /// The command buffer that commands go to now.
    pub fn underneath(&self) -> Retained<Commands> {
        self.ivars().borrow().clone()
    }

    /// The object behind the bindings' type.
    pub fn of(commands: &MPSCommandBuffer) -> &MpsCommands {
        let object: &AnyObject = commands.as_ref();
        object.downcast_ref::<MpsCommands>().expect("a command buffer")
    }

    /// Commits and goes on with another, as MPSGraph may do while it encodes.
    pub fn go_on(&self) {
        self.underneath().submit();
        *self.ivars().borrow_mut() = Commands::make();
    }
}

/// The type and sizes of an array.
pub struct Described {
    pub(crate) data_type: MPSDataType,
    pub(crate) sizes: Vec<i64>,
    packed: Cell<bool>,
}

define_class!(
    /// The type and sizes of an array.
    #[unsafe(super(NSObject))]
    #[name = "MPSNDArrayDescriptor"]
    #[ivars = Described]
    pub struct NdArrayDescriptor;

    impl NdArrayDescriptor {
        #[unsafe(method_id(descriptorWithDataType:shape:))]
        fn make(data_type: MPSDataType, shape: &NSArray<NSNumber>) -> Retained<Self> {
            let sizes = sizes_of(shape);
            let this =
                Self::alloc().set_ivars(Described { data_type, sizes, packed: Cell::new(false) });
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(setPreferPackedRows:))]
        fn set_packed(&self, packed: bool) {
            self.ivars().packed.set(packed);
        }
    }
);

/// A part of a buffer.
pub struct Placed {
    pub(crate) buffer: Retained<SharedBuffer>,
    pub(crate) offset: usize,
    pub(crate) descriptor: Retained<NdArrayDescriptor>,
}

define_class!(
    /// An array in a buffer.
    #[unsafe(super(NSObject))]
    #[name = "MPSNDArray"]
    #[ivars = Placed]
    pub struct NdArray;

    impl NdArray {
        #[unsafe(method_id(initWithBuffer:offset:descriptor:))]
        fn init_at(
            this: Allocated<Self>,
            buffer: &ProtocolObject<dyn MTLBuffer>,
            offset: usize,
            descriptor: &NdArrayDescriptor,
        ) -> Option<Retained<Self>> {
            if !descriptor.ivars().packed.get() {
                violation("mps", "an array whose rows may be padded");
            }
            let buffer = ours::<SharedBuffer>(buffer).retain();
            let this =
                this.set_ivars(Placed { buffer, offset, descriptor: descriptor.retain() });
            unsafe { msg_send![super(this), init] }
        }
    }
);
