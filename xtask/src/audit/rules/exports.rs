//! libetmetal exports the C ABI of models and its own C API, all of it and nothing else; a model
//! exports what the runtime calls.

use std::collections::BTreeSet;

use super::{Finding, Rule, Subject, few};
use crate::audit::Exports;
use crate::audit::shim;

pub(super) const RULE: Rule =
    Rule { id: "exports", summary: "what others count on is exported, and nothing besides", check };

/// What the runtime calls of every model.
const OF_MODELS: [&str; 6] = [
    "AOTInductorModelContainerCreateWithDevice",
    "AOTInductorModelContainerDelete",
    "AOTInductorModelContainerGetNumConstants",
    "AOTInductorModelContainerGetNumInputs",
    "AOTInductorModelContainerGetNumOutputs",
    "AOTInductorModelContainerRunSingleThreaded",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let image = &subject.piece.image;
    let of_libetmetal = match subject.expected.exports {
        Exports::Everything => true,
        Exports::ByName => image.is_libetmetal(),
    };
    if of_libetmetal {
        return missing(
            &shim::libetmetal_symbols(),
            &image.exports,
            "link with WHOLE_ARCHIVE \
             (-force_load), and check the list of exports",
        )
        .into_iter()
        .chain(surplus(subject))
        .collect();
    }
    if subject.piece.embedded {
        return missing(&OF_MODELS, &image.exports, "export the model again, with AOTInductor")
            .into_iter()
            .collect();
    }
    Vec::new()
}

fn missing(wanted: &[&str], exports: &BTreeSet<String>, fix: &str) -> Option<Finding> {
    let missing: Vec<_> = wanted.iter().copied().filter(|name| !exports.contains(*name)).collect();
    (!missing.is_empty()).then(|| {
        let message =
            format!("{} of {} exports are missing: {}", missing.len(), wanted.len(), few(&missing));
        Finding::error(RULE.id, message, fix)
    })
}

/// What libetmetal exports without need can take the place of another library's symbol.
fn surplus(subject: &Subject<'_>) -> Option<Finding> {
    let image = &subject.piece.image;
    if !image.is_linked() {
        return None;
    }
    let known = |name: &str| shim::is_of_models(name) || name.starts_with(shim::OWN_PREFIX);
    let surplus: Vec<_> = image.exports.iter().filter(|name| !known(name)).collect();
    (!surplus.is_empty()).then(|| {
        Finding::warning(
            RULE.id,
            format!(
                "{} symbols are exported that nobody is meant to use: {}",
                surplus.len(),
                few(&surplus)
            ),
            "link with a list of exports (--version-script, -exported_symbols_list)",
        )
    })
}
