//! The words of MSL that the rules look for.

use super::super::lex::{Token, matching, matching_angle};

/// Address spaces that a type can name (MSL 4).
const ADDRESS_SPACES: [&str; 7] = [
    "device",
    "constant",
    "thread",
    "threadgroup",
    "threadgroup_imageblock",
    "object_data",
    "ray_data",
];

/// Scalar types and their aliases (MSL 2.1). `long` and the like also begin `long int`.
const SCALARS: [&str; 25] = [
    "bool",
    "char",
    "uchar",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "half",
    "bfloat",
    "float",
    "size_t",
    "ptrdiff_t",
    "unsigned",
    "signed",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "double",
];

/// Elements of vector types: `float4` is `float` and a number (MSL 2.2).
const VECTOR_ELEMENTS: [&str; 12] = [
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat",
    "float",
];

/// Whether `word` is an address space.
pub(super) fn is_address_space(token: &Token<'_>) -> bool {
    token.is_ident() && ADDRESS_SPACES.contains(&token.text)
}

/// Elements of the vector type `name` (`float4`, `packed_float3`), 1 for a scalar type; `None`
/// for any other name.
pub(super) fn components(name: &str) -> Option<u32> {
    if SCALARS.contains(&name) {
        return Some(1);
    }
    let name = name.strip_prefix("packed_").unwrap_or(name);
    let count = name.chars().last()?.to_digit(10).filter(|n| (2..=4).contains(n))?;
    VECTOR_ELEMENTS.contains(&&name[..name.len() - 1]).then_some(count)
}

/// Whether the token names a type that every shader has: a scalar, a vector or `void`.
pub(super) fn is_builtin_type(token: &Token<'_>) -> bool {
    token.is_ident() && (token.text == "void" || components(token.text).is_some())
}

/// Words that may stand around the type of a declaration and are not part of its name.
pub(super) fn is_qualifier(token: &Token<'_>) -> bool {
    const QUALIFIERS: [&str; 12] = [
        "const",
        "volatile",
        "constexpr",
        "static",
        "inline",
        "extern",
        "typename",
        "struct",
        "restrict",
        "__restrict",
        "friend",
        "mutable",
    ];
    token.is_ident() && (QUALIFIERS.contains(&token.text) || is_address_space(token))
}

/// Index behind the attribute list, `alignas(...)`, `__attribute__((...))` or `coherent(...)`
/// that starts at `at`; `None` if there is none.
pub(super) fn skip_attribute(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let token = tokens.get(at)?;
    if token.is("[") && tokens.get(at + 1)?.is("[") {
        return Some(matching(tokens, at)? + 1);
    }
    let takes = ["alignas", "__attribute__", "__attribute", "__declspec", "coherent"];
    if token.is_ident() && takes.contains(&token.text) {
        return match tokens.get(at + 1) {
            Some(next) if next.is("(") => Some(matching(tokens, at + 1)? + 1),
            _ => Some(at + 1),
        };
    }
    None
}

/// Index behind the template arguments at `at`, or `at` if none start there.
pub(super) fn skip_arguments(tokens: &[Token<'_>], at: usize) -> usize {
    match tokens.get(at) {
        Some(token) if token.is("<") => matching_angle(tokens, at).map_or(at, |close| close + 1),
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_components() {
        for (name, expected) in [
            ("float", Some(1)),
            ("uint3", Some(3)),
            ("packed_half4", Some(4)),
            ("uint64_t", Some(1)),
            ("float5", None),
            ("float1", None),
            ("half_4", None),
            ("vec4", None),
            ("é3", None),
            ("", None),
        ] {
            assert_eq!(components(name), expected, "{name}");
        }
    }
}
