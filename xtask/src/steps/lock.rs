//! One build at a time in a target folder.
//!
//! The lock is the operating system's, on an open file that every program of the build inherits.
//! So it outlasts a build that is killed for as long as a compiler of that build still writes;
//! a build that ends by itself lets go of it at once, whatever it leaves running (a compiler
//! cache's server, say).

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};

/// Held while a build changes the target folder.
#[derive(Debug)]
pub struct BuildLock {
    file: File,
}

impl Drop for BuildLock {
    fn drop(&mut self) {
        // Unlocks it for those who inherited it too. Where it fails the end of the process does.
        let _ = self.file.unlock();
    }
}

impl BuildLock {
    /// Takes the lock of `folder`. While another process holds it, `on_wait` is told once who,
    /// and this waits.
    ///
    /// # Errors
    /// The folder or the lock file cannot be made.
    pub fn take(folder: &Path, on_wait: impl FnOnce(&str)) -> Result<Self> {
        let path = folder.join("lock");
        let context = || format!("cannot lock {}", path.display());
        std::fs::create_dir_all(folder).with_context(context)?;
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(context)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).with_context(context)?;
                let holder = holder.trim();
                let who = if holder.is_empty() { "unknown" } else { holder };
                let place = folder.parent().unwrap_or(folder).display();
                on_wait(&match holder.parse().ok().and_then(rustix::process::Pid::from_raw) {
                    Some(process) if rustix::process::test_kill_process(process).is_err() => {
                        format!(
                            "a build (process {who}) in {place} was stopped, and programs that it \
                         started are still at work; waiting for them to end"
                        )
                    }
                    _ => format!(
                        "another build (process {who}) is at work in {place}; waiting for it to end"
                    ),
                });
                file.lock().with_context(context)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        }
        file.set_len(0).with_context(context)?;
        file.rewind().with_context(context)?;
        writeln!(file, "{}", std::process::id()).with_context(context)?;
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).with_context(context)?;
        Ok(Self { file })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_second_build_says_whom_it_waits_for_and_then_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("xtask");
        let first = BuildLock::take(&state, |_| panic!("nobody holds it")).unwrap();
        let (told, heard) = mpsc::channel();
        let second = std::thread::spawn({
            let state = state.clone();
            move || BuildLock::take(&state, |text| told.send(text.to_owned()).unwrap()).unwrap()
        });
        let text = heard.recv().unwrap();
        assert_eq!(
            text,
            format!(
                "another build (process {}) is at work in {}; waiting for it to end",
                std::process::id(),
                folder.path().display()
            )
        );
        assert!(!second.is_finished(), "it waits while the first holds the lock");
        drop(first);
        drop(second.join().unwrap());
        BuildLock::take(&state, |_| panic!("nobody holds it")).unwrap();
    }

    const FOLDER: &str = "ETMETAL_TEST_KILLED_BUILD";

    /// What the process to be killed does: a build with a compiler.
    fn build_until_killed(folder: &Path) {
        let _lock = BuildLock::take(folder, |_| panic!("nobody holds it")).unwrap();
        let mut compiler = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let note = folder.join("compiler");
        std::fs::write(note.with_extension("new"), compiler.id().to_string()).unwrap();
        std::fs::rename(note.with_extension("new"), note).unwrap();
        compiler.wait().unwrap();
    }

    #[test]
    fn a_killed_build_holds_the_lock_until_its_last_program_ends() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            return build_until_killed(Path::new(&folder));
        }
        let folder = tempfile::tempdir().unwrap();
        let this = "steps::lock::tests::a_killed_build_holds_the_lock_until_its_last_program_ends";
        let mut build = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", this])
            .env(FOLDER, folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let note = folder.path().join("compiler");
        while !note.exists() {
            assert!(build.try_wait().unwrap().is_none(), "the build ended by itself");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let compiler: i32 = std::fs::read_to_string(&note).unwrap().parse().unwrap();
        let compiler = rustix::process::Pid::from_raw(compiler).unwrap();
        build.kill().unwrap();
        build.wait().unwrap();
        let mut told = String::new();
        let _lock = BuildLock::take(folder.path(), |text| {
            told = text.to_owned();
            rustix::process::kill_process(compiler, rustix::process::Signal::KILL).unwrap();
        })
        .unwrap();
        assert!(told.starts_with(&format!("a build (process {}) in ", build.id())), "{told}");
        assert!(told.ends_with("; waiting for them to end"), "{told}");
    }

    #[test]
    fn a_finished_build_holds_nothing_though_a_program_of_it_runs_on() {
        let folder = tempfile::tempdir().unwrap();
        let lock = BuildLock::take(folder.path(), |_| panic!("nobody holds it")).unwrap();
        let mut server = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        drop(lock);
        let second = BuildLock::take(folder.path(), |_| panic!("nobody holds it"));
        server.kill().unwrap();
        server.wait().unwrap();
        second.unwrap();
    }
}
