//! NSString.

use std::ffi::{CString, c_char, c_void};

use objc2::rc::{Allocated, Retained};
use objc2::runtime::{AnyObject, NSObject};
use objc2::{AnyThread, DefinedClass, Message, define_class, msg_send};
use objc2_foundation::NSString;

define_class!(
    /// An immutable string.
    #[unsafe(super(NSObject))]
    #[name = "NSString"]
    #[ivars = CString]
    pub struct Text;

    impl Text {
        #[unsafe(method_id(initWithBytes:length:encoding:))]
        fn init_bytes(
            this: Allocated<Self>,
            bytes: *const c_void,
            len: usize,
            encoding: usize,
        ) -> Option<Retained<Self>> {
            assert_eq!(encoding, 4, "UTF-8 is the only encoding here");
            let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
            let this = this.set_ivars(CString::new(bytes).unwrap());
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(UTF8String))]
        fn utf8(&self) -> *const c_char {
            self.ivars().as_ptr()
        }

        #[unsafe(method(lengthOfBytesUsingEncoding:))]
        fn byte_len(&self, _encoding: usize) -> usize {
            self.ivars().as_bytes().len()
        }

        #[unsafe(method(length))]
        fn utf16_len(&self) -> usize {
            self.as_str().encode_utf16().count()
        }

        #[unsafe(method_id(copyWithZone:))]
        fn copy(&self, _zone: *mut c_void) -> Retained<Self> {
            self.retain()
        }

        #[unsafe(method(isEqual:))]
        fn is_equal(&self, other: &AnyObject) -> bool {
            other.downcast_ref::<Text>().is_some_and(|other| self.ivars() == other.ivars())
        }

        #[unsafe(method(hash))]
        fn hash(&self) -> usize {
            self.as_str().bytes().fold(5381, |hash, byte| (hash * 33) ^ usize::from(byte))
        }

        #[unsafe(method_id(description))]
        fn description(&self) -> Retained<Self> {
            self.retain()
        }
    }
);

impl Text {
    /// The string of a text.
    pub fn make(text: &str) -> Retained<Self> {
        let this = Self::alloc().set_ivars(CString::new(text).unwrap());
        unsafe { msg_send![super(this), init] }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        self.ivars().to_str().unwrap()
    }
}

/// A string as the bindings have it.
pub fn string(text: &str) -> Retained<NSString> {
    unsafe { Retained::cast_unchecked(Text::make(text)) }
}

pub(crate) fn autoreleased(text: &str) -> crate::objc::objects::Id {
    let object = Retained::into_raw(Text::make(text)).cast();
    unsafe { crate::objc::autorelease::objc_autorelease(object) }
}
