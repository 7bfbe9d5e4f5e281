//! Any text is read as ExecuTorch's declaration of options without a crash.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| xtask::preset::exercise::default_cmake(bytes));
