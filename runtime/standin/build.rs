//! Exports the C ABI from the tests: models bind to its symbols at run time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        for symbols in ["aoti_torch_*", "etmetal_*"] {
            println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={symbols}");
        }
    }
}
