//! MTLBinaryArchive: a list of functions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use objc2::rc::{Allocated, Retained};
use objc2::runtime::{AnyObject, NSObject, NSObjectProtocol};
use objc2::{AnyThread, DefinedClass, define_class, msg_send};
use objc2_foundation::{NSError, NSURL};
use objc2_metal::{MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLComputePipelineDescriptor};

use super::library::PipelineDescriptor;
use crate::foundation::errors::give;
use crate::foundation::url::Url;

/// What a file of ours begins with.
const HEADER: &str = "stand-in archive\n";

define_class!(
    /// Where an archive is read from.
    #[unsafe(super(NSObject))]
    #[name = "MTLBinaryArchiveDescriptor"]
    #[ivars = Mutex<Option<PathBuf>>]
    pub struct ArchiveDescriptor;

    impl ArchiveDescriptor {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(Mutex::default());
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(setUrl:))]
        fn set_url(&self, url: Option<&NSURL>) {
            *self.ivars().lock().unwrap() = url.map(path_of);
        }
    }
);

impl ArchiveDescriptor {
    /// The file that a descriptor names.
    pub fn path(descriptor: &MTLBinaryArchiveDescriptor) -> Option<PathBuf> {
        let object: &AnyObject = descriptor.as_ref();
        object.downcast_ref::<ArchiveDescriptor>()?.ivars().lock().unwrap().clone()
    }
}

fn path_of(url: &NSURL) -> PathBuf {
    let object: &AnyObject = url.as_ref();
    object.downcast_ref::<Url>().expect("a URL").path().to_owned()
}

define_class!(
    /// Functions whose code is kept.
    #[unsafe(super(NSObject))]
    #[name = "StandinBinaryArchive"]
    #[ivars = Mutex<BTreeSet<String>>]
    pub struct BinaryArchive;

    unsafe impl NSObjectProtocol for BinaryArchive {}

    unsafe impl MTLBinaryArchive for BinaryArchive {
        #[unsafe(method(addComputePipelineFunctionsWithDescriptor:error:))]
        fn add(&self, descriptor: &MTLComputePipelineDescriptor, error: *mut *mut NSError) -> bool {
            match PipelineDescriptor::parts(descriptor) {
                Some((function, _)) => {
                    self.ivars().lock().unwrap().insert(function.identity());
                    true
                }
                None => {
                    give(error, "the descriptor has no function");
                    false
                }
            }
        }

        #[unsafe(method(serializeToURL:error:))]
        fn serialize(&self, url: &NSURL, error: *mut *mut NSError) -> bool {
            let functions: Vec<String> = self.ivars().lock().unwrap().iter().cloned().collect();
            let text = format!("{HEADER}{}", functions.join("\n"));
            match std::fs::write(path_of(url), text) {
                Ok(()) => true,
                Err(reason) => {
                    give(error, &reason.to_string());
                    false
                }
            }
        }
    }
);

impl BinaryArchive {
    /// The archive of a file, or an empty one.
    pub fn open(path: Option<&Path>) -> Result<Retained<Self>, String> {
        let mut functions = BTreeSet::new();
        if let Some(path) = path {
            let text = std::fs::read_to_string(path).map_err(|reason| reason.to_string())?;
            let list = text.strip_prefix(HEADER).ok_or("it is no archive")?;
            functions.extend(list.lines().map(str::to_owned));
        }
        let this = Self::alloc().set_ivars(Mutex::new(functions));
        Ok(unsafe { msg_send![super(this), init] })
    }

    /// Whether it has a function.
    pub fn has(&self, function: &str) -> bool {
        self.ivars().lock().unwrap().contains(function)
    }
}
