//! Tensors of graphs, tensors with data, and descriptions.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;

use etmetal::tensor::DType;
use objc2::rc::{Allocated, Retained};
use objc2::runtime::{NSObject, ProtocolObject};
use objc2::{AnyThread, DefinedClass, Message, define_class, msg_send};
use objc2_foundation::{NSArray, NSNumber};
use objc2_metal::{MTLBuffer, MTLDevice};
use objc2_metal_performance_shaders::MPSDataType;
use objc2_metal_performance_shaders_graph::{
    MPSGraphPaddingStyle, MPSGraphTensorNamedDataLayout as DataLayout,
};

use super::value::{Value, count, dtype_of};
use crate::foundation::errors::invalid;
use crate::foundation::numbers::{shape_of, sizes_of};
use crate::metal::buffer::SharedBuffer;
use crate::metal::device::Gpu;
use crate::metal::mps::NdArray;
use crate::metal::ours;

/// MPSGraph's shapes.
pub type Shape = NSArray<NSNumber>;

/// A node of a graph.
pub struct Place {
    pub(crate) graph: usize,
    pub(crate) node: usize,
    pub(crate) dtype: DType,
    pub(crate) sizes: Vec<i64>,
}

define_class!(
    /// A tensor of a graph.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphTensor"]
    #[ivars = Place]
    pub struct GraphTensor;

    impl GraphTensor {
        #[unsafe(method_id(copyWithZone:))]
        fn copy(&self, _zone: *mut c_void) -> Retained<Self> {
            self.retain()
        }

        #[unsafe(method_id(shape))]
        fn shape(&self) -> Option<Retained<Shape>> {
            Some(shape_of(&self.ivars().sizes))
        }
    }
);

impl GraphTensor {
    /// The tensor of a node.
    pub fn make(place: Place) -> Retained<Self> {
        let this = Self::alloc().set_ivars(place);
        unsafe { msg_send![super(this), init] }
    }
}

/// Elements in a buffer.
pub struct Data {
    buffer: Retained<SharedBuffer>,
    offset: usize,
    pub(crate) dtype: DType,
    pub(crate) sizes: Vec<i64>,
}

define_class!(
    /// A tensor with data.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphTensorData"]
    #[ivars = Data]
    pub struct TensorData;

    impl TensorData {
        #[unsafe(method_id(initWithMTLBuffer:shape:dataType:))]
        fn init_buffer(
            this: Allocated<Self>,
            buffer: &ProtocolObject<dyn MTLBuffer>,
            shape: &Shape,
            data_type: MPSDataType,
        ) -> Option<Retained<Self>> {
            let buffer = ours::<SharedBuffer>(buffer).retain();
            let this = this.set_ivars(Data::new(buffer, 0, data_type, sizes_of(shape)));
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method_id(initWithMPSNDArray:))]
        fn init_array(this: Allocated<Self>, array: &NdArray) -> Option<Retained<Self>> {
            let placed = array.ivars();
            let described = placed.descriptor.ivars();
            let (data_type, sizes) = (described.data_type, described.sizes.clone());
            let data = Data::new(placed.buffer.clone(), placed.offset, data_type, sizes);
            unsafe { msg_send![super(this.set_ivars(data)), init] }
        }
    }
);

impl Data {
    fn new(
        buffer: Retained<SharedBuffer>,
        offset: usize,
        data_type: MPSDataType,
        sizes: Vec<i64>,
    ) -> Data {
        let Some(dtype) = dtype_of(data_type) else { invalid("no such data type") };
        let bytes = count(&sizes) * dtype.size();
        if sizes.iter().any(|&size| size < 1) {
            invalid(&format!("tensor data of sizes {sizes:?}"));
        }
        if offset + bytes > buffer.len() {
            invalid(&format!("{bytes} bytes at {offset} of a buffer of {}", buffer.len()));
        }
        Data { buffer, offset, dtype, sizes }
    }
}

impl TensorData {
    /// Where its elements lie.
    fn bytes(&self) -> NonNull<[u8]> {
        let data = self.ivars();
        let len = count(&data.sizes) * data.dtype.size();
        let start = etmetal::device::Buffer::contents(&**data.buffer.on_host());
        let start = NonNull::new(unsafe { start.add(data.offset) }).expect("memory");
        NonNull::slice_from_raw_parts(start, len)
    }

    /// Its elements now.
    pub fn read(&self) -> Value {
        let value = Value::new(self.ivars().dtype, &self.ivars().sizes);
        value.bytes_mut().copy_from_slice(unsafe { self.bytes().as_ref() });
        value
    }

    /// Stores elements.
    pub fn write(&self, value: &Value) {
        unsafe { self.bytes().as_mut() }.copy_from_slice(value.bytes());
    }
}

