//! Operands of a command: what they are, their copies for the reference, and how both compare.

use super::Different;
use crate::Result;
use crate::device::{BufferRef, Device};
use crate::runner::{Comparison, HostTensor, Tolerance, compare};
use crate::tensor::DType;

/// Copies begin at addresses that are as aligned as the originals, up to this.
const ALIGNMENT: usize = 64;

/// Bytes behind each copy: kernels that read a little too far do so on a GPU too.
const SLACK: usize = 256;

/// Memory that a command uses.
#[derive(Debug, Clone)]
pub struct Use {
    /// What it is called in a report.
    pub what: String,
    /// The address of the first byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// What its elements are.
    pub dtype: Option<DType>,
}

/// Copies of all memory that a command uses. What overlaps there overlaps here.
pub struct Copies(Vec<Copy>);

struct Copy {
    /// The addresses that are copied.
    start: usize,
    end: usize,
    buffer: BufferRef,
}

impl Copy {
    /// Where in the copy an address stands.
    fn place(&self, address: usize) -> usize {
        self.start % ALIGNMENT + (address - self.start)
    }
}

impl Copies {
    /// Copies the memory to buffers of `device`.
    ///
    /// # Safety
    /// It can be read, and no work uses it.
    ///
    /// # Errors
    /// Out of memory.
    pub unsafe fn of(uses: &[Use], device: &dyn Device) -> Result<Copies> {
        let mut ranges: Vec<(usize, usize)> =
            uses.iter().map(|used| (used.start, used.start + used.len)).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (start, end) in ranges {
            match merged.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        let copy = |(start, end): (usize, usize)| {
            let lead = start % ALIGNMENT;
            let buffer = device.allocate(lead + (end - start) + SLACK)?;
            // SAFETY: the caller promises the source; the buffer is new and has room.
            unsafe {
                let to = buffer.contents();
                to.write_bytes(0, lead + (end - start) + SLACK);
                let from = std::ptr::with_exposed_provenance::<u8>(start);
                std::ptr::copy_nonoverlapping(from, to.add(lead), end - start);
            }
            Ok(Copy { start, end, buffer })
        };
        Ok(Copies(merged.into_iter().map(copy).collect::<Result<_>>()?))
    }

    /// The copy of what begins at an address, and the offset of that in it.
    pub fn of_address(&self, start: usize, len: usize) -> (&BufferRef, usize) {
        // Empty memory may lie at the edge of others; that of its own start is the last.
        let copy = self
            .0
            .iter()
            .rfind(|copy| copy.start <= start && start + len <= copy.end)
            .expect("all uses were copied");
        (&copy.buffer, copy.place(start))
    }

    /// Compares a use with its copy: elements, the largest error, and the difference if there is
    /// one.
    ///
    /// # Safety
    /// The memory can be read, and no work uses it nor the copies.
    ///
    /// # Errors
    /// The memory has a length that is no number of elements.
    pub unsafe fn compare(&self, used: &Use) -> Result<(usize, f64, Option<Different>)> {
        let dtype = used.dtype.unwrap_or(DType::U8);
        let len = used.len - used.len % dtype.size();
        let (copy, at) = self.of_address(used.start, used.len);
        // SAFETY: the caller's promise; the place lies inside the copy.
        let (subject, reference) = unsafe {
            let start = std::ptr::with_exposed_provenance::<u8>(used.start);
            (
                std::slice::from_raw_parts(start, len),
                std::slice::from_raw_parts(copy.contents().add(at), len),
            )
        };
        let elements = len / dtype.size();
        if subject == reference {
            return Ok((elements, 0.0, None));
        }
        let tensor = |bytes: &[u8]| HostTensor::new(dtype, vec![elements], bytes.to_vec());
        let (subject, reference) = (tensor(subject)?, tensor(reference)?);
        let tolerance = tolerance(dtype, &reference);
        let comparison = compare(&subject, &reference, tolerance)?;
        let largest = comparison.max_abs_error;
        let different = (!comparison.passes()).then(|| {
            difference(used, &subject.to_f64(), &reference.to_f64(), tolerance, &comparison)
        });
        Ok((elements, largest, different))
    }
}

/// What rounding may do: that of the dtype, where the absolute part is relative to the largest
/// element, as sums of large numbers may end near 0.
fn tolerance(dtype: DType, reference: &HostTensor) -> Tolerance {
    let finite = reference.to_f64().into_iter().filter(|value| value.is_finite());
    let largest = finite.fold(1.0f64, |most, value| most.max(value.abs()));
    let Tolerance { rtol, atol } = Tolerance::of(dtype);
    Tolerance { rtol, atol: atol * largest }
}

fn difference(
    used: &Use,
    subject: &[f64],
    reference: &[f64],
    tolerance: Tolerance,
    comparison: &Comparison,
) -> Different {
    let beyond = |(&a, &b): (&f64, &f64)| {
        let error = (a - b).abs();
        let same = a == b || (a.is_nan() && b.is_nan());
        let magnitude = if b.is_finite() { b.abs() } else { 0.0 };
        let within = error <= tolerance.atol + tolerance.rtol * magnitude;
        !same && !within
    };
    // Integers that differ beyond what a double holds are equal as doubles.
    let at = subject.iter().zip(reference).position(beyond).unwrap_or_default();
    Different {
        operand: used.what.clone(),
        dtype: used.dtype.map_or("bytes", DType::name).to_owned(),
        elements: comparison.numel,
        count: comparison.out_of_tolerance,
        largest_error: comparison.max_abs_error,
        at,
        subject: subject[at],
        reference: reference[at],
    }
}
