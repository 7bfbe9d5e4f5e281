//! A model's constants: tensors over the weights blob, without a copy where that can be.
//!
//! When a container loads its constants it asks for memory of the blob's size, copies each
//! constant from the blob to the same offset there, and makes tensors over it. The model's
//! context is told to answer with the blob's own memory instead (see
//! [`ModelContext::offer_weights`]), so that nothing is copied.
//!
//! Constants that a model may write to (KV caches) must not reach the caller's memory, which may
//! be mapped read-only or be shared by several models. In the order of preference:
//!
//! 1. the blob's pages are mapped once more, copy on write: only pages that are written get a
//!    copy (`mapping.rs`);
//! 2. the blob is used where it lies, and those constants are replaced by private copies;
//! 3. all is copied.

use std::sync::Arc;

use super::aoti::{Aoti, Constant, ConstantKind};
use super::mapping::PrivateMapping;
use super::payload::Blob;
use crate::Result;
use crate::device::{Device, Keep};
use crate::error::err;
use crate::shim::context::{self, ModelContext};
use crate::tensor::{Storage, Tensor};

/// `AOTI_CONST_ALIGNMENT` of torch's `model_base.h`: where constants begin in the container's
/// memory. In the blob they follow each other directly.
const ALIGNMENT: usize = 64;

/// What became of the weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WeightStats {
    /// Bytes of constants used where they lie.
    pub wrapped: usize,
    /// Bytes of constants that were copied.
    pub copied: usize,
}

/// Where each constant lies in the blob.
struct Placement {
    /// Byte offset of each constant.
    offsets: Vec<usize>,
    /// Bytes of all constants.
    end: usize,
    /// Bytes of the memory that the container will ask for, if offsets there are those in the
    /// blob and none of it lies beyond the blob.
    mappable: Option<usize>,
}

impl Placement {
    fn of(constants: &[Constant], blob_len: usize) -> Result<Self> {
        let too_large =
            || err!(InvalidProgram, "the model library's constants are too large to address");
        let (mut offsets, mut end, mut padded) = (Vec::with_capacity(constants.len()), 0usize, 0);
        let mut agree = true;
        for constant in constants {
            agree &= end == padded;
            offsets.push(end);
            end = end.checked_add(constant.size).ok_or_else(too_large)?;
            padded = constant
                .size
                .checked_next_multiple_of(ALIGNMENT)
                .and_then(|size| size.checked_add(padded))
                .ok_or_else(too_large)?;
        }
        let mappable = (agree && padded <= blob_len && padded > 0).then_some(padded);
        Ok(Placement { offsets, end, mappable })
    }
}

/// Gives the container its constants from the blob.
///
/// # Errors
/// The blob is too short for the model; or the container or the device refuses it.
pub(super) fn load(aoti: &mut Aoti, model: &Arc<ModelContext>, blob: &Blob) -> Result<WeightStats> {
    let constants = aoti.constants()?;
    let placement = Placement::of(&constants, blob.bytes().len())?;
    check_size(&placement, aoti.constants_blob_size(), blob)?;
    if placement.end == 0 {
        // SAFETY: no byte is read.
        unsafe { aoti.update_constants_from_blob(std::ptr::NonNull::dangling().as_ptr()) }?;
        return Ok(WeightStats::default());
    }
    let writable = constants.iter().any(|c| c.kind != ConstantKind::Parameter);
    let source = match placement.mappable {
        None => Source::Copied(blob.bytes().as_ptr()),
        Some(len) if !writable => Source::shared(model.device(), blob, len)?,
        Some(len) => match PrivateMapping::of(blob.bytes()) {
            Some(mapping) => Source::private(model.device(), mapping, blob, len)?,
            None if aoti.can_replace_constants() => Source::shared(model.device(), blob, len)?,
            None => Source::Copied(blob.bytes().as_ptr()),
        },
    };
    let was_wrapped = update(aoti, model, &source)?;
    let mut stats = WeightStats { wrapped: 0, copied: placement.end };
    if was_wrapped {
        stats = WeightStats { wrapped: placement.end, copied: 0 };
        if writable && matches!(source, Source::Shared { .. }) {
            let copied = replace_writable(aoti, model, &constants, &placement, blob)?;
            stats = WeightStats { wrapped: placement.end - copied, copied };
        }
    }
    Ok(stats)
}

fn check_size(placement: &Placement, said: Option<u64>, blob: &Blob) -> Result<()> {
    let needed = placement.end as u64;
    let expected = said.unwrap_or(needed).max(needed);
    let len = blob.bytes().len() as u64;
    if len >= expected {
        return Ok(());
    }
    Err(err!(
        InvalidProgram,
        "the weights are cut short: {len} bytes, but the model needs {expected}; copy or export \
         the program again"
    ))
}

/// Where the container takes its constants from.
enum Source {
    /// The caller's own memory.
    Shared { storage: Storage },
    /// A mapping of the same pages that is this model's alone.
    Private { storage: Storage },
    /// The caller's memory, to be copied.
    Copied(*const u8),
}

