//! The staged library is what it promises to be: read back from its bytes.

use std::collections::BTreeSet;

use etmetal_tests::stage::{library, stage};
use object::elf::{
    DF_1_NODELETE, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DynamicTag,
};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol};

struct Dynamic {
    entries: Vec<(DynamicTag, u64)>,
    strings: Vec<(DynamicTag, String)>,
}

fn dynamic(bytes: &[u8]) -> Dynamic {
    let header = object::elf::FileHeader64::<Endianness>::parse(bytes).expect("an ELF file");
    let endian = header.endian().expect("a byte order");
    let sections = header.sections(endian, bytes).expect("sections");
    let (entries, link) = sections.dynamic(endian, bytes).unwrap().expect("a dynamic section");
    let strings = sections.strings(endian, bytes, link).expect("dynamic strings");
    let mut result = Dynamic { entries: Vec::new(), strings: Vec::new() };
    for entry in entries {
        let tag = entry.tag(endian);
        result.entries.push((tag, entry.d_val(endian)));
        if [DT_NEEDED, DT_SONAME, DT_RUNPATH, DT_RPATH].contains(&tag) {
            let text = entry.string(endian, strings).expect("a string");
            result.strings.push((tag, String::from_utf8(text.to_vec()).expect("UTF-8")));
        }
    }
    result
}

#[test]
fn it_has_a_soname_a_relocatable_runpath_and_is_never_unloaded() {
    let bytes = std::fs::read(library()).unwrap();
    let dynamic = dynamic(&bytes);
    let texts = |tag: DynamicTag| -> Vec<&str> {
        dynamic.strings.iter().filter(|(t, _)| *t == tag).map(|(_, s)| s.as_str()).collect()
    };
    assert_eq!(texts(DT_SONAME), ["libetmetal.so"]);
    assert_eq!(texts(DT_RUNPATH), ["$ORIGIN"]);
    assert!(texts(DT_RPATH).is_empty());
    let flags = dynamic.entries.iter().find(|(tag, _)| *tag == DT_FLAGS_1).expect("DT_FLAGS_1").1;
    assert_ne!(flags & DF_1_NODELETE.0, 0, "not linked with -z nodelete");
    for needed in texts(DT_NEEDED) {
        assert!(!needed.contains('/'), "{needed} is named by a path");
    }
}

#[test]
fn it_exports_its_own_names_and_nothing_else() {
    let bytes = std::fs::read(library()).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let names: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|s| s.is_definition() && s.is_global())
        .map(|s| s.name().unwrap().to_owned())
        .collect();
    for name in &names {
        let own = ["aoti_torch_", "torch_", "etmetal_"].iter().any(|own| name.starts_with(own));
        assert!(own, "exports {name}");
    }
    let models = ["aoti_torch_mps_mm_out", "aoti_torch_mps_shared_callback", "torch_has_storage"];
    for name in models.into_iter().chain(["etmetal_last_error"]) {
        assert!(names.contains(name), "{name} is not exported");
    }
}

#[test]
fn no_file_of_the_stage_holds_the_place_where_it_was_built() {
    let root = etmetal_tests::stage::repository();
    let root = root.to_str().unwrap().as_bytes();
    for file in [library(), stage().join("bin/etmetal")] {
        let bytes = std::fs::read(&file).unwrap();
        let found = etmetal_tests::edit::find(&bytes, root);
        assert!(found.is_none(), "{} names its checkout", file.display());
    }
}

#[test]
fn the_stage_has_its_documented_parts() {
    for part in
        ["bin/etmetal", "include/etmetal_delegate.h", "lib/cmake/etmetal/etmetal-config.cmake"]
    {
        assert!(stage().join(part).is_file(), "no {part} in the stage");
    }
}
