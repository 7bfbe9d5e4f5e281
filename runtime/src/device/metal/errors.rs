//! What Objective-C reports, as errors with its text: `NSError`s, and exceptions, which Metal and
//! MPSGraph throw where they are asked for what cannot be.

use std::panic::{AssertUnwindSafe, catch_unwind};

use objc2_foundation::NSError;

use crate::Result;
use crate::error::err;

/// The text of an `NSError`: what happened, and the reason where it gives one.
pub fn text(error: &NSError) -> String {
    let description = error.localizedDescription().to_string();
    match error.localizedFailureReason().map(|reason| reason.to_string()) {
        Some(reason) if !description.contains(&reason) => format!("{description}: {reason}"),
        _ => description,
    }
}

/// What a panic says.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without text")
}

/// Runs `f`, which calls Objective-C, in an autorelease pool of its own. An exception that is
/// thrown in it, or a panic (such as that of a nil where a framework promises none), is an error
/// that says what was being done. Nothing unwinds out of it.
///
/// # Errors
/// Those of `f`; an exception or panic in it.
pub fn guarded<R>(what: &str, f: impl FnOnce() -> Result<R>) -> Result<R> {
    let call = || {
        // The exception is described in the pool too: its text may need one.
        objc2::rc::autoreleasepool(|_| match objc2::exception::catch(AssertUnwindSafe(f)) {
            Ok(result) => result,
            Err(Some(exception)) => Err(err!(Execution, "{what}: {exception}")),
            Err(None) => Err(err!(Execution, "{what}: an exception without a reason")),
        })
    };
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(err!(Internal, "{what}: {}", panic_text(&*panic))))
}
