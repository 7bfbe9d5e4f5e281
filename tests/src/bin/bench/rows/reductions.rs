//! Kernels over rows, as AOTInductor makes them for reductions.

use anyhow::{Context, Result};
use etmetal::kernel::{Arguments, Kernel};
use etmetal::library::Library;
use etmetal::stream::Stream;
use etmetal::tensor::Tensor;

use crate::bench::Bench;

/// A shader of an exported model: the helpers that AOTInductor puts before its kernels, and one.
const EXPORTED: &str =
    include_str!("../../../../../runtime/src/device/host/msl/testdata/layernorm.metal");

/// Threads of a threadgroup, at most: longer rows are gone through in steps.
const MOST_THREADS: u64 = 1024;

/// One threadgroup a row.
pub struct Rows {
    stream: Stream,
    kernel: Kernel,
    arguments: Arguments,
    threads: [u64; 2],
    group: [u64; 2],
}

impl Rows {
    /// The kernel `code`, after the helpers, on `rows` rows of `size` elements.
    pub fn new(
        bench: &Bench,
        code: &str,
        [rows, size]: [i64; 2],
        tensors: &[&Tensor],
    ) -> Result<Rows> {
        let (helpers, _) = EXPORTED
            .split_once("[[max_total_threads_per_threadgroup")
            .context("the exported shader has no kernel")?;
        let library = Library::compile(&bench.device(), "bench", &format!("{helpers}\n{code}"))?;
        let mut arguments = Arguments::new();
        for (i, tensor) in tensors.iter().enumerate() {
            arguments.tensor(i, tensor)?;
        }
        let threads = MOST_THREADS.min(size as u64);
        Ok(Rows {
            stream: bench.stream()?,
            kernel: library.kernel("generated_kernel")?,
            arguments,
            threads: [rows as u64, threads],
            group: [1, threads],
        })
    }

    /// Runs it once.
    pub fn run(&self) -> Result<()> {
        let grid = self.kernel.grid(&self.threads, Some(&self.group))?;
        self.stream.dispatch(&self.kernel, &self.arguments, grid)?;
        Ok(self.stream.commit_and_wait()?)
    }
}
