//! Data for kernels of any type, and its comparison.

use half::{bf16, f16};

/// What is in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filling {
    /// Numbers from -1 to 1.
    Random,
    /// Few different numbers.
    Ties,
    /// The same with infinities, NaN, and zeros of both signs in some places.
    Special,
    /// Numbers around the least normal one.
    Tiny,
}

/// One buffer.
#[derive(Clone)]
pub(super) struct Data {
    ty: String,
    pub(super) bytes: Vec<u8>,
}

/// Numbers that look random.
struct Noise(u32);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1664525).wrapping_add(1013904223);
        self.0 >> 8
    }

    fn float(&mut self, filling: Filling) -> f32 {
        let value = self.next() as f32 / 8388608.0 - 1.0;
        match filling {
            Filling::Random => value,
            Filling::Ties => (value * 4.0).round() / 4.0,
            Filling::Tiny => value * 4.0 * f32::MIN_POSITIVE,
            Filling::Special => match self.next() % 700 {
                0 => f32::NAN,
                13 => -f32::NAN,
                1 => f32::INFINITY,
                2..=3 => f32::NEG_INFINITY,
                4..=8 => -0.0,
                9..=12 => 0.0,
                _ => value,
            },
        }
    }
}

impl Data {
    pub(super) fn zeros(ty: &str, elements: usize) -> Data {
        Data { ty: ty.to_owned(), bytes: vec![0; elements * size(ty)] }
    }

    pub(super) fn scalar(ty: &str, value: i64) -> Data {
        let bytes = value.to_le_bytes()[..size(ty)].to_vec();
        Data { ty: ty.to_owned(), bytes }
    }

    pub(super) fn filled(ty: &str, elements: usize, seed: u32, filling: Filling) -> Data {
        let mut noise = Noise(seed * 977 + 5);
        let mut bytes = Vec::with_capacity(elements * size(ty));
        for _ in 0..elements {
            match ty {
                "float" => bytes.extend(noise.float(filling).to_le_bytes()),
                "half" => bytes.extend(f16::from_f32(noise.float(filling)).to_le_bytes()),
                "bfloat" => bytes.extend(bf16::from_f32(noise.float(filling)).to_le_bytes()),
                // Some beyond the 128 rows of the tables that kernels index.
                _ => bytes.extend(&u64::from(noise.next() % 130).to_le_bytes()[..size(ty)]),
            }
        }
        Data { ty: ty.to_owned(), bytes }
    }

    fn numbers(&self) -> Vec<f64> {
        let wide = |chunk: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(bytes)
        };
        let number = |chunk: &[u8]| match &*self.ty {
            "float" => f64::from(f32::from_bits(wide(chunk) as u32)),
            "half" => f16::from_bits(wide(chunk) as u16).to_f64(),
            "bfloat" => bf16::from_bits(wide(chunk) as u16).to_f64(),
            "long" => wide(chunk) as i64 as f64,
            "int" => f64::from(wide(chunk) as i32),
            _ => wide(chunk) as f64,
        };
        self.bytes.chunks(size(&self.ty)).map(number).collect()
    }

    /// Compares with `expected`, to the precision of the type for numbers of the size `scale` or more. With `any_order`, all that is not finite is the same.
    pub(super) fn assert_close(&self, expected: &Data, any_order: bool, scale: f64, place: &str) {
        let tolerance = match &*self.ty {
            "float" => 1e-5,
            "half" => 2e-3,
            "bfloat" => 1e-2,
            _ => 0.0,
        };
        for (at, (a, b)) in self.numbers().into_iter().zip(expected.numbers()).enumerate() {
            let same = a == b
                || a.is_nan() && b.is_nan()
                || any_order && !a.is_finite() && !b.is_finite()
                || (a - b).abs() <= tolerance * b.abs().max(scale);
            assert!(same, "{place}[{at}]: {a} on loops, {b} on fibers");
        }
    }

    /// Whether anything is there.
    pub(super) fn is_zero(&self) -> bool {
        self.bytes.iter().all(|b| *b == 0)
    }
}

fn size(ty: &str) -> usize {
    match ty {
        "bool" | "char" | "uchar" => 1,
        "half" | "bfloat" | "short" | "ushort" => 2,
        "float" | "int" | "uint" => 4,
        "long" | "ulong" => 8,
        _ => panic!("no data of type {ty}"),
    }
}
