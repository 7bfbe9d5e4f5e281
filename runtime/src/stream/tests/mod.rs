//! Streams on the host device.

mod failing_device;

use super::*;
use crate::device::host::HostDevice;
use crate::kernel::Kernel;
use crate::library::testing::adders;
use crate::ops::testing::{contiguous, values};
use crate::profile::{TensorUse, Threads, WorkKind};
use crate::tensor::{DType, Tensor};

fn stream(flush_interval: usize) -> Stream {
    let device: Arc<dyn Device> = HostDevice::shared();
    Stream::with_flush_interval(device, flush_interval)
}

fn numbers(values: &[f64]) -> Tensor {
    contiguous(DType::U32, &[values.len() as i64], values)
}

/// Encodes `out[i] += x` as a model does.
fn add(stream: &Stream, kernel: &Kernel, out: &Tensor, x: u32) -> Result<()> {
    stream.start_encoding(kernel);
    stream.encode_arguments(kernel, |a| a.tensor(0, out))?;
    stream.encode_arguments(kernel, |a| a.u32(1, x))?;
    stream.dispatch_encoded(kernel, kernel.grid_1d(out.numel() as u64, None)?)
}

#[test]
fn nothing_runs_before_it_is_committed() {
    let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
    let out = numbers(&[1.0, 2.0]);
    add(&stream, &kernel, &out, 10).unwrap();
    assert_eq!((stream.pending(), stream.is_idle()), (1, false));
    assert_eq!(values(&out), [1.0, 2.0]);
    stream.commit_and_wait().unwrap();
    assert_eq!(values(&out), [11.0, 12.0]);
    assert!(stream.is_idle());
    let stats = stream.stats();
    assert_eq!((stats.dispatches, stats.commits, stats.waits), (1, 1, 1));
}

#[test]
fn a_full_command_buffer_commits_itself() {
    let (stream, kernel) = (stream(3), adders("l").kernel("add_plain").unwrap());
    let out = numbers(&[0.0]);
    for _ in 0..7 {
        add(&stream, &kernel, &out, 1).unwrap();
    }
    assert_eq!((stream.stats().commits, stream.pending()), (2, 1));
    stream.commit().unwrap();
    stream.commit().unwrap();
    assert_eq!(stream.stats().commits, 3, "an empty command buffer is not committed");
    stream.commit_and_wait().unwrap();
    assert_eq!(values(&out), [7.0]);
    stream.commit_and_continue().unwrap();
    assert!(stream.is_idle());
}

#[test]
fn arguments_stay_set_for_the_next_dispatch_of_a_call() {
    let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
    let (a, b) = (numbers(&[0.0, 0.0]), numbers(&[0.0, 0.0]));
    add(&stream, &kernel, &a, 5).unwrap();
    stream.encode_arguments(&kernel, |args| args.tensor(0, &b)).unwrap();
    stream.dispatch_encoded(&kernel, kernel.grid_1d(1, None).unwrap()).unwrap();
    stream.commit_and_wait().unwrap();
    assert_eq!((values(&a), values(&b)), (vec![5.0, 5.0], vec![5.0, 0.0]));
}

#[test]
fn a_new_call_begins_without_arguments() {
    let (stream, library) = (stream(100), adders("l"));
    let (plain, groups) =
        (library.kernel("add_plain").unwrap(), library.kernel("add_groups").unwrap());
    let out = numbers(&[0.0]);
    add(&stream, &plain, &out, 5).unwrap();
    stream.start_encoding(&groups);
    let grid = groups.grid_1d(1, None).unwrap();
    let text = stream.dispatch_encoded(&groups, grid).unwrap_err().to_string();
    assert!(text.contains("add_groups"), "{text}");
    assert_eq!(stream.pending(), 1, "what was refused is not encoded");
}

#[test]
fn encoding_out_of_order_is_refused_by_name() {
    let (stream, library) = (stream(100), adders("lib"));
    let (plain, groups) =
        (library.kernel("add_plain").unwrap(), library.kernel("add_groups").unwrap());
    let text = stream.encode_arguments(&plain, |a| a.u32(0, 1)).unwrap_err().to_string();
    assert!(text.contains("add_plain") && text.contains("start encoding"), "{text}");
    stream.start_encoding(&plain);
    let text = stream.encode_arguments(&groups, |a| a.u32(0, 1)).unwrap_err().to_string();
    assert!(text.contains("add_plain") && text.contains("add_groups"), "{text}");
    stream.end_encoding();
    assert!(stream.dispatch_encoded(&plain, plain.grid_1d(1, None).unwrap()).is_err());
}

#[test]
fn an_empty_grid_encodes_nothing() {
    let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
    add(&stream, &kernel, &numbers(&[]), 1).unwrap();
    assert_eq!(stream.pending(), 0);
}

#[test]
fn work_keeps_the_buffers_that_it_uses() {
    let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
    let out = numbers(&[1.0; 4]);
    let buffer = Arc::downgrade(out.storage().buffer());
    add(&stream, &kernel, &out, 1).unwrap();
    stream.end_encoding();
    drop(out);
    assert!(buffer.upgrade().is_some(), "the recorded command holds it");
    stream.commit_and_wait().unwrap();
    assert!(buffer.upgrade().is_none(), "and nothing holds it after that");
}

