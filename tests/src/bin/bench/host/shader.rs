//! Kernels in the shape that AOTInductor (torch 2.13.0) gives them.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use etmetal_tests::stage::fixture;

use super::row::{Element, Shape};

/// Threads of a threadgroup, at most: longer rows are gone through in steps.
pub const MOST_THREADS: usize = 1024;

/// An exported shader with the helpers of reductions.
const REDUCTION: &str =
    include_str!("../../../../../runtime/src/device/host/msl/testdata/layernorm.metal");

/// A fixture whose shader has the helpers of elementwise functions.
const ELEMENTWISE: &str = "elementwise";

/// How a reduction goes through the elements of a row: values of each element `x` (`v0`, `v1`, …),
/// each reduced to a result (`r0`, `r1`, …) that those behind it may use.
#[derive(Debug, Clone, Copy)]
pub struct Reduction {
    /// The reductions, and the expression of the value that each reduces.
    pub stages: &'static [(Collective, &'static str)],
    /// What is stored for each element, or once for the row.
    pub result: Stored,
    /// Vectors of a row's size behind the input, as `w0[r]`, `w1[r]`.
    pub weights: usize,
}

/// What becomes of a reduction: statements, and the value that is stored. `SIZE` is the number of
/// elements in a row, `LESS_ONE` one less.
#[derive(Debug, Clone, Copy)]
pub enum Stored {
    /// A value for each element.
    Each(&'static str, &'static str),
    /// A value for each row.
    Once(&'static str, &'static str),
}

/// A reduction over the threads of a threadgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    Sum,
    Max,
    /// The index of the greatest.
    Argmax,
    /// Mean and sum of squared differences: `.x` and `.y`.
    Welford,
}

/// The shader of an elementwise kernel. `body` says how `x0` and the like follow from `xindex`.
///
/// # Errors
/// The fixture has no such shader.
pub fn elementwise(element: Element, inputs: usize, body: &str) -> Result<String> {
    let program = std::fs::read(fixture(ELEMENTWISE).join("model.pte"))?;
    let at = |needle: &[u8]| program.windows(needle.len()).position(|window| window == needle);
    let kernel = at(b"kernel void generated_kernel").context("the fixture has no kernel")?;
    let start = program[..kernel].iter().rposition(|&byte| byte == 0).map_or(0, |at| at + 1);
    let helpers = std::str::from_utf8(&program[start..kernel])?;
    let ty = element.msl();
    let inputs: String = (0..inputs).map(|i| format!("constant {ty}* in_ptr{i}, ")).collect();
    let body = match element {
        Element::F32 => body.to_owned(),
        Element::Bf16 => widened(body),
    };
    Ok(format!(
        "{helpers}kernel void generated_kernel(device {ty}* out_ptr0, {inputs}uint xindex \
         [[thread_position_in_grid]]) {{\n{body}}}\n"
    ))
}

/// The body with its loads in float and its stores in bfloat.
fn widened(body: &str) -> String {
    let lines = body.lines().map(|line| match line.split_once(" = in_ptr") {
        Some((name, rest)) => {
            format!("{name} = static_cast<float>(in_ptr{});\n", rest.trim_end_matches(';'))
        }
        None => format!("{}\n", line.replace("static_cast<float>", "static_cast<bfloat>")),
    });
    lines.collect()
}

