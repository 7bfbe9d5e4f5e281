//! ExecuTorch's tensors as the model's, and back.

use std::sync::Arc;

use smallvec::SmallVec;

use super::copy::{self, Elements};
use super::ffi::{EtmetalResize, EtmetalTensor};
use super::stats::Transfer;
use crate::device::Device;
use crate::error::{Context, err};
use crate::tensor::{DType, Layout, Storage, Tensor};
use crate::{Error, Result};

/// One argument of a call, as far as it is known to be a tensor.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    raw: &'a EtmetalTensor,
    dtype: DType,
    sizes: SmallVec<[i64; 6]>,
}

impl<'a> Argument<'a> {
    /// Checks that an argument is a tensor of a dtype that there is.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn of(raw: &'a EtmetalTensor) -> Result<Self> {
        if raw.tensor.is_null() && raw.data.is_null() {
            return Err(err!(
                InvalidArgument,
                "it is not a tensor; models for this delegate take and give only tensors"
            ));
        }
        let dtype = DType::from_code(raw.dtype)?;
        let sizes = raw.sizes().iter().map(|&size| i64::from(size)).collect();
        Ok(Argument { raw, dtype, sizes })
    }

    fn layout(&self) -> Result<Layout> {
        let strides: SmallVec<[i64; 6]> = self.raw.strides().iter().map(|&s| s.into()).collect();
        Layout::new(&self.sizes, &strides)
    }

    /// The argument as an input, over its own memory where the device can use it.
    ///
    /// # Errors
    /// Its memory is too small for its sizes, or the device has none.
    pub(super) fn input(&self, device: &Arc<dyn Device>, moved: &mut Transfer) -> Result<Tensor> {
        let layout = self.layout()?;
        let bytes = layout.extent() * self.dtype.size();
        if bytes == 0 {
            return Tensor::empty(device, self.dtype, layout);
        }
        if self.raw.data.is_null() || self.raw.nbytes < bytes {
            return Err(err!(
                InvalidArgument,
                "a {} tensor of sizes {:?} needs {bytes} bytes, it has {}",
                self.dtype,
                layout.sizes,
                if self.raw.data.is_null() { 0 } else { self.raw.nbytes }
            ));
        }
        // SAFETY: ExecuTorch keeps the inputs, readable, until the call returns; the run waits
        // for its work before that. Models do not write to inputs: functional graphs are lowered.
        match unsafe { Storage::borrow(device, self.raw.data.cast(), bytes, None) } {
            Ok(storage) => {
                moved.inputs_wrapped += bytes;
                Tensor::new(storage, 0, self.dtype, layout)
            }
            Err(Error::Unsupported(_)) => {
                let storage = Storage::allocate(device, bytes)?;
                // SAFETY: `bytes` readable bytes (checked), and a new storage of that size.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.raw.data.cast(), storage.as_ptr(), bytes);
                }
                moved.inputs_copied += bytes;
                Tensor::new(storage, 0, self.dtype, layout)
            }
            Err(e) => Err(e),
        }
    }

    /// Writes a result of the model into the argument, which takes the result's sizes.
    ///
    /// # Errors
    /// The dtypes differ, or ExecuTorch refuses the sizes.
    pub(super) fn store(
        &self,
        result: &Tensor,
        resize: Option<EtmetalResize>,
        moved: &mut Transfer,
    ) -> Result<()> {
        if result.dtype() != self.dtype {
            return Err(err!(
                InvalidProgram,
                "the model gives a {} tensor, but the program wants {}; export it again",
                result.dtype(),
                self.dtype
            ));
        }
        let data = self.resized(result.sizes(), resize)?;
        let bytes = result.numel() * self.dtype.size();
        if bytes == 0 {
            return Ok(());
        }
        // Strides are those after the resize: ExecuTorch changes them in place.
        let target = self.target_layout(result.sizes())?;
        let room = target.extent() * self.dtype.size();
        if data.is_null() {
            return Err(err!(InvalidArgument, "it has no memory for {room} bytes"));
        }
        let elements = Elements {
            sizes: result.sizes(),
            source_strides: result.strides(),
            target_strides: &target.strides,
            element: self.dtype.size(),
        };
        // SAFETY: the result's elements lie in its storage, and no work that writes to them is
        // left; ExecuTorch gave memory for a tensor of these sizes. The model's memory and
        // ExecuTorch's do not overlap, but for results that are an input, which ExecuTorch
        // plans apart from outputs.
        unsafe { copy::copy(result.as_ptr(), data, elements) };
        moved.outputs_copied += bytes;
        Ok(())
    }

    /// Makes the argument's sizes those of the result, and gives its memory.
    fn resized(&self, sizes: &[i64], resize: Option<EtmetalResize>) -> Result<*mut u8> {
        if self.sizes.as_slice() == sizes {
            return Ok(self.raw.data.cast());
        }
        let refused = |reason: String| {
            err!(
                InvalidArgument,
                "the model gives sizes {sizes:?}, the program has {:?}: {reason}",
                self.sizes.as_slice()
            )
        };
        let narrow: Option<SmallVec<[i32; 6]>> =
            sizes.iter().map(|&size| i32::try_from(size).ok()).collect();
        let narrow = narrow.ok_or_else(|| refused("ExecuTorch's sizes are 32-bit".to_owned()))?;
        let resize =
            resize.ok_or_else(|| refused("the caller offers no way to resize it".to_owned()))?;
        let mut data = self.raw.data;
        // SAFETY: the caller's own function, for its own tensor, with as many sizes as said.
        let status = unsafe { resize(self.raw.tensor, narrow.as_ptr(), narrow.len(), &mut data) };
        if status != 0 {
            return Err(refused(format!("ExecuTorch cannot resize it (error {status:#x})")));
        }
        Ok(data.cast())
    }

    fn target_layout(&self, sizes: &[i64]) -> Result<Layout> {
        let strides: SmallVec<[i64; 6]> = self.raw.strides().iter().map(|&s| s.into()).collect();
        if strides.len() == sizes.len() {
            Layout::new(sizes, &strides)
        } else {
            Layout::contiguous(sizes)
        }
    }
}

/// The arguments of a call as inputs and outputs.
///
/// # Errors
/// Their number is not the model's; or one is no tensor, or of a dtype that there is not.
pub(super) fn split(
    arguments: &[EtmetalTensor],
    num_inputs: usize,
    num_outputs: usize,
) -> Result<(Vec<Argument<'_>>, Vec<Argument<'_>>)> {
    if arguments.len() != num_inputs + num_outputs {
        return Err(err!(
            InvalidArgument,
            "the model takes {num_inputs} inputs and gives {num_outputs} outputs, but the program \
             passes {} arguments; its delegate was exported from another model",
            arguments.len()
        ));
    }
    let (inputs, outputs) = arguments.split_at(num_inputs);
    Ok((checked(inputs, "input")?, checked(outputs, "output")?))
}

fn checked<'a>(arguments: &'a [EtmetalTensor], what: &str) -> Result<Vec<Argument<'a>>> {
    let arguments = arguments.iter().enumerate();
    arguments.map(|(i, raw)| Argument::of(raw).context(|| format!("{what} {i}"))).collect()
}
