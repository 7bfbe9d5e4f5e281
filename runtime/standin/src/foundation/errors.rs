//! NSError and NSException.

use objc2::rc::Retained;
use objc2::runtime::NSObject;
use objc2::{AnyThread, DefinedClass, define_class, msg_send};
use objc2_foundation::NSError;

use super::strings::Text;
use crate::violations::violation;

define_class!(
    /// An error with a text.
    #[unsafe(super(NSObject))]
    #[name = "NSError"]
    #[ivars = Retained<Text>]
    pub struct ErrorObject;

    impl ErrorObject {
        #[unsafe(method_id(localizedDescription))]
        fn description_text(&self) -> Retained<Text> {
            self.ivars().clone()
        }

        #[unsafe(method_id(localizedFailureReason))]
        fn reason(&self) -> Option<Retained<Text>> {
            None
        }
    }
);

/// The error of a text.
pub fn error(text: &str) -> Retained<NSError> {
    let this = ErrorObject::alloc().set_ivars(Text::make(text));
    let made: Retained<ErrorObject> = unsafe { msg_send![super(this), init] };
    unsafe { Retained::cast_unchecked(made) }
}

/// Stores an error where an out parameter points, if it does.
pub(crate) fn give(to: *mut *mut NSError, text: &str) {
    if !to.is_null() {
        unsafe { *to = Retained::autorelease_ptr(error(text)) };
    }
}

/// An exception's name and reason.
pub struct Parts {
    name: Retained<Text>,
    reason: Retained<Text>,
}

define_class!(
    /// An exception.
    #[unsafe(super(NSObject))]
    #[name = "NSException"]
    #[ivars = Parts]
    pub struct Exception;

    impl Exception {
        #[unsafe(method_id(name))]
        fn name(&self) -> Retained<Text> {
            self.ivars().name.clone()
        }

        #[unsafe(method_id(reason))]
        fn reason(&self) -> Option<Retained<Text>> {
            Some(self.ivars().reason.clone())
        }
    }
);

/// Throws an exception. That one was thrown is recorded too.
pub fn raise(name: &str, reason: &str) -> ! {
    violation("exception", format!("{name}: {reason}"));
    let parts = Parts { name: Text::make(name), reason: Text::make(reason) };
    let this = Exception::alloc().set_ivars(parts);
    let exception: Retained<Exception> = unsafe { msg_send![super(this), init] };
    let object = Retained::into_raw(exception) as usize;
    std::panic::resume_unwind(Box::new(crate::objc::exceptions::ObjcException(object)))
}

/// Throws what frameworks throw at arguments that cannot be.
pub fn invalid(reason: &str) -> ! {
    raise("NSInvalidArgumentException", reason)
}
