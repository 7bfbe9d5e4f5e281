//! Prints the milliseconds from opening `mlp` to its first result, in a fresh process.

use std::time::Instant;

use etmetal_tests::fixture::{Fixture, runtime};

fn main() {
    let fixture = Fixture::read("mlp");
    let runtime = runtime();
    let start = Instant::now();
    fixture.check(&fixture.load(&runtime));
    println!("{}", start.elapsed().as_secs_f64() * 1e3);
}
