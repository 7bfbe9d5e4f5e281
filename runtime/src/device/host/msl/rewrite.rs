//! Turns the tokens of a shader into C++ that clang compiles against our headers.
//!
//! Only what C++ cannot say is changed: attributes and the word `kernel` go, literals get the
//! type that MSL gives them, threadgroup variables move into the arena, explicit instantiations
//! of kernels go, what can be had faster is named otherwise. Everything stays on its line, and the edits are remembered, so that the
//! compiler's messages lead back to the column in the source.

use std::collections::HashSet;
use std::ops::Range;

use super::kernels::Analysis;
use super::lex::{Kind, Token, attribute_end, join, matching, matching_angle};
use super::split_index;

/// The C++ text, and how to find the way back.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The text, with `#line` directives for the file name [`SOURCE_NAME`].
    pub text: String,
    edits: Vec<Edit>,
}

/// The file name of the shader in the text that clang sees.
pub(crate) const SOURCE_NAME: &str = "msl";

/// Another text for some tokens.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// The tokens.
    pub tokens: Range<usize>,
    /// The text, on one line.
    pub text: String,
}

/// One replaced range of the preprocessed text.
#[derive(Debug)]
struct Edit {
    range: Range<usize>,
    line: u32,
    column: u32,
    replacement: String,
}

impl Rewritten {
    /// The source column of a column of the text.
    pub(crate) fn source_column(&self, line: u32, column: u32) -> u32 {
        let mut shift: i64 = 0;
        for edit in self.edits.iter().filter(|e| e.line == line) {
            let start = i64::from(edit.column) + shift;
            if i64::from(column) < start {
                break;
            }
            if i64::from(column) < start + edit.replacement.len() as i64 {
                return edit.column;
            }
            shift += edit.replacement.len() as i64 - edit.range.len() as i64;
        }
        u32::try_from((i64::from(column) - shift).max(1)).unwrap_or(1)
    }
}

/// Rewrites line markers of the preprocessor so that all name the shader: nothing else is left
/// in its output, and paths must not show up in messages.
pub(crate) fn normalise_markers(preprocessed: &str) -> String {
    let mut text = String::with_capacity(preprocessed.len());
    for line in preprocessed.split_inclusive('\n') {
        match line.strip_prefix("# ").and_then(|rest| rest.split(' ').next()) {
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => {
                text.push_str(&format!(
                    "#line {} \"{SOURCE_NAME}\"\n",
                    number.parse().unwrap_or(1).max(1)
                ));
            }
            _ => text.push_str(line),
        }
    }
    text
}

/// Rewrites the preprocessed text whose tokens these are. The token ranges `left_out` go, too. If
/// it is not `checked`, operations of a group whose threads all do the same are done by one.
pub(crate) fn rewrite(
    text: &str,
    tokens: &[Token<'_>],
    analysis: &Analysis,
    left_out: Vec<Range<usize>>,
    checked: bool,
) -> Rewritten {
    let mut edits = Vec::new();
    // Names that the shader itself declares: its own structs may have a member `rgb`.
    let declared: HashSet<&str> = (0..tokens.len())
        .filter(|&i| tokens[i].is_ident() && !is_member(tokens, i))
        .map(|i| tokens[i].text)
        .collect();
    let mut removed = [analysis.instantiations.clone(), left_out].concat();
    removed.sort_by_key(|range| range.start);
    let mut removed = removed.into_iter().peekable();
    let mut replaced = split_index::replacements(tokens, analysis);
    replaced.extend(error_functions(tokens));
    replaced.sort_by_key(|replacement| replacement.tokens.start);
    let mut replaced = replaced.into_iter().peekable();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(range) = removed.next_if(|r| r.start == at) {
            at = range.end;
            edits.push(edit(tokens, range, String::new()));
            continue;
        }
        if let Some(Replacement { tokens: range, text }) =
            replaced.next_if(|r| r.tokens.start == at)
        {
            at = range.end;
            edits.push(edit(tokens, range, text));
            continue;
        }
        if let Some(end) = attribute_end(tokens, at) {
            edits.push(edit(tokens, at..end + 1, String::new()));
            at = end + 1;
            continue;
        }
        if let Some((end, replacement)) = threadgroup_variables(tokens, at) {
            edits.push(edit(tokens, at..end, replacement));
            at = end;
            continue;
        }
        let token = &tokens[at];
        if is_color_swizzle(tokens, at) && !declared.contains(token.text) {
            edits.push(edit(tokens, at..at + 1, position_swizzle(token.text)));
        } else if let Some(replacement) = fiber_operation(tokens, at)
            && !checked
        {
            edits.push(edit(tokens, at..at + 1, replacement));
        } else if token.is("kernel") {
            edits.push(edit(tokens, at..at + 1, String::new()));
        } else if token.kind == Kind::Number
            && let Some(replacement) = literal(token.text)
        {
            edits.push(edit(tokens, at..at + 1, replacement));
        }
        at += 1;
    }
    Rewritten { text: apply(text, &edits), edits }
}

