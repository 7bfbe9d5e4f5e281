//! Libraries are not named by a place on the machine that built the file.

use super::{Finding, Rule, Subject};
use crate::audit::image::{Format, Kind};
use crate::audit::machine::is_system;

pub(super) const RULE: Rule = Rule {
    id: "absolute-path",
    summary: "no library outside of the system is named by an absolute path",
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    let is_foreign = |name: &str| {
        name.starts_with('/') && !(image.format == Format::MachO && is_system(image.format, name))
    };
    let fix = match (image.format, subject.piece.embedded) {
        (_, true) => "export the model again: exports name no library by its place",
        (Format::MachO, false) => {
            "`cargo xtask audit --fix` names it through @rpath (as install_name_tool -change does)"
        }
        (Format::Elf, false) => "link with -lNAME, or give that library a SONAME",
    };
    let mut findings: Vec<_> = image
        .libraries
        .iter()
        .filter(|library| is_foreign(&library.name))
        .map(|library| {
            let message = format!("it loads {}, a place that other machines lack", library.name);
            Finding::error(RULE.id, message, fix)
        })
        .collect();
    if image.kind == Kind::Library
        && let Some(name) = image.name.as_deref().filter(|name| is_foreign(name))
    {
        findings.push(Finding::warning(
            RULE.id,
            format!("its install name is {name}: whatever links it will look for it there"),
            "`cargo xtask audit --fix` makes it @rpath/…; or link with -install_name @rpath/…",
        ));
    }
    findings
}
