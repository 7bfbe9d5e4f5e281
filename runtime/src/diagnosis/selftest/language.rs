//! What shaders use of the language, and kernels that PyTorch generated, against plain loops.

use super::data::{Given, noise, read};
use super::{Measured, Planned, Session, planned};
use crate::Result;
use crate::kernel::Arguments;
use crate::library::Library;
use crate::runner::HostTensor;
use crate::tensor::{DType, Tensor};

/// Kernels of ours, one for each thing that is checked.
const SOURCE: &str = "#include <metal_stdlib>
using namespace metal;
kernel void widths(device float* out [[buffer(0)]], device const half* a [[buffer(1)]],
                   device const bfloat* b [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    out[i] = float(a[i]) + float(b[i]);
}
kernel void precise_math(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                         constant long& count [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    out[i] = exp(x[i]);
    out[count + i] = sin(x[i]);
    out[2 * count + i] = precise::tanh(x[i]);
    out[3 * count + i] = rsqrt(x[i] * x[i] + 1.0f);
    out[4 * count + i] = isnan(x[i]) ? 1.0f : 0.0f;
}
kernel void simd_sums(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                      uint i [[thread_position_in_grid]]) {
    out[i] = simd_sum(x[i]);
}
kernel void reversed(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                     threadgroup float* tile [[threadgroup(0)]],
                     uint i [[thread_position_in_grid]],
                     uint t [[thread_position_in_threadgroup]],
                     uint n [[threads_per_threadgroup]]) {
    threadgroup float fixed[64];
    tile[t] = x[i];
    fixed[t] = 1.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[i] = tile[n - 1 - t] + fixed[n - 1 - t];
}
kernel void count_all(device atomic_uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    atomic_fetch_add_explicit(out, i & 1, memory_order_relaxed);
}
kernel void places(device uint* out [[buffer(0)]], constant uint3& size [[buffer(1)]],
                   uint3 i [[thread_position_in_grid]], uint3 g [[threadgroup_position_in_grid]]) {
    out[(i.z * size.y + i.y) * size.x + i.x] = g.x + 100 * g.y + 10000 * g.z;
}";

/// The checks.
pub fn checks() -> Vec<Planned> {
    vec![
        planned("language", "half and bfloat", widths),
        planned("language", "mathematics as PyTorch has it", mathematics),
        planned("language", "sums of a SIMD group", simd_sums),
        planned("language", "threadgroup memory and barriers", reversed),
        planned("language", "atomics", atomics),
        planned("language", "grids of three dimensions with partial threadgroups", places),
        planned("language", "generated: layer norm", layer_norm),
        planned("language", "generated: reductions", reductions),
        planned("language", "generated: argmax", argmax),
    ]
}

/// One kernel call.
struct Call<'a> {
    source: &'a str,
    kernel: &'a str,
    given: &'a [Given],
    threads: &'a [u64],
    group: &'a [u64],
    /// Bytes of a threadgroup argument.
    threadgroup: u32,
}

impl Call<'_> {
    /// Runs it, with more arguments if `more` sets some, and reads all tensors.
    fn run(
        &self,
        session: &Session,
        more: impl FnOnce(&mut Arguments) -> Result<()>,
    ) -> Result<Vec<HostTensor>> {
        let kernel = Library::compile(&session.device, "selftest", self.source)?;
        let kernel = kernel.kernel(self.kernel)?;
        let tensors: Vec<Tensor> =
            self.given.iter().map(|given| given.on(&session.device)).collect::<Result<_>>()?;
        let mut arguments = Arguments::new();
        for (index, tensor) in tensors.iter().enumerate() {
            arguments.tensor(index, tensor)?;
        }
        if self.threadgroup > 0 {
            arguments.threadgroup(0, self.threadgroup)?;
        }
        more(&mut arguments)?;
        let stream = session.stream();
        stream.dispatch(&kernel, &arguments, kernel.grid(self.threads, Some(self.group))?)?;
        stream.commit_and_wait()?;
        tensors.iter().map(read).collect()
    }
}

