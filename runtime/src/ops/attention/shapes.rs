//! The sizes of an attention, and its tensors brought to four dimensions.

use smallvec::SmallVec;

use super::{Inputs, Operands};
use crate::Result;
use crate::error::err;
use crate::ops::{broadcast_to, copy};
use crate::stream::Stream;
use crate::tensor::{Layout, Tensor};

type Sizes = SmallVec<[i64; 6]>;

/// The sizes of an attention.
#[derive(Debug)]
pub struct Shapes {
    /// Leading dimensions, broadcast.
    lead: Sizes,
    heads: i64,
    queries: i64,
    keys: i64,
    value_size: i64,
}

/// Leading dimensions, heads, rows, columns of an operand.
fn parts<'a>(what: &str, tensor: &'a Tensor) -> Result<(&'a [i64], [i64; 3])> {
    tensor.sizes().split_last_chunk::<3>().map(|(lead, tail)| (lead, *tail)).ok_or_else(|| {
        err!(
            InvalidArgument,
            "attention: the {what} must have at least 3 dimensions (heads, positions, size), its \
             sizes are {:?}",
            tensor.sizes()
        )
    })
}

impl Shapes {
    /// The sizes of an attention of `inputs`.
    ///
    /// # Errors
    /// They do not fit together.
    pub fn new(inputs: &Inputs<'_>) -> Result<Shapes> {
        let (query, key, value) = (inputs.query, inputs.key, inputs.value);
        let (q_lead, [q_heads, queries, size]) = parts("query", query)?;
        let (k_lead, [k_heads, keys, key_size]) = parts("key", key)?;
        let (v_lead, [v_heads, values, value_size]) = parts("value", value)?;
        let differ = |what: &str, a: &Tensor, b: &Tensor| {
            err!(InvalidArgument, "attention: {what} differ: {:?} and {:?}", a.sizes(), b.sizes())
        };
        if size != key_size {
            return Err(differ("the head sizes of query and key", query, key));
        }
        if keys != values {
            return Err(differ("the numbers of keys and values", key, value));
        }
        let heads = if q_heads == 1 { k_heads.max(v_heads) } else { q_heads };
        for (what, tensor, n) in [("key", key, k_heads), ("value", value, v_heads)] {
            if heads != n && (n == 0 || heads % n != 0) {
                return Err(err!(
                    InvalidArgument,
                    "attention: the {heads} heads of the query {:?} cannot share the {n} of the \
                     {what} {:?}",
                    query.sizes(),
                    tensor.sizes()
                ));
            }
        }
        let lead = broadcast_leads(&[q_lead, k_lead, v_lead]).ok_or_else(|| {
            err!(
                InvalidArgument,
                "attention: the leading dimensions of query {:?}, key {:?} and value {:?} do not \
                 broadcast",
                query.sizes(),
                key.sizes(),
                value.sizes()
            )
        })?;
        Ok(Shapes { lead, heads, queries, keys, value_size })
    }

    fn with(&self, tail: [i64; 3]) -> Sizes {
        self.lead.iter().copied().chain(tail).collect()
    }

    /// Sizes of the result.
    pub fn out(&self) -> Sizes {
        self.with([self.heads, self.queries, self.value_size])
    }

    /// Sizes of the attention weights.
    pub fn weights(&self) -> Sizes {
        self.with([self.heads, self.queries, self.keys])
    }

