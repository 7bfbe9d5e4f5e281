//! The stack holds no code.

use super::{Finding, Rule, Subject};
use crate::audit::image::{Kind, Stack};

pub(super) const RULE: Rule =
    Rule { id: "executable-stack", summary: "the stack holds no code", check };

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    let finding = match (image.stack, image.is_linked()) {
        (Stack::Data, _) => return Vec::new(),
        (Stack::Executable, _) => Finding::error(
            RULE.id,
            "it wants a stack that holds code: new C libraries refuse to load it",
            "link with -z noexecstack; look for assembly without a .note.GNU-stack section",
        ),
        (Stack::Unsaid, true) => Finding::error(
            RULE.id,
            "it does not say that its stack holds no code, which counts as the opposite",
            "link with -z noexecstack",
        ),
        (Stack::Unsaid, false) => Finding::warning(
            RULE.id,
            format!(
                "{} does not say that its stack holds no code",
                if image.kind == Kind::Archive { "an object in it" } else { "it" }
            ),
            "add `.section .note.GNU-stack,\"\",@progbits` to its assembly",
        ),
    };
    vec![finding]
}
