//! Bad input gets exit code 1 and one clear message; nothing crashes and nothing is left behind.

use std::path::Path;
use std::process::Command;

use etmetal_tests::edit::{Pte, replace_first};
use etmetal_tests::stage::{etmetal, fixture, text};

/// Runs the tool, expects it to fail properly, and gives what it said.
///
/// The temp directory is one of its own and must be empty afterwards.
fn refused(command: &mut Command) -> String {
    let temp = tempfile::tempdir().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let output = command
        .env("TMPDIR", temp.path())
        .env("ETMETAL_CACHE", cache.path())
        .output()
        .expect("the staged tool starts");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "not exit code 1 ({}):\n{text}", output.status);
    assert!(!text.contains("panicked"), "{text}");
    let left: Vec<_> = std::fs::read_dir(temp.path()).unwrap().collect();
    assert!(left.is_empty(), "left in the temp directory: {left:?}");
    text
}

fn run(model: &Path) -> Command {
    let mut command = etmetal();
    command.arg("run").arg(model);
    command
}

/// Writes a model beside the inputs of `mlp`, and runs the folder.
fn refused_model(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model.pte"), bytes).unwrap();
    std::fs::copy(fixture("mlp").join("input0.npy"), dir.path().join("input0.npy")).unwrap();
    refused(&mut run(dir.path()))
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "does not say {part:?}:\n{text}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let text = refused(&mut run(Path::new("/no/such/model.pte")));
    says(&text, &["/no/such/model.pte"]);
}

#[test]
fn a_folder_without_a_model_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    says(&refused(&mut run(dir.path())), &["model.pte"]);
}

#[test]
fn truncated_files_are_refused_at_every_length() {
    let whole = Pte::fixture("mlp").bytes;
    for keep in [0, 1, 7, 8, 31, 40, 64, 300, 1000, 1500, 1600, 4096, 20_000, 200_000, 355_000] {
        refused_model(&whole[..keep]);
    }
    refused_model(&whole[..whole.len() / 2]);
}

#[test]
fn random_bytes_are_refused() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |n: usize| -> Vec<u8> {
        (0..n)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect()
    };
    refused_model(&random(10));
    refused_model(&random(5000));
    // Random behind a good beginning: the header is right, the program is not.
    let mut bytes = Pte::fixture("mlp").bytes[..40].to_vec();
    bytes.extend(random(50_000));
    refused_model(&bytes);
}

#[test]
fn a_library_that_does_not_match_its_hash_is_refused() {
    let mut pte = Pte::fixture("mlp");
    let library = pte.library();
    let middle = library.len() / 2;
    library[middle] ^= 0x40;
    says(&refused_model(&pte.bytes), &["SHA-256", "library"]);
}

#[test]
fn a_library_for_another_architecture_is_refused_by_name() {
    let mut pte = Pte::fixture("mlp");
    pte.edit_library(|elf| elf[0x12..0x14].copy_from_slice(&183u16.to_le_bytes())); // EM_AARCH64
    let text = refused_model(&pte.bytes);
    says(&text, &["aarch64", "x86"]);
}

#[test]
fn a_symbol_that_nobody_provides_is_named() {
    let mut pte = Pte::fixture("mlp");
    pte.edit_library(|elf| {
        replace_first(elf, b"\0aoti_torch_mps_mm_out\0", b"\0aoti_torch_mps_mm_zzz\0");
    });
    says(&refused_model(&pte.bytes), &["aoti_torch_mps_mm_zzz"]);
}

#[test]
fn a_library_that_does_not_exist_is_named() {
    let mut pte = Pte::fixture("mlp");
    pte.edit_library(|elf| replace_first(elf, b"\0libgcc_s.so.1\0", b"\0libzzzzz.so.1\0"));
    says(&refused_model(&pte.bytes), &["libzzzzz.so.1"]);
}

#[test]
fn a_blob_that_is_missing_is_named() {
    // The program's table of blobs names it otherwise than the delegate asks for it.
    let mut pte = Pte::fixture("mlp");
    let first = etmetal_tests::edit::find(&pte.bytes, b"_so_blob").unwrap();
    pte.bytes[first..first + 8].copy_from_slice(b"_no_blob");
    says(&refused_model(&pte.bytes), &["_so_blob"]);
}

#[test]
fn a_kernel_that_does_not_compile_shows_its_line() {
    let mut pte = Pte::fixture("add");
    pte.edit_library(|elf| {
        replace_first(elf, b"auto tmp2 = tmp0 + tmp1;", b"auto tmp2 = tmp0 + tmp7;");
    });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model.pte"), &pte.bytes).unwrap();
    let text = refused(&mut run(dir.path()));
    says(&text, &["tmp7", "auto tmp2 = tmp0 + tmp7;"]);
}

