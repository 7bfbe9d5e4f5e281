//! MPSGraph: graphs are kept as lists of operators and computed with the host device's.

use std::sync::Mutex;

use etmetal::graph::{GraphOp, Scan};
use etmetal::tensor::DType;
use objc2::rc::{Allocated, Retained};
use objc2::runtime::{AnyObject, NSObject};
use objc2::{ClassType, DefinedClass, Message, define_class, msg_send};
use objc2_foundation::NSString;
use objc2_metal_performance_shaders::MPSDataType;
use objc2_metal_performance_shaders_graph::MPSGraphPaddingMode;

use self::executable::{Executable, Program};
use self::node::{Node, Op};
use self::tensors::{
    CompilationDescriptor, Convolution2d, Convolution3d, GraphDevice, GraphTensor, Parameters,
    Place, Shape, ShapedType,
};
use self::value::{Binary, count, dtype_of};
use crate::foundation::collections::{Array, Dictionary};
use crate::foundation::errors::invalid;
use crate::foundation::numbers::sizes_of;

pub mod executable;
pub mod node;
pub mod tensors;
pub mod value;

type Name<'a> = Option<&'a NSString>;
type Tensor = Retained<GraphTensor>;

define_class!(
    /// A graph.
    #[unsafe(super(NSObject))]
    #[name = "MPSGraph"]
    #[ivars = Mutex<Vec<Node>>]
    pub struct Graph;

    impl Graph {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            unsafe { msg_send![super(this.set_ivars(Mutex::default())), init] }
        }

        #[unsafe(method_id(placeholderWithShape:dataType:name:))]
        fn placeholder(
            &self,
            shape: Option<&Shape>,
            data_type: MPSDataType,
            _name: Name<'_>,
        ) -> Tensor {
            let sizes = shape.map(sizes_of).unwrap_or_default();
            self.node(Op::Input, known(data_type), sizes)
        }

        #[unsafe(method_id(constantWithScalar:dataType:))]
        fn constant(&self, number: f64, data_type: MPSDataType) -> Tensor {
            self.node(Op::Constant(number), known(data_type), vec![1])
        }

        #[unsafe(method_id(additionWithPrimaryTensor:secondaryTensor:name:))]
        fn add(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            self.binary(Binary::Add, a, b)
        }

        #[unsafe(method_id(multiplicationWithPrimaryTensor:secondaryTensor:name:))]
        fn multiply(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            self.binary(Binary::Multiply, a, b)
        }

        #[unsafe(method_id(bitwiseANDWithPrimaryTensor:secondaryTensor:name:))]
        fn and(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            self.binary(Binary::And, a, b)
        }

        #[unsafe(method_id(bitwiseXORWithPrimaryTensor:secondaryTensor:name:))]
        fn xor(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            self.binary(Binary::Xor, a, b)
        }

        #[unsafe(method_id(bitwiseRightShiftWithPrimaryTensor:secondaryTensor:name:))]
        fn shift_right(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            self.binary(Binary::ShiftRight, a, b)
        }

        #[unsafe(method_id(lessThanWithPrimaryTensor:secondaryTensor:name:))]
        fn less(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            self.binary(Binary::Less, a, b)
        }

        #[unsafe(method_id(greaterThanWithPrimaryTensor:secondaryTensor:name:))]
        fn greater(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            self.binary(Binary::Greater, a, b)
        }

        #[unsafe(method_id(equalWithPrimaryTensor:secondaryTensor:name:))]
        fn equal(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            self.binary(Binary::Equal, a, b)
        }

        #[unsafe(method_id(negativeWithTensor:name:))]
        fn negative(&self, a: &GraphTensor, _name: Name<'_>) -> Tensor {
            let place = self.own(a);
            self.node(Op::Negative(place.node), place.dtype, place.sizes.clone())
        }

        #[unsafe(method_id(selectWithPredicateTensor:truePredicateTensor:falsePredicateTensor:name:))]
        fn select(
            &self,
            condition: &GraphTensor,
            a: &GraphTensor,
            b: &GraphTensor,
            _name: Name<'_>,
        ) -> Tensor {
            let (condition, a, b) = (self.own(condition), self.own(a), self.own(b));
            if condition.dtype != DType::Bool || a.dtype != b.dtype {
                invalid(&format!("select {} {} {}", condition.dtype, a.dtype, b.dtype));
            }
            let sizes = common(&common(&condition.sizes, &a.sizes), &b.sizes);
            self.node(Op::Select(condition.node, a.node, b.node), a.dtype, sizes)
        }

        #[unsafe(method_id(castTensor:toType:name:))]
        fn cast(&self, a: &GraphTensor, data_type: MPSDataType, _name: Name<'_>) -> Tensor {
            let place = self.own(a);
            self.node(Op::Cast(place.node), known(data_type), place.sizes.clone())
        }

        #[unsafe(method_id(reshapeTensor:withShape:name:))]
        fn reshape(&self, a: &GraphTensor, shape: &Shape, _name: Name<'_>) -> Tensor {
            let (place, sizes) = (self.own(a), sizes_of(shape));
            if count(&sizes) != count(&place.sizes) {
                invalid(&format!("reshape {:?} to {sizes:?}", place.sizes));
            }
            self.node(Op::Reshape(place.node), place.dtype, sizes)
        }

        #[unsafe(method_id(transposeTensor:dimension:withDimension:name:))]
        fn transpose(
            &self,
            a: &GraphTensor,
            first: usize,
            second: usize,
            _name: Name<'_>,
        ) -> Tensor {
            let place = self.own(a);
            let mut sizes = place.sizes.clone();
            sizes.swap(first, second);
            self.node(Op::Transpose(place.node, first, second), place.dtype, sizes)
        }

        #[unsafe(method_id(matrixMultiplicationWithPrimaryTensor:secondaryTensor:name:))]
        fn matmul(&self, a: &GraphTensor, b: &GraphTensor, _name: Name<'_>) -> Tensor {
            let (a, b) = (self.own(a), self.own(b));
            let rank = a.sizes.len();
            let fits = rank == b.sizes.len()
                && (2..=3).contains(&rank)
                && a.sizes[rank - 1] == b.sizes[rank - 2]
                && a.sizes[..rank - 2] == b.sizes[..rank - 2];
            if !fits || a.dtype != b.dtype || !a.dtype.is_float() {
                invalid(&format!("{} {:?} @ {} {:?}", a.dtype, a.sizes, b.dtype, b.sizes));
            }
            let mut sizes = a.sizes.clone();
            sizes[rank - 1] = b.sizes[rank - 1];
            self.node(Op::MatMul(a.node, b.node), a.dtype, sizes)
        }

        #[unsafe(method_id(cumulativeSumWithTensor:axis:name:))]
        fn cumulative_sum(&self, a: &GraphTensor, axis: isize, _name: Name<'_>) -> Tensor {
            self.scan(Scan::Sum, a, axis)
        }

        #[unsafe(method_id(cumulativeProductWithTensor:axis:name:))]
        fn cumulative_product(&self, a: &GraphTensor, axis: isize, _name: Name<'_>) -> Tensor {
            self.scan(Scan::Product, a, axis)
        }

        #[unsafe(method_id(sliceTensor:dimension:start:length:name:))]
        fn slice(
            &self,
            a: &GraphTensor,
            dim: usize,
            start: isize,
            len: isize,
            _name: Name<'_>,
        ) -> Tensor {
            let place = self.own(a);
            let (start, len) = (start as i64, len as i64);
            if start < 0 || len < 1 || start + len > place.sizes[dim] {
                invalid(&format!("{len} from {start} of {:?}", place.sizes));
            }
            let mut sizes = place.sizes.clone();
            sizes[dim] = len;
            self.node(Op::Slice { from: place.node, dim, start }, place.dtype, sizes)
        }

        #[unsafe(method_id(coordinateAlongAxis:withShape:name:))]
        fn coordinate(&self, axis: isize, shape: &Shape, _name: Name<'_>) -> Tensor {
            self.node(Op::Coordinate(axis as usize), DType::I32, sizes_of(shape))
        }

        #[unsafe(method_id(sortWithTensor:axis:descending:name:))]
        fn sort(
            &self,
            a: &GraphTensor,
            axis: isize,
            descending: bool,
            _name: Name<'_>,
        ) -> Tensor {
            let place = self.own(a);
            let op = Op::Sort { from: place.node, dim: axis as usize, descending };
            self.node(op, place.dtype, place.sizes.clone())
        }

        #[unsafe(method_id(gatherAlongAxis:withUpdatesTensor:indicesTensor:name:))]
        fn gather(
            &self,
            axis: isize,
            from: &GraphTensor,
            indices: &GraphTensor,
            _name: Name<'_>,
        ) -> Tensor {
            let (from, indices) = (self.own(from), self.own(indices));
            let dim = axis as usize;
            let fits = from.sizes.len() == indices.sizes.len()
                && (0..from.sizes.len()).all(|d| d == dim || from.sizes[d] == indices.sizes[d])
                && matches!(indices.dtype, DType::I32 | DType::I64);
            if !fits {
                invalid(&format!("gather {:?} by {:?}", from.sizes, indices.sizes));
            }
            let op = Op::Gather { from: from.node, indices: indices.node, dim };
            self.node(op, from.dtype, indices.sizes.clone())
        }

        #[unsafe(method_id(convolution2DWithSourceTensor:weightsTensor:descriptor:name:))]
        fn convolution_2d(
            &self,
            source: &GraphTensor,
            weights: &GraphTensor,
            descriptor: &Convolution2d,
            _name: Name<'_>,
        ) -> Tensor {
            self.convolution(source, weights, descriptor.ivars(), 4)
        }

        #[unsafe(method_id(convolution3DWithSourceTensor:weightsTensor:descriptor:name:))]
        fn convolution_3d(
            &self,
            source: &GraphTensor,
            weights: &GraphTensor,
            descriptor: &Convolution3d,
            _name: Name<'_>,
        ) -> Tensor {
            self.convolution(source, weights, descriptor.ivars(), 5)
        }

        #[unsafe(method_id(convolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:forwardConvolutionDescriptor:name:))]
        fn gradient_2d(
            &self,
            gradient: &GraphTensor,
            weights: &GraphTensor,
            shape: &Shape,
            descriptor: &Convolution2d,
            _name: Name<'_>,
        ) -> Tensor {
            self.gradient(gradient, weights, sizes_of(shape), descriptor.ivars())
        }

        #[unsafe(method_id(convolution3DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:forwardConvolutionDescriptor:name:))]
        fn gradient_3d(
            &self,
            gradient: &GraphTensor,
            weights: &GraphTensor,
            shape: &Shape,
            descriptor: &Convolution3d,
            _name: Name<'_>,
        ) -> Tensor {
            self.gradient(gradient, weights, sizes_of(shape), descriptor.ivars())
        }

        #[unsafe(method_id(padTensor:withPaddingMode:leftPadding:rightPadding:constantValue:name:))]
        fn pad(
            &self,
            a: &GraphTensor,
            mode: MPSGraphPaddingMode,
            left: &Shape,
            right: &Shape,
            _value: f64,
            _name: Name<'_>,
        ) -> Tensor {
            let (place, left, right) = (self.own(a), sizes_of(left), sizes_of(right));
            if mode != MPSGraphPaddingMode::Zero || left.len() != place.sizes.len() {
                invalid("the stand-in pads with zeros");
            }
            let more = left.iter().zip(&right);
            let sizes = place.sizes.iter().zip(more).map(|(n, (l, r))| n + l + r).collect();
            self.node(Op::Pad { from: place.node, left }, place.dtype, sizes)
        }

        #[unsafe(method_id(compileWithDevice:feeds:targetTensors:targetOperations:compilationDescriptor:))]
        fn compile(
            &self,
            _device: Option<&GraphDevice>,
            feeds: &Dictionary,
            targets: &Array,
            _operations: Option<&AnyObject>,
            _descriptor: Option<&CompilationDescriptor>,
        ) -> Retained<Executable> {
            let mut fed = Vec::new();
            for (tensor, shaped) in feeds.pairs() {
                let tensor = tensor.downcast_ref::<GraphTensor>().expect("a tensor");
                let (data_type, sizes) =
                    shaped.downcast_ref::<ShapedType>().expect("a type").ivars();
                let place = self.own(tensor);
                if (place.dtype, &place.sizes) != (known(*data_type), sizes) {
                    invalid(&format!("a feed of {:?} as {sizes:?}", place.sizes));
                }
                fed.push(tensor.retain());
            }
            let mut wanted: Vec<Tensor> = targets
                .items()
                .iter()
                .map(|t| t.downcast_ref::<GraphTensor>().expect("a tensor").retain())
                .collect();
            // The order of an executable is its own.
            fed.reverse();
            wanted.reverse();
            let nodes = self.ivars().lock().unwrap().clone();
            Executable::make(Program { nodes, feeds: fed, targets: wanted })
        }
    }
);

