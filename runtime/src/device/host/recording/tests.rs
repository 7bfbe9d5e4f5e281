//! Recorded commands.

use super::super::testing;
use super::super::{HostDevice, Options};
use super::*;
use crate::device::{CommandBuffer, Device, Grid, PoolStats};

fn device() -> HostDevice {
    HostDevice::new(Options { threads: 2, pool_bytes: 1 << 28, checked: false, fission: true })
}

fn zeroed(device: &HostDevice, words: usize) -> BufferRef {
    let buffer = device.allocate(4 * words).unwrap();
    // SAFETY: a new buffer's own bytes.
    unsafe { buffer.contents().write_bytes(0, 4 * words) };
    buffer
}

fn words(buffer: &BufferRef) -> &[u32] {
    // SAFETY: all bytes were written, and no work is under way.
    unsafe { std::slice::from_raw_parts(buffer.contents().cast(), buffer.len() / 4) }
}

fn bytes(value: u32) -> Option<Argument> {
    Some(Argument::Bytes(value.to_le_bytes().as_slice().into()))
}

fn bound(buffer: &BufferRef, offset: usize) -> Option<Argument> {
    Some(Argument::Buffer { buffer: buffer.clone(), offset, extent: None, dtype: None })
}

fn dispatch(
    commands: &mut dyn CommandBuffer,
    pipeline: &Arc<dyn Pipeline>,
    arguments: &[Option<Argument>],
    grid: Grid,
) -> Result<()> {
    commands.dispatch(&Dispatch {
        pipeline,
        library: None,
        arguments,
        threadgroup_memory: &[],
        grid,
    })
}

#[test]
fn every_thread_of_any_grid_runs_once() {
    let device = device();
    let threads = |threads, group| Grid::Threads { threads, group };
    let groups = |groups, group| Grid::Threadgroups { groups, group };
    let grids = [
        (threads([1, 1, 1], [1024, 1, 1]), 1),
        (threads([1000, 1, 1], [256, 1, 1]), 1000),
        (threads([33, 17, 5], [8, 8, 2]), 33 * 17 * 5),
        (groups([3, 2, 2], [16, 4, 1]), 48 * 8 * 2),
        (threads([1 << 20, 3, 1], [1024, 1, 1]), 3 << 20),
        (threads([3, 1 << 18, 2], [1, 512, 2]), 6 << 18),
    ];
    for pipeline in testing::both() {
        for (grid, count) in grids {
            let out = zeroed(&device, count + 1);
            let mut commands = device.command_buffer().unwrap();
            // Several times: the later ones know the cost, and are shared among threads.
            for _ in 0..3 {
                dispatch(&mut *commands, &pipeline, &[bound(&out, 0), bytes(5)], grid).unwrap();
            }
            commands.commit().unwrap().wait().unwrap();
            let (inside, behind) = words(&out).split_at(count);
            assert!(inside.iter().all(|&n| n == 15), "{pipeline:?} {grid:?}");
            assert_eq!(behind, [0], "{pipeline:?} {grid:?}");
        }
    }
}

#[test]
fn nothing_runs_before_the_commit_and_then_all_in_order() {
    let device = device();
    let [plain, _] = testing::both();
    let (a, b) = (zeroed(&device, 4), zeroed(&device, 4));
    let mut commands = device.command_buffer().unwrap();
    let grid = Grid::Threads { threads: [3, 1, 1], group: [3, 1, 1] };
    commands.fill((&a, 0), 16, 1).unwrap();
    dispatch(&mut *commands, &plain, &[bound(&a, 4), bytes(7)], grid).unwrap();
    commands.copy((&a, 4), (&b, 8), 8).unwrap();
    commands.fill((&a, 0), 16, 0).unwrap();
    dispatch(&mut *commands, &plain, &[bound(&b, 0), bytes(9)], grid).unwrap();
    assert_eq!(commands.command_count(), 5);
    assert_eq!((words(&a), words(&b)), (&[0; 4][..], &[0; 4][..]));
    let mut submission = commands.commit().unwrap();
    submission.wait().unwrap();
    assert!(submission.is_done());
    let ones = 0x0101_0101;
    assert_eq!(words(&a), [0; 4]);
    assert_eq!(words(&b), [9, 9, ones + 7 + 9, ones + 7]);
}

#[test]
fn inline_bytes_keep_their_values_however_many_there_are() {
    let device = device();
    let [plain, _] = testing::both();
    let out = zeroed(&device, 5000);
    let mut commands = device.command_buffer().unwrap();
    let grid = Grid::Threads { threads: [1, 1, 1], group: [1, 1, 1] };
    for i in 0..5000u32 {
        let mut long = i.to_le_bytes().to_vec();
        long.resize(4 + i as usize % 100, 0);
        let x = Some(Argument::Bytes(long.into()));
        dispatch(&mut *commands, &plain, &[bound(&out, 4 * i as usize), x], grid).unwrap();
    }
    commands.commit().unwrap().wait().unwrap();
    assert!(words(&out).iter().zip(0..).all(|(&n, i)| n == i));
}