/// The shader of a reduction.
///
/// # Errors
/// The exported shader has no kernel.
pub fn reduction(reduction: &Reduction, element: Element, shape: Shape) -> Result<String> {
    let (helpers, _) = REDUCTION
        .split_once("[[max_total_threads_per_threadgroup")
        .context("the exported shader has no kernel")?;
    let size = shape.reduced();
    let threads = size.min(MOST_THREADS);
    let ty = element.msl();
    let out = match reduction.stages {
        [(Collective::Argmax, _)] => "long",
        _ => ty,
    };
    let weights: String =
        (0..reduction.weights).map(|i| format!("constant {ty}* in_ptr{}, ", i + 1)).collect();
    let mut text = String::from(helpers);
    write!(
        text,
        "[[max_total_threads_per_threadgroup({threads})]]\n\
         kernel void generated_kernel(device {out}* out_ptr0, constant {ty}* in_ptr0, {weights}\
         uint2 thread_pos [[thread_position_in_grid]], \
         uint2 group_pos [[thread_position_in_threadgroup]]) {{\n\
         auto xindex = thread_pos.x;\nauto r0_index = thread_pos.y;\nint x0 = xindex;\n"
    )?;
    let body = Body { reduction, element, shape, threads, out };
    text += &if size > MOST_THREADS { body.in_steps() } else { body.at_once() };
    text += "}\n";
    Ok(text)
}

/// The body of a reduction.
struct Body<'a> {
    reduction: &'a Reduction,
    element: Element,
    shape: Shape,
    threads: usize,
    out: &'a str,
}

