//! ExecuTorch's `metal::gated_delta_rule`, which the generated code declares itself.

use crate::ops::{self, GatedDeltaRule};
use crate::shim::abi::{Out, c_functions};
use crate::shim::context::lend;
use crate::shim::registry::tensor;
use crate::stream::Stream;
use crate::tensor::RawHandle;

c_functions! {
    /// Linear attention, which updates `state_in`: see [`ops::gated_delta_rule`].
    fn aoti_torch_mps_gated_delta_rule(
        q: RawHandle,
        k: RawHandle,
        v: RawHandle,
        g: RawHandle,
        beta: RawHandle,
        state_in: RawHandle,
        ret_y: Out<RawHandle>,
    ) {
        ret_y.check("ret_y")?;
        let (q, k, v) = (tensor(q)?, tensor(k)?, tensor(v)?);
        let (g, beta, state) = (tensor(g)?, tensor(beta)?, tensor(state_in)?);
        let rule = GatedDeltaRule { q: &q, k: &k, v: &v, g: &g, beta: &beta, state: &state };
        ret_y.set("ret_y", lend(ops::gated_delta_rule(&Stream::current()?, rule)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::testing::{empty, get, model, read, write};
    use crate::tensor::DType;

    const F32: i32 = DType::F32.code();

    fn filled(sizes: &[i64], strides: &[i64], numbers: &[f32]) -> RawHandle {
        let handle = empty(sizes, strides, F32, DEVICE_MPS);
        write(handle, numbers);
        handle
    }

    #[test]
    fn the_state_is_updated() {
        let (_model, guard) = model();
        // One head, two steps, keys of two elements, values of one.
        let (keys, gates) = ([1, 2, 1, 2], [1, 2, 1]);
        let q = filled(&keys, &[4, 2, 2, 1], &[1.0, 0.0, 0.0, 1.0]);
        let k = filled(&keys, &[4, 2, 2, 1], &[1.0, 1.0, 0.0, 2.0]);
        let v = filled(&[1, 2, 1, 1], &[2, 1, 1, 1], &[4.0, 8.0]);
        let g = filled(&gates, &[2, 1, 1], &[0.5, 1.0]);
        let beta = filled(&gates, &[2, 1, 1], &[1.0, 0.5]);
        let state = filled(&[1, 1, 1, 2], &[2, 2, 2, 1], &[2.0, 4.0]);
        let y = get!(aoti_torch_mps_gated_delta_rule, q, k, v, g, beta, state).unwrap();
        // (1, 2) remembers 3 of 4 and becomes (2, 3); that remembers 6 of 8, half is learnt.
        assert_eq!(read::<f32>(y, 2), [2.0, 5.0]);
        assert_eq!(read::<f32>(state, 2), [2.0, 5.0]);
        let text = get!(aoti_torch_mps_gated_delta_rule, q, k, v, g, g, y).unwrap_err();
        assert!(text.starts_with("aoti_torch_mps_gated_delta_rule: gated_delta_rule:"), "{text}");
        assert!(text.contains("state must have sizes [1, 1, 1, 2]"), "{text}");
        assert!(guard.take_error().is_some());
    }
}
