//! How accurate the elementary functions are that have a table in `float_math.h`: against double
//! precision, over floats of all sizes and signs.

use std::sync::Arc;

use super::super::harness::toolchain;
use super::super::toolchain::Search;
use super::math::ulps;
use super::*;

/// Every so many floats are looked at.
const STEP: usize = 4093;

type Reference = fn(f64) -> f64;

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
}

/// Name in MSL, bound in units of the last place (that of the table), and the function.
const FUNCTIONS: [(&str, f64, Reference); 7] = [
    ("metal::precise::exp", 1.5, f64::exp),
    ("metal::precise::log", 1.5, f64::ln),
    ("metal::precise::tanh", 5.0, f64::tanh),
    ("c10::metal::erf", 5.0, |x| erf(x)),
    ("metal::precise::rsqrt", 2.0, |x| 1.0 / x.sqrt()),
    ("metal::precise::sin", 2.5, f64::sin),
    ("metal::precise::cos", 2.5, f64::cos),
];

/// The greatest error of each function, with the float that has it.
fn errors(toolchain: &Arc<Toolchain>, functions: &[(&str, f64, Reference)]) -> Vec<(f64, f32)> {
    let mut inputs: Vec<f32> =
        (0..=u32::MAX).step_by(STEP).map(f32::from_bits).chain([0.0, -0.0]).collect();
    let count = inputs.len();
    let stores: String = functions
        .iter()
        .enumerate()
        .map(|(i, (name, ..))| format!("o[i + {}] = {name}(a[i]);\n", i * count))
        .collect();
    let source = format!(
        "#include <metal_stdlib>\nnamespace c10 {{ namespace metal {{ float erf(float); }} }}\n\
         kernel void f(device float* o, constant float* a, uint i [[thread_position_in_grid]]) \
         {{\n{stores}}}"
    );
    let native = Module::parse(&source, toolchain).unwrap().compile("f").unwrap();
    let mut outputs = vec![0.0f32; count * functions.len()];
    let threads = u32::try_from(count).unwrap();
    Dispatch::new([threads, 1, 1], [256, 1, 1]).arg(&mut outputs).arg(&mut inputs).run(&native);
    let rows = functions.iter().zip(outputs.chunks(count));
    rows.map(|((name, _, reference), row)| {
        let mut worst = (0.0, 0.0);
        for (&x, &got) in inputs.iter().zip(row) {
            let want = reference(f64::from(x));
            let error = ulps(got, want);
            if error > worst.0 {
                worst = (error, x);
            }
            let zero = x == 0.0 && want == 0.0;
            assert!(!zero || got.to_bits() == x.to_bits(), "{name}({x:?}) is {got:?}");
        }
        worst
    })
    .collect()
}

#[test]
fn fast_functions_keep_to_the_table() {
    let errors = errors(toolchain(), &FUNCTIONS);
    let table = include_str!("../include/float_math.h");
    for ((name, bound, _), (error, x)) in FUNCTIONS.iter().zip(errors) {
        println!("{name}: {error:.2} ulp at {x:e}");
        assert!(error <= *bound, "{name} errs by {error} ulp at {x:e}");
        let word = name.rsplit("::").next().unwrap();
        let told = table.lines().any(|line| {
            let words: Vec<&str> = line.trim_start_matches('/').split([' ', ',']).collect();
            words.contains(&word) && words.contains(&bound.to_string().as_str())
        });
        assert!(told, "the table of float_math.h has {name} with another bound");
    }
}

#[test]
fn precise_functions_err_by_one_unit_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let search = Search {
        path: std::env::var_os("PATH"),
        math: Some("precise".into()),
        ..Search::default()
    };
    let precise = Toolchain::find_with(&search, dir.path(), Flavor::Loops).unwrap();
    let mut functions = FUNCTIONS.to_vec();
    // That of PyTorch is the shader's own.
    functions.retain(|(name, ..)| !name.ends_with("erf"));
    for ((name, ..), (error, x)) in functions.iter().zip(errors(&precise, &functions)) {
        assert!(error <= 1.0, "{name} errs by {error} ulp at {x:e}");
    }
}

#[test]
fn nonsense_in_the_variable_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let search = Search { math: Some("exact".into()), ..Search::default() };
    let error = Toolchain::find_with(&search, dir.path(), Flavor::Loops).unwrap_err().to_string();
    assert!(error.contains("ETMETAL_MATH=\"exact\"") && error.contains("precise"), "{error}");
}
