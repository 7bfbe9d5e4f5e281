//! The classes of Foundation that the device uses.

use objc2::ClassType;

pub mod collections;
pub mod errors;
pub mod numbers;
pub mod strings;
pub mod url;

pub(crate) fn register() {
    let _ = (
        strings::Text::class(),
        numbers::Number::class(),
        collections::Array::class(),
        collections::Dictionary::class(),
        errors::ErrorObject::class(),
        errors::Exception::class(),
        url::Url::class(),
    );
}
