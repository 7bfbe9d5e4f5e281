//! Checks of launches.

use super::super::testing::{add_plain, pipeline};
use super::super::{HostDevice, Options};
use super::*;
use crate::device::Device;

fn kernel() -> HostPipeline {
    pipeline("k", add_plain, LaunchMode::Plain)
}

fn geometry(grid: Grid) -> Result<Option<Geometry>> {
    Geometry::new(&kernel(), &grid)
}

#[test]
fn groups_at_the_edges_count() {
    let threads = Grid::Threads { threads: [10, 7, 1], group: [4, 7, 1] };
    let expected = Geometry { grid: [10, 7, 1], group: [4, 7, 1], groups: [3, 1, 1] };
    assert_eq!(geometry(threads).unwrap(), Some(expected));
    let groups = Grid::Threadgroups { groups: [3, 1, 1], group: [4, 7, 1] };
    let expected = Geometry { grid: [12, 7, 1], group: [4, 7, 1], groups: [3, 1, 1] };
    assert_eq!(geometry(groups).unwrap(), Some(expected));
}

#[test]
fn a_grid_without_threads_is_nothing_to_do() {
    for threads in [[0, 1, 1], [5, 0, 1], [5, 5, 0]] {
        assert_eq!(geometry(Grid::Threads { threads, group: [0; 3] }).unwrap(), None);
    }
    let groups = Grid::Threadgroups { groups: [0, 1, 1], group: [2000, 1, 1] };
    assert_eq!(geometry(groups).unwrap(), None);
}

#[test]
fn threadgroups_keep_to_the_limits() {
    let refused = |group| {
        let grid = Grid::Threads { threads: [9, 9, 9], group };
        geometry(grid).unwrap_err().to_string()
    };
    let text = refused([32, 32, 2]);
    assert!(text.contains("kernel \"k\"") && text.contains("32x32x2"), "{text}");
    assert!(text.contains("1024 threads that the device allows"), "{text}");
    assert!(refused([u32::MAX; 3]).contains("1024"));
    assert!(refused([8, 0, 1]).contains("no threads"));
    let small = HostPipeline { max_threads: 64, ..kernel() };
    let grid = Grid::Threads { threads: [9, 9, 9], group: [65, 1, 1] };
    let text = Geometry::new(&small, &grid).unwrap_err().to_string();
    assert!(text.contains("64 threads that the kernel allows"), "{text}");
}

#[test]
fn threads_must_have_numbers() {
    let grid = Grid::Threads { threads: [u32::MAX; 3], group: [1; 3] };
    assert!(geometry(grid).unwrap_err().to_string().contains("numbered"));
    let grid = Grid::Threadgroups { groups: [1 << 30, 1, 1], group: [1024, 1, 1] };
    assert!(geometry(grid).unwrap_err().to_string().contains("1073741824x1x1"));
    let grid = Grid::Threads { threads: [u32::MAX, 1, 1], group: [1024, 1, 1] };
    assert!(geometry(grid).unwrap().is_some());
}

#[test]
fn arguments_are_bound_inside_their_buffers() {
    let device =
        HostDevice::new(Options { threads: 1, pool_bytes: 0, checked: false, fission: true });
    let buffer = device.allocate(100).unwrap();
    let at = |offset| {
        Some(Argument::Buffer { buffer: buffer.clone(), offset, extent: None, dtype: None })
    };
    let bytes = |n| Some(Argument::Bytes(smallvec::smallvec![0; n]));
    let check = |arguments: &[Option<Argument>]| check_arguments(&kernel(), arguments);
    check(&[at(100), at(96)]).unwrap();
    check(&[at(0), bytes(4096)]).unwrap();
    check(&[at(0), at(0), None, at(3)]).unwrap();
    for (arguments, text) in [
        (vec![], "buffer(0) \"out\": nothing is bound"),
        (vec![at(0)], "buffer(1) \"x\": nothing is bound"),
        (vec![None, at(0)], "buffer(0) \"out\": nothing is bound"),
        (vec![at(101), at(0)], "buffer(0) \"out\": offset 101 lies behind the end of a buffer"),
        (vec![at(0), at(0), at(200)], "buffer(2): offset 200"),
        (vec![at(6), at(0)], "buffer(0) \"out\": offset 6 is no multiple of the 4 bytes"),
        (vec![at(0), at(100)], "buffer(1) \"x\": 0 bytes are bound to it, but the kernel reads 4"),
        (vec![at(0), bytes(3)], "buffer(1) \"x\": 3 bytes are bound to it"),
        (vec![at(0), bytes(4097)], "buffer(1) \"x\": 4097 inline bytes exceed the 4096"),
        (vec![at(0); 32], "32 buffer arguments exceed the 31"),
    ] {
        let error = check(&arguments).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("kernel \"k\""), "{error}");
    }
}

#[test]
fn threadgroup_memory_keeps_to_the_limits() {
    let parameter = Parameter { index: 1, name: "tile".to_owned(), alignment: 1, bytes: 0 };
    let tiled = HostPipeline { threadgroups: vec![parameter], static_memory: 16384, ..kernel() };
    assert_eq!(threadgroup_lengths(&kernel(), &[]).unwrap(), [0; 8]);
    let lengths = threadgroup_lengths(&tiled, &[0, 16384]).unwrap();
    assert_eq!(lengths, [0, 16384, 0, 0, 0, 0, 0, 0]);
    for (lengths, text) in [
        (&[0, 16400][..], "32784 bytes of threadgroup memory (16384 that the kernel declares"),
        (&[u32::MAX - 15, u32::MAX - 15], "exceed the 32768"),
        (&[16, 8], "threadgroup(1): 8 bytes are no multiple of 16"),
        (&[16, 0], "threadgroup(1) \"tile\" has no length"),
        (&[16], "threadgroup(1) \"tile\" has no length"),
        (&[16; 9], "9 threadgroup arguments"),
    ] {
        let error = threadgroup_lengths(&tiled, lengths).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("kernel \"k\""), "{error}");
    }
}
