//! Presets: what to build, declared in `presets/*.toml`.
//!
//! A preset is resolved in layers, the later over the earlier:
//!
//! 1. the files, parents first (see [`inherits`]);
//! 2. `[host.linux]` or `[host.macos]` of those files, in the same order;
//! 3. `[target."TRIPLE"]` of those files, in the same order;
//! 4. `ETMETAL_TABLE_KEY` of the environment (see [`variables`]);
//! 5. `-D key=value` of the command line.
//!
//! Every value remembers the place that set it ([`Sourced`]). Each table of the file is one
//! module here, which holds its keys, their documentation and the type that the rest of the
//! program reads. Nothing here starts a program: what is wrong with a preset is told, all of it,
//! before anything is done.

pub mod backend;
pub mod build;
pub mod define;
pub mod document;
pub mod error;
pub mod executorch;
pub mod exercise;
pub mod export;
pub mod fix;
pub mod identity;
pub mod inherits;
pub mod json_schema;
pub mod link;
pub mod loose;
pub mod machine;
pub mod options;
pub mod origin;
pub mod package;
pub mod platform;
pub mod schema;
pub mod settings;
pub mod show;
pub mod toolchain;
pub mod validate;
pub mod value;
pub mod variables;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use document::Document;
pub use error::{Fault, PresetError};
pub use identity::Identity;
pub use inherits::Source;
pub use loose::Loose;
pub use origin::{Origin, SourceFile, Sourced};
pub use settings::Settings;
pub use value::Value;

use crate::environment::Environment;

/// What a preset is resolved for.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// The kind of machine that builds: `linux`, `macos`.
    pub host: &'a str,
    /// The triple of the machine that builds.
    pub triple: &'a str,
    /// The environment, for `ETMETAL_*`.
    pub environment: &'a Environment,
    /// The `-D` arguments.
    pub defines: &'a [String],
    /// The repository: `executorch.path` is relative to it.
    pub root: &'a Path,
    /// Where ExecuTorch's sources are fetched to, if that is known: what is there already says
    /// which options it has.
    pub fetched: Option<&'a Path>,
}

/// A preset with every layer merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// `[preset]` of the file itself.
    pub identity: Identity,
    /// The kind of machine that builds: `linux`, `macos`.
    pub host: String,
    /// The triple of the machine that builds.
    pub machine: String,
    /// The triple to build for: `build.target`, else the building machine's.
    pub target: String,
    /// `[executorch]`.
    pub executorch: executorch::Executorch,
    /// `[backend]`.
    pub backend: backend::Backend,
    /// `[toolchain]`.
    pub toolchain: toolchain::Toolchain,
    /// `[build]`.
    pub build: build::Build,
    /// `[link]`.
    pub link: link::Link,
    /// `[package]`.
    pub package: package::Package,
    /// Every merged setting, with its origin and what it overrode.
    pub settings: Settings,
}

/// The layers of a preset, merged.
#[derive(Debug)]
struct Merged {
    identity: Identity,
    settings: Settings,
    target: String,
    /// Whether every file could be read: only then can something be missing.
    whole: bool,
}

impl Preset {
    /// Resolves the preset `name` for the machine, environment and command line of `context`, and
    /// checks it.
    ///
    /// # Errors
    /// Everything that is wrong with the files, the variables and the definitions.
    pub fn resolve(
        source: &dyn Source,
        name: &str,
        context: &Context<'_>,
    ) -> Result<Self, PresetError> {
        let (merged, mut faults) = Self::merge(source, name, context);
        let Some(merged) = merged else { return Err(faults) };
        faults.extend(check(&merged, context));
        let whole = merged.whole;
        match Self::read(merged, context) {
            Ok(preset) => faults.sorted().or(preset),
            Err(missing) => {
                if whole {
                    faults.extend(missing);
                }
                Err(faults.sorted())
            }
        }
    }

