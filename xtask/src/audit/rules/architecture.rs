//! The file is for the processor and system that it is meant for.

use super::{Finding, Rule, Subject};
use crate::audit::image::Format;

pub(super) const RULE: Rule = Rule {
    id: "architecture",
    summary: "the file is for the processor and the system that it is meant for",
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(target) = &subject.expected.target else { return Vec::new() };
    let image = &subject.piece.image;
    if (image.format, image.architecture.as_str()) == (target.format, &target.architecture) {
        return platform(subject, target.platform);
    }
    vec![Finding::error(
        RULE.id,
        format!(
            "{} {}, but {} needs {} {}",
            image.format, image.architecture, target.triple, target.format, target.architecture
        ),
        if subject.piece.embedded {
            "export the model again, for this target"
        } else {
            "build it for this target, or name the right one with --target"
        },
    )]
}

/// Code for the simulator, or for another of Apple's systems, has the same processor.
fn platform(subject: &Subject<'_>, wanted: Option<&'static str>) -> Vec<Finding> {
    let image = &subject.piece.image;
    match (&image.platform, wanted) {
        (Some(found), Some(wanted)) if image.format == Format::MachO && found.name != wanted => {
            vec![Finding::error(
                RULE.id,
                format!("it is for {}, not for {wanted}", found.name),
                "build it for this target, or name the right one with --target",
            )]
        }
        _ => Vec::new(),
    }
}
