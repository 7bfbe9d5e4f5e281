//! What a check measures.

use super::Outcome;
use crate::Result;
use crate::runner::{HostTensor, Tolerance, compare};
use crate::tensor::DType;

/// What was compared so far, and the first thing that is wrong.
#[derive(Debug, Default)]
pub struct Measured {
    elements: usize,
    largest_error: f64,
    wrong: Option<String>,
    skipped: Option<String>,
}

impl Measured {
    /// A check that could not be made to its end.
    pub fn failed(why: String) -> Measured {
        Measured { wrong: Some(why), ..Measured::default() }
    }

    /// A check that cannot be made here.
    pub fn skipped(why: impl Into<String>) -> Measured {
        Measured { skipped: Some(why.into()), ..Measured::default() }
    }

    /// Elements that were compared.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The largest error.
    pub fn largest_error(&self) -> f64 {
        self.largest_error
    }

    /// What came of it.
    pub fn outcome(self) -> Outcome {
        match (self.wrong, self.skipped) {
            (Some(why), _) => Outcome::Fail(why),
            (None, Some(why)) => Outcome::Skipped(why),
            (None, None) if self.elements == 0 => Outcome::Fail("nothing was compared".to_owned()),
            (None, None) => Outcome::Pass,
        }
    }

    /// Compares a result with what it should be, element by element.
    ///
    /// # Errors
    /// The shapes differ.
    pub fn compare(
        &mut self,
        what: &str,
        actual: &HostTensor,
        expected: &HostTensor,
    ) -> Result<()> {
        let tolerance = tolerance(actual.dtype(), expected);
        let comparison = compare(actual, expected, tolerance)?;
        self.elements += comparison.numel;
        self.largest_error = self.largest_error.max(comparison.max_abs_error);
        if let Some(worst) = comparison.worst.as_ref().filter(|_| !comparison.passes()) {
            let text = format!(
                "{what}: {} of {} elements differ; at {:?} it is {}, not {}",
                comparison.out_of_tolerance,
                comparison.numel,
                worst.index,
                worst.actual,
                worst.expected
            );
            self.wrong.get_or_insert(text);
        }
        Ok(())
    }

    /// [`Measured::compare`] with numbers, rounded to the result's dtype.
    ///
    /// # Errors
    /// As many numbers as elements are wanted.
    pub fn compare_with(
        &mut self,
        what: &str,
        actual: &HostTensor,
        expected: &[f64],
    ) -> Result<()> {
        let expected = super::data::rounded(actual.dtype(), actual.sizes(), expected)?;
        self.compare(what, actual, &expected)
    }

    /// Adds what another check measured.
    pub fn add(&mut self, other: Measured) {
        self.elements += other.elements;
        self.largest_error = self.largest_error.max(other.largest_error);
        self.wrong = self.wrong.take().or(other.wrong);
        self.skipped = self.skipped.take().or(other.skipped);
    }

    /// One thing that must be true.
    pub fn require(&mut self, truth: bool, otherwise: impl FnOnce() -> String) {
        self.elements += 1;
        if !truth {
            self.wrong.get_or_insert_with(otherwise);
        }
    }
}

/// What rounding may do, and the order of additions: the absolute part is relative to the largest
/// element, as sums of large numbers may end near 0.
fn tolerance(dtype: DType, expected: &HostTensor) -> Tolerance {
    let finite = expected.to_f64().into_iter().filter(|value| value.is_finite());
    let largest = finite.fold(1.0f64, |most, value| most.max(value.abs()));
    let Tolerance { rtol, atol } = Tolerance::of(dtype);
    Tolerance { rtol, atol: atol * largest }
}
