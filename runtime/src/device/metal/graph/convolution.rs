//! Convolutions of one to three spatial dimensions, and their gradients, which transposed
//! convolutions are. One dimension is computed as two, of which the first has size 1.

use objc2::rc::Retained;
use objc2_metal_performance_shaders_graph::{
    MPSGraphConvolution2DOpDescriptor, MPSGraphConvolution3DOpDescriptor, MPSGraphPaddingMode,
    MPSGraphPaddingStyle, MPSGraphTensorNamedDataLayout as DataLayout,
};
use smallvec::SmallVec;

use super::binding::shape;
use super::builder::{Builder, Tensor};
use crate::Result;
use crate::error::err;
use crate::graph::GraphOp;

type Sizes = SmallVec<[i64; 6]>;

/// Builds the graph.
///
/// # Errors
/// An operand has no elements, or a transposed result none that the convolution reaches.
pub fn build(builder: &mut Builder<'_>) -> Result<()> {
    let key = builder.key;
    if let Some(at) = key.operands.iter().position(|operand| operand.sizes.contains(&0)) {
        return Err(err!(
            Unsupported,
            "operand {at} has no elements, its sizes are {:?}",
            key.operands[at].sizes
        ));
    }
    let parameters = Parameters::of(&key.op)?;
    let sizes = |operand: usize| with_two_dimensions(&key.operands[operand].sizes);
    let (out_sizes, input_sizes, weight_sizes) = (sizes(0), sizes(1), sizes(2));
    let (input, weight) = (builder.input(1), builder.input(2));
    let input = builder.reshape(&input, &input_sizes);
    let weight = builder.reshape(&weight, &weight_sizes);
    let mut out = if parameters.transposed {
        let reached = parameters.reached(&out_sizes, &input_sizes, &weight_sizes)?;
        let out = parameters.gradient(builder, &input, &weight, &reached)?;
        padded(builder, out, &reached, &out_sizes)
    } else {
        parameters.convolution(builder, &input, &weight)?
    };
    if key.operands.len() == 4 {
        let bias = builder.input(3);
        let mut channels: Sizes = SmallVec::from_elem(1, out_sizes.len());
        channels[1] = out_sizes[1];
        out = builder.add(&out, &builder.reshape(&bias, &channels));
    }
    let out = builder.reshape(&out, &key.operands[0].sizes);
    builder.output(0, out);
    Ok(())
}

/// Sizes with a spatial dimension of 1 before the only one.
fn with_two_dimensions(sizes: &[i64]) -> Sizes {
    let mut sizes = Sizes::from_slice(sizes);
    if sizes.len() == 3 {
        sizes.insert(2, 1);
    }
    sizes
}

/// The parameters of a convolution, one for each of two or three spatial dimensions.
struct Parameters {
    stride: SmallVec<[usize; 3]>,
    padding: SmallVec<[usize; 3]>,
    dilation: SmallVec<[usize; 3]>,
    groups: usize,
    transposed: bool,
}

impl Parameters {
    fn of(op: &GraphOp) -> Result<Parameters> {
        let GraphOp::Convolution { stride, padding, dilation, transposed, groups } = op else {
            unreachable!("chosen by the op")
        };
        let two = |values: &[i64], first: usize| -> Result<SmallVec<[usize; 3]>> {
            let lead = (values.len() == 1).then_some(Ok(first));
            let values = values.iter().map(|&value| {
                usize::try_from(value).map_err(|_| err!(InvalidArgument, "{value} is negative"))
            });
            lead.into_iter().chain(values).collect()
        };
        Ok(Parameters {
            stride: two(stride, 1)?,
            padding: two(padding, 0)?,
            dilation: two(dilation, 1)?,
            groups: two(&[1, *groups], 1)?[1],
            transposed: *transposed,
        })
    }

    /// The sizes of the part of a transposed result that the convolution reaches: those of the
    /// largest input whose convolution has the sizes that are given. What output padding adds
    /// beyond is 0.
    fn reached(&self, out: &[i64], input: &[i64], weight: &[i64]) -> Result<Sizes> {
        let mut reached = Sizes::from_slice(out);
        for d in 0..self.stride.len() {
            let [stride, padding, dilation] =
                [&self.stride, &self.padding, &self.dilation].map(|values| values[d] as i64);
            let (input, taps) = (input[d + 2], weight[d + 2]);
            let most = input * stride - 2 * padding + dilation * (taps - 1);
            reached[d + 2] = out[d + 2].min(most);
            if reached[d + 2] < 1 {
                return Err(err!(
                    Unsupported,
                    "a transposed convolution with a result of sizes {out:?} that it does not reach"
                ));
            }
        }
        Ok(reached)
    }

