//! Mach-O: the bytes are those that were signed.

use super::{Finding, Rule, Subject, few};
use crate::audit::image::Format;
use crate::audit::signature::Signer;

pub(super) const RULE: Rule = Rule {
    id: "signature",
    summary: "a Mach-O file is signed, and its bytes are those that were signed",
    check,
};

const SIGN: &str = "sign it: `cargo xtask audit --fix`, or codesign --force --sign -";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    let Some(signature) = &image.signature else { return Vec::new() };
    debug_assert_eq!(image.format, Format::MachO);
    if let Some(problem) = &signature.problem {
        return vec![Finding::error(RULE.id, format!("its signature is damaged: {problem}"), SIGN)];
    }
    if !signature.changed_pages.is_empty() {
        let pages: Vec<_> = signature.changed_pages.iter().map(|at| format!("{at:#x}")).collect();
        return vec![Finding::error(
            RULE.id,
            format!(
                "{} of {} pages are not those that were signed (at {}): the system ends a process \
                 that touches them",
                pages.len(),
                signature.pages,
                few(&pages)
            ),
            SIGN,
        )];
    }
    match (signature.signer, image.architecture.as_str()) {
        (Signer::Nobody, "arm64" | "arm64e") => {
            vec![Finding::error(RULE.id, "it is not signed: arm64 systems refuse to load it", SIGN)]
        }
        (Signer::Nobody, _) => vec![Finding::note(RULE.id, "it is not signed")],
        (Signer::Linker | Signer::AdHoc | Signer::Identity, _) => Vec::new(),
    }
}
