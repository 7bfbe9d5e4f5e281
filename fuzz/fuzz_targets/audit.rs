//! Any bytes are audited, repaired and signed without a crash, and what was signed is unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xtask::audit::contents::Contents;
use xtask::macho::{self, Edits};

fuzz_target!(|bytes: &[u8]| {
    let _ = xtask::audit::audit_bytes(bytes);
    let edits = Edits {
        identifier: "fuzz".to_owned(),
        install_name: Some("@rpath/libfuzz.dylib".to_owned()),
        libraries: vec![("/o/libomp.dylib".to_owned(), "@rpath/libomp.dylib".to_owned())],
        rpaths: vec!["@loader_path".to_owned()],
    };
    let Ok(Some(edited)) = macho::edited(bytes, &edits) else { return };
    let Ok(contents) = Contents::read(&edited) else { return };
    for piece in contents.pieces.iter().filter(|piece| piece.image.is_linked()) {
        let signature = piece.image.signature.as_ref().expect("Mach-O is asked for one");
        assert!(signature.changed_pages.is_empty(), "{signature:?}");
    }
});
