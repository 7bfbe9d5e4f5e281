//! Convolutions on the host.
//!
//! The result is one or more [lattices](lattice) of pixels that use the same taps of the kernel:
//! one for a convolution, several for a transposed one, which so is nothing but convolutions with
//! parts of its kernel. Lattices are cut into tiles that the threads share out. A tile's float32
//! sums start with the bias, products are added [by matrix](product), from a
//! [window](window) of the input or [directly](direct), and the sums are rounded into the result
//! once.

mod axis;
mod direct;
mod lattice;
mod product;
mod tile;
mod window;
mod work;

use std::marker::PhantomData;
use std::sync::Arc;

use ::half::{bf16, f16};

use self::axis::Dimension;
use self::lattice::{DIMENSIONS, Lattice, Strides};
use self::tile::{Sums, Tile};
use self::work::{Method, Work};
use super::matmul::Real;
use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::error::err;
use crate::graph::{GraphKey, GraphOp};
use crate::tensor::DType;

/// Lowers [`GraphOp::Convolution`].
///
/// # Errors
/// The dtype is no float.
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    let geometry = Geometry::new(key)?;
    match key.operands[0].dtype {
        DType::F32 => Ok(Lowered::new(key.clone(), Convolution::<f32>::new(geometry))),
        DType::F16 => Ok(Lowered::new(key.clone(), Convolution::<f16>::new(geometry))),
        DType::Bf16 => Ok(Lowered::new(key.clone(), Convolution::<bf16>::new(geometry))),
        dtype => Err(err!(Unsupported, "{} is not defined for {dtype}", key.op)),
    }
}

/// What is known without the operands' memory.
#[derive(Debug)]
struct Geometry {
    lattices: Vec<Lattice>,
    transposed: bool,
    groups: usize,
    /// Channels of the input, of the result.
    in_channels: usize,
    out_channels: usize,
}

impl Geometry {
    fn new(key: &GraphKey) -> Result<Geometry> {
        let (
            GraphOp::Convolution { stride, padding, dilation, transposed, groups },
            [out, input, weight, ..],
        ) = (&key.op, key.operands.as_slice())
        else {
            return Err(err!(Internal, "no convolution: {key:?}"));
        };
        let mut dimensions = [Dimension::untouched(1); DIMENSIONS];
        dimensions[0] = Dimension::untouched(out.sizes[0] as usize);
        let spatial = out.sizes.len() - 2;
        for d in 0..spatial {
            dimensions[DIMENSIONS - spatial + d] = Dimension {
                input: input.sizes[d + 2] as usize,
                out: out.sizes[d + 2] as usize,
                kernel: weight.sizes[d + 2] as usize,
                stride: stride[d] as usize,
                padding: padding[d] as usize,
                dilation: dilation[d] as usize,
            };
        }
        Ok(Geometry {
            lattices: Lattice::all(&dimensions, *transposed),
            transposed: *transposed,
            groups: *groups as usize,
            in_channels: input.sizes[1] as usize,
            out_channels: out.sizes[1] as usize,
        })
    }
}

/// The operands in memory. Strides and steps are in elements.
#[derive(Debug)]
struct Views<T> {
    out: *mut T,
    out_strides: Strides,
    out_channel: isize,
    input: *const T,
    in_strides: Strides,
    in_channel: isize,
    weight: *const T,
    weight_taps: [isize; DIMENSIONS - 1],
    /// From a group's weights to the next group's.
    weight_group: isize,
    /// From one channel of a group to the next, of the input and of the result.
    weight_in: isize,
    weight_out: isize,
    /// Start and step of the bias.
    bias: Option<(*const T, isize)>,
    /// Channels of a group.
    in_channels: usize,
    out_channels: usize,
}

// SAFETY: addresses; the command keeps the buffers behind them, and tiles write no common element.
unsafe impl<T> Sync for Views<T> {}

impl<T: Real> Views<T> {
    fn new(geometry: &Geometry, operands: &[Operand]) -> Views<T> {
        let [out, input, weight, bias @ ..] = operands else {
            unreachable!("checked against the key")
        };
        let (in_channels, out_channels) =
            (geometry.in_channels / geometry.groups, geometry.out_channels / geometry.groups);
        let [first, second] = [0, 1].map(|d| weight.strides[d] as isize);
        let (weight_group, weight_in, weight_out) = if geometry.transposed {
            (first.wrapping_mul(in_channels as isize), first, second)
        } else {
            (first.wrapping_mul(out_channels as isize), second, first)
        };
        let [_, weight_taps @ ..] = strides(weight);
        Views {
            out: start(out),
            out_strides: strides(out),
            out_channel: out.strides[1] as isize,
            input: start(input),
            in_strides: strides(input),
            in_channel: input.strides[1] as isize,
            weight: start(weight),
            weight_taps,
            weight_group,
            weight_in,
            weight_out,
            bias: bias
                .first()
                .map(|bias| (start::<T>(bias).cast_const(), bias.strides[0] as isize)),
            in_channels,
            out_channels,
        }
    }

