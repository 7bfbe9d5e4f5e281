//! Shader libraries: MSL sources, whose kernels are compiled when they are first asked for, and
//! shared by all models that bring the same source.

use std::num::NonZeroUsize;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::LIMITS;
use super::cache::{Cache, Once};
use super::checked::Checks;
use super::msl::{Flavor, Module, Toolchain};
use super::parallel::parallel_map;
use super::pipeline::HostPipeline;
use crate::Result;
use crate::device::{DeviceLibrary, Pipeline};
use crate::error::err;
use crate::log;

/// Libraries kept for models that bring the same source later. Those in use stay anyhow.
const MOST_LIBRARIES: NonZeroUsize = NonZeroUsize::new(512).unwrap();

/// A source with more kernels than this is a collection of templates of which a model uses a
/// few; its kernels are not compiled ahead.
const FEW_KERNELS: usize = 8;

/// The libraries of one device.
#[derive(Debug)]
pub struct Libraries {
    flavor: Flavor,
    toolchain: Once<Arc<Toolchain>>,
    libraries: Cache<Arc<HostLibrary>>,
}

impl Libraries {
    /// No libraries yet. The kernels of those to come are compiled as `flavor` says.
    pub fn new(flavor: Flavor) -> Libraries {
        let libraries = Cache::new(MOST_LIBRARIES);
        Libraries { flavor, toolchain: Once::default(), libraries }
    }

    /// The library of `source`. Its kernels are compiled later.
    ///
    /// # Errors
    /// There is no compiler, or the source does not get through its preprocessor.
    pub fn get(&self, source: &str) -> Result<Arc<HostLibrary>> {
        self.libraries.get(Sha256::digest(source).into(), || {
            let toolchain = self.toolchain.get(|| Toolchain::find(self.flavor))?;
            Ok(Arc::new(HostLibrary::new(
                Module::parse(source, &toolchain)?,
                self.flavor == Flavor::Checked,
            )))
        })
    }

    /// The libraries of many sources, with their kernels compiled, on all cores; for each source
    /// the library or the first error.
    pub fn precompile(&self, sources: &[&str]) -> Vec<Result<Arc<HostLibrary>>> {
        let mut libraries = parallel_map(sources, |source| self.get(source));
        let kernels: Vec<(usize, Arc<HostLibrary>, usize)> = libraries
            .iter()
            .enumerate()
            .filter_map(|(at, library)| Some((at, library.as_ref().ok()?.clone())))
            .filter(|(_, library)| library.kernels.len() <= FEW_KERNELS)
            .flat_map(|(at, library)| {
                (0..library.kernels.len()).map(move |kernel| (at, library.clone(), kernel))
            })
            .collect();
        let compiled = parallel_map(&kernels, |(_, library, kernel)| library.compile(*kernel));
        for ((at, ..), result) in kernels.iter().zip(compiled) {
            if let (Ok(_), Err(error)) = (&libraries[*at], result) {
                libraries[*at] = Err(error);
            }
        }
        libraries
    }
}

/// One MSL source.
pub struct HostLibrary {
    module: Module,
    checked: bool,
    /// The pipelines of the module's kernels, in its order.
    kernels: Vec<Once<Arc<HostPipeline>>>,
}

impl std::fmt::Debug for HostLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostLibrary({:?})", self.function_names())
    }
}

impl HostLibrary {
    fn new(module: Module, checked: bool) -> HostLibrary {
        let kernels = module.kernels().iter().map(|_| Once::default()).collect();
        HostLibrary { module, checked, kernels }
    }

    /// The pipeline of the kernel at `index`, compiled if nobody has asked for it yet.
    fn compile(&self, index: usize) -> Result<Arc<HostPipeline>> {
        self.kernels[index].get(|| {
            let info = &self.module.kernels()[index];
            let native = self.module.compile(&info.name)?;
            let (declared, most) =
                (native.static_threadgroup_memory, LIMITS.max_threadgroup_memory);
            if declared > most {
                return Err(err!(
                    ShaderCompile,
                    "kernel {:?} declares {declared} bytes of threadgroup memory; Metal has {most}",
                    info.name
                ));
            }
            if let Some(why) = &native.fallback {
                log::warning(format_args!(
                    "the loops of kernel {:?} do not compile, so it runs on fibers, which is \
                     slow: {why}",
                    info.name
                ));
            }
            let checks = self.checked.then(|| Checks::new(&self.module, info));
            Ok(Arc::new(HostPipeline::new(info, native, checks)))
        })
    }
}

