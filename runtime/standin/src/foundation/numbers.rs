//! NSNumber, and shapes, which are arrays of them.

use std::ffi::c_void;

use objc2::rc::Retained;
use objc2::runtime::{AnyObject, NSObject};
use objc2::{AnyThread, DefinedClass, Message, define_class, msg_send};
use objc2_foundation::{NSArray, NSNumber};

use super::collections::Array;

define_class!(
    /// An integer.
    #[unsafe(super(NSObject))]
    #[name = "NSNumber"]
    #[ivars = i64]
    pub struct Number;

    impl Number {
        #[unsafe(method_id(numberWithLongLong:))]
        fn of_i64(value: i64) -> Retained<Self> {
            Self::make(value)
        }

        #[unsafe(method(longLongValue))]
        fn as_i64(&self) -> i64 {
            *self.ivars()
        }

        #[unsafe(method_id(copyWithZone:))]
        fn copy(&self, _zone: *mut c_void) -> Retained<Self> {
            self.retain()
        }
    }
);

impl Number {
    fn make(value: i64) -> Retained<Self> {
        let this = Self::alloc().set_ivars(value);
        unsafe { msg_send![super(this), init] }
    }
}

/// The sizes in a shape.
pub fn sizes_of(shape: &NSArray<NSNumber>) -> Vec<i64> {
    let array: &AnyObject = shape.as_ref();
    let numbers = array.downcast_ref::<Array>().expect("an array").items();
    numbers.iter().map(|n| *n.downcast_ref::<Number>().expect("a number").ivars()).collect()
}

/// The shape of sizes.
pub fn shape_of(sizes: &[i64]) -> Retained<NSArray<NSNumber>> {
    let numbers = sizes
        .iter()
        .map(|&size| unsafe { Retained::cast_unchecked::<AnyObject>(Number::make(size)) })
        .collect();
    unsafe { Retained::cast_unchecked(Array::make(numbers)) }
}
