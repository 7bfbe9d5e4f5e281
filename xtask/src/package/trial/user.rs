//! Runs a model of tests/fixtures and compares its outputs.

use std::path::PathBuf;

use etmetal::runner::compare::{Tolerance, compare};
use etmetal::runner::{LoadMode, Runtime, Value, npy};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("which model?")?);
    let module = Runtime::open()?.load(&folder.join("model.pte"), &[], LoadMode::Mmap)?;
    let input = npy::read(&folder.join("input0.npy"))?;
    let wanted = npy::read(&folder.join("output0.npy"))?;
    let outputs = module.execute("forward", &[input.into()])?;
    let Value::Tensor(output) = &outputs[0] else { return Err("no tensor came out".into()) };
    if !compare(output, &wanted, Tolerance::of(output.dtype()))?.passes() {
        return Err("the outputs are wrong".into());
    }
    println!("the outputs are right");
    Ok(())
}
