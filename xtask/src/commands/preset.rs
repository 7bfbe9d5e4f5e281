//! `cargo xtask preset`: looks at presets, checks, mends and makes them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde_json::json;

use super::build;
use crate::environment::Environment;
use crate::preset::schema::{self, HOSTS};
use crate::preset::{
    Context, Document, Folder, Loose, Origin, Preset, PresetError, Source, Value, export, fix,
    inherits, json_schema, machine, show, validate,
};
use crate::workspace::Workspace;

/// `cargo xtask preset`.
#[derive(Debug, Clone, clap::Args)]
pub struct PresetCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// List the presets there are
    List(List),
    /// Show every setting of a preset, with all layers merged
    Show(Show),
    /// Check presets for every machine that they can be built on
    Check(Check),
    /// Make a new preset that starts from another
    New(New),
    /// Write CMake presets of this machine's builds, for IDEs
    ExportCmake(ExportCmake),
    /// Write presets/schema.json, the JSON schema of presets for editors
    Schema,
    /// Print the options that an ExecuTorch source tree declares, as a recorded table
    Record(Record),
}

impl PresetCommand {
    /// Does what the command line says; true if nothing is wrong.
    ///
    /// # Errors
    /// What failed, and what to do.
    pub fn run(&self) -> Result<bool> {
        let root = Workspace::root()?;
        let folder = Folder::new(&root);
        match &self.action {
            Action::List(list) => list.run(&folder).map(|()| true),
            Action::Show(show) => show.run(&root).map(|()| true),
            Action::Check(check) => check.run(&root),
            Action::New(new) => new.run(&folder).map(|()| true),
            Action::ExportCmake(export) => export.run(&root).map(|()| true),
            Action::Schema => {
                let path = root.join(json_schema::PATH);
                fix::write(&path, &json_schema::text())?;
                println!("written: {}", json_schema::PATH);
                Ok(true)
            }
            Action::Record(record) => record.run().map(|()| true),
        }
    }
}

/// Resolves the preset `name` for this machine. Starts no program.
///
/// # Errors
/// Everything that is wrong with it, with the lines that it is about.
pub fn resolve(name: &str, defines: &[String], environment: &Environment) -> Result<Preset> {
    let workspace = Workspace::find()?;
    let root = workspace.root.as_path();
    let triple = machine::triple();
    let context = Context {
        host: machine::host()?,
        triple: &triple,
        environment,
        defines,
        root,
        fetched: Some(&workspace.executorch()),
    };
    Preset::resolve(&Folder::new(root), name, &context).map_err(|error| shown(name, &error))
}

/// The error as people read it.
fn shown(name: &str, error: &PresetError) -> anyhow::Error {
    let text = error.render(console::colors_enabled_stderr());
    anyhow!("the preset `{name}` cannot be used: {}\n\n{text}", count(error))
}

fn count(error: &PresetError) -> String {
    match error.faults().len() {
        1 => "1 fault".to_owned(),
        n => format!("{n} faults"),
    }
}

#[derive(Debug, Clone, clap::Args)]
struct List {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl List {
    fn run(&self, folder: &Folder) -> Result<()> {
        let documents = documents(folder)?;
        print!("{}", if self.json { list_json(&documents)? } else { list_text(&documents) });
        Ok(())
    }
}

fn documents(folder: &Folder) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for name in folder.names() {
        let file = folder.read(&name)?.with_context(|| format!("{name} is gone"))?;
        documents.push(Document::parse(&file.into(), &name).0);
    }
    Ok(documents)
}

fn list_text(documents: &[Document]) -> String {
    let width = documents.iter().map(|d| d.identity.name.len()).max().unwrap_or(0);
    let line = |document: &Document| {
        let identity = &document.identity;
        let hosts: Vec<_> = identity.hosts.iter().map(|host| host.value.as_str()).collect();
        let only = match hosts.is_empty() {
            true => String::new(),
            false => format!(" (on {})", hosts.join(", ")),
        };
        format!("{:width$}  {}{only}\n", identity.name, identity.description)
    };
    documents.iter().map(line).collect()
}

