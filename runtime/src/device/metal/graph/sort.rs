//! `topk` and `sort`.
//!
//! MPSGraph does not say where it sorts NaN to, nor which of equal elements comes first. So it is
//! given keys that leave it no choice: integers in the order of the elements, each with its index
//! in the lower bits. No two are equal, and the index comes out of the sorted key. All of it is
//! arithmetic on the elements' bits, so that every dtype goes the same way.

use objc2_metal_performance_shaders::MPSDataType;

use super::binding::shape;
use super::builder::{Builder, Tensor};
use crate::Result;
use crate::error::err;
use crate::graph::GraphOp;
use crate::tensor::DType;

const INT: MPSDataType = MPSDataType::Int32;
const LONG: MPSDataType = MPSDataType::Int64;

/// 2 to the 32nd.
const BEYOND_INT: f64 = 4_294_967_296.0;
/// 2 to the 31st.
const SIGN: f64 = 2_147_483_648.0;

/// Builds the graph.
///
/// # Errors
/// A row has more elements than an index of 31 bits can number.
pub fn build(builder: &mut Builder<'_>) -> Result<()> {
    let (dim, descending) = match builder.key.op {
        GraphOp::TopK { dim, largest } => (dim, largest),
        GraphOp::Sort { dim, descending } => (dim, descending),
        _ => unreachable!("chosen by the op"),
    };
    let (dtype, sizes) = (builder.key.operands[2].dtype, builder.key.operands[2].sizes.clone());
    if sizes[dim] > i64::from(i32::MAX) {
        return Err(err!(Unsupported, "a row of {} elements is too long", sizes[dim]));
    }
    let as_bits = integer_of(dtype.size());
    let input = builder.input_as(2, as_bits);
    let rows = Rows { builder, dim: dim as isize, sizes: &sizes, descending };
    let order = match dtype {
        DType::I64 | DType::U64 => {
            // By the lower halves first, then, without disturbing their order, by the upper ones.
            let (upper, lower) = rows.halves(&input, dtype == DType::U64);
            let by_lower = rows.order(&lower);
            let order = rows.order(&rows.gather(&upper, &by_lower));
            rows.gather(&by_lower, &order)
        }
        _ => rows.order(&rows.key(&input, dtype)),
    };
    let wanted = builder.key.operands[0].sizes[dim];
    // SAFETY: a tensor of this graph; what does not fit throws, which is caught.
    let order = unsafe {
        builder.graph().sliceTensor_dimension_start_length_name(
            &order,
            dim,
            0,
            wanted as isize,
            None,
        )
    };
    let rows = Rows { builder, dim: dim as isize, sizes: &sizes, descending };
    let values = rows.gather(&input, &order);
    builder.output_as(0, values, as_bits);
    builder.output(1, order);
    Ok(())
}

/// The signed integer of so many bytes.
const fn integer_of(bytes: usize) -> MPSDataType {
    match bytes {
        1 => MPSDataType::Int8,
        2 => MPSDataType::Int16,
        4 => INT,
        _ => LONG,
    }
}

/// The rows that are sorted.
struct Rows<'a, 'b> {
    builder: &'a Builder<'b>,
    dim: isize,
    sizes: &'a [i64],
    descending: bool,
}

impl Rows<'_, '_> {
    fn int(&self, value: f64) -> Tensor {
        self.builder.constant(value, INT)
    }

    fn long(&self, value: f64) -> Tensor {
        self.builder.constant(value, LONG)
    }

    /// Integers of 32 bits in the order of elements of at most 32 bits.
    fn key(&self, bits: &Tensor, dtype: DType) -> Tensor {
        let b = self.builder;
        let bits = b.cast(bits, INT);
        match dtype {
            DType::F32 => self.float_key(&bits, 2_147_483_647.0, f64::from(0x7F80_0000)),
            DType::F16 => self.float_key(&bits, 32767.0, f64::from(0x7C00)),
            DType::Bf16 => self.float_key(&bits, 32767.0, f64::from(0x7F80)),
            DType::U8 => b.and(&bits, &self.int(255.0)),
            DType::U16 => b.and(&bits, &self.int(65535.0)),
            DType::U32 => b.xor(&bits, &self.int(-SIGN)),
            // Any byte but 0 is true.
            DType::Bool => {
                let zero = b.equal(&bits, &self.int(0.0));
                b.select(&zero, &self.int(0.0), &self.int(1.0))
            }
            DType::I8 | DType::I16 | DType::I32 => bits,
            DType::I64 | DType::U64 => unreachable!("has halves"),
        }
    }

    /// The keys of floating point numbers: the magnitude with the sign, so that both zeros are
    /// equal. What lies above infinity is NaN, and counts as the greatest.
    fn float_key(&self, bits: &Tensor, magnitude: f64, infinity: f64) -> Tensor {
        let b = self.builder;
        let size = b.and(bits, &self.int(magnitude));
        let negative = b.less(bits, &self.int(0.0));
        let number = b.select(&negative, &b.negative(&size), &size);
        let nan = b.greater(&size, &self.int(infinity));
        b.select(&nan, &self.int(SIGN - 1.0), &number)
    }

    /// Both halves of integers of 64 bits, each as a key of 32 bits in a wider type.
    fn halves(&self, input: &Tensor, unsigned: bool) -> (Tensor, Tensor) {
        let b = self.builder;
        let mask = self.long(BEYOND_INT - 1.0);
        let low = |value: &Tensor| b.and(value, &mask);
        let lower = b.add(&low(input), &self.long(-SIGN));
        // Masked, so that it does not matter what is shifted in.
        let mut upper = low(&b.shift_right(input, &self.long(32.0)));
        if !unsigned {
            upper = b.xor(&upper, &self.long(SIGN));
        }
        (b.add(&upper, &self.long(-SIGN)), lower)
    }

    /// The indices (64 bits) that put keys of 32 bits in order; of equal ones the lower index
    /// comes first.
    fn order(&self, key: &Tensor) -> Tensor {
        let b = self.builder;
        let mut key = b.cast(key, LONG);
        if self.descending {
            // Turns the order round within 32 bits.
            key = b.add(&b.negative(&key), &self.long(-1.0));
        }
        // SAFETY: makes a tensor of this graph.
        let index = unsafe {
            b.graph().coordinateAlongAxis_withShape_name(self.dim, &shape(self.sizes), None)
        };
        let unique = b.add(&b.multiply(&key, &self.long(BEYOND_INT)), &b.cast(&index, LONG));
        // SAFETY: a tensor of this graph; what does not fit throws, which is caught.
        let sorted = unsafe {
            b.graph().sortWithTensor_axis_descending_name(&unique, self.dim, false, None)
        };
        b.and(&sorted, &self.long(BEYOND_INT - 1.0))
    }

    /// Elements of each row by index.
    fn gather(&self, from: &Tensor, order: &Tensor) -> Tensor {
        let order = self.builder.cast(order, INT);
        // SAFETY: tensors of this graph; what does not fit throws, which is caught.
        unsafe {
            self.builder
                .graph()
                .gatherAlongAxis_withUpdatesTensor_indicesTensor_name(self.dim, from, &order, None)
        }
    }
}
