//! Operators that have MSL kernels of ours, and a native version for the host.
//!
//! On Metal such an operator runs its kernels. The host could run the same kernels, but code
//! written for a CPU is many times faster, so by default it runs that. With `ETMETAL_OPS=msl` the
//! host runs the kernels all the same: that is how they are tested on machines without a GPU.
//!
//! # How to add one, called `name`
//!
//! 1. The kernels: `runtime/msl/name.metal`, one instance for each dtype, named
//!    `kernel_dtype` with Metal's name of the dtype (see [`DType::msl_name`]):
//!    `template [[host_name("kernel_half")]] kernel void kernel<half>(…);`
//! 2. The source: a `static NAME: Source = source!("name");` below, and its entry in [`SOURCES`].
//!    A test sees to it that no file is forgotten and that every kernel compiles.
//! 3. The native version: a [`GraphOp`](crate::graph::GraphOp) with the operator's scalars,
//!    lowered in `device/host/graph/name.rs` and entered in `lower` in `device/host/graph/mod.rs`.
//! 4. The operator, `ops/name.rs`: it checks its operands, makes the results, and then
//!
//!    ```ignore
//!    pub fn name(stream: &Stream, input: &Tensor, factor: f32) -> Result<Tensor> {
//!        name_by(Route::of(stream)?, stream, input, factor)
//!    }
//!
//!    fn name_by(route: Route, stream: &Stream, input: &Tensor, factor: f32) -> Result<Tensor> {
//!        // … checks, result …
//!        match route {
//!            Route::Native => {
//!                let op = GraphOp::Name { factor: factor.to_bits() };
//!                graph::encode(stream, op, &[&out, input])?;
//!            }
//!            Route::Msl => {
//!                let kernel = own_kernels::kernel(stream, &NAME, "kernel", input.dtype())?;
//!                let mut arguments = Arguments::new();
//!                arguments.tensor(0, &out)?;
//!                arguments.tensor(1, input)?;
//!                arguments.f32(2, factor)?;
//!                let grid = kernel.grid_1d(out.numel() as u64, None)?;
//!                stream.dispatch(&kernel, &arguments, grid)?;
//!            }
//!        }
//!        Ok(out)
//!    }
//!    ```
//!
//!    Several numbers travel best as one `#[repr(C)]` struct that derives `bytemuck::NoUninit`:
//!    `arguments.bytes(2, bytemuck::bytes_of(&sizes))`. Its tests call `name_by` with both routes.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::device::{Device, DeviceKind, PerDevice};
use crate::error::err;
use crate::kernel::Kernel;
use crate::library::Library;
use crate::stream::Stream;
use crate::tensor::DType;
use crate::{Error, Result};

/// Environment variable that chooses the [`Route`] on the host: `native` or `msl`.
pub const OPS_VARIABLE: &str = "ETMETAL_OPS";

/// An MSL source of this library.
#[derive(Debug)]
pub struct Source {
    name: &'static str,
    text: &'static str,
}

/// The [`Source`] of `runtime/msl/NAME.metal`, which becomes part of the library.
macro_rules! source {
    ($name:literal) => {
        Source { name: $name, text: include_str!(concat!("../../msl/", $name, ".metal")) }
    };
}

/// Scaled dot product attention.
pub static ATTENTION: Source = source!("attention");

/// The kernels of `gated_delta_rule`.
pub static GATED_DELTA_RULE: Source = source!("gated_delta_rule");
/// The kernels of products with quantised weights.
pub static QUANTIZED: Source = source!("quantized");

/// All sources.
pub static SOURCES: &[&Source] = &[&ATTENTION, &GATED_DELTA_RULE, &QUANTIZED];

/// What carries out an operator that has kernels of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Code for the CPU, as an op graph. Only the host has it.
    Native,
    /// The MSL kernels.
    Msl,
}

impl Route {
    /// The route on the stream's device: MSL on Metal; on the host what `ETMETAL_OPS` says, by
    /// default native. The variable is read once.
    ///
    /// # Errors
    /// `ETMETAL_OPS` is neither `native` nor `msl`.
    pub fn of(stream: &Stream) -> Result<Route> {
        match stream.device().kind() {
            DeviceKind::Metal => Ok(Route::Msl),
            DeviceKind::Host => Route::of_environment(),
        }
    }

    /// The route on the host: what `ETMETAL_OPS` says, by default native. The variable is read
    /// once.
    ///
    /// # Errors
    /// `ETMETAL_OPS` is neither `native` nor `msl`.
    pub fn of_environment() -> Result<Route> {
        static HOST: OnceLock<Result<Route>> = OnceLock::new();
        HOST.get_or_init(|| match std::env::var_os(OPS_VARIABLE) {
            None => Ok(Route::Native),
            Some(text) => parse_route(&text.to_string_lossy()),
        })
        .clone()
    }
}

fn parse_route(text: &str) -> Result<Route, Error> {
    match text.trim() {
        "" | "native" => Ok(Route::Native),
        "msl" => Ok(Route::Msl),
        _ => Err(err!(
            InvalidArgument,
            "{OPS_VARIABLE}={text:?}: use \"native\" for code of the CPU, or \"msl\" for the \
             kernels of the GPU"
        )),
    }
}

