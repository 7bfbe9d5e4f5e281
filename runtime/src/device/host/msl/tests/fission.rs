//! Kernels as loops against the same kernels on fibers.

mod corpus;
mod data;
mod fibers;
mod planes;
mod refused;
mod simd;

use std::sync::Arc;

use super::super::harness::{Dispatch, fibers_toolchain, toolchain};
use super::*;
use data::{Data, Filling};

/// A shader of an exported model: the headers before its kernel are what all kernels here use.
const EXPORTED: &str = include_str!("../testdata/layernorm.metal");

/// `kernels` behind PyTorch's headers.
pub(super) fn with_helpers(kernels: &str) -> String {
    let (helpers, _) = EXPORTED.split_once("[[max_total_threads_per_threadgroup").unwrap();
    format!("{helpers}\n{kernels}")
}

/// One kernel in both forms.
struct Both {
    info: KernelInfo,
    loops: Native,
    fibers: Native,
}

/// Compiles kernels of one source in both forms, on two threads.
fn both(source: &str, names: &[&str]) -> Vec<Both> {
    let parse = |toolchain: &Arc<Toolchain>| {
        Module::parse(source, toolchain).unwrap_or_else(|e| panic!("{e}"))
    };
    let (loops, fibers) = (parse(toolchain()), parse(fibers_toolchain()));
    let jobs: Vec<_> = [&loops, &fibers]
        .iter()
        .flat_map(|module| names.iter().map(move |name| (*module, *name)))
        .collect();
    let mut compiled: Vec<_> =
        compile_all(&jobs, 2).into_iter().map(|r| r.unwrap_or_else(|e| panic!("{e}"))).collect();
    let on_fibers = compiled.split_off(names.len());
    let find = |name: &str| loops.kernels().iter().find(|k| k.name == name).unwrap().clone();
    assert!(on_fibers.iter().all(|native| !native.loops()));
    let pairs = compiled.into_iter().zip(on_fibers);
    let info = names.iter().map(|name| find(name));
    info.zip(pairs).map(|(info, (loops, fibers))| Both { info, loops, fibers }).collect()
}

/// What to run a kernel with.
struct Launch {
    grid: [u32; 3],
    group: [u32; 3],
    /// Elements of each buffer.
    elements: usize,
    /// Value of each reference.
    scalar: i64,
}

impl Launch {
    /// `rows` threadgroups of `threads` threads.
    fn rows(rows: u32, threads: u32) -> Launch {
        let (grid, group) = ([rows, threads, 1], [1, threads, 1]);
        Launch { grid, group, elements: 1 << 18, scalar: 0 }
    }
}

impl Both {
    /// Runs both forms on the same data and compares what they store.
    fn compare(&self, launch: &Launch, filling: Filling) {
        let run = |native: &Native| {
            let mut buffers: Vec<Data> = Vec::new();
            for (seed, parameter) in self.info.parameters.iter().enumerate() {
                if let ParameterKind::Buffer { ty, by_reference, access, .. } = &parameter.kind {
                    buffers.push(if *by_reference {
                        Data::scalar(ty, launch.scalar)
                    } else if *access == Access::ReadWrite && !parameter.name.starts_with("in_") {
                        Data::zeros(ty, launch.elements)
                    } else {
                        Data::filled(ty, launch.elements, seed as u32, filling)
                    });
                }
            }
            let mut dispatch = Dispatch::new(launch.grid, launch.group);
            for buffer in &mut buffers {
                dispatch = dispatch.arg(&mut buffer.bytes);
            }
            dispatch.run(native);
            buffers
        };
        let (loops, fibers) = (run(&self.loops), run(&self.fibers));
        // Means and products with an infinity are not finite, but which depends on the order.
        let orders = ["norm", "var", "reductions", "several"];
        let any_order = orders.iter().any(|name| self.info.name.contains(name));
        let written =
            self.info.parameters.iter().filter(|p| matches!(p.kind, ParameterKind::Buffer { .. }));
        // Sums of numbers of both signs are as exact as the numbers on the way, not as the result.
        let scale = if self.info.name.contains("sum") { 4.0 } else { 1.0 };
        let mut stored = false;
        for ((a, b), parameter) in loops.iter().zip(&fibers).zip(written) {
            let place = format!("{} {filling:?}, {}", self.info.name, parameter.name);
            a.assert_close(b, any_order, scale, &place);
            stored |= parameter.writable_buffer().is_some() && !b.is_zero();
        }
        assert!(stored || filling != Filling::Random, "{} stores nothing", self.info.name);
    }

    fn compare_all(&self, launch: &Launch) {
        for filling in [Filling::Random, Filling::Ties, Filling::Special, Filling::Tiny] {
            self.compare(launch, filling);
        }
    }

    fn assert_shape(&self, shape: Shape) {
        assert_eq!(self.info.fission, Outcome::Split(shape), "{}", self.info.name);
        assert!(self.loops.loops(), "the loops of {} do not compile", self.info.name);
    }
}
