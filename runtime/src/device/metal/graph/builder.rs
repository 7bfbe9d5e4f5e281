//! Building graphs: placeholders for operands, the operators that the lowerings use, and the
//! executable that comes of it.

use objc2::AnyThread;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSArray, NSDictionary};
use objc2_metal::MTLDevice;
use objc2_metal_performance_shaders::MPSDataType;
use objc2_metal_performance_shaders_graph::{
    MPSGraph, MPSGraphCompilationDescriptor, MPSGraphDevice, MPSGraphShapedType, MPSGraphTensor,
};

use super::Compiled;
use super::binding::{Slot, data_type, shape};
use crate::Result;
use crate::error::err;
use crate::graph::{GraphKey, StrideClass};

/// A tensor of a graph.
pub type Tensor = Retained<MPSGraphTensor>;

/// A graph that is being built.
pub struct Builder<'a> {
    /// What is built.
    pub key: &'a GraphKey,
    graph: Retained<MPSGraph>,
    feeds: Vec<(Slot, Tensor)>,
    targets: Vec<(Slot, Tensor)>,
}

/// Calls an operator of the graph. All are of the same kind: they take tensors of the graph and
/// numbers, and throw where those do not fit.
macro_rules! operator {
    ($builder:expr, $method:ident($($argument:expr),*)) => {
        // SAFETY: the tensors are of this graph; what does not fit throws, which is caught.
        unsafe { $builder.graph.$method($($argument,)* None) }
    };
}

/// Operators of one or two tensors under short names.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) = $method:ident;)*) => {
        impl Builder<'_> {
            $($(#[$doc])* pub fn $name(&self, $($argument: &MPSGraphTensor),*) -> Tensor {
                operator!(self, $method($($argument),*))
            })*
        }
    };
}

operators! {
    /// `a + b`.
    add(a, b) = additionWithPrimaryTensor_secondaryTensor_name;
    /// `a · b`, element by element.
    multiply(a, b) = multiplicationWithPrimaryTensor_secondaryTensor_name;
    /// `a @ b`.
    matmul(a, b) = matrixMultiplicationWithPrimaryTensor_secondaryTensor_name;
    /// `-a`.
    negative(a) = negativeWithTensor_name;
    /// `a & b`.
    and(a, b) = bitwiseANDWithPrimaryTensor_secondaryTensor_name;
    /// `a ^ b`.
    xor(a, b) = bitwiseXORWithPrimaryTensor_secondaryTensor_name;
    /// `a >> b`.
    shift_right(a, b) = bitwiseRightShiftWithPrimaryTensor_secondaryTensor_name;
    /// `a < b`.
    less(a, b) = lessThanWithPrimaryTensor_secondaryTensor_name;
    /// `a > b`.
    greater(a, b) = greaterThanWithPrimaryTensor_secondaryTensor_name;
    /// `a == b`.
    equal(a, b) = equalWithPrimaryTensor_secondaryTensor_name;
    /// `condition ? a : b`.
    select(condition, a, b) = selectWithPredicateTensor_truePredicateTensor_falsePredicateTensor_name;
}

