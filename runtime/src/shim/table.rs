//! Every function of PyTorch's headers, and what becomes of it here.

use super::abi::Symbol;
use super::{attributes, check, constants, copies, create, diagnostics, grad_mode, mps, scalars};

/// The functions that this library gives to models, with their Rust signatures.
pub(super) const FAMILIES: &[&[Symbol]] = &[
    attributes::SYMBOLS,
    check::SYMBOLS,
    constants::SYMBOLS,
    copies::SYMBOLS,
    create::SYMBOLS,
    diagnostics::SYMBOLS,
    grad_mode::SYMBOLS,
    scalars::SYMBOLS,
    mps::block::SYMBOLS,
    mps::kernel::SYMBOLS,
    mps::library::SYMBOLS,
    mps::memory::SYMBOLS,
    mps::ops::SYMBOLS,
];
/// names
pub fn symbols() -> &'static [&'static str] {
    static NAMES: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names: Vec<_> = FAMILIES.iter().flat_map(|f| f.iter()).map(|s| s.name).collect();
        names.sort_unstable();
        names
    })
}

/// The address of the function of this name that this library gives to models, if there is one.
pub fn address(name: &str) -> Option<*const std::ffi::c_void> {
    let symbol = FAMILIES.iter().flat_map(|family| family.iter()).find(|s| s.name == name)?;
    Some((symbol.address)() as *const std::ffi::c_void)
}
