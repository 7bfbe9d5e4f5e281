//! Releases: archives, wheels and frameworks that anyone can make again, bit for bit.
//!
//! ```text
//! etmetal-VERSION-TARGET.tar.zst             the stage, with licences and shaders
//! etmetal-VERSION-py3-none-PLATFORM.whl      the Python package with libetmetal inside
//! etmetal-VERSION.tar.gz                     the Python package's sources
//! etmetal-VERSION.xcframework.zip            for Xcode, with Package.swift
//! etmetal-VERSION.cdx.json                   what is inside of them (CycloneDX)
//! etmetal-VERSION.members.json               their members, by hash and place
//! etmetal-VERSION.provenance.json            from what they were made (in-toto)
//! SHA256SUMS                                 of all of these
//! ```
//!
//! [`tarball`], [`wheel`], [`sdist`] and [`xcframework`] collect a [`tree`] of members;
//! [`archive`] packs one so that each member lies in bytes of its own; [`make`] puts all together,
//! [`dist`] puts it in place at once, [`verify`] reads it back. [`reproduce`] makes everything a
//! second time elsewhere, and [`compare`] tells what differs.

pub mod archive;
pub mod catalogue;
pub mod choice;
pub mod compare;
pub mod crate_file;
pub mod crates;
pub mod digest;
pub mod dist;
pub mod epoch;
pub mod licences;
pub mod make;
pub mod manylinux;
pub mod provenance;
pub mod pyproject;
pub mod reproduce;
pub mod sbom;
pub mod sdist;
pub mod sign;
pub mod size;
pub mod sources;
mod stage_archive;
pub mod strip;
pub mod sums;
pub mod tarball;
pub mod target;
pub mod tree;
pub mod trial;
pub mod verify;
pub mod wheel;
pub mod xcframework;

pub use stage_archive::step;

/// The version of what is packed: that of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
