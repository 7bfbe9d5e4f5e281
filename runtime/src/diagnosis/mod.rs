//! Finding out whether a device computes what it should, for the person who has it.
//!
//! | module | what it does |
//! |---|---|
//! | [`comparing`] | a device that does each command on two devices, and tells where they differ |
//! | [`selftest`] | checks of a whole device, as a report |
//! | [`system`] | what the machine is |
//! | [`ffi`] | both, for the command `etmetal` |

pub mod comparing;
pub mod ffi;
pub mod selftest;
pub mod system;