impl Source {
    fn shared(device: &Arc<dyn Device>, blob: &Blob, len: usize) -> Result<Self> {
        let pointer = blob.bytes().as_ptr().cast_mut();
        // SAFETY: readable while `keep` lives; constants that could be written are replaced
        // before anything runs. `len` was checked to lie in the blob.
        match unsafe { Storage::borrow(device, pointer, len, blob.keep()) } {
            Ok(storage) => Ok(Source::Shared { storage }),
            Err(crate::Error::Unsupported(_)) => Ok(Source::Copied(pointer)),
            Err(e) => Err(e),
        }
    }

    fn private(
        device: &Arc<dyn Device>,
        mapping: PrivateMapping,
        blob: &Blob,
        len: usize,
    ) -> Result<Self> {
        let pointer = mapping.as_ptr();
        let keep: Keep = Arc::new(mapping);
        // SAFETY: readable and writable while the mapping, which is `keep`, lives.
        match unsafe { Storage::borrow(device, pointer, len, Some(keep)) } {
            Ok(storage) => Ok(Source::Private { storage }),
            Err(crate::Error::Unsupported(_)) => Ok(Source::Copied(blob.bytes().as_ptr())),
            Err(e) => Err(e),
        }
    }
}

/// Has the container load its constants; says whether it uses the source's memory.
fn update(aoti: &mut Aoti, model: &Arc<ModelContext>, source: &Source) -> Result<bool> {
    let (pointer, storage) = match source {
        Source::Shared { storage } | Source::Private { storage } => {
            (storage.as_ptr().cast_const(), Some(storage))
        }
        Source::Copied(pointer) => (*pointer, None),
    };
    model.offer_weights(storage.cloned());
    // SAFETY: the source has the bytes of all constants (`check_size`).
    let updated = unsafe { aoti.update_constants_from_blob(pointer) };
    model.offer_weights(None);
    updated?;
    // More references than ours: the container holds it.
    Ok(storage.is_some_and(|storage| Arc::strong_count(storage.buffer()) > 1))
}

/// Replaces constants that a model may write to by private copies; says how many bytes they have.
fn replace_writable(
    aoti: &mut Aoti,
    model: &Arc<ModelContext>,
    constants: &[Constant],
    placement: &Placement,
    blob: &Blob,
) -> Result<usize> {
    let handles = aoti.constant_handles()?;
    let mut copied = 0;
    let mut replacements = Vec::new();
    for (constant, &offset) in constants.iter().zip(&placement.offsets) {
        if constant.kind == ConstantKind::Parameter {
            continue;
        }
        let Some((_, handle)) = handles.iter().find(|(name, _)| *name == constant.original_name)
        else {
            return Err(err!(
                InvalidProgram,
                "the model does not have its own buffer {:?}; export it again",
                constant.original_name
            ));
        };
        let bytes = &blob.bytes()[offset..offset + constant.size];
        let tensor = context::lent(*handle)?;
        let copy = private_copy(model, &tensor, offset, bytes)?;
        copied += constant.size;
        replacements.push((constant.name.as_str(), context::lend(copy)));
    }
    let result = aoti.replace_constants(&replacements);
    for (_, handle) in replacements {
        context::take(handle)?;
    }
    result.map(|()| copied)
}

/// The same tensor over a copy of its constant, which lies at `offset` of the blob.
fn private_copy(
    model: &Arc<ModelContext>,
    tensor: &Tensor,
    offset: usize,
    bytes: &[u8],
) -> Result<Tensor> {
    let storage = Storage::allocate(model.device(), bytes.len())?;
    // SAFETY: a new storage of that many bytes, which no command uses yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.as_ptr(), bytes.len()) };
    let within = tensor.offset().saturating_sub(offset);
    let copy = Tensor::new(storage, within, tensor.dtype(), tensor.layout().clone())?;
    Ok(copy.placed(tensor.placement()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(size: usize) -> Constant {
        Constant {
            name: String::new(),
            original_name: String::new(),
            kind: ConstantKind::Parameter,
            size,
        }
    }

    #[test]
    fn padded_constants_can_be_used_in_place() {
        let placement = Placement::of(&[constant(128), constant(64), constant(0)], 192).unwrap();
        assert_eq!(placement.offsets, [0, 128, 192]);
        assert_eq!((placement.end, placement.mappable), (192, Some(192)));
    }

    #[test]
    fn others_are_copied() {
        // The second begins at byte 100 of the blob, but at 128 of the container's memory.
        assert_eq!(Placement::of(&[constant(100), constant(64)], 200).unwrap().mappable, None);
        // The container's memory would reach beyond the blob.
        assert_eq!(Placement::of(&[constant(100)], 100).unwrap().mappable, None);
        assert_eq!(Placement::of(&[constant(100)], 128).unwrap().mappable, Some(128));
        assert_eq!(Placement::of(&[], 0).unwrap().mappable, None);
        assert!(Placement::of(&[constant(usize::MAX), constant(64)], 0).is_err());
    }

    #[test]
    fn short_weights_are_refused_with_both_sizes() {
        let blob = Blob::shared(Arc::new(vec![0; 100]));
        let placement = Placement::of(&[constant(128)], 100).unwrap();
        let text = check_size(&placement, None, &blob).unwrap_err().to_string();
        assert!(text.contains("100") && text.contains("128"), "{text}");
        assert!(check_size(&placement, Some(64), &Blob::shared(Arc::new(vec![0; 128]))).is_ok());
        assert!(check_size(&placement, Some(256), &Blob::shared(Arc::new(vec![0; 128]))).is_err());
    }
}
