//! The peer: PyTorch's eager CPU operators where it is installed, else numpy, in a Python process
//! of its own that takes turns with ours.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::clock::Work;

const PROGRAM: &str = include_str!("peer.py");

/// A Python process that answers each line it gets with one line.
pub struct Peer {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    about: String,
}

impl Peer {
    /// Starts one with `threads` threads.
    pub fn start(threads: usize) -> Result<Peer> {
        let python = std::env::var_os("ETMETAL_PYTHON")
            .context("ETMETAL_PYTHON names no Python with numpy: run `cargo xtask bench`")?;
        let mut process = Command::new(&python)
            .args(["-c", PROGRAM, &threads.to_string()])
            .env("OPENBLAS_NUM_THREADS", threads.to_string())
            .env("OMP_NUM_THREADS", threads.to_string())
            // Memory that a result has left is used again, as our pool does: no new pages.
            .env("MALLOC_MMAP_THRESHOLD_", "1073741824")
            .env("MALLOC_TRIM_THRESHOLD_", "8589934592")
            // Overrides for broken old releases; they slow a current one.
            .env_remove("OPENBLAS_CORETYPE")
            .env_remove("OPENBLAS_L2_SIZE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let requests = process.stdin.take();
        let answers = process.stdout.take().context("the peer has no output")?;
        let answers = BufReader::new(answers);
        let mut peer = Peer { process, requests, answers, about: String::new() };
        peer.about = format!("{}, {}", peer.ask("about")?, python.display());
        Ok(peer)
    }

    /// What it is.
    pub fn describe(&self) -> String {
        self.about.clone()
    }

    /// Makes a case ready; gives the name of the library that carries it out.
    pub fn prepare(&mut self, case: &str) -> Result<String> {
        self.ask(&format!("prepare {case}"))
    }

    /// So many values of the last case's result, at even distances.
    pub fn samples(&mut self, count: usize) -> Result<Vec<f64>> {
        let values = self.ask(&format!("samples {count}"))?;
        values.split(' ').map(|value| Ok(value.parse()?)).collect()
    }

    fn ask(&mut self, request: &str) -> Result<String> {
        let requests = self.requests.as_mut().context("the peer is gone")?;
        writeln!(requests, "{request}").context("the peer has ended")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end().split_once(' ') {
            Some(("ok", answer)) => Ok(answer.to_owned()),
            Some(("error", text)) => bail!("the peer cannot {request}: {text}"),
            _ => bail!("the peer ended at {request:?}; its error stands above"),
        }
    }
}

impl Work for Peer {
    fn time(&mut self, repeats: u32) -> Result<Duration> {
        let seconds: f64 = self.ask(&format!("time {repeats}"))?.parse()?;
        Ok(Duration::from_secs_f64(seconds))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends with its input.
        self.requests.take();
        let _ = self.process.wait();
    }
}