fn ours<'a>(kernel: &'a str, given: &'a [Given], threads: &'a [u64], group: &'a [u64]) -> Call<'a> {
    Call { source: SOURCE, kernel, given, threads, group, threadgroup: 0 }
}

fn zeros(dtype: DType, count: i64) -> Given {
    Given::new(dtype, &[count], vec![0.0; count as usize])
}

fn widths(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let (a, b) = (Given::noise(DType::F16, &[77], 1), Given::noise(DType::Bf16, &[77], 2));
    let sums: Vec<f64> = a.rounded()?.iter().zip(b.rounded()?).map(|(a, b)| a + b).collect();
    let got =
        ours("widths", &[zeros(DType::F32, 77), a, b], &[77], &[32]).run(session, |_| Ok(()))?;
    measured.compare_with("sums", &got[0], &sums)?;
    Ok(measured)
}

fn mathematics(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let mut x = Given::noise(DType::F32, &[100], 3);
    x.values.iter_mut().for_each(|value| *value *= 5.0);
    // Fast mathematics assume that there are none of these.
    (x.values[0], x.values[1], x.values[2]) = (f64::NAN, f64::INFINITY, f64::NEG_INFINITY);
    let numbers = x.rounded()?;
    let all = |f: fn(f64) -> f64| numbers.iter().map(move |&x| f(x));
    let expected: Vec<f64> = all(f64::exp)
        .chain(all(f64::sin))
        .chain(all(f64::tanh))
        .chain(all(|x| 1.0 / (x * x + 1.0).sqrt()))
        .chain(all(|x| f64::from(x.is_nan())))
        .collect();
    let got = ours("precise_math", &[zeros(DType::F32, 500), x], &[100], &[50])
        .run(session, |arguments| arguments.i64(2, 100))?;
    measured.compare_with("exp, sin, tanh, rsqrt, isnan", &got[0], &expected)?;
    Ok(measured)
}

fn simd_sums(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let x = Given::noise(DType::F32, &[128], 4);
    let rows = x.rounded()?;
    let expected: Vec<f64> =
        rows.chunks(32).flat_map(|row| std::iter::repeat_n(row.iter().sum(), 32)).collect();
    let got =
        ours("simd_sums", &[zeros(DType::F32, 128), x], &[128], &[64]).run(session, |_| Ok(()))?;
    measured.compare_with("sums", &got[0], &expected)?;
    Ok(measured)
}

fn reversed(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let x = Given::noise(DType::F32, &[192], 5);
    let expected: Vec<f64> = x
        .rounded()?
        .chunks(64)
        .flat_map(|row| row.iter().rev().map(|v| v + 1.0).collect::<Vec<_>>())
        .collect();
    let given = [zeros(DType::F32, 192), x];
    let call = Call { threadgroup: 256, ..ours("reversed", &given, &[192], &[64]) };
    let got = call.run(session, |_| Ok(()))?;
    measured.compare_with("rows", &got[0], &expected)?;
    Ok(measured)
}

fn atomics(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let got =
        ours("count_all", &[zeros(DType::U32, 1)], &[100_000], &[256]).run(session, |_| Ok(()))?;
    measured.compare_with("odd numbers", &got[0], &[50_000.0])?;
    Ok(measured)
}

fn places(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let [x, y, z] = [13u32, 5, 3];
    let expected: Vec<f64> = (0..z)
        .flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| (i, j, k))))
        .map(|(i, j, k)| f64::from(i / 4 + 100 * (j / 2) + 10_000 * (k / 2)))
        .collect();
    let out = Given::new(DType::U32, &[195], vec![0.0; 195]);
    let got = ours("places", &[out], &[13, 5, 3], &[4, 2, 2])
        .run(session, |arguments| arguments.uint3(1, [x, y, z]))?;
    measured.compare_with("threadgroups", &got[0], &expected)?;
    Ok(measured)
}

