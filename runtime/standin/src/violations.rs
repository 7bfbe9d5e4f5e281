//! What broke a rule.

use std::sync::Mutex;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Whose rule it is: `metal`, `objc`, …
    pub kind: &'static str,
    /// What was done.
    pub what: String,
}

static VIOLATIONS: Mutex<Vec<Violation>> = Mutex::new(Vec::new());

/// Records that a rule was broken. With `ETMETAL_STANDIN_TRACE` set, also says where.
pub fn violation(kind: &'static str, what: impl Into<String>) {
    let violation = Violation { kind, what: what.into() };
    if std::env::var_os("ETMETAL_STANDIN_TRACE").is_some() {
        let trace = std::backtrace::Backtrace::force_capture();
        eprintln!("{}: {}\n{trace}", violation.kind, violation.what);
    }
    VIOLATIONS.lock().unwrap().push(violation);
}

/// What was recorded since the last call, as `kind: what`.
pub fn take() -> Vec<String> {
    let taken = std::mem::take(&mut *VIOLATIONS.lock().unwrap());
    taken.into_iter().map(|v| format!("{}: {}", v.kind, v.what)).collect()
}