/// Calls of PyTorch's error function, which go to one without branches (`msl::erf`).
fn error_functions(tokens: &[Token<'_>]) -> impl Iterator<Item = Replacement> {
    const CALL: [&str; 6] = ["c10", "::", "metal", "::", "erf", "("];
    let calls = tokens.windows(CALL.len()).enumerate();
    calls.filter(|(_, words)| words.iter().zip(CALL).all(|(token, word)| token.is(word))).map(
        |(at, _)| Replacement { tokens: at..at + CALL.len() - 1, text: "MSL_MATH::erf".to_owned() },
    )
}

fn edit(tokens: &[Token<'_>], range: Range<usize>, replacement: String) -> Edit {
    let first = &tokens[range.start];
    let last = &tokens[range.end - 1];
    Edit { range: first.offset..last.end(), line: first.line, column: first.column, replacement }
}

fn apply(text: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(text.len() + 256);
    let mut from = 0;
    for edit in edits {
        out.push_str(&text[from..edit.range.start]);
        out.push_str(&edit.replacement);
        // Lines must keep their numbers; line markers inside the range stay, too.
        let removed = &text[edit.range.clone()];
        for line in removed.split_inclusive('\n').skip(1) {
            out.push('\n');
            if line.starts_with('#') {
                out.push_str(line.trim_end());
            }
        }
        from = edit.range.end;
    }
    out.push_str(&text[from..]);
    out
}

/// What a numeric literal of MSL is in C++; `None` if the same.
///
/// MSL has no double: a literal without a suffix is a float. `h` makes a half, `bf` a bfloat.
fn literal(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("0x") && !lower.contains('p') {
        return None;
    }
    let hex = lower.starts_with("0x");
    let is_float =
        lower.contains('.') || (!hex && lower.contains('e')) || (hex && lower.contains('p'));
    if let Some(digits) = text.strip_suffix("bf").or_else(|| text.strip_suffix("BF")) {
        return Some(format!("bfloat({}f)", with_point(digits)));
    }
    if let Some(digits) = text.strip_suffix(['h', 'H']) {
        return Some(format!("{}f16", with_point(digits)));
    }
    let suffixed = lower.ends_with(['f', 'l']);
    (is_float && !suffixed).then(|| format!("{text}f"))
}

/// `1` as `1.0`, which can take a float suffix.
fn with_point(digits: &str) -> String {
    let integer = digits.bytes().all(|b| b.is_ascii_digit());
    if integer { format!("{digits}.0") } else { digits.to_string() }
}

/// Whether the token follows `.` or `->`.
fn is_member(tokens: &[Token<'_>], at: usize) -> bool {
    at > 0 && (tokens[at - 1].is(".") || tokens[at - 1].is("->"))
}

/// Whether the token is a member like `rgb`. (One letter is a property of our vectors.)
fn is_color_swizzle(tokens: &[Token<'_>], at: usize) -> bool {
    let text = tokens[at].text;
    is_member(tokens, at)
        && (2..=4).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'r' | b'g' | b'b' | b'a'))
}

/// The same swizzle in x, y, z, w.
fn position_swizzle(text: &str) -> String {
    let position = |c| match c {
        'r' => 'x',
        'g' => 'y',
        'b' => 'z',
        _ => 'w',
    };
    text.chars().map(position).collect()
}

/// If threadgroup variables are declared at `at`: the index behind the `;`, and the C++.
fn threadgroup_variables(tokens: &[Token<'_>], at: usize) -> Option<(usize, String)> {
    if !tokens[at].is("threadgroup") || !starts_statement(tokens, at) {
        return None;
    }
    // The type: words, `::` and template arguments, up to the first declared name.
    let mut end_of_type = at + 1;
    let first_name = loop {
        let token = tokens.get(end_of_type)?;
        if token.is("<") {
            end_of_type = matching_angle(tokens, end_of_type)? + 1;
            continue;
        }
        let next = tokens.get(end_of_type + 1)?;
        if token.is_ident() && matches!(next.text, ";" | "[" | "," | "=") {
            break end_of_type;
        }
        if !token.is_ident() && !token.is("::") {
            return None; // a pointer, a reference, a function
        }
        end_of_type += 1;
    };
    let ty = join(&tokens[at + 1..first_name]);
    if ty.is_empty() {
        return None;
    }
    let mut out = String::new();
    let mut name = first_name;
    loop {
        let mut end = name + 1;
        while tokens.get(end)?.is("[") {
            end = matching(tokens, end)? + 1;
        }
        let dimensions = join(&tokens[name + 1..end]);
        out.push_str(&format!("MSL_THREADGROUP({}, {dimensions}, {ty}); ", tokens[name].text));
        match tokens.get(end)?.text {
            "," => name = end + 1,
            ";" => return Some((end + 1, out.trim_end().to_string())),
            _ => return None,
        }
    }
}

/// What `collective.h` does for all threads at once.
pub(crate) const FIBER_OPERATIONS: [&str; 8] =
    ["sum", "prod", "max", "min", "argmax", "argmin", "welford_reduce", "welford_combine"];

/// The operation of `collective.h` to call in place of PyTorch's helper at `at`.
fn fiber_operation(tokens: &[Token<'_>], at: usize) -> Option<String> {
    let operation = tokens[at].text.strip_prefix("threadgroup_")?;
    let known = FIBER_OPERATIONS.contains(&operation);
    let path = ["c10", "::", "metal", "::"];
    let start = at.checked_sub(path.len())?;
    let qualified = tokens[start..at].iter().zip(path).all(|(token, part)| token.is(part));
    (known && qualified).then(|| format!("fiber_{operation}"))
}

fn starts_statement(tokens: &[Token<'_>], at: usize) -> bool {
    at.checked_sub(1).is_none_or(|before| {
        matches!(tokens[before].text, ";" | "{" | "}" | ")" | ":" | "static" | "volatile" | "]")
    })
}

#[cfg(test)]
mod tests {
    use super::super::kernels::analyse;
    use super::super::lex::lex;
    use super::*;

    fn rewritten(source: &str) -> Rewritten {
        let tokens = lex(source).unwrap();
        rewrite(source, &tokens, &analyse(&tokens).unwrap(), Vec::new(), false)
    }

    #[test]
    fn literals_get_their_type() {
        for (msl, cpp) in [
            ("1.0", Some("1.0f")),
            ("1e-5", Some("1e-5f")),
            (".5", Some(".5f")),
            ("1.", Some("1.f")),
            ("0x1.8p3", Some("0x1.8p3f")),
            ("2h", Some("2.0f16")),
            ("1.5h", Some("1.5f16")),
            ("1.5bf", Some("bfloat(1.5f)")),
            ("1.0f", None),
            ("10", None),
            ("0xFEul", None),
            ("0x1F", None),
            ("10u", None),
        ] {
            assert_eq!(literal(msl).as_deref(), cpp, "{msl}");
        }
    }

    #[test]
    fn threadgroup_variables_move_into_the_arena() {
        let text = rewritten(
            "kernel void f(threadgroup float* p) {\n  threadgroup metal::array<float, 4> a[2][3], b;\n\
             threadgroup float* q = p;\n}",
        )
        .text;
        assert_eq!(
            text,
            " void f(threadgroup float* p) {\n  \
             MSL_THREADGROUP(a, [2][3], metal::array<float, 4>); \
             MSL_THREADGROUP(b, , metal::array<float, 4>);\nthreadgroup float* q = p;\n}"
        );
    }

    #[test]
    fn lines_and_columns_lead_back() {
        let out = rewritten(
            "template <typename T> [[kernel]] void f(device T* o\n [[buffer(0)]]) { o[0] = 1.0 + x; }\n\
             template [[host_name(\"a\")]] [[kernel]]\n void f<float>(device float*\n);\nint y;",
        );
        assert_eq!(out.text.lines().count(), 6);
        assert_eq!(out.text.lines().nth(5), Some("int y;"));
        let line = out.text.lines().nth(1).unwrap();
        let column = u32::try_from(line.find('x').unwrap()).unwrap() + 1;
        let original = " [[buffer(0)]]) { o[0] = 1.0 + x; }";
        assert_eq!(out.source_column(2, column) as usize, original.find('x').unwrap() + 1);
    }

    #[test]
    fn color_swizzles_become_positions_unless_they_are_declared() {
        let text = rewritten(
            "float3 f(float4 v) { return v.bgr; } float2 g(thread V* v) { return v->ra.gr; }",
        )
        .text;
        assert!(text.contains("v.zyx;") && text.contains("v->xw.yx;"), "{text}");
        let own = rewritten("struct S { float rgb; }; float f(S s) { return s.rgb; }").text;
        assert!(own.contains("s.rgb"), "{own}");
    }

    #[test]
    fn markers_name_no_path() {
        let text =
            normalise_markers("# 1 \"/a/b\" 1 3\nint x;\n# 7 \"<stdin>\" 2\n#pragma unroll\n");
        assert_eq!(text, "#line 1 \"msl\"\nint x;\n#line 7 \"msl\"\n#pragma unroll\n");
    }
}
