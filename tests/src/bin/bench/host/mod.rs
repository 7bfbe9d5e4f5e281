//! `--suite host`: kernels in the shape of generated code against PyTorch's eager operators on
//! as many threads, and whole models.

mod exported;
mod models;
mod row;
mod shader;

use anyhow::Result;

use crate::bench::Bench;
use crate::rows::{Measurement, dispatch, measurement};
use crate::table::Row;
use row::{Case, Element, Shape};
use shader::{Collective, Reduction, Stored};

const SQUARE: usize = 2048;
const SHORT: [usize; 3] = [8, 64, 300];
const SHORT_ROWS: usize = 4096;
/// Elements of an elementwise operator.
const MANY: usize = 16 << 20;

/// Reductions, by their names at the peer.
const REDUCTIONS: [(&str, Reduction); 8] = [
    (
        "softmax",
        Reduction {
            stages: &[(Collective::Max, "x"), (Collective::Sum, "metal::precise::exp(x - r0)")],
            result: Stored::Each("auto tmp0 = v1 / r1;\n", "tmp0"),
            weights: 0,
        },
    ),
    (
        "layernorm",
        Reduction {
            stages: &[(Collective::Welford, "x")],
            result: Stored::Each(
                "auto tmp0 = x - r0.x;
auto tmp1 = SIZE;
auto tmp2 = r0.y / tmp1;
auto tmp3 = 1e-05;
auto tmp4 = tmp2 + tmp3;
auto tmp5 = metal::precise::rsqrt(tmp4);
auto tmp6 = tmp0 * tmp5;
auto tmp7 = tmp6 * w0;
auto tmp8 = tmp7 + w1;
",
                "tmp8",
            ),
            weights: 2,
        },
    ),
    (
        "rms_norm",
        Reduction {
            stages: &[(Collective::Sum, "x * x")],
            result: Stored::Each(
                "auto tmp0 = SIZE;
auto tmp1 = r0 / tmp0;
auto tmp2 = 1e-05;
auto tmp3 = tmp1 + tmp2;
auto tmp4 = metal::precise::rsqrt(tmp3);
auto tmp5 = x * tmp4;
auto tmp6 = tmp5 * w0;
",
                "tmp6",
            ),
            weights: 1,
        },
    ),
    ("sum", reduction(&[(Collective::Sum, "x")], "", "r0")),
    (
        "mean",
        reduction(&[(Collective::Sum, "x")], "auto tmp0 = SIZE;\nauto tmp1 = r0 / tmp0;\n", "tmp1"),
    ),
    ("max", reduction(&[(Collective::Max, "x")], "", "r0")),
    (
        "var",
        reduction(
            &[(Collective::Welford, "x")],
            "auto tmp0 = LESS_ONE;\nauto tmp1 = r0.y / tmp0;\n",
            "tmp1",
        ),
    ),
    ("argmax", reduction(&[(Collective::Argmax, "x")], "", "r0")),
];

const fn reduction(
    stages: &'static [(Collective, &'static str)],
    compute: &'static str,
    result: &'static str,
) -> Reduction {
    Reduction { stages, result: Stored::Once(compute, result), weights: 0 }
}

/// The body of a function of one number.
macro_rules! unary {
    ($expression:literal) => {
        concat!(
            "int x0 = xindex;\nauto tmp0 = in_ptr0[x0];\nauto tmp1 = ",
            $expression,
            ";\nout_ptr0[x0] = static_cast<float>(tmp1);\n"
        )
    };
}

