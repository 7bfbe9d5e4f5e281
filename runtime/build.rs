//! Compiles the C++ part of the C ABI.

fn main() {
    println!("cargo::rerun-if-changed=cpp/callback.cpp");
    // Type-checking the Apple code on another system needs no objects, and there is no SDK.
    let target_is_apple = std::env::var("CARGO_CFG_TARGET_VENDOR").as_deref() == Ok("apple");
    if target_is_apple && !cfg!(target_vendor = "apple") {
        return;
    }
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("cpp/callback.cpp")
        .flag_if_supported("-fexceptions")
        .compile("etmetal_callback");
}
