//! A Rust program with the ExecuTorch backend inside: `embed MODEL.pte` loads every method.
//!
//! A program of another package has to export the C ABI, to which models bind, from its own build
//! script: `cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=aoti_torch_*`, and the same for
//! `etmetal_*` and `torch_*` (on Apple systems `-Wl,-exported_symbol,_aoti_torch_*`).

use etmetal::runner::{LoadMode, Runtime};

fn main() -> etmetal::Result<()> {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: embed MODEL.pte");
        std::process::exit(2);
    };
    let runtime = Runtime::of_this_program()?;
    if let Some(problem) = runtime.registration_error() {
        eprintln!("{problem}");
        std::process::exit(1);
    }
    let module = runtime.load(path.as_ref(), &[], LoadMode::default())?;
    for method in module.methods() {
        let info = module.method_info(&method)?;
        println!(
            "{method}: {} inputs, {} outputs, on {}",
            info.inputs.len(),
            info.outputs.len(),
            info.backends.join(", ")
        );
    }
    Ok(())
}
