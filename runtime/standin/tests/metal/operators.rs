//! Every operator with an op graph, against the host device: same operands, same results.

use std::sync::Arc;

use etmetal::Result;
use etmetal::device::Device;
use etmetal::ops::{self, Convolution};
use etmetal::stream::Stream;
use etmetal::tensor::{DType, Layout, Tensor};

use crate::common::{device, elements, host, lasting_rules, numbers, tensor};

/// An operand: dtype, sizes, strides, and elements before it in its storage.
type Given<'a> = (DType, &'a [i64], &'a [i64], usize);

/// An operator on some operands.
type Op<'a> = dyn Fn(&Stream, &[Tensor]) -> Result<Vec<Tensor>> + 'a;

/// What an operator gives: elements, sizes and strides of each result.
type Results = Vec<(Vec<u8>, Vec<i64>, Vec<i64>)>;

fn run_on(device: &Arc<dyn Device>, given: &[(Given<'_>, Vec<u8>)], op: &Op<'_>) -> Results {
    let stream = Stream::with_flush_interval(device.clone(), 3);
    let operands: Vec<Tensor> = given
        .iter()
        .map(|((dtype, sizes, strides, lead), bytes)| {
            tensor(device, *dtype, sizes, strides, *lead, bytes)
        })
        .collect();
    let results = op(&stream, &operands).unwrap_or_else(|error| panic!("{error}"));
    stream.commit_and_wait().unwrap_or_else(|error| panic!("{error}"));
    let result = |t: &Tensor| (elements(t), t.sizes().to_vec(), t.strides().to_vec());
    results.iter().map(result).collect()
}

/// Runs an operator on both devices, on the same elements.
fn check_elements(
    given: &[(Given<'_>, Vec<u8>)],
    op: impl Fn(&Stream, &[Tensor]) -> Result<Vec<Tensor>>,
) {
    let expected = run_on(&host(), given, &op);
    let got = run_on(&device(), given, &op);
    let shapes = given.iter().map(|(given, _)| given).collect::<Vec<_>>();
    assert_eq!(got, expected, "{shapes:?}");
}

/// The same with numbers of ours.
fn check(given: &[Given<'_>], op: impl Fn(&Stream, &[Tensor]) -> Result<Vec<Tensor>>) {
    let filled: Vec<(Given<'_>, Vec<u8>)> = given
        .iter()
        .enumerate()
        .map(|(seed, &(dtype, sizes, strides, lead))| {
            let count = sizes.iter().product::<i64>() as usize;
            ((dtype, sizes, strides, lead), numbers(dtype, count, seed))
        })
        .collect();
    check_elements(&filled, op);
}

/// An operator that writes to its first operand.
fn into_first(
    op: impl Fn(&Stream, &Tensor, &[Tensor]) -> Result<()>,
) -> impl Fn(&Stream, &[Tensor]) -> Result<Vec<Tensor>> {
    move |stream, operands| {
        let (out, inputs) = operands.split_first().unwrap();
        op(stream, out, inputs)?;
        Ok(vec![out.clone()])
    }
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

#[test]
pub fn products_of_any_strides() {
    let _rules = lasting_rules();
    let mm = |stream: &Stream, out: &Tensor, o: &[Tensor]| ops::mm(stream, out, &o[0], &o[1]);
    for dtype in [DType::F32, DType::F16, DType::Bf16, DType::I32, DType::I64, DType::U8] {
        // Contiguous; transposed; with an offset; neither, and the result too.
        for (out, a, b, lead) in [
            ([7, 1], [5, 1], [7, 1], 0),
            ([7, 1], [1, 3], [1, 5], 0),
            ([7, 1], [5, 1], [1, 5], 16),
            ([1, 4], [6, 1], [9, 1], 3),
            ([2, 20], [0, 1], [14, 2], 1),
        ] {
            check(
                &[
                    (dtype, &[3, 7], &out, lead),
                    (dtype, &[3, 5], &a, lead),
                    (dtype, &[5, 7], &b, lead),
                ],
                into_first(mm),
            );
        }
    }
    // No terms at all.
    check(
        &[
            (DType::F32, &[3, 2], &[2, 1], 0),
            (DType::F32, &[3, 0], &[1, 1], 0),
            (DType::F32, &[0, 2], &[2, 1], 0),
        ],
        into_first(mm),
    );
}

#[test]
pub fn products_of_square_matrices() {
    let _rules = lasting_rules();
    // Nothing but the strides tells a square matrix from a transposed one.
    for (a, b) in [([4, 1], [1, 4]), ([1, 4], [4, 1]), ([1, 4], [1, 4])] {
        check(
            &[[4, 1], a, b]
                .each_ref()
                .map(|strides| -> Given<'_> { (DType::F32, &[4, 4], strides, 0) }),
            into_first(|stream, out, o| ops::mm(stream, out, &o[0], &o[1])),
        );
    }
}

#[test]
pub fn batched_products() {
    let _rules = lasting_rules();
    for dtype in [DType::F32, DType::Bf16, DType::I16] {
        for (a, b) in [([10, 5, 1], [35, 7, 1]), ([10, 1, 2], [7, 21, 1])] {
            check(
                &[
                    (dtype, &[3, 2, 7], &[14, 7, 1], 0),
                    (dtype, &[3, 2, 5], &a, 0),
                    (dtype, &[3, 5, 7], &b, 2),
                ],
                into_first(|stream, out, o| ops::bmm(stream, out, &o[0], &o[1])),
            );
        }
    }
}

#[test]
pub fn products_with_an_input() {
    let _rules = lasting_rules();
    for dtype in [DType::F32, DType::F16, DType::I32] {
        for (input_sizes, input) in [(&[3, 7][..], &[7, 1][..]), (&[7], &[1]), (&[3, 1], &[2, 1])] {
            for (beta, alpha) in [(1.0, 1.0), (2.0, -3.0), (0.0, 1.0)] {
                check(
                    &[
                        (dtype, &[3, 7], &[7, 1], 0),
                        (dtype, input_sizes, input, 1),
                        (dtype, &[3, 5], &[5, 1], 0),
                        (dtype, &[5, 7], &[1, 5], 0),
                    ],
                    into_first(move |stream, out, o| {
                        ops::addmm(stream, out, &o[0], &o[1], &o[2], beta, alpha)
                    }),
                );
            }
        }
    }
}

#[test]
pub fn products_with_an_input_that_does_not_count() {
    let _rules = lasting_rules();
    // Times 0 it would be NaN.
    let input = [f32::NAN, f32::INFINITY, 1.0, 0.0].repeat(6);
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
    let given = [
        ((DType::F32, &[4, 6][..], &[6, 1][..], 0), numbers(DType::F32, 24, 0)),
        ((DType::F32, &[4, 6], &[6, 1], 0), bytes(&input)),
        ((DType::F32, &[4, 5], &[5, 1], 0), numbers(DType::F32, 20, 2)),
        ((DType::F32, &[5, 6], &[6, 1], 0), numbers(DType::F32, 30, 3)),
    ];
    let addmm = |beta| {
        into_first(move |stream: &Stream, out: &Tensor, o: &[Tensor]| {
            ops::addmm(stream, out, &o[0], &o[1], &o[2], beta, 1.0)
        })
    };
    check_elements(&given, addmm(0.0));
    let finite = |results: Results| {
        let (bytes, _, _) = &results[0];
        bytes.chunks_exact(4).all(|b| f32::from_ne_bytes(b.try_into().unwrap()).is_finite())
    };
    assert!(finite(run_on(&device(), &given, &addmm(0.0))));
    assert!(!finite(run_on(&device(), &given, &addmm(1.0))), "where it counts");
}

#[test]
pub fn copies_of_any_strides_and_dtypes() {
    let _rules = lasting_rules();
    for (dst, src) in [
        (DType::F32, DType::F32),
        (DType::Bf16, DType::F32),
        (DType::I8, DType::I64),
        (DType::Bool, DType::F16),
        (DType::F32, DType::U64),
    ] {
        check(
            &[(dst, &[4, 3, 5], &[15, 1, 3], 1), (src, &[4, 3, 5], &[20, 5, 1], 2)],
            into_first(|stream, out, o| ops::copy(stream, out, &o[0])),
        );
        check(
            &[(dst, &[4, 3], &[3, 1], 0), (src, &[3], &[1], 0)],
            into_first(|stream, out, o| ops::copy(stream, out, &o[0])),
        );
    }
    // Bytes at any place: no blit can do it.
    check(
        &[(DType::U8, &[13], &[1], 1), (DType::U8, &[13], &[1], 2)],
        into_first(|stream, out, o| ops::copy(stream, out, &o[0])),
    );
}

/// One convolution: sizes of input and weight, whether there is a bias, parameters.
struct Case<'a> {
    input: &'a [i64],
    weight: &'a [i64],
    bias: Option<i64>,
    parameters: Convolution<'a>,
}

fn plain() -> Convolution<'static> {
    Convolution {
        stride: &[1],
        padding: &[0],
        dilation: &[1],
        output_padding: &[0],
        transposed: false,
        groups: 1,
    }
}

fn check_convolution(dtype: DType, case: &Case<'_>, channels_last: bool) {
    let row_major = |sizes: &[i64]| Layout::contiguous(sizes).unwrap().strides.to_vec();
    let strides = |sizes: &[i64]| {
        if !channels_last {
            return row_major(sizes);
        }
        let mut order = sizes.to_vec();
        let channels = order.remove(1);
        order.push(channels);
        let mut strides = row_major(&order);
        let last = strides.pop().unwrap();
        strides.insert(1, last);
        strides
    };
    let (input, weight) = (strides(case.input), row_major(case.weight));
    // MPSGraph adds the bias to a result that is rounded already: of bfloat16 that shows.
    let bias = case.bias.filter(|_| dtype != DType::Bf16).map(|channels| [channels]);
    let mut given: Vec<Given<'_>> =
        vec![(dtype, case.input, &input, 0), (dtype, case.weight, &weight, 2)];
    if let Some(bias) = &bias {
        given.push((dtype, bias, &[1], 0));
    }
    check(&given, |stream, o| {
        Ok(vec![ops::convolution(stream, &o[0], &o[1], o.get(2), case.parameters)?])
    });
}

#[test]
pub fn convolutions_of_one_to_three_dimensions() {
    let _rules = lasting_rules();
    for dtype in FLOATS {
        for case in [
            Case { input: &[2, 4, 9], weight: &[6, 4, 3], bias: None, parameters: plain() },
            Case {
                input: &[1, 4, 8, 7],
                weight: &[6, 2, 3, 2],
                bias: Some(6),
                parameters: Convolution {
                    stride: &[2, 1],
                    padding: &[1, 2],
                    dilation: &[1, 2],
                    groups: 2,
                    ..plain()
                },
            },
            Case {
                input: &[2, 2, 4, 5, 6],
                weight: &[3, 2, 2, 3, 1],
                bias: Some(3),
                parameters: Convolution { padding: &[1, 0, 2], ..plain() },
            },
        ] {
            check_convolution(dtype, &case, false);
            check_convolution(dtype, &case, true);
        }
    }
}

#[test]
pub fn transposed_convolutions() {
    let _rules = lasting_rules();
    for case in [
        Case {
            input: &[2, 4, 9],
            weight: &[4, 3, 3],
            bias: Some(3),
            parameters: Convolution { stride: &[2], padding: &[1], transposed: true, ..plain() },
        },
        Case {
            input: &[1, 4, 5, 6],
            weight: &[4, 2, 3, 3],
            bias: None,
            parameters: Convolution {
                stride: &[2, 3],
                output_padding: &[1, 2],
                groups: 2,
                transposed: true,
                ..plain()
            },
        },
        // Output padding beyond what the convolution reaches.
        Case {
            input: &[1, 2, 4, 4],
            weight: &[2, 2, 2, 2],
            bias: Some(2),
            parameters: Convolution {
                dilation: &[3],
                output_padding: &[2],
                transposed: true,
                ..plain()
            },
        },
        Case {
            input: &[1, 2, 3, 4, 3],
            weight: &[2, 3, 2, 2, 3],
            bias: None,
            parameters: Convolution { stride: &[2, 1, 2], transposed: true, ..plain() },
        },
    ] {
        check_convolution(DType::F32, &case, false);
    }
}

/// Numbers of which each has its own place in the order, and those that a sort may get wrong.
fn difficult(dtype: DType, count: usize) -> Vec<u8> {
    let special = [f64::NAN, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY, -1.5, 1.5, -f64::NAN];
    let float =
        |i: usize| if i.is_multiple_of(3) { special[i / 3 % 8] } else { (i % 5) as f64 - 2.0 };
    let wide = |i: usize| match i % 4 {
        0 => i64::MIN + (i % 3) as i64,
        1 => i64::MAX - (i % 3) as i64,
        2 => (i as i64 % 3) << 32,
        _ => -(i as i64 % 5),
    };
    let element = |i: usize| -> Vec<u8> {
        match dtype {
            DType::F32 => (float(i) as f32).to_ne_bytes().into(),
            DType::F16 => half::f16::from_f64(float(i)).to_ne_bytes().into(),
            DType::Bf16 => half::bf16::from_f64(float(i)).to_ne_bytes().into(),
            _ => wide(i).to_ne_bytes()[..dtype.size()].into(),
        }
    };
    match dtype {
        DType::Bool => numbers(dtype, count, 3),
        _ => (0..count).flat_map(element).collect(),
    }
}

#[test]
pub fn sorts_are_stable_and_know_nan() {
    let _rules = lasting_rules();
    for dtype in DType::ALL {
        for (sizes, strides, dim) in
            [(&[3, 17][..], &[17, 1][..], 1), (&[17, 3], &[1, 17], 0), (&[2, 9, 2], &[40, 4, 2], 1)]
        {
            let count = sizes.iter().product::<i64>() as usize;
            let given = [((dtype, sizes, strides, 1), difficult(dtype, count))];
            for descending in [false, true] {
                check_elements(&given, |stream, o| {
                    let (values, indices) = ops::sort(stream, &o[0], dim, descending)?;
                    Ok(vec![values, indices])
                });
                check_elements(&given, |stream, o| {
                    let (values, indices) = ops::topk(stream, &o[0], 5, dim, descending)?;
                    Ok(vec![values, indices])
                });
            }
        }
    }
}

#[test]
pub fn cumulative_sums_and_products_wrap_and_round_as_they_should() {
    let _rules = lasting_rules();
    for dtype in [
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
    ] {
        for (strides, dim) in [([30, 1], 1), ([1, 4], 0)] {
            let given: Given<'_> = (dtype, &[4, 30], &strides, 0);
            check(&[given], |stream, o| Ok(vec![ops::cumsum(stream, &o[0], dim, Some(dtype))?]));
            if !dtype.is_float() {
                check(&[given], |stream, o| {
                    Ok(vec![ops::cumprod(stream, &o[0], dim, Some(dtype))?])
                });
            }
        }
    }
}
