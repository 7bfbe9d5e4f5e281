//! What programs say of themselves, kept while the programs stay the same: asking takes longer
//! than everything else that a build with nothing to do does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::identity;
use crate::process::Invocation;

/// Answers by question and program.
#[derive(Debug, Default)]
pub struct Memory {
    path: Option<PathBuf>,
    known: RefCell<BTreeMap<String, String>>,
    learnt: Cell<bool>,
}

impl Memory {
    /// What is kept at `path`; a file that is missing or damaged counts as empty.
    pub fn load(path: PathBuf) -> Self {
        let known = std::fs::read(&path).ok();
        let known = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let known = RefCell::new(known.unwrap_or_default());
        Self { path: Some(path), known, learnt: Cell::new(false) }
    }

    /// What `question` answers. It is asked again when the file at `program`, whose word the
    /// answer is, has changed.
    ///
    /// # Errors
    /// As [`Invocation::read`].
    pub fn ask(&self, question: &Invocation, program: &Path) -> Result<String> {
        let key = format!("{question} ({})", identity(program));
        if let Some(answer) = self.known.borrow().get(&key) {
            return Ok(answer.clone());
        }
        let answer = question.read()?;
        self.known.borrow_mut().insert(key, answer.clone());
        self.learnt.set(true);
        Ok(answer)
    }

    /// Keeps what was learnt.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn store(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if !self.learnt.get() {
            return Ok(());
        }
        let context = || format!("cannot write {}", path.display());
        let folder = path.parent().context("a memory lies in a folder")?;
        std::fs::create_dir_all(folder).with_context(context)?;
        let file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
        serde_json::to_writer(&file, &*self.known.borrow()).with_context(context)?;
        file.persist(path).with_context(context)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::tests::FakePrograms;

    #[test]
    fn a_program_is_asked_once_and_again_after_it_changed() {
        let fake = FakePrograms::new();
        let path = fake.path("state/memory.json");
        let count = fake.path("count");
        let script = |answer: &str| format!("echo asked >> {}; echo {answer}", count.display());
        let ask = || {
            let memory = Memory::load(path.clone());
            let answer = memory.ask(&Invocation::new(fake.path("cc")).arg("-v"), &fake.path("cc"));
            memory.store().unwrap();
            answer.unwrap()
        };
        let asked = || std::fs::read_to_string(&count).unwrap().lines().count();
        fake.program("cc", &script("one"));
        assert_eq!((ask(), ask(), asked()), ("one\n".into(), "one\n".into(), 1));
        fake.program("cc", &script("another"));
        assert_eq!((ask(), asked()), ("another\n".into(), 2));
        std::fs::write(&path, "{").unwrap();
        assert_eq!((ask(), asked()), ("another\n".into(), 3));
    }
}