/// A kernel that PyTorch generated: a row for each threadgroup.
fn generated<'a>(source: &'a str, given: &'a [Given], rows: &'a [u64; 2]) -> Call<'a> {
    let group: &[u64] = match rows[1] {
        40 => &[1, 40],
        64 => &[1, 64],
        _ => &[1, 300],
    };
    Call { source, kernel: "generated_kernel", given, threads: rows, group, threadgroup: 0 }
}

fn layer_norm(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let x = Given::noise(DType::F32, &[37, 64], 6);
    let (weight, bias) = (Given::noise(DType::F32, &[64], 7), Given::noise(DType::F32, &[64], 8));
    let (of_weight, of_bias) = (weight.rounded()?, bias.rounded()?);
    let mut expected = Vec::new();
    for row in x.rounded()?.chunks(64) {
        let mean = row.iter().sum::<f64>() / 64.0;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 64.0;
        for i in 0..64 {
            let normal = (row[i] - mean) / (variance + 1e-5).sqrt();
            expected.push(normal * of_weight[i] + of_bias[i]);
        }
    }
    let source = include_str!("../../device/host/msl/testdata/layernorm.metal");
    let given = [zeros(DType::F32, 37 * 64), x, weight, bias];
    let got = generated(source, &given, &[37, 64]).run(session, |_| Ok(()))?;
    measured.compare_with("rows", &got[0], &expected)?;
    Ok(measured)
}

fn reductions(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let values: Vec<f64> = noise(1500, 9)
        .into_iter()
        .enumerate()
        .map(|(i, n)| n * 0.1 + 1.0 - 2.0 * f64::from((300..600).contains(&i)))
        .collect();
    let x = Given::new(DType::F32, &[5, 300], values);
    let wide = x.rounded()?;
    let rows = || wide.chunks(300);
    let mean = |row: &[f64]| row.iter().sum::<f64>() / 300.0;
    let expected: [Vec<f64>; 6] = [
        rows().map(|row| row.iter().sum()).collect(),
        rows().map(|row| row.iter().copied().fold(f64::MIN, f64::max)).collect(),
        rows().map(|row| row.iter().product()).collect(),
        (0..5).map(|i| f64::from(i != 1)).collect(),
        rows()
            .map(|row| row.iter().map(|v| (v - mean(row)).powi(2)).sum::<f64>() / 299.0)
            .collect(),
        rows().map(|row| row.iter().map(|v| v * v).sum::<f64>().sqrt()).collect(),
    ];
    let source = include_str!("../../device/host/msl/testdata/reductions.metal");
    let result = |i: usize| zeros(if i == 3 { DType::Bool } else { DType::F32 }, 5);
    let given: Vec<Given> = (0..6).map(result).chain([x]).collect();
    let got = generated(source, &given, &[5, 300]).run(session, |_| Ok(()))?;
    let names = ["sum", "max", "product", "any", "variance", "norm"];
    for ((name, got), expected) in names.iter().zip(&got).zip(&expected) {
        measured.compare_with(name, got, expected)?;
    }
    Ok(measured)
}

fn argmax(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let mut x = Given::noise(DType::F32, &[11, 40], 10);
    (x.values[40 + 12], x.values[40 + 35], x.values[2 * 40 + 38]) = (50.0, 50.0, f64::NAN);
    let (mut greatest, mut places) = (Vec::new(), Vec::new());
    for row in x.rounded()?.chunks(40) {
        // NaN is the greatest; of equal ones the first.
        let place = super::reference::order(row, true)[0];
        greatest.push(row[place]);
        places.push(place as f64);
    }
    let source = include_str!("../../device/host/msl/testdata/argmax.metal");
    let given = [zeros(DType::F32, 11), zeros(DType::I64, 11), zeros(DType::I64, 11), x];
    let got = generated(source, &given, &[11, 40]).run(session, |_| Ok(()))?;
    measured.compare_with("greatest", &got[0], &greatest)?;
    measured.compare_with("places", &got[1], &places)?;
    measured.compare_with("places again", &got[2], &places)?;
    Ok(measured)
}