define_class!(
    /// A type and sizes.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphShapedType"]
    #[ivars = (MPSDataType, Vec<i64>)]
    pub struct ShapedType;

    impl ShapedType {
        #[unsafe(method_id(initWithShape:dataType:))]
        fn init_shape(
            this: Allocated<Self>,
            shape: Option<&Shape>,
            data_type: MPSDataType,
        ) -> Option<Retained<Self>> {
            let sizes = shape.map(sizes_of).unwrap_or_default();
            let this = this.set_ivars((data_type, sizes));
            unsafe { msg_send![super(this), init] }
        }
    }
);

define_class!(
    /// A device for graphs.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphDevice"]
    pub struct GraphDevice;

    impl GraphDevice {
        #[unsafe(method_id(deviceWithMTLDevice:))]
        fn of_device(device: &ProtocolObject<dyn MTLDevice>) -> Retained<Self> {
            let _ = ours::<Gpu>(device);
            unsafe { msg_send![Self::alloc(), init] }
        }
    }
);

define_class!(
    /// How a graph is compiled.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphCompilationDescriptor"]
    pub struct CompilationDescriptor;
);

define_class!(
    /// How an executable runs.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphExecutableExecutionDescriptor"]
    #[ivars = Cell<bool>]
    pub struct ExecutionDescriptor;

    impl ExecutionDescriptor {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            unsafe { msg_send![super(this.set_ivars(Cell::new(false))), init] }
        }

        #[unsafe(method(setWaitUntilCompleted:))]
        fn set_wait(&self, wait: bool) {
            self.ivars().set(wait);
        }
    }
);

/// The parameters of a convolution, from the outermost spatial dimension.
#[derive(Clone)]
pub struct Parameters {
    pub(crate) stride: Vec<i64>,
    pub(crate) padding: Vec<i64>,
    pub(crate) dilation: Vec<i64>,
    pub(crate) groups: i64,
}

impl Parameters {
    fn new(values: [&[usize]; 3], ends: &[usize], groups: usize) -> Parameters {
        let numbers = |values: &[usize]| values.iter().map(|&v| v as i64).collect::<Vec<_>>();
        let [stride, padding, dilation] = values.map(numbers);
        if padding != numbers(ends) {
            invalid("the stand-in knows symmetric padding only");
        }
        Parameters { stride, padding, dilation, groups: groups as i64 }
    }
}

define_class!(
    /// A convolution of two dimensions.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphConvolution2DOpDescriptor"]
    #[ivars = Parameters]
    pub struct Convolution2d;

    impl Convolution2d {
        #[unsafe(method_id(descriptorWithStrideInX:strideInY:dilationRateInX:dilationRateInY:groups:paddingLeft:paddingRight:paddingTop:paddingBottom:paddingStyle:dataLayout:weightsLayout:))]
        fn make(
            stride_x: usize,
            stride_y: usize,
            dilation_x: usize,
            dilation_y: usize,
            groups: usize,
            left: usize,
            right: usize,
            top: usize,
            bottom: usize,
            style: MPSGraphPaddingStyle,
            data: DataLayout,
            weights: DataLayout,
        ) -> Option<Retained<Self>> {
            check(style, [(data, DataLayout::NCHW), (weights, DataLayout::OIHW)]);
            let values = [&[stride_y, stride_x][..], &[top, left], &[dilation_y, dilation_x]];
            let parameters = Parameters::new(values, &[bottom, right], groups);
            unsafe { msg_send![super(Self::alloc().set_ivars(parameters)), init] }
        }
    }
);

define_class!(
    /// A convolution of three dimensions.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraphConvolution3DOpDescriptor"]
    #[ivars = Parameters]
    pub struct Convolution3d;

    impl Convolution3d {
        #[unsafe(method_id(descriptorWithStrideInX:strideInY:strideInZ:dilationRateInX:dilationRateInY:dilationRateInZ:groups:paddingLeft:paddingRight:paddingTop:paddingBottom:paddingFront:paddingBack:paddingStyle:dataLayout:weightsLayout:))]
        fn make(
            stride_x: usize,
            stride_y: usize,
            stride_z: usize,
            dilation_x: usize,
            dilation_y: usize,
            dilation_z: usize,
            groups: usize,
            left: usize,
            right: usize,
            top: usize,
            bottom: usize,
            front: usize,
            back: usize,
            style: MPSGraphPaddingStyle,
            data: DataLayout,
            weights: DataLayout,
        ) -> Option<Retained<Self>> {
            check(style, [(data, DataLayout::NCDHW), (weights, DataLayout::OIDHW)]);
            let values = [
                &[stride_z, stride_y, stride_x][..],
                &[front, top, left],
                &[dilation_z, dilation_y, dilation_x],
            ];
            let parameters = Parameters::new(values, &[back, bottom, right], groups);
            unsafe { msg_send![super(Self::alloc().set_ivars(parameters)), init] }
        }
    }
);

fn check(style: MPSGraphPaddingStyle, layouts: [(DataLayout, DataLayout); 2]) {
    if style != MPSGraphPaddingStyle::Explicit || layouts.iter().any(|(is, known)| is != known) {
        invalid("the stand-in knows explicit padding and channels before space only");
    }
}