    /// Lays the layers over each other; nothing where there is no such preset.
    fn merge(
        source: &dyn Source,
        name: &str,
        context: &Context<'_>,
    ) -> (Option<Merged>, PresetError) {
        let (inherits::Line { documents, whole }, mut faults) = inherits::linearize(source, name);
        let (variables, wrong) = variables::parse(context.environment);
        faults.extend(wrong);
        let (defines, wrong) = define::parse(context.defines);
        faults.extend(wrong);
        let Some(identity) = documents.last().map(|own| own.identity.clone()) else {
            return (None, faults);
        };
        let mut settings = Settings::default();
        documents.iter().for_each(|d| settings.overlay(&d.settings));
        documents
            .iter()
            .filter_map(|d| d.hosts.get(context.host))
            .for_each(|s| settings.overlay(s));
        let mut over = settings.clone();
        over.overlay(&variables);
        over.overlay(&defines);
        let target = over.text("build.target").map_or(context.triple.to_owned(), |set| set.value);
        documents.iter().filter_map(|d| d.targets.get(&target)).for_each(|s| settings.overlay(s));
        settings.overlay(&variables);
        settings.overlay(&defines);
        (Some(Merged { identity, settings, target, whole }), faults)
    }

    fn read(merged: Merged, context: &Context<'_>) -> Result<Self, PresetError> {
        let Merged { identity, settings, target, .. } = merged;
        let mut faults = PresetError::default();
        let mut keep = |fault: PresetError| faults.extend(fault);
        let executorch = executorch::Executorch::read(&settings).map_err(&mut keep).ok();
        let backend = backend::Backend::read(&settings).map_err(&mut keep).ok();
        let toolchain = toolchain::Toolchain::read(&settings).map_err(&mut keep).ok();
        let build = build::Build::read(&settings).map_err(&mut keep).ok();
        let (Some(executorch), Some(backend), Some(toolchain), Some(build)) =
            (executorch, backend, toolchain, build)
        else {
            return Err(faults.placed(&identity.origin));
        };
        let link = link::Link::read(&settings);
        let package = package::Package::read(&settings);
        Ok(Self {
            identity,
            host: context.host.to_owned(),
            machine: context.triple.to_owned(),
            target,
            executorch,
            backend,
            toolchain,
            build,
            link,
            package,
            settings,
        })
    }
}

/// What is wrong with settings that are good each by itself.
fn check(merged: &Merged, context: &Context<'_>) -> PresetError {
    let Merged { identity, settings, target, .. } = merged;
    let mut faults = PresetError::default();
    if let (false, Some(first)) = (identity.builds_on(context.host), identity.hosts.first()) {
        let hosts: Vec<_> = identity.hosts.iter().map(|host| host.value.as_str()).collect();
        let what = format_args!(
            "the preset `{}` is built on {}, and this is {}",
            identity.name,
            hosts.join(" or "),
            context.host
        );
        faults.push(Fault::at(&first.origin, what));
        return faults;
    }
    let from =
        settings.text("executorch.from").map(|set| set.map(|word| executorch::From::named(&word)));
    let metal =
        settings.text("backend.metal").map(|set| set.map(|word| backend::Metal::named(&word)));
    faults.extend(platform::check(settings, from.as_ref(), metal.as_ref(), context.host, target));
    faults.extend(validate::check(settings, from.as_ref(), metal, context, target));
    faults
}

/// The folder of preset files.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// `presets/` of the workspace at `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The file of the preset `name`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join("presets").join(format!("{name}.toml"))
    }
}

impl Source for Folder {
    fn read(&self, name: &str) -> io::Result<Option<SourceFile>> {
        if name.is_empty() || name.contains(['/', '\\', '.']) {
            return Ok(None);
        }
        match std::fs::read_to_string(self.file(name)) {
            Ok(text) => {
                let path = Path::new("presets").join(format!("{name}.toml"));
                Ok(Some(SourceFile { path, text }))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join("presets")) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                (path.extension()? == "toml")
                    .then(|| path.file_stem().map(|s| s.to_string_lossy().into_owned()))?
            })
            .collect();
        names.sort();
        names
    }
}
