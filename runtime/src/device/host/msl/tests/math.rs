//! The math functions against double precision.

use super::*;

/// Inputs of many sizes, both signs, and the special ones.
fn inputs() -> Vec<f32> {
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        0.1,
        2.0,
        3.0,
        10.0,
        100.0,
        0.49999997,
        1.5,
        2.5,
        -2.5,
        8388607.5,
        1e5,
        -1e5,
        1e10,
        1e20,
        3.4e38,
        1e-5,
        1e-10,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        std::f32::consts::PI,
        88.7,
        -87.0,
        128.0,
        -149.0,
        16777216.0,
        33554433.0,
        5.0e9,
        -7.0e30,
    ];
    let mut state = 12345u32;
    for i in 0..4000u32 {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let unit = (state >> 8) as f32 / 16777216.0;
        let scale = [1.0, 10.0, 100.0, 1e4, 1e-3][(i % 5) as usize];
        values.push((unit * 2.0 - 1.0) * scale);
        // Any exponent at all.
        values.push(f32::from_bits(state.rotate_left(13)));
    }
    values
}

/// Distance in units of the last place of the float nearest to `want`.
pub(super) fn ulps(got: f32, want: f64) -> f64 {
    if got.is_nan() && want.is_nan() {
        return 0.0;
    }
    let rounded = want as f32;
    if got == rounded {
        return 0.0;
    }
    if got.is_infinite() || rounded.is_infinite() || got.is_nan() || want.is_nan() {
        // Within one ulp of the overflow threshold either is right.
        return if got.abs().min(rounded.abs()) > 3.4e38 { 1.0 } else { f64::INFINITY };
    }
    let ulp = f64::from(f32::from_bits((rounded.abs().to_bits()).max(1 << 23) + 1))
        - f64::from(f32::from_bits(rounded.abs().to_bits().max(1 << 23)));
    (f64::from(got) - want).abs() / ulp
}

type Reference = fn(f64) -> f64;

#[test]
fn functions_of_one_argument() {
    let table: [(&str, f64, Reference); 31] = [
        ("acos", 1.0, f64::acos),
        ("acosh", 1.0, f64::acosh),
        ("asin", 1.0, f64::asin),
        ("asinh", 1.0, |x| {
            x.signum() * (x.abs() + (x * x + 1.0).sqrt()).ln().max(0.0) * f64::from(x.abs() > 1e-4)
                + if x.abs() > 1e-4 { 0.0 } else { x }
        }),
        ("atan", 1.0, f64::atan),
        ("atanh", 1.0, f64::atanh),
        ("cos", 2.5, f64::cos),
        ("cosh", 1.0, f64::cosh),
        ("exp", 2.0, f64::exp),
        ("exp2", 1.0, f64::exp2),
        ("exp10", 1.0, |x| 10f64.powf(x)),
        ("log", 2.0, f64::ln),
        ("log2", 1.0, f64::log2),
        ("log10", 1.0, f64::log10),
        ("rsqrt", 2.0, |x| 1.0 / x.sqrt()),
        ("sin", 2.5, f64::sin),
        ("sinh", 1.0, f64::sinh),
        ("sqrt", 0.5, f64::sqrt),
        ("tan", 1.0, f64::tan),
        ("tanh", 6.0, f64::tanh),
        ("ceil", 0.0, f64::ceil),
        ("fabs", 0.0, f64::abs),
        ("floor", 0.0, f64::floor),
        ("rint", 0.0, f64::round_ties_even),
        ("round", 0.0, f64::round),
        ("trunc", 0.0, f64::trunc),
        ("sinpi", 1.0, |x| if x.is_finite() && x == x.trunc() { 0.0 } else { half_turns(x).sin() }),
        ("cospi", 1.0, |x| {
            if x.is_finite() && x != x.trunc() && 2.0 * x == (2.0 * x).trunc() {
                0.0
            } else {
                half_turns(x).cos()
            }
        }),
        ("fract", 0.5, |x| {
            if x.is_nan() {
                x
            } else if x.is_infinite() {
                0.0
            } else {
                (x - x.floor()).min(f64::from(1.0 - f32::EPSILON / 2.0))
            }
        }),
        ("sign", 0.0, |x| {
            if x.is_nan() {
                0.0
            } else if x == 0.0 {
                x
            } else {
                x.signum()
            }
        }),
        ("abs", 0.0, f64::abs),
    ];
    let rows: String = table
        .iter()
        .enumerate()
        .map(|(row, (name, ..))| format!("out[{row} * n + i] = {name}(x);\n"))
        .collect();
    let source = with_header(&format!(
        "kernel void f(device float* out, constant float* in, constant uint& n, uint i [[thread_position_in_grid]]) {{\n\
         float x = in[i];\n{rows}}}"
    ));
    let mut input = inputs();
    let n = u32::try_from(input.len()).unwrap();
    let mut out = vec![0.0f32; table.len() * input.len()];
    Dispatch::new([n, 1, 1], [256, 1, 1])
        .arg(&mut out)
        .arg(&mut input)
        .arg(&mut [n])
        .run(&kernel(&source, "f"));
    for ((name, bound, reference), row) in table.iter().zip(out.chunks(input.len())) {
        for (&x, &got) in input.iter().zip(row) {
            let want = reference(f64::from(x));
            let error = ulps(got, want);
            assert!(error <= *bound, "{name}({x:e}) is {got:e}, not {want:e}: {error} ulp");
        }
    }
}

