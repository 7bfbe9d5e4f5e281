//! Op graphs, against plain loops.

use super::data::{FLOATS, Given, noise, read, whole};
use super::{Measured, Planned, Session, planned, reference};
use crate::Result;
use crate::ops::{self, Convolution};
use crate::runner::HostTensor;
use crate::tensor::{DType, Tensor};

/// The dtypes that products and sums may have.
const ARITHMETIC: [DType; 8] =
    [DType::F32, DType::F16, DType::Bf16, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64];

/// The checks.
pub fn checks() -> Vec<Planned> {
    let mut all = Vec::new();
    for dtype in ARITHMETIC {
        all.push(planned("graph", format!("mm {dtype}"), move |s| products(s, dtype)));
        all.push(planned("graph", format!("bmm {dtype}"), move |s| batches(s, dtype)));
        all.push(planned("graph", format!("cumsum {dtype}"), move |s| sums(s, dtype)));
    }
    for dtype in FLOATS {
        all.push(planned("graph", format!("addmm {dtype}"), move |s| with_input(s, dtype)));
    }
    all.push(planned("graph", "cumprod int32", cumulative_products));
    for dtype in DType::ALL {
        all.push(planned("graph", format!("sort {dtype}"), move |s| sorts(s, dtype, None)));
        all.push(planned("graph", format!("topk {dtype}"), move |s| sorts(s, dtype, Some(4))));
    }
    for dtype in FLOATS {
        for (name, case) in convolutions() {
            let name = format!("{name} {dtype}");
            all.push(planned("graph", name, move |s| convolution(s, dtype, &case)));
        }
    }
    all.push(planned("graph", "copies of any strides and dtypes", copies));
    all
}

/// Numbers of a dtype: between -1 and 1, or whole ones.
fn numbers(dtype: DType, sizes: &[i64], seed: u64) -> Given {
    let count = sizes.iter().product::<i64>() as usize;
    let values = if dtype.is_float() { noise(count, seed) } else { whole(dtype, count, seed) };
    Given::new(dtype, sizes, values)
}

