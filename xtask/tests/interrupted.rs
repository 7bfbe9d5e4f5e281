//! Builds that are stopped in the middle, and two at once: with real CMake and Ninja.

mod bench;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use bench::{Bench, copy_tree};
use rustix::process::{Pid, Signal, kill_process_group};

/// ExecuTorch alone, without the program that names the portable kernels.
const DEFINES: [&str; 3] = [
    "executorch.options.BUILD_PORTABLE_OPS=OFF",
    "executorch.options.BUILD_EXECUTOR_RUNNER=OFF",
    "backend.metal=off",
];

/// Names the folder to build in, for the process that these tests start.
const FOLDER: &str = "ETMETAL_TEST_BUILD_IN";

/// A step of the small tree that writes half of its output, leaves a mark and hangs until it is
/// told to go on (or the test is over); then it fails, and only its next run writes all.
const SLOW: &str = "
file(
  WRITE \"${CMAKE_CURRENT_BINARY_DIR}/slow.sh\"
  \"cd '${CMAKE_CURRENT_SOURCE_DIR}/..'; out='${CMAKE_CURRENT_BINARY_DIR}/slow.txt'\\n\"
  \"if [ ! -e go ]; then printf 'half of' > $out; : > reached\\n\"
  \"while [ -e reached ] && [ ! -e go ]; do sleep 0.05; done; exit 1; fi\\n\"
  \"printf 'half of it and the rest' > $out\\n\"
)
add_custom_command(OUTPUT slow.txt COMMAND sh slow.sh)
add_custom_target(slow ALL DEPENDS slow.txt)
install(FILES \"${CMAKE_CURRENT_BINARY_DIR}/slow.txt\" DESTINATION share)
";

/// In CMake itself: the configuration hangs.
const HANGS: &str = "
execute_process(
  COMMAND sh -c \"[ -e go ] || { : > reached; \
    while [ -e reached ] && [ ! -e go ]; do sleep 0.05; done; exit 1; }\"
  WORKING_DIRECTORY \"${CMAKE_CURRENT_SOURCE_DIR}/..\"
)
";

/// A folder with the small tree, to which `text` was added.
fn place(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("executorch");
    copy_tree(&tree);
    let lists = tree.join("CMakeLists.txt");
    let all = std::fs::read_to_string(&lists).unwrap() + text;
    std::fs::write(&lists, all).unwrap();
    folder
}

/// Builds in the folder that the environment names, if this is the process for it.
fn is_the_build() -> bool {
    let Some(folder) = std::env::var_os(FOLDER) else { return false };
    Bench::with_tree(Path::new(&folder), &DEFINES).build().unwrap();
    true
}

/// A build in a process group of its own: this program again, with the test `test` alone.
fn start(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder)
        .stdout(std::fs::File::create(folder.join("output")).unwrap())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn until_reached(build: &mut Child, folder: &Path) {
    while !folder.join("reached").exists() {
        assert!(build.try_wait().unwrap().is_none(), "the build ended before it hung");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn stop(mut build: Child, signal: Signal) -> ExitStatus {
    let group = Pid::from_raw(build.id().cast_signed()).unwrap();
    kill_process_group(group, signal).unwrap();
    build.wait().unwrap()
}

fn finishes_after(signal: Signal, text: &str, test: &str) {
    let folder = place(text);
    let mut build = start(test, folder.path());
    until_reached(&mut build, folder.path());
    assert!(!stop(build, signal).success());
    std::fs::write(folder.path().join("go"), "").unwrap();
    let bench = Bench::with_tree(folder.path(), &DEFINES);
    assert!(bench.build().unwrap());
    assert!(bench.stage().root().join("lib/libexecutorch_core.a").is_file());
    if text == SLOW {
        let made = std::fs::read_to_string(bench.stage().root().join("share/slow.txt")).unwrap();
        assert_eq!(made, "half of it and the rest");
    }
    assert!(!bench.build().unwrap(), "and then there is nothing left to do");
}

#[test]
fn a_build_killed_while_it_compiles_resumes() {
    if !is_the_build() {
        finishes_after(Signal::KILL, SLOW, "a_build_killed_while_it_compiles_resumes");
    }
}

#[test]
fn a_build_interrupted_while_it_configures_resumes() {
    if !is_the_build() {
        // Not INT, which is ignored in all that a shell without a terminal starts behind itself.
        finishes_after(Signal::TERM, HANGS, "a_build_interrupted_while_it_configures_resumes");
    }
}

#[test]
fn of_two_builds_at_once_the_second_waits_and_finds_all_done() {
    if is_the_build() {
        return;
    }
    let folder = place(SLOW);
    let this = "of_two_builds_at_once_the_second_waits_and_finds_all_done";
    let mut first = start(this, folder.path());
    until_reached(&mut first, folder.path());
    // It would hang too if it did not wait: the first has not been told to go on.
    let bench = Bench::with_tree(folder.path(), &DEFINES);
    let (told, heard) = std::sync::mpsc::channel();
    let second = std::thread::spawn(move || {
        let state = bench.workspace.state();
        drop(xtask::steps::BuildLock::take(&state, |text| told.send(text.to_owned()).unwrap()));
        bench.build().unwrap()
    });
    let text = heard.recv().unwrap();
    assert!(
        text.starts_with(&format!("another build (process {}) is at work", first.id())),
        "{text}"
    );
    stop(first, Signal::KILL);
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert!(second.join().unwrap(), "it finishes what the first had left");
}
