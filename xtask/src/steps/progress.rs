//! How the work is shown: a bar a step on a terminal, plain lines elsewhere. Always on standard
//! error, so that standard output belongs to what is run.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shows one step at a time.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    total: usize,
}

/// A step that is being shown.
#[derive(Debug)]
pub struct Shown {
    bar: Option<ProgressBar>,
    head: String,
    start: Instant,
}

impl Progress {
    /// For `total` steps; `plain` asks for lines even on a terminal, as when output of programs
    /// is to appear between them.
    pub fn new(total: usize, plain: bool) -> Self {
        Self { terminal: !plain && std::io::stderr().is_terminal(), total }
    }

    /// Begins to show the step at `index`, which runs because of `reason`.
    pub fn begin(&self, index: usize, name: &str, reason: &str) -> Shown {
        let head = format!("[{}/{}] {name}", index + 1, self.total);
        let bar = self.terminal.then(|| {
            let style =
                ProgressStyle::with_template("{spinner} {prefix} {elapsed:.dim}  {wide_msg:.dim}")
                    .expect("the template is a constant");
            let bar = ProgressBar::new_spinner().with_style(style).with_prefix(head.clone());
            bar.set_message(reason.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            eprintln!("{head} ({reason})");
        }
        Shown { bar, head, start: Instant::now() }
    }
}

impl Shown {
    /// Shows the last line that a program wrote.
    pub fn line(&self, line: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(line.trim().to_owned());
        }
    }

    /// Ends with success, and perhaps with a remark.
    pub fn done(self, remark: Option<String>) {
        self.end("done in", &remark.map_or(String::new(), |remark| format!("; {remark}")));
    }

    /// Ends with failure.
    pub fn failed(self) {
        self.end("failed after", "");
    }

    fn end(self, how: &str, remark: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("{} {how} {:.1} s{remark}", self.head, self.start.elapsed().as_secs_f64());
    }
}
