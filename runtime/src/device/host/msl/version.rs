//! Identifies this version of the translation, so that a cache made by another is not used.

/// The sources that decide what a shader becomes.
const SOURCES: &[&[u8]] = &[
    include_bytes!("waiting.rs"),
    include_bytes!("parameters.rs"),
    include_bytes!("declarations.rs"),
    include_bytes!("compile.rs"),
    include_bytes!("diagnostics.rs"),
    include_bytes!("emit.rs"),
    include_bytes!("fission/analyse.rs"),
    include_bytes!("fission/builtins.rs"),
    include_bytes!("fission/collective.rs"),
    include_bytes!("fission/columns.rs"),
    include_bytes!("fission/definitions.rs"),
    include_bytes!("fission/effects.rs"),
    include_bytes!("fission/emit.rs"),
    include_bytes!("fission/gather.rs"),
    include_bytes!("fission/gathering.rs"),
    include_bytes!("fission/hoist.rs"),
    include_bytes!("fission/loops.rs"),
    include_bytes!("fission/operations.rs"),
    include_bytes!("fission/mod.rs"),
    include_bytes!("fission/pays.rs"),
    include_bytes!("fission/reuse.rs"),
    include_bytes!("fission/simd.rs"),
    include_bytes!("fission/statement.rs"),
    include_bytes!("fission/steps.rs"),
    include_bytes!("headers.rs"),
    include_bytes!("kernels.rs"),
    include_bytes!("lex.rs"),
    include_bytes!("module.rs"),
    include_bytes!("native.rs"),
    include_bytes!("rewrite.rs"),
    include_bytes!("split_index.rs"),
    include_bytes!("stored.rs"),
    include_bytes!("strict/binding.rs"),
    include_bytes!("strict/conversion.rs"),
    include_bytes!("strict/element.rs"),
    include_bytes!("strict/entry.rs"),
    include_bytes!("strict/input.rs"),
    include_bytes!("strict/keyword.rs"),
    include_bytes!("strict/lambda.rs"),
    include_bytes!("strict/literal.rs"),
    include_bytes!("strict/mod.rs"),
    include_bytes!("strict/names.rs"),
    include_bytes!("strict/outline.rs"),
    include_bytes!("strict/pointer.rs"),
    include_bytes!("strict/specifiers.rs"),
    include_bytes!("strict/storage.rs"),
    include_bytes!("strict/twins.rs"),
    include_bytes!("strict/words.rs"),
    include_bytes!("toolchain.rs"),
];

/// A hash (FNV-1a) of [`SOURCES`], made by the compiler: the texts are not part of the library.
#[allow(long_running_const_eval, reason = "some hundred thousand steps, once")]
pub(crate) const TRANSLATION: u64 = {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut file = 0;
    while file < SOURCES.len() {
        let mut at = 0;
        while at < SOURCES[file].len() {
            hash = (hash ^ SOURCES[file][at] as u64).wrapping_mul(0x100_0000_01b3);
            at += 1;
        }
        file += 1;
    }
    hash
};

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Sources that do not decide what a shader becomes.
    const OTHERS: [&str; 6] =
        ["cache.rs", "fault.rs", "harness.rs", "mod.rs", "places.rs", "version.rs"];

    #[test]
    fn every_source_counts() {
        let own = include_str!("version.rs");
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/device/host/msl");
        let strict = dir.join("strict");
        let fission = dir.join("fission");
        for (dir, prefix) in [(dir, ""), (strict, "strict/"), (fission, "fission/")] {
            for entry in std::fs::read_dir(dir).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let other = prefix.is_empty() && OTHERS.contains(&name.as_str());
                if name.ends_with(".rs") && !other {
                    let listed = own.contains(&format!("include_bytes!(\"{prefix}{name}\")"));
                    assert!(listed, "{prefix}{name} is not listed");
                }
            }
        }
    }
}
