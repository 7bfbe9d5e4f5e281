//! Scaled dot product attention.

use std::sync::Arc;

use crate::Result;
use crate::error::err;
use crate::ops;
use crate::ops::attention::Inputs;
use crate::shim::abi::{In, Out, c_functions};
use crate::shim::context::current_owner;
use crate::shim::registry::{lend_tensor, maybe_tensor, tensor};
use crate::stream::Stream;
use crate::tensor::{RawHandle, Tensor};

c_functions! {
    /// `softmax(scale · query keyᵀ + mask) value`, and the softmax. `ret1` is an undefined tensor
    /// where it would be very large; see [`ops::attention::Attention::weights`].
    fn aoti_torch_mps__scaled_dot_product_attention_math_for_mps(
        query: RawHandle,
        key: RawHandle,
        value: RawHandle,
        attn_mask: In<RawHandle>,
        dropout_p: f64,
        is_causal: i32,
        dropout_mask: In<RawHandle>,
        scale: In<f64>,
        ret0: Out<RawHandle>,
        ret1: Out<RawHandle>,
    ) {
        let none = check_dropout(dropout_p, dropout_mask);
        attend([query, key, value], attn_mask, none, is_causal, scale, [ret0, ret1])
    }

    /// The same. Whether heads are shared follows from their numbers, as in PyTorch.
    fn aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2(
        query: RawHandle,
        key: RawHandle,
        value: RawHandle,
        attn_mask: In<RawHandle>,
        dropout_p: f64,
        is_causal: i32,
        dropout_mask: In<RawHandle>,
        scale: In<f64>,
        _enable_gqa: i32,
        ret0: Out<RawHandle>,
        ret1: Out<RawHandle>,
    ) {
        let none = check_dropout(dropout_p, dropout_mask);
        attend([query, key, value], attn_mask, none, is_causal, scale, [ret0, ret1])
    }
}

fn check_dropout(dropout_p: f64, dropout_mask: In<RawHandle>) -> Result<()> {
    if dropout_p == 0.0 && dropout_mask.optional().is_none_or(RawHandle::is_null) {
        return Ok(());
    }
    Err(err!(
        Unsupported,
        "dropout_p is {dropout_p}: attention with dropout is for training; export the model after \
         model.eval()"
    ))
}

