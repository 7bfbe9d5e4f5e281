//! Compiles the C++ part of the C ABI, and exports the C ABI from executables. With the feature
//! `executorch`, also builds the ExecuTorch backend's C++ part and links ExecuTorch.

fn main() {
    export_from_executables();
    compile_callback();
    #[cfg(feature = "executorch")]
    build_backend();
}

/// Models bind to the symbols of the C ABI at run time, also where this library is part of an
/// executable: of this package, that is its tests.
fn export_from_executables() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let apple = variable("CARGO_CFG_TARGET_VENDOR") == "apple";
    for symbols in ["aoti_torch_*", "etmetal_*", "torch_*"] {
        if apple {
            // The linker knows C's names with an underscore in front.
            println!("cargo::rustc-link-arg=-Wl,-exported_symbol,_{symbols}");
        } else if variable("CARGO_CFG_TARGET_OS") == "linux" {
            println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={symbols}");
        }
    }
}

fn compile_callback() {
    println!("cargo::rerun-if-changed=cpp/callback.cpp");
    // Type-checking the Apple code on another system needs no objects; building it is told by a
    // C++ compiler for it.
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let compiler = format!("CXX_{}", variable("TARGET").replace('-', "_"));
    println!("cargo::rerun-if-env-changed={compiler}");
    let target_is_apple = variable("CARGO_CFG_TARGET_VENDOR") == "apple";
    let checks_only = std::env::var_os(compiler).is_none();
    if target_is_apple && !cfg!(target_vendor = "apple") && checks_only {
        return;
    }
    // Debug information names the folder that the compiler ran in.
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("cpp/callback.cpp")
        .flag_if_supported("-fexceptions")
        .flag_if_supported(format!("-ffile-prefix-map={here}=/etmetal/runtime"))
        .compile("etmetal_callback");
}

/// The environment variable that names an ExecuTorch package: the folder `executorch` of the
/// Python package's installation, or a CMake install prefix.
#[cfg(feature = "executorch")]
const EXECUTORCH_VARIABLE: &str = "ETMETAL_EXECUTORCH";

/// Builds the C++ part of the ExecuTorch backend and links it and ExecuTorch into the program.
#[cfg(feature = "executorch")]
fn build_backend() {
    println!("cargo::rerun-if-env-changed={EXECUTORCH_VARIABLE}");
    println!("cargo::rerun-if-changed=CMakeLists.txt");
    println!("cargo::rerun-if-changed=cpp");
    let Some(executorch) = std::env::var_os(EXECUTORCH_VARIABLE).map(std::path::PathBuf::from)
    else {
        println!(
            "cargo::error={EXECUTORCH_VARIABLE} is not set: it names the ExecuTorch package (1.5 \
             or newer) to build against, as in site-packages/executorch"
        );
        return;
    };
    let built = cmake::Config::new(".")
        .define("ETMETAL_GLUE_ONLY", "ON")
        .define("CMAKE_PREFIX_PATH", &executorch)
        .build();
    let standard = match std::env::var("CARGO_CFG_TARGET_VENDOR").as_deref() {
        Ok("apple") => "c++",
        _ => "stdc++",
    };
    let libraries = executorch.join("lib");
    println!("cargo::rustc-link-search=native={}", built.join("lib").display());
    // Nothing refers to the backend's registration: without whole-archive it would be left out.
    println!("cargo::rustc-link-lib=static:+whole-archive=etmetal_glue");
    println!("cargo::rustc-link-search=native={}", libraries.display());
    println!("cargo::rustc-link-lib=dylib=executorch");
    println!("cargo::rustc-link-lib=dylib={standard}");
    println!("cargo::rustc-link-arg-examples=-Wl,-rpath,{}", libraries.display());
}
