use std::path::Path;

use super::*;
use crate::device::host::Options;

fn all_checks(device: Arc<dyn Device>, models: Option<&Path>) -> Vec<Check> {
    let mut checks = Vec::new();
    run(device, models, &mut |check| checks.push(check)).unwrap();
    checks
}

#[test]
fn the_host_device_passes() {
    let models = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    // The others run on the stand-in for Metal.
    for name in ["kv_cache", "topk"] {
        let to = models.path().join(name);
        std::fs::create_dir(&to).unwrap();
        for file in std::fs::read_dir(fixtures.join(name)).unwrap() {
            let file = file.unwrap();
            if file.path().is_file() {
                std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
        }
    }
    let checks = all_checks(HostDevice::shared(), Some(models.path()));
    let bad: Vec<_> = checks.iter().filter(|check| check.outcome != Outcome::Pass).collect();
    // `topk` is an op graph: it has no shaders.
    let skipped = |check: &&&Check| matches!(check.outcome, Outcome::Skipped(_));
    assert_eq!(bad.iter().filter(skipped).count(), bad.len(), "{bad:#?}");
    assert!(bad.len() <= 1, "{bad:#?}");
    for group in ["memory", "language", "kernel", "graph", "error", "shaders", "model"] {
        let passed = |check: &Check| check.group == group && check.outcome == Outcome::Pass;
        assert!(checks.iter().any(passed), "{group}");
    }
}

/// A device that does something wrong with the commands or the source that it is given.
#[test]
fn a_device_that_computes_wrong_numbers_fails() {
    let device: Arc<dyn Device> = Arc::new(HostDevice::new(Options {
        threads: 1,
        pool_bytes: 0,
        checked: false,
        fission: true,
    }));
    let session = Session { device: Arc::new(MslRoute::of(device)), host: HostDevice::shared() };
    let wrong = planned("graph", "wrong", |session| {
        let mut measured = Measured::default();
        let given = data::Given::noise(crate::tensor::DType::F32, &[4], 1);
        let tensor = data::read(&given.on(&session.device)?)?;
        measured.compare_with("it", &tensor, &[0.0, f64::NAN, 0.0, 0.0])?;
        Ok(measured)
    });
    let check = wrong.run(&session);
    let Outcome::Fail(why) = &check.outcome else { panic!("{check:?}") };
    assert!(why.contains("4 of 4 elements differ") && check.largest_error.is_infinite(), "{why}");
    let panics = planned("graph", "panics", |_| panic!("of course")).run(&session);
    assert_eq!(panics.outcome, Outcome::Fail("a panic: of course".into()));
    let nothing = planned("graph", "nothing", |_| Ok(Measured::default())).run(&session);
    assert_eq!(nothing.outcome, Outcome::Fail("nothing was compared".into()));
}

#[test]
fn a_folder_without_models_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let result = run(HostDevice::shared(), Some(empty.path()), &mut |_| panic!("a check"));
    assert!(result.unwrap_err().to_string().contains("holds no folder with a model.pte"));
}