    fn convolution(&self, b: &Builder<'_>, input: &Tensor, weight: &Tensor) -> Result<Tensor> {
        // SAFETY: tensors of this graph; what does not fit throws, which is caught.
        Ok(unsafe {
            if self.stride.len() == 2 {
                b.graph().convolution2DWithSourceTensor_weightsTensor_descriptor_name(
                    input,
                    weight,
                    &*self.plane()?,
                    None,
                )
            } else {
                b.graph().convolution3DWithSourceTensor_weightsTensor_descriptor_name(
                    input,
                    weight,
                    &*self.space()?,
                    None,
                )
            }
        })
    }

    fn gradient(
        &self,
        b: &Builder<'_>,
        input: &Tensor,
        weight: &Tensor,
        sizes: &[i64],
    ) -> Result<Tensor> {
        // SAFETY: tensors of this graph; what does not fit throws, which is caught.
        Ok(unsafe {
            if self.stride.len() == 2 {
                b.graph().convolution2DDataGradientWithIncomingGradientTensor_weightsTensor_outputShape_forwardConvolutionDescriptor_name(
                    input,
                    weight,
                    &shape(sizes),
                    &*self.plane()?,
                    None,
                )
            } else {
                b.graph().convolution3DDataGradientWithIncomingGradientTensor_weightsTensor_outputShape_forwardConvolutionDescriptor_name(
                    input,
                    weight,
                    &shape(sizes),
                    &*self.space()?,
                    None,
                )
            }
        })
    }

    /// The descriptor of two dimensions: y, x.
    fn plane(&self) -> Result<Retained<MPSGraphConvolution2DOpDescriptor>> {
        let (stride, padding, dilation) = (&self.stride, &self.padding, &self.dilation);
        // SAFETY: makes an object of numbers.
        let descriptor = unsafe {
            MPSGraphConvolution2DOpDescriptor::descriptorWithStrideInX_strideInY_dilationRateInX_dilationRateInY_groups_paddingLeft_paddingRight_paddingTop_paddingBottom_paddingStyle_dataLayout_weightsLayout(
                stride[1],
                stride[0],
                dilation[1],
                dilation[0],
                self.groups,
                padding[1],
                padding[1],
                padding[0],
                padding[0],
                MPSGraphPaddingStyle::Explicit,
                DataLayout::NCHW,
                DataLayout::OIHW,
            )
        };
        descriptor.ok_or_else(|| err!(Unsupported, "MPSGraph has no such convolution"))
    }

    /// The descriptor of three dimensions: z, y, x.
    fn space(&self) -> Result<Retained<MPSGraphConvolution3DOpDescriptor>> {
        let (stride, padding, dilation) = (&self.stride, &self.padding, &self.dilation);
        // SAFETY: makes an object of numbers.
        let descriptor = unsafe {
            MPSGraphConvolution3DOpDescriptor::descriptorWithStrideInX_strideInY_strideInZ_dilationRateInX_dilationRateInY_dilationRateInZ_groups_paddingLeft_paddingRight_paddingTop_paddingBottom_paddingFront_paddingBack_paddingStyle_dataLayout_weightsLayout(
                stride[2],
                stride[1],
                stride[0],
                dilation[2],
                dilation[1],
                dilation[0],
                self.groups,
                padding[2],
                padding[2],
                padding[1],
                padding[1],
                padding[0],
                padding[0],
                MPSGraphPaddingStyle::Explicit,
                DataLayout::NCDHW,
                DataLayout::OIDHW,
            )
        };
        descriptor.ok_or_else(|| err!(Unsupported, "MPSGraph has no such convolution"))
    }
}

/// A tensor with zeros at the ends of its dimensions, up to larger sizes.
fn padded(builder: &Builder<'_>, tensor: Tensor, from: &[i64], to: &[i64]) -> Tensor {
    if from == to {
        return tensor;
    }
    let missing: Sizes = from.iter().zip(to).map(|(from, to)| to - from).collect();
    let none: Sizes = SmallVec::from_elem(0, to.len());
    // SAFETY: a tensor of this graph; what does not fit throws, which is caught.
    unsafe {
        builder.graph().padTensor_withPaddingMode_leftPadding_rightPadding_constantValue_name(
            &tensor,
            MPSGraphPaddingMode::Zero,
            &shape(&none),
            &shape(&missing),
            0.0,
            None,
        )
    }
}
