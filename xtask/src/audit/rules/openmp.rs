//! One process holds at most one OpenMP.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Finding, Rule, Subject};
use crate::audit::resolve::{Closure, Found};
use crate::openmp::{self, Flavour};

pub(super) const RULE: Rule = Rule {
    id: "openmp",
    summary: "one process holds at most one OpenMP (two of them end with OMP: Error #15)",
    check,
};

/// A copy of OpenMP, with who brings it.
struct Copy {
    flavour: Flavour,
    brought_by: String,
}

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    let mut copies: BTreeMap<String, Copy> = BTreeMap::new();
    let own_file = subject.path.canonicalize();
    let own = own_file.as_deref().unwrap_or(subject.path);
    if openmp::defines(&image.exports) {
        let flavour = Flavour::of(&own.to_string_lossy()).unwrap_or(Flavour::Llvm);
        copies.insert(own.display().to_string(), Copy { flavour, brought_by: "itself".into() });
    }
    gather(subject.closure, own, None, &mut copies);
    for (name, closure) in subject.beside {
        gather(closure, Path::new(name), Some(name), &mut copies);
    }
    let mut clashing: Vec<_> =
        copies.iter().filter(|(_, copy)| copy.flavour != Flavour::Gnu).collect();
    let shown = |copies: &[(&String, &Copy)]| {
        let texts = copies.iter().map(|(place, copy)| format!("{place} (by {})", copy.brought_by));
        texts.collect::<Vec<_>>().join(" and ")
    };
    if clashing.len() > 1 {
        return vec![Finding::error(
            RULE.id,
            format!(
                "{} copies of OpenMP would be in one process, which ends with OMP: Error #15: {}",
                clashing.len(),
                shown(&clashing)
            ),
            "let all load the same file: `cargo xtask audit --fix` names it @rpath/…; \
             `[link] openmp` chooses which",
        )];
    }
    if copies.len() > 1 {
        clashing = copies.iter().collect();
        return vec![Finding::warning(
            RULE.id,
            format!("two OpenMPs, each with its own threads: {}", shown(&clashing)),
            "build everything with one of them",
        )];
    }
    Vec::new()
}

/// The copies in a tree of libraries. One that was not found counts by its name: it may turn out
/// to be another file than the rest.
fn gather(closure: &Closure, root: &Path, by: Option<&str>, copies: &mut BTreeMap<String, Copy>) {
    if by.is_some()
        && let Some(flavour) = Flavour::of(&root.to_string_lossy())
    {
        let brought_by = "the process".to_owned();
        copies.entry(root.display().to_string()).or_insert(Copy { flavour, brought_by });
    }
    for edge in &closure.edges {
        let Some(flavour) = Flavour::of(&edge.name) else { continue };
        let place = match &edge.found {
            Found::File(file) => file.display().to_string(),
            // A place that was not looked into is still a place of its own; a file that does
            // not exist is not loaded.
            Found::Unknown(_) | Found::System => edge.name.clone(),
            Found::Missing(_) | Found::WrongArchitecture(..) => continue,
        };
        let brought_by = by.unwrap_or(&edge.by).to_owned();
        copies.entry(place).or_insert(Copy { flavour, brought_by });
    }
    for (path, image) in &closure.images {
        // A library that holds a whole OpenMP inside it.
        if openmp::defines(&image.exports) && Flavour::of(&path.to_string_lossy()).is_none() {
            let brought_by = format!("{}, which holds one inside", path.display());
            let copy = Copy { flavour: Flavour::Llvm, brought_by };
            copies.entry(path.display().to_string()).or_insert(copy);
        }
    }
}
