//! The next token of a small decoder, through the staged build and the official runtime: what a
//! run costs beside its arithmetic.

use anyhow::Result;
use etmetal::runner::Value;
use etmetal_tests::fixture::{Fixture, runtime};

use crate::bench::Bench;
use crate::table::Row;

pub fn measure(bench: &mut Bench) -> Result<Row> {
    let fixture = Fixture::read("tiny_llama");
    let runtime = runtime();
    let module = fixture.load(&runtime);
    fixture.check(&module);
    let inputs: Vec<Value> = fixture.inputs.iter().cloned().map(Value::Tensor).collect();
    let threads = bench.threads();
    let (ours, (peer, name)) = bench.race_peer(threads, "tiny_llama", || {
        module.execute("forward", &inputs)?;
        Ok(())
    })?;
    Ok(Row::of_times("tiny_llama, one token", ours, (peer, &name), 0.0))
}