fn attend(
    [query, key, value]: [RawHandle; 3],
    attn_mask: In<RawHandle>,
    no_dropout: Result<()>,
    is_causal: i32,
    scale: In<f64>,
    [ret0, ret1]: [Out<RawHandle>; 2],
) -> Result<()> {
    for (what, ret) in [("ret0", ret0), ("ret1", ret1)] {
        ret.check(what)?;
        // The caller deletes both, whatever the status is.
        ret.set(what, RawHandle::NULL)?;
    }
    no_dropout?;
    let (query, key, value) = (tensor(query)?, tensor(key)?, tensor(value)?);
    // Left out: a null pointer, a null handle, or an undefined tensor.
    let mask = attn_mask.optional().filter(|mask| !mask.is_null());
    let mask = mask.map(maybe_tensor).transpose()?.flatten();
    let inputs = Inputs {
        query: &query,
        key: &key,
        value: &value,
        mask: mask.as_deref(),
        causal: is_causal != 0,
        scale: scale.optional(),
    };
    let attention = ops::attention(&Stream::current()?, &inputs)?;
    let lend = |tensor: Option<Tensor>| lend_tensor(current_owner(), tensor.map(Arc::new));
    ret0.set("ret0", lend(Some(attention.out)))?;
    ret1.set("ret1", lend(attention.weights))
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;
    use crate::shim::attributes::{aoti_torch_get_strides, aoti_torch_is_defined};
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::testing::{empty, get, model, outcome, read, write};
    use crate::tensor::DType;

    fn matrix(sizes: &[i64], values: &[f32]) -> RawHandle {
        let strides = crate::tensor::Layout::contiguous(sizes).unwrap().strides;
        let handle = empty(sizes, &strides, DType::F32.code(), DEVICE_MPS);
        write(handle, values);
        handle
    }

    /// Calls version 2 with these, without dropout mask.
    fn attend(
        qkv: [RawHandle; 3],
        mask: In<RawHandle>,
        (dropout, causal, scale): (f64, i32, In<f64>),
    ) -> Result<[RawHandle; 2], String> {
        let (mut out, mut weights) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let (ret0, ret1) = (Out::of(&mut out), Out::of(&mut weights));
        let [q, k, v] = qkv;
        let none = In::NULL;
        // SAFETY: the arguments are those of a well-behaved caller, or handles.
        let status = unsafe {
            aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2(
                q, k, v, mask, dropout, causal, none, scale, 1, ret0, ret1,
            )
        };
        // SAFETY: the call has set both in any case.
        let handles = unsafe { [out.assume_init(), weights.assume_init()] };
        assert_eq!(handles.map(RawHandle::is_null), [status != 0; 2]);
        outcome(status).map(|()| handles)
    }

    #[test]
    fn attention_by_handle() {
        let (model, guard) = model();
        let q = matrix(&[1, 2, 2, 1], &[0.0, 0.0, 1.0, 1.0]);
        // exp(2 * k) is 1 and, but for rounding, 3.
        let k = matrix(&[1, 1, 2, 1], &[0.0, 3f32.ln() / 2.0]);
        let v = matrix(&[1, 1, 2, 1], &[4.0, 8.0]);
        let near = |handle, exact: &[f32]| {
            let got = read::<f32>(handle, exact.len());
            let far = got.iter().zip(exact).any(|(g, e)| (g - e).abs() > 1e-5);
            assert!(!far, "{got:?}, not {exact:?}");
        };
        let no_mask = In::NULL;
        let [out, weights] = attend([q, k, v], no_mask, (0.0, 0, In::of(&[2.0]))).unwrap();
        near(out, &[6.0, 6.0, 7.0, 7.0]);
        near(weights, &[0.5, 0.5, 0.5, 0.5, 0.25, 0.75, 0.25, 0.75]);
        let [out, _] = attend([q, k, v], no_mask, (0.0, 1, In::NULL)).unwrap();
        assert_eq!(read::<f32>(out, 1), [4.0]);
        let mask = empty(&[1, 2], &[2, 1], DType::Bool.code(), DEVICE_MPS);
        write(mask, &[0u8, 1]);
        let [out, _] = attend([q, k, v], In::of(&[mask]), (0.0, 0, In::NULL)).unwrap();
        assert_eq!(read::<f32>(out, 4), [8.0; 4]);
        let strides = get!(aoti_torch_get_strides, out).unwrap();
        // SAFETY: the tensor has four dimensions and lives.
        assert_eq!(unsafe { std::slice::from_raw_parts(strides, 4) }, [4, 2, 1, 1]);
        // A null handle stands for no mask as well.
        attend([q, k, v], In::of(&[RawHandle::NULL]), (0.0, 0, In::NULL)).unwrap();
        assert!(guard.take_error().is_none());
        assert_eq!(model.release(), 12);
    }

    #[test]
    fn both_versions_agree() {
        let (model, _guard) = model();
        let t = matrix(&[1, 1, 2, 1], &[1.0, 2.0]);
        let [out, _] = attend([t, t, t], In::NULL, (0.0, 0, In::NULL)).unwrap();
        let (mut ret0, mut ret1) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let (scale, none) = (In::NULL, In::NULL);
        // SAFETY: the arguments are those of a well-behaved caller, or handles.
        let first = unsafe {
            let (ret0, ret1) = (Out::of(&mut ret0), Out::of(&mut ret1));
            aoti_torch_mps__scaled_dot_product_attention_math_for_mps(
                t, t, t, none, 0.0, 0, none, scale, ret0, ret1,
            )
        };
        outcome(first).unwrap();
        // SAFETY: the call succeeded.
        let first = unsafe { ret0.assume_init() };
        assert_eq!(read::<f32>(first, 2), read::<f32>(out, 2));
        model.release();
    }

    #[test]
    fn large_weights_are_undefined() {
        let (model, _guard) = model();
        let q = empty(&[1, 3, 1], &[3, 1, 1], DType::F32.code(), DEVICE_MPS);
        let k = empty(&[1, 2 << 20, 1], &[0, 0, 1], DType::F32.code(), DEVICE_MPS);
        let [_, weights] = attend([q, k, k], In::NULL, (0.0, 1, In::NULL)).unwrap();
        assert!(!get!(aoti_torch_is_defined, weights).unwrap());
        model.release();
    }

    #[test]
    fn dropout_is_refused() {
        let (model, guard) = model();
        let t = matrix(&[1, 1, 1], &[1.0]);
        let text = attend([t, t, t], In::NULL, (0.5, 0, In::NULL)).unwrap_err();
        assert!(text.contains("dropout_p is 0.5") && text.contains("eval()"), "{text}");
        assert!(guard.take_error().is_some());
        model.release();
    }
}