fn list_json(documents: &[Document]) -> Result<String> {
    let entry = |document: &Document| {
        let identity = &document.identity;
        let values = |list: &[crate::preset::Sourced<String>]| -> Vec<String> {
            list.iter().map(|item| item.value.clone()).collect()
        };
        json!({
            "name": identity.name,
            "description": identity.description,
            "inherits": values(&identity.inherits),
            "hosts": values(&identity.hosts),
        })
    };
    let list: Vec<_> = documents.iter().map(entry).collect();
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

#[derive(Debug, Clone, clap::Args)]
struct Show {
    /// The preset: the name of a file in presets/
    name: String,
    /// Say for each value which file and line set it, and what it overrode
    #[arg(long)]
    explain: bool,
    /// Write JSON; always with the origins
    #[arg(long)]
    json: bool,
    /// As seen on this kind of machine instead of this one
    #[arg(long, value_parser = ["linux", "macos"])]
    host: Option<String>,
    /// Override a setting of the preset
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    define: Vec<String>,
}

impl Show {
    fn run(&self, root: &Path) -> Result<()> {
        let environment = Environment::current();
        let here = machine::host()?;
        let host = self.host.as_deref().unwrap_or(here);
        let triple = match host == here {
            true => machine::triple(),
            false => machine::usual_triple(host).to_owned(),
        };
        let context = Context {
            host,
            triple: &triple,
            environment: &environment,
            defines: &self.define,
            root,
            fetched: None,
        };
        let preset = Preset::resolve(&Folder::new(root), &self.name, &context)
            .map_err(|error| shown(&self.name, &error))?;
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(&show::json(&preset))?),
            false => print!("{}", show::text(&preset, self.explain)),
        }
        Ok(())
    }
}

#[derive(Debug, Clone, clap::Args)]
struct Check {
    /// Preset files; every preset of the repository where none is named
    files: Vec<PathBuf>,
    /// Write required options that are missing into the files, and show what changed
    #[arg(long)]
    fix: bool,
}

impl Check {
    fn run(&self, root: &Path) -> Result<bool> {
        let files = match self.files.is_empty() {
            false => self.files.clone(),
            true => {
                let folder = Folder::new(root);
                folder.names().iter().map(|name| folder.file(name)).collect()
            }
        };
        let mut good = true;
        for file in &files {
            let source = Loose::new(root, file)?;
            if self.fix
                && let Some(diff) = mend(&source, root)?
            {
                println!("{diff}");
            }
            let (hosts, faults) = check(&source, root);
            let shown = source.shown().display();
            if faults.is_empty() {
                println!("ok: {shown} ({})", hosts.join(", "));
                continue;
            }
            good = false;
            let text = faults.render(console::colors_enabled_stderr());
            eprintln!("{shown}: {}\n\n{text}\n", count(&faults));
        }
        Ok(good)
    }
}

/// What is wrong with a preset on the hosts that it can be built on.
fn check(source: &Loose, root: &Path) -> (Vec<&'static str>, PresetError) {
    let (line, faults) = inherits::linearize(source, source.name());
    let Some(own) = line.documents.last() else { return (Vec::new(), faults) };
    let hosts: Vec<_> = HOSTS.iter().copied().filter(|host| own.identity.builds_on(host)).collect();
    let environment = Environment::default();
    let mut all = PresetError::default();
    for host in &hosts {
        let triple = machine::usual_triple(host);
        let context =
            Context { host, triple, environment: &environment, defines: &[], root, fetched: None };
        if let Err(faults) = Preset::resolve(source, source.name(), &context) {
            all.extend(faults);
        }
    }
    (hosts, all.sorted())
}

