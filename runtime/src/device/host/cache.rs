//! Things that take long to make: made once however many ask, kept while they are in use.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;

use crate::Result;

/// A value that is made when it is first asked for. Those who ask meanwhile wait for it. A
/// failure is not kept: whoever asks next tries again.
#[derive(Debug)]
pub struct Once<T>(Mutex<Option<T>>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Once(Mutex::new(None))
    }
}

impl<T: Clone> Once<T> {
    /// The value, made by `make` if there is none yet.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut slot = self.0.lock();
        match &*slot {
            Some(value) => Ok(value.clone()),
            None => Ok(slot.insert(make()?).clone()),
        }
    }
}

/// What identifies a source: its SHA-256.
pub type Key = [u8; 32];

/// A bounded number of values by key; the least recently used goes first. Values are made
/// outside the cache's lock, so that making one holds up nobody who asks for another.
pub struct Cache<T> {
    entries: Mutex<LruCache<Key, Arc<Once<T>>>>,
}

impl<T> std::fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} entries)", self.entries.lock().len())
    }
}

impl<T: Clone> Cache<T> {
    /// An empty cache for `most` values.
    pub fn new(most: NonZeroUsize) -> Cache<T> {
        Cache { entries: Mutex::new(LruCache::new(most)) }
    }

    /// The value of `key`, made by `make` if there is none.
    ///
    /// # Errors
    /// Those of `make`; nothing is kept then.
    pub fn get(&self, key: Key, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let entry = self.entries.lock().get_or_insert(key, Arc::default).clone();
        let value = entry.get(make);
        if value.is_err() {
            let mut entries = self.entries.lock();
            // Another thread may have been luckier, or be trying now.
            let empty = |e: &Arc<Once<T>>| e.0.try_lock().is_some_and(|slot| slot.is_none());
            if entries.peek(&key).is_some_and(empty) {
                entries.pop(&key);
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::err;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    fn cache(most: usize) -> Cache<u32> {
        Cache::new(NonZeroUsize::new(most).unwrap())
    }

    #[test]
    fn a_value_is_made_once_for_all_who_ask_at_once() {
        let cache = cache(4);
        let made = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = || {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(made.fetch_add(1, SeqCst) + 7)
                    };
                    assert_eq!(cache.get([1; 32], make).unwrap(), 7);
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn making_one_value_does_not_hold_up_another() {
        let cache = cache(4);
        let outer = cache.get([1; 32], || Ok(cache.get([2; 32], || Ok(1))? + 1));
        assert_eq!(outer.unwrap(), 2);
    }

    #[test]
    fn the_least_recently_used_value_goes() {
        let cache = cache(2);
        for (key, made) in [(1, true), (2, true), (1, false), (3, true), (1, false), (2, true)] {
            let mut asked = false;
            let make = || {
                asked = true;
                Ok(u32::from(key))
            };
            assert_eq!(cache.get([key; 32], make).unwrap(), u32::from(key));
            assert_eq!(asked, made, "{key}");
        }
    }

    #[test]
    fn failures_are_not_kept() {
        let cache = cache(2);
        cache.get([1; 32], || Ok(1)).unwrap();
        for _ in 0..3 {
            cache.get([2; 32], || Err(err!(NotFound, "no"))).unwrap_err();
            cache.get([3; 32], || Err(err!(NotFound, "no"))).unwrap_err();
        }
        assert_eq!(cache.get([1; 32], || Ok(9)).unwrap(), 1, "failures take no room");
        assert_eq!(cache.get([2; 32], || Ok(2)).unwrap(), 2);
    }
}
