//! Encode, commit and wait of a kernel over 16 elements, against a bound in nanoseconds.

use anyhow::Result;
use etmetal::library::Library;

use super::add;
use crate::bench::Bench;
use crate::table::Row;

pub fn measure(bench: &mut Bench, bound: u32) -> Result<Row> {
    let stream = bench.stream()?;
    let library = Library::compile(&bench.device(), "bench", add::KERNEL)?;
    let kernel = library.kernel("generated_kernel")?;
    let tensors = [bench.filled(&[16])?, bench.filled(&[16])?, bench.filled(&[16])?];
    let time = bench.time(1, || {
        stream.start_encoding(&kernel);
        for (i, tensor) in tensors.iter().enumerate() {
            stream.encode_arguments(&kernel, |arguments| arguments.tensor(i, tensor))?;
        }
        stream.dispatch_encoded(&kernel, kernel.grid_1d(16, None)?)?;
        Ok(stream.commit_and_wait()?)
    })?;
    let nanoseconds = time.as_nanos() as f64;
    Ok(Row {
        what: "tiny dispatch, encode to done".into(),
        ours: format!("{nanoseconds:.0} ns"),
        peer: format!("bound {bound} ns"),
        ratio: f64::from(bound) / nanoseconds,
        target: 1.0,
    })
}