    /// The first input channel of a group.
    fn input_of(&self, group: usize) -> *const T {
        let channel = (group * self.in_channels) as isize;
        self.input.wrapping_offset(channel.wrapping_mul(self.in_channel))
    }

    /// What the sums of a channel of the result start with.
    ///
    /// # Safety
    /// The bias lies inside a live buffer; the channel is one of the result.
    unsafe fn bias_of(&self, channel: usize) -> f32 {
        match self.bias {
            // SAFETY: there is a bias for every channel.
            Some((start, step)) => unsafe { start.offset(channel as isize * step).read() }.to_f32(),
            None => 0.0,
        }
    }

    /// The first weight of a channel of the result.
    fn weight_of(&self, channel: usize) -> *const T {
        let (group, within) = (channel / self.out_channels, channel % self.out_channels);
        let group = (group as isize).wrapping_mul(self.weight_group);
        let within = (within as isize).wrapping_mul(self.weight_out);
        self.weight.wrapping_offset(group).wrapping_offset(within)
    }
}

fn start<T>(operand: &Operand) -> *mut T {
    operand.buffer.contents().wrapping_add(operand.offset).cast()
}

/// Strides of the batch and of three spatial dimensions; 0 for those that are not there.
fn strides(operand: &Operand) -> Strides {
    let mut strides = [0; DIMENSIONS];
    strides[0] = operand.strides[0] as isize;
    for (to, &from) in strides.iter_mut().rev().zip(operand.strides[2..].iter().rev()) {
        *to = from as isize;
    }
    strides
}

#[derive(Debug)]
struct Convolution<T> {
    geometry: Geometry,
    element: PhantomData<fn() -> T>,
}

impl<T> Convolution<T> {
    fn new(geometry: Geometry) -> Self {
        Convolution { geometry, element: PhantomData }
    }
}

impl<T: Real> HostExecutable for Convolution<T> {
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let views = Views::<T>::new(&self.geometry, operands);
        let work = Work::new(&self.geometry, &views, threads);
        let weights = (work.method == Method::Window).then(|| {
            // SAFETY: operands were checked before the run, and the geometry is made from their
            // sizes.
            unsafe { window::Weights::gather(&self.geometry, &views) }
        });
        threads.run(work.tiles() as u64, work.chunk as u64, &|range| {
            let mut scratch = Scratch::default();
            for index in range {
                let (lattice, pixels, channels) = work.tile(index as usize);
                let weights = weights.as_ref().map_or(&[][..], |weights| weights.of(lattice));
                let lattice = &self.geometry.lattices[lattice];
                let runs = lattice.runs(pixels.clone());
                let tile = Tile { lattice, runs, pixels: pixels.len(), channels };
                // SAFETY: operands were checked before the run, the geometry is made from their
                // sizes, and tiles share no element of the result.
                unsafe { scratch.compute(&tile, &views, work.method, weights) };
            }
        })
    }
}

/// Memory that tiles use one after the other.
#[derive(Debug, Default)]
struct Scratch {
    sums: Vec<f32>,
    line: Vec<f32>,
    product: product::Scratch,
    window: window::Scratch,
}

impl Scratch {
    /// Computes a tile; `weights` are those that [`Method::Window`] wants.
    ///
    /// # Safety
    /// The views lie inside live buffers, and nobody else uses the tile's part of the result.
    unsafe fn compute<T: Real>(
        &mut self,
        tile: &Tile<'_>,
        views: &Views<T>,
        method: Method,
        weights: &[f32],
    ) {
        let by_pixel = match method {
            // SAFETY: the caller's promise.
            Method::Window => unsafe {
                return window::compute(&mut self.window, tile, views, weights);
            },
            Method::Product => None,
            Method::ByChannel => Some(false),
            Method::ByPixel => Some(true),
        };
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = Sums::start(std::mem::take(&mut self.sums), tile, views, by_pixel);
            match method {
                Method::Product => product::add(&mut self.product, &mut sums, tile, views),
                Method::ByChannel => direct::add(&mut self.line, &mut sums, tile, views),
                Method::ByPixel => direct::add_depthwise(&mut self.line, &mut sums, tile, views),
                Method::Window => unreachable!("has no sums"),
            }
            sums.store(tile, views);
            self.sums = sums.values;
        }
    }
}
