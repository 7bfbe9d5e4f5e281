//! ExecuTorch's `metal::gather_qmv`, which the generated code declares itself.

use crate::ops::{self, GatherQmv};
use crate::shim::abi::{Out, c_functions};
use crate::shim::context::lend;
use crate::shim::registry::tensor;
use crate::stream::Stream;
use crate::tensor::RawHandle;

c_functions! {
    /// Rows times the quantised weights of an expert each: see [`ops::gather_qmv`].
    fn aoti_torch_mps_gather_qmv(
        x: RawHandle,
        w: RawHandle,
        s: RawHandle,
        z: RawHandle,
        expert_indices: RawHandle,
        group_size: i64,
        ret: Out<RawHandle>,
    ) {
        ret.check("ret")?;
        let (x, w, s, z) = (tensor(x)?, tensor(w)?, tensor(s)?, tensor(z)?);
        let experts = tensor(expert_indices)?;
        let gather = GatherQmv { x: &x, w: &w, s: &s, z: &z, experts: &experts, group_size };
        ret.set("ret", lend(ops::gather_qmv(&Stream::current()?, gather)?))
    }
}
