//! Whole shaders: compiled by clang, run, and compared with plain Rust.

use super::harness::{Dispatch, kernel, module};
use super::*;

mod accuracy;
mod atomics;
mod cached;
mod errors;
mod fission;
mod grid;
mod kernels;
mod math;
mod matrix;
mod models;
mod simd;
mod split;
mod target;
mod types;

/// A shader that starts as most do.
fn with_header(body: &str) -> String {
    format!("#include <metal_stdlib>\nusing namespace metal;\n{body}")
}