/// Runs an operator on the device, waits, and reads its results.
fn results(
    session: &Session,
    given: &[Given],
    op: impl FnOnce(&crate::stream::Stream, &[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Vec<HostTensor>> {
    let stream = session.stream();
    let operands =
        given.iter().map(|given| given.on(&session.device)).collect::<Result<Vec<_>>>()?;
    let results = op(&stream, &operands)?;
    stream.commit_and_wait()?;
    results.iter().map(read).collect()
}

fn products(session: &Session, dtype: DType) -> Result<Measured> {
    let mut measured = Measured::default();
    let [m, k, n] = [5usize, 33, 7];
    let sizes = [m as i64, k as i64, n as i64];
    let a = numbers(dtype, &[sizes[0], sizes[1]], 1);
    let b = numbers(dtype, &[sizes[1], sizes[2]], 2);
    let expected = reference::matmul(&a.rounded()?, &b.rounded()?, [m, k, n]);
    for (name, of_out, of_a, of_b) in [
        ("row-major", [7, 1], [33, 1], [7, 1]),
        ("transposed", [7, 1], [1, 5], [1, 33]),
        ("with gaps", [20, 2], [70, 2], [9, 1]),
        ("transposed result", [1, 5], [40, 1], [1, 40]),
    ] {
        let out = Given::new(dtype, &[sizes[0], sizes[2]], vec![0.0; m * n]).strided(&of_out);
        let given = [out, a.clone().strided(&of_a), b.clone().strided(&of_b)];
        let got = results(session, &given, |stream, o| {
            ops::mm(stream, &o[0], &o[1], &o[2])?;
            Ok(vec![o[0].clone()])
        })?;
        measured.compare_with(name, &got[0], &expected)?;
    }
    Ok(measured)
}

fn batches(session: &Session, dtype: DType) -> Result<Measured> {
    let mut measured = Measured::default();
    let (a, b) = (numbers(dtype, &[3, 4, 6], 3), numbers(dtype, &[3, 6, 5], 4));
    let (of_a, of_b) = (a.rounded()?, b.rounded()?);
    let batch = |i: usize| reference::matmul(&of_a[i * 24..], &of_b[i * 30..], [4, 6, 5]);
    let expected: Vec<f64> = (0..3).flat_map(batch).collect();
    let out = Given::new(dtype, &[3, 4, 5], vec![0.0; 60]);
    for strides in [[24, 6, 1], [24, 1, 4], [60, 7, 1]] {
        let given = [out.clone(), a.clone().strided(&strides), b.clone()];
        let got = results(session, &given, |stream, o| {
            ops::bmm(stream, &o[0], &o[1], &o[2])?;
            Ok(vec![o[0].clone()])
        })?;
        measured.compare_with(&format!("strides {strides:?}"), &got[0], &expected)?;
    }
    Ok(measured)
}

fn with_input(session: &Session, dtype: DType) -> Result<Measured> {
    let mut measured = Measured::default();
    let (a, b) = (numbers(dtype, &[4, 9], 5), numbers(dtype, &[9, 6], 6));
    let product = reference::matmul(&a.rounded()?, &b.rounded()?, [4, 9, 6]);
    for (sizes, beta, alpha) in
        [(&[4i64, 6][..], 1.0, 1.0), (&[6], 2.0, -0.5), (&[4, 1], 0.5, 1.0), (&[6], 0.0, 1.0)]
    {
        let mut input = numbers(dtype, sizes, 7);
        if beta == 0.0 {
            // It does not count, whatever it is.
            input.values[0] = f64::NAN;
        }
        let of_input = input.rounded()?;
        let added = |i: usize| match sizes {
            [6] => of_input[i % 6],
            [4, 1] => of_input[i / 6],
            _ => of_input[i],
        };
        let expected: Vec<f64> = (0..24)
            .map(|i| if beta == 0.0 { 0.0 } else { beta * added(i) } + alpha * product[i])
            .collect();
        let out = Given::new(dtype, &[4, 6], vec![0.0; 24]);
        let got = results(session, &[out, input, a.clone(), b.clone()], |stream, o| {
            ops::addmm(stream, &o[0], &o[1], &o[2], &o[3], beta, alpha)?;
            Ok(vec![o[0].clone()])
        })?;
        measured.compare_with(&format!("input {sizes:?}, {beta}, {alpha}"), &got[0], &expected)?;
    }
    Ok(measured)
}

fn sums(session: &Session, dtype: DType) -> Result<Measured> {
    let mut measured = Measured::default();
    let input = numbers(dtype, &[3, 40], 8);
    let rows = input.rounded()?;
    let expected: Vec<f64> =
        rows.chunks(40).flat_map(|row| reference::scan(row, |a, b| a + b, 0.0)).collect();
    for strides in [[40, 1], [1, 3]] {
        let got = results(session, &[input.clone().strided(&strides)], |stream, o| {
            Ok(vec![ops::cumsum(stream, &o[0], 1, Some(dtype))?])
        })?;
        // Integers wrap.
        let size = 2f64.powi(8 * dtype.size() as i32);
        let wrapped = |&sum: &f64| match dtype {
            DType::U8 => sum.rem_euclid(size),
            DType::I8 | DType::I16 => (sum + size / 2.0).rem_euclid(size) - size / 2.0,
            _ => sum,
        };
        let expected: Vec<f64> = expected.iter().map(wrapped).collect();
        measured.compare_with(&format!("strides {strides:?}"), &got[0], &expected)?;
    }
    Ok(measured)
}

fn cumulative_products(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let values: Vec<f64> = [1.0, -2.0, 3.0, -1.0, 2.0, 5.0].repeat(2);
    let input = Given::new(DType::I32, &[2, 6], values.clone());
    let expected: Vec<f64> =
        values.chunks(6).flat_map(|row| reference::scan(row, |a, b| a * b, 1.0)).collect();
    let got = results(session, &[input], |stream, o| {
        Ok(vec![ops::cumprod(stream, &o[0], 1, Some(DType::I32))?])
    })?;
    measured.compare_with("rows", &got[0], &expected)?;
    Ok(measured)
}

/// Sorts rows with equal elements and, of floats, NaN, infinities and both zeros; all of them, or
/// the first few.
fn sorts(session: &Session, dtype: DType, few: Option<i64>) -> Result<Measured> {
    let mut measured = Measured::default();
    let mut input = Given::new(dtype, &[3, 17], whole(dtype, 51, 9));
    if dtype.is_float() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, -f64::NAN];
        for (i, value) in input.values.iter_mut().enumerate().step_by(4) {
            *value = odd[i / 4 % odd.len()];
        }
    }
    let rows = input.rounded()?;
    let wanted = few.unwrap_or(17) as usize;
    for descending in [false, true] {
        let (mut values, mut places) = (Vec::new(), Vec::new());
        for row in rows.chunks(17) {
            for &place in &reference::order(row, descending)[..wanted] {
                values.push(row[place]);
                places.push(place as f64);
            }
        }
        for strides in [[17, 1], [1, 3], [40, 2]] {
            let got = results(session, &[input.clone().strided(&strides)], |stream, o| {
                let (values, places) = match few {
                    Some(few) => ops::topk(stream, &o[0], few, 1, descending)?,
                    None => ops::sort(stream, &o[0], 1, descending)?,
                };
                Ok(vec![values, places])
            })?;
            let name = format!("strides {strides:?}, descending {descending}");
            measured.compare_with(&format!("values, {name}"), &got[0], &values)?;
            measured.compare_with(&format!("indices, {name}"), &got[1], &places)?;
        }
    }
    Ok(measured)
}

/// A convolution as the operator has it.
struct Case {
    input: &'static [i64],
    weight: &'static [i64],
    bias: bool,
    parameters: Convolution<'static>,
}

fn convolutions() -> [(&'static str, Case); 7] {
    let plain = Convolution {
        stride: &[1],
        padding: &[0],
        dilation: &[1],
        output_padding: &[0],
        transposed: false,
        groups: 1,
    };
    let case = |input, weight, bias, parameters| Case { input, weight, bias, parameters };
    let strided = Convolution { stride: &[2, 1], padding: &[1, 2], ..plain };
    let dilated = Convolution { dilation: &[1, 2], groups: 2, ..strided };
    let transposed = Convolution { transposed: true, stride: &[2], padding: &[1], ..plain };
    let padded = Convolution { output_padding: &[1, 2], stride: &[2, 3], groups: 2, ..transposed };
    let space = Convolution { padding: &[1, 0, 1], ..plain };
    let transposed_space = Convolution { stride: &[2, 1, 2], padding: &[0], ..transposed };
    [
        ("conv1d", case(&[2, 4, 9], &[6, 4, 3], true, plain)),
        ("conv2d", case(&[2, 3, 8, 7], &[5, 3, 3, 2], false, strided)),
        ("conv2d grouped and dilated", case(&[1, 4, 8, 9], &[6, 2, 3, 2], true, dilated)),
        ("conv3d", case(&[2, 2, 4, 5, 6], &[3, 2, 2, 3, 1], true, space)),
        ("conv1d transposed", case(&[2, 4, 9], &[4, 3, 3], true, transposed)),
        ("conv2d transposed and grouped", case(&[1, 4, 5, 6], &[4, 2, 3, 3], false, padded)),
        ("conv3d transposed", case(&[1, 2, 3, 4, 3], &[2, 3, 2, 2, 3], false, transposed_space)),
    ]
}

/// The spatial part of sizes as three, the last ones given.
fn three(sizes: &[i64], first: i64) -> [usize; 3] {
    let mut all = [first as usize; 3];
    let lead = 3 - sizes.len();
    sizes.iter().enumerate().for_each(|(i, &size)| all[lead + i] = size as usize);
    all
}

fn five(sizes: &[i64]) -> [usize; 5] {
    let [z, y, x] = three(&sizes[2..], 1);
    [sizes[0] as usize, sizes[1] as usize, z, y, x]
}

fn convolution(session: &Session, dtype: DType, case: &Case) -> Result<Measured> {
    let mut measured = Measured::default();
    let (input, weight) = (numbers(dtype, case.input, 10), numbers(dtype, case.weight, 11));
    let parameters = case.parameters;
    let spatial = case.input.len() - 2;
    let all = |values: &[i64], first| match values {
        [one] => three(&vec![*one; spatial], first),
        values => three(values, first),
    };
    let channels =
        if parameters.transposed { case.weight[1] * parameters.groups } else { case.weight[0] };
    let bias = case.bias.then(|| numbers(dtype, &[channels], 12));
    let mut given = vec![input.clone(), weight.clone()];
    given.extend(bias.clone());
    let got = results(session, &given, |stream, o| {
        Ok(vec![ops::convolution(stream, &o[0], &o[1], o.get(2), parameters)?])
    })?;
    let sizes: Vec<i64> = got[0].sizes().iter().map(|&size| size as i64).collect();
    let out = five(&sizes);
    let loops = reference::Convolution {
        input: five(case.input),
        weight: five(case.weight),
        out,
        stride: all(parameters.stride, 1),
        padding: all(parameters.padding, 0),
        dilation: all(parameters.dilation, 1),
        groups: parameters.groups as usize,
        transposed: parameters.transposed,
    };
    let mut expected = loops.compute(&input.rounded()?, &weight.rounded()?);
    if let Some(bias) = bias {
        let of_bias = bias.rounded()?;
        let plane: usize = out[2..].iter().product();
        expected.iter_mut().enumerate().for_each(|(i, e)| *e += of_bias[i / plane % out[1]]);
    }
    measured.compare_with("the result", &got[0], &expected)?;
    Ok(measured)
}

fn copies(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    for (to, from) in [
        (DType::F32, DType::F32),
        (DType::Bf16, DType::F32),
        (DType::F32, DType::F16),
        (DType::I8, DType::I64),
        (DType::F32, DType::U8),
        (DType::I64, DType::I32),
    ] {
        let source = Given::new(from, &[4, 3, 5], whole(from, 60, 13)).strided(&[20, 5, 1]);
        let expected = source.rounded()?;
        let target = Given::new(to, &[4, 3, 5], vec![0.0; 60]).strided(&[15, 1, 3]);
        let got = results(session, &[target, source], |stream, o| {
            ops::copy(stream, &o[0], &o[1])?;
            Ok(vec![o[0].clone()])
        })?;
        measured.compare_with(&format!("{from} to {to}"), &got[0], &expected)?;
    }
    Ok(measured)
}
