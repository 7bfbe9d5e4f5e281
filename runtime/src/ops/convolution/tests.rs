use proptest::prelude::*;

use super::super::testing::{contiguous, gaps, stream, strides_of, tensor, values};
use super::*;
use crate::tensor::DType;

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// Numbers that every dtype holds, and whose sums of products are exact in float32.
fn numbers(count: i64, seed: i64) -> Vec<f64> {
    (0..count).map(|i| ((i * 7 + seed * 5 + i / 11) % 17 - 8) as f64).collect()
}

/// A convolution and how its operands lie.
#[derive(Debug, Clone)]
struct Case {
    dtype: DType,
    input: Vec<i64>,
    input_strides: Vec<i64>,
    weight: Vec<i64>,
    weight_strides: Vec<i64>,
    bias: Option<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
    transposed: bool,
    groups: i64,
}

impl Case {
    /// A convolution of contiguous operands with a stride of 1.
    fn new(dtype: DType, input: &[i64], weight: &[i64]) -> Case {
        let spatial = input.len() - 2;
        Case {
            dtype,
            input: input.into(),
            input_strides: Layout::contiguous(input).unwrap().strides.to_vec(),
            weight: weight.into(),
            weight_strides: Layout::contiguous(weight).unwrap().strides.to_vec(),
            bias: Some(1),
            stride: vec![1; spatial],
            padding: vec![0; spatial],
            dilation: vec![1; spatial],
            output_padding: vec![0; spatial],
            transposed: false,
            groups: 1,
        }
    }

    fn channels(&self) -> i64 {
        if self.transposed { self.weight[1] * self.groups } else { self.weight[0] }
    }

    /// The sizes of the result, by PyTorch's formulas.
    fn expected_sizes(&self) -> Vec<i64> {
        let space = (0..self.input.len() - 2).map(|d| {
            let (size, kernel) = (self.input[d + 2], self.weight[d + 2]);
            let span = self.dilation[d] * (kernel - 1);
            if self.transposed {
                let spread = (size - 1) * self.stride[d] - 2 * self.padding[d];
                spread + span + self.output_padding[d] + 1
            } else {
                (size + 2 * self.padding[d] - span - 1).div_euclid(self.stride[d]) + 1
            }
        });
        [self.input[0], self.channels()].into_iter().chain(space).collect()
    }

    fn run(&self) -> Result<(Tensor, Vec<f64>)> {
        let count = |sizes: &[i64]| sizes.iter().product::<i64>();
        let (x, w) = (numbers(count(&self.input), 1), numbers(count(&self.weight), 2));
        let b = numbers(self.channels(), 3);
        let input = tensor(self.dtype, &self.input, &self.input_strides, 2, &x);
        let weight = tensor(self.dtype, &self.weight, &self.weight_strides, 1, &w);
        let bias = self.bias.map(|step| tensor(self.dtype, &[self.channels()], &[step], 1, &b));
        let before = [gaps(&input), gaps(&weight)];
        let parameters = Convolution {
            stride: &self.stride,
            padding: &self.padding,
            dilation: &self.dilation,
            output_padding: &self.output_padding,
            transposed: self.transposed,
            groups: self.groups,
        };
        let stream = stream();
        let out = convolution(&stream, &input, &weight, bias.as_ref(), parameters)?;
        stream.commit_and_wait().unwrap();
        assert_eq!([gaps(&input), gaps(&weight)], before);
        assert_eq!((values(&input), values(&weight)), (x.clone(), w.clone()));
        let b = if self.bias.is_some() { b } else { vec![0.0; self.channels() as usize] };
        let exact = self.reference(&x, &w, &b);
        // What the dtype makes of the exact result: rounded once.
        let rounded = values(&contiguous(self.dtype, &[exact.len() as i64], &exact));
        Ok((out, rounded))
    }

    /// The result by the definition, in float64: every input element and every tap is taken to
    /// the result that they belong to.
    fn reference(&self, x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
        let sizes = self.expected_sizes();
        let space = |sizes: &[i64]| sizes[2..].iter().product::<i64>();
        let (in_space, out_space, taps) = (space(&self.input), space(&sizes), space(&self.weight));
        let (c_group, o_group) = (self.input[1] / self.groups, self.channels() / self.groups);
        let mut out: Vec<f64> = (0..sizes.iter().product::<i64>())
            .map(|i| b[(i / out_space % self.channels()) as usize])
            .collect();
        let meets = self.meetings(&sizes, in_space, taps);
        for n in 0..self.input[0] {
            for o in 0..self.channels() {
                let group = o / o_group;
                for c in 0..c_group {
                    let (near, far) = (group * c_group + c, o % o_group);
                    let row = if self.transposed { near * o_group + far } else { o * c_group + c };
                    for &(input, tap, result) in &meets {
                        let at = (n * self.channels() + o) * out_space + result;
                        let from = (n * self.input[1] + near) * in_space + input;
                        out[at as usize] += x[from as usize] * w[(row * taps + tap) as usize];
                    }
                }
            }
        }
        out
    }