impl Graph {
    fn node(&self, op: Op, dtype: DType, sizes: Vec<i64>) -> Tensor {
        if sizes.iter().any(|&size| size < 1) {
            invalid(&format!("a tensor of sizes {sizes:?}"));
        }
        let mut nodes = self.ivars().lock().unwrap();
        nodes.push(Node { op, dtype, sizes: sizes.clone() });
        let (graph, node) = (std::ptr::from_ref(self).addr(), nodes.len() - 1);
        GraphTensor::make(Place { graph, node, dtype, sizes })
    }

    fn own<'a>(&self, tensor: &'a GraphTensor) -> &'a Place {
        let place = tensor.ivars();
        if place.graph != std::ptr::from_ref(self).addr() {
            invalid("a tensor of another graph");
        }
        place
    }

    fn binary(&self, op: Binary, a: &GraphTensor, b: &GraphTensor) -> Tensor {
        let (a, b) = (self.own(a), self.own(b));
        if a.dtype != b.dtype {
            invalid(&format!("{op:?} of {} and {}", a.dtype, b.dtype));
        }
        let truth = matches!(op, Binary::Less | Binary::Greater | Binary::Equal);
        let dtype = if truth { DType::Bool } else { a.dtype };
        self.node(Op::Binary(op, a.node, b.node), dtype, common(&a.sizes, &b.sizes))
    }

    fn scan(&self, scan: Scan, a: &GraphTensor, axis: isize) -> Tensor {
        let place = self.own(a);
        if !matches!(place.dtype, DType::F32 | DType::I32 | DType::I64) {
            invalid(&format!("a cumulative operator of {}", place.dtype));
        }
        let op = Op::Scan(place.node, axis as usize, scan);
        self.node(op, place.dtype, place.sizes.clone())
    }

    fn convolution(
        &self,
        source: &GraphTensor,
        weights: &GraphTensor,
        parameters: &Parameters,
        rank: usize,
    ) -> Tensor {
        let (source, weights) = (self.own(source), self.own(weights));
        if source.sizes.len() != rank || weights.sizes.len() != rank {
            invalid(&format!("a convolution of {:?} by {:?}", source.sizes, weights.sizes));
        }
        let mut sizes = vec![source.sizes[0], weights.sizes[0]];
        for d in 0..rank - 2 {
            sizes.push(parameters.forward(d, source.sizes[d + 2], weights.sizes[d + 2]));
        }
        let op = parameters.op(false);
        let op = Op::Convolution { input: source.node, weight: weights.node, op };
        self.node(op, source.dtype, sizes)
    }

    fn gradient(
        &self,
        gradient: &GraphTensor,
        weights: &GraphTensor,
        sizes: Vec<i64>,
        parameters: &Parameters,
    ) -> Tensor {
        let (gradient, weights) = (self.own(gradient), self.own(weights));
        for d in 0..sizes.len() - 2 {
            let forward = parameters.forward(d, sizes[d + 2], weights.sizes[d + 2]);
            if forward != gradient.sizes[d + 2] {
                invalid(&format!("the convolution of {sizes:?} is not {:?}", gradient.sizes));
            }
        }
        let op = parameters.op(true);
        let op = Op::Convolution { input: gradient.node, weight: weights.node, op };
        self.node(op, gradient.dtype, sizes)
    }
}

