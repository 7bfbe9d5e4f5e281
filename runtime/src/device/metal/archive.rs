//! Compiled pipelines on disk: one `MTLBinaryArchive` for each shader source, so that a later run
//! does not compile the GPU's code again.
//!
//! An archive only saves time. Whatever goes wrong with it, the pipeline is compiled without; one
//! that cannot be read is removed and made again.

use std::fs;
use std::path::{Path, PathBuf};

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLComputePipelineDescriptor, MTLDevice,
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::errors::guarded;
use super::shared::Shared;
use crate::error::err;

type Raw = ProtocolObject<dyn MTLBinaryArchive>;

/// The archive of one source.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    raw: Shared<Raw>,
    /// Whether pipelines were added that are not on disk.
    dirty: bool,
}

impl Archive {
    /// The archive of `source` in the folder; `None` where this device has none.
    pub fn open(
        device: &ProtocolObject<dyn MTLDevice>,
        folder: &Path,
        source: &str,
    ) -> Option<Archive> {
        let path = folder.join(format!("{}.metalar", key(device, source)));
        let raw = if path.exists() {
            load(device, Some(&path)).or_else(|| {
                let _ = fs::remove_file(&path);
                load(device, None)
            })
        } else {
            load(device, None)
        };
        Some(Archive { path, state: Mutex::new(State { raw: Shared::new(raw?), dirty: false }) })
    }

    /// What `make` gives while pipelines of this descriptor look into the archive. Meanwhile
    /// nobody else uses it: Metal does not say that several threads may.
    pub fn search<R>(
        &self,
        descriptor: &MTLComputePipelineDescriptor,
        make: impl FnOnce() -> Option<R>,
    ) -> Option<R> {
        let state = self.state.lock();
        let archives: Retained<NSArray<Raw>> = NSArray::from_slice(&[&*state.raw]);
        descriptor.setBinaryArchives(Some(&archives));
        let found = make();
        descriptor.setBinaryArchives(None);
        found
    }

    /// Adds the pipeline of a descriptor; [`Archive::save`] writes it.
    pub fn add(&self, descriptor: &MTLComputePipelineDescriptor) {
        let mut state = self.state.lock();
        let added = guarded("adding to a binary archive", || {
            state
                .raw
                .addComputePipelineFunctionsWithDescriptor_error(descriptor)
                .map_err(|error| err!(System, "{}", super::errors::text(&error)))
        });
        state.dirty |= added.is_ok();
    }

    /// Writes what was added, under a temporary name and then in place.
    pub fn save(&self) {
        let mut state = self.state.lock();
        if !state.dirty {
            return;
        }
        // Not tried again if it fails: the next run compiles, and tries to save, anew.
        state.dirty = false;
        let temporary = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let written = guarded("writing a binary archive", || {
            state
                .raw
                .serializeToURL_error(&url(&temporary))
                .map_err(|error| err!(System, "{}", super::errors::text(&error)))
        });
        if written.is_err() || fs::rename(&temporary, &self.path).is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }
}

/// The archive in a file, or an empty one.
fn load(device: &ProtocolObject<dyn MTLDevice>, path: Option<&Path>) -> Option<Retained<Raw>> {
    guarded("opening a binary archive", || {
        let descriptor = MTLBinaryArchiveDescriptor::new();
        descriptor.setUrl(path.map(url).as_deref());
        device
            .newBinaryArchiveWithDescriptor_error(&descriptor)
            .map_err(|error| err!(System, "{}", super::errors::text(&error)))
    })
    .ok()
}

fn url(path: &Path) -> Retained<NSURL> {
    NSURL::fileURLWithPath(&NSString::from_str(&path.to_string_lossy()))
}

/// Names an archive by all that decides what is in it: the source, how this version compiles it,
/// the GPU, and the system's build.
fn key(device: &ProtocolObject<dyn MTLDevice>, source: &str) -> String {
    let mut hash = Sha256::new();
    for part in [
        env!("CARGO_PKG_VERSION"),
        &device.name().to_string(),
        &system_build().unwrap_or_default(),
        source,
    ] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The build of the operating system, such as `23F79`.
fn system_build() -> Option<String> {
    crate::device::host::system_text(c"kern.osversion")
}