/// Writes what the faults propose, until they propose nothing more: what an option requires may
/// require more. Gives back what changed.
fn mend(source: &Loose, root: &Path) -> Result<Option<String>> {
    let path = source.path();
    let read =
        || std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let original = read()?;
    if original.parse::<toml_edit::DocumentMut>().is_err() {
        // What is wrong with it is told by the check.
        return Ok(None);
    }
    let mut text = original.clone();
    loop {
        let (_, faults) = check(source, root);
        let mut fixes = Vec::new();
        for fault in faults.faults() {
            // Beside the option that needs it, where that is in this file, in the same overlay;
            // what is inherited stays as it is for others.
            let place = fault.origin.as_ref().and_then(Origin::place);
            let here = place.filter(|place| place.file.path == source.shown());
            fixes.extend(fault.fixes.iter().map(|(name, value)| {
                (here.map_or_else(|| name.clone(), |place| place.full_name(name)), value.clone())
            }));
        }
        let mended =
            fix::apply(&text, &fixes).with_context(|| format!("cannot mend {}", path.display()))?;
        if mended == text {
            break;
        }
        fix::write(path, &mended)?;
        text = mended;
    }
    Ok((text != original).then(|| fix::diff(source.shown(), &original, &text)))
}

#[derive(Debug, Clone, clap::Args)]
struct New {
    /// Its name: small letters, digits and `-`
    name: String,
    /// A preset to start from; more than once for several
    #[arg(long, value_name = "NAME", default_value = "metal")]
    inherits: Vec<String>,
    /// One line for people
    #[arg(long, default_value = "")]
    description: String,
}

impl New {
    fn run(&self, folder: &Folder) -> Result<()> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        ensure!(
            !self.name.is_empty() && self.name.bytes().all(plain),
            "`{}` is no name for a preset: small letters, digits and `-` are",
            self.name
        );
        for parent in &self.inherits {
            if folder.read(parent)?.is_none() {
                bail!(
                    "there is no preset `{parent}`{}",
                    schema::suggestion(parent, folder.names())
                );
            }
        }
        let path = folder.file(&self.name);
        ensure!(!path.exists(), "{} is there already", path.display());
        fix::write(&path, &self.text())?;
        println!(
            "written: presets/{0}.toml\nsee: cargo xtask preset show {0} --explain",
            self.name
        );
        Ok(())
    }

    fn text(&self) -> String {
        let text = |text: &str| Value::Text(text.to_owned()).toml_text();
        format!(
            "{}\n[preset]\nname = {}\ndescription = {}\ninherits = {}\n",
            json_schema::DIRECTIVE,
            text(&self.name),
            text(&self.description),
            Value::List(self.inherits.clone()).toml_text()
        )
    }
}

#[derive(Debug, Clone, clap::Args)]
struct ExportCmake {
    /// The file; CMake looks for it beside CMakeLists.txt
    #[arg(long, default_value = "runtime/CMakeUserPresets.json")]
    output: PathBuf,
}

impl ExportCmake {
    fn run(&self, root: &Path) -> Result<()> {
        let path = root.join(&self.output);
        export::check(&path)?;
        let folder = Folder::new(root);
        let here = machine::host()?;
        let environment = Environment::current();
        let mut presets = Vec::new();
        for name in folder.names() {
            let (line, _) = inherits::linearize(&folder, &name);
            if line.documents.last().is_some_and(|own| own.identity.builds_on(here)) {
                presets.push(resolve(&name, &[], &environment)?);
            }
        }
        let mut commands = Vec::new();
        for (preset, command) in build::configurations(presets)? {
            let name = &preset.identity.name;
            match command {
                None => println!("left out: {name} (it is configured in ExecuTorch's own tree)"),
                Some(command) => commands.push((preset, command)),
            }
        }
        let text = serde_json::to_string_pretty(&export::document(&commands))? + "\n";
        fix::write(&path, &text)?;
        println!(
            "written: {} ({} presets)\nbuild a preset once with `cargo xtask build`: it makes the \
             Rust library and the tools that these name",
            self.output.display(),
            commands.len()
        );
        Ok(())
    }
}

#[derive(Debug, Clone, clap::Args)]
struct Record {
    /// A source tree of ExecuTorch
    checkout: PathBuf,
}

impl Record {
    fn run(&self) -> Result<()> {
        let schema = validate::declared_in(&self.checkout)?;
        print!("{}", schema.to_toml());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
