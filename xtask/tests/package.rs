//! A release of the stage under test: made, made again, read back, damaged, and interrupted.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use xtask::environment::Environment;
use xtask::package::catalogue::{self, Catalogue};
use xtask::package::make::{Made, Staged, make};
use xtask::package::target::Target;
use xtask::package::verify::{Options, Verdict, verify};
use xtask::package::{dist, provenance, sbom, sums};
use xtask::workspace::Workspace;

/// A time for everything: the same wherever this runs.
const EPOCH: &str = "1767225600";

fn environment() -> Environment {
    Environment::current().with("SOURCE_DATE_EPOCH", EPOCH)
}

fn workspace() -> Workspace {
    Workspace::find().unwrap()
}

/// The stage that `cargo xtask test` has built and names.
fn staged() -> Staged {
    let named = |name: &str| {
        let path = std::env::var_os(name);
        PathBuf::from(path.unwrap_or_else(|| panic!("{name} is not set: run `cargo xtask test`")))
    };
    let triple = xtask::audit::target::Target::of_this_machine().triple;
    Staged {
        target: Target::of_triple(&triple).unwrap(),
        preset: xtask::commands::preset::resolve("metal", &[], &Environment::default()).unwrap(),
        stage: named("ETMETAL_STAGE"),
        python: named("ETMETAL_PYTHON"),
    }
}

fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| make(&workspace(), &[staged()], &environment(), &mut |_| {}).unwrap())
}

fn verified(path: &Path) -> Verdict {
    verify(path, &Options::default(), &environment()).unwrap()
}

#[test]
fn a_release_holds_what_it_says_and_is_verified() {
    let made = made();
    let folder = tempfile::tempdir().unwrap();
    let dist = folder.path().join("dist");
    dist::publish(&dist, &made.files).unwrap();
    let verdict = verified(&dist);
    assert_eq!(verdict.faults, [""; 0], "{:#?}", verdict.good);
    let linkage = verdict.good.iter().filter(|line| line.contains(": the linkage of ")).count();
    assert_eq!(linkage, made.catalogue.archives.len(), "{:#?}", verdict.good);
    what_is_promised_is_in_it(&made.catalogue);
    a_wheel_says_what_it_needs(made);
    // The same check by others' tools.
    let mut check = Command::new("sha256sum");
    let output =
        check.args(["--check", "--quiet", sums::NAME]).current_dir(&dist).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    a_flipped_byte_is_named(&dist, made);
}

fn what_is_promised_is_in_it(catalogue: &Catalogue) {
    let archive = |ending: &str| {
        let found = catalogue.archives.iter().find(|(name, _)| name.ends_with(ending));
        let (name, archive) = found.unwrap_or_else(|| panic!("no {ending}"));
        (name.trim_end_matches(ending), archive)
    };
    let (name, tar) = archive(".tar.zst");
    for path in [
        "bin/etmetal",
        "include/etmetal_runner.h",
        "lib/cmake/etmetal/etmetal-config.cmake",
        "lib/pkgconfig/etmetal.pc",
        "share/etmetal/shaders/attention.metal",
        "share/licenses/etmetal/LICENSE-MIT",
        "share/licenses/etmetal/THIRD-PARTY.txt",
    ] {
        assert!(tar.members.contains_key(&format!("{name}/{path}")), "{path}");
    }
    assert_eq!(tar.members[&format!("{name}/bin/etmetal")].mode, "755");
    // It names a program of this machine.
    assert!(!tar.members.contains_key(&format!("{name}/lib/etmetal/msl-compiler")));
    let (_, wheel) = archive(".whl");
    let library = format!("etmetal/lib/libetmetal{}", std::env::consts::DLL_SUFFIX);
    assert!(wheel.members.contains_key(&library));
    let (name, sdist) = archive(".tar.gz");
    for path in ["PKG-INFO", "pyproject.toml", "src/etmetal/runtime.py", "LICENSE-MIT"] {
        assert!(sdist.members.contains_key(&format!("{name}/{path}")), "{path}");
    }
}

fn a_wheel_says_what_it_needs(made: &Made) {
    let wheel = made.files.keys().find(|name| name.ends_with(".whl")).unwrap();
    if cfg!(target_os = "linux") {
        assert!(wheel.contains("-py3-none-manylinux_2_"), "{wheel}");
    }
    let bill = String::from_utf8(made.files[&sbom::name()].clone()).unwrap();
    for part in ["pkg:cargo/half@", "pkg:pypi/executorch@", "pkg:cargo/etmetal@"] {
        assert!(bill.contains(part), "{part}");
    }
    assert!(!bill.contains("pkg:cargo/insta@"), "what only tests use is not inside");
    let subjects = provenance::subjects(&made.files[&provenance::name()]).unwrap();
    assert!(subjects.contains_key(wheel));
}

