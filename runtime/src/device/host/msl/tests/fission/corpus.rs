//! All kernels of models that synchronise, and kernels of the shapes that PyTorch's generator for
//! Metal makes.

use super::*;

/// The kernels of models.
const MODELS: &str = include_str!("../../testdata/synchronising.metal");
/// Kernels in the generator's shapes.
const SHAPES: &str = include_str!("../../testdata/shapes.metal");

/// Kernels in the generator's shapes, over the first dimension.
const COLUMNS: &str = include_str!("../../testdata/columns.metal");

/// The names of the kernels in a text, each with the threads of its groups.
fn kernels(text: &str) -> Vec<(&str, u32)> {
    let threads = |head: &str| {
        let (_, rest) = head.rsplit_once("max_total_threads_per_threadgroup(")?;
        rest.split(')').next()?.parse().ok()
    };
    let mut found = Vec::new();
    let mut parts = text.split("kernel void ");
    let mut before = parts.next().unwrap();
    for part in parts {
        let name = part.split('(').next().unwrap();
        found.push((name, threads(before).unwrap()));
        before = part;
    }
    found
}

/// Compares kernels, in launches of so many groups.
fn compare(text: &str, groups: u32) -> Vec<Both> {
    let kernels = kernels(text);
    let names: Vec<_> = kernels.iter().map(|(name, _)| *name).collect();
    let all = both(&with_helpers(text), &names);
    for (kernel, (_, threads)) in all.iter().zip(kernels) {
        // What has a size of its own gets it as an argument.
        let scalar = if kernel.info.name.contains("dynamic") { 2900 } else { 0 };
        kernel.compare_all(&Launch { scalar, ..Launch::rows(groups, threads) });
    }
    all
}

#[test]
fn kernels_of_models() {
    for kernel in compare(MODELS, 37) {
        kernel.assert_shape(Shape::Rows);
    }
}

#[test]
fn kernels_of_every_shape() {
    for kernel in compare(SHAPES, 37) {
        kernel.assert_shape(Shape::Rows);
    }
}

#[test]
fn kernels_over_the_first_dimension() {
    // More than stand side by side, so that the work ends in the middle of a block.
    for kernel in compare(COLUMNS, 72) {
        kernel.assert_shape(Shape::Columns);
    }
}
