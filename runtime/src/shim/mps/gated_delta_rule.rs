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
