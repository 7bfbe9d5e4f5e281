//! Programs that no exporter of today makes: several delegates in a method, several methods,
//! weights that are shared or wrong.

use std::path::PathBuf;

use etmetal::runner::{HostTensor, LoadMode, Module, Value};
use etmetal_tests::fixture::runtime;
use etmetal_tests::model::{Library, Model, no_weights, weights_key};
use etmetal_tests::pte::{Blob, Method, Program};

struct Written {
    path: PathBuf,
    _dir: tempfile::TempDir,
}

fn write(program: &Program) -> Written {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.pte");
    program.write(&path).unwrap();
    Written { path, _dir: dir }
}

fn compile(model: &Model) -> Library {
    model.compile(tempfile::tempdir().unwrap().path())
}

fn load(program: &Program) -> etmetal::Result<Module> {
    let written = write(program);
    let module = runtime().load(&written.path, &[], LoadMode::default())?;
    for name in module.methods() {
        module.load_method(&name)?;
    }
    Ok(module)
}

fn run(module: &Module, method: &str, input: [f32; 4]) -> Vec<f32> {
    let input = HostTensor::from_elements(vec![4], input).unwrap();
    let outputs = module.execute(method, &[Value::Tensor(input)]).unwrap_or_else(|e| panic!("{e}"));
    let Value::Tensor(output) = &outputs[0] else { panic!("the output is no tensor") };
    output.elements().unwrap()
}

fn floats(values: &[f32]) -> Blob {
    Blob::Bytes(values.iter().flat_map(|v| v.to_le_bytes()).collect())
}

#[test]
fn several_delegates_in_one_method_run_in_order() {
    let (double, triple) =
        (compile(&Model::default()), compile(&Model { scale: 3, ..Model::default() }));
    let weighted = compile(&Model { weight_bytes: 64, ..Model::default() });
    let weights = floats(&[0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 10., 20., 30., 40.]);
    let key = weights_key(&weights);
    let (none, empty) = no_weights();
    let module = load(&Program {
        methods: vec![Method::through(
            "forward",
            5,
            vec![
                double.delegate(&none, &[0, 1]),
                weighted.delegate(&key, &[1, 2]),
                triple.delegate(&none, &[2, 3]),
                double.delegate(&none, &[3, 4]),
            ],
        )],
        named_data: vec![
            double.named(),
            triple.named(),
            weighted.named(),
            (key, weights),
            (none.clone(), empty),
        ],
    })
    .unwrap_or_else(|e| panic!("{e}"));
    // ((x * 2) * 2 + w) * 3 * 2
    for _ in 0..3 {
        assert_eq!(run(&module, "forward", [1., 2., 3., 4.]), [84., 168., 252., 336.]);
    }
}

#[test]
fn several_methods_of_one_program_share_library_and_weights() {
    let library = compile(&Model { weight_bytes: 64, ..Model::default() });
    let weights = floats(&[0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 1., 2., 3., 4.]);
    let key = weights_key(&weights);
    let module = load(&Program {
        methods: vec![
            Method::through("once", 2, vec![library.delegate(&key, &[0, 1])]),
            Method::through(
                "twice",
                3,
                vec![library.delegate(&key, &[0, 1]), library.delegate(&key, &[1, 2])],
            ),
        ],
        named_data: vec![library.named(), (key, weights)],
    })
    .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run(&module, "once", [1., 1., 1., 1.]), [3., 4., 5., 6.]);
    assert_eq!(run(&module, "twice", [1., 1., 1., 1.]), [7., 10., 13., 16.]);
    assert_eq!(run(&module, "once", [0., 0., 0., 0.]), [1., 2., 3., 4.]);
}

fn refused(program: &Program) -> String {
    match load(program) {
        Ok(_) => panic!("the program was loaded"),
        Err(e) => e.to_string(),
    }
}

/// A program of one delegate without weights.
fn weightless(library: &Library) -> Program {
    let (key, empty) = no_weights();
    library.program(&key, vec![library.named(), (key.clone(), empty)])
}

#[test]
fn weights_that_do_not_match_their_hash_are_refused() {
    let library = compile(&Model { weight_bytes: 64, ..Model::default() });
    let key = weights_key(&floats(&[1.0; 16]));
    let blobs = vec![library.named(), (key.clone(), floats(&[2.0; 16]))];
    let text = refused(&library.program(&key, blobs));
    assert!(text.contains("SHA-256") && text.contains("weights"), "{text}");
}

#[test]
fn weights_of_the_wrong_size_are_refused() {
    let library = compile(&Model { weight_bytes: 64, ..Model::default() });
    let weights = floats(&[1.0; 8]);
    let key = weights_key(&weights);
    let text = refused(&library.program(&key, vec![library.named(), (key.clone(), weights)]));
    assert!(text.contains("64") && text.contains("32"), "{text}");
}