/// Flips a byte somewhere in each member of each archive, and in the other files; each is told,
/// with its member. Of small archives every byte is flipped where `package::verify` is tested.
fn a_flipped_byte_is_named(dist: &Path, made: &Made) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (name, archive) in &made.catalogue.archives {
        for part in &archive.parts {
            let at = part.offset + random.below(part.length);
            let faults = with_flip(dist, name, &made.files[name], usize::try_from(at).unwrap());
            let wanted = format!("{name}: the member {} is damaged", part.name);
            assert!(faults.iter().any(|fault| fault.starts_with(&wanted)), "{at}: {faults:?}");
        }
    }
    let others = [catalogue::name(), sbom::name(), provenance::name(), sums::NAME.to_owned()];
    for name in others {
        let bytes = &made.files[&name];
        for _ in 0..3 {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            let faults = with_flip(dist, &name, bytes, at);
            let told = faults.iter().any(|fault| fault.contains(&name));
            assert!(told, "{name} byte {at}: {faults:?}");
        }
    }
    assert!(verified(&dist.join(sbom::name())).faults.is_empty(), "all flips were undone");
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    /// The next one below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What is wrong with the release while one bit of a file is another.
fn with_flip(dist: &Path, name: &str, bytes: &[u8], at: usize) -> Vec<String> {
    let path = dist.join(name);
    let mut flipped = bytes.to_vec();
    flipped[at] ^= 1;
    std::fs::write(&path, &flipped).unwrap();
    let verdict = verify(&path, &Options::default(), &environment());
    std::fs::write(&path, bytes).unwrap();
    match verdict {
        Ok(verdict) => verdict.faults,
        Err(error) => vec![format!("{error:#}")],
    }
}

#[test]
fn the_same_stage_gives_the_same_bytes_under_another_umask_and_time() {
    let first = made();
    let copy = tempfile::tempdir().unwrap();
    let stage = copy.path().join("elsewhere").join(staged().stage.file_name().unwrap());
    let copied = Command::new("sh")
        .args(["-c", "umask 077 && mkdir -p \"$(dirname \"$1\")\" && cp -R \"$0\" \"$1\""])
        .args([&staged().stage, &stage])
        .status()
        .unwrap();
    assert!(copied.success());
    let second = Staged { stage, ..staged() };
    let second = make(&workspace(), &[second], &environment(), &mut |_| {}).unwrap();
    let differences = xtask::package::compare::compare(
        &first.files,
        &second.files,
        first.epoch,
        &Default::default(),
    );
    assert_eq!(differences, [""; 0]);
}

/// Names the folder to put a release into, for the process that the next test starts.
const FOLDER: &str = "ETMETAL_TEST_PUBLISH_IN";

#[test]
fn an_interrupted_package_leaves_the_release_before_or_the_next() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return publish_for_ever(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let dist = folder.path().join("dist");
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    // Not INT, which is ignored in all that a shell without a terminal starts behind itself.
    for signal in [Signal::KILL, Signal::TERM].into_iter().cycle().take(12) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["an_interrupted_package_leaves_the_release_before_or_the_next", "--exact"])
            .env(FOLDER, folder.path())
            .process_group(0)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while !dist.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random.below(100_000)));
        kill_process_group(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        is_whole(&dist);
    }
    dist::publish(&dist, &release("last")).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "what was left half done is removed by the next: {left:?}");
}

fn publish_for_ever(folder: &Path) {
    let mut number = 0;
    loop {
        dist::publish(&folder.join("dist"), &release(&number.to_string())).unwrap();
        number += 1;
    }
}

fn release(text: &str) -> BTreeMap<String, Vec<u8>> {
    let member =
        |n: usize| (format!("file-{n}"), format!("{text} {n} ").repeat(10_000).into_bytes());
    let mut files: BTreeMap<_, _> = (0..8).map(member).collect();
    let sums =
        files.iter().map(|(name, bytes)| (name.clone(), xtask::package::digest::sha256(bytes)));
    let sums = sums::Sums(sums.collect());
    files.insert(sums::NAME.into(), sums.text().into_bytes());
    files
}

/// Every file is there, with the hash that SHA256SUMS has for it.
fn is_whole(dist: &Path) {
    let sums = sums::Sums::parse(&std::fs::read(dist.join(sums::NAME)).unwrap()).unwrap();
    assert_eq!(std::fs::read_dir(dist).unwrap().count(), sums.0.len() + 1);
    for (name, hash) in &sums.0 {
        let bytes = std::fs::read(dist.join(name)).unwrap();
        assert_eq!(&xtask::package::digest::sha256(&bytes), hash, "{name}");
    }
}