/// Elementwise kernels: name at the peer, elements of the inputs, body.
const ELEMENTWISE: [(&str, &[usize], &str); 10] = [
    (
        "gelu",
        &[MANY],
        "int x0 = xindex;
auto tmp0 = in_ptr0[x0];
auto tmp1 = 0.5;
auto tmp2 = tmp0 * tmp1;
auto tmp3 = 0.7071067811865476;
auto tmp4 = tmp0 * tmp3;
auto tmp5 = c10::metal::erf(tmp4);
auto tmp6 = 1.0;
auto tmp7 = tmp5 + tmp6;
auto tmp8 = tmp2 * tmp7;
out_ptr0[x0] = static_cast<float>(tmp8);
",
    ),
    ("tanh", &[MANY], unary!("metal::precise::tanh(tmp0)")),
    (
        "silu",
        &[MANY],
        "int x0 = xindex;
auto tmp0 = in_ptr0[x0];
auto tmp1 = static_cast<decltype(tmp0)>(-tmp0);
auto tmp2 = metal::precise::exp(tmp1);
auto tmp3 = 1.0;
auto tmp4 = tmp2 + tmp3;
auto tmp5 = tmp0 / tmp4;
out_ptr0[x0] = static_cast<float>(tmp5);
",
    ),
    ("exp", &[MANY], unary!("metal::precise::exp(tmp0)")),
    ("log", &[MANY], unary!("metal::precise::log(tmp0)")),
    ("sin", &[MANY], unary!("metal::precise::sin(tmp0)")),
    (
        "add_relu",
        &[MANY, MANY],
        "int x0 = xindex;
auto tmp0 = in_ptr0[x0];
auto tmp1 = in_ptr1[x0];
auto tmp2 = tmp0 + tmp1;
auto tmp3 = 0;
auto tmp4 = c10::metal::max(static_cast<decltype(tmp2+tmp3)>(tmp2), static_cast<decltype(tmp2+tmp3)>(tmp3));
out_ptr0[x0] = static_cast<float>(tmp4);
",
    ),
    (
        "bias",
        &[MANY, 4096],
        "int x2 = xindex;
int x0 = (xindex) % (4096);
auto tmp0 = in_ptr0[x2];
auto tmp1 = in_ptr1[x0];
auto tmp2 = tmp0 + tmp1;
out_ptr0[x2] = static_cast<float>(tmp2);
",
    ),
    (
        "permute",
        &[MANY],
        "int x0 = (xindex) % (64);
int x1 = ((xindex) / (64)) % (16);
int x2 = c10::metal::floor_divide(xindex, 1024);
int x3 = xindex;
auto tmp0 = in_ptr0[x0 + 64*x2 + 1048576*x1];
out_ptr0[x3] = static_cast<float>(tmp0);
",
    ),
    (
        "transpose_add",
        &[MANY, MANY],
        "int x2 = xindex;
int x0 = (xindex) % (4096);
int x1 = c10::metal::floor_divide(xindex, 4096);
auto tmp0 = in_ptr0[x1 + 4096*x0];
auto tmp1 = in_ptr1[x2];
auto tmp2 = tmp0 + tmp1;
out_ptr0[x2] = static_cast<float>(tmp2);
",
    ),
];

/// All rows, in the order of the table; `most` is the number of threads.
pub fn all(most: usize) -> Vec<Measurement> {
    let mut all = Vec::new();
    for case in cases() {
        for threads in if most > 1 { vec![1, most] } else { vec![1] } {
            let name = format!("{}, {threads}t", case.name());
            all.push(measurement(&name, move |bench: &mut Bench| -> Result<Row> {
                case.measure(bench, threads)
            }));
        }
    }
    all.push(measurement("dispatch", |bench| dispatch::measure(bench, 300)));
    all.extend(models::all());
    all
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, reduction) in REDUCTIONS {
        for element in [Element::F32, Element::Bf16] {
            let square = |dim| Shape { rows: SQUARE, columns: SQUARE, dim };
            let short = SHORT.map(|columns| Shape { rows: SHORT_ROWS, columns, dim: 1 });
            for shape in [square(1), square(0)].into_iter().chain(short) {
                // Normalisations with weights are along rows.
                if shape.dim == 1 || reduction.weights == 0 {
                    cases.push(Case::Reduction { name, reduction, element, shape });
                }
            }
        }
    }
    for (name, inputs, body) in ELEMENTWISE {
        for element in [Element::F32, Element::Bf16] {
            cases.push(Case::Elementwise { name, element, inputs, body });
        }
    }
    cases
}
