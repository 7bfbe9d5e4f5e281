//! Shaders of exported models, with PyTorch's Metal headers (`c10/metal`) inlined by its exporter.

use half::bf16;

use super::*;

/// Values that look random.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / 8388608.0 - 1.0
    };
    (0..count).map(|_| next() + next()).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f32>) -> f64 {
    let count = values.len() as f64;
    values.map(f64::from).sum::<f64>() / count
}

#[test]
fn layernorm() {
    let native = kernel(include_str!("../testdata/layernorm.metal"), "generated_kernel");
    let (mut x, mut weight, mut bias) = (noise(37 * 64, 1), noise(64, 2), noise(64, 3));
    let mut out = vec![0.0f32; 37 * 64];
    Dispatch::new([37, 64, 1], [1, 64, 1])
        .arg(&mut out)
        .arg(&mut x)
        .arg(&mut weight)
        .arg(&mut bias)
        .run(&native);
    for (row, got) in x.chunks(64).zip(out.chunks(64)) {
        let average = mean(row.iter().copied());
        let variance = mean(row.iter().map(|v| ((f64::from(*v) - average).powi(2)) as f32));
        for i in 0..64 {
            let normal = (f64::from(row[i]) - average) / (variance + 1e-5).sqrt();
            let want = normal * f64::from(weight[i]) + f64::from(bias[i]);
            assert!((f64::from(got[i]) - want).abs() < 1e-5, "{} is not {want}", got[i]);
        }
    }
}

#[test]
fn argmax_takes_the_first_of_equals_and_nan() {
    let native = kernel(include_str!("../testdata/argmax.metal"), "generated_kernel");
    let mut x: Vec<f32> = noise(11 * 40, 7);
    x[40 + 12] = 50.0;
    x[40 + 35] = 50.0;
    x[2 * 40 + 38] = f32::NAN;
    let (mut max, mut first, mut second) = ([0.0f32; 11], [0i64; 11], [0i64; 11]);
    Dispatch::new([11, 40, 1], [1, 40, 1])
        .arg(&mut max)
        .arg(&mut first)
        .arg(&mut second)
        .arg(&mut x)
        .run(&native);
    for (i, row) in x.chunks(40).enumerate() {
        let greatest = row.iter().copied().fold(f32::NEG_INFINITY, |a, b| {
            if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }
        });
        let place =
            row.iter().position(|v| v.to_bits() == greatest.to_bits() || v.is_nan()).unwrap();
        assert_eq!(max[i].is_nan(), greatest.is_nan());
        assert!(greatest.is_nan() || max[i] == greatest);
        assert_eq!((first[i], second[i]), (place as i64, place as i64), "row {i}");
    }
}

#[test]
fn rms_norm_in_bfloat16() {
    let native = kernel(include_str!("../testdata/rms_norm_bfloat16.metal"), "generated_kernel");
    let bfloats = |v: Vec<f32>| v.into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    let (mut a, mut b, mut weight) =
        (bfloats(noise(9 * 64, 1)), bfloats(noise(9 * 64, 2)), bfloats(noise(64, 3)));
    let mut out = vec![bf16::ZERO; 9 * 64];
    Dispatch::new([9, 64, 1], [1, 64, 1])
        .arg(&mut out)
        .arg(&mut a)
        .arg(&mut b)
        .arg(&mut weight)
        .run(&native);
    for row in 0..9 {
        let sums: Vec<f32> =
            (0..64).map(|i| a[row * 64 + i].to_f32() + b[row * 64 + i].to_f32()).collect();
        let scale = 1.0 / (mean(sums.iter().map(|v| v * v)) + 1e-5).sqrt();
        for i in 0..64 {
            let normal = bf16::from_f64(f64::from(sums[i]) * scale);
            let want = normal.to_f32() * weight[i].to_f32();
            let got = out[row * 64 + i].to_f32();
            assert!((got - want).abs() <= want.abs() / 128.0 + 1e-6, "{got} is not {want}");
        }
    }
}

#[test]
fn reductions_over_a_partial_simd_group() {
    let native = kernel(include_str!("../testdata/reductions.metal"), "generated_kernel");
    let mut x: Vec<f32> = noise(5 * 300, 9).iter().map(|v| v * 0.1 + 1.0).collect();
    x[300..600].iter_mut().for_each(|v| *v = -v.abs());
    let (mut sum, mut max, mut product) = ([0.0f32; 5], [0.0f32; 5], [0.0f32; 5]);
    let (mut any, mut variance, mut norm) = ([false; 5], [0.0f32; 5], [0.0f32; 5]);
    Dispatch::new([5, 300, 1], [1, 300, 1])
        .arg(&mut sum)
        .arg(&mut max)
        .arg(&mut product)
        .arg(&mut any)
        .arg(&mut variance)
        .arg(&mut norm)
        .arg(&mut x)
        .run(&native);
    let close = |got: f32, want: f64| {
        assert!((f64::from(got) - want).abs() <= want.abs() * 1e-4, "{got} is not {want}")
    };
    for (i, row) in x.chunks(300).enumerate() {
        let wide: Vec<f64> = row.iter().map(|&v| f64::from(v)).collect();
        let average = wide.iter().sum::<f64>() / 300.0;
        close(sum[i], wide.iter().sum());
        assert_eq!(max[i], row.iter().copied().fold(f32::MIN, f32::max));
        close(product[i], wide.iter().product());
        assert_eq!(any[i], i != 1);
        close(variance[i], wide.iter().map(|v| (v - average).powi(2)).sum::<f64>() / 299.0);
        close(norm[i], wide.iter().map(|v| v * v).sum::<f64>().sqrt());
    }
}
