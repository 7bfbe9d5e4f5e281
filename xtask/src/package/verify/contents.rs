//! What is inside of an archive, against the catalogue; and wheels against themselves.

use anyhow::{Result, bail};

use crate::package::archive::{self, Form};
use crate::package::catalogue::{Archive, Entry};
use crate::package::epoch::Epoch;
use crate::package::tree::{Tree, is_inside};
use crate::package::{manylinux, wheel};

/// The archive's members.
///
/// # Errors
/// They are not those of the catalogue, or not packed as releases are.
pub fn tree(name: &str, bytes: &[u8], archive: &Archive, epoch: Epoch) -> Result<Tree> {
    let tree = archive::unpack(Form::of(name)?, bytes, epoch)?;
    for (path, member) in tree.iter() {
        match archive.members.get(path) {
            None => bail!("the member {path} is in no catalogue"),
            Some(known) if *known != Entry::of(member) => {
                bail!("the member {path} is not the one of the catalogue")
            }
            Some(_) => {}
        }
        if !is_inside(path) {
            bail!("the member {path} would lie outside of where the archive is unpacked");
        }
    }
    if let Some(missing) = archive.members.keys().find(|path| tree.get(path).is_none()) {
        bail!("the member {missing} is missing");
    }
    Ok(tree)
}

/// What is wrong with a wheel: its `RECORD`, its tag, what its libraries need.
pub fn wheel(name: &str, tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    let text = |file: &str| {
        let path = format!("{}/{file}", wheel::dist_info());
        tree.get(&path).map(|member| String::from_utf8_lossy(member.bytes()).into_owned())
    };
    if text("RECORD").is_none_or(|record| record != wheel::record(tree)) {
        faults.push(format!("{name}: the member RECORD does not have all members as they are"));
    }
    let tag = name.strip_suffix(".whl").and_then(|name| name.split_once("-py3-none-"));
    let tag = tag.map(|(_, platform)| platform).unwrap_or_default();
    if !text("WHEEL").unwrap_or_default().contains(&format!("\nTag: py3-none-{tag}\n")) {
        faults.push(format!("{name}: the member WHEEL has another tag than the file's name"));
    }
    if tag.starts_with("manylinux") {
        let elf = tree.iter().filter(|(_, member)| member.bytes().starts_with(b"\x7fELF"));
        match manylinux::tag(elf.map(|(path, member)| (path, member.bytes()))) {
            Ok(needed) if needed == tag => {}
            Ok(needed) => faults.push(format!("{name}: what is inside needs the tag {needed}")),
            Err(error) => faults.push(format!("{name}: {error:#}")),
        }
    }
    faults
}
