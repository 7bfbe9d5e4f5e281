//! One row of the suite: a kernel on the host device against the operator of PyTorch.

use anyhow::{Result, ensure};
use etmetal::kernel::{Arguments, Kernel};
use etmetal::library::Library;
use etmetal::stream::Stream;
use etmetal::tensor::{DType, Layout, Tensor};

use super::shader::{self, MOST_THREADS, Reduction, Stored};
use crate::bench::Bench;
use crate::table::Row;

/// What every row is to reach.
const TARGET: f64 = 0.9;

/// Elements whose values are compared with PyTorch's.
const SAMPLES: usize = 64;

/// The type of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    F32,
    Bf16,
}

impl Element {
    /// Its name in MSL.
    pub fn msl(self) -> &'static str {
        match self {
            Element::F32 => "float",
            Element::Bf16 => "bfloat",
        }
    }

    /// Its name in the table and for the peer.
    pub fn name(self) -> &'static str {
        match self {
            Element::F32 => "f32",
            Element::Bf16 => "bf16",
        }
    }

    fn dtype(self) -> DType {
        match self {
            Element::F32 => DType::F32,
            Element::Bf16 => DType::Bf16,
        }
    }

    /// How far a result may lie from PyTorch's, relative to its size and absolutely.
    fn tolerance(self) -> (f64, f64) {
        match self {
            Element::F32 => (1e-4, 1e-5),
            Element::Bf16 => (2e-2, 2e-2),
        }
    }
}

/// A matrix, and the dimension that is reduced.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub rows: usize,
    pub columns: usize,
    /// 1: along each row; 0: along each column.
    pub dim: usize,
}

impl Shape {
    /// Elements that are reduced to one.
    pub fn reduced(self) -> usize {
        if self.dim == 1 { self.columns } else { self.rows }
    }

    /// Reductions there are.
    pub fn kept(self) -> usize {
        if self.dim == 1 { self.rows } else { self.columns }
    }

