//! Something that is made once for each device and goes with it.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Device;
use crate::Result;

/// A device and what belongs to it.
type Entry<T> = (Weak<dyn Device>, Arc<T>);

/// What is kept for each device that lives. Thread-safe.
#[derive(Debug)]
pub struct PerDevice<T> {
    entries: Mutex<Vec<Entry<T>>>,
}

impl<T> Default for PerDevice<T> {
    fn default() -> Self {
        PerDevice::new()
    }
}

impl<T> PerDevice<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        PerDevice { entries: Mutex::new(Vec::new()) }
    }

    /// What belongs to `device`: what `make` gives on the first call, the same later on.
    ///
    /// # Errors
    /// Those of `make`; nothing is kept then.
    pub fn of(&self, device: &Arc<dyn Device>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut entries = self.entries.lock();
        // Addresses tell devices apart: an entry keeps its device's memory from being reused.
        let same = |weak: &Weak<dyn Device>| std::ptr::addr_eq(weak.as_ptr(), Arc::as_ptr(device));
        if let Some((_, kept)) = entries.iter().find(|(weak, _)| same(weak)) {
            return Ok(kept.clone());
        }
        entries.retain(|(weak, _)| weak.strong_count() > 0);
        let made = Arc::new(make()?);
        entries.push((Arc::downgrade(device), made.clone()));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::{HostDevice, Options};
    use crate::error::err;

    fn device() -> Arc<dyn Device> {
        Arc::new(HostDevice::new(Options {
            threads: 1,
            pool_bytes: 0,
            checked: false,
            fission: true,
        }))
    }

    #[test]
    fn each_device_has_its_own_until_it_goes() {
        let kept = PerDevice::<u32>::new();
        let (a, b) = (device(), device());
        assert!(kept.of(&a, || Err(err!(NotFound, "nothing"))).is_err());
        let first = kept.of(&a, || Ok(1)).unwrap();
        assert_eq!(*kept.of(&b, || Ok(2)).unwrap(), 2);
        assert!(Arc::ptr_eq(&first, &kept.of(&a, || Ok(3)).unwrap()));
        let weak = Arc::downgrade(&first);
        drop((first, a));
        assert_eq!(*kept.of(&device(), || Ok(4)).unwrap(), 4);
        assert!(weak.upgrade().is_none(), "it went with its device");
    }
}
