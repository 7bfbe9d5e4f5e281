//! A model with state: keys and values of one token are written into a cache each time it runs,
//! in place, and its attention reads what earlier runs have left there.

use etmetal::runner::{HostTensor, LoadMode, Module, Value};
use etmetal_tests::fixture::{Fixture, runtime};

/// The model's cache: heads, tokens, elements of a head.
const HEADS: usize = 4;
const TOKENS: usize = 32;
const SIZE: usize = 16;

/// The same in plain loops and float64.
struct Reference {
    keys: Vec<[[f64; SIZE]; HEADS]>,
    values: Vec<[[f64; SIZE]; HEADS]>,
}

type Heads = [[f64; SIZE]; HEADS];

impl Reference {
    fn new() -> Self {
        let empty = vec![[[0.0; SIZE]; HEADS]; TOKENS];
        Reference { keys: empty.clone(), values: empty }
    }

    /// Puts a token's key and value at `position`, and attends to all up to there.
    fn step(&mut self, query: &Heads, key: Heads, value: Heads, position: usize) -> Vec<f64> {
        self.keys[position] = key;
        self.values[position] = value;
        let mut out = Vec::new();
        for head in 0..HEADS {
            let weights: Vec<f64> = self.keys[..=position]
                .iter()
                .map(|key| {
                    let product: f64 = query[head].iter().zip(&key[head]).map(|(q, k)| q * k).sum();
                    (product / (SIZE as f64).sqrt()).exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            for e in 0..SIZE {
                let sum: f64 = weights.iter().zip(&self.values).map(|(w, v)| w * v[head][e]).sum();
                out.push(sum / total);
            }
        }
        out
    }
}

/// Numbers between -1 and 1 that differ from step to step.
fn numbers(step: usize, seed: usize) -> Heads {
    let number =
        |i: usize| (((step * 37 + seed * 101 + i * 17) * 7919) % 2003) as f64 / 1001.5 - 1.0;
    std::array::from_fn(|head| std::array::from_fn(|e| f64::from(number(head * SIZE + e) as f32)))
}

fn tensor(heads: &Heads) -> Value {
    let elements = heads.iter().flatten().map(|&x| x as f32);
    Value::Tensor(HostTensor::from_elements(vec![1, HEADS, 1, SIZE], elements).unwrap())
}

fn step(module: &Module, inputs: [&Heads; 3], position: usize) -> Vec<f32> {
    let [query, key, value] = inputs.map(tensor);
    let position = HostTensor::from_elements(vec![1], [position as i64]).unwrap();
    let inputs = [query, key, value, Value::Tensor(position)];
    let outputs = module.execute("forward", &inputs).unwrap_or_else(|e| panic!("{e}"));
    let Value::Tensor(out) = &outputs[0] else { panic!("the output is no tensor") };
    out.elements().unwrap()
}

#[test]
fn a_cache_is_kept_from_run_to_run_and_belongs_to_one_model() {
    let fixture = Fixture::read("kv_cache");
    let runtime = runtime();
    let load = || runtime.load(&fixture.model, &[], LoadMode::default()).unwrap();
    let (module, other) = (load(), load());
    let (mut reference, mut other_reference) = (Reference::new(), Reference::new());
    // Twice around: the second time old tokens are overwritten.
    for i in 0..2 * TOKENS {
        let position = i % TOKENS;
        let [query, key, value] = [1, 2, 3].map(|seed| numbers(i, seed));
        let got = step(&module, [&query, &key, &value], position);
        check(i, &got, &reference.step(&query, key, value, position));
        // Another model's cache of other numbers must not show, nor be written to.
        let [query, key, value] = [4, 5, 6].map(|seed| numbers(i, seed));
        let got = step(&other, [&query, &key, &value], position);
        check(i, &got, &other_reference.step(&query, key, value, position));
    }
}

#[track_caller]
fn check(step: usize, got: &[f32], exact: &[f64]) {
    assert_eq!(got.len(), exact.len());
    for (i, (&got, &exact)) in got.iter().zip(exact).enumerate() {
        let far = (f64::from(got) - exact).abs() > 1e-5;
        assert!(!far, "step {step}, element {i}: {got}, not {exact}");
    }
}