#[test]
fn recorded_commands_keep_what_they_use() {
    let device = device();
    let [plain, _] = testing::both();
    let out = zeroed(&device, 1);
    let source = zeroed(&device, 1);
    let mut commands = device.command_buffer().unwrap();
    let grid = Grid::Threads { threads: [1, 1, 1], group: [1, 1, 1] };
    commands.fill((&source, 0), 1, 3).unwrap();
    dispatch(&mut *commands, &plain, &[bound(&out, 0), bound(&source, 0)], grid).unwrap();
    let address = source.contents();
    drop((source, plain));
    let other = device.allocate(4).unwrap();
    assert_ne!(other.contents(), address, "a command still uses it");
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(words(&out), [3]);
    assert_eq!(device.allocate(4).unwrap().contents(), address);
    drop((other, out));
    assert_eq!(device.pool_stats(), PoolStats { in_use: 0, ..device.pool_stats() });
}

#[test]
fn a_command_buffer_that_is_dropped_does_nothing() {
    let device = device();
    let out = zeroed(&device, 1);
    let mut commands = device.command_buffer().unwrap();
    commands.fill((&out, 0), 4, 1).unwrap();
    drop(commands);
    assert_eq!(words(&out), [0]);
    assert_eq!(Arc::strong_count(&out), 1);
    assert_eq!(device.command_buffer().unwrap().command_count(), 0);
}

#[test]
fn long_copies_and_fills_are_whole() {
    let device = device();
    let count = (3 * LONG + 12) / 4;
    let (a, b) = (zeroed(&device, count), zeroed(&device, count));
    let mut commands = device.command_buffer().unwrap();
    commands.fill((&a, 4), 3 * LONG, 1).unwrap();
    commands.copy((&a, 4), (&b, 8), 3 * LONG + 4).unwrap();
    commands.commit().unwrap().wait().unwrap();
    let expected = |first: usize| {
        (0..count).map(move |i| {
            let filled = (first..first + 3 * LONG / 4).contains(&i);
            if filled { 0x0101_0101 } else { 0 }
        })
    };
    assert!(words(&a).iter().copied().eq(expected(1)));
    assert!(words(&b).iter().copied().eq(expected(2)));
}

#[test]
fn ranges_that_leave_their_buffers_are_not_recorded() {
    let device = device();
    let (a, b) = (zeroed(&device, 4), zeroed(&device, 2));
    let mut commands = device.command_buffer().unwrap();
    for (result, text) in [
        (commands.fill((&a, 1), 16, 0), "destination of a fill: 16 bytes at offset 1"),
        (commands.fill((&a, usize::MAX), 2, 0), "destination of a fill"),
        (commands.copy((&a, 0), (&b, 0), 9), "destination of a copy: 9 bytes at offset 0"),
        (commands.copy((&b, 4), (&a, 0), 5), "source of a copy: 5 bytes at offset 4"),
        (commands.copy((&a, 0), (&a, 4), 8), "overlap"),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    // Nothing to do is nothing wrong.
    commands.copy((&a, 16), (&b, 8), 0).unwrap();
    commands.copy((&a, 0), (&a, 8), 8).unwrap();
    assert_eq!(commands.command_count(), 1);
}

#[test]
fn four_threads_dispatch_at_once() {
    let device = device();
    let pipelines = testing::both();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let out = zeroed(&device, 50_000);
                let grid = Grid::Threads { threads: [250, 200, 1], group: [32, 8, 1] };
                for _ in 0..10 {
                    let mut commands = device.command_buffer().unwrap();
                    for pipeline in &pipelines {
                        let arguments = [bound(&out, 0), bytes(1)];
                        dispatch(&mut *commands, pipeline, &arguments, grid).unwrap();
                    }
                    commands.commit().unwrap().wait().unwrap();
                }
                assert!(words(&out).iter().all(|&n| n == 20));
            });
        }
    });
}

#[test]
fn a_foreign_pipeline_is_refused() {
    #[derive(Debug)]
    struct Foreign;
    impl Pipeline for Foreign {
        fn name(&self) -> &str {
            "strange"
        }
        fn max_threads_per_threadgroup(&self) -> u32 {
            1
        }
        fn simd_width(&self) -> u32 {
            1
        }
        fn static_threadgroup_memory(&self) -> u32 {
            0
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    let mut commands = device().command_buffer().unwrap();
    let grid = Grid::Threads { threads: [1, 1, 1], group: [1, 1, 1] };
    let foreign: Arc<dyn Pipeline> = Arc::new(Foreign);
    let error = dispatch(&mut *commands, &foreign, &[], grid).unwrap_err();
    assert!(error.to_string().contains("\"strange\" was made by another device"), "{error}");
}