    /// All (input element, tap, result) of one channel that meet.
    fn meetings(&self, sizes: &[i64], in_space: i64, taps: i64) -> Vec<(i64, i64, i64)> {
        let position = |mut index: i64, sizes: &[i64]| {
            let mut position = vec![0; sizes.len()];
            for d in (0..sizes.len()).rev() {
                position[d] = index % sizes[d];
                index /= sizes[d];
            }
            position
        };
        let mut all = Vec::new();
        for input in 0..in_space {
            let at = position(input, &self.input[2..]);
            for tap in 0..taps {
                let k = position(tap, &self.weight[2..]);
                let mut result = Some(0);
                for d in 0..at.len() {
                    let to = if self.transposed {
                        Some(at[d] * self.stride[d] - self.padding[d] + k[d] * self.dilation[d])
                    } else {
                        let to = at[d] + self.padding[d] - k[d] * self.dilation[d];
                        (to % self.stride[d] == 0).then_some(to / self.stride[d])
                    };
                    let to = to.filter(|to| (0..sizes[d + 2]).contains(to));
                    result = result.zip(to).map(|(result, to)| result * sizes[d + 2] + to);
                }
                all.extend(result.map(|result| (input, tap, result)));
            }
        }
        all
    }
}

/// Strides of channels-last, for any rank.
fn channels_last_strides(sizes: &[i64]) -> Vec<i64> {
    channels_last_layout(sizes).unwrap().strides.to_vec()
}

/// Strides for a tensor of these sizes: contiguous, channels-last, or anything.
fn layouts(sizes: Vec<i64>) -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        Just(Layout::contiguous(&sizes).unwrap().strides.to_vec()),
        Just(channels_last_strides(&sizes)),
        strides_of(sizes),
    ]
}

/// Channels of the input and of the result in a group, and groups.
fn channels() -> impl Strategy<Value = (i64, i64, i64)> {
    prop_oneof![
        3 => (0i64..4, 1i64..4, 1i64..4),
        1 => (7i64..10, 1i64..7, 1i64..3),
        1 => (1i64..3, 5i64..20, 1i64..3),
        1 => (Just(1i64), 1i64..3, 1i64..20),
    ]
}

