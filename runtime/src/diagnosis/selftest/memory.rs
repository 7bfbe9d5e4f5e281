//! Buffers, memory of others, copies, fills, the order of commands.

use std::sync::Arc;

use super::{Measured, Planned, Session, planned};
use crate::Result;
use crate::device::{Argument, BufferRef, CommandBuffer, Dispatch, Grid, Pipeline};

const SOURCE: &str = "#include <metal_stdlib>
using namespace metal;
kernel void add(device uint* out [[buffer(0)]], constant uint& x [[buffer(1)]],
                uint i [[thread_position_in_grid]]) { out[i] += x; }";

/// The checks.
pub fn checks() -> Vec<Planned> {
    vec![
        planned("memory", "buffers of any length", lengths),
        planned("memory", "commands in their order", order),
        planned("memory", "command buffers one after the other", continued),
        planned("memory", "a buffer is not used again too early", reuse),
        planned("memory", "no-copy: whole pages", |session| no_copy(session, 0, 16 << 10)),
        planned("memory", "no-copy: from within a page", |session| no_copy(session, 12, 400)),
        planned("memory", "no-copy: across pages", |session| no_copy(session, 20_000, 40_000)),
        planned("memory", "copies at any place", copies),
        planned("memory", "fills at any place", fills),
    ]
}

#[expect(clippy::mut_from_ref, reason = "a buffer is a reference to memory")]
fn bytes(buffer: &BufferRef) -> &mut [u8] {
    // SAFETY: checks look at buffers only between the work of the device.
    unsafe { std::slice::from_raw_parts_mut(buffer.contents(), buffer.len()) }
}

fn word(buffer: &BufferRef, index: usize) -> u32 {
    let word = bytes(buffer)[4 * index..][..4].try_into();
    word.map_or(u32::MAX, u32::from_ne_bytes)
}

fn adder(session: &Session) -> Result<Arc<dyn Pipeline>> {
    session.device.compile(SOURCE)?.pipeline("add")
}

/// Encodes `out[i] += x` for words from a byte on.
fn add(
    commands: &mut dyn CommandBuffer,
    pipeline: &Arc<dyn Pipeline>,
    (out, offset): (&BufferRef, usize),
    x: u32,
    threads: u32,
) -> Result<()> {
    let buffer = out.clone();
    let bytes = x.to_ne_bytes().as_slice().into();
    let arguments = [
        Some(Argument::Buffer { buffer, offset, extent: None, dtype: None }),
        Some(Argument::Bytes(bytes)),
    ];
    commands.dispatch(&Dispatch {
        pipeline,
        library: None,
        arguments: &arguments,
        threadgroup_memory: &[],
        grid: Grid::Threads { threads: [threads, 1, 1], group: [threads.min(32), 1, 1] },
    })
}

fn lengths(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    for len in [0, 1, 3, 4, 100, 4096, 16 << 10, (1 << 20) + 1] {
        let buffer = session.device.allocate(len)?;
        let address = buffer.contents().addr();
        let good = buffer.len() == len && address != 0 && address.is_multiple_of(64);
        measured.require(good, || format!("{len} bytes at {address:#x}"));
        bytes(&buffer).fill(7);
    }
    Ok(measured)
}

fn order(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let add_to = adder(session)?;
    let (a, b) = (session.device.allocate(256)?, session.device.allocate(256)?);
    bytes(&a).fill(0);
    bytes(&b).fill(0);
    let mut commands = session.device.command_buffer()?;
    add(&mut *commands, &add_to, (&a, 0), 2, 64)?;
    commands.copy((&a, 16), (&b, 32), 128)?;
    add(&mut *commands, &add_to, (&b, 32), 10, 16)?;
    commands.fill((&a, 8), 8, 0xFF)?;
    add(&mut *commands, &add_to, (&a, 8), 1, 1)?;
    commands.commit()?.wait()?;
    for i in 0..64 {
        let in_a = [2, 0, u32::MAX][usize::from(i == 2) + 2 * usize::from(i == 3)];
        let in_b =
            [0, 2, 12][usize::from((8..40).contains(&i)) + usize::from((8..24).contains(&i))];
        let got = (word(&a, i), word(&b, i));
        measured.require(got == (in_a, in_b), || format!("word {i}: {got:?}, not {in_a}, {in_b}"));
    }
    Ok(measured)
}