/// pi * x, with the whole turns taken off first.
fn half_turns(x: f64) -> f64 {
    (x - 2.0 * (x / 2.0).round()) * std::f64::consts::PI
}

#[test]
fn functions_of_two_arguments() {
    type Reference = fn(f64, f64) -> f64;
    let fmod: Reference = |x, y| x % y;
    let table: [(&str, f64, Reference); 8] = [
        ("atan2", 1.0, f64::atan2),
        ("pow", 1.0, f64::powf),
        ("fmod", 0.0, fmod),
        ("copysign", 0.0, f64::copysign),
        ("fmin", 0.0, f64::min),
        ("fmax", 0.0, f64::max),
        ("fdim", 0.5, |x, y| {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else if x > y {
                x - y
            } else {
                0.0
            }
        }),
        ("divide", 0.5, |x, y| x / y),
    ];
    let rows: String = table
        .iter()
        .enumerate()
        .map(|(row, (name, ..))| format!("out[{row} * n + i] = {name}(x, y);\n"))
        .collect();
    let source = with_header(&format!(
        "kernel void f(device float* out, constant float* a, constant float* b, constant uint& n, uint i [[thread_position_in_grid]]) {{\n\
         float x = a[i], y = b[i];\n{rows}}}"
    ));
    let values = inputs();
    let mut a: Vec<f32> =
        values.iter().copied().chain(values[..38].iter().flat_map(|&x| [x; 38])).collect();
    let mut b: Vec<f32> = values
        .iter()
        .rev()
        .copied()
        .chain(values[..38].iter().flat_map(|_| values[..38].to_vec()))
        .collect();
    let n = u32::try_from(a.len()).unwrap();
    let mut out = vec![0.0f32; table.len() * a.len()];
    Dispatch::new([n, 1, 1], [256, 1, 1])
        .arg(&mut out)
        .arg(&mut a)
        .arg(&mut b)
        .arg(&mut [n])
        .run(&kernel(&source, "f"));
    for ((name, bound, reference), row) in table.iter().zip(out.chunks(a.len())) {
        for ((&x, &y), &got) in a.iter().zip(&b).zip(row) {
            let want = reference(f64::from(x), f64::from(y));
            let error = ulps(got, want);
            assert!(error <= *bound, "{name}({x:e}, {y:e}) is {got:e}, not {want:e}: {error} ulp");
        }
    }
}

#[test]
fn parts_of_numbers_and_selection() {
    let source = with_header(
        "kernel void f(device float* o, constant float* in) {\n\
           int e; o[0] = frexp(in[0], e); o[1] = e; o[2] = ldexp(in[0], -140); o[3] = ilogb(in[0]);\n\
           float w; o[4] = modf(in[1], w); o[5] = w; float c; o[6] = sincos(in[2], c); o[7] = c;\n\
           o[8] = nextafter(in[0], 0.0); o[9] = fma(in[0], in[1], in[2]);\n\
           o[10] = clamp(in[0], 0.0, 5.0); o[11] = saturate(in[1]); o[12] = mix(1.0, 3.0, 0.25);\n\
           o[13] = step(0.5, in[2]); o[14] = smoothstep(0.0, 1.0, 0.25); o[15] = select(1.0, 2.0, in[0] > 1);\n\
           o[16] = max3(1.0, 5.0, 3.0); o[17] = median3(1.0, 5.0, 3.0); o[18] = min(NAN, 4.0f); o[19] = max(4.0f, NAN);\n\
           o[20] = isnan(in[3]) + 10 * isinf(in[4]) + 100 * isfinite(in[0]) + 1000 * signbit(in[1]) + 10000 * isnormal(1e-40f);\n\
           o[21] = length(float3(2, 3, 6)); o[22] = dot(float2(1, 2), float2(3, 4)); o[23] = normalize(float2(3, 4)).y;\n\
           o[24] = cross(float3(1, 0, 0), float3(0, 1, 0)).z; o[25] = precise::exp(half(0)) + fast::sqrt(4.0f);\n\
         }",
    );
    let mut out = [0.0f32; 26];
    let mut input = [12.0f32, -2.75, 0.5, f32::NAN, f32::INFINITY];
    Dispatch::new([1, 1, 1], [1, 1, 1]).arg(&mut out).arg(&mut input).run(&kernel(&source, "f"));
    let want = [
        0.75,
        4.0,
        (12.0 * 2f64.powi(-140)) as f32,
        3.0,
        -0.75,
        -2.0,
        0.5f32.sin(),
        0.5f32.cos(),
        f32::from_bits(12f32.to_bits() - 1),
        -32.5,
        5.0,
        0.0,
        1.5,
        1.0,
        0.15625,
        2.0,
        5.0,
        3.0,
        4.0,
        4.0,
        1111.0,
        7.0,
        11.0,
        0.8,
        1.0,
        3.0,
    ];
    for (i, (got, want)) in out.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= want.abs() * 1e-6, "o[{i}] is {got}, not {want}");
    }
}
