//! `convolution`: one to three spatial dimensions, plain or transposed.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use super::matmul::check_dtypes;
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{Layout, Tensor};

/// One value a spatial dimension.
type Spatial = SmallVec<[i64; 3]>;

/// The parameters of a convolution as PyTorch has them: lists have one value a spatial dimension,
/// or one value for all.
#[derive(Debug, Clone, Copy)]
pub struct Convolution<'a> {
    /// Input elements from a result to the next; of a transposed convolution, results from an
    /// input element to the next.
    pub stride: &'a [i64],
    /// Zeros around the input; of a transposed convolution, results left out at each side.
    pub padding: &'a [i64],
    /// Elements from a tap of the kernel to the next.
    pub dilation: &'a [i64],
    /// Results added at the end of each dimension of a transposed convolution.
    pub output_padding: &'a [i64],
    /// Whether it is a transposed convolution.
    pub transposed: bool,
    /// Groups of channels.
    pub groups: i64,
}

/// The convolution of `input` (`[n, c, …]`) with `weight` (`[o, c / groups, …]`, transposed
/// `[c, o / groups, …]`), plus `bias` (`[o]`). Sums are float32, the result is rounded once. It is
/// channels-last where PyTorch's is, so where models expect it, else contiguous.
///
/// # Errors
/// Shapes, parameters or dtypes do not fit; out of memory.
pub fn convolution(
    stream: &Stream,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    parameters: Convolution<'_>,
) -> Result<Tensor> {
    check_channels(input, weight, bias, &parameters)?;
    let spatial = input.sizes().len() - 2;
    let Convolution { transposed, groups, .. } = parameters;
    let stride = per_dimension("stride", parameters.stride, spatial, 1)?;
    let padding = per_dimension("padding", parameters.padding, spatial, 0)?;
    let dilation = per_dimension("dilation", parameters.dilation, spatial, 1)?;
    let output_padding = per_dimension("output_padding", parameters.output_padding, spatial, 0)?;

    let channels = if transposed { weight.sizes()[1] * groups } else { weight.sizes()[0] };
    let mut sizes: SmallVec<[i64; 6]> = SmallVec::from_slice(&[input.sizes()[0], channels]);
    for d in 0..spatial {
        let (size, kernel) = (input.sizes()[d + 2], weight.sizes()[d + 2]);
        let steps = Steps { stride: stride[d], padding: padding[d], dilation: dilation[d] };
        let out = if transposed {
            steps.transposed_size(size, kernel, output_padding[d])
        } else {
            steps.size(size, kernel)
        };
        sizes.push(out.ok_or_else(|| no_result(input, weight, &parameters, d))?);
    }
    let layout = if channels_last(input, weight) {
        channels_last_layout(&sizes)?
    } else {
        Layout::contiguous(&sizes)?
    };
    let out = Tensor::empty(stream.device(), input.dtype(), layout)?;
    if out.numel() != 0 {
        let op = GraphOp::Convolution { stride, padding, dilation, transposed, groups };
        let tensors: SmallVec<[&Tensor; 4]> =
            [&out, input, weight].into_iter().chain(bias).collect();
        graph::encode(stream, op, &tensors)?;
    }
    Ok(out)
}

/// Checks ranks, dtypes, channels and the bias.
fn check_channels(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    &Convolution { transposed, groups, .. }: &Convolution<'_>,
) -> Result<()> {
    let (x, w) = (input.sizes(), weight.sizes());
    if !(3..=5).contains(&w.len()) || x.len() != w.len() {
        return Err(err!(
            InvalidArgument,
            "convolution: input and weight must both have 3, 4 or 5 dimensions (batch, channels \
             and 1 to 3 more), their sizes are {x:?} and {w:?}"
        ));
    }
    let operands: SmallVec<[_; 2]> =
        [("weight", weight)].into_iter().chain(bias.map(|bias| ("bias", bias))).collect();
    check_dtypes("convolution", input, &operands)?;
    if !input.dtype().is_float() {
        return Err(err!(Unsupported, "convolution is not defined for {}", input.dtype()));
    }
    if groups < 1 {
        return Err(err!(InvalidArgument, "convolution: groups must be positive, it is {groups}"));
    }
    // Dimension 0 of the weight is the input's channels or the result's, dimension 1 the other's.
    if w[0] % groups != 0 {
        return Err(err!(
            InvalidArgument,
            "convolution: dimension 0 of a weight of sizes {w:?} is no multiple of {groups} groups"
        ));
    }
    let other = w[1].checked_mul(groups).ok_or_else(|| {
        err!(
            InvalidArgument,
            "convolution: a weight of sizes {w:?} in {groups} groups is too large"
        )
    })?;
    let (expected, out) = if transposed { (w[0], other) } else { (other, w[0]) };
    if x[1] != expected {
        return Err(err!(
            InvalidArgument,
            "convolution: a weight of sizes {w:?} in {groups} groups{} takes {expected} input \
             channels, but an input of sizes {x:?} has {}",
            if transposed { ", transposed," } else { "" },
            x[1]
        ));
    }
    if w[2..].contains(&0) {
        return Err(err!(InvalidArgument, "convolution: a weight of sizes {w:?} has no taps"));
    }
    match bias {
        Some(bias) if bias.sizes() != [out] => Err(err!(
            InvalidArgument,
            "convolution: bias must have sizes [{out}] for a weight of sizes {w:?} in {groups} \
             groups, it has {:?}",
            bias.sizes()
        )),
        _ => Ok(()),
    }
}

