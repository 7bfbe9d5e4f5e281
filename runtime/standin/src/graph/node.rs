//! The operators of a graph, and computing what they give.

use std::collections::HashMap;

use etmetal::graph::{GraphOp, Scan};
use etmetal::tensor::DType;

use super::value::{Binary, Value};

/// One operator; operands are other nodes by number.
#[derive(Clone)]
#[allow(missing_docs)]
pub enum Op {
    Input,
    Constant(f64),
    Binary(Binary, usize, usize),
    Negative(usize),
    Select(usize, usize, usize),
    Cast(usize),
    Reshape(usize),
    Transpose(usize, usize, usize),
    MatMul(usize, usize),
    Scan(usize, usize, Scan),
    Slice { from: usize, dim: usize, start: i64 },
    Coordinate(usize),
    Sort { from: usize, dim: usize, descending: bool },
    Gather { from: usize, indices: usize, dim: usize },
    Convolution { input: usize, weight: usize, op: GraphOp },
    Pad { from: usize, left: Vec<i64> },
}

/// An operator with the type and sizes of its result.
#[derive(Clone)]
pub struct Node {
    /// The operator.
    pub op: Op,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: Vec<i64>,
}

/// Nodes, and those that are known already.
pub struct Evaluation<'a> {
    /// All nodes.
    pub nodes: &'a [Node],
    /// Values by node.
    pub values: HashMap<usize, Value>,
}

impl Evaluation<'_> {
    /// The value of a node.
    pub fn value(&mut self, number: usize) -> Result<Value, String> {
        if let Some(value) = self.values.get(&number) {
            return Ok(value.clone());
        }
        let value = self.compute(&self.nodes[number].clone())?;
        self.values.insert(number, value.clone());
        Ok(value)
    }

    fn compute(&mut self, node: &Node) -> Result<Value, String> {
        let (dtype, sizes) = (node.dtype, &node.sizes);
        Ok(match node.op.clone() {
            Op::Input => return Err("a placeholder that is not fed".to_owned()),
            Op::Constant(number) => Value::constant(dtype, number),
            Op::Binary(op, a, b) => {
                let (a, b) = (self.value(a)?.broadcast(sizes), self.value(b)?.broadcast(sizes));
                Value::binary(op, &a, &b)
            }
            Op::Negative(a) => {
                let a = self.value(a)?;
                let minus = Value::constant(dtype, -1.0).broadcast(sizes);
                Value::binary(Binary::Multiply, &a, &minus)
            }
            Op::Select(condition, a, b) => {
                let mut each = |node| Ok::<_, String>(self.value(node)?.broadcast(sizes));
                Value::select(&each(condition)?, &each(a)?, &each(b)?)
            }
            Op::Cast(a) => self.value(a)?.cast(dtype),
            Op::Reshape(a) => self.value(a)?.reshaped(sizes),
            Op::Transpose(a, first, second) => self.value(a)?.picked(sizes, |index| {
                let mut from = index.to_vec();
                from.swap(first, second);
                Some(from)
            }),
            Op::MatMul(a, b) => {
                let (a, b, out) = (self.value(a)?, self.value(b)?, Value::new(dtype, sizes));
                let op = if sizes.len() == 2 { GraphOp::Mm } else { GraphOp::Bmm };
                Value::run(op, &[&out, &a, &b])?;
                out
            }
            Op::Scan(a, dim, scan) => {
                let (a, out) = (self.value(a)?, Value::new(dtype, sizes));
                Value::run(GraphOp::Cumulative { scan, dim }, &[&out, &a])?;
                out
            }
            Op::Slice { from, dim, start } => self.value(from)?.picked(sizes, |index| {
                let mut from = index.to_vec();
                from[dim] += start;
                Some(from)
            }),
            Op::Coordinate(dim) => {
                let numbers: Vec<i64> = (0..sizes[dim]).collect();
                let mut along = vec![1; sizes.len()];
                along[dim] = sizes[dim];
                Value::of_ints(dtype, &along, &numbers).broadcast(sizes)
            }
            Op::Sort { from, dim, descending } => self.value(from)?.sorted(dim, descending),
            Op::Gather { from, indices, dim } => {
                let indices = self.value(indices)?;
                self.value(from)?.gathered(dim, &indices)
            }
            Op::Convolution { input, weight, op } => {
                let (input, weight) = (self.value(input)?, self.value(weight)?);
                let out = Value::new(dtype, sizes);
                Value::run(op, &[&out, &input, &weight])?;
                out
            }
            Op::Pad { from, left } => {
                let from = self.value(from)?;
                from.picked(sizes, |index| {
                    let own: Vec<i64> = index.iter().zip(&left).map(|(i, l)| i - l).collect();
                    let inside = own.iter().zip(&from.sizes).all(|(i, n)| (0..*n).contains(i));
                    inside.then_some(own)
                })
            }
        })
    }
}
