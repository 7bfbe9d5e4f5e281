//! Checks of a whole device: every kind of kernel and op graph, memory, errors, and models, with
//! results that are compared with those of the host device's native code or of plain loops. For
//! people with hardware that nobody has tried.
//!
//! | module | what it checks |
//! |---|---|
//! | `memory` | buffers, memory of others, copies, fills, the order of commands |
//! | `language` | what shaders use, and kernels that PyTorch generated |
//! | `kernels` | the kernels of this library |
//! | `graphs` | op graphs |
//! | `errors` | that what cannot be is an error |
//! | `models` | whole models |

pub(crate) mod data;
mod errors;
mod graphs;
mod kernels;
mod language;
mod measured;
mod memory;
mod models;
mod msl_route;
mod reference;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use self::measured::Measured;
use self::msl_route::MslRoute;
use crate::Result;
use crate::device::host::HostDevice;
use crate::device::{Device, DeviceKind};
use crate::stream::Stream;

/// What came of a check.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// As it should be.
    Pass,
    /// Not as it should be, and how.
    Fail(String),
    /// It could not be done here, and why.
    Skipped(String),
}

/// One check that was made.
#[derive(Debug, Clone)]
pub struct Check {
    /// What it belongs to: `memory`, `graph`, …
    pub group: &'static str,
    /// What was checked.
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Elements that were compared.
    pub elements: usize,
    /// The largest error.
    pub largest_error: f64,
}

impl Check {
    /// As JSON.
    pub fn json(&self) -> Value {
        let (outcome, why) = match &self.outcome {
            Outcome::Pass => ("PASS", None),
            Outcome::Fail(why) => ("FAIL", Some(why)),
            Outcome::Skipped(why) => ("SKIPPED", Some(why)),
        };
        json!({
            "group": self.group,
            "name": self.name,
            "outcome": outcome,
            "elements": self.elements,
            "largest_error": self.largest_error,
            "why": why,
        })
    }
}

/// What a check has.
pub(crate) struct Session {
    /// The device that is checked. It runs our kernels, not native code.
    device: Arc<dyn Device>,
    /// The host device, with native code.
    host: Arc<dyn Device>,
}

impl Session {
    /// A new stream on the device.
    fn stream(&self) -> Stream {
        Stream::with_flush_interval(self.device.clone(), 64)
    }
}

/// Makes a check.
type Make = Box<dyn Fn(&Session) -> Result<Measured>>;

/// A check before it is made.
struct Planned {
    group: &'static str,
    name: String,
    check: Make,
}

/// Names a check.
fn planned(
    group: &'static str,
    name: impl Into<String>,
    check: impl Fn(&Session) -> Result<Measured> + 'static,
) -> Planned {
    Planned { group, name: name.into(), check: Box::new(check) }
}

/// Makes all checks on `device`; `models` is a folder of models with their inputs and outputs.
/// Each check is told when it is done.
///
/// # Errors
/// There is no host device to compare with, or the folder cannot be read.
pub fn run(
    device: Arc<dyn Device>,
    models: Option<&Path>,
    on_check: &mut dyn FnMut(Check),
) -> Result<()> {
    let host: Arc<dyn Device> = HostDevice::try_shared()?;
    let device = match device.kind() {
        DeviceKind::Metal => device,
        DeviceKind::Host => Arc::new(MslRoute::of(device)),
    };
    let mut all = memory::checks();
    all.extend(language::checks());
    all.extend(kernels::checks());
    all.extend(graphs::checks());
    all.extend(errors::checks());
    all.extend(models::checks(models)?);
    let session = Session { device, host };
    for check in all {
        on_check(check.run(&session));
    }
    Ok(())
}

impl Planned {
    fn run(self, session: &Session) -> Check {
        let done = catch_unwind(AssertUnwindSafe(|| (self.check)(session)));
        let measured = match done {
            Ok(Ok(measured)) => measured,
            Ok(Err(error)) => Measured::failed(error.to_string()),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or(panic.downcast_ref::<String>().map(String::as_str));
                Measured::failed(format!("a panic: {}", text.unwrap_or("without a message")))
            }
        };
        let (elements, largest_error) = (measured.elements(), measured.largest_error());
        let outcome = measured.outcome();
        Check { group: self.group, name: self.name, outcome, elements, largest_error }
    }
}

#[cfg(test)]
mod tests;