impl DeviceLibrary for HostLibrary {
    fn function_names(&self) -> Vec<String> {
        self.module.kernels().iter().map(|kernel| kernel.name.clone()).collect()
    }

    fn pipeline(&self, name: &str) -> Result<Arc<dyn Pipeline>> {
        let index = self.module.kernels().iter().position(|kernel| kernel.name == name);
        let index = index.ok_or_else(|| {
            err!(
                NotFound,
                "the shader library has no kernel {name:?}; it has {}",
                self.function_names().join(", ")
            )
        })?;
        Ok(self.compile(index)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostDevice, Options};
    use crate::Error;
    use crate::device::{
        Argument, BufferRef, CommandBuffer, Device, DeviceLibrary, Dispatch, Grid, Pipeline,
    };
    use std::sync::Arc;

    /// A plain kernel over three dimensions, and one that synchronises.
    const SOURCE: &str = r#"
#include <metal_stdlib>
using namespace metal;

kernel void positions(device uint4* out [[buffer(0)]],
                      constant uint& salt [[buffer(1)]],
                      uint3 at [[thread_position_in_grid]],
                      uint3 size [[threads_per_grid]],
                      uint3 group [[threads_per_threadgroup]]) {
    uint i = (at.z * size.y + at.y) * size.x + at.x;
    out[i] = uint4(at + salt, (group.z * 100 + group.y) * 100 + group.x);
}

kernel void group_sums(device uint* out [[buffer(0)]],
                       const device uint* in [[buffer(1)]],
                       threadgroup uint* tile [[threadgroup(0)]],
                       uint at [[thread_position_in_grid]],
                       uint lane [[thread_position_in_threadgroup]],
                       uint group [[threadgroup_position_in_grid]],
                       uint count [[threads_per_threadgroup]]) {
    tile[lane] = in[at];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint sum = 0;
    for (uint i = 0; i < count; ++i) sum += tile[i] * (i + 1);
    out[at] = sum + group;
}

[[max_total_threads_per_threadgroup(64)]]
kernel void small(device uint* out [[buffer(0)]], uint at [[thread_position_in_grid]]) {
    out[at] = at;
}

kernel void greedy(device float* out [[buffer(0)]], uint at [[thread_position_in_threadgroup]]) {
    threadgroup float tile[10000];
    tile[at] = out[at];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[at] = tile[9999 - at];
}
"#;

    fn device(threads: usize) -> HostDevice {
        HostDevice::new(Options { threads, pool_bytes: 1 << 28, checked: false, fission: true })
    }

    fn kernel(device: &HostDevice, name: &str) -> Arc<dyn Pipeline> {
        device.compile(SOURCE).unwrap().pipeline(name).unwrap()
    }

    fn buffer(device: &HostDevice, words: &[u32]) -> BufferRef {
        let buffer = device.allocate(size_of_val(words)).unwrap();
        // SAFETY: as many bytes as were asked for.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr(), buffer.contents().cast(), words.len());
        }
        buffer
    }

    fn words(buffer: &BufferRef) -> &[u32] {
        // SAFETY: all bytes were written, and no work is under way.
        unsafe { std::slice::from_raw_parts(buffer.contents().cast(), buffer.len() / 4) }
    }

    fn bound(buffer: &BufferRef) -> Option<Argument> {
        Some(Argument::Buffer { buffer: buffer.clone(), offset: 0, extent: None, dtype: None })
    }

    fn bytes(value: u32) -> Option<Argument> {
        Some(Argument::Bytes(value.to_le_bytes().as_slice().into()))
    }

    fn encode(
        commands: &mut dyn CommandBuffer,
        pipeline: &Arc<dyn Pipeline>,
        arguments: &[Option<Argument>],
        threadgroup_memory: &[u32],
        grid: Grid,
    ) -> crate::Result<()> {
        commands.dispatch(&Dispatch {
            pipeline,
            library: None,
            arguments,
            threadgroup_memory,
            grid,
        })
    }

