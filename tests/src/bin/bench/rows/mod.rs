//! The rows of the table, one file each.

pub mod add;
pub mod attention;
pub mod convolution;
pub mod dispatch;
pub mod layernorm;
pub mod linear_4bit;
pub mod load;
pub mod mm;
pub mod model;
pub mod reductions;
pub mod softmax;

use anyhow::Result;
use etmetal::tensor::Tensor;

use crate::bench::Bench;
use crate::table::Row;

/// What measures one or more rows.
pub struct Measurement {
    /// What `--filter` looks at.
    pub name: String,
    pub measure: Box<Measure>,
}

type Measure = dyn Fn(&mut Bench) -> Result<Vec<Row>>;

pub fn measurement(
    name: &str,
    measure: impl Fn(&mut Bench) -> Result<Row> + 'static,
) -> Measurement {
    Measurement { name: name.to_owned(), measure: Box::new(move |bench| Ok(vec![measure(bench)?])) }
}

/// All of them, in the order of the table; `most` is the number of threads.
pub fn all(most: usize) -> Vec<Measurement> {
    let mut all = Vec::new();
    for threads in if most > 1 { vec![1, most] } else { vec![1] } {
        all.push(measurement("add", move |bench| add::measure(bench, threads)));
        all.push(measurement("mm", move |bench| mm::measure(bench, threads)));
    }
    all.extend([
        measurement("conv2d", |bench| convolution::measure(bench, convolution::Kind::Full)),
        measurement("conv2d depthwise", |bench| {
            convolution::measure(bench, convolution::Kind::Depthwise)
        }),
        measurement("attention prefill", |bench| attention::measure(bench, attention::PREFILL)),
        measurement("attention decode", |bench| attention::measure(bench, attention::DECODE)),
        measurement("softmax", softmax::measure),
        measurement("layernorm", layernorm::measure),
        measurement("linear 4 bits", linear_4bit::measure),
        measurement("tiny_llama", |bench| model::measure(bench, "tiny_llama", 0.0)),
        measurement("dispatch", |bench| dispatch::measure(bench, 1000)),
        Measurement { name: "load".into(), measure: Box::new(|_| load::measure()) },
    ]);
    all
}

/// The float32 numbers of a contiguous tensor that no work writes to.
fn floats(tensor: &Tensor) -> &[f32] {
    // SAFETY: contiguous and of that dtype, as all tensors here; no work uses it.
    unsafe { std::slice::from_raw_parts(tensor.as_ptr().cast(), tensor.numel()) }
}
