//! Every symbol that the file leaves to others is somewhere.

use super::{Finding, Rule, Subject, few};
use crate::audit::image::{Import, Provider};
use crate::audit::resolve::Found;
use crate::audit::shim::{self, Status};

pub(super) const RULE: Rule = Rule {
    id: "undefined-symbol",
    summary: "every symbol that the file leaves to others is in one of its libraries",
    check,
};

/// What becomes of one undefined symbol.
enum Verdict {
    /// Somebody has it, or it may be missing.
    Fine,
    /// Nobody can have it.
    Nobody(String),
    /// A library that could not be looked into may have it.
    Unknown,
}

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    if !image.is_linked() {
        return Vec::new();
    }
    let (mut nobody, mut unknown) = (Vec::new(), Vec::new());
    for import in &image.imports {
        match verdict(import, subject) {
            Verdict::Fine => {}
            Verdict::Nobody(why) => nobody.push(why),
            Verdict::Unknown => unknown.push(import.name.as_str()),
        }
    }
    let mut findings = Vec::new();
    if !nobody.is_empty() {
        let fix = if image.is_model() {
            "export the model again without these operators, or use a newer etmetal"
        } else {
            "link the library that has them"
        };
        findings.push(Finding::error(RULE.id, format!("nobody provides {}", few(&nobody)), fix));
    }
    if !unknown.is_empty() {
        findings.push(Finding::note(
            RULE.id,
            format!(
                "{} symbols are left to libraries that could not be looked into: {}",
                unknown.len(),
                few(&unknown)
            ),
        ));
    }
    findings
}

fn verdict(import: &Import, subject: &Subject<'_>) -> Verdict {
    let image = &subject.piece.image;
    if import.weak || image.exports.contains(&import.name) {
        return Verdict::Fine;
    }
    // Whatever torch in the process may have under these names is for tensors of its own.
    if image.is_model() && shim::is_of_models(&import.name) {
        return of_the_runtime(&import.name);
    }
    match import.provider {
        Provider::Library(index) => of_library(import, index, subject),
        Provider::Program => Verdict::Unknown,
        Provider::Any => of_anyone(import, subject),
    }
}

/// A name of the C ABI between models and the runtime.
fn of_the_runtime(name: &str) -> Verdict {
    match shim::lookup(name) {
        Some(function) => match function.status {
            Status::Implemented => Verdict::Fine,
            Status::NotApplicable(why) => Verdict::Nobody(format!("{name} ({why})")),
        },
        None => Verdict::Nobody(format!("{name} (not known to this etmetal)")),
    }
}

/// Mach-O: one library has to have it.
fn of_library(import: &Import, index: usize, subject: &Subject<'_>) -> Verdict {
    let Some(edge) = subject.closure.direct().nth(index) else {
        return Verdict::Nobody(format!("{} (of a library that is not named)", import.name));
    };
    match &edge.found {
        Found::System | Found::Unknown(_) => Verdict::Fine,
        Found::File(file) => {
            let has = subject.closure.image(file).is_none_or(|library| {
                library.exports.contains(&import.name)
                    || library.libraries.iter().any(|inner| inner.reexported)
            });
            if has {
                Verdict::Fine
            } else {
                Verdict::Nobody(format!("{} (not in {})", import.name, edge.name))
            }
        }
        Found::Missing(_) | Found::WrongArchitecture(..) => Verdict::Unknown,
    }
}

/// ELF, and Mach-O's flat lookup: any library of the process.
fn of_anyone(import: &Import, subject: &Subject<'_>) -> Verdict {
    let mut libraries = subject.closure.images.iter().map(|(_, image)| image);
    let named =
        |library: &&std::rc::Rc<crate::audit::image::Image>| library.exports.contains(&import.name);
    if let Some(library) = libraries.find(named) {
        let Some(version) = &import.version else { return Verdict::Fine };
        let lacks = !library.versions.is_empty() && !library.versions.contains(version);
        let other = subject.closure.images.iter().any(|(_, image)| {
            image.exports.contains(&import.name) && image.versions.contains(version)
        });
        return match lacks && !other {
            true => Verdict::Nobody(format!(
                "{}@{version} ({} here has no such version)",
                import.name,
                library.name.as_deref().unwrap_or("the library")
            )),
            false => Verdict::Fine,
        };
    }
    let judged = subject.closure.is_whole() && subject.machine.loads(&subject.piece.image);
    if judged { Verdict::Nobody(import.name.clone()) } else { Verdict::Unknown }
}
