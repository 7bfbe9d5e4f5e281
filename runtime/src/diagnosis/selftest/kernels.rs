//! The kernels of this library, against the host device's native code for the same operators.

use super::data::{FLOATS, Given, noise, read};
use super::{Measured, Planned, Session, planned};
use crate::Result;
use crate::ops::attention::{Inputs, attention};
use crate::ops::{
    GatedDeltaRule, GatherQmv, LinearNbit, gated_delta_rule, gather_qmv, linear_nbit,
};
use crate::stream::Stream;
use crate::tensor::{DType, Tensor};

/// The checks.
pub fn checks() -> Vec<Planned> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        for (name, case) in ATTENTIONS {
            let name = format!("attention {name} {dtype}");
            all.push(planned("kernel", name, move |s| attends(s, dtype, case)));
        }
        for bits in 1..8 {
            let name = format!("linear of {bits} bits {dtype}");
            all.push(planned("kernel", name, move |s| linear(s, dtype, bits)));
        }
        all.push(planned("kernel", format!("gather_qmv {dtype}"), move |s| gathers(s, dtype)));
        let name = format!("gated_delta_rule {dtype}");
        all.push(planned("kernel", name, move |s| gated(s, dtype)));
    }
    all
}

/// Runs an operator on the device and on the host, and compares the results.
fn on_both(
    session: &Session,
    given: &[Given],
    op: impl Fn(&Stream, &[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Measured> {
    let mut results = Vec::new();
    for device in [&session.device, &session.host] {
        let stream = Stream::with_flush_interval(device.clone(), 64);
        let operands = given.iter().map(|given| given.on(device)).collect::<Result<Vec<_>>>()?;
        let tensors = op(&stream, &operands)?;
        stream.commit_and_wait()?;
        results.push(tensors.iter().map(read).collect::<Result<Vec<_>>>()?);
    }
    let mut measured = Measured::default();
    for (i, (actual, expected)) in results[0].iter().zip(&results[1]).enumerate() {
        measured.compare(&format!("result {i}"), actual, expected)?;
    }
    Ok(measured)
}

/// An attention.
#[derive(Debug, Clone, Copy)]
struct Case {
    heads: i64,
    key_heads: i64,
    queries: i64,
    keys: i64,
    size: i64,
    mask: Option<DType>,
    causal: bool,
}

const PLAIN: Case =
    Case { heads: 2, key_heads: 2, queries: 5, keys: 7, size: 32, mask: None, causal: false };

const ATTENTIONS: [(&str, Case); 7] = [
    ("of one query", Case { queries: 1, keys: 70, size: 64, ..PLAIN }),
    ("of many queries", Case { queries: 70, keys: 70, size: 64, ..PLAIN }),
    ("causal", Case { queries: 33, keys: 33, size: 128, causal: true, ..PLAIN }),
    ("of an odd size", Case { size: 20, ..PLAIN }),
    ("of grouped heads", Case { heads: 6, key_heads: 2, ..PLAIN }),
    ("with a bool mask", Case { mask: Some(DType::Bool), ..PLAIN }),
    ("with a float mask", Case { mask: Some(DType::F32), size: 96, ..PLAIN }),
];

fn attends(session: &Session, dtype: DType, case: Case) -> Result<Measured> {
    let Case { heads, key_heads, queries, keys, size, .. } = case;
    let mut given = vec![
        Given::noise(dtype, &[2, heads, queries, size], 1),
        Given::noise(dtype, &[2, key_heads, keys, size], 2),
        Given::noise(dtype, &[2, key_heads, keys, size], 3),
    ];
    if let Some(of_mask) = case.mask {
        let count = (queries * keys) as usize;
        let values = noise(count, 4);
        let values = match of_mask {
            // The first key is always attended to.
            DType::Bool => values
                .iter()
                .enumerate()
                .map(|(i, &v)| f64::from(v > 0.0 || i as i64 % keys == 0))
                .collect(),
            _ => values,
        };
        let of_mask = if of_mask == DType::Bool { of_mask } else { dtype };
        given.push(Given::new(of_mask, &[queries, keys], values));
    }
    on_both(session, &given, |stream, o| {
        let inputs = Inputs {
            query: &o[0],
            key: &o[1],
            value: &o[2],
            mask: o.get(3),
            causal: case.causal,
            scale: None,
        };
        Ok(vec![attention(stream, &inputs)?.out])
    })
}

/// Packed weights, scales and zeros of rows of `terms` weights of some bits.
fn weights(dtype: DType, bits: u8, lead: &[i64], terms: i64, group: i64) -> [Given; 3] {
    let sizes = |last: i64| [lead, &[last]].concat();
    let bytes = sizes(terms * i64::from(bits) / 8);
    let count = bytes.iter().product::<i64>() as usize;
    let packed = noise(count, 5).into_iter().map(|n| ((n + 1.0) * 128.0).floor()).collect();
    let groups = sizes((terms + group - 1) / group);
    let of_groups = groups.iter().product::<i64>() as usize;
    let scales = noise(of_groups, 6).into_iter().map(|n| n * 0.1).collect();
    [
        Given::new(DType::U8, &bytes, packed),
        Given::new(dtype, &groups, scales),
        Given::noise(dtype, &groups, 7),
    ]
}

fn linear(session: &Session, dtype: DType, bits: u8) -> Result<Measured> {
    let (terms, group_size) = (136, 32);
    let [b, s, z] = weights(dtype, bits, &[37], terms, group_size);
    let mut measured = Measured::default();
    for rows in [1, 9] {
        let a = Given::noise(dtype, &[rows, terms], 8);
        let both = on_both(session, &[a, b.clone(), s.clone(), z.clone()], |stream, o| {
            let [a, b, s, z] = [&o[0], &o[1], &o[2], &o[3]];
            Ok(vec![linear_nbit(stream, LinearNbit { a, b, s, z, bits, group_size })?])
        })?;
        measured.add(both);
    }
    Ok(measured)
}

fn gathers(session: &Session, dtype: DType) -> Result<Measured> {
    let (terms, group_size) = (64, 32);
    let [w, s, z] = weights(dtype, 4, &[3, 19], terms, group_size);
    let x = Given::noise(dtype, &[5, terms], 9);
    let experts = Given::new(DType::I64, &[5], vec![2.0, 0.0, 1.0, 2.0, -1.0]);
    on_both(session, &[x, w, s, z, experts], |stream, o| {
        let [x, w, s, z, experts] = [&o[0], &o[1], &o[2], &o[3], &o[4]];
        Ok(vec![gather_qmv(stream, GatherQmv { x, w, s, z, experts, group_size })?])
    })
}

fn gated(session: &Session, dtype: DType) -> Result<Measured> {
    let [b, t, key_heads, heads, key, value] = [2, 3, 2, 4, 32, 9];
    let small = |given: Given| Given {
        values: given.values.iter().map(|n| n / (key as f64).sqrt()).collect(),
        ..given
    };
    let gate = |seed| {
        let given = Given::noise(dtype, &[b, t, heads], seed);
        Given { values: given.values.iter().map(|n| n.abs()).collect(), ..given }
    };
    let given = [
        small(Given::noise(dtype, &[b, t, key_heads, key], 10)),
        small(Given::noise(dtype, &[b, t, key_heads, key], 11)),
        Given::noise(dtype, &[b, t, heads, value], 12),
        gate(13),
        gate(14),
        Given::noise(DType::F32, &[b, heads, value, key], 15),
    ];
    on_both(session, &given, |stream, o| {
        let [q, k, v, g, beta, state] = [&o[0], &o[1], &o[2], &o[3], &o[4], &o[5]];
        let y = gated_delta_rule(stream, GatedDeltaRule { q, k, v, g, beta, state })?;
        Ok(vec![y, state.clone()])
    })
}