/// A list of one value a spatial dimension, or of one for all, none less than `least`.
fn per_dimension(what: &str, list: &[i64], spatial: usize, least: i64) -> Result<Spatial> {
    if list.iter().any(|&value| value < least) {
        return Err(err!(
            InvalidArgument,
            "convolution: {what} is {list:?}, but no value may be less than {least}"
        ));
    }
    match list {
        [one] => Ok(SmallVec::from_elem(*one, spatial)),
        list if list.len() == spatial => Ok(list.into()),
        list => Err(err!(
            InvalidArgument,
            "convolution: {what} is {list:?}, but must have one value or one for each of {spatial} \
             spatial dimensions"
        )),
    }
}

/// The parameters along one dimension.
struct Steps {
    stride: i64,
    padding: i64,
    dilation: i64,
}

impl Steps {
    /// Elements that a kernel spans.
    fn span(&self, kernel: i64) -> Option<i64> {
        (kernel - 1).checked_mul(self.dilation)?.checked_add(1)
    }

    /// Results of `size` input elements; `None` if the kernel is larger than the padded input.
    fn size(&self, size: i64, kernel: i64) -> Option<i64> {
        let padded = self.padding.checked_mul(2)?.checked_add(size)?;
        let free = padded.checked_sub(self.span(kernel)?)?;
        (free >= 0).then(|| free / self.stride + 1)
    }

    /// Results of a transposed convolution; `None` if that is no size.
    fn transposed_size(&self, size: i64, kernel: i64, output_padding: i64) -> Option<i64> {
        let spread = (size - 1).checked_mul(self.stride)?;
        let out = spread.checked_sub(self.padding.checked_mul(2)?)?;
        let out = out.checked_add(self.span(kernel)?)?.checked_add(output_padding)?;
        (out >= 0).then_some(out)
    }
}

/// The error of a dimension in which there is no result.
fn no_result(
    input: &Tensor,
    weight: &Tensor,
    p: &Convolution<'_>,
    dimension: usize,
) -> crate::Error {
    let why = if p.transposed {
        "leaves less than nothing of the result"
    } else {
        "does not fit into the padded input"
    };
    err!(
        InvalidArgument,
        "convolution: a weight of sizes {:?} {why} in spatial dimension {dimension} of an input \
         of sizes {:?}; stride {:?}, padding {:?}, dilation {:?}, output padding {:?}",
        weight.sizes(),
        input.sizes(),
        p.stride,
        p.padding,
        p.dilation,
        p.output_padding
    )
}

/// Whether PyTorch's result on this device is channels-last: where input or weight are. Models
/// are compiled for the strides that follow from it. In one dimension PyTorch makes the input
/// contiguous, and both two-dimensional, so that the weight alone decides.
fn channels_last(input: &Tensor, weight: &Tensor) -> bool {
    let (w, strides) = (weight.sizes(), weight.strides());
    match *w {
        [o, c, k] => {
            let [o_stride, c_stride, k_stride] = *strides else { return false };
            is_channels_last(&[o, c, 1, k], &[o_stride, c_stride, k * k_stride, k_stride])
        }
        _ => is_channels_last(input.sizes(), input.strides()) || is_channels_last(w, strides),
    }
}

/// PyTorch's `is_channels_last_strides_2d` and `_3d`. Layouts that are both channels-last and
/// contiguous count as contiguous.
fn is_channels_last(sizes: &[i64], strides: &[i64]) -> bool {
    if strides[1] == 0 || sizes.contains(&0) {
        return false;
    }
    let mut least = 0;
    // From the innermost dimension: channels, then space from the last, then the batch.
    for d in std::iter::once(1).chain((2..sizes.len()).rev()).chain([0]) {
        if strides[d] < least || d == 0 && least == strides[1] {
            return false;
        }
        least = strides[d] * sizes[d];
    }
    true
}

/// The channels-last layout of these sizes.
fn channels_last_layout(sizes: &[i64]) -> Result<Layout> {
    let (&[batch, channels], space) = sizes.split_first_chunk().expect("two dimensions at least");
    let order: SmallVec<[i64; 6]> =
        [batch].iter().chain(space).chain([&channels]).copied().collect();
    let mut strides = Layout::contiguous(&order)?.strides;
    let channel = strides.pop().expect("as many as sizes");
    strides.insert(1, channel);
    Layout::new(sizes, &strides)
}
