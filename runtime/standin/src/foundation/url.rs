//! NSURL: of files only.

use objc2::rc::Retained;
use objc2::runtime::NSObject;
use objc2::{AnyThread, DefinedClass, define_class, msg_send};
use objc2_foundation::NSString;

define_class!(
    /// The address of a file.
    #[unsafe(super(NSObject))]
    #[name = "NSURL"]
    #[ivars = std::path::PathBuf]
    pub struct Url;

    impl Url {
        #[unsafe(method_id(fileURLWithPath:))]
        fn of_path(path: &NSString) -> Retained<Self> {
            let this = Self::alloc().set_ivars(path.to_string().into());
            unsafe { msg_send![super(this), init] }
        }
    }
);

impl Url {
    /// The file.
    pub fn path(&self) -> &std::path::Path {
        self.ivars()
    }
}
