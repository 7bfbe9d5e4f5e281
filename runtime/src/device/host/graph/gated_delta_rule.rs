//! The gated delta rule on the host.
//!
//! Each row of the state - one element of a head's value - goes its own way through time, so rows
//! are what threads share out. A block of rows stays in the cache for all time steps.

use std::sync::Arc;

use pulp::{Arch, Simd, WithSimd};

use super::floats::{Address, load_all};
use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::error::err;
use crate::graph::{GraphKey, StrideClass};
use crate::tensor::DType;

/// Rows of the state that are advanced together.
const BLOCK_ROWS: usize = 32;

/// Lowers [`GraphOp::GatedDeltaRule`](crate::graph::GraphOp::GatedDeltaRule).
///
/// # Errors
/// An operand is not contiguous, or not of a floating point dtype.
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    for operand in &key.operands {
        if operand.strides != StrideClass::Contiguous {
            return Err(err!(Internal, "{}: an operand is not contiguous", key.op));
        }
        if !matches!(operand.dtype, DType::F32 | DType::F16 | DType::Bf16) {
            return Err(err!(Unsupported, "{} is not defined for {}", key.op, operand.dtype));
        }
    }
    Ok(Lowered::new(key.clone(), GatedDeltaRule))
}

#[derive(Debug)]
struct GatedDeltaRule;

impl HostExecutable for GatedDeltaRule {
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let [y, q, k, v, g, beta, state] = operands else {
            unreachable!("checked against the key")
        };
        let size = |operand: &Operand, d: usize| operand.sizes[d] as usize;
        let rule = Rule {
            batch: size(q, 0),
            steps: size(q, 1),
            key_heads: size(q, 2),
            key: size(q, 3),
            heads: size(v, 2),
            value: size(v, 3),
            q: load_all(q),
            k: load_all(k),
            v: load_all(v),
            g: load_all(g),
            beta: load_all(beta),
            y: Address::of(y),
            state: Address::of(state),
        };
        let blocks = rule.value.div_ceil(BLOCK_ROWS);
        threads.run((rule.batch * rule.heads * blocks) as u64, 1, &|range| {
            for index in range.start as usize..range.end as usize {
                let first = index % blocks * BLOCK_ROWS;
                let rows = BLOCK_ROWS.min(rule.value - first);
                // Chooses the vector instructions of this processor.
                Arch::new().dispatch(Block { rule: &rule, head: index / blocks, first, rows });
            }
        })
    }
}

/// The operands.
struct Rule {
    batch: usize,
    /// Time steps.
    steps: usize,
    /// Heads of keys and queries.
    key_heads: usize,
    /// Elements of a key.
    key: usize,
    /// Heads of values.
    heads: usize,
    /// Elements of a value.
    value: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    g: Vec<f32>,
    beta: Vec<f32>,
    y: Address,
    state: Address,
}

/// Some rows of one head's state. Each is made for one thread.
struct Block<'a> {
    rule: &'a Rule,
    /// The head, of all heads of the batch.
    head: usize,
    /// The first row, and how many.
    first: usize,
    rows: usize,
}

impl WithSimd for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Block { rule, head, first, rows } = self;
        let (batch, head_in_batch) = (head / rule.heads, head % rule.heads);
        let key_head = head_in_batch / (rule.heads / rule.key_heads);
        let state_at = (head * rule.value + first) * rule.key;
        let mut state = vec![0f32; rows * rule.key];
        // SAFETY: these rows of the state are this block's alone; the command keeps the buffer.
        unsafe { rule.state.load(state_at, &mut state) };
        let mut out = [0f32; BLOCK_ROWS];
        for step in 0..rule.steps {
            let time = batch * rule.steps + step;
            let key_at = (time * rule.key_heads + key_head) * rule.key;
            let now = Step {
                q: &rule.q[key_at..][..rule.key],
                k: &rule.k[key_at..][..rule.key],
                g: rule.g[time * rule.heads + head_in_batch],
                beta: rule.beta[time * rule.heads + head_in_batch],
            };
            let value_at = (time * rule.heads + head_in_batch) * rule.value + first;
            let rows_of_state = state.chunks_exact_mut(rule.key);
            for ((state, v), out) in rows_of_state.zip(&rule.v[value_at..]).zip(&mut out) {
                *out = now.advance(simd, state, *v);
            }
            // SAFETY: this part of the result is this block's alone.
            unsafe { rule.y.store(value_at, &out[..rows]) };
        }
        // SAFETY: as for the load.
        unsafe { rule.state.store(state_at, &state) };
    }
}

/// What all rows of a head's state meet in one time step.
struct Step<'a> {
    q: &'a [f32],
    k: &'a [f32],
    g: f32,
    beta: f32,
}

impl Step<'_> {
    /// Advances one row of the state; gives its element of the result.
    #[inline(always)]
    fn advance<S: Simd>(&self, simd: S, state: &mut [f32], v: f32) -> f32 {
        let (k, k_rest) = S::as_simd_f32s(self.k);
        let (q, q_rest) = S::as_simd_f32s(self.q);
        let (state, state_rest) = S::as_mut_simd_f32s(state);

        // The state decays; what it remembers for the key.
        let decay = simd.splat_f32s(self.g);
        let mut memory = simd.splat_f32s(0.0);
        for (s, k) in state.iter_mut().zip(k) {
            *s = simd.mul_f32s(*s, decay);
            memory = simd.mul_add_f32s(*s, *k, memory);
        }
        let mut remembered = simd.reduce_sum_f32s(memory);
        for (s, k) in state_rest.iter_mut().zip(k_rest) {
            *s *= self.g;
            remembered += *s * k;
        }

        // It learns the difference; what it then says for the query.
        let delta = (v - remembered) * self.beta;
        let deltas = simd.splat_f32s(delta);
        let mut sum = simd.splat_f32s(0.0);
        for ((s, k), q) in state.iter_mut().zip(k).zip(q) {
            *s = simd.mul_add_f32s(*k, deltas, *s);
            sum = simd.mul_add_f32s(*s, *q, sum);
        }
        let mut out = simd.reduce_sum_f32s(sum);
        for ((s, k), q) in state_rest.iter_mut().zip(k_rest).zip(q_rest) {
            *s += k * delta;
            out += *s * q;
        }
        out
    }
}
