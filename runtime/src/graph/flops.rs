//! How many floating point operations an op graph takes.

use super::{GraphKey, GraphOp};

impl GraphKey {
    /// Floating point operations, a multiplication and an addition counting as two; `None` for
    /// operators that are not counted in them.
    pub fn flops(&self) -> Option<u64> {
        let sizes = |index: usize| self.operands.get(index).map(|operand| &operand.sizes[..]);
        let multiply_adds = match &self.op {
            GraphOp::Mm | GraphOp::Bmm => product(sizes(0)?)? * last(sizes(1)?)?,
            GraphOp::Addmm { .. } => product(sizes(0)?)? * last(sizes(2)?)?,
            // Each element of the result, or of the input whose gradient it is, meets each tap of
            // the weight for one channel of the other side.
            GraphOp::Convolution { transposed, .. } => {
                let spread = if *transposed { sizes(1)? } else { sizes(0)? };
                product(spread)? * product(sizes(2)?.get(1..)?)?
            }
            GraphOp::Attention { causal, .. } => {
                let (query, key, value) = (sizes(1)?, sizes(2)?, sizes(3)?);
                let pairs = attended(query, key, *causal)?;
                pairs * (last(query)? + last(value)?)
            }
            GraphOp::LinearNbit { .. } | GraphOp::GatherQmv { .. } => {
                product(sizes(0)?)? * last(sizes(1)?)?
            }
            GraphOp::Copy
            | GraphOp::TopK { .. }
            | GraphOp::Sort { .. }
            | GraphOp::Cumulative { .. }
            | GraphOp::GatedDeltaRule => return None,
        };
        u64::try_from(multiply_adds).ok()?.checked_mul(2)
    }
}

/// Pairs of a query and a key that attention looks at, over all batches and heads.
fn attended(query: &[i64], key: &[i64], causal: bool) -> Option<i128> {
    let &[batch, heads, queries, _] = query else { return None };
    let &[_, _, keys, _] = key else { return None };
    let (queries, keys) = (i128::from(queries), i128::from(keys));
    let pairs = if causal {
        // Query i looks at min(i + 1, keys) keys.
        let short = queries.min(keys);
        short * (short + 1) / 2 + (queries - short) * keys
    } else {
        queries * keys
    };
    Some(i128::from(batch) * i128::from(heads) * pairs)
}

fn product(sizes: &[i64]) -> Option<i128> {
    let small = |&size: &i64| u32::try_from(size).ok();
    sizes
        .iter()
        .try_fold(1i128, |n, size| n.checked_mul(i128::from(small(size)?)))
        // Room for two more factors of 32 bits.
        .filter(|&n| n < 1 << 62)
}

fn last(sizes: &[i64]) -> Option<i128> {
    product(sizes.last_chunk::<1>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{OperandKey, StrideClass};
    use crate::tensor::DType;
    use smallvec::smallvec;

    fn flops(op: GraphOp, operands: &[&[i64]]) -> Option<u64> {
        let operands = operands
            .iter()
            .map(|&sizes| OperandKey {
                dtype: DType::F32,
                sizes: sizes.into(),
                strides: StrideClass::Contiguous,
            })
            .collect();
        GraphKey { op, operands }.flops()
    }

    #[test]
    fn products_take_two_for_each_term() {
        assert_eq!(flops(GraphOp::Mm, &[&[3, 5], &[3, 7], &[7, 5]]), Some(2 * 3 * 5 * 7));
        let batch: [&[i64]; 3] = [&[2, 3, 5], &[2, 3, 7], &[2, 7, 5]];
        assert_eq!(flops(GraphOp::Bmm, &batch), Some(2 * 2 * 3 * 5 * 7));
        let addmm = GraphOp::Addmm { beta: 1f64.to_bits(), alpha: 1f64.to_bits() };
        let operands: [&[i64]; 4] = [&[3, 5], &[3, 5], &[3, 7], &[7, 5]];
        assert_eq!(flops(addmm, &operands), Some(2 * 3 * 5 * 7));
        let packed: [&[i64]; 5] = [&[3, 5], &[3, 64], &[5, 32], &[5, 2], &[5, 2]];
        let linear = GraphOp::LinearNbit { bits: 4, group_size: 32 };
        assert_eq!(flops(linear, &packed), Some(2 * 3 * 5 * 64));
    }

    #[test]
    fn convolutions_take_two_for_each_tap() {
        let op = |transposed, groups| GraphOp::Convolution {
            stride: smallvec![1, 1],
            padding: smallvec![1, 1],
            dilation: smallvec![1, 1],
            transposed,
            groups,
        };
        let plain: [&[i64]; 3] = [&[1, 64, 56, 56], &[1, 64, 56, 56], &[64, 64, 3, 3]];
        assert_eq!(flops(op(false, 1), &plain), Some(2 * 64 * 56 * 56 * 64 * 9));
        let depthwise: [&[i64]; 3] = [&[1, 64, 56, 56], &[1, 64, 56, 56], &[64, 1, 3, 3]];
        assert_eq!(flops(op(false, 64), &depthwise), Some(2 * 64 * 56 * 56 * 9));
        let transposed: [&[i64]; 3] = [&[1, 8, 11, 11], &[1, 4, 5, 5], &[4, 8, 3, 3]];
        assert_eq!(flops(op(true, 1), &transposed), Some(2 * 4 * 5 * 5 * 8 * 9));
    }

    #[test]
    fn attention_takes_both_of_its_products() {
        let op = |causal| GraphOp::Attention { scale: 0, causal, weights: false, mask: false };
        let long: [&[i64]; 4] = [&[2, 8, 5, 16], &[2, 8, 5, 32], &[2, 2, 9, 32], &[2, 2, 9, 16]];
        assert_eq!(flops(op(false), &long), Some(2 * 2 * 8 * 5 * 9 * (32 + 16)));
        assert_eq!(flops(op(true), &long), Some(2 * 2 * 8 * (1 + 2 + 3 + 4 + 5) * (32 + 16)));
        let short: [&[i64]; 4] = [&[1, 1, 4, 8], &[1, 1, 4, 8], &[1, 1, 2, 8], &[1, 1, 2, 8]];
        assert_eq!(flops(op(true), &short), Some(2 * (1 + 2 + 2 + 2) * 16));
    }

    #[test]
    fn what_is_not_counted_is_unknown() {
        assert_eq!(flops(GraphOp::Copy, &[&[3], &[3]]), None);
        assert_eq!(flops(GraphOp::Mm, &[]), None, "operands that do not fit");
        let huge = i64::from(u32::MAX);
        assert_eq!(flops(GraphOp::Mm, &[&[huge, huge], &[huge, huge], &[huge, huge]]), None);
    }
}
