//! Handles: how objects are lent to C and taken back safely.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::Result;
use crate::error::err;

/// A handle as C sees it: an opaque pointer that is never followed.
///
/// It encodes an entry of a [`HandleTable`]: the entry's index, the generation of what the entry
/// held when the handle was made, and the table's kind. Bit 63 is set, so that no handle equals
/// a user-space address and no address passes for a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RawHandle(*mut std::ffi::c_void);

// SAFETY: the pointer is a number; nothing is reached through it.
unsafe impl Send for RawHandle {}
// SAFETY: as above.
unsafe impl Sync for RawHandle {}

const MARK: u64 = 1 << 63;
const KIND_SHIFT: u32 = 59;
const KIND_MASK: u64 = 0xf;
const GENERATION_SHIFT: u32 = 32;
const GENERATION_MASK: u64 = (1 << 27) - 1;

impl RawHandle {
    /// The null handle.
    pub const NULL: RawHandle = RawHandle(std::ptr::null_mut());

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    fn encode(kind: u8, generation: u32, index: usize) -> Self {
        let bits = MARK
            | (u64::from(kind) & KIND_MASK) << KIND_SHIFT
            | (u64::from(generation) & GENERATION_MASK) << GENERATION_SHIFT
            | index as u64;
        RawHandle(bits as usize as *mut _)
    }

    /// Index and generation, if it has the form of a handle of `kind`.
    fn decode(self, kind: u8) -> Option<(usize, u32)> {
        let bits = self.0 as usize as u64;
        (bits & MARK != 0 && bits >> KIND_SHIFT & KIND_MASK == u64::from(kind)).then_some((
            (bits & 0xffff_ffff) as usize,
            (bits >> GENERATION_SHIFT & GENERATION_MASK) as u32,
        ))
    }
}

struct Entry<T: ?Sized> {
    generation: u32,
    value: Option<Arc<T>>,
}

struct Entries<T: ?Sized> {
    slots: Vec<Entry<T>>,
    free: Vec<usize>,
}

/// A table of objects lent to C. Thread-safe.
///
/// Deleting a handle twice, using it after its deletion, or passing a pointer that never was a
/// handle is an [`Error::InvalidHandle`](crate::Error::InvalidHandle), not a crash.
pub struct HandleTable<T: ?Sized> {
    /// What its objects are called in messages: "tensor", "shader library".
    what: &'static str,
    kind: u8,
    entries: RwLock<Entries<T>>,
    _objects: PhantomData<Arc<T>>,
}

impl<T: ?Sized> fmt::Debug for HandleTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandleTable({}: {} live)", self.what, self.len())
    }
}

impl<T: ?Sized> HandleTable<T> {
    /// An empty table. `kind` (below 16) tells its handles from those of other tables; `what`
    /// names its objects in messages.
    pub const fn new(kind: u8, what: &'static str) -> Self {
        assert!(kind < 16);
        HandleTable {
            what,
            kind,
            entries: RwLock::new(Entries { slots: Vec::new(), free: Vec::new() }),
            _objects: PhantomData,
        }
    }

    /// Lends `value`; the handle stays valid until [`HandleTable::remove`].
    pub fn insert(&self, value: Arc<T>) -> RawHandle {
        let mut entries = self.entries.write();
        let index = match entries.free.pop() {
            Some(index) => index,
            None => {
                entries.slots.push(Entry { generation: 0, value: None });
                entries.slots.len() - 1
            }
        };
        let slot = &mut entries.slots[index];
        slot.value = Some(value);
        RawHandle::encode(self.kind, slot.generation, index)
    }

    /// The object behind `handle`.
    ///
    /// # Errors
    /// The handle is null, was deleted, or is no handle of this table.
    pub fn get(&self, handle: RawHandle) -> Result<Arc<T>> {
        let entries = self.entries.read();
        self.find(&entries, handle).cloned()
    }

    /// What `look` makes of the object behind `handle`. The table cannot change meanwhile, so
    /// `look` must be short, call nobody else's code, and drop nothing that may do so.
    ///
    /// # Errors
    /// As for [`HandleTable::get`].
    pub fn look<R>(&self, handle: RawHandle, look: impl FnOnce(&T) -> R) -> Result<R> {
        let entries = self.entries.read();
        self.find(&entries, handle).map(|value| look(value))
    }

    /// Takes the object back; the handle is invalid from now on.
    ///
    /// # Errors
    /// As for [`HandleTable::get`].
    pub fn remove(&self, handle: RawHandle) -> Result<Arc<T>> {
        let mut entries = self.entries.write();
        self.find(&entries, handle)?;
        let (index, _) = handle.decode(self.kind).expect("checked by find");
        let slot = &mut entries.slots[index];
        let value = slot.value.take().expect("checked by find");
        slot.generation = (slot.generation + 1) & GENERATION_MASK as u32;
        entries.free.push(index);
        Ok(value)
    }

