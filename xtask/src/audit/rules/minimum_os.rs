//! The oldest system that loads the file is old enough, and so are its libraries.

use super::{Finding, Rule, Subject};
use crate::audit::image::Format;
use crate::audit::resolve::Found;

pub(super) const RULE: Rule = Rule {
    id: "minimum-os",
    summary: "the file and its libraries load on the oldest system that is promised",
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    let mut findings = Vec::new();
    let Some(platform) = &image.platform else {
        if image.format == Format::MachO && image.is_linked() {
            findings.push(Finding::warning(
                RULE.id,
                "it does not say which system it is for",
                "link it with -target or -mmacosx-version-min",
            ));
        }
        return findings;
    };
    if let Some(promised) = subject.expected.minimum_os
        && platform.minimum > promised
    {
        findings.push(Finding::error(
            RULE.id,
            format!("it needs {platform}, but {} {promised} is promised", platform.name),
            match image.format {
                Format::MachO => "compile and link everything with the promised deployment target",
                Format::Elf => "build it on a system with an older glibc",
            },
        ));
    }
    if image.format == Format::Elf {
        return findings;
    }
    for edge in subject.closure.direct() {
        let Found::File(file) = &edge.found else { continue };
        let library = subject.closure.image(file).and_then(|image| image.platform.as_ref());
        if let Some(theirs) = library.filter(|theirs| theirs.minimum > platform.minimum) {
            findings.push(Finding::warning(
                RULE.id,
                format!("{} needs {theirs}, newer than this file's {platform}", edge.name),
                "take an older build of that library, or raise the deployment target",
            ));
        }
    }
    findings
}