/// The kernel `base` of a source for elements of `dtype`, on the stream's device. It is compiled
/// when it is first asked for, and kept as long as the device.
///
/// # Errors
/// There is no such kernel, or it does not compile.
pub fn kernel(
    stream: &Stream,
    source: &'static Source,
    base: &str,
    dtype: DType,
) -> Result<Kernel> {
    kernel_named(stream, source, &format!("{base}_{}", dtype.msl_name()))
}

/// [`kernel`] by its full name, for those that differ in more than one dtype.
///
/// # Errors
/// As for [`kernel`].
pub fn kernel_named(stream: &Stream, source: &'static Source, name: &str) -> Result<Kernel> {
    library(stream.device(), source)?.kernel(name)
}

/// The compiled library of a source on a device.
fn library(device: &Arc<dyn Device>, source: &'static Source) -> Result<Library> {
    /// The libraries of a device by the source's name.
    type Libraries = Mutex<HashMap<&'static str, Library>>;
    static LIBRARIES: PerDevice<Libraries> = PerDevice::new();
    let libraries = LIBRARIES.of(device, || Ok(Libraries::default()))?;
    if let Some(library) = libraries.lock().get(source.name) {
        return Ok(library.clone());
    }
    // Compiled without the lock: other operators must not wait for it. Of two threads that both
    // did it one result is kept.
    let library = Library::compile(device, source.name, source.text)?;
    Ok(libraries.lock().entry(source.name).or_insert(library).clone())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{contiguous, stream, values};
    use super::*;
    use crate::device::host::parallel::parallel_map;
    use crate::device::host::{HostDevice, Options};
    use crate::kernel::Arguments;

    static DOUBLE: Source = Source {
        name: "double",
        text: "#include <metal_stdlib>
            using namespace metal;
            template <typename T>
            kernel void double_it(device T* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
                x[i] += x[i];
            }
            template [[host_name(\"double_it_float\")]]
            kernel void double_it<float>(device float*, uint);
            template [[host_name(\"double_it_int\")]] kernel void double_it<int>(device int*, uint);",
    };

    #[test]
    fn kernels_are_found_by_dtype_and_kept_with_the_device() {
        let stream = stream();
        for dtype in [DType::F32, DType::I32] {
            let x = contiguous(dtype, &[3], &[1.0, 2.0, 3.0]);
            let kernel = kernel(&stream, &DOUBLE, "double_it", dtype).unwrap();
            let mut arguments = Arguments::new();
            arguments.tensor(0, &x).unwrap();
            stream.dispatch(&kernel, &arguments, kernel.grid_1d(3, None).unwrap()).unwrap();
            stream.commit_and_wait().unwrap();
            assert_eq!(values(&x), [2.0, 4.0, 6.0]);
            assert!(super::kernel(&stream, &DOUBLE, "double_it", dtype).unwrap().is(&kernel));
        }
        let text = kernel(&stream, &DOUBLE, "double_it", DType::F16).unwrap_err().to_string();
        assert!(text.contains("double_it_half") && text.contains("double_it_int"), "{text}");
    }

    #[test]
    fn devices_do_not_share() {
        let device = || -> Arc<dyn Device> {
            Arc::new(HostDevice::new(Options {
                threads: 1,
                pool_bytes: 0,
                checked: false,
                fission: true,
            }))
        };
        let (a, b) = (device(), device());
        let kernel = |device| library(device, &DOUBLE).unwrap().kernel("double_it_int").unwrap();
        assert!(kernel(&a).is(&kernel(&a)));
        assert!(!kernel(&a).is(&kernel(&b)));
    }

    #[test]
    fn the_route_is_one_of_two() {
        assert_eq!(parse_route("").unwrap(), Route::Native);
        assert_eq!(parse_route("native").unwrap(), Route::Native);
        assert_eq!(parse_route(" msl ").unwrap(), Route::Msl);
        let text = parse_route("gpu").unwrap_err().to_string();
        assert!(text.contains(OPS_VARIABLE) && text.contains("gpu"), "{text}");
    }

    #[test]
    fn every_file_is_a_source_and_every_kernel_compiles() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("msl");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut sources: Vec<String> =
            SOURCES.iter().map(|source| format!("{}.metal", source.name)).collect();
        sources.sort();
        assert_eq!(files, sources, "the files in runtime/msl and SOURCES");

        let device: Arc<dyn Device> = HostDevice::shared();
        let kernels: Vec<(Library, String)> = SOURCES
            .iter()
            .map(|&source| library(&device, source).unwrap_or_else(|e| panic!("{e}")))
            .flat_map(|library| {
                let names = library.function_names();
                assert!(!names.is_empty(), "{} has no kernels", library.label());
                names.into_iter().map(move |name| (library.clone(), name))
            })
            .collect();
        let failures: Vec<String> = parallel_map(&kernels, |(library, name)| library.kernel(name))
            .into_iter()
            .filter_map(|kernel| kernel.err().map(|error| error.to_string()))
            .collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }
}