impl<'a> Builder<'a> {
    /// An empty graph for `key`.
    pub fn new(key: &'a GraphKey) -> Builder<'a> {
        // SAFETY: makes an object.
        let graph = unsafe { MPSGraph::new() };
        Builder { key, graph, feeds: Vec::new(), targets: Vec::new() }
    }

    /// The graph itself, for operators that only one lowering has.
    pub fn graph(&self) -> &MPSGraph {
        &self.graph
    }

    /// The operand of this index as an input.
    pub fn input(&mut self, operand: usize) -> Tensor {
        self.input_as(operand, data_type(self.key.operands[operand].dtype))
    }

    /// [`Builder::input`] with its bytes taken for elements of another type of the same size.
    pub fn input_as(&mut self, operand: usize, data_type: MPSDataType) -> Tensor {
        let key = &self.key.operands[operand];
        let transposed = key.strides == StrideClass::Transposed;
        let mut sizes = key.sizes.clone();
        let last = sizes.len().saturating_sub(1);
        if transposed {
            sizes.swap(last, last - 1);
        }
        // SAFETY: makes a tensor of this graph.
        let tensor = unsafe {
            self.graph.placeholderWithShape_dataType_name(Some(&shape(&sizes)), data_type, None)
        };
        self.feeds.push((Slot { operand, transposed, data_type }, tensor.clone()));
        if !transposed {
            return tensor;
        }
        operator!(self, transposeTensor_dimension_withDimension_name(&tensor, last, last - 1))
    }

    /// Makes `tensor` the result of this index.
    pub fn output(&mut self, operand: usize, tensor: Tensor) {
        let data_type = data_type(self.key.operands[operand].dtype);
        self.output_as(operand, tensor, data_type);
    }

    /// [`Builder::output`] with its bytes taken for elements of another type of the same size.
    pub fn output_as(&mut self, operand: usize, tensor: Tensor, data_type: MPSDataType) {
        self.targets.push((Slot { operand, transposed: false, data_type }, tensor));
    }

    /// A number of a type, to be broadcast. 64 bit integers must be ones that a double holds.
    pub fn constant(&self, value: f64, data_type: MPSDataType) -> Tensor {
        // SAFETY: makes a tensor of this graph.
        unsafe { self.graph.constantWithScalar_dataType(value, data_type) }
    }

    /// The elements converted to another type.
    pub fn cast(&self, tensor: &MPSGraphTensor, data_type: MPSDataType) -> Tensor {
        operator!(self, castTensor_toType_name(tensor, data_type))
    }

    /// The elements in other sizes.
    pub fn reshape(&self, tensor: &MPSGraphTensor, sizes: &[i64]) -> Tensor {
        operator!(self, reshapeTensor_withShape_name(tensor, &shape(sizes)))
    }

    /// The executable of what was built.
    ///
    /// # Errors
    /// MPSGraph tells of feeds or targets that are none of ours. What it refuses, it throws.
    pub fn compile(self, device: &ProtocolObject<dyn MTLDevice>) -> Result<Compiled> {
        // SAFETY: all tensors are of this graph.
        let raw = unsafe {
            let types: Vec<Retained<MPSGraphShapedType>> = self
                .feeds
                .iter()
                .map(|(slot, tensor)| {
                    MPSGraphShapedType::initWithShape_dataType(
                        MPSGraphShapedType::alloc(),
                        tensor.shape().as_deref(),
                        slot.data_type,
                    )
                })
                .collect();
            let placeholders: Vec<&MPSGraphTensor> =
                self.feeds.iter().map(|(_, tensor)| &**tensor).collect();
            let targets: Vec<&MPSGraphTensor> =
                self.targets.iter().map(|(_, tensor)| &**tensor).collect();
            self.graph.compileWithDevice_feeds_targetTensors_targetOperations_compilationDescriptor(
                Some(&MPSGraphDevice::deviceWithMTLDevice(device)),
                &NSDictionary::from_retained_objects(&placeholders, &types),
                &NSArray::from_slice(&targets),
                None,
                Some(&MPSGraphCompilationDescriptor::new()),
            )
        };
        // SAFETY: asks a live object.
        let (feeds, targets) = unsafe { (raw.feedTensors(), raw.targetTensors()) };
        Ok(Compiled {
            feeds: in_order(&self.feeds, feeds.as_deref())?,
            targets: in_order(&self.targets, targets.as_deref())?,
            raw: raw.into(),
        })
    }
}

/// The slots in the order in which the executable has their tensors.
fn in_order(
    slots: &[(Slot, Tensor)],
    order: Option<&NSArray<MPSGraphTensor>>,
) -> Result<Vec<Slot>> {
    let order = order.map(|order| order.to_vec()).unwrap_or_default();
    let find = |tensor: &Tensor| {
        slots.iter().find(|(_, known)| known == tensor).map(|(slot, _)| slot.clone())
    };
    let sorted: Option<Vec<Slot>> = order.iter().map(find).collect();
    sorted.filter(|sorted| sorted.len() == slots.len()).ok_or_else(|| {
        err!(
            Internal,
            "MPSGraph's executable has {} tensors where {} were given, or others",
            order.len(),
            slots.len()
        )
    })
}