    /// Puts another object behind a live handle, and gives the old one back.
    ///
    /// # Errors
    /// As for [`HandleTable::get`].
    pub fn replace(&self, handle: RawHandle, value: Arc<T>) -> Result<Arc<T>> {
        let mut entries = self.entries.write();
        self.find(&entries, handle)?;
        let (index, _) = handle.decode(self.kind).expect("checked by find");
        Ok(entries.slots[index].value.replace(value).expect("checked by find"))
    }

    /// Takes back every object for which `mine` is true, and gives them.
    pub fn remove_where(&self, mine: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut removed = Vec::new();
        let mut entries = self.entries.write();
        let Entries { slots, free } = &mut *entries;
        for (index, slot) in slots.iter_mut().enumerate() {
            if slot.value.as_deref().is_some_and(&mine) {
                removed.extend(slot.value.take());
                slot.generation = (slot.generation + 1) & GENERATION_MASK as u32;
                free.push(index);
            }
        }
        // The caller drops them, without the lock: their drop may call back into the table.
        removed
    }

    /// The live objects.
    pub fn values(&self) -> Vec<Arc<T>> {
        self.entries.read().slots.iter().filter_map(|slot| slot.value.clone()).collect()
    }

    /// Live objects.
    pub fn len(&self) -> usize {
        let entries = self.entries.read();
        entries.slots.len() - entries.free.len()
    }

    /// Whether nothing is lent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find<'a>(&self, entries: &'a Entries<T>, handle: RawHandle) -> Result<&'a Arc<T>> {
        let what = self.what;
        if handle.is_null() {
            return Err(err!(InvalidHandle, "the {what} handle is null"));
        }
        let Some((index, generation)) = handle.decode(self.kind) else {
            return Err(err!(
                InvalidHandle,
                "{:p} is no {what} handle of this runtime: it is a foreign pointer",
                handle.0
            ));
        };
        match entries.slots.get(index) {
            Some(Entry { generation: now, value: Some(value) }) if *now == generation => Ok(value),
            Some(_) => Err(err!(
                InvalidHandle,
                "the {what} handle {:p} was deleted before; it must not be used or deleted again",
                handle.0
            )),
            None => Err(err!(
                InvalidHandle,
                "{:p} is no {what} handle of this runtime: no such entry",
                handle.0
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_lives_from_insert_to_remove() {
        let table = HandleTable::new(1, "thing");
        let a = table.insert(Arc::new(1));
        let b = table.insert(Arc::new(2));
        assert_eq!(*table.get(a).unwrap(), 1);
        assert_eq!(table.look(b, |two| two + 5).unwrap(), 7);
        assert_eq!(*table.replace(b, Arc::new(3)).unwrap(), 2);
        assert_eq!(*table.remove(b).unwrap(), 3);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn misuse_is_an_error_that_says_what_happened() {
        let table = HandleTable::new(1, "thing");
        let other = HandleTable::new(2, "other");
        let a = table.insert(Arc::new(1));
        table.remove(a).unwrap();
        assert!(table.remove(a).unwrap_err().to_string().contains("deleted before"));
        let reused = table.insert(Arc::new(2));
        assert!(table.get(a).is_err(), "the entry is reused, the old handle is not");
        assert!(table.look(a, |_| unreachable!()).is_err());
        assert_eq!(*table.get(reused).unwrap(), 2);
        assert!(other.get(reused).unwrap_err().to_string().contains("foreign pointer"));
        let x = 5u64;
        let foreign = RawHandle(std::ptr::from_ref(&x).cast_mut().cast());
        assert!(table.get(foreign).unwrap_err().to_string().contains("foreign pointer"));
        assert!(table.get(RawHandle::NULL).unwrap_err().to_string().contains("null"));
        let _: Arc<i32> = other.get(other.insert(Arc::new(9))).unwrap();
    }

    #[test]
    fn sweeping_takes_only_what_is_asked() {
        let table = HandleTable::new(1, "thing");
        let handles: Vec<_> = (0..10).map(|i| table.insert(Arc::new(i))).collect();
        assert_eq!(table.remove_where(|&v| v % 2 == 0).len(), 5);
        assert!(table.get(handles[0]).is_err());
        assert_eq!(*table.get(handles[1]).unwrap(), 1);
        let rest: Vec<_> = table.values().iter().map(|value| **value).collect();
        assert_eq!(rest, [1, 3, 5, 7, 9]);
    }
}
