//! Every library that the file names is found, for the right processor.

use super::{Finding, Rule, Subject};
use crate::audit::resolve::{Edge, Found};
use crate::openmp;

pub(super) const RULE: Rule = Rule {
    id: "missing-library",
    summary: "every library that is loaded with the file exists",
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // What many libraries need is missing once.
    let mut seen = std::collections::BTreeSet::new();
    let edges = subject.closure.edges.iter().filter(|edge| seen.insert(&edge.name));
    edges.filter_map(|edge| finding(edge, subject)).collect()
}

fn finding(edge: &Edge, subject: &Subject<'_>) -> Option<Finding> {
    let by = if edge.direct { String::new() } else { format!(", which {} needs,", edge.by) };
    match &edge.found {
        Found::Missing(looked) => {
            let place = match looked.as_slice() {
                [] => " (there is no search path)".to_owned(),
                places => format!(" (looked at {})", super::few(places)),
            };
            let message = format!("{}{by} is nowhere{place}", edge.name);
            let unused = openmp::Flavour::of(&edge.name).is_some() && !uses_openmp(subject);
            Some(match () {
                // The loader of models drops an OpenMP that no symbol uses.
                () if unused && subject.piece.embedded => Finding::note(
                    RULE.id,
                    format!(
                        "{message}; no symbol needs it, and the runtime loads the model without"
                    ),
                ),
                () if edge.weak => Finding::note(RULE.id, format!("{message}; it is not required")),
                () => Finding::error(RULE.id, message, fix(edge, subject)),
            })
        }
        Found::WrongArchitecture(file, architecture) => Some(Finding::error(
            RULE.id,
            format!(
                "{}{by} was found as {}, but that is {architecture}, not {} {}",
                edge.name,
                file.display(),
                subject.piece.image.format,
                subject.piece.image.architecture
            ),
            "put one for the right processor there, or a fat one",
        )),
        Found::Unknown(why) if edge.direct => {
            Some(Finding::note(RULE.id, format!("{} was not looked for: {why}", edge.name)))
        }
        Found::Unknown(_) | Found::File(_) | Found::System => None,
    }
}

fn uses_openmp(subject: &Subject<'_>) -> bool {
    subject.piece.image.imports.iter().any(|import| openmp::is_symbol(&import.name))
}

/// A library that lies beside the file only wants to be looked for there.
fn fix(edge: &Edge, subject: &Subject<'_>) -> String {
    let file = edge.name.rsplit('/').next().unwrap_or(&edge.name);
    let beside = subject.path.with_file_name(file).is_file();
    match (beside && !subject.piece.embedded, edge.name.starts_with("@rpath/")) {
        (true, true) => {
            "it lies beside: add the rpath @loader_path (`cargo xtask audit --fix`)".into()
        }
        (true, false) if edge.name.starts_with('/') => {
            "it lies beside: name it through @rpath (`cargo xtask audit --fix`)".into()
        }
        (true, false) => "it lies beside: link with -Wl,-rpath,$ORIGIN".into(),
        (false, _) => format!("install {file}, or put it beside the file"),
    }
}
