//! The program exports nothing on Apple systems, where everything would be exported otherwise: it
//! loads libetmetal, and must not answer models in its place.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_VENDOR").as_deref() == Ok("apple") {
        println!("cargo::rustc-link-arg-bins=-Wl,-exported_symbol,__mh_execute_header");
    }
}
