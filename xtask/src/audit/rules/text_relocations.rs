//! Code is not written to.

use super::{Finding, Rule, Subject, few};

pub(super) const RULE: Rule = Rule {
    id: "text-relocations",
    summary: "code is not written to, neither when it is loaded nor later",
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    let mut findings = Vec::new();
    if image.text_relocations && image.is_linked() {
        findings.push(Finding::error(
            RULE.id,
            "loading it writes into its code, which hardened systems refuse",
            "compile everything that is linked into it with -fPIC",
        ));
    }
    if !image.writable_code.is_empty() {
        findings.push(Finding::error(
            RULE.id,
            format!("code can be written to: {}", few(&image.writable_code)),
            "link without -z rwx, -N, or -segprot",
        ));
    }
    findings
}
