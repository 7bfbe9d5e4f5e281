//! Our `metal_stdlib`: headers that are part of the library.

use sha2::{Digest, Sha256};

/// Name and text of each header that rewritten shaders include.
const HEADERS: &[(&str, &str)] = &[
    ("msl.h", include_str!("include/msl.h")),
    ("base.h", include_str!("include/base.h")),
    ("bfloat.h", include_str!("include/bfloat.h")),
    ("limits.h", include_str!("include/limits.h")),
    ("vec.h", include_str!("include/vec.h")),
    ("matrix.h", include_str!("include/matrix.h")),
    ("float_math.h", include_str!("include/float_math.h")),
    ("math.h", include_str!("include/math.h")),
    ("integer.h", include_str!("include/integer.h")),
    ("geometric.h", include_str!("include/geometric.h")),
    ("atomic.h", include_str!("include/atomic.h")),
    ("races.h", include_str!("include/races.h")),
    ("fiber.h", include_str!("include/fiber.h")),
    ("threadgroup.h", include_str!("include/threadgroup.h")),
    ("vector_math.h", include_str!("include/vector_math.h")),
    ("split.h", include_str!("include/split.h")),
    ("launch.h", include_str!("include/launch.h")),
    ("checked.h", include_str!("include/checked.h")),
    ("simdgroup.h", include_str!("include/simdgroup.h")),
    ("simdgroup_matrix.h", include_str!("include/simdgroup_matrix.h")),
    ("collective.h", include_str!("include/collective.h")),
    ("fission.h", include_str!("include/fission.h")),
    ("reduction.h", include_str!("include/reduction.h")),
    ("address_spaces.h", include_str!("include/address_spaces.h")),
];

/// Headers that a shader may include. They are empty but for [`MACRO_NAMES`]: the declarations
/// come later, with `msl.h`, so that the text to be read stays the shader's own.
const STANDARD_HEADERS: &[&str] = &[
    "metal_stdlib",
    "metal_array",
    "metal_assert",
    "metal_atomic",
    "metal_common",
    "metal_compute",
    "metal_config",
    "metal_geometric",
    "metal_integer",
    "metal_limits",
    "metal_math",
    "metal_matrix",
    "metal_numeric",
    "metal_pack",
    "metal_quadgroup",
    "metal_relational",
    "metal_simdgroup",
    "metal_simdgroup_matrix",
    "metal_type_traits",
    "metal_types",
    "metal_uniform",
    "metal_utility",
    "simd/simd.h",
];

/// Text of every standard header: the macros of `base.h` as names of themselves, so that
/// `#ifdef INFINITY` is true while the name stays in the text.
fn macro_names() -> String {
    let mut text = String::from("#pragma once\n");
    let (_, base) = HEADERS.iter().find(|(name, _)| *name == "base.h").unwrap_or(&("", ""));
    for line in base.lines() {
        let Some(name) = line.strip_prefix("#define ").and_then(|l| l.split([' ', '(']).next())
        else {
            continue;
        };
        if !name.starts_with("MSL_") {
            text.push_str(&format!("#define {name} {name}\n"));
        }
    }
    text
}

/// All files, by their path below the include directory.
pub(crate) fn files() -> Vec<(String, String)> {
    let names = macro_names();
    let own = HEADERS.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string()));
    let standard = STANDARD_HEADERS.iter().map(|name| {
        let up = if name.contains('/') { "../" } else { "" };
        ((*name).to_string(), format!("#include \"{up}macro_names.h\"\n"))
    });
    own.chain(standard).chain([("macro_names.h".to_string(), names)]).collect()
}

/// Identifies this version of the headers.
pub(crate) fn digest() -> [u8; 32] {
    let mut hash = Sha256::new();
    for (name, text) in files() {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_part_of_the_library() {
        let dir =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/device/host/msl/include");
        let mut on_disk: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        on_disk.sort();
        let mut embedded: Vec<_> = HEADERS.iter().map(|(name, _)| (*name).to_string()).collect();
        embedded.sort();
        assert_eq!(on_disk, embedded);
    }

    #[test]
    fn macros_are_known_by_name() {
        let names = macro_names();
        assert!(names.contains("#define INFINITY INFINITY\n"));
        assert!(names.contains("#define METAL_FUNC METAL_FUNC\n"));
        assert!(!names.contains("MSL_INLINE"));
    }
}