impl Body<'_> {
    /// One element a thread.
    fn at_once(&self) -> String {
        let mut text = "int r0_1 = r0_index;\n".to_owned();
        for (i, (collective, _)) in self.reduction.stages.iter().enumerate() {
            text += &self.shared(*collective, i);
        }
        text += &self.load();
        for (i, (collective, value)) in self.reduction.stages.iter().enumerate() {
            text += &format!("auto v{i} = {value};\n");
            text += &self.collect(*collective, i, false);
        }
        text + &self.stored(&|store| store)
    }

    /// Several elements a thread, each stage in a loop of its own.
    fn in_steps(&self) -> String {
        let stages = self.reduction.stages.iter().enumerate();
        let mut text = String::new();
        for (i, (collective, _)) in stages.clone() {
            text += &self.shared(*collective, i);
            text += &match collective {
                Collective::Sum => format!("float acc{i} = 0;\n"),
                Collective::Max => {
                    let ty = self.element.msl();
                    format!("{ty} acc{i} = ::c10::metal::MaxOp<{ty}>::identity();\n")
                }
                Collective::Argmax => {
                    let ty = self.element.msl();
                    format!(
                        "{ty} acc{i} = ::c10::metal::MaxOp<{ty}>::identity();\nlong at{i} = 0;\n"
                    )
                }
                Collective::Welford => format!("shared{i}[r0_index * 1] = 0.0;\n"),
            };
        }
        for (i, (collective, value)) in stages {
            let accumulate = format!("auto v{i} = {value};\n{}", self.accumulate(*collective, i));
            text += &self.steps(&accumulate);
            text += &self.collect(*collective, i, true);
        }
        let values: String = self
            .reduction
            .stages
            .iter()
            .enumerate()
            .map(|(i, (_, value))| format!("auto v{i} = {value};\n"))
            .collect();
        text + &self.stored(&|store| self.steps(&format!("{values}{store}")))
    }

    fn steps(&self, body: &str) -> String {
        let size = self.shape.reduced();
        let steps = size.div_ceil(MOST_THREADS);
        let guard = match size % MOST_THREADS {
            0 => String::new(),
            _ => format!("if (r0__linear_idx >= {size}) break;\n"),
        };
        format!(
            "for(auto r0__cnt = 0; r0__cnt < {steps}; ++r0__cnt) {{\n\
             int r0__linear_idx = {steps} * r0_index + r0__cnt;\n{guard}\
             int r0_1 = r0__linear_idx;\n{}{body}}}\n",
            self.load()
        )
    }

    fn load(&self) -> String {
        format!("auto x = {};\n", self.widened("in_ptr0", &self.shape.index()))
    }

    fn load_weights(&self) -> String {
        let load = |i| {
            let value = self.widened(&format!("in_ptr{}", i + 1), "r0_1");
            format!("auto w{i} = {value};\n")
        };
        (0..self.reduction.weights).map(load).collect()
    }

    fn widened(&self, pointer: &str, index: &str) -> String {
        match self.element {
            Element::F32 => format!("{pointer}[{index}]"),
            Element::Bf16 => format!("static_cast<float>({pointer}[{index}])"),
        }
    }

    /// The threadgroup memory of a stage.
    fn shared(&self, collective: Collective, i: usize) -> String {
        let simdgroups = self.threads.div_ceil(32);
        let ty = self.element.msl();
        match collective {
            Collective::Sum => format!("threadgroup float shared{i}[{simdgroups}];\n"),
            Collective::Max => format!("threadgroup {ty} shared{i}[{simdgroups}];\n"),
            Collective::Argmax => format!(
                "threadgroup {ty} shared{i}[{simdgroups}];\nthreadgroup long index{i}[{simdgroups}];\n"
            ),
            Collective::Welford if self.shape.reduced() > MOST_THREADS => {
                format!("threadgroup float3 shared{i}[{}];\n", self.threads)
            }
            Collective::Welford => format!("threadgroup float shared{i}[{}];\n", self.threads),
        }
    }

    /// What each step does with its value.
    fn accumulate(&self, collective: Collective, i: usize) -> String {
        let ty = self.element.msl();
        match collective {
            Collective::Sum => format!("acc{i} += v{i};\n"),
            Collective::Max => {
                format!("acc{i} = ::c10::metal::max(acc{i}, static_cast<{ty}>(v{i}));\n")
            }
            Collective::Argmax => format!(
                "if (::c10::metal::MaxOp<{ty}>::replace(static_cast<{ty}>(v{i}), acc{i})) {{\n\
                 acc{i} = static_cast<{ty}>(v{i});\nat{i} = r0_1;\n}}\n"
            ),
            Collective::Welford => format!(
                "shared{i}[r0_index * 1] = ::c10::metal::welford_combine(shared{i}[r0_index * 1], \
                 float3(v{i}, 0.0, 1.0));\n"
            ),
        }
    }

    /// The reduction over the threadgroup.
    fn collect(&self, collective: Collective, i: usize, in_steps: bool) -> String {
        let (ty, threads) = (self.element.msl(), self.threads);
        let value = match collective {
            _ if in_steps => format!("acc{i}"),
            Collective::Max | Collective::Argmax => format!("static_cast<{ty}>(v{i})"),
            _ => format!("v{i}"),
        };
        let call = match collective {
            Collective::Sum => format!("sum(shared{i}, {value}, r0_index * 1, {threads})"),
            Collective::Max => format!("max(shared{i}, {value}, r0_index * 1, {threads})"),
            Collective::Argmax => {
                let at = if in_steps {
                    format!("at{i}")
                } else {
                    "static_cast<long>(r0_index * 1)".to_owned()
                };
                format!("argmax(shared{i}, index{i}, {value}, {at}, r0_index * 1, {threads})")
            }
            Collective::Welford if in_steps => format!("welford_combine(shared{i}, {threads})"),
            Collective::Welford => {
                return format!(
                    "shared{i}[r0_index * 1] = v{i};\n\
                     auto r{i} = c10::metal::threadgroup_welford_reduce(shared{i}, {threads});\n"
                );
            }
        };
        format!("auto r{i} = c10::metal::threadgroup_{call};\n")
    }

    /// The store; `each` wraps one that is done for each element.
    fn stored(&self, each: &dyn Fn(String) -> String) -> String {
        let out = self.out;
        let text = match self.reduction.result {
            Stored::Each(compute, value) => {
                let (index, weights) = (self.shape.index(), self.load_weights());
                let store = format!("out_ptr0[{index}] = static_cast<{out}>({value});\n");
                each(format!("{weights}{compute}{store}"))
            }
            Stored::Once(compute, value) => {
                // What is computed from a result is a kernel of its own for AOTInductor, fused.
                let guard = if compute.is_empty() { "if (r0_index == 0) " } else { "" };
                format!("{compute}{guard}out_ptr0[x0] = static_cast<{out}>({value});\n")
            }
        };
        let size = self.shape.reduced();
        text.replace("SIZE", &format!("{size}.0")).replace("LESS_ONE", &format!("{}.0", size - 1))
    }
}
