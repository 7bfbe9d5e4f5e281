use super::*;

fn tree() -> Tree {
    let mut tree = Tree::default();
    tree.file("share/z.txt", "z".repeat(3000));
    tree.program("bin/run", "#!/bin/sh\n");
    tree.file("empty", "");
    tree
}

fn epoch() -> Epoch {
    Epoch::parse("1700000000").unwrap()
}

const FORMS: [Form; 3] = [Form::TarZst, Form::TarGz, Form::Zip];

#[test]
fn what_is_packed_comes_back_and_the_parts_cover_every_byte() {
    for form in FORMS {
        let packed = pack(form, &tree(), epoch()).unwrap();
        assert_eq!(unpack(form, &packed.bytes, epoch()).unwrap(), tree(), "{form:?}");
        let mut at = 0;
        for part in &packed.parts {
            assert_eq!(part.offset, at, "{form:?} {}", part.name);
            at += part.length;
        }
        assert_eq!(at, packed.bytes.len() as u64, "{form:?}");
        assert_eq!(packed.parts[0].name, "bin/run");
    }
}

#[test]
fn the_bytes_depend_on_members_and_time_alone() {
    let hashes: Vec<_> =
        FORMS.map(|form| sha256(&pack(form, &tree(), epoch()).unwrap().bytes)).into();
    // The same on every machine: a change here is a change of what releases hash to.
    insta::assert_debug_snapshot!(hashes);
    let later = Epoch::parse("1700000002").unwrap();
    for (form, hash) in FORMS.into_iter().zip(&hashes) {
        assert_ne!(&sha256(&pack(form, &tree(), later).unwrap().bytes), hash, "{form:?}");
    }
}

#[test]
fn links_are_for_tar_and_long_names_are_refused() {
    let mut linked = tree();
    linked.add("lib/liba.so", super::super::tree::Member::Link("liba.so.1".into()));
    let packed = pack(Form::TarZst, &linked, epoch()).unwrap();
    assert_eq!(unpack(Form::TarZst, &packed.bytes, epoch()).unwrap(), linked);
    let error = pack(Form::Zip, &linked, epoch()).unwrap_err().to_string();
    assert!(error.starts_with("lib/liba.so: a link"), "{error}");
    let mut long = Tree::default();
    long.file("n".repeat(300), "");
    let error = pack(Form::TarZst, &long, epoch()).unwrap_err().to_string();
    assert!(error.starts_with("cannot pack nnn"), "{error}");
}

#[test]
fn tar_and_zip_of_the_system_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.tar.gz");
    std::fs::write(&file, pack(Form::TarGz, &tree(), epoch()).unwrap().bytes).unwrap();
    let list = crate::process::Invocation::new("tar").arg("-tzf").arg(&file).read().unwrap();
    assert_eq!(list, "bin/run\nempty\nshare/z.txt\n");
    let file = folder.path().join("a.zip");
    std::fs::write(&file, pack(Form::Zip, &tree(), epoch()).unwrap().bytes).unwrap();
    let python = crate::process::Invocation::new("python3");
    let list = python.args(["-m", "zipfile", "-t"]).arg(&file).read().unwrap();
    assert!(list.contains("Done testing"), "{list}");
}

#[test]
fn an_archive_with_another_owner_or_byte_is_not_one_of_ours() {
    let mut plain =
        zstd::decode_all(&*pack(Form::TarZst, &tree(), epoch()).unwrap().bytes).unwrap();
    let error = |plain: &[u8]| {
        let bytes = zstd::encode_all(plain, 1).unwrap();
        unpack(Form::TarZst, &bytes, epoch()).unwrap_err().to_string()
    };
    // In the padding after the content of the first member, which no reader looks at.
    plain[512 + 100] = 1;
    assert!(error(&plain).contains("padding"), "{}", error(&plain));
}
