//! A second, private mapping of pages that somebody else has mapped.

/// Pages with the bytes of others, copied one by one when they are written. Unmapped on drop.
#[derive(Debug)]
pub(super) struct PrivateMapping {
    base: *mut libc::c_void,
    /// Bytes mapped.
    len: usize,
    /// Where the wanted bytes begin.
    offset: usize,
}

// SAFETY: memory that is this value's alone; access is the business of who holds it.
unsafe impl Send for PrivateMapping {}
// SAFETY: as above.
unsafe impl Sync for PrivateMapping {}

impl PrivateMapping {
    /// Maps the same pages once more, if the system can: a file's pages on Linux, any pages on
    /// Apple systems. Nothing if it cannot; the caller then copies what it must.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return None;
        }
        let mapping = map(bytes)?;
        // SAFETY: mapped above: `offset + bytes.len()` bytes, that nobody else writes.
        let mapped =
            unsafe { std::slice::from_raw_parts(mapping.as_ptr().cast_const(), bytes.len()) };
        // Whoever mapped the bytes may have changed them since (a private mapping of theirs).
        (mapped == bytes).then_some(mapping)
    }

    /// Address of the first of the wanted bytes.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        // SAFETY: inside the mapping.
        unsafe { self.base.cast::<u8>().add(self.offset) }
    }
}

#[cfg(not(target_vendor = "apple"))]
impl Drop for PrivateMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, unmapped once.
        unsafe { libc::munmap(self.base, self.len) };
    }
}

#[cfg(target_os = "linux")]
fn map(bytes: &[u8]) -> Option<PrivateMapping> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let region = Region::around(&maps, bytes.as_ptr() as usize, bytes.len())?;
    let file = std::fs::File::open(&region.path).ok()?;
    let metadata = file.metadata().ok()?;
    let same = metadata.ino() == region.inode
        && libc::major(metadata.dev()) as u64 == region.device.0
        && libc::minor(metadata.dev()) as u64 == region.device.1;
    let page = page_size();
    let from_region = bytes.as_ptr() as usize - region.start;
    let file_offset = region.offset.checked_add(from_region as u64)?;
    let offset = (file_offset % page as u64) as usize;
    let len = offset.checked_add(bytes.len())?;
    let end = file_offset.checked_add(bytes.len() as u64)?;
    if !same || end > metadata.len() {
        return None;
    }
    let start = libc::off_t::try_from(file_offset - offset as u64).ok()?;
    // SAFETY: a new private mapping of an open file; no existing memory is touched.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            start,
        )
    };
    (base != libc::MAP_FAILED).then_some(PrivateMapping { base, len, offset })
}

#[cfg(target_os = "linux")]
fn page_size() -> usize {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// A file's pages in this process, from one line or several adjacent lines of `/proc/self/maps`.
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq, Eq)]
struct Region {
    start: usize,
    end: usize,
    /// Byte offset of `start` in the file.
    offset: u64,
    /// Major and minor number of the file's device.
    device: (u64, u64),
    inode: u64,
    path: String,
}

#[cfg(target_os = "linux")]
impl Region {
    /// The file region that holds `len` bytes at `address`.
    fn around(maps: &str, address: usize, len: usize) -> Option<Self> {
        let end = address.checked_add(len)?;
        let mut found: Option<Region> = None;
        for line in maps.lines() {
            let Some(region) = Region::parse(line) else { continue };
            match &mut found {
                None if region.start <= address && address < region.end => found = Some(region),
                // The same file goes on: one mapping, split by a change of protection.
                Some(found)
                    if found.end < end
                        && region.start == found.end
                        && region.inode == found.inode
                        && region.device == found.device
                        && region.offset == found.offset + (found.end - found.start) as u64 =>
                {
                    found.end = region.end;
                }
                _ => {}
            }
        }
        found.filter(|region| end <= region.end)
    }

    /// `start-end perms offset major:minor inode   path`, for a region of a file.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let _permissions = fields.next()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let inode = fields.next()?.parse().ok()?;
        let path = fields.next()?.trim_start();
        // Newlines are written as an escape; such a path is given up.
        (path.starts_with('/') && !path.contains('\\')).then_some(())?;
        Some(Region {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            offset,
            device: (u64::from_str_radix(major, 16).ok()?, u64::from_str_radix(minor, 16).ok()?),
            inode,
            path: path.to_owned(),
        })
    }
}

#[cfg(target_vendor = "apple")]
mod apple {
    //! `mach/mach_vm.h`, `mach/vm_inherit.h`.

    pub type Port = u32;