#[test]
fn a_number_of_inputs_that_does_not_fit_is_refused() {
    let input = fixture("mlp").join("input0.npy");
    let mut command = run(&fixture("mlp").join("model.pte"));
    let text = refused(command.arg("--input").arg(&input).arg("--input").arg(&input));
    says(&text, &["2", "1", "input"]);
}

#[test]
fn an_input_of_another_shape_is_refused() {
    let mut command = run(&fixture("mlp").join("model.pte"));
    let text = refused(command.arg("--input").arg(fixture("linear_bias").join("input0.npy")));
    says(&text, &["input 0", "[127, 7]", "[2, 8]"]);
}

#[test]
fn an_input_of_another_dtype_is_refused() {
    let mut command = run(&fixture("embedding").join("model.pte"));
    let text = refused(command.arg("--input").arg(fixture("mlp").join("input0.npy")));
    says(&text, &["int64", "float32"]);
}

#[test]
fn a_method_that_is_not_there_is_refused_and_the_others_are_listed() {
    let mut command = run(&fixture("mlp"));
    says(&refused(command.args(["--method", "backward"])), &["backward", "forward"]);
}

#[test]
fn an_input_file_that_is_no_npy_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broken.npy");
    std::fs::write(&path, b"not an array").unwrap();
    let mut command = run(&fixture("mlp").join("model.pte"));
    says(&refused(command.arg("--input").arg(&path)), &["broken.npy"]);
}

#[test]
fn a_wrong_expectation_fails_and_says_where() {
    let mut command = run(&fixture("mlp").join("model.pte"));
    let text = refused(
        command
            .arg("--input")
            .arg(fixture("mlp").join("input0.npy"))
            .arg("--expect")
            .arg(fixture("mlp").join("input0.npy")),
    );
    says(&text, &["shape"]);
}

#[test]
fn expectations_without_inputs_are_refused() {
    let mut command = run(&fixture("mlp").join("model.pte"));
    let text = refused(command.arg("--expect").arg(fixture("mlp").join("output0.npy")));
    says(&text, &["no inputs", "--input"]);
}

#[test]
fn a_folder_whose_files_have_gaps_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (from, to) in
        [("model.pte", "model.pte"), ("input0.npy", "input0.npy"), ("output0.npy", "output1.npy")]
    {
        std::fs::copy(fixture("mlp").join(from), dir.path().join(to)).unwrap();
    }
    says(&refused(&mut run(dir.path())), &["output1.npy", "no output0.npy"]);
}

#[cfg(unix)]
#[test]
fn files_that_never_end_are_refused_at_once() {
    let model = fixture("mlp").join("model.pte");
    let zero = Path::new("/dev/zero");
    says(&refused(run(&model).arg("--input").arg(zero)), &["/dev/zero", "no regular file"]);
    says(&refused(run(&model).arg("--data").arg(zero)), &["/dev/zero", "no regular file"]);
    says(&refused(&mut run(zero)), &["/dev/zero", "no regular file"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    for command in ["run", "inspect", "profile"] {
        for flags in [&[][..], &["--json"]] {
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
            let mut command_line = etmetal();
            command_line.arg(command).args(flags).arg(fixture("add")).stdout(full);
            let output = command_line.output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{command} {flags:?}: {}", text(&output));
            says(&text(&output), &["cannot write to standard output"]);
        }
    }
}

#[test]
fn wrong_settings_are_told_once_and_before_the_run() {
    for (name, value) in
        [("ETMETAL_OPS", "foo"), ("ETMETAL_GRAPH_CACHE", "0"), ("ETMETAL_FLUSH_INTERVAL", "no")]
    {
        // A model with a kernel only, which needs none of them.
        let text = refused(run(&fixture("add")).env(name, value));
        says(&text, &[name, value]);
        assert_eq!(text.matches(name).count(), 1, "{text}");
    }
}

#[test]
fn a_missing_library_is_told_with_the_systems_reason() {
    let text = refused(run(&fixture("add")).env("ETMETAL_LIB", "/no/such/libetmetal.so"));
    says(&text, &["ETMETAL_LIB", "/no/such/libetmetal.so", "o such file"]);
}

#[test]
fn a_missing_compiler_says_how_to_install_one() {
    let mut command = run(&fixture("add"));
    let text = refused(command.env("ETMETAL_CLANG", "/no/such/clang++"));
    says(&text, &["/no/such/clang++", "ETMETAL_CLANG"]);
}

#[test]
fn a_tolerance_that_passes_anything_is_a_usage_error() {
    for value in ["nan", "inf", "-1", "much"] {
        let mut command = run(&fixture("mlp"));
        let output = command.arg(format!("--rtol={value}")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{value}: {}", text(&output));
    }
}

#[test]
fn a_bad_setting_of_the_device_is_named() {
    let text = refused(run(&fixture("mlp")).env("ETMETAL_THREADS", "abc"));
    says(&text, &["ETMETAL_THREADS", "abc"]);
}
