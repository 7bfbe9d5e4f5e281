//! Comparing a method's outputs with what is expected.

use super::host_tensor::HostTensor;
use crate::Result;
use crate::error::err;
use crate::tensor::DType;

/// How far a value may be from what is expected: `|actual - expected| <= atol + rtol * |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Relative to the expected value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

impl Tolerance {
    /// What rounding may do to a tensor of this dtype in a model of ordinary depth; none for
    /// integers.
    pub fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self { rtol: 1e-4, atol: 1e-5 },
            DType::F16 => Self { rtol: 1e-2, atol: 1e-2 },
            DType::Bf16 => Self { rtol: 2e-2, atol: 2e-2 },
            _ => Self { rtol: 0.0, atol: 0.0 },
        }
    }
}

/// Two values at one place that differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The index along each dimension.
    pub index: Vec<usize>,
    /// The value that was computed.
    pub actual: f64,
    /// The value that was expected.
    pub expected: f64,
}

/// What comparing two tensors gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The largest `|actual - expected|`; infinite where one is NaN or infinite and the other is
    /// not the same.
    pub max_abs_error: f64,
    /// The largest `|actual - expected| / |expected|` over expected values that are not 0.
    pub max_rel_error: f64,
    /// How many values are out of tolerance.
    pub out_of_tolerance: usize,
    /// The number of values.
    pub numel: usize,
    /// Where the value lies that is furthest out of tolerance; if all are within, where the
    /// largest error is. `None` if all are equal.
    pub worst: Option<Difference>,
}

impl Comparison {
    /// Whether every value is within tolerance.
    pub fn passes(&self) -> bool {
        self.out_of_tolerance == 0
    }
}

/// Compares element by element. NaN equals NaN; an infinity equals itself. Integers are compared
/// exactly, whatever their width.
///
/// # Errors
/// The shapes differ.
pub fn compare(
    actual: &HostTensor,
    expected: &HostTensor,
    tolerance: Tolerance,
) -> Result<Comparison> {
    if actual.sizes() != expected.sizes() {
        return Err(err!(
            InvalidArgument,
            "shape {:?} where {:?} is expected",
            actual.sizes(),
            expected.sizes()
        ));
    }
    let (a, e) = (actual.to_f64(), expected.to_f64());
    let errors: Vec<f64> = match (actual.to_i128(), expected.to_i128()) {
        (Some(a), Some(e)) => a.iter().zip(&e).map(|(a, e)| a.abs_diff(*e) as f64).collect(),
        _ => a.iter().zip(&e).map(|(&a, &e)| error_of(a, e)).collect(),
    };

    let mut result = Comparison {
        max_abs_error: 0.0,
        max_rel_error: 0.0,
        out_of_tolerance: 0,
        numel: errors.len(),
        worst: None,
    };
    let mut worst = (0.0, 0); // excess over the allowed error, place
    for (i, (&error, &expected)) in errors.iter().zip(&e).enumerate() {
        if error == 0.0 {
            continue;
        }
        let allowed = tolerance.atol + tolerance.rtol * finite_abs(expected);
        result.out_of_tolerance += usize::from(error > allowed);
        result.max_abs_error = result.max_abs_error.max(error);
        if expected != 0.0 && expected.is_finite() {
            result.max_rel_error = result.max_rel_error.max(error / expected.abs());
        }
        let excess = if allowed > 0.0 { error / allowed } else { error };
        if excess > worst.0 {
            worst = (excess, i);
        }
    }
    if worst.0 > 0.0 {
        let place = worst.1;
        let index = unravel(place, actual.sizes());
        result.worst = Some(Difference { index, actual: a[place], expected: e[place] });
    }
    Ok(result)
}

fn error_of(actual: f64, expected: f64) -> f64 {
    if actual == expected || (actual.is_nan() && expected.is_nan()) {
        return 0.0;
    }
    let error = (actual - expected).abs();
    if error.is_nan() { f64::INFINITY } else { error }
}

fn finite_abs(value: f64) -> f64 {
    if value.is_finite() { value.abs() } else { 0.0 }
}

fn unravel(mut place: usize, sizes: &[usize]) -> Vec<usize> {
    let mut index = vec![0; sizes.len()];
    for (i, &size) in index.iter_mut().zip(sizes).rev() {
        *i = place % size;
        place /= size;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: Tolerance = Tolerance { rtol: 1e-4, atol: 1e-5 };

    fn tensor(values: &[f32]) -> HostTensor {
        HostTensor::from_elements(vec![values.len()], values.iter().copied()).unwrap()
    }

    #[test]
    fn values_within_tolerance_pass_and_the_error_is_told() {
        let result = compare(&tensor(&[1.00005, 2.0]), &tensor(&[1.0, 2.0]), F32).unwrap();
        assert!(result.passes());
        assert!((result.max_abs_error - 5e-5).abs() < 1e-7);
        assert_eq!(result.worst.unwrap().index, [0]);
    }

    #[test]
    fn the_worst_element_is_named_by_its_index() {
        let expected = HostTensor::from_elements(vec![2, 3], [0f32; 6]).unwrap();
        let actual = HostTensor::from_elements(vec![2, 3], [0f32, 0., 0., 0., 0.5, 0.]).unwrap();
        let result = compare(&actual, &expected, F32).unwrap();
        assert!(!result.passes());
        assert_eq!(result.out_of_tolerance, 1);
        let worst = Difference { index: vec![1, 1], actual: 0.5, expected: 0.0 };
        assert_eq!(result.worst, Some(worst));
    }

    #[test]
    fn nan_and_infinity_equal_only_themselves() {
        let odd = tensor(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(compare(&odd, &odd, F32).unwrap().passes());
        assert_eq!(compare(&odd, &odd, F32).unwrap().worst, None);
        for (actual, expected) in [
            (f32::NAN, 1.0),
            (1.0, f32::NAN),
            (f32::INFINITY, f32::NEG_INFINITY),
            (1.0, f32::INFINITY),
            (f32::INFINITY, 1.0),
        ] {
            let result = compare(&tensor(&[actual]), &tensor(&[expected]), F32).unwrap();
            assert!(!result.passes(), "{actual} for {expected}");
            assert_eq!(result.max_abs_error, f64::INFINITY);
        }
    }

    #[test]
    fn integers_are_exact_even_where_f64_is_not() {
        let big = 1i64 << 60;
        let a = HostTensor::from_elements(vec![1], [big]).unwrap();
        let b = HostTensor::from_elements(vec![1], [big + 1]).unwrap();
        let result = compare(&b, &a, Tolerance::of(DType::I64)).unwrap();
        assert!(!result.passes());
        assert_eq!(result.max_abs_error, 1.0);
        assert!(compare(&a, &a, Tolerance::of(DType::I64)).unwrap().passes());
    }

    #[test]
    fn different_shapes_are_an_error_and_empty_tensors_are_equal() {
        assert!(compare(&tensor(&[1.0]), &tensor(&[1.0, 2.0]), F32).is_err());
        let empty = HostTensor::from_elements(vec![0, 3], [0f32; 0]).unwrap();
        assert!(compare(&empty, &empty, F32).unwrap().passes());
    }
}