impl Parameters {
    /// The size of a convolution's result.
    fn forward(&self, d: usize, size: i64, taps: i64) -> i64 {
        let span = self.dilation[d] * (taps - 1) + 1;
        (size + 2 * self.padding[d] - span).div_euclid(self.stride[d]) + 1
    }

    fn op(&self, transposed: bool) -> GraphOp {
        GraphOp::Convolution {
            stride: self.stride.as_slice().into(),
            padding: self.padding.as_slice().into(),
            dilation: self.dilation.as_slice().into(),
            transposed,
            groups: self.groups,
        }
    }
}

fn known(data_type: MPSDataType) -> DType {
    dtype_of(data_type).unwrap_or_else(|| invalid(&format!("data type {data_type:?}")))
}

/// The sizes that two broadcast to.
fn common(a: &[i64], b: &[i64]) -> Vec<i64> {
    let rank = a.len().max(b.len());
    let size = |sizes: &[i64], d: usize| {
        let added = rank - sizes.len();
        if d < added { 1 } else { sizes[d - added] }
    };
    (0..rank)
        .map(|d| match (size(a, d), size(b, d)) {
            (x, y) if x == y => x,
            (1, n) | (n, 1) => n,
            _ => invalid(&format!("{a:?} and {b:?} do not broadcast")),
        })
        .collect()
}

pub(crate) fn register() {
    let _ = (
        Graph::class(),
        executable::Executable::class(),
        tensors::CompilationDescriptor::class(),
        tensors::Convolution2d::class(),
        tensors::Convolution3d::class(),
        tensors::ExecutionDescriptor::class(),
        tensors::GraphDevice::class(),
        tensors::GraphTensor::class(),
        tensors::ShapedType::class(),
        tensors::TensorData::class(),
    );
}
