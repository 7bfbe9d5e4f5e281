//! Makes Mach-O files name their libraries through `@rpath`, so that they can be moved and share
//! their OpenMP with the process that loads them.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::audit::contents::Contents;
use crate::audit::image::{Format, Image, Kind};
use crate::audit::machine::is_system;
use crate::audit::signature::Signer;
use crate::macho::{self, Edits};

/// Search paths from a file to those beside it.
const BESIDE: &str = "@loader_path";

/// The edits that a file needs: none where nothing names a place outside of the system.
///
/// `has` tells whether a file of that name lies beside; `rpaths` are further folders in which
/// libraries are to be looked for.
pub fn edits(image: &Image, has: &dyn Fn(&str) -> bool, rpaths: &[String]) -> Edits {
    let mut edits = Edits::default();
    if image.format != Format::MachO || !image.is_linked() {
        return edits;
    }
    let is_foreign = |name: &str| name.starts_with('/') && !is_system(Format::MachO, name);
    let file = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let through_rpath = |name: &str| format!("@rpath/{}", file(name));
    if image.kind == Kind::Library {
        edits.install_name = image.name.as_deref().filter(|n| is_foreign(n)).map(through_rpath);
    }
    let mut needs_beside = false;
    for library in &image.libraries {
        if is_foreign(&library.name) {
            edits.libraries.push((library.name.clone(), through_rpath(&library.name)));
        }
        let looked_for = is_foreign(&library.name) || library.name.starts_with("@rpath/");
        needs_beside |= looked_for && has(&file(&library.name));
    }
    let known = |rpath: &str| {
        let rpath = rpath.trim_end_matches("/.").trim_end_matches('/');
        image.rpaths.iter().any(|have| have.trim_end_matches('/') == rpath)
    };
    if needs_beside && !known(BESIDE) {
        edits.rpaths.push(BESIDE.to_owned());
    }
    // Folders are only of use where something is looked for in them.
    let looks = image.libraries.iter().any(|library| library.name.starts_with("@rpath/"));
    if looks || !edits.libraries.is_empty() {
        edits.rpaths.extend(rpaths.iter().filter(|rpath| !known(rpath)).cloned());
    }
    edits
}

/// Repairs the file at `path`; gives back what was done, in words. Nothing is written where
/// nothing was wrong.
///
/// # Errors
/// It cannot be read or written, is damaged, or its header has no room for the new names.
pub fn repair(path: &Path, rpaths: &[String]) -> Result<Vec<String>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let context = || format!("cannot repair {}", path.display());
    if !is_macho(&bytes) {
        return Ok(Vec::new());
    }
    let contents = Contents::read(&bytes).with_context(context)?;
    let has = |file: &str| path.with_file_name(file).is_file();
    let mut wanted = Edits { identifier: identifier(path), ..Edits::default() };
    let mut done = Vec::new();
    let (mut unsigned, mut certified) = (false, false);
    for piece in contents.pieces.iter().filter(|piece| !piece.embedded) {
        let part = edits(&piece.image, &has, rpaths);
        merge(&mut wanted, part);
        if let Some(signature) = &piece.image.signature {
            let changed = signature.problem.is_some() || !signature.changed_pages.is_empty();
            let arm64 = piece.image.architecture.starts_with("arm64");
            unsigned |= changed || (signature.signer == Signer::Nobody && arm64);
            certified |= signature.signer == Signer::Identity;
        }
    }
    let new = macho_edited(&bytes, &wanted, unsigned).with_context(context)?;
    let Some(new) = new else { return Ok(done) };
    done.extend(wanted.install_name.iter().map(|name| format!("it is called {name}")));
    done.extend(wanted.libraries.iter().map(|(old, new)| format!("{old} is loaded as {new}")));
    done.extend(wanted.rpaths.iter().map(|rpath| format!("libraries are looked for in {rpath}")));
    done.push("it is signed ad hoc".to_owned());
    if certified {
        done.push("its signature with a certificate is gone: sign it again".to_owned());
    }
    macho::replace(path, &new)?;
    Ok(done)
}

fn is_macho(bytes: &[u8]) -> bool {
    use object::FileKind::{MachO32, MachO64, MachOFat32, MachOFat64};
    let kind = object::FileKind::parse(bytes);
    matches!(kind, Ok(MachO32 | MachO64 | MachOFat32 | MachOFat64))
}

fn macho_edited(bytes: &[u8], edits: &Edits, sign: bool) -> Result<Option<Vec<u8>>> {
    let is_empty = Edits { identifier: edits.identifier.clone(), ..Edits::default() } == *edits;
    if is_empty && !sign {
        return Ok(None);
    }
    match macho::edited(bytes, edits)? {
        Some(new) => Ok(Some(new)),
        None if sign => macho::signed(bytes, &edits.identifier).map(Some),
        None => Ok(None),
    }
}

fn merge(all: &mut Edits, part: Edits) {
    all.install_name = all.install_name.take().or(part.install_name);
    for library in part.libraries {
        if !all.libraries.contains(&library) {
            all.libraries.push(library);
        }
    }
    for rpath in part.rpaths {
        if !all.rpaths.contains(&rpath) {
            all.rpaths.push(rpath);
        }
    }
}

/// What the linker would have called it in its signature.
fn identifier(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
