//! The folders in which libraries are looked for exist, and move with the file.

use super::{Finding, Rule, Subject};
use crate::audit::machine::is_system;

pub(super) const RULE: Rule = Rule {
    id: "rpath",
    summary: "search paths exist, are named once, and move with the file",
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    let mut findings = Vec::new();
    for (index, rpath) in image.rpaths.iter().enumerate() {
        if image.rpaths[..index].contains(rpath) {
            findings.push(Finding::warning(
                RULE.id,
                format!("the search path {rpath} is there twice (new systems refuse to load that)"),
                "remove one, in the link flags or with install_name_tool -delete_rpath",
            ));
            continue;
        }
        let allowed = subject.expected.rpaths.contains(rpath)
            || is_system(image.format, &format!("{rpath}/"));
        if rpath.starts_with('/') && !allowed {
            findings.push(Finding::warning(
                RULE.id,
                format!("the search path {rpath} is of one machine"),
                "use $ORIGIN or @loader_path, or list it under `[link] rpaths` if it is meant",
            ));
        }
        if !rpath.starts_with('/') && !rpath.starts_with(['$', '@']) {
            findings.push(Finding::error(
                RULE.id,
                format!("the search path {rpath:?} depends on the folder of the caller"),
                "use $ORIGIN or @loader_path",
            ));
        }
        let folder = subject.resolver.folder(subject.path, subject.piece, rpath);
        let judged = !rpath.starts_with('/') || subject.machine.format == image.format;
        if let Some(folder) = folder.filter(|folder| judged && !folder.is_dir()) {
            findings.push(Finding::note(
                RULE.id,
                format!(
                    "the search path {rpath} is {}, which does not exist here",
                    folder.display()
                ),
            ));
        }
    }
    findings
}
