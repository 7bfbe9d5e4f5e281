//! `etmetal run --track`: models give back everything that was lent to them, and one that does
//! not is found out.

use etmetal_tests::model::{Model, no_weights, weights_key};
use etmetal_tests::pte::Blob;
use etmetal_tests::stage::{etmetal, fixture, text};

#[test]
fn exported_models_leave_nothing_behind() {
    for name in ["mlp", "add", "layernorm", "embedding", "reductions", "split_cat", "topk_idx"] {
        let output = etmetal()
            .args(["run", "--track", "--repeat", "3"])
            .arg(fixture(name))
            .output()
            .expect("the staged tool starts");
        let told = text(&output);
        assert!(output.status.success(), "{name}:\n{told}");
        assert!(told.contains("nothing left behind"), "{name}:\n{told}");
    }
}

/// What a run with `--track` of a hand-made model tells, and its code.
fn run(model: &Model, arguments: &[&str]) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let library = model.compile(dir.path());
    let (key, weights) = match model.weight_bytes {
        0 => no_weights(),
        len => {
            let blob = Blob::Bytes(vec![0; len as usize]);
            (weights_key(&blob), blob)
        }
    };
    let path = dir.path().join("model.pte");
    let blobs = vec![library.named(), (key.clone(), weights)];
    library.program(&key, blobs).write(&path).unwrap();
    let output = etmetal().arg("run").args(arguments).arg(&path).output().unwrap();
    (text(&output), output.status.code())
}

fn with_flags(flags: &[&str]) -> Model {
    let flags = flags.iter().map(ToString::to_string).collect();
    Model { weight_bytes: 64, flags, ..Model::default() }
}

#[test]
fn a_model_that_gives_everything_back_passes() {
    let (told, code) = run(&with_flags(&[]), &["--track", "--repeat", "2"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("nothing left behind"), "{told}");
}

#[test]
fn what_a_model_keeps_is_told_and_fails() {
    let (told, code) = run(&with_flags(&["-DLEAK"]), &["--track", "--repeat", "2"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("4 left behind"), "two tensors, the memory, the library:\n{told}");
    let tensor = "tensor float32 [4], 16 bytes, made by aoti_torch_new_tensor_handle";
    assert_eq!(told.matches(tensor).count(), 2, "one a run:\n{told}");
    assert!(told.contains("memory, 64 bytes, made by aoti_torch_mps_malloc"), "{told}");
    assert!(told.contains("made by aoti_torch_mps_create_shader_library"), "{told}");

    let (told, code) = run(&with_flags(&["-DLEAK"]), &[]);
    assert_eq!(code, Some(0), "it runs all the same:\n{told}");
    assert!(!told.contains("left behind"), "{told}");
}

#[test]
fn json_lists_what_was_left() {
    let (told, code) = run(&with_flags(&["-DLEAK"]), &["--track", "--json"]);
    assert_eq!(code, Some(1), "{told}");
    let report: serde_json::Value = serde_json::from_str(&told).unwrap();
    let left = report["left_behind"].as_array().unwrap();
    assert_eq!(left.len(), 3, "{told}");
    assert_eq!(left[0]["kind"], "tensor");
    assert_eq!(left[0]["shape"], serde_json::json!([4]));
}
