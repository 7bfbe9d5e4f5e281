//! Arrays, and the operators of graphs on them: the host device's where it has them.

use etmetal::device::{BufferRef, Device, Operand};
use etmetal::graph::{GraphKey, GraphOp, OperandKey, StrideClass};
use etmetal::tensor::{DType, Layout};
use objc2_metal_performance_shaders::MPSDataType;

use crate::metal::host;
use crate::violations::violation;

/// A row-major array.
#[derive(Clone)]
pub struct Value {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: Vec<i64>,
    buffer: BufferRef,
}

/// The element type behind a number.
pub fn dtype_of(data_type: MPSDataType) -> Option<DType> {
    Some(match data_type {
        MPSDataType::UInt8 => DType::U8,
        MPSDataType::Int8 => DType::I8,
        MPSDataType::Int16 => DType::I16,
        MPSDataType::Int32 => DType::I32,
        MPSDataType::Int64 => DType::I64,
        MPSDataType::Float16 => DType::F16,
        MPSDataType::Float32 => DType::F32,
        MPSDataType::Bool => DType::Bool,
        MPSDataType::BFloat16 => DType::Bf16,
        _ => return None,
    })
}

/// How many elements sizes make.
pub fn count(sizes: &[i64]) -> usize {
    sizes.iter().product::<i64>() as usize
}

/// An operator of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Multiply,
    And,
    Xor,
    ShiftRight,
    Less,
    Greater,
    Equal,
}

impl Value {
    /// A new array, contents undefined.
    pub fn new(dtype: DType, sizes: &[i64]) -> Value {
        let buffer = host().allocate(count(sizes) * dtype.size()).expect("memory");
        Value { dtype, sizes: sizes.to_vec(), buffer }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let len = count(&self.sizes) * self.dtype.size();
        unsafe { std::slice::from_raw_parts(self.buffer.contents(), len) }
    }

    /// Its bytes, to be written before it is shared.
    #[expect(clippy::mut_from_ref, reason = "only new arrays are written")]
    pub fn bytes_mut(&self) -> &mut [u8] {
        let len = count(&self.sizes) * self.dtype.size();
        unsafe { std::slice::from_raw_parts_mut(self.buffer.contents(), len) }
    }