    unsafe extern "C" {
        pub static mach_task_self_: Port;
        pub fn mach_vm_remap(
            target_task: Port,
            target_address: *mut u64,
            size: u64,
            mask: u64,
            flags: i32,
            source_task: Port,
            source_address: u64,
            copy: i32,
            current_protection: *mut i32,
            maximum_protection: *mut i32,
            inheritance: u32,
        ) -> i32;
        pub fn mach_vm_protect(
            task: Port,
            address: u64,
            size: u64,
            set_maximum: i32,
            protection: i32,
        ) -> i32;
        pub fn mach_vm_deallocate(task: Port, address: u64, size: u64) -> i32;
    }
    pub const VM_FLAGS_ANYWHERE: i32 = 1;
    pub const VM_INHERIT_NONE: u32 = 2;
    pub const READ_WRITE: i32 = 3;
}

#[cfg(target_vendor = "apple")]
fn map(bytes: &[u8]) -> Option<PrivateMapping> {
    use apple::*;

    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let offset = bytes.as_ptr() as usize % page;
    let start = bytes.as_ptr() as usize - offset;
    let len = (offset + bytes.len()).checked_next_multiple_of(page)?;
    let (mut address, mut current, mut maximum) = (0, 0, 0);
    // SAFETY: maps the pages around `bytes`, which are mapped, a second time, copy on write, at
    // an address that the system chooses; no existing memory is touched.
    let status = unsafe {
        mach_vm_remap(
            mach_task_self_,
            &mut address,
            len as u64,
            0,
            VM_FLAGS_ANYWHERE,
            mach_task_self_,
            start as u64,
            1,
            &mut current,
            &mut maximum,
            VM_INHERIT_NONE,
        )
    };
    if status != 0 {
        return None;
    }
    let mapping = PrivateMapping { base: address as usize as *mut libc::c_void, len, offset };
    // SAFETY: the new mapping's own pages.
    let status = unsafe { mach_vm_protect(mach_task_self_, address, len as u64, 0, READ_WRITE) };
    (status == 0).then_some(mapping)
}

#[cfg(target_vendor = "apple")]
impl Drop for PrivateMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, unmapped once.
        unsafe {
            apple::mach_vm_deallocate(
                apple::mach_task_self_,
                self.base as usize as u64,
                self.len as u64,
            )
        };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    struct SharedMapping(*mut libc::c_void, usize);

    impl Drop for SharedMapping {
        fn drop(&mut self) {
            // SAFETY: mapped in the test.
            unsafe { libc::munmap(self.0, self.1) };
        }
    }

    /// A file of counted bytes, mapped read-only as a program loader does.
    fn mapped_file() -> (tempfile::NamedTempFile, SharedMapping) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i / 7) as u8).collect();
        file.write_all(&bytes).unwrap();
        // SAFETY: a new mapping.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes.len(),
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_file().as_raw_fd(),
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        (file, SharedMapping(base, bytes.len()))
    }

    #[test]
    fn writes_stay_private() {
        let (file, shared) = mapped_file();
        // SAFETY: mapped, and nobody writes.
        let whole = unsafe { std::slice::from_raw_parts(shared.0.cast::<u8>(), shared.1) };
        let part = &whole[5001..33_000];
        let mapping = PrivateMapping::of(part).expect("a file's pages can be mapped again");
        // SAFETY: the mapping is ours.
        unsafe { *mapping.as_ptr() = part[0].wrapping_add(1) };
        assert_eq!(part[0], whole[5001], "the caller's bytes are as they were");
        assert_eq!(std::fs::read(file.path()).unwrap(), whole);
    }

    #[test]
    fn memory_of_no_file_is_left_to_the_caller() {
        assert!(PrivateMapping::of(&vec![1u8; 100_000]).is_none());
        assert!(PrivateMapping::of(&[]).is_none());
    }

    #[test]
    fn a_replaced_file_is_not_mistaken_for_the_old_one() {
        let (file, shared) = mapped_file();
        // SAFETY: mapped, and nobody writes.
        let whole = unsafe { std::slice::from_raw_parts(shared.0.cast::<u8>(), shared.1) };
        let path = file.path().to_owned();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, vec![0; 40_000]).unwrap();
        assert!(PrivateMapping::of(whole).is_none());
    }

    #[test]
    fn map_lines_are_read() {
        let region = Region::parse("7f00-8f00 r--s 00001000 103:02 1234   /a b/model.pte").unwrap();
        assert_eq!((region.start, region.end, region.offset), (0x7f00, 0x8f00, 0x1000));
        assert_eq!((region.device, region.inode), ((0x103, 2), 1234));
        assert_eq!(region.path, "/a b/model.pte");
        assert!(Region::parse("7f00-8f00 rw-p 00000000 00:00 0 ").is_none());
        assert!(Region::parse("7f00-8f00 rw-p 00000000 00:00 0    [heap]").is_none());
    }
}
