//! NSArray and NSDictionary.

use std::ffi::c_void;

use objc2::rc::{Allocated, Retained};
use objc2::runtime::{AnyObject, NSObject};
use objc2::{AnyThread, DefinedClass, Message, define_class, msg_send};

use super::errors::raise;

type Object = Retained<AnyObject>;

define_class!(
    /// An immutable array.
    #[unsafe(super(NSObject))]
    #[name = "NSArray"]
    #[ivars = Vec<Object>]
    pub struct Array;

    impl Array {
        #[unsafe(method_id(initWithObjects:count:))]
        fn init_objects(
            this: Allocated<Self>,
            objects: *mut *mut AnyObject,
            count: usize,
        ) -> Option<Retained<Self>> {
            let items = (0..count).map(|i| unsafe { retained(*objects.add(i)) }).collect();
            let this = this.set_ivars(items);
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(count))]
        fn count(&self) -> usize {
            self.ivars().len()
        }

        #[unsafe(method_id(objectAtIndex:))]
        fn at(&self, index: usize) -> Object {
            match self.ivars().get(index) {
                Some(object) => object.clone(),
                None => raise("NSRangeException", &format!("index {index} of {}", self.items().len())),
            }
        }

        #[unsafe(method(getObjects:))]
        fn get_objects(&self, to: *mut *mut AnyObject) {
            for (i, object) in self.items().iter().enumerate() {
                unsafe { *to.add(i) = Retained::as_ptr(object).cast_mut() };
            }
        }

        #[unsafe(method_id(copyWithZone:))]
        fn copy(&self, _zone: *mut c_void) -> Retained<Self> {
            self.retain()
        }
    }
);

impl Array {
    /// The array of objects.
    pub fn make(items: Vec<Object>) -> Retained<Self> {
        let this = Self::alloc().set_ivars(items);
        unsafe { msg_send![super(this), init] }
    }

    /// Its objects.
    pub fn items(&self) -> &[Object] {
        self.ivars()
    }
}

define_class!(
    /// An immutable dictionary.
    #[unsafe(super(NSObject))]
    #[name = "NSDictionary"]
    #[ivars = Vec<(Object, Object)>]
    pub struct Dictionary;

    impl Dictionary {
        #[unsafe(method_id(initWithObjects:forKeys:count:))]
        fn init_pairs(
            this: Allocated<Self>,
            objects: *mut *mut AnyObject,
            keys: *mut *mut AnyObject,
            count: usize,
        ) -> Option<Retained<Self>> {
            let mut pairs: Vec<(Object, Object)> = Vec::new();
            for i in 0..count {
                let key: Object = unsafe { msg_send![*keys.add(i), copy] };
                let object = unsafe { retained(*objects.add(i)) };
                let same = |pair: &&mut (Object, Object)| -> bool {
                    unsafe { msg_send![&*pair.0, isEqual: &*key] }
                };
                match pairs.iter_mut().find(same) {
                    Some(pair) => pair.1 = object,
                    None => pairs.push((key, object)),
                }
            }
            let this = this.set_ivars(pairs);
            unsafe { msg_send![super(this), init] }
        }
    }
);

impl Dictionary {
    /// Its keys and objects.
    pub fn pairs(&self) -> &[(Object, Object)] {
        self.ivars()
    }
}

unsafe fn retained(object: *mut AnyObject) -> Object {
    unsafe { Retained::retain(object) }
        .unwrap_or_else(|| raise("NSInvalidArgumentException", "nil in a collection"))
}
