//! Attention against plain sums in float64.

use super::super::testing::{contiguous, stream, strides_of, tensor, values};
use super::*;
use proptest::prelude::*;

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// An operand: its sizes and strides; its values follow from a seed.
#[derive(Debug, Clone)]
struct Spec {
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

impl Spec {
    fn contiguous(sizes: &[i64]) -> Spec {
        let strides = Layout::contiguous(sizes).unwrap().strides.to_vec();
        Spec { sizes: sizes.to_vec(), strides }
    }

    fn count(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    /// Numbers between -1 and 1.
    fn floats(&self, dtype: DType, seed: u64) -> Tensor {
        let numbers: Vec<f64> = (0..self.count()).map(|i| noise(seed, i) * 2.0 - 1.0).collect();
        tensor(dtype, &self.sizes, &self.strides, 1, &numbers)
    }

    /// A mask that leaves out about `hidden` of the keys, and some rows all over.
    fn mask(&self, dtype: DType, seed: u64, hidden: f64) -> Tensor {
        let keys = self.sizes.last().copied().unwrap_or(1).max(1) as usize;
        let numbers: Vec<f64> = (0..self.count())
            .map(|i| {
                let row_is_hidden = noise(seed ^ 0xabcd, i / keys) < hidden / 4.0;
                let shown = !row_is_hidden && noise(seed, i) >= hidden;
                match (dtype, shown) {
                    (DType::Bool, shown) => f64::from(u8::from(shown)),
                    (_, true) => noise(seed + 1, i) * 4.0 - 2.0,
                    (_, false) => f64::NEG_INFINITY,
                }
            })
            .collect();
        tensor(dtype, &self.sizes, &self.strides, 2, &numbers)
    }
}

/// A number from 0 up to 1 (splitmix64).
fn noise(seed: u64, index: usize) -> f64 {
    let mut z = (seed << 32 ^ index as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 40) as f64 / (1u64 << 24) as f64
}

/// The element of a tensor at the trailing ones of `index`, with sizes of 1 repeated.
fn at(numbers: &[f64], sizes: &[i64], index: &[i64]) -> f64 {
    let index = &index[index.len() - sizes.len()..];
    let place = sizes
        .iter()
        .zip(index)
        .fold(0, |place, (&size, &i)| place * size + if size == 1 { 0 } else { i });
    numbers[place as usize]
}

/// Result and weights, in float64.
fn reference(inputs: &Inputs<'_>, out: &[i64]) -> (Vec<f64>, Vec<f64>) {
    let (q, k, v) = (inputs.query, inputs.key, inputs.value);
    let (q_values, k_values, v_values) = (values(q), values(k), values(v));
    let mask = inputs.mask.map(|mask| (mask, values(mask)));
    let (lead, &[heads, queries, value_size]) = out.split_last_chunk().unwrap();
    let size = *q.sizes().last().unwrap();
    let keys = k.sizes()[k.sizes().len() - 2];
    let shared = |t: &Tensor, h: i64| h * t.sizes()[t.sizes().len() - 3] / heads;
    let scale = inputs.scale.unwrap_or(1.0 / (size as f64).sqrt());
    let (mut results, mut all_weights) = (Vec::new(), Vec::new());
    let rows = lead.iter().product::<i64>() * heads * queries;
    for flat in 0..rows {
        let (i, h) = (flat % queries, flat / queries % heads);
        let mut index = vec![0; lead.len()];
        let mut rest = flat / queries / heads;
        for d in (0..lead.len()).rev() {
            index[d] = rest % lead[d];
            rest /= lead[d];
        }
        let full = |h: i64, row: i64, column: i64| [&index[..], &[h, row, column]].concat();
        let scores: Vec<f64> = (0..keys)
            .map(|j| {
                let product: f64 = (0..size)
                    .map(|e| {
                        at(&q_values, q.sizes(), &full(h, i, e))
                            * at(&k_values, k.sizes(), &full(shared(k, h), j, e))
                    })
                    .sum();
                let bias = match &mask {
                    None => 0.0,
                    Some((mask, numbers)) => {
                        let value = at(numbers, mask.sizes(), &full(h, i, j));
                        match mask.dtype() {
                            DType::Bool if value == 0.0 => f64::NEG_INFINITY,
                            DType::Bool => 0.0,
                            _ => value,
                        }
                    }
                };
                let hidden = inputs.causal && j > i;
                if hidden { f64::NEG_INFINITY } else { product * scale + bias }
            })
            .collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let base = if largest.is_finite() { largest } else { 0.0 };
        let powers: Vec<f64> = scores.iter().map(|s| (s - base).exp()).collect();
        let total: f64 = powers.iter().sum();
        let weights: Vec<f64> =
            powers.iter().map(|p| if total == 0.0 { 0.0 } else { p / total }).collect();
        for column in 0..value_size {
            let sum = weights
                .iter()
                .enumerate()
                .map(|(j, w)| w * at(&v_values, v.sizes(), &full(shared(v, h), j as i64, column)));
            results.push(sum.sum());
        }
        all_weights.extend(weights);
    }
    (results, all_weights)
}

/// The first number that is too far off, if there is one.
fn wrong(what: &str, dtype: DType, got: &[f64], exact: &[f64]) -> Option<String> {
    let tolerance = match dtype {
        DType::F32 => 1e-5,
        DType::F16 => 1e-3,
        _ => 8e-3,
    };
    if got.len() != exact.len() {
        return Some(format!("{what}: {} numbers, not {}", got.len(), exact.len()));
    }
    let far = |(&g, &e): (&f64, &f64)| {
        let near = (g - e).abs() <= tolerance * (1.0 + e.abs()) || g.is_nan() && e.is_nan();
        !near
    };
    let place = got.iter().zip(exact).position(far)?;
    Some(format!("{what} {place}: {} and not {}", got[place], exact[place]))
}

/// Runs it, and says what is wrong with the results.
fn verdict(route: Route, inputs: &Inputs<'_>) -> Result<Option<String>> {
    let stream = stream();
    let Attention { out, weights } = attention_by(route, &stream, inputs)?;
    stream.commit_and_wait()?;
    let dtype = inputs.query.dtype();
    assert!(out.layout().is_contiguous() && out.dtype() == dtype);
    let (exact, exact_weights) = reference(inputs, out.sizes());
    let weights_wrong = weights.and_then(|weights| {
        assert!(weights.layout().is_contiguous() && weights.dtype() == dtype);
        wrong("weight", dtype, &values(&weights), &exact_weights)
    });
    Ok(wrong("element", dtype, &values(&out), &exact).or(weights_wrong))
}

#[derive(Debug, Clone)]
struct Case {
    dtype: DType,
    query: Spec,
    key: Spec,
    value: Spec,
    mask: Option<(DType, Spec)>,
    causal: bool,
    scale: Option<f64>,
    hidden: f64,
    seed: u64,
}

impl Case {
    fn verdict(&self, route: Route) -> Result<Option<String>> {
        let query = self.query.floats(self.dtype, self.seed);
        let key = self.key.floats(self.dtype, self.seed + 1);
        let value = self.value.floats(self.dtype, self.seed + 2);
        let mask =
            self.mask.as_ref().map(|(dtype, spec)| spec.mask(*dtype, self.seed, self.hidden));
        let inputs = Inputs {
            query: &query,
            key: &key,
            value: &value,
            mask: mask.as_ref(),
            causal: self.causal,
            scale: self.scale,
        };
        verdict(route, &inputs)
    }
}

/// Sizes with some of the first `lead` set to 1, or all of those left away.
fn broadcastable(sizes: Vec<i64>, lead: usize) -> impl Strategy<Value = Vec<i64>> {
    (prop::collection::vec(any::<bool>(), lead), any::<bool>()).prop_map(move |(ones, drop)| {
        let mut sizes = sizes.clone();
        for (size, one) in sizes.iter_mut().zip(ones) {
            if one {
                *size = 1;
            }
        }
        if drop { sizes.split_off(lead) } else { sizes }
    })
}

/// Some strides for some sizes; dimensions may be repeated.
fn spec(sizes: impl Strategy<Value = Vec<i64>>) -> impl Strategy<Value = Spec> {
    sizes.prop_flat_map(|sizes| {
        let repeats = prop::collection::vec(prop::bool::weighted(0.1), sizes.len());
        (strides_of(sizes.clone()), repeats).prop_map(move |(mut strides, repeats)| {
            for (stride, repeat) in strides.iter_mut().zip(repeats) {
                if repeat {
                    *stride = 0;
                }
            }
            Spec { sizes: sizes.clone(), strides }
        })
    })
}

fn case(most_queries: i64, most_keys: i64, most_size: i64) -> impl Strategy<Value = Case> {
    let sizes = (0..=most_queries, 0..=most_keys, 1..=most_size, 0..=most_size);
    let heads = (1i64..3, 1i64..4, any::<bool>());
    let lead = prop::collection::vec(1i64..3, 0..3);
    let mask = prop::sample::select(vec![
        None,
        Some(DType::Bool),
        Some(DType::F32),
        Some(DType::F16),
        Some(DType::Bf16),
    ]);
    let rest = (
        prop::sample::select(FLOATS.to_vec()),
        any::<bool>(),
        prop::option::of(-2.0..2.0f64),
        prop::sample::select(vec![0.0, 0.5, 0.95]),
        0u64..1000,
    );
    (sizes, heads, lead, mask, rest).prop_flat_map(|(sizes, heads, lead, mask, rest)| {
        let (queries, keys, size, value_size) = sizes;
        let (key_heads, group, one_value_head) = heads;
        let all_heads = key_heads * group;
        let value_heads = if one_value_head { 1 } else { key_heads };
        let with = |tail: [i64; 3]| [&lead[..], &tail].concat();
        let n = lead.len();
        let specs = (
            // One of them has all leading dimensions.
            spec(Just(with([all_heads, queries, size]))),
            spec(broadcastable(with([key_heads, keys, size]), n)),
            spec(broadcastable(with([value_heads, keys, value_size]), n)),
            spec(broadcastable(with([all_heads, queries, keys]), n + 2)),
        );
        specs.prop_map(move |(query, key, value, mask_spec)| {
            let (dtype, causal, scale, hidden, seed) = rest;
            let mask = mask.map(|dtype| (dtype, mask_spec));
            Case { dtype, query, key, value, mask, causal, scale, hidden, seed }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn native_attention_of_any_kind(case in case(7, 20, 12)) {
        prop_assert_eq!(case.verdict(Route::Native).unwrap(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn native_attention_of_many_queries(case in case(90, 40, 9)) {
        prop_assert_eq!(case.verdict(Route::Native).unwrap(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn msl_attention_of_few_queries(case in case(8, 20, 12)) {
        prop_assert_eq!(case.verdict(Route::Msl).unwrap(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn msl_attention_of_many_queries(case in case(40, 40, 12)) {
        prop_assert_eq!(case.verdict(Route::Msl).unwrap(), None);
    }
}

fn contiguous_case(dtype: DType, q: &[i64], k: &[i64], value_size: i64) -> Case {
    let (lead, _) = k.split_last_chunk::<1>().unwrap();
    Case {
        dtype,
        query: Spec::contiguous(q),
        key: Spec::contiguous(k),
        value: Spec::contiguous(&[lead, &[value_size]].concat()),
        mask: None,
        causal: false,
        scale: None,
        hidden: 0.0,
        seed: 7,
    }
}

#[test]
fn heads_larger_than_a_threadgroup_takes_at_once() {
    for dtype in FLOATS {
        for queries in [1, 9] {
            let mut case = contiguous_case(dtype, &[1, 2, queries, 300], &[1, 1, 37, 300], 290);
            case.causal = queries == 9;
            for route in [Route::Native, Route::Msl] {
                assert_eq!(case.verdict(route).unwrap(), None, "{dtype} {queries} {route:?}");
            }
        }
    }
}

#[test]
fn several_blocks_of_keys() {
    // More keys than a block of the native version has, queries of several blocks.
    for (dtype, queries, causal) in
        [(DType::F32, 130, true), (DType::Bf16, 3, false), (DType::F16, 70, false)]
    {
        let mut case = contiguous_case(dtype, &[1, 2, queries, 16], &[1, 2, 1100, 16], 8);
        case.causal = causal;
        case.mask = Some((DType::Bool, Spec::contiguous(&[queries, 1100])));
        case.hidden = 0.3;
        assert_eq!(case.verdict(Route::Native).unwrap(), None, "{dtype} {queries}");
    }
}

#[test]
fn a_block_of_keys_that_nobody_attends_to() {
    let numbers: Vec<f64> = (0..1300).map(|j| f64::from(u8::from(j >= 1030))).collect();
    let spec = |sizes: &[i64]| Spec::contiguous(sizes).floats(DType::F32, 3);
    let (query, key, value) = (spec(&[2, 1, 4]), spec(&[2, 1300, 4]), spec(&[2, 1300, 4]));
    let mask = contiguous(DType::Bool, &[1, 1300], &numbers);
    let inputs = Inputs {
        query: &query,
        key: &key,
        value: &value,
        mask: Some(&mask),
        causal: false,
        scale: None,
    };
    assert_eq!(verdict(Route::Native, &inputs).unwrap(), None);
    assert_eq!(verdict(Route::Msl, &inputs).unwrap(), None);
}

/// Attention of one head with these queries, keys and mask; values count up from 1.
fn small(route: Route, query: &[f64], key: &[f64], mask: &[f64], dtype: DType) -> Vec<f64> {
    let (m, n) = (query.len() as i64, key.len() as i64);
    let counting: Vec<f64> = (1..=n).map(|j| j as f64).collect();
    let query = contiguous(DType::F32, &[1, m, 1], query);
    let key = contiguous(DType::F32, &[1, n, 1], key);
    let value = contiguous(DType::F32, &[1, n, 1], &counting);
    let mask = contiguous(dtype, &[m, n], mask);
    let inputs = Inputs {
        query: &query,
        key: &key,
        value: &value,
        mask: Some(&mask),
        causal: false,
        scale: Some(1.0),
    };
    let stream = stream();
    let out = attention_by(route, &stream, &inputs).unwrap().out;
    stream.commit_and_wait().unwrap();
    values(&out)
}

#[test]
fn masked_rows_are_zero_and_only_infinity_masks() {
    const NO: f64 = f64::NEG_INFINITY;
    let least = f64::from(f32::MIN);
    for route in [Route::Native, Route::Msl] {
        // As many queries as both kinds of kernels take.
        for copies in [1, 5] {
            let key = [0.5, -0.5];
            let mask: Vec<f64> = [[NO, NO], [least, least], [NO, 0.0]].concat().repeat(copies);
            let out = small(route, &[1.0, 1.0, 1.0].repeat(copies), &key, &mask, DType::F32);
            let expected = [0.0, 1.5, 2.0].repeat(copies);
            assert_eq!(out, expected, "{route:?}");
            let mask = [0.0, 0.0, 1.0, 0.0].repeat(copies);
            let out = small(route, &[1.0, 1.0].repeat(copies), &key, &mask, DType::Bool);
            assert_eq!(out, [0.0, 1.0].repeat(copies), "{route:?}");
        }
    }
}

#[test]
fn nan_stays_in_its_row() {
    for route in [Route::Native, Route::Msl] {
        for rows in [3, 12] {
            let mut query = vec![0.0; rows];
            query[1] = f64::NAN;
            let mask = vec![0.0; 2 * rows];
            let out = small(route, &query, &[1.0, 1.0], &mask, DType::F32);
            for (row, value) in out.iter().enumerate() {
                assert_eq!(value.is_nan(), row == 1, "{route:?} {rows} {row}: {value}");
            }
        }
    }
}

#[test]
fn weights_that_would_be_large_are_left_out() {
    let spec = |sizes: &[i64]| Spec::contiguous(sizes).floats(DType::F16, 3);
    let (query, key) = (spec(&[1, 2, 4]), spec(&[1, 4 << 20, 4]));
    let mut inputs =
        Inputs { query: &query, key: &key, value: &key, mask: None, causal: true, scale: None };
    let stream = stream();
    let just = attention_by(Route::Native, &stream, &inputs).unwrap().weights;
    assert_eq!(just.unwrap().numel() * 2, MOST_WEIGHT_BYTES);
    let query = spec(&[1, 3, 4]);
    inputs.query = &query;
    let attention = attention_by(Route::Native, &stream, &inputs).unwrap();
    stream.commit_and_wait().unwrap();
    assert!(attention.weights.is_none());
    let first = &values(&key)[..4];
    assert_eq!(values(&attention.out)[..4], *first, "the first query sees the first key only");
}

#[test]
fn what_does_not_fit_is_refused() {
    let t = |dtype, sizes: &[i64]| contiguous(dtype, sizes, &[]);
    let (f32, f16) = (DType::F32, DType::F16);
    let refused = |q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, part: &str| {
        let inputs = Inputs { query: q, key: k, value: v, mask, causal: false, scale: None };
        let stream = stream();
        let text = attention(&stream, &inputs).unwrap_err().to_string();
        assert!(text.starts_with("attention") && text.contains(part), "{text}");
        assert_eq!(stream.pending(), 0);
    };
    let q = t(f32, &[2, 4, 3, 8]);
    let k = t(f32, &[2, 4, 5, 8]);
    refused(&t(f32, &[3, 8]), &k, &k, None, "at least 3 dimensions");
    refused(&q, &t(f16, &[2, 4, 5, 8]), &k, None, "float16");
    refused(&t(DType::I32, &[1, 1, 1]), &k, &k, None, "int32");
    refused(&q, &t(f32, &[2, 4, 5, 7]), &k, None, "head sizes");
    refused(&q, &k, &t(f32, &[2, 4, 6, 8]), None, "numbers of keys and values");
    refused(&q, &t(f32, &[2, 3, 5, 8]), &k, None, "the 4 heads");
    refused(&q, &t(f32, &[3, 4, 5, 8]), &k, None, "leading dimensions");
    refused(&q, &k, &k, Some(&t(DType::I64, &[3, 5])), "int64");
    refused(&q, &k, &k, Some(&t(DType::Bool, &[3, 4])), "does not broadcast");
}
