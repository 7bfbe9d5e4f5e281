//! The C ABI between models and this project: which names libetmetal gives to models.

/// What becomes of a function of PyTorch's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// libetmetal exports it.
    Implemented,
    /// It does not, for this reason.
    NotApplicable(&'static str),
}

/// One function of PyTorch's headers. The runtime's table is written in terms of this.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// The declaration.
    pub signature: &'static str,
    /// The PyTorch version that introduced it.
    pub since: &'static str,
    /// What becomes of it.
    pub status: Status,
}

impl Function {
    /// Its name.
    pub fn name(&self) -> &'static str {
        let head = self.signature.split('(').next().unwrap_or_default();
        head.rsplit([' ', '*']).next().unwrap_or_default()
    }
}

/// The runtime's own table, so that there is one list.
#[path = "../../../runtime/src/shim/table/functions.rs"]
mod functions;

/// The C API of libetmetal, for programs.
const HEADERS: [&str; 2] = [
    include_str!("../../../runtime/cpp/etmetal_runner.h"),
    include_str!("../../../runtime/cpp/etmetal_delegate.h"),
];

/// Prefix of the names that only libetmetal may answer for models.
pub const MODEL_PREFIX: &str = "aoti_torch_";
/// Prefix of the names of this project's own C API.
pub const OWN_PREFIX: &str = "etmetal_";

/// Patterns of all of these names, for linkers that take patterns: PyTorch's stable C ABI, which
/// models call too, begins its names with `torch_` alone.
pub const PATTERNS: [&str; 3] = ["aoti_torch_*", "etmetal_*", "torch_*"];

/// Whether a name is one of the C ABI between models and the runtime, answered or not.
pub fn is_of_models(name: &str) -> bool {
    name.starts_with(MODEL_PREFIX) || lookup(name).is_some()
}

/// The names that libetmetal gives to models, sorted.
pub fn model_symbols() -> Vec<&'static str> {
    let given = functions::FUNCTIONS.iter().filter(|f| f.status == Status::Implemented);
    let mut names: Vec<_> = given.map(Function::name).collect();
    names.sort_unstable();
    names
}

/// The function of this name in PyTorch's headers.
pub fn lookup(name: &str) -> Option<&'static Function> {
    functions::FUNCTIONS.iter().find(|function| function.name() == name)
}

/// The functions that the C headers declare, sorted.
pub fn c_api() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = HEADERS.iter().flat_map(|text| declared(text)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// What models call that no header declares: see `container/thread_exit.rs` of the runtime.
const OF_THE_LOADER: [&str; 1] = ["etmetal_thread_atexit"];

/// Every name that libetmetal has to export, sorted.
pub fn libetmetal_symbols() -> Vec<&'static str> {
    let mut names = [model_symbols(), c_api(), OF_THE_LOADER.to_vec()].concat();
    names.sort_unstable();
    names
}

/// Names of the form `etmetal_…` that a `(` follows, outside of comments.
fn declared(header: &'static str) -> impl Iterator<Item = &'static str> {
    header.lines().filter(|line| !is_comment(line)).flat_map(|line| {
        line.match_indices(OWN_PREFIX).filter_map(move |(at, _)| {
            let before = line[..at].chars().next_back();
            let rest = &line[at..];
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c| !is_name(c))?;
            let whole = !before.is_some_and(is_name);
            (whole && rest[end..].starts_with('(')).then_some(&rest[..end])
        })
    })
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["//", "/*", "*"].iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read() {
        let symbols = model_symbols();
        let matched = |name: &&str| PATTERNS.iter().any(|p| name.starts_with(&p[..p.len() - 1]));
        assert!(libetmetal_symbols().iter().all(matched), "the patterns are whole");
        assert!(symbols.len() > 100, "{}", symbols.len());
        assert!(symbols.contains(&"aoti_torch_mps_mm_out"), "{symbols:?}");
        let cuda = functions::FUNCTIONS
            .iter()
            .find(|function| matches!(function.status, Status::NotApplicable("for CUDA")));
        assert!(!symbols.contains(&cuda.unwrap().name()));
        let api = c_api();
        assert!(api.contains(&"etmetal_module_load"), "{api:?}");
        assert!(api.contains(&"etmetal_delegate_init"), "{api:?}");
        assert!(api.iter().all(|name| name.starts_with(OWN_PREFIX)));
    }
}
