//! What tells people about their device: comparing, the self-test, the profile.

use std::process::Command;
use std::sync::Arc;

use etmetal::device::{Device, DeviceKind, default_device, device_named};
use etmetal::diagnosis::comparing::ComparingDevice;
use etmetal::diagnosis::selftest::{self, Check, Outcome};
use etmetal::kernel::Arguments;
use etmetal::library::Library;
use etmetal::ops;
use etmetal::profile::{self, What, WorkKind};
use etmetal::stream::Stream;
use etmetal::tensor::{DType, Layout, Tensor};
use etmetal_standin::metal::library::misread;

use crate::common::{device, host, lasting_rules, numbers, tensor};
use crate::models::{check, fixtures};

const SOURCE: &str = "#include <metal_stdlib>
using namespace metal;
kernel void doubled(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) { out[i] = 2.0f * x[i]; }";

/// The sources are read right again when it is dropped.
struct Misread;

impl Misread {
    fn of(text: &'static str, as_if: &'static str) -> Misread {
        misread(Some((text, as_if)));
        Misread
    }
}

impl Drop for Misread {
    fn drop(&mut self) {
        misread(None);
    }
}

/// `out = 2 x`, then `out = x @ x`.
fn run(device: &Arc<dyn Device>) {
    let stream = Stream::with_flush_interval(device.clone(), 64);
    let kernel = Library::compile(device, "ours", SOURCE).unwrap().kernel("doubled").unwrap();
    let layout = || Layout::contiguous(&[3, 3]).unwrap();
    let out = Tensor::empty(device, DType::F32, layout()).unwrap();
    let x = tensor(device, DType::F32, &[3, 3], &[3, 1], 0, &numbers(DType::F32, 9, 1));
    let mut arguments = Arguments::new();
    arguments.tensor(0, &out).unwrap();
    arguments.tensor(1, &x).unwrap();
    stream.dispatch(&kernel, &arguments, kernel.grid_1d(9, None).unwrap()).unwrap();
    ops::mm(&stream, &out, &x, &x).unwrap();
    stream.fill((out.storage().buffer(), 0), 4, 0).unwrap();
    stream.commit_and_wait().unwrap();
}

#[test]
pub fn commands_are_profiled_one_by_one() {
    let _rules = lasting_rules();
    let device = device();
    run(&device);
    let (before, start) = (profile::recorded().events.len(), profile::now());
    profile::enable(true);
    run(&device);
    profile::enable(false);
    let end = profile::now();
    let events = profile::recorded().events;
    let works: Vec<_> = events[before..]
        .iter()
        .filter_map(|event| match &event.what {
            What::Work(work) => Some((work.kind, work.name.as_str(), event)),
            What::Span { .. } => None,
        })
        .collect();
    let names: Vec<_> = works.iter().map(|(kind, name, _)| (*kind, *name)).collect();
    let wanted =
        [(WorkKind::Kernel, "ours.doubled"), (WorkKind::Op, "mm"), (WorkKind::Fill, "fill")];
    assert_eq!(names, wanted);
    // By one clock, but for the rounding of numbers of seconds.
    let slack = 10_000;
    let mut last = start;
    for (_, name, event) in works {
        assert!(event.start + slack >= last, "{name}: {event:?} before {last}");
        last = event.start + event.duration;
        assert!(last <= end + slack, "{name}: {event:?} after {end}");
    }
}

#[test]
fn models_on_both_devices_do_the_same() {
    let _rules = lasting_rules();
    for model in ["mlp", "conv_bn_relu", "kv_cache"] {
        let comparing = Arc::new(ComparingDevice::new(device(), host()));
        let device: Arc<dyn Device> = comparing.clone();
        check(&fixtures().join(model), &device);
        let record = comparing.record();
        assert!(record.count > 0 && record.different == 0, "{model}: {record:#?}");
    }
}

#[test]
fn the_command_that_differs_is_found() {
    let _rules = lasting_rules();
    let comparing = Arc::new(ComparingDevice::new(device(), host()));
    let device: Arc<dyn Device> = comparing.clone();
    {
        let _misread = Misread::of("2.0f * x[i]", "i == 4 ? 99.0f : 2.0f * x[i]");
        run(&device);
    }
    let record = comparing.record();
    assert_eq!((record.count, record.different), (3, 1), "{record:#?}");
    let doubled = &record.commands[0];
    assert_eq!(doubled.name, "kernel \"doubled\" of ours");
    let [operand] = &doubled.different[..] else { panic!("{doubled:#?}") };
    assert_eq!((operand.operand.as_str(), operand.count, operand.at), ("buffer(0)", 1, 4));
    assert_eq!(operand.subject, 99.0);
    assert_eq!(comparing.json()["subject"]["kind"], "metal");
}

/// The self-test with some models.
fn checks(names: &[&str]) -> Vec<Check> {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        std::os::unix::fs::symlink(fixtures().join(name), folder.path().join(name)).unwrap();
    }
    let mut checks = Vec::new();
    let models = (!names.is_empty()).then(|| folder.path());
    selftest::run(device(), models, &mut |check| checks.push(check)).unwrap();
    checks
}

#[test]
fn the_self_test_passes_in_full() {
    let _rules = lasting_rules();
    let checks = checks(&["kv_cache", "layernorm", "tiny_llama", "topk"]);
    let failed: Vec<_> =
        checks.iter().filter(|check| matches!(check.outcome, Outcome::Fail(_))).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for group in ["memory", "language", "kernel", "graph", "error", "shaders", "model"] {
        let passed = |check: &Check| check.group == group && check.outcome == Outcome::Pass;
        assert!(checks.iter().any(passed), "{group}");
    }
}

#[test]
fn the_self_test_notices_a_compiler_that_is_wrong() {
    let _rules = lasting_rules();
    let _misread = Misread::of("simd_sum(x[i])", "x[i]");
    let checks = checks(&[]);
    let failed: Vec<_> = checks
        .iter()
        .filter(|check| matches!(check.outcome, Outcome::Fail(_)))
        .map(|check| check.name.as_str())
        .collect();
    assert_eq!(failed, ["sums of a SIMD group"]);
}

#[test]
fn the_environment_chooses_the_device() {
    // The default is chosen once in each process, so others are asked.
    let name = "diagnosis::the_environment_chooses_the_device";
    let marker = "ETMETAL_STANDIN_EXPECT";
    if let Ok(expected) = std::env::var(marker) {
        assert_eq!(default_device().unwrap().kind().to_string(), expected);
        return;
    }
    for (variable, expected) in [("host", "host"), ("metal", "metal"), ("", "metal")] {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(marker, expected)
            .env("ETMETAL_DEVICE", variable)
            .status()
            .unwrap();
        assert!(status.success(), "ETMETAL_DEVICE={variable:?}");
    }
    let _rules = lasting_rules();
    let host = device_named(Some("host")).unwrap();
    assert_eq!(host.kind(), DeviceKind::Host);
    check(&fixtures().join("mlp"), &host);
    let text = device_named(Some("gpu")).unwrap_err().to_string();
    assert!(text.contains("\"metal\" or \"host\""), "{text}");
}
