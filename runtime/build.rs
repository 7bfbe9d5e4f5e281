//! Compiles the C++ part of the C ABI, and exports the C ABI from executables.

fn main() {
    export_from_executables();
    compile_callback();
}

/// Models bind to the symbols of the C ABI at run time, also where this library is part of an
/// executable: of this package, that is its tests.
fn export_from_executables() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        for symbols in ["aoti_torch_*", "etmetal_*"] {
            println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={symbols}");
        }
    }
}

fn compile_callback() {
    println!("cargo::rerun-if-changed=cpp/callback.cpp");
    // Type-checking the Apple code on another system needs no objects, and there is no SDK.
    let target_is_apple = std::env::var("CARGO_CFG_TARGET_VENDOR").as_deref() == Ok("apple");
    if target_is_apple && !cfg!(target_vendor = "apple") {
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
