//! What does not compile, and what is said about it.

use super::super::harness::{toolchain, toolchain_at};
use super::*;
use crate::Error;

/// The error of a source, from parsing it or from compiling its kernel `f`.
fn error_of(body: &str) -> String {
    let error = module(&with_header(body)).and_then(|m| m.compile("f")).unwrap_err();
    assert!(matches!(error, Error::ShaderCompile(_)), "{error}");
    let text = error.to_string();
    assert!(text.len() < 8000, "too long: {}", text.len());
    assert!(!text.contains("/tmp") && !text.contains("include-"), "a path shows: {text}");
    text
}

#[test]
fn a_message_names_line_column_and_text() {
    let text = error_of("kernel void f(device float* o) {\n  o[0] = 1.0 + undefined_name;\n}");
    assert!(text.contains("MSL line 4:16: "), "{text}");
    assert!(text.contains("undefined_name"), "{text}");
    assert!(text.ends_with("\n    o[0] = 1.0 + undefined_name;"), "{text}");
}

#[test]
fn a_mistake_inside_our_headers_is_placed_in_the_source() {
    let text = error_of(
        "struct S {};\nkernel void f(device float* o) {\n  threadgroup float x;\n  S s;\n  o[0] = 1.0; simd_sum(s);\n}",
    );
    assert!(text.contains("MSL line 7:"), "{text}");
}

#[test]
fn bfloat_does_not_come_from_float_by_itself() {
    for body in [
        "kernel void f(device float* o) {\n bfloat x = 1.0;\n o[0] = x; }",
        "kernel void f(device float* o) {\n bfloat x = o[0];\n o[0] = x; }",
        "kernel void f(device bfloat* o) {\n o[0] = 2.0f;\n }",
        "bfloat g(float x) {\n return x;\n }\nkernel void f(device bfloat* o) { o[0] = g(1); }",
    ] {
        let text = error_of(body);
        assert!(text.contains("MSL line 4"), "{text}");
    }
    // What Apple accepts: explicit conversions, half from float, float from both.
    let fine = "kernel void f(device float* o) { bfloat x = bfloat(1.0); half h = 1.5; float y = x; \
                float z = h; o[0] = y + z + static_cast<bfloat>(o[1]); }";
    module(&with_header(fine)).unwrap().compile("f").unwrap();
}

#[test]
fn errors_of_the_preprocessor() {
    let text = error_of("#if 1\n#error not this one\n#endif\nkernel void f() {}");
    assert!(text.contains("MSL line 4:") && text.contains("not this one"), "{text}");
    let text = error_of("#include <vector>\nkernel void f() {}");
    assert!(text.contains("MSL line 3:") && text.contains("vector"), "{text}");
}

#[test]
fn what_this_device_cannot_do() {
    for (body, words) in [
        (
            "constant bool flag [[function_constant(0)]];\nkernel void f(device int* o) { o[0] = flag; }",
            "function",
        ),
        ("kernel void f(texture2d<float> t [[texture(0)]]) {}", "texture"),
        ("kernel void f(device int* o [[buffer(31)]]) {}", "0 and 30"),
        ("kernel void f(device int* o, uint i) {}", "attribute"),
        (
            "kernel void f(device int* o) {\n threadgroup float x[9000]; x[0] = o[0]; o[0] = x[1]; }",
            "threadgroup memory",
        ),
    ] {
        let text = error_of(body);
        assert!(text.contains(words), "{body}: {text}");
    }
}

#[test]
fn a_frame_that_does_not_fit_a_fiber_is_an_error() {
    let text = error_of(
        "kernel void f(device float* o, constant int* k, uint t [[thread_position_in_threadgroup]]) {\n\
           float big[40000];\n\
           for (int i = 0; i < 40000; i++) big[i] = o[i];\n\
           threadgroup_barrier(mem_flags::mem_device);\n\
           o[t] = big[k[0]] + big[k[1]];\n\
         }",
    );
    assert!(text.contains("stack frame"), "{text}");
}

#[test]
fn many_errors_stay_few() {
    let body: String = (0..500).map(|i| format!("  o[{i}] = missing_{i};\n")).collect();
    let text = error_of(&format!("kernel void f(device float* o) {{\n{body}}}"));
    assert!(text.matches("MSL line").count() <= 16, "{text}");
}

#[test]
fn broken_brackets_and_literals() {
    for body in [
        "kernel void f(device float* o) { o[0] = 1;",
        "kernel void f(",
        "}",
        "kernel void f(device char* o) { o = \"x; }",
    ] {
        error_of(body);
    }
}

#[test]
fn a_missing_compiler_says_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let search = toolchain::Search::default();
    let error = Toolchain::find_with(&search, dir.path(), Flavor::Loops).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)));
    let text = error.to_string();
    assert!(text.contains("apt-get install clang") && text.contains("ziglang"), "{text}");
    let explicit = Some("/nowhere/clang++ -v".into());
    let path = std::env::var_os("PATH");
    let search = toolchain::Search { explicit, path, ..Default::default() };
    let text = Toolchain::find_with(&search, dir.path(), Flavor::Loops).unwrap_err().to_string();
    assert!(text.contains("ETMETAL_CLANG: /nowhere/clang++"), "{text}");
}

#[test]
fn a_staged_compiler_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("etmetal/msl-compiler");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let real =
        toolchain().describe().rsplit_once(": ").unwrap().1.trim_end_matches(')').to_string();
    std::os::unix::fs::symlink(&real, dir.path().join("etmetal/cc")).unwrap();
    std::fs::write(&file, "cc\n--driver-mode=g++\n").unwrap();
    let search = toolchain::Search { staged: vec![file], ..Default::default() };
    let found = Toolchain::find_with(&search, &dir.path().join("cache"), Flavor::Loops).unwrap();
    assert!(found.describe().contains("etmetal/cc --driver-mode=g++"), "{}", found.describe());
    let source = with_header("kernel void f(device int* o) { o[0] = 5; }");
    let mut out = [0];
    let native = Module::parse(&source, &found).unwrap().compile("f").unwrap();
    Dispatch::new([1, 1, 1], [1, 1, 1]).arg(&mut out).run(&native);
    assert_eq!(out, [5]);
    drop(toolchain_at(&dir.path().join("other")));
}
