//! The checked mode: what a kernel did that it must not do, told to people.
//!
//! Every kernel is compiled so that each load and store is looked at before it is done
//! (`msl/include/checked.h`). Memory of arguments may be used within the argument: a tensor's own
//! elements where the caller says which they are, else the rest of the buffer. Threadgroup memory
//! may be used within a variable, and not by two threads at once if one of them changes it, where
//! "at once" means with neither a threadgroup barrier nor a SIMD-group operation of both between.
//! Several threads may store the same value: generated kernels do.
//!
//! An access is known by its address alone: one that leaves its argument and lands in another
//! argument of the same call is seen only if it is a store and that one is read-only.

use std::fmt::Write as _;

use super::msl::{Fault, FaultKind, KernelInfo, Launch, Module, Threadgroup};
use super::pipeline::{HostPipeline, Parameter};
use crate::Error;
use crate::error::err;

/// What a pipeline of the checked mode knows beyond others.
#[derive(Debug)]
pub struct Checks {
    /// The kernel's source.
    pub module: Module,
    /// A bit for each buffer index that the kernel may write to.
    pub writable: u32,
}

impl Checks {
    /// Those of the kernel `info` of `module`.
    pub fn new(module: &Module, info: &KernelInfo) -> Checks {
        let bits = info.parameters.iter().filter_map(|parameter| parameter.writable_buffer());
        Checks { module: module.clone(), writable: bits.fold(0, |mask, index| mask | 1 << index) }
    }
}

/// The error of a dispatch that `fault` stopped.
pub fn error(pipeline: &HostPipeline, launch: &Launch, fault: &Fault) -> Error {
    let access = Access { pipeline, launch, fault };
    // SAFETY: the pipeline holds the kernel's code.
    let mut text = match unsafe { fault.kind() } {
        FaultKind::Memory { address } => access.memory(address),
        FaultKind::ReadOnly { address } => access.read_only(address),
        FaultKind::Threadgroup(at) => access.threadgroup(&at),
        FaultKind::Race { at, other_thread, other_is_store, other_place } => {
            access.race(&at, other_thread, other_is_store, other_place)
        }
    };
    _ = write!(text, "\nby {}, {}", access.thread(fault.thread), access.group());
    err!(Execution, "{text}")
}

/// A bad access and where it was made.
struct Access<'a> {
    pipeline: &'a HostPipeline,
    launch: &'a Launch,
    fault: &'a Fault,
}

/// An argument of the dispatch.
struct Bound {
    index: usize,
    address: u64,
    bytes: u64,
}

/// Bytes from an argument, beyond its own size, from which on it is no more than a guess that it
/// was meant.
const FAR: u64 = 1 << 20;

impl Bound {
    /// Bytes between it and `address`.
    fn distance(&self, address: u64) -> u64 {
        match address.checked_sub(self.address) {
            None => self.address - address,
            Some(offset) => offset.saturating_sub(self.bytes),
        }
    }
}