/// Mostly convolutions that have a result.
fn case() -> impl Strategy<Value = Case> {
    let dtype = prop::sample::select(DTYPES.to_vec());
    let parameters = (1usize..4).prop_flat_map(|spatial| {
        let list = move |range: std::ops::Range<i64>| prop::collection::vec(range, spatial);
        (list(0..8), list(1..4), list(1..4), list(0..3), list(1..4), list(0..3))
    });
    let flags = (any::<bool>(), prop::option::of(1i64..3), prop::bool::weighted(0.95), 0i64..3);
    (dtype, parameters, channels(), flags).prop_flat_map(|(dtype, lists, channels, flags)| {
        let (mut size, kernel, stride, padding, dilation, output_padding) = lists;
        let (c, o, groups) = channels;
        let (transposed, bias, large_enough, batch) = flags;
        for d in 0..size.len() {
            let span = dilation[d] * (kernel[d] - 1) + 1;
            let missing = if transposed {
                (1 - ((size[d] - 1) * stride[d] - 2 * padding[d] + span)).div_euclid(stride[d]) + 1
            } else {
                span - 2 * padding[d] - size[d]
            };
            if large_enough && missing > 0 {
                size[d] += missing;
            }
        }
        let (near, far) = if transposed { (c * groups, o) } else { (o * groups, c) };
        let input: Vec<i64> = [batch, c * groups].into_iter().chain(size).collect();
        let weight: Vec<i64> = [near, far].into_iter().chain(kernel).collect();
        (layouts(input.clone()), layouts(weight.clone())).prop_map(
            move |(input_strides, weight_strides)| Case {
                dtype,
                input: input.clone(),
                input_strides,
                weight: weight.clone(),
                weight_strides,
                bias,
                stride: stride.clone(),
                padding: padding.clone(),
                dilation: dilation.clone(),
                output_padding: output_padding.clone(),
                transposed,
                groups,
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_convolution_is_the_definition(case in case()) {
        let sizes = case.expected_sizes();
        match case.run() {
            Ok((out, expected)) => {
                prop_assert_eq!(out.sizes(), &sizes[..]);
                prop_assert_eq!(out.dtype(), case.dtype);
                prop_assert!(out.layout().is_dense());
                prop_assert_eq!(values(&out), expected);
            }
            Err(error) => {
                // The least size of a result is 1, of a transposed one 0.
                let least = i64::from(!case.transposed);
                prop_assert!(sizes[2..].iter().any(|&size| size < least), "{error}");
                prop_assert!(error.to_string().contains(&format!("{:?}", case.input)), "{error}");
            }
        }
    }
}

/// Every layout of operands that are larger than a tile and than a block of terms.
#[test]
fn larger_than_a_tile() {
    for dtype in DTYPES {
        for transposed in [false, true] {
            for (input, weight, groups) in [
                ([1, 40, 18, 17], [24, 40, 3, 3], 1),
                ([3, 12, 5, 6], [600, 12, 1, 1], 1),
                ([1, 70, 12, 29], [70, 1, 3, 2], 70),
                ([30, 16, 1, 7], [16, 2, 1, 3], 8),
            ] {
                // A transposed weight has the input's channels first.
                if transposed && groups == 1 && input[1] != weight[0] {
                    continue;
                }
                for layouts in 0..4 {
                    let mut case = Case::new(dtype, &input, &weight);
                    case.padding = weight[2..].iter().map(|kernel| kernel / 2).collect();
                    (case.transposed, case.groups) = (transposed, groups);
                    if layouts & 1 != 0 {
                        case.input_strides = channels_last_strides(&input);
                    }
                    if layouts & 2 != 0 {
                        case.weight_strides = channels_last_strides(&weight);
                    }
                    let (out, expected) = case.run().unwrap();
                    assert!(values(&out) == expected, "{case:?}");
                }
            }
        }
    }
}

#[test]
fn transposed_with_many_terms() {
    for dtype in DTYPES {
        let mut case = Case::new(dtype, &[1, 48, 11, 13], &[48, 20, 5, 4]);
        case.transposed = true;
        case.stride = vec![2, 1];
        case.output_padding = vec![1, 0];
        let (out, expected) = case.run().unwrap();
        assert!(values(&out) == expected, "{dtype}");
    }
}

/// PyTorch's layouts of the result, as generated code expects them.
#[test]
fn results_lie_as_models_expect() {
    let strides = |input: (&[i64], &[i64]), weight: (&[i64], &[i64])| {
        let mut case = Case::new(DType::F32, input.0, weight.0);
        case.input_strides = input.1.into();
        case.weight_strides = weight.1.into();
        case.run().unwrap().0.strides().to_vec()
    };
    let last: (&[i64], &[i64]) = (&[2, 3, 4, 5], &[60, 1, 15, 3]);
    let first: (&[i64], &[i64]) = (&[2, 3, 4, 5], &[60, 20, 5, 1]);
    let weight_last: (&[i64], &[i64]) = (&[6, 3, 2, 2], &[12, 1, 6, 3]);
    let weight_first: (&[i64], &[i64]) = (&[6, 3, 2, 2], &[12, 4, 2, 1]);
    assert_eq!(strides(first, weight_first), [72, 12, 4, 1]);
    assert_eq!(strides(last, weight_first), [72, 1, 24, 6]);
    assert_eq!(strides(first, weight_last), [72, 1, 24, 6]);
    assert_eq!(strides(last, weight_last), [72, 1, 24, 6]);
    // One channel, one pixel: both orders at once count as contiguous.
    assert_eq!(strides((&[2, 1, 3, 3], &[9, 9, 3, 1]), (&[2, 1, 1, 1], &[1; 4])), [18, 9, 3, 1]);
    assert_eq!(
        strides((&[2, 4, 1, 1], &[4, 1, 1, 1]), (&[2, 4, 1, 1], &[4, 1, 1, 1])),
        [2, 1, 1, 1]
    );
    // Three dimensions.
    let weight: (&[i64], &[i64]) = (&[4, 2, 1, 1, 1], &[2, 1, 1, 1, 1]);
    let input: &[i64] = &[1, 2, 2, 3, 2];
    assert_eq!(strides((input, &[24, 12, 6, 2, 1]), weight), [48, 12, 6, 2, 1]);
    assert_eq!(strides((input, &[24, 1, 12, 4, 2]), weight), [48, 1, 24, 8, 4]);
    // One dimension: the weight alone decides.
    let weight: (&[i64], &[i64]) = (&[4, 2, 3], &[6, 3, 1]);
    assert_eq!(strides((&[1, 2, 5], &[10, 1, 2]), weight), [12, 3, 1]);
    let weight: (&[i64], &[i64]) = (&[4, 2, 3], &[6, 1, 2]);
    assert_eq!(strides((&[1, 2, 5], &[10, 5, 1]), weight), [12, 1, 4]);
}

#[test]
fn one_value_stands_for_all_dimensions() {
    let mut case = Case::new(DType::F32, &[1, 2, 5, 6], &[2, 2, 3, 3]);
    (case.stride, case.padding) = (vec![2, 2], vec![1, 1]);
    let listed = values(&case.run().unwrap().0);
    let (x, w) = (numbers(60, 1), numbers(36, 2));
    let b = contiguous(DType::F32, &[2], &numbers(2, 3));
    let (x, w) =
        (contiguous(DType::F32, &case.input, &x), contiguous(DType::F32, &case.weight, &w));
    let parameters = Convolution {
        stride: &[2],
        padding: &[1],
        dilation: &[1],
        output_padding: &[0],
        transposed: false,
        groups: 1,
    };
    let stream = stream();
    let out = convolution(&stream, &x, &w, Some(&b), parameters).unwrap();
    stream.commit_and_wait().unwrap();
    assert_eq!(values(&out), listed);
}

#[test]
fn what_does_not_fit_is_said() {
    let text = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::new(DType::F32, &[1, 4, 5, 5], &[6, 4, 3, 3]);
        change(&mut case);
        case.run().map(|(out, _)| out.layout().clone()).unwrap_err().to_string()
    };
    let has = |text: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    has(text(&|c| c.groups = 2), &["[6, 4, 3, 3]", "takes 8 input", "[1, 4, 5, 5]", "has 4"]);
    has(text(&|c| c.groups = 4), &["[6, 4, 3, 3]", "no multiple of 4"]);
    has(text(&|c| c.groups = 0), &["groups must be positive"]);
    has(text(&|c| c.groups = i64::MAX), &["no multiple"]);
    has(text(&|c| c.dilation = vec![1, 3]), &["spatial dimension 1", "[1, 4, 5, 5]", "dilation"]);
    has(text(&|c| c.dilation = vec![i64::MAX, 1]), &["spatial dimension 0"]);
    has(text(&|c| c.padding = vec![-1, 0]), &["padding is [-1, 0]"]);
    has(text(&|c| c.padding = vec![i64::MAX, 0]), &["spatial dimension 0"]);
    has(text(&|c| c.stride = vec![0, 1]), &["stride is [0, 1]"]);
    has(text(&|c| c.stride = vec![1, 1, 1]), &["[1, 1, 1]", "2 spatial"]);
    let transposed = |c: &mut Case| {
        c.transposed = true;
        (c.input, c.input_strides) = (vec![1, 6, 1, 1], vec![6, 1, 1, 1]);
        c.padding = vec![3, 0];
    };
    has(text(&transposed), &["[1, 6, 1, 1]", "less than nothing", "spatial dimension 0"]);

    let stream = stream();
    let f = |sizes: &[i64]| contiguous(DType::F32, sizes, &[]);
    let parameters = Convolution {
        stride: &[1],
        padding: &[0],
        dilation: &[1],
        output_padding: &[0],
        transposed: false,
        groups: 1,
    };
    let text = |x: &Tensor, w: &Tensor, b: Option<&Tensor>| {
        convolution(&stream, x, w, b, parameters).unwrap_err().to_string()
    };
    has(text(&f(&[4, 5]), &f(&[6, 4, 3]), None), &["[4, 5]", "[6, 4, 3]"]);
    has(text(&f(&[1, 4]), &f(&[6, 4]), None), &["3, 4 or 5 dimensions"]);
    has(text(&f(&[1, 4, 5]), &f(&[6, 4, 0]), None), &["[6, 4, 0]", "no taps"]);
    has(text(&f(&[1, 4, 5]), &f(&[6, 4, 3]), Some(&f(&[4]))), &["bias", "[6]", "[4]"]);
    let half = contiguous(DType::F16, &[6, 4, 3], &[]);
    has(text(&f(&[1, 4, 5]), &half, None), &["weight is float16"]);
    let i = |sizes: &[i64]| contiguous(DType::I32, sizes, &[]);
    has(text(&i(&[1, 4, 5]), &i(&[6, 4, 3]), None), &["not defined for int32"]);
    assert_eq!(stream.pending(), 0, "nothing refused was encoded");
}
