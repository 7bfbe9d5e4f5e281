//! How the device deals with memory, errors and limits.

use std::sync::Arc;

use etmetal::device::metal::MetalDevice;
use etmetal::device::{Argument, BufferRef, CommandBuffer, Device, Dispatch, Grid, Pipeline};
use etmetal::stream::Stream;
use etmetal::tensor::{DType, Layout, Tensor};
use etmetal::{Error, ops};
use etmetal_standin::metal::command::fail_next;

use crate::common::{device, lasting_rules, rules};

const SOURCE: &str = "#include <metal_stdlib>
using namespace metal;
kernel void add(device uint* out [[buffer(0)]], constant uint& x [[buffer(1)]],
                uint i [[thread_position_in_grid]]) { out[i] += x; }
kernel void shared_sum(device uint* out [[buffer(0)]], threadgroup uint* tile [[threadgroup(0)]],
                       uint i [[thread_position_in_threadgroup]]) {
    tile[i] = out[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[i] = tile[i] + tile[0];
}";

#[expect(clippy::mut_from_ref, reason = "memory that the buffer only names")]
fn words(buffer: &BufferRef) -> &mut [u32] {
    // SAFETY: tests use buffers of whole words, and only between the work of the device.
    unsafe { std::slice::from_raw_parts_mut(buffer.contents().cast(), buffer.len() / 4) }
}

fn filled(device: &Arc<dyn Device>, count: usize, word: u32) -> BufferRef {
    let buffer = device.allocate(4 * count).unwrap();
    words(&buffer).fill(word);
    buffer
}

fn pipeline(device: &Arc<dyn Device>, name: &str) -> Arc<dyn Pipeline> {
    device.compile(SOURCE).unwrap().pipeline(name).unwrap()
}

fn bound(buffer: &BufferRef, offset: usize) -> Option<Argument> {
    Some(Argument::Buffer { buffer: buffer.clone(), offset, extent: None, dtype: None })
}

fn word(value: u32) -> Option<Argument> {
    Some(Argument::Bytes(value.to_ne_bytes().as_slice().into()))
}

fn add(
    commands: &mut dyn CommandBuffer,
    pipeline: &Arc<dyn Pipeline>,
    arguments: &[Option<Argument>],
    threads: u32,
) -> etmetal::Result<()> {
    commands.dispatch(&Dispatch {
        pipeline,
        library: None,
        arguments,
        threadgroup_memory: &[],
        grid: Grid::Threads { threads: [threads, 1, 1], group: [threads.min(8), 1, 1] },
    })
}

#[test]
pub fn commands_run_in_order_when_they_are_waited_for() {
    let _rules = rules();
    let device = device();
    let (a, b) = (filled(&device, 8, 1), filled(&device, 8, 0));
    let add_to = pipeline(&device, "add");
    let mut commands = device.command_buffer().unwrap();
    add(&mut *commands, &add_to, &[bound(&a, 0), word(2)], 8).unwrap();
    commands.copy((&a, 4), (&b, 8), 16).unwrap();
    add(&mut *commands, &add_to, &[bound(&b, 8), word(10)], 2).unwrap();
    commands.fill((&b, 0), 4, 0xFF).unwrap();
    // What no blit can do.
    commands.fill((&b, 29), 3, 7).unwrap();
    commands.copy((&a, 1), (&b, 5), 2).unwrap();
    assert_eq!(commands.command_count(), 6);
    let mut work = commands.commit().unwrap();
    assert!(!work.is_done());
    assert_eq!(words(&a), [1; 8], "nothing runs before it is waited for");
    work.wait().unwrap();
    assert!(work.is_done());
    let last = u32::from_ne_bytes([0, 7, 7, 7]);
    assert_eq!(words(&a), [3; 8]);
    assert_eq!(words(&b), [u32::MAX, 0, 13, 13, 3, 3, 0, last]);
}

#[test]
pub fn kernels_alternate_in_one_encoder() {
    let _rules = rules();
    let device = device();
    let library = device.compile(SOURCE).unwrap();
    let [add_to, sum] = ["add", "shared_sum"].map(|name| library.pipeline(name).unwrap());
    let out = filled(&device, 4, 1);
    let mut commands = device.command_buffer().unwrap();
    for _ in 0..2 {
        add(&mut *commands, &add_to, &[bound(&out, 0), word(1)], 4).unwrap();
        commands
            .dispatch(&Dispatch {
                pipeline: &sum,
                library: None,
                arguments: &[bound(&out, 0)],
                threadgroup_memory: &[16],
                grid: Grid::Threadgroups { groups: [1, 1, 1], group: [4, 1, 1] },
            })
            .unwrap();
    }
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(words(&out), [10; 4], "((1 + 1) * 2 + 1) * 2");
}

#[test]
pub fn threadgroup_arguments_have_their_lengths() {
    const TILES: &str = "#include <metal_stdlib>
using namespace metal;
kernel void tiles(device uint* out [[buffer(0)]], threadgroup uint* first [[threadgroup(0)]],
                  threadgroup uint* second [[threadgroup(1)]],
                  uint i [[thread_position_in_threadgroup]]) {
    first[i] = out[i];
    second[i] = 100 * out[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[i] = first[63 - i] + second[i];
}";
    let _rules = rules();
    let device = device();
    let tiles = device.compile(TILES).unwrap().pipeline("tiles").unwrap();
    let out = filled(&device, 64, 0);
    (0..64).for_each(|i| words(&out)[i] = i as u32);
    let mut commands = device.command_buffer().unwrap();
    commands
        .dispatch(&Dispatch {
            pipeline: &tiles,
            library: None,
            arguments: &[bound(&out, 0)],
            threadgroup_memory: &[256, 256],
            grid: Grid::Threadgroups { groups: [1, 1, 1], group: [64, 1, 1] },
        })
        .unwrap();
    commands.commit().unwrap().wait().unwrap();
    // With less for the first, the second would lie in it.
    let expected: Vec<u32> = (0..64).map(|i| 63 - i + 100 * i).collect();
    assert_eq!(words(&out), expected);
}

#[test]
pub fn long_copies_and_fills_are_done_in_parts() {
    let _rules = rules();
    let device = device();
    let count = 3000;
    let (a, b) = (filled(&device, count, 0), filled(&device, count, 0));
    for (i, word) in words(&a).iter_mut().enumerate() {
        *word = i as u32;
    }
    let mut commands = device.command_buffer().unwrap();
    commands.copy((&a, 8), (&b, 4), 4 * 2500).unwrap();
    commands.fill((&a, 8), 4 * 2500, 0xFF).unwrap();
    commands.commit().unwrap().wait().unwrap();
    for i in 0..count {
        let copied = if (1..2501).contains(&i) { i as u32 + 1 } else { 0 };
        let filled = if (2..2502).contains(&i) { u32::MAX } else { i as u32 };
        assert_eq!((words(&b)[i], words(&a)[i]), (copied, filled), "word {i}");
    }
}

#[test]
pub fn a_command_buffer_goes_on_after_a_commit() {
    let _rules = rules();
    let device = device();
    let (out, other) = (filled(&device, 4, 0), filled(&device, 4, 0));
    let add_to = pipeline(&device, "add");
    let mut commands = device.command_buffer().unwrap();
    add(&mut *commands, &add_to, &[bound(&out, 0), word(1)], 4).unwrap();
    let (mut first, next) = commands.commit_and_continue().unwrap();
    let mut commands = next.expect("it goes on");
    assert_eq!(commands.command_count(), 0);
    add(&mut *commands, &add_to, &[bound(&out, 0), word(10)], 4).unwrap();
    let mut second = commands.commit().unwrap();
    first.wait().unwrap();
    assert_eq!(words(&out), [1; 4]);
    second.wait().unwrap();
    assert_eq!(words(&out), [11; 4]);
    // One that nothing was encoded into, or that is given up, does nothing.
    let mut commands = device.command_buffer().unwrap();
    add(&mut *commands, &add_to, &[bound(&other, 0), word(1)], 4).unwrap();
    drop(commands);
    drop(device.command_buffer().unwrap());
    assert_eq!(words(&other), [0; 4]);
}

#[test]
pub fn buffers_return_to_the_pool_when_the_gpu_has_done_with_them() {
    let _rules = rules();
    let device = device();
    let add_to = pipeline(&device, "add");
    let out = filled(&device, 4, 0);
    let address = out.contents();
    let mut commands = device.command_buffer().unwrap();
    add(&mut *commands, &add_to, &[bound(&out, 0), word(1)], 4).unwrap();
    let mut work = commands.commit().unwrap();
    drop(out);
    let other = device.allocate(16).unwrap();
    assert_ne!(other.contents(), address, "the GPU still uses it");
    work.wait().unwrap();
    let again = device.allocate(16).unwrap();
    assert_eq!(again.contents(), address);
    drop((again, other));
    let stats = device.pool_stats();
    assert_eq!((stats.in_use, stats.hits), (0, 1));
    device.trim_pool();
    assert_eq!(device.pool_stats().cached, 0);
    // Work that nobody waits for lets go too.
    let out = filled(&device, 4, 0);
    let mut commands = device.command_buffer().unwrap();
    commands.fill((&out, 0), 16, 1).unwrap();
    drop(commands.commit().unwrap());
    drop(out);
    assert_ne!(device.pool_stats().in_use, 0, "the GPU has not filled it yet");
    etmetal_standin::metal::command::drain();
    assert_eq!(device.pool_stats().in_use, 0);
    // So does work that somebody will wait for, as soon as it is done.
    let out = filled(&device, 4, 0);
    let mut commands = device.command_buffer().unwrap();
    commands.fill((&out, 0), 16, 1).unwrap();
    let mut work = commands.commit().unwrap();
    drop(out);
    etmetal_standin::metal::command::drain();
    assert_eq!(device.pool_stats().in_use, 0);
    work.wait().unwrap();
    // So does a copy, of both its buffers.
    let (from, to) = (filled(&device, 4, 0), filled(&device, 4, 0));
    let mut commands = device.command_buffer().unwrap();
    commands.copy((&from, 0), (&to, 0), 16).unwrap();
    drop(commands.commit().unwrap());
    let one = device.pool_stats().in_use / 2;
    drop((from, to));
    assert_eq!(device.pool_stats().in_use, 2 * one, "the GPU has not copied yet");
    etmetal_standin::metal::command::drain();
    assert_eq!(device.pool_stats().in_use, 0);
}

#[test]
pub fn work_goes_on_when_all_that_it_uses_is_let_go() {
    let _rules = rules();
    let owner = Arc::new(vec![5u32; 64]);
    let weak = Arc::downgrade(&owner);
    {
        let device = device();
        let start = owner.as_ptr().cast_mut().cast();
        // SAFETY: the buffer keeps the owner, and only the device writes.
        let weights = unsafe { device.wrap(start, 4 * 64, Some(owner)) }.unwrap();
        let mut commands = device.command_buffer().unwrap();
        let add_to = pipeline(&device, "add");
        add(&mut *commands, &add_to, &[bound(&weights, 0), word(1)], 8).unwrap();
        drop(commands.commit().unwrap());
    }
    let owner = weak.upgrade().expect("the GPU is to write to it");
    assert_eq!(owner[..9], [5; 9], "it has not yet");
    etmetal_standin::metal::command::drain();
    assert_eq!(owner[..9], [6, 6, 6, 6, 6, 6, 6, 6, 5]);
    drop(owner);
    assert!(weak.upgrade().is_none(), "nobody needs it any more");
}

#[test]
pub fn what_a_graph_committed_is_done_when_commands_are_given_up() {
    let _rules = lasting_rules();
    let device = device();
    let stream = Stream::with_flush_interval(device.clone(), 64);
    let tensor = || Tensor::empty(&device, DType::F32, Layout::contiguous(&[2, 2]).unwrap());
    let (out, a) = (tensor().unwrap(), tensor().unwrap());
    words(a.storage().buffer()).fill(7);
    ops::zero(&stream, &a).unwrap();
    // MPSGraph commits what comes before it.
    ops::mm(&stream, &out, &a, &a).unwrap();
    stream.discard();
    // Else it would be done in memory that belongs to others by now.
    assert_eq!(words(a.storage().buffer()), [0; 4]);
}

#[test]
pub fn memory_of_others_is_used_in_place_and_let_go() {
    let _rules = rules();
    let device = device();
    let owner = Arc::new(vec![5u32; 5000]);
    let weak = Arc::downgrade(&owner);
    let start = owner.as_ptr().wrapping_add(3).cast_mut().cast::<u8>();
    // SAFETY: the owner is kept by the buffer, and only the device writes.
    let buffer = unsafe { device.wrap(start, 4 * 100, Some(owner.clone())) }.unwrap();
    assert_eq!((buffer.contents(), buffer.len()), (start, 400));
    let add_to = pipeline(&device, "add");
    let mut commands = device.command_buffer().unwrap();
    add(&mut *commands, &add_to, &[bound(&buffer, 8), word(1)], 3).unwrap();
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(owner[..9], [5, 5, 5, 5, 5, 6, 6, 6, 5]);
    drop(owner);
    assert!(weak.upgrade().is_some());
    drop(buffer);
    assert!(weak.upgrade().is_none(), "Metal let go, and so did we");

    // SAFETY: no memory is wrapped.
    let empty = unsafe { device.wrap(std::ptr::null_mut(), 0, None) }.unwrap();
    assert!(empty.is_empty() && !empty.contents().is_null());
    // SAFETY: nothing is accessed.
    let text = unsafe { device.wrap(std::ptr::null_mut(), 8, None) }.unwrap_err().to_string();
    assert!(text.contains("null address"), "{text}");
    let top = std::ptr::without_provenance_mut(usize::MAX - 3);
    // SAFETY: nothing is accessed.
    let text = unsafe { device.wrap(top, 8, None) }.unwrap_err().to_string();
    assert!(text.contains("address space"), "{text}");
    // More than Metal takes: to be copied, or to be told of.
    // SAFETY: nothing is accessed.
    let error = unsafe { device.wrap(start, 5 << 30, None) }.unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
}

#[test]
pub fn failures_of_the_gpu_name_the_kernels() {
    let _rules = rules();
    let device = device();
    let add_to = pipeline(&device, "add");
    let out = filled(&device, 4, 0);
    let mut commands = device.command_buffer().unwrap();
    add(&mut *commands, &add_to, &[bound(&out, 0), word(1)], 4).unwrap();
    fail_next("Caused GPU Address Fault Error");
    let mut work = commands.commit().unwrap();
    for _ in 0..2 {
        let error = work.wait().unwrap_err();
        assert!(matches!(error, Error::Execution(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("\"add\"") && text.contains("Address Fault"), "{text}");
    }
    // The stream that waits tells too, and the next work is not affected.
    let stream = Stream::with_flush_interval(device.clone(), 64);
    stream.fill((&out, 0), 16, 0).unwrap();
    fail_next("lost");
    assert!(stream.commit_and_wait().unwrap_err().to_string().contains("lost"));
    stream.fill((&out, 0), 16, 0).unwrap();
    stream.commit_and_wait().unwrap();
}

#[test]
pub fn failures_before_a_graph_are_seen() {
    let _rules = lasting_rules();
    let device = device();
    let stream = Stream::with_flush_interval(device.clone(), 64);
    // MPSGraph commits what comes before it.
    let tensor = || Tensor::empty(&device, DType::F32, Layout::contiguous(&[2, 2]).unwrap());
    let (out, a) = (tensor().unwrap(), tensor().unwrap());
    ops::zero(&stream, &a).unwrap();
    ops::mm(&stream, &out, &a, &a).unwrap();
    fail_next("the first of two");
    let text = stream.commit_and_wait().unwrap_err().to_string();
    assert!(text.contains("the first of two"), "{text}");
}

#[test]
pub fn what_the_compiler_says_comes_back() {
    let _rules = rules();
    let device = device();
    let error = device.compile("kernel void broken(device float* x { }").unwrap_err();
    assert!(matches!(error, Error::ShaderCompile(_)), "{error}");
    let library = device.compile(SOURCE).unwrap();
    assert_eq!(library.function_names(), ["add", "shared_sum"], "in the order of the source");
    let text = library.pipeline("nothing").unwrap_err().to_string();
    assert!(text.contains("\"nothing\"") && text.contains("add, shared_sum"), "{text}");
    let results = device.precompile(&[SOURCE, "#error not today", SOURCE]);
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(results[1].as_ref().unwrap_err().to_string().contains("not today"));
}

#[test]
pub fn what_device_and_kernels_can_do_is_told() {
    let _rules = rules();
    let device = device();
    assert_eq!(device.kind(), etmetal::device::DeviceKind::Metal);
    assert_eq!(device.name(), "Stand-in GPU");
    let limits = device.limits();
    assert_eq!((limits.max_threads_per_threadgroup, limits.max_threadgroup_memory), (1024, 32768));
    assert_eq!((limits.max_buffer_arguments, limits.max_buffer_length), (31, 1 << 32));
    let kernel = pipeline(&device, "add");
    assert_eq!((kernel.name(), kernel.simd_width()), ("add", 32));
    assert_eq!(
        (kernel.max_threads_per_threadgroup(), kernel.static_threadgroup_memory()),
        (1024, 0)
    );
}

#[test]
pub fn dispatches_beyond_the_limits_are_refused_and_not_encoded() {
    let _rules = rules();
    let device = device();
    let (add_to, sum) = (pipeline(&device, "add"), pipeline(&device, "shared_sum"));
    let out = filled(&device, 64, 1);
    let mut commands = device.command_buffer().unwrap();
    let fine = [bound(&out, 0), word(1)];
    let grid = |group| Grid::Threads { threads: [64, 1, 1], group };
    let mut refused =
        |pipeline, arguments: &[Option<Argument>], memory: &[u32], grid, what: &str| {
            let dispatch =
                Dispatch { pipeline, library: None, arguments, threadgroup_memory: memory, grid };
            let text = commands.dispatch(&dispatch).unwrap_err().to_string();
            assert!(text.contains(what), "{text}");
        };
    refused(&add_to, &fine, &[], grid([2048, 1, 1]), "between 1 and 1024 threads");
    refused(&add_to, &fine, &[], grid([0, 1, 1]), "0x1x1");
    refused(&add_to, &fine[..1], &[], grid([8, 1, 1]), "buffer(1) \"x\": nothing is bound");
    refused(&add_to, &[bound(&out, 2), word(1)], &[], grid([8, 1, 1]), "no multiple of the 4");
    refused(&add_to, &[bound(&out, 257), word(1)], &[], grid([8, 1, 1]), "behind the end");
    let short = [bound(&out, 0), Some(Argument::Bytes([1u8].as_slice().into()))];
    refused(&add_to, &short, &[], grid([8, 1, 1]), "1 bytes are bound to it");
    let many = vec![bound(&out, 0); 32];
    refused(&add_to, &many, &[], grid([8, 1, 1]), "exceed the 31");
    refused(&sum, &fine[..1], &[], grid([8, 1, 1]), "threadgroup(0) \"tile\" has no length");
    refused(&sum, &fine[..1], &[20], grid([8, 1, 1]), "no multiple of 16");
    refused(&sum, &fine[..1], &[40 << 10], grid([8, 1, 1]), "exceed the 32768");
    let host = etmetal::device::host::HostDevice::shared();
    let foreign = host.compile(SOURCE).unwrap().pipeline("add").unwrap();
    refused(&foreign, &fine, &[], grid([8, 1, 1]), "made by another device");
    let foreign = host.allocate(64).unwrap();
    refused(&add_to, &[bound(&foreign, 0), word(1)], &[], grid([8, 1, 1]), "another device");
    assert_eq!(commands.command_count(), 0);
    for (result, what) in [
        (commands.copy((&out, 250), (&out, 0), 8), "source of a copy"),
        (commands.copy((&out, 0), (&out, 4), 8), "overlap"),
        (commands.fill((&out, 250), 8, 0), "destination of a fill"),
    ] {
        let text = result.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    }
    commands
        .dispatch(&Dispatch {
            pipeline: &sum,
            library: None,
            arguments: &fine[..1],
            threadgroup_memory: &[256],
            grid: Grid::Threadgroups { groups: [1, 1, 1], group: [64, 1, 1] },
        })
        .unwrap();
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(words(&out), [2; 64]);
}

#[test]
pub fn more_memory_than_there_is_is_an_error() {
    let _rules = rules();
    let device = device();
    let error = device.allocate(usize::MAX / 2).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory(_)), "{error}");
}

#[test]
pub fn exceptions_come_back_with_their_reason() {
    let rules = lasting_rules();
    let device = device();
    let stream = Stream::with_flush_interval(device.clone(), 64);
    let tensor = |sizes: &[i64]| {
        Tensor::empty(&device, DType::F32, Layout::contiguous(sizes).unwrap()).unwrap()
    };
    // Sizes that the graph's own checks refuse, as MPSGraph would.
    let op = etmetal::graph::GraphOp::Mm;
    let (out, a, b) = (tensor(&[2, 2]), tensor(&[2, 3]), tensor(&[4, 2]));
    let error = etmetal::graph::encode(&stream, op, &[&out, &a, &b]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("mm: building a graph: ") && text.contains("[4, 2]"), "{text}");
    assert_eq!(rules.broken().len(), 1, "the exception");
    // And nothing is left in the way.
    let (a, b) = (tensor(&[2, 3]), tensor(&[3, 2]));
    ops::zero(&stream, &a).unwrap();
    ops::zero(&stream, &b).unwrap();
    ops::mm(&stream, &out, &a, &b).unwrap();
    stream.commit_and_wait().unwrap();
}

#[test]
pub fn pipelines_are_kept_across_runs() {
    let _rules = rules();
    let folder = std::env::temp_dir().join(format!("etmetal-standin-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let open = || Arc::new(MetalDevice::with_archives(0, Some(folder.clone())).unwrap().unwrap());
    let stored = || -> Vec<std::path::PathBuf> {
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let first = open();
    first.compile(SOURCE).unwrap().pipeline("add").unwrap();
    let [file] = stored().try_into().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(" add") && !text.contains("shared_sum"), "{text}");
    let second = open();
    second.compile(SOURCE).unwrap().pipeline("shared_sum").unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(" add") && text.contains(" shared_sum"), "{text}");
    // One that is found is not written again.
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    open().compile(SOURCE).unwrap().pipeline("add").unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), written);
    // One that is damaged is made again.
    std::fs::write(&file, "nonsense").unwrap();
    open().compile(SOURCE).unwrap().pipeline("add").unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().contains(" add"));
    assert_eq!(stored(), [file]);
    // Another source has another one.
    let other = SOURCE.replace("out[i] += x", "out[i] -= x");
    open().compile(&other).unwrap().pipeline("add").unwrap();
    assert_eq!(stored().len(), 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
pub fn threads_use_one_device_at_once() {
    let _rules = rules();
    let device = device();
    let add_to = pipeline(&device, "add");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let out = filled(&device, 100, 0);
                for _ in 0..5 {
                    let mut commands = device.command_buffer().unwrap();
                    let arguments = [bound(&out, 0), word(1)];
                    add(&mut *commands, &add_to, &arguments, 100).unwrap();
                    add(&mut *commands, &add_to, &arguments, 100).unwrap();
                    commands.commit().unwrap().wait().unwrap();
                }
                assert!(words(&out).iter().all(|&word| word == 10));
            });
        }
    });
}