#[test]
fn copies_and_fills_are_checked_and_counted() {
    let stream = stream(100);
    let (a, b) = (numbers(&[1.0, 2.0]), numbers(&[3.0, 4.0]));
    let (from, to) = (a.storage().buffer(), b.storage().buffer());
    stream.copy((from, 4), (to, 0), 4).unwrap();
    stream.fill((to, 4), 1, 0xff).unwrap();
    assert!(stream.copy((from, 0), (to, 1 << 20), 4).is_err());
    stream.copy((from, 0), (to, 0), 0).unwrap();
    stream.commit_and_wait().unwrap();
    assert_eq!(values(&b), [2.0, 255.0]);
    assert_eq!((stream.stats().copies, stream.stats().fills), (1, 1));
}

#[test]
fn commands_are_described_while_profiling() {
    use crate::profile::testing::{events_of, span_names, works};
    let (stream, kernel) = (stream(100), adders("lib").kernel("add_plain").unwrap());
    let (out, b) = (numbers(&[1.0, 2.0, 3.0]), numbers(&[0.0]));
    add(&stream, &kernel, &b, 1).unwrap();
    let events = events_of(|| {
        add(&stream, &kernel, &out, 1).unwrap();
        stream.fill((b.storage().buffer(), 0), 4, 0).unwrap();
        stream.commit_and_wait().unwrap();
    });
    let names = span_names(&events);
    assert_eq!(names, ["encode lib.add_plain", "encode fill", "commit", "wait"]);
    let [kernel, fill] = &works(&events)[..] else { panic!("only these two: {events:?}") };
    assert_eq!((kernel.kind, kernel.name.as_str()), (WorkKind::Kernel, "lib.add_plain"));
    assert_eq!(kernel.tensors, [TensorUse::new(DType::U32, &[3], &[1])]);
    let threads = Threads { grid: [3, 1, 1], group: [3, 1, 1] };
    assert_eq!((kernel.bytes, kernel.threads), (12, Some(threads)));
    assert_eq!((fill.kind, fill.bytes), (WorkKind::Fill, 4));
}

#[test]
fn what_was_discarded_does_not_run() {
    let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
    let out = numbers(&[1.0]);
    add(&stream, &kernel, &out, 1).unwrap();
    stream.discard();
    stream.commit_and_wait().unwrap();
    assert_eq!(values(&out), [1.0]);
}

#[test]
fn the_current_stream_is_the_innermost_of_the_thread() {
    assert!(Stream::try_current().is_none());
    assert!(Stream::current().unwrap_err().to_string().contains("no stream is current"));
    let (outer, inner) = (stream(1), stream(2));
    let first = outer.enter();
    let second = inner.enter();
    let is = |s: &Stream| Rc::ptr_eq(&Stream::current().unwrap().0, &s.0);
    assert!(is(&inner));
    std::thread::spawn(|| assert!(Stream::try_current().is_none())).join().unwrap();
    drop(first);
    assert!(is(&inner), "guards may be dropped in any order");
    drop(second);
    assert!(Stream::try_current().is_none());
}

#[test]
fn argument_tables_are_used_again_and_hold_nothing_meanwhile() {
    let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
    let tables = || {
        let out = numbers(&[0.0; 4]);
        let mut addresses: Vec<_> = (1..=5)
            .map(|x| {
                add(&stream, &kernel, &out, x).unwrap();
                let mut address = std::ptr::null();
                let note = |arguments: &mut crate::kernel::Arguments| {
                    address = Rc::as_ptr(arguments.table());
                    Ok(())
                };
                stream.encode_current(note).unwrap();
                address
            })
            .collect();
        stream.commit_and_wait().unwrap();
        assert_eq!(values(&out), [15.0; 4]);
        stream.end_encoding();
        let buffer = Arc::downgrade(out.storage().buffer());
        drop(out);
        assert!(buffer.upgrade().is_none());
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 5, "each call that is encoded has its own");
        addresses
    };
    let first = tables();
    let again = tables();
    // That of the last call belonged to the encoding, which was ended.
    assert!(again.iter().filter(|table| first.contains(table)).count() >= 4);
}

#[test]
fn a_lent_kernels_call_is_found_by_its_handle() {
    let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
    let table = crate::tensor::HandleTable::new(5, "thing");
    let (handle, other) = (table.insert(Arc::new(1)), table.insert(Arc::new(2)));
    assert!(!stream.is_encoding(handle));
    assert!(stream.encode_current(|_| Ok(())).unwrap_err().to_string().contains("start encoding"));
    stream.start_encoding_lent(&kernel, handle);
    assert!(stream.is_encoding(handle) && !stream.is_encoding(other));
    let out = numbers(&[1.0]);
    stream.encode_current(|a| a.tensor(0, &out)).unwrap();
    stream.encode_current(|a| a.u32(1, 7)).unwrap();
    stream.dispatch_current(|kernel| kernel.grid_1d(1, None)).unwrap();
    let text = stream.dispatch_current(|k| k.grid_1d(1, Some(0))).unwrap_err().to_string();
    assert!(text.contains("add_plain"), "{text}");
    stream.commit_and_wait().unwrap();
    assert_eq!(values(&out), [8.0]);
    stream.start_encoding(&kernel);
    assert!(!stream.is_encoding(handle), "another call began");
    assert!(!stream.is_encoding(crate::tensor::RawHandle::NULL), "no handle is none");
}
