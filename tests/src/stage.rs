//! The staged build under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository").into()
}

/// The staged build: `ETMETAL_STAGE`, which `cargo xtask test` sets.
///
/// # Panics
/// There is none; the message says how to make it.
pub fn stage() -> PathBuf {
    let stage = match std::env::var_os("ETMETAL_STAGE") {
        Some(path) => PathBuf::from(path),
        None => repository().join("target/stage/metal").join(host_triple()),
    };
    assert!(
        stage.join("bin/etmetal").is_file(),
        "no staged build in {}: run `cargo xtask build --preset metal`, or `cargo xtask test`",
        stage.display()
    );
    stage
}

/// The staged `libetmetal`.
pub fn library() -> PathBuf {
    stage().join("lib").join(format!("libetmetal{}", std::env::consts::DLL_SUFFIX))
}

fn host_triple() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("rustc prints UTF-8");
    let line = text.lines().find_map(|l| l.strip_prefix("host: "));
    line.expect("rustc -vV names its host").to_owned()
}

/// A model fixture's folder.
pub fn fixture(name: &str) -> PathBuf {
    repository().join("tests/fixtures").join(name)
}

/// The staged command-line tool.
pub fn etmetal() -> Command {
    let mut command = Command::new(stage().join("bin/etmetal"));
    command.env("NO_COLOR", "1");
    command
}

/// What a run printed, both streams, for assertions and their messages.
pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
