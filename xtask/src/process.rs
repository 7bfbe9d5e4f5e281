//! Child processes as data: shown exactly as they are run.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};
use xshell::Shell;

/// A program with its arguments, folder and changes to the environment.
///
/// [`fmt::Display`] gives the same thing as a line for a POSIX shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    program: PathBuf,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    env: Vec<(String, Option<OsString>)>,
}

impl Invocation {
    /// `program` without arguments, in the current folder, with this process's environment.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), cwd: None, env: Vec::new() }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Runs in `folder`.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), Some(value.into())));
        self
    }

    /// Takes a variable out of the environment.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.push((name.to_owned(), None));
        self
    }

    /// Its arguments.
    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    fn command(&self) -> Result<Command> {
        let shell = Shell::new().context("cannot tell the current folder")?;
        if let Some(cwd) = &self.cwd {
            shell.change_dir(cwd);
        }
        let mut command = shell.cmd(&self.program).args(&self.args);
        for (name, value) in &self.env {
            command = match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ok(command.into())
    }

    fn cannot_start(&self) -> String {
        format!("cannot start `{self}`: is {} installed?", self.program.display())
    }

    /// Runs to the end and gives each line of standard output and standard error, in the order
    /// of their arrival, to `on_line` without the line's end. Standard input is empty.
    ///
    /// # Errors
    /// The program cannot be started or waited for, or `on_line` failed. That the program itself
    /// fails is told by the status.
    pub fn run_lines(&self, mut on_line: impl FnMut(&str) -> Result<()>) -> Result<ExitStatus> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        let mut command = self.command()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = patiently(|| command.spawn()).with_context(|| self.cannot_start())?;
        // The command holds the pipe's writing ends: with them open the reader would never end.
        drop(command);
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            on_line(text.trim_end_matches(['\n', '\r']))?;
        }
        Ok(child.wait()?)
    }

    /// Runs to the end and gives back standard output.
    ///
    /// # Errors
    /// The program cannot be started, or it fails: with what it wrote to standard error.
    pub fn read(&self) -> Result<String> {
        let mut command = self.command()?;
        command.stdin(Stdio::null());
        let output = patiently(|| command.output()).with_context(|| self.cannot_start())?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("`{self}` failed ({}):\n{}", status(output.status), errors.trim_end());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Replaces this process by the program.
    ///
    /// # Errors
    /// The program cannot be started; otherwise this does not come back.
    pub fn exec(&self) -> Result<std::convert::Infallible> {
        use std::os::unix::process::CommandExt as _;
        std::io::stdout().flush()?;
        let error = self.command()?.exec();
        Err(error).with_context(|| self.cannot_start())
    }
}

/// Starts a program, again where its file is open for writing: another thread that started one at
/// the wrong moment passes such a file on for an instant.
fn patiently<T>(mut start: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    for _ in 0..50 {
        match start() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            other => return other,
        }
    }
    start()
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cwd) = &self.cwd {
            write!(f, "cd {} && ", quote(cwd.as_os_str()))?;
        }
        if !self.env.is_empty() {
            f.write_str("env ")?;
            for (name, _) in self.env.iter().filter(|(_, value)| value.is_none()) {
                write!(f, "-u {name} ")?;
            }
            for (name, value) in &self.env {
                if let Some(value) = value {
                    write!(f, "{name}={} ", quote(value))?;
                }
            }
        }
        f.write_str(&quote(self.program.as_os_str()))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quote(arg)))
    }
}

/// `text` as one word of a POSIX shell.
pub fn quote(text: &OsStr) -> String {
    let text = text.to_string_lossy().replace('\0', "");
    shlex::try_quote(&text).map_or_else(|_| text.clone(), std::borrow::Cow::into_owned)
}

/// How a program ended, in words.
pub fn status(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invocation_is_shown_as_the_shell_would_take_it() {
        let invocation = Invocation::new("/usr/bin/cc")
            .args(["-o", "a b", "it's", ""])
            .cwd("/tmp/x y")
            .env("LANG", "C.UTF 8")
            .without_env("CFLAGS");
        assert_eq!(
            invocation.to_string(),
            "cd '/tmp/x y' && env -u CFLAGS LANG='C.UTF 8' /usr/bin/cc -o 'a b' \"it's\" ''"
        );
    }

    #[test]
    fn what_is_shown_does_what_is_run() {
        let invocation = Invocation::new("sh")
            .args([
                "-c",
                "printf '%s|' \"$PWD\" \"$A\" \"$@\"",
                "sh",
                "a  b",
                "$HOME",
                "it's \"q\"",
            ])
            .cwd("/")
            .env("A", "x; y");
        let run = invocation.read().unwrap();
        let shown = Invocation::new("sh").args(["-c", &invocation.to_string()]).read().unwrap();
        assert_eq!(run, shown);
        assert_eq!(run, "/|x; y|a  b|$HOME|it's \"q\"|");
    }

    #[test]
    fn lines_of_both_streams_arrive_and_the_status_tells() {
        let mut lines = Vec::new();
        let ended = Invocation::new("sh")
            .args(["-c", "echo one; echo two >&2; printf three; exit 3"])
            .run_lines(|line| {
                lines.push(line.to_owned());
                Ok(())
            })
            .unwrap();
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(status(ended), "exit status 3");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Invocation::new("/nowhere/cc").arg("-v").read().unwrap_err();
        assert_eq!(error.to_string(), "cannot start `/nowhere/cc -v`: is /nowhere/cc installed?");
        let killed = Invocation::new("sh").args(["-c", "kill -9 $$"]).read().unwrap_err();
        assert!(killed.to_string().contains("(killed by signal 9)"), "{killed}");
    }
}
