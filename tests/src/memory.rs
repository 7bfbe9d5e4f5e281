//! This process's memory, as the kernel counts it.

/// Kibibytes of a field of `/proc/self/status`, such as `RssAnon`.
///
/// # Panics
/// The field is not there.
pub fn status_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .and_then(|value| value.trim().strip_suffix(" kB")?.trim().parse().ok())
        .unwrap_or_else(|| panic!("/proc/self/status has no {field}"))
}

/// Resident memory that no file backs, in KiB: allocations and copies.
pub fn anonymous_kib() -> u64 {
    status_kib("RssAnon")
}

/// All resident memory, in KiB.
pub fn resident_kib() -> u64 {
    status_kib("VmRSS")
}