    /// Its elements as integers.
    pub fn ints(&self) -> Vec<i64> {
        if self.dtype != DType::I64 {
            return self.cast(DType::I64).ints();
        }
        let words = self.bytes().chunks_exact(8);
        words.map(|word| i64::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    /// Its elements as floats.
    pub fn floats(&self) -> Vec<f32> {
        if self.dtype != DType::F32 {
            return self.cast(DType::F32).floats();
        }
        let words = self.bytes().chunks_exact(4);
        words.map(|word| f32::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    /// The array of integers, as another type wraps them.
    pub fn of_ints(dtype: DType, sizes: &[i64], elements: &[i64]) -> Value {
        let value = Value::new(DType::I64, sizes);
        for (to, element) in value.bytes_mut().chunks_exact_mut(8).zip(elements) {
            to.copy_from_slice(&element.to_ne_bytes());
        }
        value.cast(dtype)
    }

    /// The array of floats, rounded to another type.
    pub fn of_floats(dtype: DType, sizes: &[i64], elements: &[f32]) -> Value {
        let value = Value::new(DType::F32, sizes);
        for (to, element) in value.bytes_mut().chunks_exact_mut(4).zip(elements) {
            to.copy_from_slice(&element.to_ne_bytes());
        }
        value.cast(dtype)
    }

    /// One number everywhere.
    pub fn constant(dtype: DType, number: f64) -> Value {
        match dtype.is_float() {
            true => Value::of_floats(dtype, &[1], &[number as f32]),
            false => Value::of_ints(dtype, &[1], &[number as i64]),
        }
    }

    fn operand(&self) -> Operand {
        Operand {
            buffer: self.buffer.clone(),
            offset: 0,
            dtype: self.dtype,
            sizes: self.sizes.as_slice().into(),
            strides: Layout::contiguous(&self.sizes).expect("sizes").strides,
        }
    }

    /// Runs an operator of the host device.
    pub fn run(op: GraphOp, operands: &[&Value]) -> Result<(), String> {
        let key = |value: &&Value| OperandKey {
            dtype: value.dtype,
            sizes: value.sizes.as_slice().into(),
            strides: StrideClass::Contiguous,
        };
        let key = GraphKey { op, operands: operands.iter().map(key).collect() };
        let run = || {
            let executable = host().lower(&key)?;
            let operands: Vec<Operand> = operands.iter().map(|value| value.operand()).collect();
            let mut commands = host().command_buffer()?;
            commands.run(&executable, &operands)?;
            commands.commit()?.wait()
        };
        run().map_err(|error: etmetal::Error| error.to_string())
    }

    /// The elements converted.
    pub fn cast(&self, dtype: DType) -> Value {
        if dtype == self.dtype {
            return self.clone();
        }
        let out = Value::new(dtype, &self.sizes);
        Value::run(GraphOp::Copy, &[&out, self]).expect("every conversion exists");
        out
    }

    /// The same elements in other sizes.
    pub fn reshaped(&self, sizes: &[i64]) -> Value {
        Value { sizes: sizes.to_vec(), ..self.clone() }
    }

    /// Elements picked by where they stand in this array.
    pub fn picked(&self, sizes: &[i64], at: impl Fn(&[i64]) -> Option<Vec<i64>>) -> Value {
        let out = Value::new(self.dtype, sizes);
        let size = self.dtype.size();
        for (number, to) in out.bytes_mut().chunks_exact_mut(size).enumerate() {
            match at(&position(number, sizes)) {
                Some(index) => {
                    let from = size * number_of(&index, &self.sizes);
                    to.copy_from_slice(&self.bytes()[from..from + size]);
                }
                None => to.fill(0),
            }
        }
        out
    }

    /// The elements in larger sizes, repeated along dimensions of size 1.
    pub fn broadcast(&self, sizes: &[i64]) -> Value {
        if self.sizes == sizes {
            return self.clone();
        }
        let added = sizes.len() - self.sizes.len();
        self.picked(sizes, |index| {
            let own = index[added..].iter().zip(&self.sizes);
            Some(own.map(|(&i, &size)| if size == 1 { 0 } else { i }).collect())
        })
    }

    /// An operator of two arrays of the same sizes.
    pub fn binary(op: Binary, a: &Value, b: &Value) -> Value {
        let truth = matches!(op, Binary::Less | Binary::Greater | Binary::Equal);
        if a.dtype.is_float() {
            let pairs = || a.floats().into_iter().zip(b.floats());
            if truth {
                let compare = |(x, y): (f32, f32)| {
                    i64::from(match op {
                        Binary::Less => x < y,
                        Binary::Greater => x > y,
                        _ => x == y,
                    })
                };
                let elements: Vec<i64> = pairs().map(compare).collect();
                return Value::of_ints(DType::Bool, &a.sizes, &elements);
            }
            let compute = |(x, y): (f32, f32)| if op == Binary::Add { x + y } else { x * y };
            let elements: Vec<f32> = pairs().map(compute).collect();
            return Value::of_floats(a.dtype, &a.sizes, &elements);
        }
        let compute = |(x, y): (i64, i64)| match op {
            Binary::Add => x.wrapping_add(y),
            Binary::Multiply => x.wrapping_mul(y),
            Binary::And => x & y,
            Binary::Xor => x ^ y,
            Binary::ShiftRight => x >> y,
            Binary::Less => i64::from(x < y),
            Binary::Greater => i64::from(x > y),
            Binary::Equal => i64::from(x == y),
        };
        let elements: Vec<i64> = a.ints().into_iter().zip(b.ints()).map(compute).collect();
        Value::of_ints(if truth { DType::Bool } else { a.dtype }, &a.sizes, &elements)
    }

    /// `condition ? a : b`.
    pub fn select(condition: &Value, a: &Value, b: &Value) -> Value {
        let out = Value::new(a.dtype, &a.sizes);
        let size = a.dtype.size();
        let choices = condition.bytes().iter().zip(out.bytes_mut().chunks_exact_mut(size));
        for (i, (&chosen, to)) in choices.enumerate() {
            let from = if chosen != 0 { a } else { b };
            to.copy_from_slice(&from.bytes()[i * size..(i + 1) * size]);
        }
        out
    }

    /// The elements of each row along a dimension in order. Equal ones have none.
    pub fn sorted(&self, dim: usize, descending: bool) -> Value {
        let elements = self.ints();
        let mut sorted = elements.clone();
        let inner: usize = count(&self.sizes[dim + 1..]);
        let len = self.sizes[dim] as usize;
        for row in 0..elements.len() / len {
            let at = |i: usize| (row / inner * len + i) * inner + row % inner;
            let mut values: Vec<i64> = (0..len).map(|i| elements[at(i)]).collect();
            values.sort_unstable();
            if values.windows(2).any(|pair| pair[0] == pair[1]) {
                violation("mpsgraph", "a sort of equal elements, whose order is not defined");
            }
            if descending {
                values.reverse();
            }
            values.into_iter().enumerate().for_each(|(i, value)| sorted[at(i)] = value);
        }
        Value::of_ints(self.dtype, &self.sizes, &sorted)
    }

    /// Elements of each row along a dimension, by index; 0 for an index that is none.
    pub fn gathered(&self, dim: usize, indices: &Value) -> Value {
        let wanted = indices.ints();
        self.picked(&indices.sizes, |index| {
            let element = wanted[number_of(index, &indices.sizes)];
            let mut from = index.to_vec();
            from[dim] = element;
            (0..self.sizes[dim]).contains(&element).then_some(from)
        })
    }
}

fn position(mut number: usize, sizes: &[i64]) -> Vec<i64> {
    let mut position = vec![0; sizes.len()];
    for d in (0..sizes.len()).rev() {
        position[d] = (number % sizes[d] as usize) as i64;
        number /= sizes[d] as usize;
    }
    position
}

fn number_of(position: &[i64], sizes: &[i64]) -> usize {
    position.iter().zip(sizes).fold(0, |number, (&i, &size)| number * size as usize + i as usize)
}
