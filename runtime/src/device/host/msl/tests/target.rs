//! What the compiled code asks of the machine.

use std::io::Write as _;
use std::process::Stdio;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use super::super::harness::{checked_toolchain_at, toolchain, toolchain_at};
use super::super::{emit, kernels, lex, rewrite};
use super::*;

const SOURCE: &str = "#include <metal_stdlib>\nusing namespace metal;\n\
kernel void f(device float* o, constant float* a, uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {\n\
  threadgroup float s[64];\n\
  s[t] = sin(a[i]) + pow(a[i], 1.5) + fmod(a[i], 3.0) + exp2(a[i]) + round(a[i]) + float(half(a[i]) + half(1));\n\
  threadgroup_barrier(mem_flags::mem_threadgroup);\n\
  simdgroup_float8x8 m(1.0); simdgroup_multiply(m, m, m);\n\
  o[i] = simd_sum(s[63 - t]) + simd_shuffle_xor(a[i], ushort(1)) + m.thread_elements().x;\n\
}\n";

#[test]
fn compiled_kernels_need_only_memory_functions_and_no_thread_local_storage() {
    let dir = tempfile::tempdir().unwrap();
    let toolchain = toolchain_at(dir.path());
    Module::parse(SOURCE, &toolchain).unwrap().compile("f").unwrap();
    let mut libraries = 0;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "so") {
            continue;
        }
        libraries += 1;
        let bytes = std::fs::read(path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        for symbol in file.dynamic_symbols().filter(object::Symbol::is_undefined) {
            let name = symbol.name().unwrap();
            assert!(["", "memcpy", "memmove", "memset"].contains(&name), "needs {name}");
        }
        for section in file.sections() {
            let name = section.name().unwrap();
            assert!(!name.starts_with(".tdata") && !name.starts_with(".tbss"), "{name}");
        }
    }
    assert_eq!(libraries, 1);
}

/// The other architecture cannot run here, but it can be compiled and assembled.
#[test]
fn the_code_assembles_for_both_architectures() {
    let text = compile::preprocess(SOURCE, toolchain()).unwrap();
    let tokens = lex::lex(&text).unwrap();
    let analysis = kernels::analyse(&tokens).unwrap();
    let shader = rewrite::rewrite(&text, &tokens, &analysis, Vec::new(), false);
    let unit = emit::translation_unit(&shader.text, &analysis.kernels[0], None);
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in headers::files() {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let checked = checked_toolchain_at(&dir.path().join("cache"));
    let targets = ["aarch64-linux-gnu", "x86_64-linux-gnu", "aarch64-apple-macos13"];
    let all = targets.iter().flat_map(|target| [(target, toolchain()), (target, &checked)]);
    for (target, toolchain) in all {
        let flags = toolchain.compile_flags();
        let native = ["-march=native", "-mcpu=native", "-nostdlib"];
        let x86 = ["-mprefer-vector-width=512", "-fexcess-precision=16", "-fveclib=libmvec"];
        let flags = flags
            .into_iter()
            .filter(|f| !native.contains(f) && (target.starts_with("x86") || !x86.contains(f)));
        let mut child = toolchain
            .command()
            .arg(format!("--target={target}"))
            .args(flags)
            .arg("-include")
            .arg(dir.path().join("msl.h"))
            .args(["-c", "-o", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(unit.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{target}: {messages}");
    }
}