    fn run(
        device: &HostDevice,
        pipeline: &Arc<dyn Pipeline>,
        arguments: &[Option<Argument>],
        threadgroup_memory: &[u32],
        grid: Grid,
    ) {
        let mut commands = device.command_buffer().unwrap();
        encode(&mut *commands, pipeline, arguments, threadgroup_memory, grid).unwrap();
        commands.commit().unwrap().wait().unwrap();
    }

    /// What `positions` writes for a grid of `size` in groups of `group`.
    fn expected_positions(size: [u32; 3], group: [u32; 3], salt: u32) -> Vec<u32> {
        let mut all = Vec::new();
        for z in 0..size[2] {
            for y in 0..size[1] {
                for x in 0..size[0] {
                    let at = [x, y, z];
                    let g: [u32; 3] = std::array::from_fn(|i| {
                        (size[i] - at[i] / group[i] * group[i]).min(group[i])
                    });
                    all.extend(at.map(|n| n + salt));
                    all.push((g[2] * 100 + g[1]) * 100 + g[0]);
                }
            }
        }
        all
    }

    #[test]
    fn threads_know_their_place_in_grids_with_edges() {
        let device = device(2);
        let positions = kernel(&device, "positions");
        for (threads, group) in [
            ([1, 1, 1], [32, 1, 1]),
            ([100, 1, 1], [32, 1, 1]),
            ([13, 7, 5], [4, 3, 2]),
            ([300, 200, 3], [32, 16, 2]),
        ] {
            let count = threads.iter().product::<u32>() as usize;
            let out = buffer(&device, &vec![u32::MAX; 4 * count + 1]);
            for salt in 0..4 {
                let arguments = [bound(&out), bytes(salt)];
                run(&device, &positions, &arguments, &[], Grid::Threads { threads, group });
                let (written, behind) = words(&out).split_at(4 * count);
                assert!(written == expected_positions(threads, group, salt), "{threads:?}");
                assert_eq!(behind, [u32::MAX]);
            }
        }
    }

    #[test]
    fn grids_of_threadgroups_are_full() {
        let device = device(2);
        let positions = kernel(&device, "positions");
        let out = buffer(&device, &[0; 4 * 6 * 4 * 3]);
        let grid = Grid::Threadgroups { groups: [3, 2, 1], group: [2, 2, 3] };
        run(&device, &positions, &[bound(&out), bytes(9)], &[], grid);
        assert!(words(&out) == expected_positions([6, 4, 3], [2, 2, 3], 9));
    }

    /// `group_sums` on `count` threads in groups of `group`, several times, with two threads.
    fn check_group_sums(device: &HostDevice, sums: &Arc<dyn Pipeline>, count: u32, group: u32) {
        let input: Vec<u32> = (0..count).map(|i| i.wrapping_mul(2_654_435_761) >> 20).collect();
        let expected: Vec<u32> = input
            .chunks(group as usize)
            .zip(0..)
            .flat_map(|(values, at): (&[u32], u32)| {
                let sum = values.iter().zip(1..).map(|(v, i)| v * i).sum::<u32>() + at;
                std::iter::repeat_n(sum, values.len())
            })
            .collect();
        let (out, input) = (buffer(device, &vec![0; count as usize]), buffer(device, &input));
        for _ in 0..3 {
            let grid = Grid::Threads { threads: [count, 1, 1], group: [group, 1, 1] };
            let memory = [(4 * group).next_multiple_of(16)];
            run(device, sums, &[bound(&out), bound(&input)], &memory, grid);
            assert!(words(&out) == expected, "{count} threads in groups of {group}");
        }
    }

    #[test]
    fn synchronising_kernels_run_in_groups_with_edges() {
        let device = device(2);
        let sums = kernel(&device, "group_sums");
        for (count, group) in [(1, 1), (5, 64), (1000, 64), (1030, 1024), (50_000, 96)] {
            check_group_sums(&device, &sums, count, group);
        }
    }

    #[test]
    fn four_threads_run_kernels_at_once() {
        let device = device(2);
        let sums = kernel(&device, "group_sums");
        std::thread::scope(|scope| {
            for i in 0..4 {
                let (device, sums) = (&device, &sums);
                scope.spawn(move || {
                    for round in 0..5 {
                        check_group_sums(device, sums, 3000 + 100 * i + round, 128);
                    }
                });
            }
        });
    }