    /// All tensors with the leading dimensions as one. Those that are broadcast over several
    /// leading dimensions may have to be copied for that.
    ///
    /// # Errors
    /// The mask does not broadcast; out of memory.
    pub fn operands(
        &self,
        stream: &Stream,
        inputs: &Inputs<'_>,
        out: &Tensor,
        weights: Option<&Tensor>,
    ) -> Result<Operands> {
        let four = |tensor: &Tensor, heads: Option<i64>| {
            let (_, [own_heads, rows, columns]) = parts("operand", tensor)?;
            let sizes = self.with([heads.unwrap_or(own_heads), rows, columns]);
            merged_lead(stream, &broadcast_to("attention", tensor, &sizes)?)
        };
        let mask = inputs.mask.map(|mask| {
            let mask = broadcast_to("attention: the mask", mask, &self.weights())?;
            merged_lead(stream, &mask)
        });
        let size = inputs.query.sizes()[inputs.query.sizes().len() - 1];
        let scale = inputs.scale.unwrap_or_else(|| 1.0 / (size as f64).sqrt());
        Ok(Operands {
            out: four(out, None)?,
            query: four(inputs.query, Some(self.heads))?,
            key: four(inputs.key, None)?,
            value: four(inputs.value, None)?,
            weights: weights.map(|weights| four(weights, None)).transpose()?,
            mask: mask.transpose()?,
            causal: inputs.causal,
            scale: scale as f32,
        })
    }
}

/// Sizes to which all of these broadcast.
fn broadcast_leads(leads: &[&[i64]]) -> Option<Sizes> {
    let dim = leads.iter().map(|lead| lead.len()).max()?;
    let mut sizes = Sizes::from_elem(1, dim);
    for lead in leads {
        for (to, &size) in sizes[dim - lead.len()..].iter_mut().zip(*lead) {
            match (*to, size) {
                (have, size) if have == size || size == 1 => {}
                (1, size) => *to = size,
                _ => return None,
            }
        }
    }
    Some(sizes)
}

/// `tensor` with all dimensions before the last three as one: a view where strides allow it, else
/// a copy.
fn merged_lead(stream: &Stream, tensor: &Tensor) -> Result<Tensor> {
    let (lead, tail) = tensor.sizes().split_last_chunk::<3>().expect("checked before");
    let (lead_strides, tail_strides) = tensor.strides().split_last_chunk::<3>().expect("as many");
    let batch: i64 = lead.iter().product();
    let Some(stride) = merged_stride(lead, lead_strides) else {
        let layout = Layout::contiguous(tensor.sizes())?;
        let packed = Tensor::empty(stream.device(), tensor.dtype(), layout)?;
        copy(stream, &packed, tensor)?;
        return merged_lead(stream, &packed);
    };
    let sizes = [batch, tail[0], tail[1], tail[2]];
    let strides = [stride, tail_strides[0], tail_strides[1], tail_strides[2]];
    tensor.view(tensor.offset(), tensor.dtype(), Layout::new(&sizes, &strides)?)
}

/// The stride of these dimensions as one, if they can be one.
fn merged_stride(sizes: &[i64], strides: &[i64]) -> Option<i64> {
    let mut merged: Option<(i64, i64)> = None;
    for (&size, &stride) in sizes.iter().zip(strides).rev().filter(|&(&size, _)| size != 1) {
        merged = match merged {
            None => Some((size, stride)),
            Some((count, inner)) if stride == count * inner => Some((count * size, inner)),
            Some(_) => return None,
        };
    }
    Some(merged.map_or(0, |(_, stride)| stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads_broadcast_as_in_pytorch() {
        let leads = |leads: &[&[i64]]| broadcast_leads(leads).map(|sizes| sizes.to_vec());
        assert_eq!(leads(&[&[], &[]]), Some(vec![]));
        assert_eq!(leads(&[&[2, 1], &[3], &[1, 1]]), Some(vec![2, 3]));
        assert_eq!(leads(&[&[1], &[0]]), Some(vec![0]));
        assert_eq!(leads(&[&[2], &[3]]), None);
        assert_eq!(leads(&[&[2], &[0]]), None);
    }

    #[test]
    fn dimensions_merge_where_strides_allow() {
        assert_eq!(merged_stride(&[], &[]), Some(0));
        assert_eq!(merged_stride(&[1, 4], &[99, 5]), Some(5));
        assert_eq!(merged_stride(&[2, 3], &[15, 5]), Some(5));
        assert_eq!(merged_stride(&[2, 3], &[0, 0]), Some(0));
        assert_eq!(merged_stride(&[2, 3], &[0, 5]), None);
        assert_eq!(merged_stride(&[2, 3], &[5, 10]), None);
    }
}
