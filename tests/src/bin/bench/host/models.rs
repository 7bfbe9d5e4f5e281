//! Whole models: a run against PyTorch, and loads.

use super::exported;
use crate::rows::{Measurement, load, measurement, model};

/// A model with ten kernels.
const TEN_KERNELS: &str = "tiny_llama";

/// Loads in milliseconds, at most: with an empty kernel cache, and with a full one.
const COLD: f64 = 3000.0;
const WARM: f64 = 20.0;

/// All rows.
pub fn all() -> Vec<Measurement> {
    vec![
        measurement("tiny_llama", |bench| model::measure(bench, "tiny_llama", 1.0)),
        measurement("cnn", |bench| model::measure(bench, "cnn", 1.0)),
        measurement("perceptron", |bench| exported::measure(bench, "perceptron", &[1, 1024], 1.0)),
        measurement("transformer", |bench| {
            exported::measure(bench, "transformer", &[1, 128, 256], 1.0)
        }),
        Measurement {
            name: "load".into(),
            measure: Box::new(|_| {
                let times = load::times(TEN_KERNELS)?;
                let row = |what, time, bound| {
                    load::row(&format!("{TEN_KERNELS}, {what}"), time, (bound, "bound"), 1.0)
                };
                Ok(vec![row("cold load", times.cold, COLD), row("warm load", times.warm, WARM)])
            }),
        },
    ]
}
