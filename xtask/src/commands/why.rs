//! `cargo xtask why TOPIC`: the reasons for what the last build did.

use std::fmt::Write as _;

use anyhow::Result;

use crate::audit::target::Target;
use crate::why::{Decision, Record, text};
use crate::workspace::Workspace;

/// `cargo xtask why`.
#[derive(Debug, Clone, clap::Args)]
pub struct Why {
    /// What to tell about: `compiler`, `openmp`, a key of presets as `toolchain.generator`, a
    /// table of them as `build`, `audit`; without it, which topics there are
    topic: Option<String>,
    /// Tell about the last build of this preset instead of the last build
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// The target of that build; this machine's where it is not named
    #[arg(long, value_name = "TRIPLE", requires = "preset")]
    target: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Why {
    /// Tells.
    ///
    /// # Errors
    /// Nothing was built, or nothing decided about the topic.
    pub fn run(&self) -> Result<()> {
        let workspace = Workspace::find()?;
        let state = workspace.state();
        let record = match &self.preset {
            None => Record::load(&Record::last(&state))?,
            Some(preset) => {
                let triple = match &self.target {
                    Some(triple) => triple.clone(),
                    None => Target::of_this_machine().triple,
                };
                Record::load(&Record::of(&state, preset, &triple))?
            }
        };
        if self.topic.as_deref() == Some("audit") {
            print!("{}", audit(&record)?);
            return Ok(());
        }
        let decisions: Vec<&Decision> = match &self.topic {
            Some(topic) => record.about(topic)?,
            None => record.decisions.iter().collect(),
        };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&decisions)?);
        } else if self.topic.is_some() {
            print!("{}", text(&decisions));
        } else {
            print!("{}", topics(&record));
        }
        Ok(())
    }
}

/// Every topic with what was decided.
fn topics(record: &Record) -> String {
    let width = record.decisions.iter().map(|d| d.topic.len()).max().unwrap_or(0);
    let mut text = format!("the last build: preset {}, {}\n", record.preset, record.triple);
    for decision in &record.decisions {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:width$}  {}", decision.topic, decision.choice);
    }
    text + "`cargo xtask why TOPIC` tells the reasons of one; `why audit` what the audit found\n"
}

/// What the audit of the build found.
fn audit(record: &Record) -> Result<String> {
    use anyhow::Context as _;
    let path = &record.audit;
    let found = std::fs::read_to_string(path)
        .with_context(|| format!("{}: build again to audit again", path.display()))?;
    let found: serde_json::Value =
        serde_json::from_str(&found).with_context(|| path.display().to_string())?;
    let mut text = String::new();
    let number = |name: &str| found[name].as_u64().unwrap_or(0);
    for file in found["files"].as_array().into_iter().flatten() {
        let images = file["images"].as_array().into_iter().flatten();
        let findings = images.chain([file]).flat_map(|i| i["findings"].as_array());
        for finding in findings.flatten() {
            let field = |name: &str| finding[name].as_str().unwrap_or_default();
            let file = file["path"].as_str().unwrap_or_default();
            let file = file.rsplit('/').next().unwrap_or(file);
            let (level, rule) = (field("level"), field("rule"));
            let _ = writeln!(text, "{level:<8} {rule:<17} {file}: {}", field("message"));
        }
    }
    let _ = writeln!(
        text,
        "{} errors, {} warnings, {} notes ({})",
        number("errors"),
        number("warnings"),
        number("notes"),
        path.display()
    );
    Ok(text)
}