    /// The index of an element from `x0`, the reduction, and `r0_1`, the place in it.
    pub fn index(self) -> String {
        let columns = self.columns;
        if self.dim == 1 { format!("r0_1 + {columns}*x0") } else { format!("x0 + {columns}*r0_1") }
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub enum Case {
    Reduction {
        name: &'static str,
        reduction: Reduction,
        element: Element,
        shape: Shape,
    },
    Elementwise {
        name: &'static str,
        element: Element,
        /// Elements of each input; the first input has as many as the output.
        inputs: &'static [usize],
        body: &'static str,
    },
}

impl Case {
    /// Its name in the table.
    pub fn name(&self) -> String {
        match self {
            Case::Reduction { name, element, shape, .. } => {
                let Shape { rows, columns, dim } = shape;
                let along = if *dim == 1 { "rows" } else { "columns" };
                format!("{name} {along} {rows}x{columns} {}", element.name())
            }
            Case::Elementwise { name, element, inputs, .. } => {
                format!("{name} {}M {}", inputs[0] >> 20, element.name())
            }
        }
    }

    /// What the peer is asked to do.
    fn request(&self) -> String {
        match self {
            Case::Reduction { name, element, shape, .. } => {
                let Shape { rows, columns, dim } = shape;
                format!("host_{name} {} {rows} {columns} {dim}", element.name())
            }
            Case::Elementwise { name, element, inputs, .. } => {
                format!("host_{name} {} {}", element.name(), inputs[0])
            }
        }
    }

    /// Measures it on `threads` threads.
    ///
    /// # Errors
    /// The kernel does not compile or its results are not those of PyTorch.
    pub fn measure(&self, bench: &mut Bench, threads: usize) -> Result<Row> {
        let launch = Launch::new(bench, self)?;
        let request = self.request();
        launch.run()?;
        let compare = launch.samples();
        let (ours, (peer, name)) = bench.race_peer(threads, &request, || launch.run())?;
        let expected = bench.samples(threads, SAMPLES)?;
        check(&self.name(), self.element(), &compare, &expected)?;
        let what = format!("{}, {threads}t", self.name());
        Ok(Row::of_times(&what, ours, (peer, &name), TARGET))
    }

    fn element(&self) -> Element {
        match self {
            Case::Reduction { element, .. } | Case::Elementwise { element, .. } => *element,
        }
    }
}

fn check(name: &str, element: Element, ours: &[f64], expected: &[f64]) -> Result<()> {
    let (relative, absolute) = element.tolerance();
    ensure!(ours.len() == expected.len(), "{name}: {} samples", expected.len());
    for (i, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        let right = (ours - expected).abs() <= expected.abs() * relative + absolute
            || ours.is_nan() && expected.is_nan();
        ensure!(right, "{name}: sample {i} is {ours}, PyTorch has {expected}");
    }
    Ok(())
}

/// A case, ready to run.
struct Launch {
    stream: Stream,
    kernel: Kernel,
    arguments: Arguments,
    threads: Vec<u64>,
    group: Option<Vec<u64>>,
    out: Tensor,
}

impl Launch {
    fn new(bench: &Bench, case: &Case) -> Result<Launch> {
        let element = case.element();
        let (source, out, inputs, threads, group) = match case {
            Case::Reduction { reduction, shape, .. } => {
                let (kept, reduced) = (shape.kept(), shape.reduced());
                let group = reduced.min(MOST_THREADS) as u64;
                let argmax = matches!(reduction.stages, [(shader::Collective::Argmax, _)]);
                let out = match reduction.result {
                    Stored::Each(..) => (element.dtype(), kept * reduced),
                    Stored::Once(..) if argmax => (DType::I64, kept),
                    Stored::Once(..) => (element.dtype(), kept),
                };
                let mut inputs = vec![kept * reduced];
                inputs.extend(std::iter::repeat_n(reduced, reduction.weights));
                let source = shader::reduction(reduction, element, *shape)?;
                (source, out, inputs, vec![kept as u64, group], Some(vec![1, group]))
            }
            Case::Elementwise { inputs, body, .. } => {
                let source = shader::elementwise(element, inputs.len(), body)?;
                let out = (element.dtype(), inputs[0]);
                (source, out, inputs.to_vec(), vec![inputs[0] as u64], None)
            }
        };
        let library = Library::compile(&bench.device(), "bench", &source)?;
        let (dtype, count) = out;
        let out = Tensor::empty(&bench.device(), dtype, Layout::contiguous(&[count as i64])?)?;
        let mut arguments = Arguments::new();
        arguments.tensor(0, &out)?;
        for (i, &count) in inputs.iter().enumerate() {
            arguments.tensor(i + 1, &bench.numbered(element.dtype(), count)?)?;
        }
        let kernel = library.kernel("generated_kernel")?;
        Ok(Launch { stream: bench.stream()?, kernel, arguments, threads, group, out })
    }

    fn run(&self) -> Result<()> {
        let grid = match &self.group {
            Some(group) => self.kernel.grid(&self.threads, Some(group))?,
            None => self.kernel.grid_1d(self.threads[0], None)?,
        };
        self.stream.dispatch(&self.kernel, &self.arguments, grid)?;
        Ok(self.stream.commit_and_wait()?)
    }

    /// Values of the output, at even distances.
    fn samples(&self) -> Vec<f64> {
        let count = self.out.numel();
        let step = count.div_ceil(SAMPLES);
        let values = (0..count).step_by(step).map(|i| {
            let at = self.out.as_ptr();
            // SAFETY: an element of a contiguous tensor of that type that no work uses.
            unsafe {
                match self.out.dtype() {
                    DType::I64 => *at.cast::<i64>().add(i) as f64,
                    DType::Bf16 => {
                        f64::from(f32::from_bits(u32::from(*at.cast::<u16>().add(i)) << 16))
                    }
                    _ => f64::from(*at.cast::<f32>().add(i)),
                }
            }
        });
        values.collect()
    }
}
