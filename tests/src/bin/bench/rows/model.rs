//! A whole model, through the staged build and the official runtime: what a run costs beside its
//! arithmetic.

use anyhow::Result;
use etmetal::runner::Value;
use etmetal_tests::fixture::{Fixture, runtime};

use crate::bench::Bench;
use crate::table::Row;

/// The fixture `name` against the peer's case of that name.
pub fn measure(bench: &mut Bench, name: &str, target: f64) -> Result<Row> {
    let fixture = Fixture::read(name);
    let runtime = runtime();
    let module = fixture.load(&runtime);
    fixture.check(&module);
    let inputs: Vec<Value> = fixture.inputs.iter().cloned().map(Value::Tensor).collect();
    let threads = bench.threads();
    let (ours, (peer, by)) = bench.race_peer(threads, name, || {
        module.execute("forward", &inputs)?;
        Ok(())
    })?;
    Ok(Row::of_times(&format!("{name}, whole model"), ours, (peer, &by), target))
}
