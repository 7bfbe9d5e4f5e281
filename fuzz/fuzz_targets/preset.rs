//! Any preset files are resolved, explained and mended without a crash.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| xtask::preset::exercise::presets(bytes));
