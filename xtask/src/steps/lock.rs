//! One build at a time in a target folder.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};

/// Held while a build changes the target folder; the system lets go of it when the process ends,
/// however it ends.
#[derive(Debug)]
pub struct BuildLock {
    _file: File,
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
                on_wait(&format!(
                    "another build (process {who}) is at work in {}; waiting for it to end",
                    folder.parent().unwrap_or(folder).display()
                ));
                file.lock().with_context(context)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        }
        file.set_len(0).with_context(context)?;
        file.rewind().with_context(context)?;
        writeln!(file, "{}", std::process::id()).with_context(context)?;
        Ok(Self { _file: file })
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
        // It can be had again; perhaps after a moment, while a child that another test starts
        // still has a copy of the file.
        BuildLock::take(&state, |_| ()).unwrap();
    }
}