    #[test]
    fn what_the_source_declares_is_enforced() {
        let device = device(1);
        let out = buffer(&device, &[0; 256]);
        let mut commands = device.command_buffer().unwrap();
        let grid = |group| Grid::Threads { threads: [256, 1, 1], group: [group, 1, 1] };
        let mut refused = |name: &str, arguments: &[_], memory: &[u32], group| {
            let pipeline = kernel(&device, name);
            let result = encode(&mut *commands, &pipeline, arguments, memory, grid(group));
            result.unwrap_err().to_string()
        };
        let text = refused("small", &[bound(&out)], &[], 65);
        assert!(text.contains("\"small\"") && text.contains("64 threads"), "{text}");
        let text = refused("positions", &[bound(&out)], &[], 32);
        assert!(text.contains("buffer(1) \"salt\": nothing is bound"), "{text}");
        let short = Some(Argument::Bytes(smallvec::smallvec![0; 2]));
        let text = refused("positions", &[bound(&out), short], &[], 32);
        assert!(text.contains("2 bytes are bound to it, but the kernel reads 4"), "{text}");
        let odd =
            Some(Argument::Buffer { buffer: out.clone(), offset: 8, extent: None, dtype: None });
        let text = refused("positions", &[odd, bytes(0)], &[], 32);
        assert!(text.contains("offset 8 is no multiple of the 16 bytes"), "{text}");
        let text = refused("group_sums", &[bound(&out), bound(&out)], &[], 32);
        assert!(text.contains("threadgroup(0) \"tile\" has no length"), "{text}");
        let text = refused("group_sums", &[bound(&out), bound(&out)], &[40_000], 32);
        assert!(text.contains("40000 bytes of threadgroup memory"), "{text}");
        assert_eq!(commands.command_count(), 0);
        assert_eq!(kernel(&device, "small").max_threads_per_threadgroup(), 64);
        let error = device.compile(SOURCE).unwrap().pipeline("greedy").unwrap_err();
        assert!(matches!(error, Error::ShaderCompile(_)), "{error}");
        assert!(error.to_string().contains("40000 bytes"), "{error}");
    }

    #[test]
    fn a_missing_kernel_is_named_with_those_there_are() {
        let library = device(1).compile(SOURCE).unwrap();
        assert_eq!(library.function_names(), ["positions", "group_sums", "small", "greedy"]);
        let error = library.pipeline("position").unwrap_err();
        assert!(matches!(error, Error::NotFound(_)));
        let text = error.to_string();
        assert!(text.contains("\"position\"") && text.contains("positions, group_sums"), "{text}");
    }

    #[test]
    fn equal_sources_share_their_kernels() {
        let device = device(1);
        let shared = |library: &Arc<dyn DeviceLibrary>| library.pipeline("small").unwrap();
        let first = device.compile(SOURCE).unwrap();
        let second = device.compile(SOURCE).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&shared(&first), &shared(&second)));
        let other = device.compile(&SOURCE.replace("= at;", "= at + 1;")).unwrap();
        assert!(!Arc::ptr_eq(&shared(&first), &shared(&other)));
    }

    #[test]
    fn many_sources_compile_ahead_each_with_its_own_result() {
        let device = device(1);
        let source = |value: u32| {
            format!(
                "#include <metal_stdlib>\nkernel void k(device uint* out [[buffer(0)]], \
                 uint i [[thread_position_in_grid]]) {{ out[i] = {value}; }}\n"
            )
        };
        let wrong = "#include <metal_stdlib>\nkernel void k(device uint* out) {\n  nonsense;\n}\n";
        let (a, b) = (source(1), source(2));
        let results = device.precompile(&[&a, wrong, &b, &a]);
        let [Ok(first), Err(error), Ok(second), Ok(third)] = &results[..] else {
            panic!("{results:?}")
        };
        assert!(matches!(error, Error::ShaderCompile(_)), "{error}");
        assert!(error.to_string().contains("nonsense"), "{error}");
        assert!(Arc::ptr_eq(first, third) && !Arc::ptr_eq(first, second));
        let out = buffer(&device, &[0; 3]);
        let grid = Grid::Threads { threads: [3, 1, 1], group: [3, 1, 1] };
        run(&device, &second.pipeline("k").unwrap(), &[bound(&out)], &[], grid);
        assert_eq!(words(&out), [2; 3]);
        assert!(device.precompile(&[]).is_empty());
    }
}