impl Access<'_> {
    /// A load or store outside of every argument.
    fn memory(&self, address: u64) -> String {
        let outside = format!("{} out of bounds", self.what(self.fault.is_store()));
        let Some(bound) = self.nearest(address) else {
            return format!("{outside}: the kernel has no buffers{}", self.at_place());
        };
        let offset = address.wrapping_sub(bound.address).cast_signed();
        let far = if bound.distance(address) > bound.bytes.saturating_add(FAR) {
            "far from every argument; the nearest is "
        } else {
            ""
        };
        format!(
            "{outside}: {far}{} of {} bytes, accessed at byte offset {offset}{}",
            self.argument(bound.index),
            bound.bytes,
            self.at_place()
        )
    }

    /// A store to an argument that is read-only.
    fn read_only(&self, address: u64) -> String {
        let store = self.what(true);
        let within = |bound: &Bound| {
            address.checked_sub(bound.address).is_some_and(|offset| offset < bound.bytes)
        };
        let Some(bound) = self.bound().into_iter().find(within) else {
            return format!("{store} to a read-only argument{}", self.at_place());
        };
        format!(
            "{store} out of bounds: it hits the read-only {} of {} bytes at byte offset {}{}",
            self.argument(bound.index),
            bound.bytes,
            address - bound.address,
            self.at_place()
        )
    }

    /// A load or store outside of threadgroup memory.
    fn threadgroup(&self, at: &Threadgroup<'_>) -> String {
        format!(
            "{} out of bounds: {} of {} bytes, accessed at byte offset {}{}",
            self.what(self.fault.is_store()),
            self.variable(at),
            at.bytes,
            at.offset,
            self.at_place()
        )
    }

    /// Two accesses without a barrier between them.
    fn race(
        &self,
        at: &Threadgroup<'_>,
        other_thread: u32,
        other_is_store: bool,
        other_place: u32,
    ) -> String {
        format!(
            "missing barrier: {} at byte offset {} of {} of {} bytes{}\nwhich {} has {}{}",
            self.what(self.fault.is_store()),
            at.offset,
            self.variable(at),
            at.bytes,
            self.at_place(),
            self.thread(other_thread),
            if other_is_store { "stored to" } else { "loaded" },
            self.place(other_place),
        )
    }

    /// `store of 4 bytes`.
    fn what(&self, is_store: bool) -> String {
        let bytes = self.fault.bytes;
        let kind = if is_store { "store" } else { "load" };
        format!("{kind} of {bytes} byte{}", if bytes == 1 { "" } else { "s" })
    }

    fn bound(&self) -> Vec<Bound> {
        (0..self.launch.buffer_count as usize)
            .map(|index| {
                // SAFETY: the launch has that many addresses and sizes.
                let (address, bytes) =
                    unsafe { (*self.launch.buffers.add(index), *self.launch.sizes.add(index)) };
                Bound { index, address: address.addr() as u64, bytes }
            })
            .filter(|bound| bound.address != 0)
            .collect()
    }

    /// The argument whose memory is nearest to `address`, and that the kernel may store to if it
    /// is a store.
    fn nearest(&self, address: u64) -> Option<Bound> {
        let writable = |index: usize| self.launch.writable >> index & 1 != 0;
        let fits = |bound: &Bound| !self.fault.is_store() || writable(bound.index);
        self.bound().into_iter().filter(fits).min_by_key(|bound| bound.distance(address))
    }

    /// `buffer(0) "out"`.
    fn argument(&self, index: usize) -> String {
        let found = self.pipeline.buffers.iter().find(|p| p.index as usize == index);
        format!("buffer({index}){}", named(found))
    }

    fn variable(&self, at: &Threadgroup<'_>) -> String {
        if let Some(name) = at.variable {
            return format!("threadgroup variable {:?}", name.to_string_lossy());
        }
        let found = self.pipeline.threadgroups.iter().find(|p| p.index == at.argument);
        format!("threadgroup({}){}", at.argument, named(found))
    }

    /// The thread by its positions.
    fn thread(&self, index: u32) -> String {
        let Launch { grid, group, .. } = *self.launch;
        let first: [u32; 3] = std::array::from_fn(|i| self.fault.group[i] * group[i]);
        // Threadgroups at the edges are smaller.
        let size: [u32; 3] = std::array::from_fn(|i| group[i].min(grid[i] - first[i]).max(1));
        let [x, row] = [index % size[0], index / size[0]];
        let in_group = [x, row % size[1], row / size[1]];
        let in_grid: [u32; 3] = std::array::from_fn(|i| first[i] + in_group[i]);
        format!("the thread at {in_grid:?} of the grid, {in_group:?} of its threadgroup")
    }

    fn group(&self) -> String {
        format!("threadgroup {:?}", self.fault.group)
    }

    fn at_place(&self) -> String {
        self.place(self.fault.place)
    }

    /// The line of an instruction, as compilers tell it; nothing where it is not known.
    fn place(&self, instruction: u32) -> String {
        let checks = self.pipeline.checks.as_ref();
        let found = checks.and_then(|c| c.module.place(&self.pipeline.code, instruction));
        match found {
            Some((place, text)) if place.column > 0 => {
                format!(", in MSL line {}:{}:\n    {text}", place.line, place.column)
            }
            Some((place, text)) => format!(", in MSL line {}:\n    {text}", place.line),
            None => String::new(),
        }
    }
}

fn named(parameter: Option<&Parameter>) -> String {
    parameter.map(|p| format!(" {:?}", p.name)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
