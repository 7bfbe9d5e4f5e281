//! placeholder

/// The bounded cache of executables.
#[derive(Debug)]
pub struct GraphCache {}
/// Its counters.
#[derive(Debug)]
pub struct CacheStats {}