fn continued(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let add_to = adder(session)?;
    let out = session.device.allocate(4)?;
    bytes(&out).fill(0);
    let mut works = Vec::new();
    let mut commands = session.device.command_buffer()?;
    for _ in 0..20 {
        add(&mut *commands, &add_to, (&out, 0), 3, 1)?;
        let (work, next) = commands.commit_and_continue()?;
        works.push(work);
        commands = match next {
            Some(next) => next,
            None => session.device.command_buffer()?,
        };
    }
    drop(commands);
    works.iter_mut().try_for_each(|work| work.wait())?;
    measured.require(works.iter().all(|work| work.is_done()), || "work is not done".into());
    measured.require(word(&out, 0) == 60, || format!("{}, not 60", word(&out, 0)));
    Ok(measured)
}

fn reuse(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    let add_to = adder(session)?;
    let out = session.device.allocate(1 << 20)?;
    bytes(&out).fill(0);
    let mut commands = session.device.command_buffer()?;
    for _ in 0..50 {
        add(&mut *commands, &add_to, (&out, 0), 1, 1 << 18)?;
    }
    let mut work = commands.commit()?;
    let address = out.contents();
    // The work still uses it, or it has ended.
    let weak = Arc::downgrade(&out);
    drop(out);
    let other = session.device.allocate(1 << 20)?;
    let in_use = weak.upgrade().is_some();
    measured.require(!in_use || other.contents() != address, || "it was given out twice".into());
    work.wait()?;
    drop(work);
    // A handler of the device may be about to let go of it.
    let gone = (0..1000).any(|_| {
        let gone = weak.upgrade().is_none();
        if !gone {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        gone
    });
    measured.require(gone, || "it did not return".into());
    Ok(measured)
}

fn no_copy(session: &Session, lead: usize, len: usize) -> Result<Measured> {
    let mut measured = Measured::default();
    let page = 16 << 10;
    let owner = Arc::new(vec![0u32; (lead + len + 2 * page) / 4]);
    let weak = Arc::downgrade(&owner);
    let start = owner.as_ptr().cast::<u8>().cast_mut();
    let start = start.wrapping_add(start.align_offset(page) + lead);
    // SAFETY: the owner is kept by the buffer, and nobody else uses its bytes.
    let buffer = unsafe { session.device.wrap(start, len, Some(owner.clone())) }?;
    let same = (buffer.contents(), buffer.len()) == (start, len);
    measured.require(same, || "it lies elsewhere".into());
    let add_to = adder(session)?;
    let words = len / 4 - 2;
    let mut commands = session.device.command_buffer()?;
    add(&mut *commands, &add_to, (&buffer, 4), 9, words as u32)?;
    commands.commit()?.wait()?;
    for i in 0..len / 4 {
        let wanted = if (1..=words).contains(&i) { 9 } else { 0 };
        let got = word(&buffer, i);
        measured.require(got == wanted, || format!("word {i} is {got}, not {wanted}"));
    }
    let sum: u64 = owner.iter().map(|&word| u64::from(word)).sum();
    measured.require(sum == 9 * words as u64, || "bytes beside it changed".into());
    drop((buffer, owner));
    measured.require(weak.upgrade().is_none(), || "its owner is kept".into());
    Ok(measured)
}

fn copies(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    for (from_at, to_at, len) in [(0, 0, 64), (4, 8, 40), (1, 3, 7), (2, 0, 33), (5, 5, 1)] {
        let (from, to) = (session.device.allocate(80)?, session.device.allocate(80)?);
        bytes(&from).iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8 + 1);
        bytes(&to).fill(0);
        let mut commands = session.device.command_buffer()?;
        commands.copy((&from, from_at), (&to, to_at), len)?;
        commands.commit()?.wait()?;
        for i in 0..80 {
            let copied = (to_at..to_at + len).contains(&i);
            let wanted = if copied { (i + from_at - to_at) as u8 + 1 } else { 0 };
            let got = bytes(&to)[i];
            measured.require(got == wanted, || {
                format!("{len} bytes from {from_at} to {to_at}: byte {i} is {got}, not {wanted}")
            });
        }
    }
    Ok(measured)
}

fn fills(session: &Session) -> Result<Measured> {
    let mut measured = Measured::default();
    for (at, len, value) in [(0, 64, 0), (8, 24, 0xFF), (3, 5, 1), (4, 6, 2), (79, 1, 3)] {
        let buffer = session.device.allocate(80)?;
        bytes(&buffer).fill(0x55);
        let mut commands = session.device.command_buffer()?;
        commands.fill((&buffer, at), len, value)?;
        commands.commit()?.wait()?;
        for (i, &got) in bytes(&buffer).iter().enumerate() {
            let wanted = if (at..at + len).contains(&i) { value } else { 0x55 };
            measured.require(got == wanted, || {
                format!("{len} bytes at {at}: byte {i} is {got:#x}, not {wanted:#x}")
            });
        }
    }
    Ok(measured)
}