#[test]
fn weights_that_are_missing_are_named() {
    let library = compile(&Model { weight_bytes: 64, ..Model::default() });
    let key = weights_key(&floats(&[1.0; 16]));
    let text = refused(&library.program(&key, vec![library.named()]));
    assert!(text.contains(&key), "{text}");
}

#[test]
fn a_payload_that_names_nothing_is_refused() {
    let library = compile(&Model::default());
    let mut program = weightless(&library);
    for payload in [&b"\xff\xfe"[..], b"one line", b"\n", b"a\nb\nc"] {
        program.methods[0].delegates[0].processed = payload.to_vec();
        let text = refused(&program);
        assert!(!text.is_empty());
    }
}

#[test]
fn the_older_payload_finds_its_blobs_by_method() {
    let library = compile(&Model { weight_bytes: 64, ..Model::default() });
    let weights = floats(&[0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 5., 6., 7., 8.]);
    let mut program = library.program(
        "",
        vec![
            ("forward_so_blob".into(), Blob::Bytes(library.bytes.clone())),
            ("forward_weights_blob".into(), weights),
        ],
    );
    program.methods[0].delegates[0].processed = Vec::new();
    let module = load(&program).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run(&module, "forward", [0., 0., 0., 0.]), [5., 6., 7., 8.]);
}

#[test]
fn a_library_that_is_no_library_is_refused() {
    for bytes in [b"#!/bin/sh\n".to_vec(), b"\x7fELF".to_vec(), Vec::new()] {
        let library = Library::new(bytes);
        let text = refused(&weightless(&library));
        assert!(!text.is_empty());
    }
}

#[test]
fn a_library_without_the_container_functions_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (source, output) = (dir.path().join("empty.c"), dir.path().join("empty.so"));
    std::fs::write(&source, "int nothing(void) { return 0; }\n").unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&output, &source])
        .status()
        .expect("the C compiler starts");
    assert!(compiled.success());
    let library = Library::new(std::fs::read(output).unwrap());
    let text = refused(&weightless(&library));
    assert!(text.contains("AOTInductorModelContainer"), "{text}");
}

#[test]
fn an_unused_openmp_library_that_is_not_there_does_not_stop_a_model() {
    // The linker records a library by its SONAME: one that exists only while linking.
    let dir = tempfile::tempdir().unwrap();
    let (source, stub) = (dir.path().join("omp.c"), dir.path().join("libomp.so"));
    std::fs::write(&source, "int omp_nothing(void) { return 0; }\n").unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,/opt/llvm-openmp/lib/libomp.dylib", "-o"])
        .args([&stub, &source])
        .status()
        .expect("the C compiler starts");
    assert!(compiled.success());
    let library = compile(&Model {
        flags: vec!["-Wl,--no-as-needed".into(), stub.to_str().unwrap().into()],
        ..Model::default()
    });
    assert!(
        etmetal_tests::edit::find(&library.bytes, b"/opt/llvm-openmp/lib/libomp.dylib").is_some(),
        "the model does not name the library: the test would prove nothing"
    );
    let module = load(&weightless(&library)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run(&module, "forward", [1., 2., 3., 4.]), [2., 4., 6., 8.]);
}

#[test]
fn a_kernel_with_a_wrong_type_is_refused_with_its_text() {
    let library = compile(&Model { extra: "bfloat narrow = 1.0f;".into(), ..Model::default() });
    let text = refused(&weightless(&library));
    assert!(text.contains("bfloat narrow = 1.0f;"), "{text}");
}

#[test]
fn dyn_mlp_runs_at_other_batch_sizes() {
    let fixture = etmetal_tests::fixture::Fixture::read("dyn_mlp");
    let module = fixture.load(&runtime());
    // Rows do not depend on each other: other batches are rows of the recorded one.
    let rows: Vec<f32> = fixture.inputs[0].elements().unwrap();
    let expected: Vec<f32> = fixture.outputs[0].elements().unwrap();
    for batch in [1usize, 2, 5] {
        let pick = |from: &[f32], width: usize| -> Vec<f32> {
            (0..batch).flat_map(|i| from[i % 3 * width..][..width].to_vec()).collect()
        };
        let input = HostTensor::from_elements(vec![batch, 8], pick(&rows, 8)).unwrap();
        let outputs = module
            .execute("forward", &[Value::Tensor(input)])
            .unwrap_or_else(|e| panic!("batch {batch}: {e}"));
        let Value::Tensor(output) = &outputs[0] else { panic!("the output is no tensor") };
        assert_eq!(output.sizes(), [batch, 4]);
        let wanted = HostTensor::from_elements(vec![batch, 4], pick(&expected, 4)).unwrap();
        let tolerance = etmetal::runner::compare::Tolerance::of(output.dtype());
        let comparison = etmetal::runner::compare::compare(output, &wanted, tolerance).unwrap();
        assert!(comparison.passes(), "batch {batch}: {comparison:?}");
    }
}
